"""Frozen parts as canonical JSON, by which the store knows them, and back.

A field that a part gains later carries `metadata={"since": n}`: it is left out at its default, so that what is stored
keeps its name, and its default never changes.
"""

import hashlib
import importlib
import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any

from headstart.core.errors import HeadstartError

# What an encoded part holds beside its fields.
_NO_FIELDS = ("type", "semantics", "format")


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


def settings(data: Any, name: str = "") -> dict[str, Any]:
    """Encoded data as one flat dict: "optimizer" is the class, "optimizer.lr" a field of it."""
    if isinstance(data, list):
        data = {str(i): value for i, value in enumerate(data)}
    if not isinstance(data, dict):
        return {name: data}
    out: dict[str, Any] = {name: str(data["type"]).rpartition(":")[2]} if name and "type" in data else {}
    for key, value in data.items():
        if key not in _NO_FIELDS:
            out |= settings(value, f"{name}.{key}" if name else str(key))
    return out


def decode(data: Any, expected: Any = Any, trust: Iterable[str] = ()) -> Any:
    """The inverse of `encode`, for data that may come from a stranger: it runs no code but that of known parts.

    A part is built only if `module:Class` is a frozen dataclass that calls itself so, if its module is of headstart or
    named in `trust` (a package stands for all its modules), and if the type is what the field it fills is declared to
    be; `expected` is that of the whole. No other module is imported.
    """
    if isinstance(trust, str):
        raise HeadstartError(f"trust={trust!r}: give a list of modules, [{trust!r}]")
    try:
        return _decoded(data, expected, tuple(trust))
    except RecursionError:
        raise HeadstartError("a stored part cannot be built: its parts are nested too deeply") from None


def _decoded(data: Any, expected: Any, trust: tuple[str, ...]) -> Any:
    if isinstance(data, list):
        return tuple(_decoded(v, _element(expected, i), trust) for i, v in enumerate(data))
    if not isinstance(data, dict):
        return data
    if "type" not in data:
        return {key: _decoded(value, _value(expected), trust) for key, value in data.items()}
    kind = _kind(data["type"], trust)
    if not _fits(kind, expected):
        raise HeadstartError(f"stored part {data['type']!r} is not what its place asks for, {_said(expected)}")
    declared = _declared(kind)
    values = {k: _decoded(v, declared.get(k, Any), trust) for k, v in data.items() if k not in _NO_FIELDS}
    try:
        return kind(**values)
    except (AttributeError, TypeError, ValueError, ArithmeticError) as error:
        raise HeadstartError(f"stored part {data['type']!r} cannot be built here: {error}") from None


def _kind(written: Any, trust: tuple[str, ...]) -> Any:
    """The frozen dataclass of this name."""
    module, _, name = str(written).partition(":")
    if not any(module == known or module.startswith(f"{known}.") for known in ("headstart", *trust)):
        raise HeadstartError(
            f"stored part {written!r} is not of headstart, and to build it runs code of {module or 'no module'!r}; "
            f"if you trust that module, name it: trust=[{module!r}]"
        )
    try:
        kind: Any = importlib.import_module(module)
        for attribute in name.split("."):
            kind = vars(kind)[attribute] if isinstance(kind, type) else getattr(kind, attribute)
    except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise HeadstartError(
            f"stored part {written!r} cannot be built here: {error}; is its module on the path?"
        ) from None
    own = isinstance(kind, type) and (kind.__module__, kind.__qualname__) == (module, name)
    if not own or not is_dataclass(kind) or not getattr(kind, "__dataclass_params__").frozen:  # noqa: B009
        raise HeadstartError(f"stored part {written!r} is no frozen dataclass of that name, and nothing else is built")
    return kind


def _declared(kind: type) -> dict[str, Any]:
    """The types of a part's fields; any, where they name something that is imported for type checks alone."""
    try:
        return typing.get_type_hints(kind)
    except NameError:
        return {}


def _options(expected: Any) -> Iterator[Any]:
    """The members of a union, or the type itself."""
    if isinstance(expected, types.UnionType) or typing.get_origin(expected) is typing.Union:
        for option in typing.get_args(expected):
            yield from _options(option)
    else:
        yield expected


def _element(expected: Any, index: int) -> Any:
    """The type of an element of a sequence that is declared so; anything, where nothing is said of its elements."""
    found = []
    for option in _options(expected):
        inner, origin = typing.get_args(option), typing.get_origin(option)
        if option is Any or option in (tuple, list):
            return Any
        if origin is tuple and inner and inner[-1] is not Ellipsis:
            found += [inner[index]] if index < len(inner) else []
        elif isinstance(origin, type) and issubclass(origin, Iterable):
            found += inner[:1]
    return typing.Union[tuple(found)] if found else None  # noqa: UP007


def _value(expected: Any) -> Any:
    """The type of a value of a mapping that is declared so; anything, where nothing is said of its values."""
    found = []
    for option in _options(expected):
        origin = typing.get_origin(option)
        if option is Any or option is dict:
            return Any
        if isinstance(origin, type) and issubclass(origin, Mapping):
            found.append(typing.get_args(option)[-1])
    return typing.Union[tuple(found)] if found else None  # noqa: UP007


def _fits(kind: type, expected: Any) -> bool:
    """Whether a class may stand where this type is declared. Of a protocol it must have every member."""
    for option in _options(expected):
        if option is Any or option is object or isinstance(option, typing.TypeVar):
            return True
        if not isinstance(option, type):
            continue
        if getattr(option, "_is_protocol", False):
            if _members(option) <= {f.name for f in fields(kind)} | {n for base in kind.__mro__ for n in vars(base)}:
                return True
        elif issubclass(kind, option):
            return True
    return False


def _members(protocol: type) -> set[str]:
    """What a protocol asks for: its methods, properties and annotated names."""
    asked = {
        name
        for base in protocol.__mro__
        if getattr(base, "_is_protocol", False)
        for name in (*vars(base), *vars(base).get("__annotations__", {}))
    }
    return {name for name in asked if not name.startswith("_") or name == "__call__"}


def _said(expected: Any) -> str:
    return " or ".join(str(getattr(option, "__name__", option)) for option in _options(expected))
