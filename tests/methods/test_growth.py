"""Growth in depth: the operators of the paper, what new layers begin with, and what the optimizer knows of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import headstart as hs
from headstart.core.state import State
from headstart.engines import Interrupted, Job, lower
from headstart.engines.ensemble import Ensemble
from headstart.engines.loop import Loop

TASK = hs.Split(hs.ModularArithmetic(5, base=5), train=0.6)
ADAM = hs.AdamW(1e-3)
PARENT = hs.Run(
    task=TASK,
    model=hs.Transformer(8, depth=3, heads=2, causal=True, readout="last"),
    plan=hs.Fixed(TASK.num_train),
    batch=hs.Batch(4),
    loss=hs.CrossEntropy(),
    optimizer=ADAM,
    budget=hs.Budget(6, 2),
)


def child(operator, parent=PARENT, **changes):
    """The parent grown by an operator after its last step, its moments carried."""
    model = replace(parent.model, depth=parent.model.depth + operator.layers)
    start = hs.From(parent, via=operator, carry=hs.Carry(moments=True))
    return replace(parent, model=model, start=start, **changes)


def trained(run=PARENT, seed=0):
    """The state of a run at the end of its budget."""
    end = hs.Step(run.budget.steps)
    (outcome,) = Loop().train([Job(run.at(seed), keep=(end,))])
    return outcome.states[end]


@pytest.fixture(scope="module")
def state():
    return trained()


def grown(state, operator, run=None, **methods):
    run = run or child(operator, **methods)
    site = hs.Site(PARENT.model, TASK.signature, run.model, TASK.signature, lower(run).fresh(), run.seed)
    return operator(state, site)


def layer_of(state, number, part="weights"):
    """What a part of the state has of one layer, by the names within the layer."""
    mark = f"blocks.{number}."
    return {key.replace(mark, ""): array for key, array in getattr(state, part).items() if mark in key}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def written(operator, depth):
    """The grown stack in the paper's numbering, with "random" for layers that are drawn."""
    return ["random" if layer.drawn else layer.source + 1 for layer in operator.layer_map(depth)]


# The operators of the paper's text, where the index i is one more than here.


@pytest.mark.parametrize(
    ("index", "block", "new", "expected"),
    [
        (2, 1, "duplicate", [1, 2, 2, 3, 3, 4, 4, 5, 6]),
        (2, 3, "duplicate", [1, 2, 3, 4, 2, 3, 4, 5, 6]),
        (2, 1, "random", [1, 2, "random", 3, "random", 4, "random", 5, 6]),
        (2, 3, "random", [1, 2, 3, 4, "random", "random", "random", 5, 6]),
    ],
)
def test_the_four_examples_of_the_text(index, block, new, expected):
    assert written(hs.Grow(index - 1, block, new, layers=3), 6) == expected


def test_operators_that_have_a_name():
    assert written(hs.Grow.progressive(3), 3) == [1, 2, 3, 1, 2, 3]
    assert written(hs.Grow.progressive(2, times=3), 2) == [1, 2, 1, 2, 1, 2]
    assert written(hs.Grow.on_top(6, 2), 6) == [1, 2, 3, 4, 5, 6, 5, 6]
    assert written(hs.Grow.on_top(4, 2, "random"), 4) == [1, 2, 3, 4, "random", "random"]
    assert written(hs.Grow(0, 1, layers=3, copies=3), 1) == [1, 1, 1, 1]
    assert written(hs.Grow(layers=0), 3) == [1, 2, 3]


def test_the_design_space_of_the_paper_has_thirty_operators():
    space = hs.design_space(12, 4, indices=range(0, 9, 2))
    assert len(space) == len(set(space)) == 30
    assert {o.index for o in space} == {0, 2, 4, 6, 8}
    assert {o.block for o in space} == {1, 2, 4}
    assert all(len(o.layer_map(12)) == 16 for o in space)
    assert hs.Grow.on_top(12, 4) in space
    assert hs.Grow.on_top(12, 4, "random") in space
    assert hs.design_space(12, 4, new="random") == hs.design_space(12, 4, new=("random",))


def test_the_stages_of_adaptive_stacking_have_ninety_three():
    every = [hs.design_space(depth, 4, new=("duplicate",)) for depth in (4, 8, 12)]
    even = [hs.design_space(d, 4, indices=range(0, d - 3, 2), new=("duplicate",)) for d in (16, 20)]
    assert [len(space) for space in (*every, *even)] == [3, 15, 27, 21, 27]


# Weights.


def test_old_layers_stay_and_duplicates_are_copies(state):
    made = grown(state, hs.Grow(1, 2, layers=2))
    order = [0, 1, 2, 1, 2]
    assert all(same(layer_of(made, i), layer_of(state, source)) for i, source in enumerate(order))
    others = {n: a for n, a in made.weights.items() if not n.startswith("blocks")}
    assert others.keys() == {n for n in state.weights if not n.startswith("blocks")}
    assert all(np.array_equal(a, state.weights[n]) for n, a in others.items())


def test_random_layers_are_drawn_as_no_layer_of_the_parent_was(state):
    operator = hs.Grow(1, 1, "random", layers=2)
    made, fresh = grown(state, operator), lower(child(operator)).fresh()
    for place, drawn in ((2, 3), (4, 4)):
        assert same(layer_of(made, place), layer_of(fresh, drawn))
    assert not any(same(layer_of(made, 2), layer_of(lower(PARENT).fresh(), i)) for i in range(3))


def test_scales_of_methods_are_on_random_layers_and_not_on_old_ones(state):
    methods = (hs.InitScale(0.5),)
    operator = hs.Grow.on_top(3, 1, "random")
    plain, half = (grown(state, operator, child(operator, methods=m)) for m in ((), methods))
    assert np.array_equal(half.weights["blocks.3.up.weight"], 0.5 * plain.weights["blocks.3.up.weight"])
    assert np.array_equal(half.weights["blocks.2.up.weight"], plain.weights["blocks.2.up.weight"])


def predictions(model, state):
    module = model.module(TASK.signature).double()
    module.load_state_dict({name: torch.from_numpy(array).double() for name, array in state.weights.items()})
    return module(torch.from_numpy(TASK.sample(0, np.arange(TASK.num_train)).x)).detach().numpy()


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize(("index", "block"), [(0, 1), (1, 2)])
@pytest.mark.parametrize("new", ["zero_output", "identity"])
def test_layers_with_zero_outputs_keep_the_function_to_rounding(new, index, block, pre_norm):
    parent = replace(PARENT, model=replace(PARENT.model, pre_norm=pre_norm))
    operator = hs.Grow(index, block, new, layers=2)
    run, source = child(operator, parent), lower(parent).fresh()
    ends = parent.model, TASK.signature, run.model, TASK.signature
    made = operator(source, hs.Site(*ends, lower(run).fresh()))
    np.testing.assert_allclose(predictions(run.model, made), predictions(parent.model, source), rtol=1e-12, atol=1e-13)
    zero = [n for n, a in made.weights.items() if not a.any()]
    assert len(zero) == 2 * 4  # projection and down with their biases, of two layers


def test_a_layer_and_its_scaled_copies_do_in_smaller_steps_what_it_did(state):
    """Twice half a step is a step to first order: as layers add less, the error falls faster than what they add."""

    def error(size, new):
        small = replace(state, weights={n: a * (size if ".down" in n or ".proj" in n else 1) for n, a in weights()})
        operator = hs.Grow(0, 1, new, layers=3)
        model = child(operator).model
        return np.abs(predictions(model, grown(small, operator)) - predictions(PARENT.model, small)).max()

    def weights():
        return state.weights.items()

    assert error(0.01, "scaled") / error(0.1, "scaled") < 0.015
    assert error(0.01, "duplicate") / error(0.1, "duplicate") > 0.05
    thrice = hs.Grow(0, 1, "scaled", layers=12, copies=2).layer_map(6)
    assert {layer.scale for layer in thrice} == {1 / 3}


# What the optimizer knows.


@pytest.mark.parametrize(
    ("new", "moments", "copied"),
    [
        ("duplicate", "by_kind", True),
        ("scaled", "by_kind", True),
        ("random", "by_kind", False),
        ("zero_output", "by_kind", False),
        ("identity", "by_kind", False),
        ("random", "copied", True),
        ("duplicate", "zero", False),
    ],
)
def test_moments_and_step_counts_follow_the_layers(state, new, moments, copied):
    made = grown(state, hs.Grow(1, 1, new, layers=2, moments=moments))
    for place, source, is_new in ((0, 0, False), (1, 1, False), (2, 1, True), (3, 2, False), (4, 2, True)):
        averages, ages = (layer_of(made, place, part) for part in ("moments", "counters"))
        if not is_new or copied:
            assert same(averages, layer_of(state, source, "moments"))
            assert set(map(int, ages.values())) == {6}
        else:
            assert averages.keys() == layer_of(state, source, "moments").keys()
            assert not any(array.any() for array in averages.values())
            assert set(map(int, ages.values())) == {0}


def test_the_wrong_count_keeps_the_sources_step_for_zero_moments(state):
    made = grown(state, hs.Grow.on_top(3, 1, "random"))
    wrong = grown(state, replace(hs.Grow.on_top(3, 1, "random"), count="source"))
    assert set(map(int, layer_of(wrong, 3, "counters").values())) == {6}
    assert same(layer_of(wrong, 3, "moments"), layer_of(made, 3, "moments"))
    assert same(wrong.weights, made.weights)


def first_update(engine, count, steps=4000):
    """The largest first change of a new layer's weights over the rate, when the parent is `steps` steps old."""
    rate, operator = 1e-4, replace(hs.Grow.on_top(3, 1, "random"), count=count)
    source = trained()
    old = replace(
        source, counters={n: np.full_like(a, steps) if "age/" in n else a for n, a in source.counters.items()}
    )
    run = child(operator, optimizer=hs.AdamW(rate, weight_decay=0.0), budget=hs.Budget(1, 1))
    made = grown(old, operator, run)
    start = State(made.weights, moments=made.moments, counters={n: a for n, a in made.counters.items() if "/" in n})
    (outcome,) = engine.train([Job(run, keep=(hs.Step(1),), start=start)])
    end = outcome.states[hs.Step(1)]
    changes = [np.abs(a - made.weights[n]).max() / rate for n, a in end.weights.items() if "blocks.3" in n]
    assert set(end.ages(tuple(n for n in end.weights if "blocks.3" in n))) == {1 if count == "own" else steps + 1}
    return max(changes)


@pytest.mark.parametrize("engine", [Loop(), pytest.param(Ensemble(), marks=pytest.mark.slow)], ids=["loop", "ensemble"])
def test_the_first_update_is_the_rate_with_the_right_count_and_3_16_times_it_with_the_wrong_one(engine):
    assert first_update(engine, "own") == pytest.approx(1.0, rel=0.01)
    expected = (1 - 0.9) / (1 - 0.999) ** 0.5
    # The parent's age is finite: 1 - 0.999^4001 is 0.982.
    assert first_update(engine, "source") == pytest.approx(expected * (1 - 0.999**4001) ** 0.5, rel=0.01)


def test_zero_moments_with_their_own_count_are_what_a_new_optimizer_has(state):
    """A step of the grown model by torch's AdamW, made by hand: state for the old layers, none for the new one."""
    operator = hs.Grow.on_top(3, 1, "random")
    run = child(operator, budget=hs.Budget(2, 1))
    made = grown(state, operator, run)
    start = State(made.weights, moments=made.moments, counters={n: a for n, a in made.counters.items() if "/" in n})
    (outcome,) = Loop().train([Job(run, keep=(hs.Step(2),), start=start)])

    module = run.model.module(TASK.signature)
    module.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in made.weights.items()})
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=0.01)
    for name, weight in module.named_parameters():
        if "blocks.3" not in name:
            own = {kind: torch.from_numpy(state.moments[f"{kind}/{name}"].copy()) for kind in ("exp_avg", "exp_avg_sq")}
            optimizer.state[weight] = {"step": torch.tensor(6.0), **own}
    course = lower(run).course
    for step in range(2):
        data = TASK.sample(0, course.ids(course.start(0, 0), step, 1))
        optimizer.zero_grad()
        run.loss(module(torch.from_numpy(data.x)), torch.from_numpy(data.y)).mean().backward()
        optimizer.step()
    for name, weight in module.named_parameters():
        np.testing.assert_allclose(outcome.states[hs.Step(2)].weights[name], weight.detach().numpy(), atol=2e-6)


# In the lab.


def test_growth_by_no_layers_is_the_identity(tmp_path):
    small = replace(PARENT, model=replace(PARENT.model, depth=1))
    with hs.open_store(tmp_path / "s.sqlite") as store:
        same_start, none = (
            hs.train(replace(small, start=hs.From(small, via=via, carry=hs.Carry(moments=True))), store=store)[0]
            for via in (hs.Same(), hs.Grow(layers=0))
        )
    assert all(np.array_equal(same_start[name], none[name]) for name in same_start.values)


def test_no_layers_hand_on_every_array(state):
    made = grown(state, hs.Grow(layers=0))
    assert same(made.weights, state.weights)
    assert same(made.moments, state.moments)
    assert same(made.counters, state.counters)


@pytest.mark.parametrize(
    "engine", [Loop(0.0), pytest.param(Ensemble(0.0), marks=pytest.mark.slow)], ids=["loop", "ensemble"]
)
def test_a_grown_run_that_was_stopped_goes_on_exactly(engine, state, tmp_path):
    operator = hs.Grow(1, 1, "random", layers=2)
    run, end = child(operator), hs.Step(6)
    made = grown(state, operator, run)
    start = State(made.weights, moments=made.moments, counters={n: a for n, a in made.counters.items() if "/" in n})
    job = Job(run, keep=(end,), start=start)
    (whole,) = engine.train([job])
    stopped = replace(job, checkpoint=tmp_path / "c")
    with pytest.raises(Interrupted):
        list(engine.train([stopped], watch=lambda index, step: step >= 2))
    (rest,) = engine.train([stopped])
    for part in ("weights", "moments"):
        assert same(getattr(rest.states[end], part), getattr(whole.states[end], part))
    assert all(np.array_equal(rest.trace[name], whole.trace[name]) for name in whole.trace.values)


def test_the_ensemble_agrees_with_the_loop_on_children_of_every_kind(state):
    jobs = []
    for operator in (hs.Grow(1, 1, new, layers=2, moments=m) for new in hs.NewLayers for m in ("by_kind", "copied")):
        run = child(operator)
        made = grown(state, operator, run)
        counters = {n: a for n, a in made.counters.items() if "/" in n}
        jobs.append(Job(run, start=State(made.weights, moments=made.moments, counters=counters)))
    for one, other in zip(Loop().train(jobs), Ensemble().train(jobs), strict=True):
        for name in one.trace.values:
            np.testing.assert_allclose(other.trace[name], one.trace[name], rtol=2e-4, atol=1e-5, err_msg=name)


def test_a_perceptron_grows_too_and_owes_its_parent_but_has_no_outputs_to_silence():
    run = replace(PARENT, model=hs.MLP(8, depth=4, embedding=hs.Embedding(3)))
    deeper = child(hs.Grow(0, 1, layers=1), run)
    (trace,) = hs.train(deeper)
    assert trace.before.steps == 6
    with pytest.raises(hs.HeadstartError, match=r"no residual stream.*new='duplicate'"):
        child(hs.Grow(0, 1, "identity", layers=1), run)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hs.Grow(0, 3, layers=4), r"block=3, layers=4.*block must divide layers.*block=2"),
        (lambda: hs.Grow(0, 2, layers=4, copies=4), r"block x copies must divide layers.*block=1"),
        (lambda: hs.Grow(-1, layers=1), "index=-1"),
        (lambda: hs.Grow(new="copy"), "new='copy'.*duplicate, random"),
        (lambda: hs.Grow(moments="none"), "moments='none'.*copied, zero"),
        (lambda: hs.Grow(count=0), "count=0.*own, source"),
        (lambda: hs.Grow(9, layers=4).layer_map(12), "index=9.*4 consecutive layers of 12.*from 0 to 8"),
        (lambda: hs.Grow(layers=4).layer_map(2), "none: there are too few"),
        (lambda: hs.Grow.on_top(4, 5), "layers=5.*at most 4"),
        (lambda: hs.design_space(4, 4, indices=(1,)), "index=1.*from 0 to 0"),
        (lambda: replace(child(hs.Grow(layers=2)), model=PARENT.model), "3 layers and the target 3, not 5.*depth=5"),
        (lambda: replace(child(hs.Grow(layers=2)), model=hs.Transformer(16, 5, 2)), "differ in more than"),
        (lambda: child(hs.Grow(2, layers=2)), "index=2.*from 0 to 1"),
    ],
)
def test_what_cannot_grow_is_said_before_anything_is_trained(make, message):
    with pytest.raises(hs.HeadstartError, match=message):
        make()
