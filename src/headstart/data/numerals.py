"""Vectors of the numerals "0", "1", ...: what a text model knows about numbers."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.data.directory import Tables, open_dataset
from headstart.data.minilm import sentence_vectors

NUMERALS = "numerals"
# More than any modulus of the papers; a thousand numerals take seconds.
_NUM_STORED = 1000


def numerals(num: int, dim: int) -> NDArray[np.float32]:
    """float32 [num, dim]: sentence vectors of the numerals "0" .. str(num - 1) on their `dim` leading principal axes.

    With V [num, 384] the vectors, of norm 1, and V = U S W^T its singular value decomposition (not centred), these are
    V W[:, :dim] = U S[:, :dim], each axis signed so that its largest entry is positive; columns beyond the rank are
    zero. Inner products are those of V where dim >= min(num, 384), and as near to them as `dim` axes allow elsewhere.
    Rows are not normalised again.
    """
    check_count("numerals", "dim", dim)
    check_count("numerals", "num", num)
    vectors = open_dataset(NUMERALS)["vectors"]
    if num > len(vectors):
        raise HeadstartError(f"numerals(num={num}): vectors of {len(vectors)} numerals are stored; give a smaller num")
    u, s, _ = np.linalg.svd(vectors[:num].astype(np.float64), full_matrices=False)
    projected = (u * s)[:, :dim]
    largest = np.take_along_axis(projected, np.abs(projected).argmax(axis=0)[None], axis=0)
    out = np.zeros((num, dim), dtype=np.float32)
    out[:, : projected.shape[1]] = projected * np.where(largest < 0, -1.0, 1.0)
    return out


def read_numerals(folder: Path) -> Tables:
    """The vectors of the numerals, float32 [1000, 384], by the text model in a folder (see `minilm`)."""
    return Tables({"vectors": sentence_vectors(folder, [str(number) for number in range(_NUM_STORED)])})
