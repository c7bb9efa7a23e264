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
        return [float(f"{value:.6g}") if math.isfinite(value) else None for value in data.tolist()]
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return data
