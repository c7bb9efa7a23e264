"""Models and tokenizers in the format of A. Karpathy's llama2.c, as arrays under the names that Hugging Face uses.

A model is seven int32 (dim, hidden, layers, heads, key and value heads, symbols, length) and float32 weights, those of
one kind for all layers together. Queries and keys are rotated in pairs of neighbours there, and in pairs half a head
apart in Hugging Face's Llama, so that the rows of both maps are put in another order. A tokenizer is the length of its
longest piece and, for every piece, its score, its length and its bytes.
"""

import re
import struct
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.data.directory import Tables

HEADER = ("dim", "hidden", "layers", "heads", "kv_heads", "symbols", "length")
# The first pieces are unknown, begin and end; then every byte.
BEGIN, _BYTES = 1, 3


def read_bundle(path: Path) -> Tables:
    """A model and its tokenizer, one after the other in one file, as builds for browsers have them."""
    data = path.read_bytes()
    header = np.frombuffer(data, dtype="<i4", count=len(HEADER))
    sizes = dict(zip(HEADER, map(int, header), strict=True))
    shapes = [shape for _, shape, count in _kinds(**sizes) for _ in range(count)]
    size = sum(int(np.prod(shape)) for shape in shapes)
    weights = np.frombuffer(data, dtype="<f4", count=size, offset=4 * len(HEADER))
    return Tables({"header": header, "weights": weights, **_pieces(data[4 * (len(HEADER) + size) :], sizes["symbols"])})


def _kinds(
    dim: int, hidden: int, layers: int, heads: int, kv_heads: int, symbols: int, length: int
) -> list[tuple[str, tuple[int, ...], int]]:
    """What the file has, in its order: names with a place for the layer, shapes, and how many; the head is tied."""
    keys = dim // heads * kv_heads
    return [
        ("model.embed_tokens.weight", (symbols, dim), 1),
        ("model.layers.{}.input_layernorm.weight", (dim,), layers),
        ("model.layers.{}.self_attn.q_proj.weight", (dim, dim), layers),
        ("model.layers.{}.self_attn.k_proj.weight", (keys, dim), layers),
        ("model.layers.{}.self_attn.v_proj.weight", (keys, dim), layers),
        ("model.layers.{}.self_attn.o_proj.weight", (dim, dim), layers),
        ("model.layers.{}.post_attention_layernorm.weight", (dim,), layers),
        ("model.layers.{}.mlp.gate_proj.weight", (hidden, dim), layers),
        ("model.layers.{}.mlp.down_proj.weight", (dim, hidden), layers),
        ("model.layers.{}.mlp.up_proj.weight", (hidden, dim), layers),
        ("model.norm.weight", (dim,), 1),
        ("rotations", (length, dim // heads), 1),  # cosines and sines, which are computed anew
    ]


def named_weights(sizes: Mapping[str, int], weights: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """The weights of a stored model by the names of Hugging Face's Llama, in its order of rows."""
    out, at, half = {}, 0, sizes["dim"] // sizes["heads"] // 2
    for name, shape, count in _kinds(**sizes):
        for layer in range(count):
            array = weights[at : at + int(np.prod(shape))].reshape(shape)
            if "q_proj" in name or "k_proj" in name:
                array = array.reshape(-1, half, 2, sizes["dim"]).swapaxes(1, 2).reshape(shape)
            out[name.format(layer)] = array
            at += array.size
    del out["rotations"]
    return out


def _pieces(data: bytes, count: int) -> dict[str, NDArray[Any]]:
    """Every piece of text one after another, where each ends, and its score."""
    at, scores, pieces = 4, [], []
    for _ in range(count):
        score, length = struct.unpack_from("<fi", data, at)
        scores.append(score)
        pieces.append(data[at + 8 : at + 8 + length])
        at += 8 + length
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    text = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return {"pieces": text, "ends": ends, "scores": np.array(scores, dtype=np.float32)}


class Pieces:
    """A tokenizer of pieces with scores: of all neighbours, those whose joint piece scores best are joined first.

    Reference: Kudo and Richardson, SentencePiece (2018), byte-pair encoding with bytes to fall back on.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        text, ends = arrays["pieces"].tobytes(), [0, *arrays["ends"].tolist()]
        self.pieces = [text[begin:end] for begin, end in pairwise(ends)]
        self.scores = arrays["scores"].tolist()
        self._known: dict[bytes, list[int]] = {}

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        return {piece: id for id, piece in enumerate(self.pieces) if id >= _BYTES + 256}

    def encode(self, text: str) -> list[int]:
        """The ids of a text, which begins with a space as words do. No piece goes on behind a space."""
        words = re.findall(r" *[^ ]+| +$", f" {text}")
        return [id for word in words for id in self._word(word.encode())]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; begin and end are none of it."""
        parts = [bytes([id - _BYTES]) if id < _BYTES + 256 else self.pieces[id] for id in map(int, ids) if id >= _BYTES]
        return b"".join(parts).decode(errors="replace").removeprefix(" ")

    def _word(self, word: bytes) -> list[int]:
        if word not in self._known:
            self._known[word] = self._joined(word.decode())
        return self._known[word]

    def _joined(self, word: str) -> list[int]:
        ids: list[int] = []
        for character in word:
            known = self._ids.get(character.encode())
            ids += [byte + _BYTES for byte in character.encode()] if known is None else [known]
        while True:
            pairs = [self._ids.get(self.pieces[a] + self.pieces[b]) for a, b in pairwise(ids)]
            there = [(self.scores[id], -place) for place, id in enumerate(pairs) if id is not None]
            if not there:
                return ids
            place = -max(there)[1]
            joined = pairs[place]
            assert joined is not None
            ids[place : place + 2] = [joined]
