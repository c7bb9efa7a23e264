"""How stable is your training? Pairs that differ in one row, nudges of one weight, and the line between them."""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headstart.core.errors import HeadstartError, check_count, check_nonnegative, check_positive
from headstart.core.streams import check_seed
from headstart.lab.probe_factory import load_factory
from headstart.lab.probe_problem import Problem, split
from headstart.lab.probe_store import fingerprint
from headstart.lab.progress import Progress, display
from headstart.lab.stability_behaviour import Judge, dataset_rows
from headstart.lab.stability_report import StabilityReport
from headstart.lab.stability_runs import Asked, Session
from headstart.lab.stability_store import StabilityStore, fingerprint_function
from headstart.lab.stability_training import (
    MOST_PAIRS,
    Change,
    Kind,
    Look,
    OwnTraining,
    ProblemTraining,
    Training,
)
from headstart.measures import CONNECTED_WITHIN

# Test rows at most, the batch in which a function's data set is read, and steps of a Problem.
_MOST_TEST_ROWS, _BATCH, _STEPS = 2048, 128, 1000


def stability(
    training: Any,
    *,
    dataset: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    metric: Callable[[Any, Any], Any] | None = None,
    test_set: Any = None,
    num_rows: int | None = None,
    steps: int | None = None,
    pairs: int = 12,
    sizes: Sequence[int] | None = None,
    nudge: float = 1e-6,
    nudge_steps: Sequence[int] = (0,),
    order_steps: Sequence[int] | None = None,
    copies: int = 3,
    record: Sequence[int] = (),
    num_alphas: int = 11,
    within: float | None = None,
    seed: int = 0,
    device: str = "cpu",
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> StabilityReport:
    """Train pairs that differ in one row, and copies that are nudged, and say how far apart they end.

        print(hs.stability(problem, steps=1000, store="stability"))

    `training` is a `Problem` (a dict of its fields, a function without arguments that returns either, or
    "module:function"), trained for `steps` steps, 1000 by default; or a function of your own:

        def train_fn(rows, seed, look):     # row numbers of S; look may be left out
            ...                             # build and train from the seed, on dataset[rows] alone
                look(step, model)           # before every step, if you take it
            return model                    # an nn.Module, or a headstart.measures.Behaviour

    Beside such a function give the `dataset`, the `loss` and the `metric`, as of a `Problem`, and a `test_set`, or a
    tenth of the rows is held out; of one that returns a Behaviour only `num_rows`, how many rows there are.

    First the same rows and seed are trained twice: what differs then is the floor. Then, at every size m of `sizes`, by
    default all rows but one, `pairs` pairs: S, drawn without replacement, and S', in which one row is exchanged for one
    that is not in S. Both have one seed, so one initial network and one order. At the largest size, `copies` copies are
    disturbed before each of `nudge_steps`, where `nudge` is added to one weight, and of `order_steps`, from which on
    torch's generators have another seed and a `Problem` another order of batches (by default before its first step,
    after a tenth and after half of them). At the end the metric on test rows is looked at along the line between both
    networks, at `num_alphas` points; they are connected where it falls at most `within` below the line of the end
    points, by default 0.02. The training is settled from the first step from which on all copies of another order, or
    all nudged ones if there are no others, stay connected. Distances are taken at the steps of `record`, too.

    With a `store`, a file or a folder, comparisons are kept as they end, and the same call goes on from there. It knows
    a function by its file, its code and the plain values that it closes over: name another store if anything else
    changes. One seed gives one result.
    """
    loaded = load_factory(training) if isinstance(training, str) else training
    given = {"dataset": dataset, "loss": loss, "metric": metric, "test_set": test_set, "num_rows": num_rows}
    how: Training
    if _is_train_fn(loaded):
        _refuse({"steps": (steps, None), "device": (device, "cpu")}, "train_fn decides that by itself")
        problem, how = _evaluator(given), OwnTraining(loaded, _takes_look(loaded))
    else:
        _refuse({name: (value, None) for name, value in given.items()}, "a Problem has its own")
        problem = Problem.of(loaded)
        check_count("stability", "steps", _STEPS if steps is None else steps)
        how = ProblemTraining(problem, _STEPS if steps is None else steps, device)
    check_seed(seed)
    if within is not None:
        check_nonnegative("stability", "within", within)
    judge = Judge(problem, None if problem is None else split(problem, seed, _MOST_TEST_ROWS, device))
    num = num_rows or 0 if judge.data is None else judge.data.num_train
    asked = Asked(
        seed=seed,
        sizes=_sizes(sizes, num),
        pairs=_count("pairs", pairs, 1),
        copies=_count("copies", copies, 1),
        disturbances=_disturbances(nudge, nudge_steps, order_steps, how),
        record=_steps("record", record, how),
        num_alphas=_count("num_alphas", num_alphas, 3),
        num_rows=num,
    )
    limit = CONNECTED_WITHIN if within is None and problem is not None and problem.metric is not None else within
    session = Session(how, judge, asked, StabilityStore(store, _known_by(how, judge, training, num)))
    with session, progress if progress is not None else display() as shown:
        return session.run(shown, limit)


def _is_train_fn(given: Any) -> bool:
    """Whether it is a function of rows and seed; one without arguments makes a Problem."""
    if isinstance(given, Problem | Mapping) or not callable(given):
        return False
    try:
        parameters = inspect.signature(given).parameters.values()
    except ValueError:  # not of Python's own
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in parameters if each.kind in kinds and each.default is each.empty]
    names = [name for name in names if name != "look"]
    if len(names) in (1, 3) or len(names) > 3:
        raise HeadstartError(
            f"stability(training={getattr(given, '__name__', given)}({', '.join(names)})): give train_fn(rows, seed), "
            "train_fn(rows, seed, look), or a function without arguments that returns a Problem"
        )
    return len(names) == 2


def _takes_look(function: Any) -> bool:
    return "look" in inspect.signature(function).parameters


def _refuse(given: dict[str, tuple[Any, Any]], why: str) -> None:
    for name, (value, default) in given.items():
        if value is not default and not (isinstance(value, str) and value == default):
            raise HeadstartError(f"stability({name}={_short(value)}): {why}; leave it out")


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, int | float | str) else "..."


def _evaluator(given: dict[str, Any]) -> Problem | None:
    """The data set, the loss and the metric beside a function, as a Problem without a model; None if there is none."""
    dataset, num_rows = given["dataset"], given["num_rows"]
    if dataset is None:
        for name in ("loss", "metric", "test_set"):
            if given[name] is not None:
                raise HeadstartError(f"stability({name}=..., dataset=None): give the dataset that it is for")
        if num_rows is None:
            raise HeadstartError(
                "stability(train_fn): give dataset=... with loss=... and metric=..., to look at the module that it "
                "returns, or num_rows=... if it returns a headstart.measures.Behaviour"
            )
        _count("num_rows", num_rows, 2)
        return None
    if num_rows is not None:
        raise HeadstartError(f"stability(num_rows={num_rows!r}): the dataset says how many; leave it out")
    batch = max(1, min(_BATCH, len(dataset) // 4)) if hasattr(dataset, "__len__") else 1
    rest = {name: given[name] for name in ("dataset", "loss", "metric", "test_set")}
    return Problem(model=lambda: None, batch_size=batch, **rest)  # type: ignore[arg-type, return-value]


def _count(name: str, value: int, least: int) -> int:
    check_count("stability", name, value, minimum=least, maximum=MOST_PAIRS if name != "num_rows" else None)
    return value


def _sizes(sizes: Sequence[int] | None, num_rows: int) -> tuple[int, ...]:
    """The sizes in order; one row at least is left to swap with."""
    found = (num_rows - 1,) if sizes is None else tuple(sizes)
    for size in found:
        check_count("stability", "sizes", size, minimum=2)
        if size >= num_rows:
            raise HeadstartError(
                f"stability(sizes={size}): of {num_rows} rows to train on one is left to swap with; give at most "
                f"{num_rows - 1}"
            )
    if not found or len(set(found)) < len(found):
        raise HeadstartError(f"stability(sizes={found!r}): give different numbers of rows, one at least")
    return tuple(sorted(found))


def _steps(name: str, steps: Sequence[int], how: Training) -> tuple[int, ...]:
    """Steps in order, each of them one that the training has."""
    found = tuple(sorted(set(steps)))
    for step in found:
        check_count("stability", name, step, minimum=0)
    if found and isinstance(how, ProblemTraining) and found[-1] >= how.steps:
        raise HeadstartError(
            f"stability({name}={found[-1]}): the training has steps 0 to {how.steps - 1}; give an earlier one, or more "
            "steps"
        )
    if found and not how.can_look and found != (0,):
        raise HeadstartError(
            f"stability({name}={found!r}): train_fn(rows, seed) shows no steps; let it take look, and call "
            "look(step, model) before every step"
        )
    return found if how.can_look else ()


def _disturbances(
    nudge: float, nudge_steps: Sequence[int], order_steps: Sequence[int] | None, how: Training
) -> tuple[Change, ...]:
    check_positive("stability", "nudge", nudge)
    if order_steps is None:
        order_steps = (0, how.steps // 10, how.steps // 2) if isinstance(how, ProblemTraining) else ()
    return (
        *(Change(Kind.NUDGE, step, nudge) for step in _steps("nudge_steps", nudge_steps, how)),
        *(Change(Kind.ORDER, step) for step in _steps("order_steps", order_steps, how)),
    )


def _known_by(how: Training, judge: Judge, source: Any, num_rows: int) -> str:
    """The fingerprint of the training; that of a Problem has the numbers of its first steps."""
    if isinstance(how, OwnTraining):
        return fingerprint_function(how.function, judge.problem, num_rows)
    assert judge.data is not None
    rows = dataset_rows(judge.data, np.arange(num_rows))
    model = ProblemTraining(how.problem, min(3, how.steps), how.device)(rows, 0, Look((), 0))
    return fingerprint(how.problem, judge.data, source, how.device, [judge.metric(model)])
