"""Which batch, rate and loss: a plan from theory, for a link or for data of one's own."""

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from tyro.conf import arg

from headstart.cli.options import Json, app, console, print_json
from headstart.core.errors import HeadstartError
from headstart.lab.batch_figure import LABELS, draw_plan
from headstart.lab.figures import house_style, save_figure
from headstart.tasks import Hermite, named_link
from headstart.theory import ExponentEstimate, estimate_exponent
from headstart.theory.batch_plan import BatchPlan, plan_batch
from headstart.theory.batch_search import BatchChoice, Spread
from headstart.theory.overlaps import Objective

_LINKS = "He1, He2, He3, ..., sums such as He1+0.5*He3, erf, tanh, relu, sign"


@app.command
def plan(
    link: Annotated[str | None, arg(metavar="LINK", help=f"of the target: {_LINKS}")] = None,
    dim: Annotated[int | None, arg(metavar="D", help="inputs")] = None,
    student: Annotated[str | None, arg(metavar="LINK", help="activation of the neuron; default: the link")] = None,
    loss: Annotated[Literal["mse", "correlation", "both"], arg(help="which losses to try")] = "both",
    noise: Annotated[float, arg(metavar="VARIANCE", help="of the labels")] = 0.0,
    samples: Annotated[int | None, arg(metavar="N", help="the budget; default: twice the least")] = None,
    batches: Annotated[tuple[int, ...], arg(metavar="B ...", help="only these batches")] = (),
    seconds_per_step: Annotated[
        str | None, arg(metavar="TABLE", help="64=0.01,4096=0.05 or a CSV file of batch,seconds: least seconds win")
    ] = None,
    data: Annotated[Path | None, arg(metavar="FILE", help=".npz of x [n, d], y [n]: estimates the exponent")] = None,
    out: Annotated[Path | None, arg(metavar="FILE", help="write the time/batch curve as a PNG")] = None,
    seed: Annotated[int, arg(metavar="N", help="of the simulated runs")] = 0,
    json: Json = False,
) -> None:
    """Plan batch, rate and loss for one neuron that looks for a hidden direction of Gaussian inputs.

    Steps and samples come from the exact chain of the overlap. It is theory: no promise for real data.

    Try: headstart plan --link He3 --dim 1000
    """
    estimate = None if data is None else _estimated(data)
    if estimate is not None:
        print(estimate.words)
        if link is None and estimate.exponent is None:
            raise HeadstartError(f"--data {data}: its exponent cannot be told; give more rows, or name a --link")
    target = named_link(link) if link is not None else Hermite(_told(estimate))
    dim = _columns(data) if dim is None and data is not None else dim
    if dim is None:
        raise HeadstartError("--dim: give the number of inputs, such as --dim 1000")
    found = plan_batch(
        target,
        dim,
        None if student is None else named_link(student),
        tuple(Objective) if loss == "both" else (Objective(loss),),
        noise=noise,
        samples=samples,
        batches=batches,
        seconds_per_step=None if seconds_per_step is None else _table(seconds_per_step),
        seed=seed,
    )
    if json:
        print_json(_as_json(found))
    else:
        _print(found)
    if out is not None:
        with house_style() as figure:
            drawn = figure.Figure(layout="constrained")
            draw_plan(found, drawn)
            print(f"figure: {save_figure(drawn, out)}")


def _told(estimate: ExponentEstimate | None) -> int:
    if estimate is None or estimate.exponent is None:
        raise HeadstartError(f"--link: name the target's link ({_LINKS}), or give --data FILE.npz")
    return estimate.exponent


def _arrays(path: Path) -> Any:
    try:
        with np.load(path) as arrays:
            return arrays["x"], arrays["y"]
    except (OSError, ValueError, KeyError) as error:
        raise HeadstartError(f"--data {path}: give an .npz file with arrays x [n, d] and y [n] ({error})") from None


def _estimated(path: Path) -> ExponentEstimate:
    return estimate_exponent(*_arrays(path))


def _columns(path: Path) -> int:
    return int(_arrays(path)[0].shape[1])


def _table(text: str) -> dict[int, float]:
    """Seconds by batch, from the text itself or from a CSV file."""
    path = Path(text)
    lines = path.read_text().split() if path.is_file() else text.replace("=", ",").split(",")
    pairs = [line.split(",") for line in lines] if path.is_file() else list(zip(lines[::2], lines[1::2], strict=False))
    try:
        return {int(batch): float(seconds) for batch, seconds in pairs if batch != "batch"} or _none(text)
    except ValueError:
        return _none(text)


def _none(text: str) -> dict[int, float]:
    raise HeadstartError(f"--seconds-per-step {text}: give 64=0.01,4096=0.05, or a CSV file with lines batch,seconds")


def _row(choice: BatchChoice) -> list[str]:
    def said(spread: Spread | None) -> str:
        if spread is None:
            return ""
        return f"{spread.median:,.4g} [{spread.low:,.4g}, {spread.high:,.4g}]"

    limit = "none found" if math.isinf(choice.limit) else f"{choice.limit:.3g}"
    return [
        f"{choice.batch:,}",
        f"{choice.rate:.3g}",
        limit,
        said(choice.steps),
        said(choice.samples),
        said(choice.seconds),
        f"{choice.recovered:.0%}",
        str(choice.how),
    ]


def _print(found: BatchPlan) -> None:
    """The best first, then its reasons, then the curves."""
    from rich.table import Table

    best = found.best
    print(
        f"best: batch {best.batch:,} at rate {best.rate:.3g} on the {LABELS[best.loss]}: {best.steps.median:,.4g} "
        f"steps [{best.steps.low:,.4g}, {best.steps.high:,.4g}], {best.samples.median:,.4g} samples"
    )
    for word in found.words:
        print(f"- {word}")
    for loss, curve in found.curves.items():
        table = Table(
            title=f"{LABELS[loss]}: overlap {found.level:g}, median and 95% of runs", title_justify="left", box=None
        )
        names = ("batch", "best rate", "no learning from", "steps", "samples", "seconds", "arrive", "how")
        shown = [name for name in names if name != "seconds" or best.seconds is not None]
        for name in shown:
            table.add_column(name, justify="left" if name == "how" else "right")
        for choice in curve:
            table.add_row(*(cell for name, cell in zip(names, _row(choice), strict=True) if name in shown))
        console().print(table)


def _as_json(found: BatchPlan) -> dict[str, Any]:
    def choice(c: BatchChoice) -> dict[str, Any]:
        spreads = {name: vars(s) for name in ("steps", "samples", "seconds") if (s := getattr(c, name)) is not None}
        return {"loss": c.loss, "batch": c.batch, "rate": c.rate, "no_learning_from": c.limit, **spreads,
                "arrive": c.recovered, "how": c.how}  # fmt: skip

    return {
        "link": str(found.link),
        "student": str(found.student),
        "dim": found.dim,
        "exponent": found.outlook.exponent,
        "best": choice(found.best),
        "words": list(found.words),
        "curves": {str(loss): [choice(c) for c in curve] for loss, curve in found.curves.items()},
    }
