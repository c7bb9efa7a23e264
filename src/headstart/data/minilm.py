"""Sentence vectors of all-MiniLM-L6-v2 for plain words and numerals, in a few lines of torch.

A BERT encoder of 6 layers and 384 dimensions; the vector of a text is the mean over its tokens, of norm 1. The folder
holds config.json, vocab.txt and model.safetensors as the model's authors publish them. Reference: Wang et al., "MiniLM:
Deep Self-Attention Distillation", 2020; Devlin et al., "BERT", 2019 (the architecture and its WordPiece tokens).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError

if TYPE_CHECKING:
    import torch

_FIRST, _LAST, _UNKNOWN = "[CLS]", "[SEP]", "[UNK]"


def word_pieces(word: str, vocabulary: Mapping[str, int]) -> list[int]:
    """WordPiece tokens of one lower-case word: the longest piece first; pieces after the first begin with ##."""
    pieces: list[int] = []
    begin = 0
    while begin < len(word):
        mark = "##" if begin else ""
        ends = (end for end in range(len(word), begin, -1) if mark + word[begin:end] in vocabulary)
        end = next(ends, None)
        if end is None:
            return [vocabulary[_UNKNOWN]]
        pieces.append(vocabulary[mark + word[begin:end]])
        begin = end
    return pieces


def sentence_vectors(folder: Path, words: Sequence[str]) -> NDArray[np.float32]:
    """float32 [len(words), dim]: one vector of norm 1 per word; each is a text of its own, so order does not matter."""
    import torch
    from safetensors.torch import load_file

    lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    vocabulary = {token: number for number, token in enumerate(lines)}
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    out = []
    with torch.inference_mode():
        for word in words:
            if not word.isalnum() or not (word.islower() or word.isdigit()):
                raise HeadstartError(f"word {word!r}: give numerals and words of small letters")
            tokens = [vocabulary[_FIRST], *word_pieces(word, vocabulary), vocabulary[_LAST]]
            mean = encoded(torch.tensor(tokens), weights, config).mean(dim=0)
            out.append((mean / mean.norm()).numpy())
    return np.stack(out).astype(np.float32)


def encoded(tokens: "torch.Tensor", weights: Mapping[str, "torch.Tensor"], config: Mapping[str, Any]) -> "torch.Tensor":
    """The last layer of a BERT encoder at every token of one text: [tokens, dim]."""
    from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

    def dense(x: "torch.Tensor", name: str) -> "torch.Tensor":
        return linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x: "torch.Tensor", name: str) -> "torch.Tensor":
        scale, shift = weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"]
        return layer_norm(x, x.shape[-1:], scale, shift, config["layer_norm_eps"])

    heads, num = config["num_attention_heads"], len(tokens)
    table = {name: weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")}
    x = norm(table["word"][tokens] + table["position"][:num] + table["token_type"][0], "embeddings")
    for number in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{number}"
        q, k, v = (
            dense(x, f"{at}.attention.self.{part}").reshape(num, heads, -1).transpose(0, 1)
            for part in ("query", "key", "value")
        )
        attended = scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape(num, -1)
        x = norm(x + dense(attended, f"{at}.attention.output.dense"), f"{at}.attention.output")
        x = norm(x + dense(gelu(dense(x, f"{at}.intermediate.dense")), f"{at}.output.dense"), f"{at}.output")
    return x
