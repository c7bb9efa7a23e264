"""The command that asks what would pay on a problem of yours: a subset first, or a larger batch."""

import os
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from headstart.cli.options import Json, app, print_json
from headstart.core.errors import HeadstartError
from headstart.lab.figures import save_figure
from headstart.lab.probe import probe
from headstart.lab.probe_batch import probe_batch
from headstart.lab.probe_store import default_folder
from headstart.lab.progress import display

# What only one of the two questions takes, with its default.
_OWN: dict[str, dict[str, Any]] = {
    "subset": {"max_seeds": 32, "selection_seeds": 4, "smallest": 0.9},
    "batch": {"batches": (), "warmup": 200},
}


@app.command(name="probe")
def probe_(
    factory: Annotated[
        Positional[str], arg(metavar="MODULE:FACTORY", help="a function that returns an hs.Problem; or FILE.py:FACTORY")
    ],
    /,
    vary: Annotated[str, arg(metavar="WHAT", help="subset: a small one first, or not; batch: its size")] = "subset",
    steps: Annotated[
        int | None, arg(metavar="N", help="optimizer steps of every arm (default: 2000; of a branch 500)")
    ] = None,
    seeds: Annotated[int, arg(metavar="N", help="seeds of every arm, and twice as many while undecided")] = 8,
    max_seeds: Annotated[int, arg(metavar="N", help="seeds at most")] = 32,
    selection_seeds: Annotated[int, arg(metavar="N", help="other seeds, on which learning rates are chosen")] = 4,
    rates: Annotated[
        tuple[float, ...],
        arg(metavar="X X ...", help="factors on the learning rate (default: 0.5 1 2, and more as needed)"),
    ] = (),
    target: Annotated[
        float | None,
        arg(metavar="X", help="the test metric to reach, or with --vary batch the loss (default: 90% of the gain)"),
    ] = None,
    smallest: Annotated[float, arg(metavar="X", help="a ratio of compute above this is no gain worth having")] = 0.9,
    batches: Annotated[
        tuple[int, ...], arg(metavar="N N ...", help="with --vary batch: sizes to try (default: 1/4 to 16 times yours)")
    ] = (),
    warmup: Annotated[int, arg(metavar="N", help="with --vary batch: steps before the branches")] = 200,
    seed: Annotated[int, arg(metavar="N", help="everything random follows from it")] = 0,
    jobs: Annotated[int | None, arg(metavar="N", help="processes that train (default: one per core)")] = None,
    device: Annotated[str, arg(metavar="NAME", help="cpu, cuda or mps; all but cpu are experimental")] = "cpu",
    store: Annotated[
        Path | None, arg(metavar="PATH", help="file or folder of finished runs (default: the user's data directory)")
    ] = None,
    figure: Annotated[Path | None, arg(metavar="FILE", help="where to draw the arms: png, pdf or svg")] = None,
    json: Json = False,
) -> None:
    """Say whether repeating a small subset pays on a problem of yours, at what cost, and the code to paste.

    With --vary batch: its critical batch size, by branches from one warmed-up state, and a batch schedule to paste.
    Ctrl-C keeps what is finished; the same command goes on from there.

    Try: headstart probe my_problem:factory --steps 2000

    Or:  headstart probe --vary batch my_problem:factory --warmup 500
    """
    given: dict[str, Any] = {
        "max_seeds": max_seeds,
        "selection_seeds": selection_seeds,
        "smallest": smallest,
        "batches": batches,
        "warmup": warmup,
    }
    options = {"steps": steps, "seeds": seeds, "rates": rates or None, "target": target, "seed": seed, "device": device}
    options |= _own(vary, given)
    ask: Any = probe if vary == "subset" else probe_batch
    outcome = ask(
        factory,
        **{name: value for name, value in options.items() if value is not None},
        jobs=jobs if jobs is not None else (os.cpu_count() or 1) if device == "cpu" else 1,
        store=default_folder() if store is None else store,
        progress=display(),
    )
    if figure is not None:
        save_figure(outcome.figure(), figure, figure.suffix.lstrip(".") or "png")
    if json:
        print_json(outcome.to_json())
    else:
        print(outcome)


def _own(vary: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options of the question that is asked; one of the other is refused."""
    if vary not in _OWN:
        raise HeadstartError(f"--vary {vary}: choose {' or '.join(_OWN)}")
    for other, defaults in _OWN.items():
        for name, default in defaults.items():
            if other != vary and given[name] != default:
                said = f"--{name.replace('_', '-')} {given[name]}"
                raise HeadstartError(f"{said}: this is for --vary {other}; leave it out")
    return {name: given[name] or None for name in _OWN[vary]}
