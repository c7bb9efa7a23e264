"""Answers as JSON that every browser reads: six digits, null for what is no number."""

import json
import math
from typing import Any

import numpy as np


def to_json(data: Any) -> str:
    """Data with arrays as JSON."""
    return json.dumps(_plain(data), separators=(",", ":"), allow_nan=False)


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    if isinstance(data, np.ndarray):
        if data.ndim > 1:
            return [_plain(row) for row in data]
        short = _six_digits(data.astype(np.float64)).tolist()
        return short if np.isfinite(data).all() else [value if math.isfinite(value) else None for value in short]
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return data


def _six_digits(values: Any) -> Any:
    """Values rounded to six significant digits; those that are no number, or too small to scale, as they are."""
    size = np.abs(values)
    usual = np.isfinite(values) & (size > 1e-290)
    place = 5 - np.floor(np.log10(size, where=usual, out=np.zeros_like(size)))
    # By a whole power of ten, up or down, so that the quotient is the number nearest to the decimal.
    up, down = 10.0 ** np.maximum(place, 0), 10.0 ** np.maximum(-place, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(usual, np.round(values * up / down) * down / up, values)
