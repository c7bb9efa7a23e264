"""Golden traces: the numbers of a few short runs never change without a change of a part's `semantics`.

When a change of numbers is intended, raise `semantics` in the part that changed and write the numbers anew with
`python tests/run/test_golden.py`.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headstart.core.roles import Role
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines import Job
from headstart.engines.loop import Loop
from headstart.losses import MSE, Hinge, Logistic
from headstart.methods import LayerScale
from headstart.models import MLP
from headstart.models.mlp import Activation, Init
from headstart.optimizers import SGD, AdamW
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Run, Step, encode
from headstart.tasks import Hermite, Parity, SingleIndex

GOLDEN = Path(__file__).with_name("golden.json")
SHUFFLED = Phases((Phase(size=16, steps=7), Phase(size=40, epochs=2)), nested=False, replacement=False)

PARITY = Run(Parity(10, 3), MLP(16), Online(), MSE(), SGD(0.1), batch=Batch(16), budget=Budget(20, 10), seed=1)
RUNS = {
    "parity sgd": PARITY,
    "parity gd": replace(PARITY, plan=Fixed(200), batch=FullBatch(), loss=Logistic(), model=MLP(16, bias=False)),
    "parity population": replace(PARITY, batch=FullBatch(), loss=Hinge(), task=Parity(10, 3, support=(2, 5, 9))),
    "single index sgd": replace(
        PARITY, task=SingleIndex(8, Hermite(3)), optimizer=SGD(0.01), plan=Fixed(64), model=MLP(16, init=Init.GAUSSIAN)
    ),
    "linear control": replace(PARITY, task=SingleIndex(8, Hermite(1), norm=2.0), model=MLP(depth=1)),
    "adamw depth 4": replace(PARITY, model=MLP(12, depth=4, activation=Activation.GELU), optimizer=AdamW(0.01)),
    "phases": replace(PARITY, plan=Phases((Phase(fraction=0.05, epochs=8), Phase(size=64, steps=5), Phase()))),
    "phases without replacement": replace(PARITY, plan=SHUFFLED, model=MLP(16, activation=Activation.QUADRATIC)),
    "layer scale": replace(
        PARITY,
        model=MLP(16, activation=Activation.SIGMOID),
        methods=(LayerScale(init={Role.READOUT: 2}, rate={Role.INPUT: 4}),),
    ),
}


def semantics(data):
    """The semantics of every part in an encoded run, by type."""
    if isinstance(data, list):
        return {kind: number for item in data for kind, number in semantics(item).items()}
    if not isinstance(data, dict):
        return {}
    inner = {kind: number for item in data.values() for kind, number in semantics(item).items()}
    return inner | ({data["type"]: data["semantics"]} if "semantics" in data else {})


def numbers(run):
    """Every curve of a run, and the sum and the norm of each of its final weights."""
    end = Step(run.budget.steps)
    (outcome,) = Loop().train([Job(run, keep=(end,))])
    weights = {
        name: [float(value.sum(dtype=np.float64)), float(np.linalg.norm(value.astype(np.float64)))]
        for name, value in outcome.weights[end].items()
    }
    return {**{name: curve.tolist() for name, curve in outcome.trace.values.items()}, **weights}


def entry(run):
    return {"semantics": semantics(encode(run)), "numbers": numbers(run)}


def write():
    """Write golden.json anew."""
    GOLDEN.write_text(json.dumps({name: entry(run) for name, run in RUNS.items()}, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("name", RUNS)
def test_a_golden_run_keeps_its_numbers(name):
    golden, now = json.loads(GOLDEN.read_text())[name], entry(RUNS[name])
    assert now["semantics"] == golden["semantics"], (
        f"{name!r}: the semantics of a part changed; write the golden numbers anew: python tests/run/test_golden.py"
    )
    assert now["numbers"].keys() == golden["numbers"].keys()
    for what, value in golden["numbers"].items():
        np.testing.assert_allclose(
            now["numbers"][what],
            value,
            rtol=1e-4,
            atol=1e-6,
            err_msg=f"{name!r}, {what}: the numbers of a run changed. If that is intended, raise `semantics` in the "
            "part that changed, so that stored results are not taken for these: then python tests/run/test_golden.py",
        )


def test_every_golden_run_is_stored_and_no_other():
    assert json.loads(GOLDEN.read_text()).keys() == RUNS.keys()


if __name__ == "__main__":
    write()
