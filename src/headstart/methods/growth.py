"""Growing a stack of layers in depth: which layer comes from which, how a new one begins, and what the optimizer keeps.

A run goes on from a shallower one through an operator:
`From(parent, at=Step(1500), via=Grow(index=8, block=4, layers=4), carry=Carry(moments=True))`.
Reference: Karp et al., Landscape-Aware Growing (2024), Section 5.2 of the thesis it is a chapter of.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

import numpy as np

from headstart.core.errors import HeadstartError, check_count
from headstart.core.roles import Parameter
from headstart.core.state import Arrays, State
from headstart.methods.layer_stack import by_layer, find_stack, output_parameters
from headstart.methods.site import Site


class NewLayers(StrEnum):
    """How new layers begin.

    duplicate: as the old layers they stand for. random: freshly drawn. zero_output: duplicates whose outputs, the
    attention's projection and the MLP's last map, are zero (block expansion: Wu et al., LLaMA Pro, 2024). identity:
    freshly drawn with zero outputs (after Net2Net's identity layers: Chen et al., 2016). scaled: duplicates, where a
    layer and its c copies each add 1/(c+1) of what it added (half a step twice: Chang et al., Multi-level Residual
    Networks, 2018).

    In a residual stream that nothing normalises behind a layer (pre-norm, or no norm), zero_output and identity keep
    the function to rounding, and scaled does to first order if block is 1. No operator does in a post-norm model.
    """

    DUPLICATE = "duplicate"
    RANDOM = "random"
    ZERO_OUTPUT = "zero_output"
    IDENTITY = "identity"
    SCALED = "scaled"

    @property
    def drawn(self) -> bool:
        """Whether their weights are fresh."""
        return self in (NewLayers.RANDOM, NewLayers.IDENTITY)

    @property
    def silent(self) -> bool:
        """Whether they add nothing to the stream at first, so that a residual model keeps its function."""
        return self in (NewLayers.ZERO_OUTPUT, NewLayers.IDENTITY)


class NewMoments(StrEnum):
    """What the optimizer knows of new layers.

    copied: the running averages of the layers they stand for. zero: nothing. by_kind: copied for those that do what
    these do, duplicate and scaled, and nothing for the others.
    """

    COPIED = "copied"
    ZERO = "zero"
    BY_KIND = "by_kind"


class NewCount(StrEnum):
    """The optimizer's own step for parameters whose averages begin at zero: their own, 0, or that of the source.

    Adam divides its averages by 1 - beta^step. Under the step of the source, which is large, zero averages are not
    corrected, and the first update is (1 - beta1) / sqrt(1 - beta2) times the rate, 3.16 at PyTorch's defaults. It is
    what a program with one step for all parameters does, and is here to be measured.
    """

    OWN = "own"
    SOURCE = "source"


@dataclass(frozen=True)
class Layer:
    """One layer of a grown stack: the old layer that it is or stands for, whether it is new, and whether it is drawn.

    What it writes to the residual stream is multiplied by `scale`.
    """

    source: int
    new: bool = False
    drawn: bool = False
    scale: float = 1.0


@dataclass(frozen=True)
class Grow:
    """L layers become L + `layers`: of `layers` consecutive ones, every `block` is followed by as many new ones.

    `index` is the first of the layers that grow, from 0; the paper counts from 1 in its text (i = index + 1) and from 0
    in its experiments. With L = 6 and `layers` = 3, in the paper's numbering and new layers in brackets:

        Grow(1, 1, layers=3)            1 2 [2] 3 [3] 4 [4] 5 6
        Grow(1, 3, layers=3)            1 2 3 4 [2 3 4] 5 6
        Grow(1, 1, "random", layers=3)  1 2 [new] 3 [new] 4 [new] 5 6

    With `copies` = c a block is followed by c times as many, and layers / c old ones grow: a model of one layer grows
    to eight by Grow(0, 1, layers=7, copies=7). `moments` and `count` say what the optimizer knows of new layers; they
    act where the run carries moments. Rates that warm up again are the schedule of the grown run. No new layers is the
    untouched run.
    """

    index: int = 0
    block: int = 1
    new: NewLayers = NewLayers.DUPLICATE
    layers: int = 0
    copies: int = 1
    moments: NewMoments = NewMoments.BY_KIND
    count: NewCount = NewCount.OWN

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name, least in (("index", 0), ("block", 1), ("layers", 0), ("copies", 1)):
            check_count("Grow", name, getattr(self, name), minimum=least)
        for name, kind in (("new", NewLayers), ("moments", NewMoments), ("count", NewCount)):
            if getattr(self, name) not in list(kind):
                raise HeadstartError(f"Grow({name}={getattr(self, name)!r}): choose one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(getattr(self, name)))
        if self.layers % (self.block * self.copies):
            each = "block" if self.copies == 1 else "block x copies"
            raise HeadstartError(
                f"Grow(block={self.block}, layers={self.layers}, copies={self.copies}): {each} must divide layers; "
                f"with layers={self.layers} take block={_largest_divisor(self.layers, self.block, self.copies)}"
            )

    @classmethod
    def on_top(cls, depth: int, layers: int, new: NewLayers = NewLayers.DUPLICATE) -> "Grow":
        """A copy of the last `layers` of `depth` layers, or as many new ones, behind the last (gradual stacking)."""
        check_count("Grow.on_top", "depth", depth)
        check_count("Grow.on_top", "layers", layers, maximum=depth)
        return cls(depth - layers, layers, new, layers)

    @classmethod
    def progressive(cls, depth: int, times: int = 2) -> "Grow":
        """[1 .. L] becomes [1 .. L, 1 .. L], or as many `times`: Gong et al., Progressive Stacking (2019)."""
        check_count("Grow.progressive", "depth", depth)
        check_count("Grow.progressive", "times", times, minimum=2)
        return cls(0, depth, layers=(times - 1) * depth, copies=times - 1)

    @property
    def uses_fresh(self) -> bool:
        """Whether anything is drawn."""
        return self.new.drawn and self.layers > 0

    @property
    def copies_moments(self) -> bool:
        """Whether new layers take over the averages of those they stand for."""
        alike = self.new in (NewLayers.DUPLICATE, NewLayers.SCALED)
        return self.moments is NewMoments.COPIED or (self.moments is NewMoments.BY_KIND and alike)

    @property
    def label(self) -> str:
        """A name for tables and figures."""
        more = "" if self.copies == 1 else f", {self.copies} copies"
        return f"{self.new}, index {self.index}, block {self.block}{more}"

    def layer_map(self, depth: int) -> tuple[Layer, ...]:
        """The layers of the grown stack from those of one with `depth` layers."""
        growing = self.layers // self.copies
        if self.index + growing > depth:
            first = "none: there are too few" if growing > depth else f"from 0 to {depth - growing}"
            raise HeadstartError(
                f"Grow(index={self.index}, layers={self.layers}): {growing} consecutive layers of {depth} grow, and "
                f"the index of their first is {first}"
            )
        share = 1 / (self.copies + 1) if self.new is NewLayers.SCALED else 1.0
        new = Layer(0, True, self.new.drawn, 0.0 if self.new.silent else share)
        out = [Layer(i) for i in range(self.index)]
        for first_of_block in range(self.index, self.index + growing, self.block):
            block = range(first_of_block, first_of_block + self.block)
            out += [Layer(i, scale=share) for i in block]
            out += [replace(new, source=i) for i in block] * self.copies
        return (*out, *(Layer(i) for i in range(self.index + growing, depth)))

    def check(self, source: Sequence[Parameter], target: Sequence[Parameter]) -> None:
        """Raise unless the target is the source's model with `layers` more layers."""
        self._heirs(source, target)

    def __call__(self, source: State, site: Site) -> State:
        """The source's state with the new layers in it; what they draw are the numbers of the target's last layers.

        No layer of the source was drawn from those, so that a random layer is independent of all that was trained.
        """
        if source.buffers and self.layers:
            raise HeadstartError(
                f"Grow(layers={self.layers}): the source has buffers that training changes, such as "
                f"{next(iter(source.buffers))}; grow a model without them"
            )
        weights: Arrays = {}
        heirs: dict[str, list[tuple[str, bool]]] = {}
        for heir in self._heirs(site.source_parameters, site.target_parameters):
            weight = site.fresh.weights[heir.drawn] if heir.layer.drawn else source.weights[heir.source]
            weights[heir.name] = weight if heir.factor == 1.0 else (heir.factor * weight).astype(weight.dtype)
            taken = not heir.layer.new or self.copies_moments
            heirs.setdefault(heir.source, []).append((heir.name, taken))
        counted = self.count is NewCount.SOURCE
        moments = _handed_on(source.moments, heirs, anyway=False)
        return replace(source, weights=weights, moments=moments, counters=_handed_on(source.counters, heirs, counted))

    def _heirs(self, source: Sequence[Parameter], target: Sequence[Parameter]) -> list["_Heir"]:
        """Every parameter of the target. Layers outside the stack are as they were."""
        owner = f"Grow(layers={self.layers})"
        ours, theirs = by_layer(source), by_layer(target)
        short, long = find_stack(owner, source, target)
        depth, grown = short.stop - short.start, long.stop - long.start
        if grown != depth + self.layers:
            raise HeadstartError(
                f"{owner}: the source has {depth} layers and the target {grown}, not {depth + self.layers}; give the "
                f"target's model depth={depth + self.layers}, or use Grow(layers={grown - depth})"
            )
        outer = [(i, Layer(i), i) for i in range(short.start)]
        beyond = [(i, Layer(i), i + self.layers) for i in range(short.stop, len(ours))]
        inner = enumerate(self.layer_map(depth), start=long.start)
        stack = [(short.start + layer.source, layer, place) for place, layer in inner]
        fresh = iter(theirs[long.start + depth : long.stop])
        out: list[_Heir] = []
        for origin, layer, place in (*outer, *stack, *beyond):
            drawn = next(fresh) if layer.new else theirs[place]
            writes = output_parameters(owner, ours[origin]) if layer.scale != 1.0 else frozenset()
            out += [
                _Heir(old.name, new.name, as_drawn.name, layer, layer.scale if old.name in writes else 1.0)
                for old, new, as_drawn in zip(ours[origin], theirs[place], drawn, strict=True)
            ]
        return out


@dataclass(frozen=True)
class _Heir:
    """A parameter of the grown model: the one it comes from, its name, the one it is drawn as, and its factor."""

    source: str
    name: str
    drawn: str
    layer: Layer
    factor: float


def _handed_on(arrays: Arrays, heirs: Mapping[str, Sequence[tuple[str, bool]]], anyway: bool) -> Arrays:
    """The arrays "<kind>/<parameter>" for the heirs of each parameter: zeros for those that do not take them over."""
    out: Arrays = {}
    for key, array in arrays.items():
        kind, _, name = key.partition("/")
        if name not in heirs:  # of no parameter, such as the counter of all steps
            out[key] = array
        for heir, taken in heirs.get(name, ()):
            out[f"{kind}/{heir}"] = array if taken or anyway else np.zeros_like(array)
    return out


def _largest_divisor(layers: int, block: int, copies: int) -> int:
    """The largest block up to this one that goes into the layers."""
    return next(b for b in range(block, 0, -1) if b == 1 or layers % (b * copies) == 0)


def design_space(
    depth: int,
    layers: int,
    indices: Iterable[int] | None = None,
    blocks: Iterable[int] | None = None,
    new: NewLayers | Iterable[NewLayers] = (NewLayers.RANDOM, NewLayers.DUPLICATE),
    moments: NewMoments = NewMoments.BY_KIND,
) -> tuple[Grow, ...]:
    """All operators that grow `depth` layers by `layers`: every index, every block that divides, every kind.

    `indices`, `blocks` and `new`, one kind or several, restrict it. The 30 of the paper's experiments are
    design_space(12, 4, indices=range(0, 9, 2)); the stages of adaptive stacking (Appendix C.1.3) are design_space(L, 4,
    new="duplicate") for L = 4, 8, 12, and with indices=range(0, L - 3, 2) for L = 16 and 20.
    """
    check_count("design_space", "depth", depth)
    check_count("design_space", "layers", layers, maximum=depth)
    starts = range(depth - layers + 1) if indices is None else tuple(indices)
    sizes = [b for b in range(1, layers + 1) if layers % b == 0] if blocks is None else tuple(blocks)
    kinds = (new,) if isinstance(new, str) else new
    found = tuple(Grow(i, b, kind, layers, moments=moments) for kind in kinds for i in starts for b in sizes)
    for operator in found:
        operator.layer_map(depth)
    return found
