"""Frozen parts as canonical JSON, by which the store knows them, and back.

A field that a part gains later carries `metadata={"since": n}`: it is left out at its default, so that what is stored
keeps its name, and its default never changes.
"""

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any

from headstart.core.errors import HeadstartError


def encode(part: Any) -> Any:
    """A part as plain JSON data. Dataclasses carry `type` (module:Class) and their `semantics`."""
    if isinstance(part, Enum):
        return part.value
    if is_dataclass(part) and not isinstance(part, type):
        kind = type(part)
        data: dict[str, Any] = {"type": f"{kind.__module__}:{kind.__qualname__}"}
        if hasattr(kind, "semantics"):
            data["semantics"] = kind.semantics
        for f in fields(part):
            value = getattr(part, f.name)
            if "since" in f.metadata and value == _default(f):
                continue
            # One and 1.0 are the same number, so they are the same cell.
            real = f.type in (float, float | None) and isinstance(value, int)
            data[f.name] = float(value) if real else encode(value)
        return data
    if isinstance(part, Mapping):
        return {str(k): encode(v) for k, v in part.items()}
    if isinstance(part, tuple | list):
        return [encode(v) for v in part]
    if part is None or isinstance(part, bool | int | float | str):
        return part
    raise HeadstartError(f"{part!r} cannot be part of a Run: use a frozen dataclass of plain values")


def _default(f: "Field[Any]") -> Any:
    return f.default if f.default_factory is MISSING else f.default_factory()


def canonical(data: Any) -> str:
    """Encoded data as canonical JSON."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def identity(text: str) -> str:
    """What the store knows a part by: 80 bits of the SHA-256 of its canonical JSON, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def decode(data: Any) -> Any:
    """The inverse of `encode`: imports `module:Class` and calls it, so other people's parts work too."""
    if isinstance(data, list):
        return tuple(decode(v) for v in data)
    if not isinstance(data, dict):
        return data
    if "type" not in data:
        return {key: decode(value) for key, value in data.items()}
    module, _, name = str(data["type"]).partition(":")
    try:
        kind: Any = importlib.import_module(module)
        for attribute in name.split("."):
            kind = getattr(kind, attribute)
        return kind(**{k: decode(v) for k, v in data.items() if k not in ("type", "semantics", "format")})
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise HeadstartError(
            f"stored part {data['type']!r} cannot be built here: {error}; is its module on the path?"
        ) from None
