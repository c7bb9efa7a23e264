"""The coordinate check of a parametrisation: do the layers move by the same amount at every width?"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headstart.core.errors import HeadstartError
from headstart.engines import choose
from headstart.engines.engine import Job
from headstart.measures import coordinate_sizes
from headstart.models import MLP
from headstart.run import Run, Step
from headstart.tasks import held_out

if TYPE_CHECKING:
    import pandas as pd


def coordinate_check(
    run: Callable[[int], Run], widths: Sequence[int], steps: Sequence[int] = (1, 2, 3), seeds: Sequence[int] = (0, 1, 2)
) -> "pd.DataFrame":
    """How far the pre-activations of each layer have moved from the start after some steps, at each width.

    `run` makes the run of a width, whose model is an MLP. The columns are width, seed, step, layer (the last is the
    output) and size, the root mean square over neurons and test samples. Under muP sizes do not depend on the width;
    under the standard parametrisation some grow or vanish with it. For a picture, plot size against width by layer on
    log-log axes. Reference: Yang et al., Tensor Programs V (2022), Appendix D.1.

        lab.coordinate_check(lambda m: replace(run, model=MLP(m), methods=(MuP(64),)), widths=(64, 256, 1024))
    """
    import pandas as pd

    rows = []
    for width in widths:
        for seed in seeds:
            own = run(width).at(seed)
            if not isinstance(own.model, MLP) or own.model.width != width:
                raise HeadstartError(
                    f"coordinate_check: run({width}) has the model {own.model}; give MLP({width}, ...)"
                )
            if max(steps) > own.budget.steps:
                raise HeadstartError(f"coordinate_check(steps={tuple(steps)}): the run has {own.budget.steps} steps")
            moments = (Step(0), *(Step(step) for step in steps))
            (outcome,) = choose(own).engine.train([Job(own, keep=moments)])
            x, start = held_out(own.task, seed).x, outcome.states[Step(0)]
            for step in steps:
                end = outcome.states[Step(step)]
                if start is None or end is None:
                    raise HeadstartError(f"coordinate_check: width {width}, seed {seed} diverged; use a lower rate")
                for layer, size in enumerate(coordinate_sizes(own.model, end.weights, start.weights, x)):
                    rows.append((width, seed, step, layer, size))
    return pd.DataFrame(rows, columns=["width", "seed", "step", "layer", "size"])
