"""The vectors of words are those of the libraries that the model was made for."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from headstart.core.errors import HeadstartError
from headstart.data.minilm import sentence_vectors, word_pieces

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "1", "12", "##3", "##45", "7", "##7", "0", "words", "##s"]
SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}


def test_a_word_is_cut_into_its_longest_pieces():
    vocabulary = {token: number for number, token in enumerate(VOCABULARY)}
    pieces = {
        word: [VOCABULARY[k] for k in word_pieces(word, vocabulary)] for word in ("1245", "123", "77", "18", "words")
    }
    assert pieces == {
        "1245": ["12", "##45"], "123": ["12", "##3"], "77": ["7", "##7"], "18": ["[UNK]"], "words": ["words"]
    }  # fmt: skip
    tokenizers = pytest.importorskip("tokenizers", reason="the extra huggingface brings it")
    theirs = tokenizers.models.WordPiece(vocab=vocabulary, unk_token="[UNK]")
    for word in pieces:
        assert [token.value for token in theirs.tokenize(word)] == pieces[word]


@pytest.fixture
def model(tmp_path):
    """A small BERT with random weights, in a folder as models are published."""
    transformers = pytest.importorskip("transformers", reason="the extra huggingface brings it")
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), max_position_embeddings=8, attn_implementation="eager", **SIZES
    )
    made = transformers.BertModel(config).eval()
    generator = torch.Generator().manual_seed(0)
    for weight in made.parameters():
        weight.data = torch.randn(weight.shape, generator=generator)
    save_file({name: value.clone() for name, value in made.state_dict().items()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return tmp_path, made


@pytest.mark.slow
def test_sentence_vectors_are_the_normalised_means_of_the_librarys_encoder(model):
    folder, theirs = model
    words = {"0": [2, 10, 3], "123": [2, 5, 6, 3], "77": [2, 8, 9, 3]}
    ours = sentence_vectors(folder, list(words))
    for row, tokens in zip(ours, words.values(), strict=True):
        with torch.no_grad():
            mean = theirs(input_ids=torch.tensor([tokens])).last_hidden_state[0].mean(dim=0)
        np.testing.assert_allclose(row, (mean / mean.norm()).numpy(), atol=2e-6)
    assert np.array_equal(sentence_vectors(folder, ["77"])[0], ours[2])
    with pytest.raises(HeadstartError, match="'Two words'"):
        sentence_vectors(folder, ["Two words"])
