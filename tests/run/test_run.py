"""Runs: canonical JSON, identity and validation."""

import json
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from headstart.core.encoding import canonical, decode, encode, identity
from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines import lower
from headstart.losses import MSE, CrossEntropy, Hinge
from headstart.methods import LayerScale, MuP, OnSphere, RandomLabels, Same, Site
from headstart.models import MLP, Embedding, OneHot
from headstart.models.mlp import Activation, Init
from headstart.optimizers import SGD, AdamW, Cosine, Decay
from headstart.plans import AutoPhases, ByRole, Fixed, Online, Phase, Phases
from headstart.run import Best, Carry, First, Fresh, From, Precision, Reaches, Run, Step, reached
from headstart.tasks import Hermite, ModularArithmetic, Parity, SingleIndex, Split

RUN = Run(Parity(8, 2), MLP(16), Fixed(64), MSE(), SGD(0.1), budget=Budget(100))
INDEX = replace(RUN, task=SingleIndex(6))

ADAM = replace(RUN, optimizer=AdamW(0.1))

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
    "ties": replace(RUN, task=Parity(8, 2, ties=0)),
    "momentum": replace(RUN, optimizer=SGD(0.1, momentum=0.9)),
    "nesterov": replace(RUN, optimizer=SGD(0.1, momentum=0.9, nesterov=True)),
    "kind of decay": replace(RUN, optimizer=SGD(0.1, weight_decay=0.1, decay=Decay.DECOUPLED)),
    "schedule": replace(RUN, optimizer=SGD(0.1, schedule=Cosine())),
    "precision": replace(RUN, precision=Precision.FLOAT64),
    "attempt": replace(RUN, attempt=1),
    "carry": replace(ADAM, start=From(ADAM, carry=Carry(moments=True))),
    "position": replace(RUN, start=From(RUN, carry=Carry(position=False))),
    "first": replace(RUN, start=From(First(RUN, 3, Reaches("test_accuracy", 0.75)))),
    "best": replace(RUN, start=From(Best((RUN, replace(RUN, optimizer=SGD(0.3))), "test_loss", Step(40)))),
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
        "ties": 0.5,
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
        (replace(RUN, precision="float32"), RUN),
        (replace(RUN, task=Parity(8, 2, ties=0)), replace(RUN, task=Parity(8, 2, ties=0.0))),
        (
            replace(RUN, methods=(LayerScale(init={Role.INPUT: 1, Role.READOUT: 2}),)),
            replace(RUN, methods=[LayerScale(init={"readout": 2.0, "input": 1.0})]),
        ),
        (replace(RUN, model=MLP(16, activation="gelu")), replace(RUN, model=MLP(16, activation=Activation.GELU))),
        (replace(RUN, task=Parity(8, 2)), replace(RUN, task=Parity(8, 2, support=[1, 0]))),
        (replace(RUN, start=From(RUN.at(3))), replace(RUN, start=From(RUN, at=Step(100)))),
    ],
    ids=["rate", "decay", "norm", "precision", "ties", "scales", "activation", "support", "start"],
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
    assert decode(json.loads(json.dumps(data)), trust=[__name__]) == run


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"type": "headstart.tasks.parity:Parrot"}, "headstart.tasks.parity:Parrot.*on the path"),
        ({"type": "trusted.no_such_module:Task"}, "no_such_module:Task.*on the path"),
        ({"type": "json:JSONDecoder"}, "not of headstart.*trust="),
        ({"type": "headstart.tasks.parity:Parity", "dim": 4, "degree": 2, "colour": 1}, "Parity.*colour"),
        ({"type": "headstart.tasks.parity:Parity", "dim": 3, "degree": 5}, "dim=3, degree=5"),
    ],
)
def test_a_stored_part_that_cannot_be_built_is_refused(data, message):
    with pytest.raises(HeadstartError, match=message):
        decode(data, trust=["trusted"])


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
        (lambda: SGD(0.1, momentum=1), "momentum=1"),
        (lambda: SGD(0.1, nesterov=True), "needs momentum"),
        (lambda: SGD(0.1, decay="weird"), "coupled or decoupled"),
        (lambda: SGD(0.1, schedule=Cosine), "schedule.*Cosine"),
        (lambda: replace(RUN, model="mlp"), r"model='mlp'.*MLP\(width=64\)"),
        (lambda: replace(RUN, plan=None), r"plan=None.*Online"),
        (lambda: replace(RUN, optimizer=0.1), r"optimizer=0.1.*SGD"),
        (lambda: replace(RUN, loss="mse"), r"loss='mse'.*MSE"),
        (lambda: replace(RUN, start=RUN), r"Fresh\(\) or From"),
        (lambda: replace(RUN, precision="half"), "float32 or float64"),
        (lambda: replace(RUN, task=ModularArithmetic(5), loss=CrossEntropy()), r"10 symbols.*Embedding\(dim"),
        (lambda: replace(RUN, model=MLP(embedding=OneHot())), "table of symbols.*real numbers"),
        (lambda: replace(RUN, task=Split(Parity(4, 2), 10), plan=Online()), "without end.*10 training rows.*Fixed"),
        (lambda: replace(RUN, task=Split(Parity(4, 2), 10), plan=Fixed(11)), "11 samples.*10 training rows"),
        (lambda: replace(RUN, task=Split(Parity(4, 2), 10), plan=ByRole(Fixed(5), (Role.INPUT,))), "10 training rows"),
        (lambda: replace(RUN, plan=AutoPhases(2, sizes=(4, 8), falling=True)), "accuracy of Parity rises"),
        (lambda: replace(INDEX, plan=AutoPhases(2, sizes=(4, 8))), "relative_loss of SingleIndex falls.*falling=True"),
        (lambda: From("run"), "give a Run"),
        (lambda: From(RUN, via=Same), "transformation of States"),
        (lambda: From(RUN, carry=True), r"carry=True"),
        (lambda: From(RUN, at=10), r"at=10.*Step\(100\), or Reaches"),
        (lambda: Best((RUN,), "test_loss", at=Reaches("test_loss", 1)), r"Best\(at=Reaches.*Step\(100\)"),
        (lambda: Reaches("test_loss", "x"), "finite number"),
        (lambda: Reaches("test_loss", float("nan")), "finite number"),
        (lambda: Carry(moments=1), "moments=1"),
        (lambda: Carry(position="no"), "position='no'"),
        (lambda: SGD(0.1, 0.9, nesterov="no"), "nesterov='no'"),
        (lambda: Embedding(3, fixed="no"), "fixed='no'"),
        (lambda: replace(RUN, start=From(RUN, carry=Carry(moments=True))), "SGD without momentum"),
        (lambda: First(replace(RUN, start=From(RUN)), 3, Reaches("test_loss", 1)), "all would be the same"),
        (lambda: replace(RUN, methods=(OnSphere((Role.QUERY,)),)), "no weights with these roles; its own are input"),
        (
            lambda: replace(RUN, methods=(LayerScale.query_key(rate=2),)),
            "of key, query.*roles are input",
        ),
        (lambda: replace(RUN, methods=(LayerScale(init={7: 2}),)), "layers 0 to 1"),
        (lambda: From(RUN, at=Reaches("test_accurcy", 0.5)), "records test_accuracy"),
        (lambda: From(First(RUN, 2, Reaches("test_accuracy", 0.5)), at=Step(3)), "says itself"),
        (lambda: First(RUN, 0, Reaches("test_accuracy", 0.5)), "attempts=0"),
        (lambda: First(RUN, 2, Step(3)), "metric to reach"),
        (lambda: Best((), "test_loss"), "sequence of Runs"),
        (lambda: Best((RUN,), "loss"), "test_loss"),
        (lambda: replace(RUN, start=From(replace(RUN, optimizer=AdamW(0.1)), carry=Carry(True))), "AdamW.*SGD"),
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


def test_replace_works_on_a_run_whose_cell_was_read():
    assert RUN.cell
    assert replace(RUN, plan=Online()).cell == OTHERS["plan"].cell


def test_a_fresh_run_has_no_source():
    assert RUN.start == Fresh()
    assert RUN.sources == ()


def test_a_source_is_trained_with_the_seed_of_the_run_that_starts_from_it():
    child = replace(RUN, start=From(RUN.at(4)), seed=9)
    assert child.sources == ((RUN.at(9), Step(100)),)
    assert child.at(2).sources == ((RUN.at(2), Step(100)),)
    assert child.cell == replace(RUN, start=From(RUN.at(7))).cell


def test_attempts_are_runs_with_other_initial_weights_and_the_same_everything_else():
    reach = Reaches("test_accuracy", 0.75)
    child = replace(RUN, start=From(First(RUN, 3, reach)), seed=9)
    assert [(run.attempt, run.seed, at) for run, at in child.sources] == [(k, 9, reach) for k in range(3)]
    first, second, _ = (run for run, _ in child.sources)
    assert first == RUN.at(9)
    assert not np.array_equal(first.fresh_weights()["layers.0.weight"], second.fresh_weights()["layers.0.weight"])
    assert np.array_equal(lower(first).pool(0).x, lower(second).pool(0).x)


def site(source, target):
    return Site(source.model, source.task.signature, target.model, target.task.signature, lower(target).fresh())


def test_the_same_state_passes_only_between_equal_shapes():
    state = lower(RUN).fresh()
    assert Same()(state, site(RUN, RUN)).weights is state.weights
    with pytest.raises(HeadstartError, match=r"different parameters, such as layers\.0"):
        Same()(state, site(RUN, OTHERS["width"]))


def test_the_site_of_a_start_has_the_scales_of_all_methods():
    scaled = replace(RUN, methods=(LayerScale(init={Role.READOUT: 10}),))
    plain = lower(RUN).fresh().weights
    assert np.array_equal(site(RUN, scaled).fresh.weights["layers.1.weight"], 10 * plain["layers.1.weight"])


def test_scales_of_initial_values_that_a_start_would_ignore_are_refused():
    methods = (LayerScale(init={Role.READOUT: 10}),)
    with pytest.raises(HeadstartError, match="no effect on a run that starts from another"):
        replace(RUN, methods=methods, start=From(RUN))


def test_scales_that_the_source_has_too_are_welcome_on_a_start():
    scaled = replace(RUN, methods=(MuP(8),))
    assert replace(scaled, start=From(scaled)).start.run == scaled
    relabelled = replace(RUN, methods=(RandomLabels(),))
    assert replace(relabelled, start=From(RUN)).start.run == RUN


@dataclass(frozen=True)
class Grown:
    """A part that gained a field."""

    size: int = 3
    colour: str = field(default="red", metadata={"since": 3})
    tags: tuple[str, ...] = field(default_factory=tuple, metadata={"since": 3})


def test_a_field_that_came_later_does_not_enter_the_json_at_its_default():
    assert encode(Grown()) == {"type": f"{__name__}:Grown", "size": 3}
    assert encode(Grown(colour="blue", tags=("a",))) == {
        "type": f"{__name__}:Grown", "size": 3, "colour": "blue", "tags": ["a"]
    }  # fmt: skip
    assert decode(encode(Grown()), trust=[__name__]) == Grown()
    assert decode(encode(Grown(colour="blue")), trust=[__name__]) == Grown(colour="blue")


def test_cells_of_version_0_1_are_none_of_this_one():
    data = json.loads(RUN.json)
    assert data.pop("format") == 2
    assert identity(canonical(data)) != RUN.cell


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
    assert reached(run, Reaches(metric, target), {metric: curve[-1]}) is there


def test_a_metric_that_is_not_recorded_is_refused():
    with pytest.raises(HeadstartError, match=r"test_accurcy.*test_accuracy"):
        reached(RUN, Reaches("test_accurcy", 0.5), {"test_accuracy": 0.5})
