"""What flows between a task and a model: the shape of an input, its symbols, the shape of a prediction."""

from dataclasses import dataclass
from math import prod

from headstart.core.errors import HeadstartError


@dataclass(frozen=True)
class Signature:
    """One sample's shapes. A model is built from the signature of its task.

    `inputs` is the shape of an input. With `symbols`, inputs are whole numbers in [0, symbols) that a model looks up;
    without, they are real. `outputs` is the shape of a prediction: () is one number, (c,) one score per class, and
    (t, c) one score per class and token.
    """

    inputs: tuple[int, ...]
    symbols: int | None = None
    outputs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            shape = getattr(self, name)
            whole = isinstance(shape, tuple | list) and all(type(n) is int and n > 0 for n in shape)
            if not whole or (name == "inputs" and not shape):
                raise HeadstartError(f"Signature({name}={shape!r}): give a tuple of whole numbers above 0")
            object.__setattr__(self, name, tuple(shape))
        if self.symbols is not None and (not isinstance(self.symbols, int) or self.symbols < 1):
            raise HeadstartError(f"Signature(symbols={self.symbols!r}): give the number of symbols, or None")

    @property
    def num_inputs(self) -> int:
        """The coordinates, or symbols, of one input."""
        return prod(self.inputs)

    @property
    def num_outputs(self) -> int:
        """The numbers in one prediction."""
        return prod(self.outputs)
