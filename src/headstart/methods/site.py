"""Where a transformation works: the model a run comes from, the one it goes to, and what it would begin with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from headstart.core.errors import HeadstartError
from headstart.core.roles import Parameter
from headstart.core.signature import Signature
from headstart.core.state import State
from headstart.models import Model


@dataclass(frozen=True)
class Site:
    """Both ends of a `From`, and the seed of both.

    `fresh` is the target's own start, with the scales of all its methods applied.
    """

    source: Model
    source_signature: Signature
    target: Model
    target_signature: Signature
    fresh: State
    seed: int = 0

    @property
    def source_parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the source, with their roles."""
        return self.source.parameters(self.source_signature)

    @property
    def target_parameters(self) -> tuple[Parameter, ...]:
        """The parameters of the target, with their roles."""
        return self.target.parameters(self.target_signature)


@runtime_checkable
class Transformation(Protocol):
    """How the State of one run becomes the State that another begins with. A frozen part, as methods are.

    `uses_fresh` says whether anything of `site.fresh` is in the result. Of the result an engine takes weights, buffers
    and, if the run carries them, moments with the optimizer's own steps.
    """

    semantics: ClassVar[int]

    @property
    def uses_fresh(self) -> bool:
        """Whether a fresh start is part of it."""
        ...

    def __call__(self, source: State, site: Site) -> State:
        """The state to begin with."""
        ...


@runtime_checkable
class Checked(Protocol):
    """A transformation that says whether two models fit before anything is trained."""

    def check(self, source: Sequence[Parameter], target: Sequence[Parameter]) -> None:
        """Raise unless a state of the one can become a state of the other."""
        ...


@dataclass(frozen=True)
class Same:
    """The source's state as it is; names and shapes must agree."""

    semantics: ClassVar[int] = 1
    uses_fresh: ClassVar[bool] = False

    def __call__(self, source: State, site: Site) -> State:
        """The source's weights, buffers and moments."""
        shapes = [{name: array.shape for name, array in state.weights.items()} for state in (source, site.fresh)]
        if shapes[0] != shapes[1]:
            differ = sorted(set(shapes[0].items()) ^ set(shapes[1].items()))[0][0]
            raise HeadstartError(
                f"From(via=Same()): the two models have different parameters, such as {differ}; give a transformation"
            )
        return source
