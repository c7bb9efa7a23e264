"""Runs that start from others: which samples they draw, what they owe, which source they choose, what they carry."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from small_runs import drawn_ids, numbered_run, parity_run

import headstart as hs
from headstart.engines import Interrupted, Job, lower
from headstart.engines.loop import Loop
from headstart.lab.runner import execute
from headstart.lab.starts import begin
from headstart.lab.workers import Serial

END = hs.Step(20)  # of a parity_run


class Counting(Serial):
    """Trains in this process and remembers what; Ctrl-C comes before group number `stop_before`."""

    def __init__(self, stop_before=None):
        super().__init__()
        self.trained, self.num_calls, self.stop_before = [], 0, stop_before

    def submit(self, group):
        if self.num_calls == self.stop_before:
            raise KeyboardInterrupt
        self.num_calls += 1
        self.trained += [job.run.cell for job in group.jobs]
        return super().submit(group)


@dataclass(frozen=True)
class Anew:
    """Nothing of the source: the target's own start."""

    semantics = 1
    uses_fresh = True

    def __call__(self, source, site):
        return site.fresh


@dataclass(frozen=True)
class Transposed:
    """Weights of the wrong shape."""

    semantics = 1
    uses_fresh = False

    def __call__(self, source, site):
        return replace(source, weights={name: value.T for name, value in source.weights.items()})


@pytest.fixture
def store(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as opened:
        yield opened


def train(run, store):
    return hs.train(run, store=store)[0]


def loss_on(run, weights, ids):
    """The run's mean loss on the samples with these ids, in plain torch."""
    module = run.model.module(run.task.signature)
    module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    data = run.task.sample(run.seed, ids)
    return run.loss(module(torch.from_numpy(data.x)), torch.from_numpy(data.y)).mean().item()


# Fresh samples.


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_chain_of_runs_draws_no_sample_twice(store, precision):
    first = numbered_run(precision=precision)
    second = replace(first, start=hs.From(first, at=hs.Step(4)))
    third = replace(first, start=hs.From(second), batch=hs.Batch(2))
    assert drawn_ids(train(first, store)) == list(range(10))
    assert drawn_ids(train(second, store)) == list(range(4, 14))
    assert train(third, store)["train_loss"][0] == np.mean([14**2, 15**2])
    assert store.states.moment(second, hs.Step(10)).drawn == 14
    assert begin(third, store).state.place["fresh"] == 14


def test_fresh_samples_go_on_in_the_kernels_too(store):
    source = parity_run()
    child = replace(source, start=hs.From(source, at=hs.Step(10)), seed=3)
    weights = lower(child).begin(begin_after_training(child, store)).weights
    expected = loss_on(child, weights, np.arange(160, 176))
    assert train(child, store)["train_loss"][0] == pytest.approx(expected, rel=1e-5)
    assert abs(expected - loss_on(child, weights, np.arange(16))) > 1e-4


def begin_after_training(run, store):
    execute([run], store, Serial())
    return begin(run, store).state


def test_samples_go_on_after_a_moment_that_is_a_metric(store):
    source = parity_run(budget=hs.Budget(200, 5), optimizer=hs.SGD(0.3))
    child = parity_run(start=hs.From(source, at=hs.Reaches("test_accuracy", 0.9)))
    trace = train(child, store)
    assert 0 < trace.before.steps < 200
    assert begin(child, store).state.place["fresh"] == 16 * trace.before.steps


def test_finite_pools_are_where_they_are_and_the_fresh_samples_after_them_shift(store):
    first = numbered_run()
    fixed = replace(first, start=hs.From(first), plan=hs.Fixed(4))
    phases = replace(first, start=hs.From(first), plan=hs.Phases((hs.Phase(size=4, steps=5), hs.Phase())))
    assert set(drawn_ids(train(fixed, store))) <= set(range(4))
    ids = drawn_ids(train(phases, store))
    assert set(ids[:5]) <= set(range(4))
    assert ids[5:] == list(range(ids[5], ids[5] + 5))
    assert ids[5] >= 10


def test_a_run_on_a_finite_pool_in_the_middle_of_a_chain_does_not_make_samples_come_again(store):
    first = numbered_run()
    fixed = replace(first, start=hs.From(first), plan=hs.Fixed(4))
    last = replace(first, start=hs.From(fixed))
    assert min(drawn_ids(train(last, store))) >= 10


def test_without_the_position_samples_begin_at_id_0(store):
    first = numbered_run()
    again = replace(first, start=hs.From(first, carry=hs.Carry(position=False)))
    assert drawn_ids(train(again, store)) == list(range(10))
    assert again.cell != replace(first, start=hs.From(first)).cell


# What the sources cost.


def test_a_trace_says_what_its_sources_had_cost_by_then(store):
    source = parity_run()
    child = parity_run(start=hs.From(source, at=hs.Step(10)), optimizer=hs.SGD(0.2))
    grandchild = parity_run(start=hs.From(child), optimizer=hs.SGD(0.3))
    one, two, three = (train(run, store) for run in (source, child, grandchild))
    assert one.before == hs.Cost()
    assert (two.before.steps, two.before.samples, two.before.flops) == (10, 160, one.flops[2])
    assert (three.before.steps, three.before.samples) == (10 + 20, 160 + 320)
    assert three.before.flops == one.flops[2] + two.flops[-1]
    assert three.before.seconds > two.before.seconds > 0


def test_an_axis_may_include_the_sources(store):
    source = parity_run()
    trace = train(parity_run(start=hs.From(source)), store)
    for axis, before in (("steps", 20), ("samples", 320), ("flops", trace.before.flops)):
        assert trace.axis(axis)[0] == 0
        assert np.array_equal(trace.axis(axis, total=True), trace.axis(axis) + before)
    frame = hs.Traces((trace,)).to_pandas()
    assert set(frame["before_samples"]) == {320}


# First: attempts until one works.


def attempts(run, num):
    """Separate trainings of the attempts at a run."""
    return [hs.train(replace(run, attempt=k))[0] for k in range(num)]


@pytest.fixture
def searched():
    """A run whose attempt 1 gets to an accuracy that attempt 0 does not, that accuracy, and traces of both."""
    run = parity_run(optimizer=hs.SGD(0.3))
    for seed in range(20):
        failed, worked = attempts(run.at(seed), 2)
        target = worked["test_accuracy"].max()
        if failed["test_accuracy"].max() < target and worked["test_accuracy"].argmax():
            return run.at(seed), target, failed, worked
    raise AssertionError("no such seed")


def test_an_attempt_has_other_weights_and_the_same_samples():
    run = numbered_run(seed=3)
    weights = [replace(run, attempt=k).fresh_weights() for k in (0, 1, 2)]
    assert not any(np.array_equal(weights[0][name], other[name]) for other in weights[1:] for name in other)
    assert not any(np.array_equal(weights[1][name], weights[2][name]) for name in weights[1])
    assert len({replace(run, attempt=k).cell for k in range(3)}) == 3
    one, two = attempts(run, 2)
    assert drawn_ids(one) == drawn_ids(two)
    assert one["norm_input"][0] != two["norm_input"][0]


def test_the_first_attempt_that_works_is_taken_and_the_later_ones_are_not_trained(store, searched):
    run, target, failed, worked = searched
    first = hs.First(run, attempts=4, at=hs.Reaches("test_accuracy", target))
    child, pool = replace(run, start=hs.From(first)), Counting()
    execute([child], store, pool)
    assert pool.trained == [run.cell, replace(run, attempt=1).cell, child.cell]
    (trace,) = store.cell_traces(child.cell)
    when = int(np.argmax(worked["test_accuracy"] >= target))
    assert trace["test_accuracy"][0] == worked["test_accuracy"][when]
    assert trace.before.steps == failed.steps[-1] + worked.steps[when]
    assert trace.before.samples == failed.samples[-1] + worked.samples[when]
    assert trace.before.flops == failed.flops[-1] + worked.flops[when]


def test_fresh_samples_go_on_after_those_of_failed_attempts(store, searched):
    run, target, *_ = searched
    child = replace(run, start=hs.From(hs.First(run, 4, hs.Reaches("test_accuracy", target))))
    execute([child], store, Serial())
    assert begin(child, store).state.place["fresh"] == 320


def test_fresh_samples_go_on_after_those_of_failed_attempts_that_start_from_others(store):
    middle = parity_run(start=hs.From(parity_run(), via=Anew()), optimizer=hs.SGD(0.3))
    for seed in range(40):
        failed, worked = (trace["test_accuracy"] for trace in attempts(middle.at(seed), 2))
        if failed.max() < worked.max() and 0 < worked.argmax() < 4:
            break
    first = hs.First(middle, 2, hs.Reaches("test_accuracy", worked.max()))
    last = parity_run(start=hs.From(first), seed=seed)
    execute([last], store, Serial())
    assert begin(last, store).state.place["fresh"] == 320 + 320


def test_a_metric_that_the_attempts_do_not_record_is_refused_at_once():
    with pytest.raises(hs.HeadstartError, match="the source run records"):
        parity_run(start=hs.From(hs.First(parity_run(), 2, hs.Reaches("test_los", 1.0))))


def test_where_no_attempt_works_the_run_is_unreached(store):
    run, pool = parity_run(), Counting()
    child = parity_run(start=hs.From(hs.First(run, 3, hs.Reaches("test_loss", -1.0))))
    execute([child], store, pool)
    assert len(pool.trained) == 3
    assert store.cell_traces(child.cell)[0].status is hs.Status.UNREACHED
    assert execute([child], store, pool) == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda run: hs.First(run, 0, hs.Reaches("test_loss", 0)), "attempts=0"),
        (lambda run: hs.First(run, 2, hs.Step(3)), "give the metric to reach"),
        (lambda run: hs.From(hs.First(run, 2, hs.Reaches("test_loss", 0)), at=hs.Step(3)), "says itself"),
        (lambda run: hs.Best((run,), "test_los"), "its runs record"),
        (lambda run: hs.Best((), "test_loss"), "sequence of Runs"),
        (lambda run: hs.Best((run,), "test_loss", at=hs.Step(21)), "budget of 20 steps"),
        (lambda run: hs.Best((run,), "test_loss", vias=(hs.Same(),)), "must start From another"),
        (lambda run: hs.From(run, carry=True), "Carry"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(wrong, message):
    with pytest.raises(hs.HeadstartError, match=message):
        wrong(parity_run())


# Best: a search.


def test_the_best_by_its_score_is_taken_and_all_are_paid_a_shared_ancestor_once(store):
    ancestor = parity_run()
    runs = [parity_run(start=hs.From(ancestor, at=hs.Step(at)), optimizer=hs.SGD(0.2)) for at in (5, 10)]
    runs.append(parity_run(optimizer=hs.SGD(0.3)))
    child = parity_run(start=hs.From(hs.Best(tuple(runs), "test_loss")))
    trace = train(child, store)
    finals = [store.cell_traces(run.cell)[0]["test_loss"][-1] for run in runs]
    assert trace["test_loss"][0] == min(finals)
    assert trace.before.steps == 10 + 3 * 20
    assert trace.before.samples == 16 * (10 + 3 * 20)


def test_the_best_by_a_metric_that_rises_at_a_moment_is_the_one_that_had_risen_most(store):
    runs = tuple(parity_run(optimizer=hs.SGD(lr)) for lr in (0.01, 0.1, 0.4))
    child = parity_run(start=hs.From(hs.Best(runs, "test_accuracy", at=hs.Step(13))))
    trace = train(child, store)
    traces = [store.cell_traces(run.cell)[0] for run in runs]
    chosen = runs[int(np.argmax([t["test_accuracy"][2] for t in traces]))]  # the record of step 10
    its = store.states.get(chosen, hs.Step(13)).weights
    assert all(np.array_equal(its[name], value) for name, value in begin(child, store).state.weights.items())
    assert trace.before.steps == 3 * 13


def test_the_best_by_a_window_is_that_of_the_mean_of_its_last_records(store):
    runs = tuple(parity_run(optimizer=hs.SGD(lr)) for lr in (0.01, 0.1, 0.4))
    child = parity_run(start=hs.From(hs.Best(runs, "test_loss", at=hs.Step(13), window=2)))
    train(child, store)
    losses = [store.cell_traces(run.cell)[0]["test_loss"][1:3].mean() for run in runs]  # of steps 5 and 10
    its = store.states.get(runs[int(np.argmin(losses))], hs.Step(13)).weights
    assert all(np.array_equal(its[name], value) for name, value in begin(child, store).state.weights.items())
    stored, plain = (hs.Best(runs, "test_loss", **window) for window in ({}, {"window": 1}))
    assert parity_run(start=hs.From(stored)).cell == parity_run(start=hs.From(plain)).cell
    with pytest.raises(hs.HeadstartError, match=r"Best\(window=0\)"):
        hs.Best(runs, "test_loss", window=0)


def test_one_child_through_several_transformations_is_as_many_children():
    ways = (hs.TransferFirstLayer(), hs.Same())
    children = tuple(parity_run(start=hs.From(parity_run(), via=way)) for way in ways)
    short, long = hs.Best(children[:1], "test_loss", vias=ways), hs.Best(children, "test_loss")
    assert [run.cell for run, _ in short.candidates] == [run.cell for run, _ in long.candidates]
    assert short.candidates == long.candidates


def test_what_a_search_in_every_stage_says_of_itself_grows_with_the_stages_and_not_with_all_that_was_tried():
    ways, run, lengths = (hs.TransferFirstLayer(), hs.Same()) * 10, parity_run(), []
    for _ in range(4):
        child = parity_run(start=hs.From(run))
        run = parity_run(start=hs.From(hs.Best((child,), "test_loss", vias=ways)))
        lengths.append(len(run.json))
    assert np.ptp(np.diff(lengths)) < 0.1 * lengths[0]


def test_candidates_of_which_only_summaries_are_asked_for_can_be_searched(store):
    runs = tuple(parity_run(optimizer=hs.SGD(lr)) for lr in (0.1, 0.2))
    child = parity_run(start=hs.From(hs.Best(runs, "test_loss")))
    assert execute([*runs, child], store, Serial(), keep=hs.Keep.SUMMARY) == 3


def test_a_candidate_that_diverges_is_not_taken_and_is_paid(store):
    wild, tame = parity_run(optimizer=hs.SGD(1e6)), parity_run()
    trace = train(parity_run(start=hs.From(hs.Best((wild, tame), "test_loss"))), store)
    assert trace.status is hs.Status.FINISHED
    assert trace["test_loss"][0] == store.cell_traces(tame.cell)[0]["test_loss"][-1]
    # It was seen to diverge at step 5, and recorded nothing after step 0.
    assert trace.before.steps == 20 + 5


# What is carried along.

ADAMW = hs.AdamW(1e-2)


def test_carried_moments_and_their_ages_are_those_that_the_source_ended_with(store):
    source = parity_run(optimizer=ADAMW)
    child = replace(source, start=hs.From(source, carry=hs.Carry(moments=True)))
    begun, ended = begin_after_training(child, store), store.states.get(source, END)
    assert begun.moments.keys() == ended.moments.keys()
    assert any(name.startswith("exp_avg_sq/") for name in begun.moments)
    assert all(np.array_equal(begun.moments[name], value) for name, value in ended.moments.items())
    names = tuple(begun.weights)
    assert begun.ages(names) == ended.ages(names) == [20] * len(names)
    plain = replace(source, start=hs.From(source))
    assert begin_after_training(plain, store).moments == {}


def test_carried_moments_go_on_as_plain_torch_would(store):
    source = parity_run(optimizer=ADAMW)
    child = replace(source, start=hs.From(source, carry=hs.Carry(moments=True)))
    begun = begin_after_training(child, store)
    (outcome,) = Loop().train([Job(child, begun, keep=(END,))])

    module = child.model.module(child.task.signature)
    module.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in begun.weights.items()})
    optimizer = ADAMW.build([{"params": [weight]} for weight in module.parameters()])
    for name, weight in module.named_parameters():
        kept = {kind: torch.from_numpy(begun.moments[f"{kind}/{name}"].copy()) for kind in ("exp_avg", "exp_avg_sq")}
        optimizer.state[weight] = {"step": torch.tensor(20.0), **kept}
    for step in range(20):
        data = child.task.sample(child.seed, np.arange(320 + 16 * step, 336 + 16 * step))
        optimizer.zero_grad()
        child.loss(module(torch.from_numpy(data.x)), torch.from_numpy(data.y)).mean().backward()
        optimizer.step()
    for name, weight in module.named_parameters():
        np.testing.assert_allclose(outcome.states[END].weights[name], weight.detach().numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimizer", [ADAMW, hs.SGD(0.1, momentum=0.9)], ids=["AdamW", "momentum"])
def test_two_halves_with_carried_moments_are_one_whole_on_full_batches(store, optimizer):
    parts = {"plan": hs.Fixed(32), "batch": hs.FullBatch(), "optimizer": optimizer, "precision": "float64"}
    half = parity_run(**parts)
    whole = train(parity_run(**parts, budget=hs.Budget(40, 5)), store)
    ends = [train(replace(half, start=hs.From(half, carry=hs.Carry(moments=m))), store) for m in (True, False)]
    np.testing.assert_allclose(ends[0]["test_loss"], whole["test_loss"][4:], rtol=1e-12)
    assert abs(ends[1]["test_loss"][-1] - whole["test_loss"][-1]) > 1e-6


def test_moments_of_another_optimizer_are_refused():
    source = parity_run(optimizer=ADAMW)
    with pytest.raises(hs.HeadstartError, match=r"trained by AdamW and this run by SGD.*moments=False"):
        parity_run(start=hs.From(source, carry=hs.Carry(moments=True)))


# Transformations.


def test_a_transformation_is_given_the_targets_own_start_with_its_scales(store):
    source = parity_run(optimizer=hs.SGD(0.3))
    tenfold = hs.LayerScale(init={hs.Role.READOUT: 10})
    child = parity_run(methods=(tenfold,), start=hs.From(source, via=Anew()))
    trace, plain = train(child, store), hs.train(parity_run())[0]
    assert trace["norm_readout"][0] == pytest.approx(10 * plain["norm_readout"][0], rel=1e-6)
    assert trace["norm_input"][0] == plain["norm_input"][0]
    assert trace.before.steps == 20


def test_scales_of_initial_values_without_effect_are_refused():
    source, tenfold = parity_run(), hs.LayerScale(init={hs.Role.READOUT: 10})
    with pytest.raises(hs.HeadstartError, match=r"no effect.*via Same\(\); scale the source run"):
        parity_run(methods=(tenfold,), start=hs.From(source))
    # Where the source has the same scales they had their effect there.
    scaled = parity_run(methods=(tenfold,))
    assert parity_run(methods=(tenfold,), start=hs.From(scaled)).init_scales == scaled.init_scales
    parity_run(methods=(hs.LayerScale(rate={hs.Role.READOUT: 10}),), start=hs.From(source))


def test_a_transformation_that_makes_something_else_is_named(store):
    source = parity_run()
    with pytest.raises(hs.HeadstartError, match=r"via=Transposed\(\).*layers.*the model needs"):
        train(parity_run(start=hs.From(source, via=Transposed())), store)
    with pytest.raises(hs.HeadstartError, match="the two models have different parameters"):
        train(parity_run(model=hs.MLP(width=5), start=hs.From(source)), store)


# Interruptions.


def undisturbed(run):
    return hs.train(run)[0]


def same(one, other):
    curves = all(np.array_equal(one[name], other[name]) for name in other.values)
    return curves and replace(one.before, seconds=0) == replace(other.before, seconds=0)


def test_a_stop_between_a_source_and_what_starts_from_it_loses_nothing(store):
    source = parity_run()
    child = parity_run(start=hs.From(source, at=hs.Step(7)))
    with pytest.raises(KeyboardInterrupt):
        execute([child], store, Counting(stop_before=1))
    assert (store.seeds(source.cell), store.seeds(child.cell)) == ({0}, set())
    pool = Counting()
    execute([child], store, pool)
    assert pool.trained == [child.cell]
    assert same(store.cell_traces(child.cell)[0], undisturbed(child))


def test_a_stop_between_two_attempts_loses_nothing(store):
    first = hs.First(parity_run(), 3, hs.Reaches("test_loss", -1.0))
    child, pool = parity_run(start=hs.From(first)), Counting()
    with pytest.raises(KeyboardInterrupt):
        execute([child], store, Counting(stop_before=1))
    execute([child], store, pool)
    assert pool.trained == [run.cell for run, _ in first.candidates[1:]]


def test_a_run_that_starts_from_another_goes_on_from_its_checkpoint(store):
    source = parity_run(optimizer=ADAMW)
    child = replace(source, start=hs.From(source, carry=hs.Carry(moments=True)))
    execute([source], store, Serial())
    begin_after_training(replace(child, budget=hs.Budget(5, 5)), store)  # keeps the source's State
    stopping = Serial()
    stopping.stop()
    with pytest.raises(Interrupted):
        execute([child], store, stopping)
    assert store.checkpoint_path(child).exists()
    execute([child], store, Serial())
    assert same(store.cell_traces(child.cell)[0], undisturbed(child))


# What may go wrong.


def test_a_state_that_is_dropped_before_its_run_begins_is_made_again(store):
    child = parity_run(start=hs.From(parity_run()))
    dropped = []

    class Dropping(Counting):
        def messages(self):
            if not dropped:
                dropped.append(store.collect_garbage(states=True))
            return super().messages()

    pool = Dropping()
    execute([child], store, pool)
    assert dropped[0][0] == 1
    assert store.cell_traces(child.cell)[0].status is hs.Status.FINISHED
    assert pool.trained == [parity_run().cell, parity_run().cell, child.cell]


def test_what_failed_attempts_cost_is_told_of_a_run_that_never_began(store):
    tries = hs.First(parity_run(), 3, hs.Reaches("test_accuracy", 2.0))
    trace = train(parity_run(start=hs.From(tries)), store)
    assert trace.status is hs.Status.UNREACHED
    assert trace.before.steps == 60


def test_a_chain_goes_on_after_all_its_sources_though_one_of_them_began_at_zero(store):
    first = numbered_run()
    again = replace(first, start=hs.From(first, carry=hs.Carry(position=False)), budget=hs.Budget(3, 1))
    assert drawn_ids(train(again, store)) == [0, 1, 2]
    assert drawn_ids(train(replace(first, start=hs.From(again)), store)) == list(range(10, 20))


def test_fresh_samples_go_on_after_pools_that_a_failed_attempt_left_early(store):
    plan = hs.AutoPhases(3, sizes=(32, 512), target=0.4, nested=False)
    source = parity_run(plan=plan, budget=hs.Budget(60, 10))
    child = parity_run(start=hs.From(hs.First(source, 1, hs.Reaches("test_accuracy", 2.0))))
    assert train(child, store).status is hs.Status.UNREACHED
    assert store.states.moment(source, hs.Reaches("test_accuracy", 2.0)).drawn == 32 + 128 + 512


@pytest.mark.parametrize(("one", "other"), [("float32", "float64"), ("float64", "float32")])
def test_carried_moments_take_the_precision_of_the_run(store, one, other):
    adam = parity_run(optimizer=hs.AdamW(0.01), precision=one)
    child = replace(adam, precision=other, start=hs.From(adam, carry=hs.Carry(moments=True)))
    assert train(child, store).status is hs.Status.FINISHED


@dataclass(frozen=True)
class Ageless:
    """Moments without the optimizer's own steps."""

    semantics = 1
    uses_fresh = False

    def __call__(self, source, site):
        return hs.State(source.weights, moments=source.moments)


def test_moments_without_their_age_are_refused(store):
    adam = parity_run(optimizer=hs.AdamW(0.01))
    with pytest.raises(hs.HeadstartError, match=r"without the optimizer's own step.*copy the counters"):
        train(replace(adam, start=hs.From(adam, via=Ageless(), carry=hs.Carry(moments=True))), store)
    assert train(replace(adam, start=hs.From(adam, via=Ageless())), store).status is hs.Status.FINISHED


def test_a_split_of_two_training_points_can_be_trained(store):
    tiny = parity_run(task=hs.Split(hs.Parity(4, 2), 2), plan=hs.Online(), batch=hs.FullBatch())
    assert train(tiny, store).samples.tolist() == [0, 10, 20, 30, 40]


@dataclass(frozen=True)
class Listed(hs.MLP):
    """A model that cannot be hashed."""

    notes: list = field(default_factory=list)


def test_a_model_that_cannot_be_hashed_trains_all_the_same(store):
    assert train(parity_run(model=Listed(8)), store).status is hs.Status.FINISHED
