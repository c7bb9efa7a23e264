"""Language tasks: what is asked of which window, what is held out, and how text becomes symbols."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.core.streams import Stream, uniforms
from headstart.data.directory import Tables, write
from headstart.data.fetch import fill
from headstart.tasks import held_out

LETTERS = b"abcdefghijklmnopqrstuvwxyz"
MADE = hs.MadeText(num_words=2000)
# The numbers 0 .. 19 over and over: a window says where it was cut.
WINDOW = np.arange(3)[:, None] + np.arange(40)[None] % 20


def draws(num):
    return uniforms(0, Stream.DATA, np.arange(len(WINDOW)), num)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_DATA", str(tmp_path / "data"))
    return tmp_path


def test_a_causal_target_is_the_next_symbol():
    data = hs.Causal().samples(WINDOW, 12, 30, draws)
    assert np.array_equal(data.x, WINDOW[:, :12])
    assert np.array_equal(data.y, WINDOW[:, 1:13])
    assert data.weight is None


def test_a_prefix_is_given_and_the_rest_counts():
    many = np.repeat(WINDOW[:1], 4000, axis=0)
    data = hs.Prefix().samples(many, 6, 30, lambda num: uniforms(0, Stream.DATA, np.arange(4000), num))
    assert np.array_equal(data.y, many[:, 1:7])
    given = (data.weight == 0).sum(axis=1)
    assert np.all(np.diff(data.weight, axis=1) >= 0)  # once it counts, it counts to the end
    np.testing.assert_allclose(np.bincount(given) / 4000, 0.2, atol=0.03)  # 0 to 4 of 6 targets are given away


def test_a_masked_symbol_is_a_mask_another_symbol_or_itself_and_nothing_else_counts():
    many = np.repeat(WINDOW[:1], 4000, axis=0)
    data = hs.Masked(0.15).samples(many, 20, 30, lambda num: uniforms(0, Stream.DATA, np.arange(4000), num))
    assert np.array_equal(data.y, many[:, :20])
    assert np.all(data.weight.sum(axis=1) == 3)
    counts = data.weight > 0
    assert np.array_equal(data.x[~counts], data.y[~counts])
    said, true = data.x[counts], data.y[counts]
    np.testing.assert_allclose((said == 30).mean(), 0.8, atol=0.02)
    np.testing.assert_allclose((said == true).mean(), 0.1 + 0.1 / 30, atol=0.02)
    assert said.max() == 30
    np.testing.assert_allclose(counts.mean(axis=0), 0.15, atol=0.03)


@pytest.mark.parametrize("length", [6, 12, 33, 128])
def test_the_spans_that_were_cut_out_make_the_text_whole_again(length):
    window, size = np.arange(length)[None] + 1000 * np.arange(5)[:, None], 9000
    data = hs.Spans().samples(window, length, size, lambda num: uniforms(3, Stream.DATA, np.arange(5), num))
    read = hs.Spans().num_read(length)
    for x, y, weight, text in zip(data.x, data.y, data.weight, window, strict=True):
        whole = np.append(x, y[-1])
        assert np.array_equal(whole[1:], y)
        first = int(np.flatnonzero(weight)[0]) + 1
        assert np.all(weight[first - 1 :] == 1)
        asked = np.split(whole[first:], np.flatnonzero(whole[first:] >= size))[1:]
        spans = {part[0]: part[1:] for part in asked}
        assert list(spans) == [size + k for k in range(hs.Spans().num_special(length))]
        assert len(spans.pop(size + len(spans) - 1)) == 0  # the last mark ends it
        parts = [spans.pop(s) if s >= size else [s] for s in whole[:first]]
        assert np.array_equal(np.concatenate(parts), text[:read])
        assert not spans
        cut = len(whole) - first - hs.Spans().num_special(length)
        assert abs(cut / read - 0.15) < 0.15


def test_a_mixture_has_each_objective_by_its_share():
    task = hs.Language(MADE, length=16, objective=hs.Mixture())
    data = task.sample(0, np.arange(3000))
    marked = (data.x >= task.vocabulary.size).any(axis=1)
    np.testing.assert_allclose(marked.mean(), 0.2, atol=0.03)
    np.testing.assert_allclose((data.weight == 1).all(axis=1).mean(), 0.6 + 0.2 / 15, atol=0.03)
    alone = replace(task, objective=hs.Mixture((hs.Spans(),), (1,)))
    assert (alone.sample(0, np.arange(50)).x >= task.vocabulary.size).any(axis=1).all()


def test_where_a_window_lies_is_the_same_for_every_objective_and_another_order_has_others():
    task, ids = hs.Language(MADE, length=8), np.arange(20)
    asked = replace(task, objective=hs.Masked()).sample(5, ids)
    first = task.sample(5, ids)
    assert np.array_equal(asked.y, first.x)
    other = replace(task, order=1).sample(5, ids)
    assert not np.array_equal(first.x, other.x)
    assert np.array_equal(held_out(task, 5).x, held_out(replace(task, order=1), 5).x)


def test_no_window_of_training_reads_what_is_held_out(directory):
    # Two books whose last tenths are of symbols of their own.
    book = b"ab" * 450 + b"yz" * 50
    write("books", Tables({"text": np.frombuffer(book * 2, dtype=np.uint8), "starts": np.array([0, 1000, 2000])}), "")
    task = hs.Language("books", length=10, vocabulary=hs.Bytes())
    train, test = task.sample(0, np.arange(2000)), held_out(task, 0)
    assert set(np.unique(train.x)) | set(np.unique(train.y)) == set(b"ab")
    assert set(np.unique(test.x)) | set(np.unique(test.y)) == set(b"yz")


def test_characters_are_ranked_and_rare_ones_share_a_symbol():
    encode = hs.Characters(4).fitted(["aabbbc é".encode() * 2 + b"d"])
    assert encode("bac éd".encode()).tolist() == [0, 1, 3, 2, 3, 3]
    assert hs.Bytes().fitted([])(b"\x00\xff").tolist() == [0, 255]


def test_pairs_of_bytes_are_merged_and_every_text_can_be_said():
    pytest.importorskip("tokenizers")
    encode = hs.BPE(260).fitted([b"the cat the hat the " * 50])
    symbols = encode(b"the the the ")
    assert symbols.max() < 260
    assert len(symbols) < 12
    assert len(encode("né\n".encode())) == 4


def test_a_text_of_your_own_is_read_from_a_folder_or_a_file(directory):
    (directory / "letters").mkdir()
    for name in "ba":
        (directory / "letters" / f"{name}.txt").write_bytes(name.encode() * 100)
    fill("letters", directory / "letters", say=lambda line: None)
    assert hs.Language("letters", 4, vocabulary=hs.Bytes()).sample(0, np.arange(50)).x.max() == ord("b")
    made = fill("one", directory / "letters" / "a.txt", say=lambda line: None)
    assert bytes(made["text"]) == b"a" * 100


def test_several_texts_are_read_by_their_shares(directory):
    for name, book in {"one": b"a" * 100, "two": b"b" * 5000}.items():
        arrays = {"text": np.frombuffer(book, dtype=np.uint8), "starts": np.array([0, len(book)])}
        write(name, Tables(arrays), "")
    task = hs.Language(("one", "two"), 4, vocabulary=hs.Bytes(), shares=(3, 1))
    np.testing.assert_allclose((task.sample(0, np.arange(4000)).x == ord("a")).mean(), 0.75, atol=0.03)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"text": 3}, r"Language\(text=3\): give a set such as 'gutenberg'"),
        ({"length": 1}, "length is a whole number of at least 2"),
        ({"validation": 1.0}, "give the share to hold out, as 0.1"),
        ({"objective": hs.Causal}, "give one such as Causal"),
        ({"vocabulary": "bytes"}, "give one such as Characters"),
        ({"text": (MADE, MADE)}, r"Language\(shares=\(\)\): give 2 numbers above 0"),
        ({"objective": hs.Spans(0.9), "length": 3}, "samples of 3 symbols are too short"),
    ],
)
def test_bad_settings_are_named(wrong, said):
    with pytest.raises(hs.HeadstartError, match=said):
        hs.Language(**{"text": MADE, **wrong})


def test_a_text_that_is_missing_or_too_short_or_none_is_named(directory):
    with pytest.raises(hs.HeadstartError, match="`headstart data get gutenberg` fills it"):
        hs.Language().sample(0, np.arange(2))
    write("short", Tables({"text": np.frombuffer(LETTERS, dtype=np.uint8), "starts": np.array([0, 26])}), "")
    with pytest.raises(hs.HeadstartError, match="its training part has 23 symbols, and a window 33"):
        hs.Language("short").sample(0, np.arange(2))
    write("pixels", Tables({"train_x": np.zeros((2, 1, 2, 2), dtype=np.uint8)}), "")
    with pytest.raises(hs.HeadstartError, match="this set is no text"):
        hs.Language("pixels").sample(0, np.arange(2))
    assert hs.Language().signature == hs.Signature((32,), 96, (32, 96))  # known without the file
