"""Studies: a grid of arms, its claims and its figure. One file per figure or table of a paper."""

import difflib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError
from headstart.lab.arms import Arm
from headstart.lab.claims import Checked, Claim, check_claim
from headstart.lab.computed import Computed, needs
from headstart.lab.figures import house_style
from headstart.lab.finding import check_finding
from headstart.lab.ledger import Edition
from headstart.lab.results import Results
from headstart.lab.tuning import check_sweeps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

USUAL = "laptop"  # the preset of whoever names none


def no_arms(knobs: Any) -> tuple[()]:
    """A study that trains nothing."""
    return ()


def nothing_computed(knobs: Any, arms: Mapping[str, Arm]) -> Mapping[str, Computed]:
    """A study that only trains."""
    return {}


@dataclass(frozen=True)
class Study:
    """A named experiment. The functions take the knobs of a preset; the docstring is the method section.

    It trains its arms, computes parts, or both. `computed` has the parts by the names by which claims and the figure
    find their arrays in `Results.computed`; it sees the arms with the settings that were chosen for them.
    `figure(results, figure)` draws on the matplotlib figure it is given, and sets its size with
    `figure.set_size_inches(width, height)`. The finding, two sentences, opens the page; a slot such as
    {faster} or {faster.says} is filled from the claim of that id (headstart.lab.finding lists the parts).
    """

    name: str
    title: str
    paper: str
    figures: str
    presets: Mapping[str, Any]
    minutes: Mapping[str, float]
    claims: Callable[[Any], Sequence[Claim]]
    figure: Callable[[Results, "Figure"], None]
    arms: Callable[[Any], Sequence[Arm]] = no_arms
    computed: Callable[[Any, Mapping[str, Arm]], Mapping[str, Computed]] = nothing_computed
    doc: str = ""
    finding: str = ""
    tags: tuple[str, ...] = ()
    file: str | None = None

    def __post_init__(self) -> None:
        try:
            inspect.signature(self.figure).bind(None, None)
        except TypeError as error:
            raise HeadstartError(
                f"Study(figure={getattr(self.figure, '__name__', self.figure)}) of {self.name}: {error}; "
                "write figure(results, figure), which draws on the figure it is given"
            ) from None

    @property
    def command(self) -> str:
        """What `headstart run` calls it: its name, or the file it was read from."""
        return self.file or self.name

    def knobs(self, preset: str = USUAL, settings: Mapping[str, str] | None = None) -> Any:
        """The knobs of a preset, some of them set anew. Values are JSON, or plain words."""
        if preset not in self.presets:
            raise HeadstartError(f"--preset {preset}: {self.name} has {', '.join(self.presets)}")
        base = self.presets[preset]
        known = {f.name: f.type for f in fields(base)}
        values = asdict(base)
        for name, text in (settings or {}).items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=3) or sorted(known)
                raise HeadstartError(
                    f"--set {name}={text}: {self.name} has no such knob; did you mean {' or '.join(near)}?"
                )
            values[name] = _parse(text)
        return _validated(type(base), values, settings or {})

    def validate(self, knobs: Any) -> None:
        """Build every arm, computed part and claim, so that a mistake is met before anything is trained."""
        arms = {arm.name: arm for arm in self.arms(knobs)}
        check_sweeps(arms, self.compared(knobs))
        for part in self.computed(knobs, arms).values():
            needs(part)
        check_finding(self.finding, [claim.id for claim in self.claims(knobs)])
        for claim in self.claims(knobs):
            for name in getattr(claim.estimate, "arms", ()):
                if name not in arms:
                    raise HeadstartError(f"claim {claim.id!r} names the arm {name!r}; there are {', '.join(arms)}")

    def compared(self, knobs: Any) -> list[tuple[str, ...]]:
        """The arms that each claim compares."""
        return [tuple(getattr(claim.estimate, "arms", ())) for claim in self.claims(knobs)]

    def check(self, results: Results) -> list[Checked]:
        """Every claim, computed."""
        return [check_claim(claim, results) for claim in self.claims(results.knobs)]

    def draw(self, results: Results) -> "Figure":
        """Its figure in the house style, drawn on a matplotlib figure with constrained layout."""
        with house_style() as module:
            picture: Figure = module.Figure(layout="constrained")
            self.figure(results, picture)
        return picture


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _validated(kind: type, values: dict[str, Any], settings: Mapping[str, str]) -> Any:
    """The knobs, every type checked by pydantic."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        said = f"--set {name}={settings.get(name, values.get(name))}: " if name else ""
        raise HeadstartError(said + first["msg"].removeprefix("Value error, ")) from None


def edition(study: Study, preset: str, knobs: Any) -> Edition:
    """A study as it is run: the key of its sessions and reports."""
    return Edition(study.name, preset, json.dumps(asdict(knobs), sort_keys=True))
