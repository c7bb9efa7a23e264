"""What the studies of growing share, on losses of which the answer is known."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.core.trace import Trace, Traces
from headstart.core.units import Cost
from headstart.engines import choose
from headstart.methods import Grow
from headstart.run import Run
from headstart.studies import find
from headstart.studies.growing import (
    SMOKE,
    GrowingKnobs,
    Growth,
    MeanOver,
    between_orders,
    children,
    growths,
    name_of,
    operators,
    parent,
    stacking,
    thirty_operators,
    ul2,
)

KNOBS = GrowingKnobs(num_seeds=2, text="made", steps=60, lag=40, last=2, trailing=2)


def toy(best=7, knobs=KNOBS):
    """Children that swap their ranks after three records; `best` ends best, the last is best at step 0."""
    chosen = operators(knobs)
    end = np.abs(np.arange(len(chosen)) - best) / 100 + 2.0
    curves = np.where(np.arange(7) < 3, 5 - end[:, None], end[:, None])
    return Growth(knobs, chosen, np.arange(7) * 10, curves, parent=1.9)


def test_the_operators_are_the_thirty_of_the_paper():
    chosen = operators(KNOBS)
    assert len(chosen) == 30
    assert {operator.index for operator in chosen} == {0, 2, 4, 6, 8}
    assert {operator.block for operator in chosen} == {1, 2, 4}


def test_the_best_child_is_found_once_ranks_have_settled():
    growth = toy()
    assert growth.lag(0) == 29
    assert growth.lag(KNOBS.lag) == 7 == int(growth.final.argmin())
    assert growth.regret(7) == 0
    assert growth.regret(29) == pytest.approx(1.0)
    assert growth.correlation(0) == pytest.approx(-1)
    assert growth.correlation(KNOBS.lag) == pytest.approx(1)
    assert growth.operators[growth.on_top("random")] == Grow(8, 4, "random", 4)
    assert len(growth.only("duplicate").losses) == 15
    assert growth.raised().min() > 0


def test_halving_loses_a_child_that_is_late():
    assert toy().halved() != 7  # at a quarter of LAG's steps the best one is among the worst
    settled = replace(toy(), losses=np.repeat(toy().final[:, None], 7, axis=1))
    assert settled.halved() == 7


@dataclass(frozen=True)
class Fake:
    """Results with the curves of toys: parents differ in which child is best, orders in nothing."""

    knobs: Any
    traces: dict


def results():
    steps = np.arange(7) * 10

    def traces(curves):
        return Traces(
            [
                Trace("cell", seed, steps, steps, steps.astype(float), {"test_loss": curve})
                for seed, curve in enumerate(curves)
            ]
        )

    both = [toy(7), toy(20)]
    found = {"parent": traces([np.full(7, g.parent) for g in both])}
    for order in range(KNOBS.orders):
        for i, operator in enumerate(operators(KNOBS)):
            found[name_of(operator, order)] = traces([g.losses[i] for g in both])
    return Fake(KNOBS, found)


def test_growths_are_put_together_by_parent_and_order():
    found = growths(results())
    assert [[int(g.final.argmin()) for g in orders] for orders in found] == [[7, 7], [20, 20]]
    assert found[0][0].parent == 1.9
    estimate = MeanOver(lambda g: float(g.final.argmin()))(results())
    assert (estimate.value, estimate.low, estimate.high) == (13.5, 7.0, 20.0)
    assert between_orders(results()).value == pytest.approx(1.0)
    assert thirty_operators.found_transition(results()).value == pytest.approx(30, abs=10)


def test_all_children_of_a_parent_share_it_and_their_data_and_orders_differ():
    knobs = thirty_operators.Knobs(**SMOKE)
    first, *arms = children(knobs, parent(knobs))
    assert {arm.run.sources[0][0].cell for arm in arms} == {first.run.cell}
    assert {arm.run.task.order for arm in arms} == {0, 1}
    assert len({arm.run.cell for arm in arms}) == len(arms) == 2 * len(operators(knobs))
    assert all(arm.run.start.carry.moments and arm.run.start.carry.position for arm in arms)


def test_lag_must_be_a_recorded_step_before_the_end():
    with pytest.raises(HeadstartError, match="lag=45: give a recorded step before the last, 600"):
        GrowingKnobs(lag=45)


def test_the_stages_of_adaptive_stacking_are_those_of_the_paper():
    paper = stacking.PAPER
    sizes = [len(stacking.space(paper, depth)) for depth in paper.depths]
    assert sizes == [3, 15, 27, 21, 27]
    assert sum(sizes) == 93
    assert {operator.index for operator in stacking.space(paper, 20)} == set(range(0, 17, 2))
    assert paper.total == 1_000_000


def test_all_ways_of_stacking_end_with_the_same_layers_after_as_many_steps():
    knobs = stacking.Knobs(text="made")
    found = {arm.name: arm.run for arm in stacking.arms(knobs)}

    def steps(run):
        """Of the path that led to a run; of a search, one of its children."""
        return run.budget.steps + (steps(run.sources[0][0]) if run.sources else 0)

    assert {found[name].model.depth for name in ("adaptive", "gradual", "progressive", "scratch")} == {12}
    assert {name: steps(found[name]) for name in ("adaptive", "progressive", "scratch")} == dict.fromkeys(
        ("adaptive", "progressive", "scratch"), knobs.total
    )
    more = found["gradual"].budget.steps - knobs.steps
    assert steps(found["gradual"]) == knobs.total + more
    # As much as the children cost: 3 of 8 layers and 15 of 12, 40 steps each; heads and tables cost a little too.
    assert 0 <= more * 12 - (3 * 8 + 15 * 12) * knobs.lag < 12 * 2 * knobs.record_every
    end = stacking.ends(knobs)
    assert steps(found["adaptive"]) - found["adaptive"].budget.steps + end["adaptive"] == knobs.total


def test_losses_are_read_at_equal_steps_or_at_equal_cost():
    knobs = stacking.Knobs(text="made", last=1)
    steps = np.arange(0, 1300, 100)

    def curve(flops, before, slope):
        values = {"test_loss": 5 - slope * steps}
        return Trace("cell", 0, steps, steps, steps * flops, values, before=Cost(0, 0, before, 0.0))

    fake = Fake(
        knobs,
        {
            "gradual": Traces([curve(2.0, 400.0, 1e-3), curve(2.0, 400.0, 1e-3)]),
            "scratch": Traces([curve(3.0, 0.0, 2e-3), curve(3.0, 0.0, 2e-3)]),
        },
    )
    assert stacking.spent(fake, "gradual").tolist() == [400 + 2 * 400] * 2
    np.testing.assert_allclose(stacking.losses(fake, "gradual"), 5 - 0.4)
    np.testing.assert_allclose(stacking.losses(fake, "scratch"), 5 - 2e-3 * 1200)
    # Scratch has cost as much after 400 steps.
    difference = stacking.LossAbove(("gradual", "scratch"))(fake)
    assert difference.value == pytest.approx(4.6 - (5 - 0.8))


def test_the_rate_of_a_child_goes_on_where_that_of_its_parent_was():
    knobs = ul2.Knobs(text="made")
    whole = [run.optimizer.schedule.factors(run.budget.steps) for run in (ul2.source(knobs), ul2.arms(knobs)[1].run)]
    rates = np.concatenate(whole)
    assert len(rates) == knobs.pretraining + knobs.steps
    assert np.all(np.diff(rates[knobs.warm_up :]) <= 0)
    assert rates[-1] == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize("name", ["factor", "moments", "pays", "preservation", "stacking", "thirty_operators", "ul2"])
def test_what_the_papers_presets_cost_is_said_without_their_texts(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_DATA", str(tmp_path))
    study = find(f"growing/{name}")
    runs = [arm.run for arm in study.arms(study.presets["paper"]) if isinstance(arm.run, Run)]
    engine = choose(runs[-1]).engine
    assert engine.name == "loop"  # no two of these models fit into the memory of a stack
    assert engine.seconds(runs[-1]) > 1e5
