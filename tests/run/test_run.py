"""Runs: canonical JSON, identity and validation."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.units import Batch, Budget, FullBatch
from headstart.losses import MSE, Hinge
from headstart.methods import LayerScale
from headstart.models import MLP
from headstart.models.mlp import Activation, Init
from headstart.optimizers import SGD, AdamW
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Fresh, From, Reaches, Run, Same, Step, decode, encode, reached
from headstart.tasks import Hermite, Parity, SingleIndex

RUN = Run(Parity(8, 2), MLP(16), Fixed(64), MSE(), SGD(0.1), budget=Budget(100))
INDEX = replace(RUN, task=SingleIndex(6))

OTHERS = {
    "dimension": replace(RUN, task=Parity(9, 2)),
    "degree": replace(RUN, task=Parity(8, 3)),
    "support": replace(RUN, task=Parity(8, 2, support=(0, 2))),
    "task": INDEX,
    "link": replace(RUN, task=SingleIndex(6, Hermite(2))),
    "norm": replace(RUN, task=SingleIndex(6, norm=2.0)),
    "width": replace(RUN, model=MLP(17)),
    "depth": replace(RUN, model=MLP(16, depth=3)),
    "activation": replace(RUN, model=MLP(16, activation=Activation.GELU)),
    "bias": replace(RUN, model=MLP(16, bias=False)),
    "init": replace(RUN, model=MLP(16, init=Init.GAUSSIAN)),
    "plan": replace(RUN, plan=Online()),
    "size": replace(RUN, plan=Fixed(65)),
    "replacement": replace(RUN, plan=Fixed(64, replacement=False), batch=Batch(32)),
    "phases": replace(RUN, plan=Phases((Phase(size=8, steps=5), Phase(fraction=0.5)))),
    "nested": replace(RUN, plan=Phases((Phase(size=8, steps=5), Phase(fraction=0.5)), nested=False)),
    "loss": replace(RUN, loss=Hinge()),
    "rate": replace(RUN, optimizer=SGD(0.2)),
    "rates": replace(RUN, optimizer=SGD(0.1, rates={Role.READOUT: 0.2})),
    "optimizer": replace(RUN, optimizer=AdamW(0.1)),
    "decay": replace(RUN, optimizer=AdamW(0.1, weight_decay=0.0)),
    "batch": replace(RUN, batch=Batch(32)),
    "full batch": replace(RUN, batch=FullBatch()),
    "methods": replace(RUN, methods=(LayerScale(init={Role.INPUT: 2.0}),)),
    "start": replace(RUN, start=From(RUN)),
    "moment": replace(RUN, start=From(RUN, at=Step(5))),
    "metric": replace(RUN, start=From(RUN, at=Reaches("test_accuracy", 0.75))),
    "steps": replace(RUN, budget=Budget(101)),
    "records": replace(RUN, budget=Budget(100, 10)),
}
every_other = pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)


@every_other
def test_a_run_survives_canonical_json(other):
    run = other.at(12)
    again = decode(json.loads(json.dumps(encode(run))))
    assert again == run
    assert (again.cell, again.json) == (run.cell, run.json)
    assert hash(again) == hash(run)


def test_the_json_of_a_cell_is_canonical():
    data = json.loads(RUN.json)
    assert "seed" not in data
    assert json.dumps(data, sort_keys=True, separators=(",", ":")) == RUN.json
    assert data["task"] == {
        "type": "headstart.tasks.parity:Parity",
        "semantics": 1,
        "dim": 8,
        "degree": 2,
        "support": [0, 1],
    }


def test_the_json_of_a_cell_is_a_run_at_seed_zero():
    assert decode(json.loads(RUN.at(5).json)) == RUN.at(0)


def test_a_cell_does_not_know_the_seed():
    assert RUN.at(0).cell == RUN.at(12).cell
    assert RUN.at(0).json == RUN.at(12).json
    assert RUN.at(0) != RUN.at(12)
    assert RUN.at(12).seed == 12
    assert len(RUN.cell) == 20


@every_other
def test_a_cell_changes_with_every_part(other):
    assert other.cell != RUN.cell


def test_no_two_of_these_cells_are_the_same():
    assert len({run.cell for run in OTHERS.values()}) == len(OTHERS)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (replace(RUN, optimizer=SGD(1)), replace(RUN, optimizer=SGD(1.0))),
        (replace(RUN, optimizer=AdamW(1, weight_decay=0)), replace(RUN, optimizer=AdamW(1.0, weight_decay=0.0))),
        (replace(RUN, task=SingleIndex(6, norm=2)), replace(RUN, task=SingleIndex(6, norm=2.0))),
        (
            replace(RUN, optimizer=SGD(1.0, rates={Role.INPUT: 1})),
            replace(RUN, optimizer=SGD(1.0, rates=((Role.INPUT, 1.0),))),
        ),
        (
            replace(RUN, methods=(LayerScale(init={Role.INPUT: 1, Role.READOUT: 2}),)),
            replace(RUN, methods=[LayerScale(init={"readout": 2.0, "input": 1.0})]),
        ),
        (replace(RUN, model=MLP(16, activation="gelu")), replace(RUN, model=MLP(16, activation=Activation.GELU))),
        (replace(RUN, task=Parity(8, 2)), replace(RUN, task=Parity(8, 2, support=[1, 0]))),
        (replace(RUN, start=From(RUN.at(3))), replace(RUN, start=From(RUN, at=Step(100)))),
    ],
    ids=["rate", "decay", "norm", "rates", "scales", "activation", "support", "start"],
)
def test_two_ways_to_write_a_run_are_one_cell(one, two):
    assert one == two
    assert one.cell == two.cell


def test_the_semantics_of_every_part_are_in_the_cell(monkeypatch):
    before = RUN.cell
    for part in (RUN.task, RUN.model, RUN.plan, RUN.loss, RUN.optimizer):
        with monkeypatch.context() as patch:
            patch.setattr(type(part), "semantics", type(part).semantics + 1)
            assert replace(RUN).cell != before
        assert replace(RUN).cell == before


@dataclass(frozen=True)
class TheirLoss:
    """A part that is not Headstart's own."""

    power: float = 1.5
    name: ClassVar[str] = "mse"
    semantics: ClassVar[int] = 4

    def __call__(self, prediction, target):
        return abs(prediction - target) ** self.power


def test_parts_of_other_people_survive_json():
    run = replace(RUN, loss=TheirLoss(power=3))
    data = encode(run)
    assert (data["loss"]["semantics"], data["loss"]["power"]) == (4, 3.0)
    assert decode(json.loads(json.dumps(data))) == run


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"type": "headstart.tasks.parity:Parrot"}, "headstart.tasks.parity:Parrot.*on the path"),
        ({"type": "no_such_module:Task"}, "no_such_module:Task.*on the path"),
        ({"type": "headstart.tasks.parity:Parity", "dim": 4, "degree": 2, "colour": 1}, "Parity.*colour"),
        ({"type": "headstart.tasks.parity:Parity", "dim": 3, "degree": 5}, "dim=3, degree=5"),
    ],
)
def test_a_stored_part_that_cannot_be_built_is_refused(data, message):
    with pytest.raises(HeadstartError, match=message):
        decode(data)


def test_what_is_not_plain_cannot_be_part_of_a_run():
    with pytest.raises(HeadstartError, match="frozen dataclass of plain values"):
        encode(object())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(INDEX, loss=Hinge()), "Hinge.*SingleIndex offers mse"),
        (lambda: replace(INDEX, plan=Online(), batch=FullBatch()), r"FullBatch\(\).*no finite population.*Fixed"),
        (
            lambda: replace(INDEX, plan=Phases((Phase(size=8, steps=5), Phase())), batch=FullBatch()),
            "no finite population",
        ),
        (lambda: replace(RUN, task=Parity(25, 2), plan=Online(), batch=FullBatch()), "no finite population"),
        (lambda: From(RUN, at=Step(101)), r"step=101.*budget of 100"),
        (lambda: Step(-1), "step=-1"),
        (lambda: RUN.at(-1), "seed=-1"),
        (lambda: RUN.at(2**32), "seed=4294967296"),
        (lambda: replace(RUN, plan=Phases((Phase(size=8, steps=101), Phase()))), "beyond the budget of 100"),
        (lambda: SGD(0), "lr=0"),
        (lambda: SGD(float("nan")), "lr=nan"),
        (lambda: SGD(0.1, rates={"inptu": 1}), "'inptu'.*input, hidden"),
        (lambda: SGD(0.1, rates={Role.INPUT: -1}), "'input': -1"),
        (lambda: AdamW(0.1, beta1=1), "beta1=1"),
        (lambda: AdamW(0.1, beta2=-0.1), r"beta2=-0\.1"),
        (lambda: AdamW(0.1, eps=0), "eps=0"),
        (lambda: AdamW(0.1, weight_decay=-1), "weight_decay=-1"),
    ],
)
def test_a_run_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(HeadstartError, match=message):
        make()


def test_a_full_batch_of_a_finite_population_is_welcome():
    assert replace(RUN, plan=Online(), batch=FullBatch()).plan == Online()


def test_a_fresh_run_has_no_source():
    assert RUN.start == Fresh()
    assert RUN.source is None


def test_a_source_is_trained_with_the_seed_of_the_run_that_starts_from_it():
    child = replace(RUN, start=From(RUN.at(4)), seed=9)
    assert child.source == RUN.at(9)
    assert child.at(2).source == RUN.at(2)
    assert child.cell == replace(RUN, start=From(RUN.at(7))).cell


def test_the_same_weights_pass_only_between_equal_shapes():
    weights = RUN.fresh_weights()
    assert Same()(weights, RUN.fresh_weights()) == weights
    with pytest.raises(HeadstartError, match="different parameters"):
        Same()(weights, OTHERS["width"].fresh_weights())


@pytest.mark.parametrize(
    ("run", "metric", "curve", "target", "there"),
    [
        (RUN, "test_accuracy", [0.9, 0.7], 0.7, True),
        (RUN, "test_accuracy", [0.9, 0.69], 0.7, False),
        (RUN, "test_loss", [0.2, 0.5], 0.5, True),
        (RUN, "train_loss", [0.2, 0.6], 0.5, False),
        (INDEX, "test_relative_loss", [1.0, 0.4], 0.5, True),
        (INDEX, "test_relative_loss", [0.4, 1.0], 0.5, False),
    ],
)
def test_a_target_is_reached_at_it_or_better(run, metric, curve, target, there):
    assert reached(run, Reaches(metric, target), {metric: np.array(curve)}) is there


def test_a_metric_that_is_not_recorded_is_refused():
    with pytest.raises(HeadstartError, match=r"test_accurcy.*test_accuracy"):
        reached(RUN, Reaches("test_accurcy", 0.5), {"test_accuracy": np.array([0.5])})
