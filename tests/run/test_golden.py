"""Golden traces: the numbers of a few short runs never change without a change of a part's `semantics`.

When a change of numbers is intended, raise `semantics` in the part that changed and write the numbers anew with
`python tests/run/test_golden.py`.
"""

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from headstart.core.encoding import encode
from headstart.core.roles import Role
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines import Job
from headstart.engines.ensemble import Ensemble
from headstart.engines.fused import Fused
from headstart.engines.loop import Loop
from headstart.lab.runner import execute
from headstart.lab.starts import begin
from headstart.lab.store import open_store
from headstart.lab.workers import Serial
from headstart.losses import MSE, CrossEntropy, Hinge, Logistic
from headstart.methods import GradientFilter, LayerScale, OnSphere
from headstart.models import MLP, Embedding, Readout, Transformer
from headstart.models.mlp import Activation, Init
from headstart.optimizers import SGD, AdamW, Cosine, WarmUp
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Carry, From, Reaches, Run, Step
from headstart.tasks import Hermite, ModularArithmetic, Parity, SingleIndex, Split

GOLDEN = Path(__file__).with_name("golden.json")
SHUFFLED = Phases((Phase(size=16, steps=7), Phase(size=40, epochs=2)), nested=False, replacement=False)

PARITY = Run(Parity(10, 3), MLP(16), Online(), MSE(), SGD(0.1), batch=Batch(16), budget=Budget(20, 10), seed=1)
# Without biases: softmax ignores those of keys, whose gradients are rounding, of which AdamW makes whole steps.
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
    "momentum": replace(
        PARITY, optimizer=SGD(0.05, 0.9, nesterov=True, weight_decay=0.01, schedule=WarmUp(5, Cosine()))
    ),
    "sphere and filter": replace(PARITY, methods=(OnSphere(tangent=True), GradientFilter(strength=0.5))),
    "split symbols": replace(
        PARITY,
        task=Split(ModularArithmetic(7, base=7), 0.6),
        model=MLP(16, embedding=Embedding(4)),
        plan=Fixed(29),
        loss=CrossEntropy(),
        optimizer=AdamW(0.01),
    ),
    "encoder": replace(PARITY, model=Transformer(8, heads=2, bias=False), optimizer=AdamW(0.003)),
    "decoder": replace(
        PARITY,
        task=ModularArithmetic(30, 5),
        model=Transformer(8, heads=2, causal=True, readout=Readout.LAST, qk_norm=True, bias=False),
        loss=CrossEntropy(),
        optimizer=AdamW(0.003),
    ),
    "from a step": replace(PARITY, start=From(PARITY, at=Step(10))),
    "from a metric, with moments": replace(
        PARITY,
        optimizer=AdamW(0.01),
        start=From(replace(PARITY, optimizer=AdamW(0.02)), Reaches("test_loss", 2.0), carry=Carry(moments=True)),
    ),
}
ENGINES = {"loop": Loop(), "ensemble": Ensemble(), "fused": Fused()}
ROWS = [(engine, name) for name, run in RUNS.items() for engine, it in ENGINES.items() if it.supports(run) is None]


def semantics(data):
    """The semantics of every part in an encoded run, by type."""
    if isinstance(data, list):
        return {kind: number for item in data for kind, number in semantics(item).items()}
    if not isinstance(data, dict):
        return {}
    inner = {kind: number for item in data.values() for kind, number in semantics(item).items()}
    return inner | ({data["type"]: data["semantics"]} if "semantics" in data else {})


def start_of(run):
    """What a run that starts from another begins with; the source is trained as `headstart` would."""
    with TemporaryDirectory() as folder, open_store(Path(folder) / "store.sqlite") as store:
        execute([run], store, Serial())
        return begin(run, store).state


def numbers(run, engine):
    """Every curve of a run, and the sum and the norm of each of its final weights."""
    end = Step(run.budget.steps)
    (outcome,) = ENGINES[engine].train([Job(run, start_of(run), keep=(end,))])
    weights = {
        name: [float(value.sum(dtype=np.float64)), float(np.linalg.norm(value.astype(np.float64)))]
        for name, value in outcome.states[end].weights.items()
    }
    return {**{name: curve.tolist() for name, curve in outcome.trace.values.items()}, **weights}


def write():
    """Write golden.json anew. All engines share the numbers of the loop."""
    entries = {
        name: {"semantics": semantics(encode(run)), "numbers": numbers(run, "loop")} for name, run in RUNS.items()
    }
    GOLDEN.write_text(json.dumps(entries, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("name", RUNS)
def test_the_semantics_of_a_golden_run_are_those_of_its_numbers(name):
    assert semantics(encode(RUNS[name])) == json.loads(GOLDEN.read_text())[name]["semantics"], (
        f"{name!r}: the semantics of a part changed; write the golden numbers anew: python tests/run/test_golden.py"
    )


@pytest.mark.parametrize(("engine", "name"), ROWS)
def test_a_golden_run_keeps_its_numbers(engine, name):
    golden, now = json.loads(GOLDEN.read_text())[name]["numbers"], numbers(RUNS[name], engine)
    assert now.keys() == golden.keys()
    # Engines round in different orders, which AdamW makes more of; the loop keeps the tolerance it was written with.
    tolerance = {"rtol": 1e-4, "atol": 1e-6} if engine == "loop" else {"rtol": 1e-3, "atol": 1e-5}
    for what, value in golden.items():
        np.testing.assert_allclose(
            now[what],
            value,
            **tolerance,
            err_msg=f"{engine}, {name!r}, {what}: the numbers of a run changed. If that is intended, raise `semantics` "
            "in the part that changed, so that stored results are not taken for these: then "
            "python tests/run/test_golden.py",
        )


def test_every_golden_run_is_stored_and_no_other():
    assert json.loads(GOLDEN.read_text()).keys() == RUNS.keys()


if __name__ == "__main__":
    write()
