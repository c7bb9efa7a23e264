"""Models in the format of llama2.c: their weights under Hugging Face's names compute what llama2.c computes."""

import struct

import numpy as np
import pytest
import torch

from headstart.data.directory import write
from headstart.data.llama2c import BEGIN, Pieces, read_bundle

SIZES = {"dim": 8, "hidden": 12, "layers": 2, "heads": 2, "kv_heads": 2, "symbols": 265, "length": 6}
PIECES = ["<unk>", "<s>", "</s>", *map(chr, range(256)), " ", "a", "b", "ab", " a", " ab"]


@pytest.fixture
def bundle(tmp_path):
    """A file with random weights, and the weights by the format's own names."""
    draw, d, h, n = np.random.default_rng(0), SIZES["dim"], SIZES["hidden"], SIZES["layers"]
    shapes = {
        "table": (SIZES["symbols"], d), "att": (n, d), "q": (n, d, d), "k": (n, d, d), "v": (n, d, d), "o": (n, d, d),
        "ffn": (n, d), "w1": (n, h, d), "w2": (n, d, h), "w3": (n, h, d), "last": (d,), "rotations": (6, 4),
    }  # fmt: skip
    weights = {name: draw.standard_normal(shape).astype("<f4") for name, shape in shapes.items()}
    data = struct.pack("<7i", *SIZES.values()) + b"".join(array.tobytes() for array in weights.values())
    data += struct.pack("<i", 3)
    for number, piece in enumerate(PIECES):
        text = piece.encode()
        data += struct.pack("<fi", -float(number) if number > 258 else 0.0, len(text)) + text
    (tmp_path / "model.data").write_bytes(data)
    return tmp_path / "model.data", weights


def llama2c(weights, tokens):
    """The forward pass as the format's author writes it, with rotations of neighbours; logits [T, symbols]."""
    head = SIZES["dim"] // SIZES["heads"]

    def norm(x, scale):
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5) * scale

    def rotated(x):
        out = x.reshape(len(x), SIZES["heads"], head).copy()
        for place in range(len(x)):
            for pair in range(0, head, 2):
                angle = place / 10000 ** (pair / head)
                a, b = x.reshape(out.shape)[place, :, pair], x.reshape(out.shape)[place, :, pair + 1]
                out[place, :, pair] = a * np.cos(angle) - b * np.sin(angle)
                out[place, :, pair + 1] = a * np.sin(angle) + b * np.cos(angle)
        return out

    x = weights["table"][tokens].astype(np.float64)
    for i in range(SIZES["layers"]):
        y = norm(x, weights["att"][i])
        q, k = rotated(y @ weights["q"][i].T), rotated(y @ weights["k"][i].T)
        v = (y @ weights["v"][i].T).reshape(q.shape)
        logits = np.einsum("thd,shd->hts", q, k) / head**0.5
        logits[:, np.triu(np.ones(logits.shape[1:], dtype=bool), 1)] = -np.inf
        p = np.exp(logits - logits.max(axis=-1, keepdims=True))
        attended = np.einsum("hts,shd->thd", p / p.sum(axis=-1, keepdims=True), v).reshape(x.shape)
        x = x + attended @ weights["o"][i].T
        y = norm(x, weights["ffn"][i])
        gate = y @ weights["w1"][i].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ weights["w3"][i].T)) @ weights["w2"][i].T
    return norm(x, weights["last"]) @ weights["table"].T


def test_the_hugging_face_model_computes_what_llama2c_computes(bundle, tmp_path, monkeypatch):
    pytest.importorskip("transformers", reason="the extra huggingface brings it")
    from headstart.integrations.llama2c import load_stories

    monkeypatch.setenv("HEADSTART_DATA", str(tmp_path / "data"))
    write("tiny", read_bundle(bundle[0]), "made here")
    model, tokenizer = load_stories("tiny")
    tokens = [BEGIN, *tokenizer.encode("ab b")]
    with torch.no_grad():
        ours = model(input_ids=torch.tensor([tokens])).logits[0].numpy()
    np.testing.assert_allclose(ours, llama2c(bundle[1], tokens), rtol=1e-3, atol=1e-4)


def test_text_is_cut_into_the_best_pieces_and_put_together_again(bundle):
    tokenizer = Pieces(read_bundle(bundle[0]).arrays)
    names = [PIECES[id] for id in tokenizer.encode("ab b")]
    assert names == [" ab", " ", "b"]
    assert tokenizer.decode(tokenizer.encode("ab b")) == "ab b"
    assert tokenizer.decode([BEGIN, *tokenizer.encode("é\n b")]) == "é\n b"
