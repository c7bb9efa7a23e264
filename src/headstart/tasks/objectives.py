"""What a language model is asked about a window of text: which symbols it reads, and which it has to say.

Every objective gives inputs and targets int64[n, T]; `weight` float32[n, T] is 1 where a target counts. Attention is
the model's: Transformer(causal=True) for all but `Masked`. So the prefix of `Prefix` and the text before the spans of
`Spans` are read from left to right too, where UL2 lets every symbol of a prefix see all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.samples import Samples

Symbols = NDArray[np.int64]
# draw(num): `num` uniforms in (0, 1) for each window, float64[n, num], the same whenever asked.
Draw = Callable[[int], NDArray[np.float64]]


def _check_share(owner: str, name: str, value: Any) -> None:
    check_positive(owner, name, value)
    if value >= 1:
        raise HeadstartError(f"{owner}({name}={value!r}): {name} is a fraction below 1")


@runtime_checkable
class TextObjective(Protocol):
    """A question about windows of text, for samples of `length` symbols."""

    semantics: ClassVar[int]

    def num_special(self, length: int) -> int:
        """The symbols it adds to those of the text; they are numbered after them."""
        ...

    def num_read(self, length: int) -> int:
        """The symbols of text that it takes of a window."""
        ...

    def samples(self, window: Symbols, length: int, size: int, draw: Draw) -> Samples:
        """Samples of windows int64[n, at least num_read] of `size` different symbols."""
        ...


@dataclass(frozen=True)
class Causal:
    """Every symbol from those before it."""

    semantics: ClassVar[int] = 1

    def num_special(self, length: int) -> int:
        """None."""
        return 0

    def num_read(self, length: int) -> int:
        """One more than a sample has: the last is a target alone."""
        return length + 1

    def samples(self, window: Symbols, length: int, size: int, draw: Draw) -> Samples:
        """The window, and the same one symbol later."""
        return Samples(window[:, :length].copy(), window[:, 1 : length + 1].copy())


@dataclass(frozen=True)
class Prefix:
    """The second part of a window from the first: as `Causal`, but targets count from a place that is uniform in it."""

    semantics: ClassVar[int] = 1

    def num_special(self, length: int) -> int:
        """None."""
        return 0

    def num_read(self, length: int) -> int:
        """As Causal."""
        return length + 1

    def samples(self, window: Symbols, length: int, size: int, draw: Draw) -> Samples:
        """At least one symbol is given, and at least one is asked for."""
        first = (draw(1) * (length - 1)).astype(np.int64)  # targets before it are part of what is given
        asked = np.arange(length) >= first
        data = Causal().samples(window, length, size, draw)
        return Samples(data.x, data.y, asked.astype(np.float32))


@dataclass(frozen=True)
class Masked:
    """A `share` of the symbols of a window from all others, as BERT has it.

    Of the chosen symbols 80% are replaced by a mask, 10% by another symbol of the text, and 10% stay. Their number is
    round(share T), at least one. Reference: Devlin et al., "BERT", 2018, Section 3.1.
    """

    share: float = 0.15

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check_share("Masked", "share", self.share)

    def num_special(self, length: int) -> int:
        """The mask."""
        return 1

    def num_read(self, length: int) -> int:
        """A sample."""
        return length

    def samples(self, window: Symbols, length: int, size: int, draw: Draw) -> Samples:
        """Those with the smallest numbers of a draw are chosen."""
        y, drawn = window[:, :length].copy(), draw(3 * length).reshape(len(window), 3, length)
        num = max(1, round(self.share * length))
        chosen = drawn[:, 0].argsort(axis=1, kind="stable").argsort(axis=1) < num
        other = (drawn[:, 2] * size).astype(np.int64)
        said = np.where(drawn[:, 1] < 0.8, size, np.where(drawn[:, 1] < 0.9, other, y))
        return Samples(np.where(chosen, said, y), y, chosen.astype(np.float32))


@dataclass(frozen=True)
class Spans:
    """Spans that were cut out of a text, said after it: "the <0> sat on <1> mat <0> cat <1> the <2>".

    A `share` of the symbols is cut, in spans of `mean` symbols on average: the numbers of cut symbols and of spans are
    fixed, where the spans lie is drawn. Targets count after the text. Reference: Raffel et al., "Exploring the limits
    of transfer learning with a unified text-to-text Transformer", 2020, Section 3.1.4; here in one sequence, as for a
    decoder.
    """

    share: float = 0.15
    mean: float = 3.0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check_share("Spans", "share", self.share)
        check_positive("Spans", "mean", self.mean)

    def _counts(self, length: int) -> tuple[int, int, int]:
        """(symbols of text, of them cut, spans): text with a mark per span, then marks and spans, then a last mark.

        The sequence has one symbol more than a sample: text + 2 spans + 1 = length + 1.
        """
        for spans in range(max(1, round(self.share * length / self.mean)), 0, -1):
            text = length - 2 * spans
            cut = max(spans, round(self.share * text))
            if text - cut >= spans:
                return text, cut, spans
        raise HeadstartError(f"Spans(...): samples of {length} symbols are too short for this share; use longer ones")

    def num_special(self, length: int) -> int:
        """A mark for each span, and the last one."""
        return self._counts(length)[2] + 1

    def num_read(self, length: int) -> int:
        """The text that is cut."""
        return self._counts(length)[0]

    def samples(self, window: Symbols, length: int, size: int, draw: Draw) -> Samples:
        """The sequence is built by sorting: each symbol has a key that says where it goes."""
        text, cut, spans = self._counts(length)
        drawn, num = draw(text), len(window)
        kept = _parts(drawn[:, : text - cut - 1], text - cut, spans)
        gone = _parts(drawn[:, text - cut - 1 : text - 2], cut, spans)
        # In the text a part that is kept comes before every span that is cut.
        ends = np.stack((kept, gone), axis=2).reshape(num, -1).cumsum(axis=1)
        part = (np.arange(text)[None, :, None] >= ends[:, None, :]).sum(axis=2)
        span, is_cut = part // 2, part % 2 == 1
        marks = np.arange(spans)
        # Keys: text in its order, a mark where its span was; then every span behind its mark; then the last mark.
        keys = np.concatenate(
            (
                np.where(is_cut, 2 * spans + 2 * span + 1, 2 * span),
                np.broadcast_to(2 * marks + 1, (num, spans)),
                np.broadcast_to(2 * spans + 2 * marks, (num, spans)),
                np.full((num, 1), 4 * spans),
            ),
            axis=1,
        )
        symbols = np.concatenate(
            (window[:, :text], np.broadcast_to(size + np.r_[marks, marks, spans], (num, 2 * spans + 1))), axis=1
        )
        whole = np.take_along_axis(symbols, keys.argsort(axis=1, kind="stable"), axis=1)
        asked = np.arange(length) >= text - cut + spans - 1
        weight = np.broadcast_to(asked.astype(np.float32), (num, length)).copy()
        return Samples(whole[:, :-1].copy(), whole[:, 1:].copy(), weight)


def _parts(drawn: NDArray[np.float64], total: int, num: int) -> Symbols:
    """`total` cut into `num` parts of at least one, every way as likely: int64[n, num] from draws [n, total - 1]."""
    cuts = np.sort(drawn.argsort(axis=1, kind="stable")[:, : num - 1] + 1, axis=1)
    return np.diff(cuts, axis=1, prepend=0, append=total)


@dataclass(frozen=True)
class Mixture:
    """Each window has one of several objectives, with the probabilities `shares`. The defaults are those of UL2.

    Reference: Tay et al., "UL2: unifying language learning paradigms", 2022; shares as in the thesis on structure in
    deep learning that has Landscape-Aware Growing, Appendix C.1.2.
    """

    objectives: tuple[Any, ...] = (Causal(), Prefix(), Spans())
    shares: tuple[float, ...] = (0.6, 0.2, 0.2)

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        good = isinstance(self.objectives, tuple) and all(isinstance(each, TextObjective) for each in self.objectives)
        if not good or not self.objectives:
            raise HeadstartError(f"Mixture(objectives={self.objectives!r}): give objectives, (Causal(), Spans())")
        object.__setattr__(self, "shares", checked_shares("Mixture", self.shares, len(self.objectives)))

    def num_special(self, length: int) -> int:
        """As many as the one with most; they share them."""
        return max(each.num_special(length) for each in self.objectives)

    def num_read(self, length: int) -> int:
        """As many as the one with most."""
        return max(each.num_read(length) for each in self.objectives)

    def samples(self, window: Symbols, length: int, size: int, draw: Draw) -> Samples:
        """The first draw decides; all objectives have the same draws after it."""
        which = picked(draw(1)[:, 0], self.shares)
        x, y, weight = (np.empty((len(window), length), dtype=kind) for kind in (np.int64, np.int64, np.float32))
        for number, objective in enumerate(self.objectives):
            rows = which == number
            if rows.any():
                data = objective.samples(window[rows], length, size, lambda num, rows=rows: draw(1 + num)[rows, 1:])
                x[rows], y[rows] = data.x, data.y
                weight[rows] = 1.0 if data.weight is None else data.weight
        return Samples(x, y, weight)


def picked(draws: NDArray[np.float64], shares: tuple[float, ...]) -> Symbols:
    """Which of several with these shares a uniform draw falls to."""
    return np.minimum(np.searchsorted(np.cumsum(shares), draws, side="right"), len(shares) - 1)


def checked_shares(owner: str, shares: Any, num: int) -> tuple[float, ...]:
    """Probabilities of `num` things, divided by their sum; raise where they are none."""
    numbers = tuple(shares) if isinstance(shares, tuple | list) else ()
    good = len(numbers) == num and all(type(n) in (int, float) and 0 < n < float("inf") for n in numbers)
    if not good:
        raise HeadstartError(f"{owner}(shares={shares!r}): give {num} numbers above 0, one for each")
    return tuple(n / sum(numbers) for n in numbers)
