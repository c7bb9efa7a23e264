"""The ensemble engine beside the loop engine, seed by seed, and what only a stack of members can get wrong.

The tolerance is that of float32 rounding carried through a short run: TOLERANCE for SGD, ADAM_TOLERANCE for AdamW,
which divides small gradients by their own size and so enlarges their rounding.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from headstart.core.roles import Parameter, Role
from headstart.core.streams import Stream, normals
from headstart.core.trace import Status
from headstart.core.units import Batch, Budget, FullBatch
from headstart.engines import Interrupted, Job
from headstart.engines.ensemble import Ensemble, cohort, engine, feed
from headstart.engines.ensemble.network import network
from headstart.engines.loop import Loop
from headstart.engines.lower import lower
from headstart.losses import MSE, Correlation, CrossEntropy, Hinge, Logistic
from headstart.methods import LayerScale
from headstart.models import MLP, Embedding, Transformer
from headstart.models.mlp import Activation
from headstart.optimizers import SGD, AdamW
from headstart.plans import Fixed, Online, Phase, Phases
from headstart.run import Reaches, Run, Step
from headstart.tasks import (
    Characters,
    Hermite,
    Language,
    MadeText,
    Mixture,
    ModularArithmetic,
    Parity,
    SingleIndex,
    Split,
    held_out,
)

TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}
ADAM_TOLERANCE = {"rtol": 1e-3, "atol": 1e-5}

RUN = Run(Parity(8, 2), MLP(10), Online(), MSE(), SGD(0.1), batch=Batch(8), budget=Budget(12, 4))
END = Step(12)
ADAM = AdamW(0.01, 0.8, 0.95, 1e-6, 0.1)
PHASES = Phases((Phase(size=16, steps=5), Phase(size=40, steps=4), Phase()))


def train(jobs, engine=None, **options):
    jobs = [job if isinstance(job, Job) else Job(job, keep=(Step(job.budget.steps),)) for job in jobs]
    return list((engine or Ensemble()).train(jobs, **options))


def assert_alike(one, two, rtol=1e-4, atol=1e-6):
    """The same records and the same weights, to a tolerance; accuracies may differ by a sample on the boundary."""
    assert (one.run, one.trace.status) == (two.run, two.trace.status)
    for name in ("steps", "samples", "flops"):
        assert np.array_equal(getattr(one.trace, name), getattr(two.trace, name)), name
    assert one.trace.values.keys() == two.trace.values.keys()
    for name, curve in one.trace.values.items():
        slack = 2 / 4096 if name == "test_accuracy" else atol
        np.testing.assert_allclose(curve, two.trace.values[name], rtol=rtol, atol=slack, err_msg=name)
    assert one.states.keys() == two.states.keys()
    for at, state in one.states.items():
        assert (state is None) == (two.states[at] is None)
        for name, value in (state.weights if state else {}).items():
            other = two.states[at].weights[name]
            np.testing.assert_allclose(value, other, rtol=rtol, atol=atol, err_msg=f"{at} {name}")


def assert_agrees_with_the_loop(runs, **tolerance):
    if not tolerance and any(isinstance(run.optimizer, AdamW) for run in runs):
        tolerance = ADAM_TOLERANCE
    for mine, theirs in zip(train(runs), train(runs, Loop()), strict=True):
        assert_alike(mine, theirs, **tolerance)


# --- agreement with the loop --------------------------------------------------------------------------------------


def test_a_language_model_whose_targets_weigh_differently_is_trained_as_by_the_loop():
    model = Transformer(
        8, 1, heads=1, causal=True, readout="tokens", activation="gelu", norm="layer", post_norm=True, tied=True
    )
    run = Run(
        task=Language(MadeText(400), length=8, objective=Mixture(), vocabulary=Characters(20), test=12),
        model=replace(model, positions="sinusoidal", weight_std=0.2),
        plan=Online(),
        loss=CrossEntropy(),
        optimizer=AdamW(0.01),
        batch=Batch(6),
        budget=Budget(4, record_every=2),
    )
    assert Ensemble().supports(run) is None
    for ours, theirs in zip(*(train([run, run.at(1)], each) for each in (Ensemble(), Loop())), strict=True):
        for name, curve in theirs.trace.values.items():
            np.testing.assert_allclose(ours.trace.values[name], curve, err_msg=name, **ADAM_TOLERANCE)


def test_a_point_of_a_small_population_is_evaluated_once_and_counts_as_often_as_it_was_drawn():
    tests = {seed: held_out(Parity(5, 2), seed) for seed in (0, 1)}
    runs = [replace(RUN, task=Parity(5, 2), seed=seed) for seed in tests]
    fed = feed.Feed([lower(run) for run in runs], "cpu", 10_000, 2**20)
    ((x, y, counts),) = fed.test_parts()
    assert x.shape[1] <= 2**5
    assert counts.sum(dim=1).tolist() == [4096, 4096]
    for row, drawn in enumerate(tests.values()):
        first = torch.from_numpy(drawn.x).double().mean(dim=0)
        assert torch.allclose((counts[row, :, None] * x[row]).sum(dim=0) / 4096, first)
        assert (counts[row] * y[row]).sum() == drawn.y.sum()


@pytest.mark.parametrize("optimizer", [SGD(0.1), ADAM], ids=["sgd", "adamw"])
@pytest.mark.parametrize("depth", [2, 4])
@pytest.mark.parametrize("activation", Activation)
def test_it_agrees_with_the_loop_for_every_activation_depth_and_optimizer(optimizer, depth, activation):
    run = replace(RUN, model=MLP(10, depth, activation), optimizer=optimizer)
    assert_agrees_with_the_loop([run.at(0), run.at(1)])


@pytest.mark.parametrize("loss", [MSE(), Hinge(), Logistic(), Correlation()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    ("plan", "batch"),
    [
        (Online(), Batch(8)),
        (Fixed(30), Batch(8)),
        (Fixed(30, replacement=False), Batch(7)),
        (PHASES, Batch(8)),
        (Fixed(50), FullBatch()),
        (Phases((Phase(size=50, steps=5), Phase())), FullBatch()),
    ],
    ids=["online", "fixed", "epochs", "phases", "full", "full phases"],
)
def test_it_agrees_with_the_loop_for_every_loss_and_plan(loss, plan, batch):
    run = replace(RUN, loss=loss, plan=plan, batch=batch)
    assert_agrees_with_the_loop([run.at(0), run.at(1)])


@pytest.mark.parametrize("model", [MLP(1), MLP(7, depth=1), MLP(10, bias=False)], ids=str)
def test_it_agrees_with_the_loop_for_odd_shapes(model):
    assert_agrees_with_the_loop([replace(RUN, model=model, batch=Batch(5)).at(seed) for seed in range(3)])


@pytest.mark.parametrize("optimizer", [SGD(0.01), ADAM], ids=["sgd", "adamw"])
def test_it_agrees_with_the_loop_on_gaussian_inputs(optimizer):
    run = replace(RUN, task=SingleIndex(6, Hermite(2)), optimizer=optimizer)
    assert_agrees_with_the_loop([run.at(0), run.at(1)])


@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_it_agrees_with_the_loop_for_rates_and_scales_by_role(kind):
    runs = [
        replace(RUN, optimizer=kind(0.05), methods=(LayerScale(rate={Role.READOUT: 0.2, Role.BIAS: 0}),)),
        replace(RUN, optimizer=kind(0.05), methods=(LayerScale(init={Role.INPUT: 0.5}, rate={Role.INPUT: 3}),)),
    ]
    assert_agrees_with_the_loop(runs)


def test_members_of_one_call_have_rates_of_their_own():
    assert_agrees_with_the_loop([replace(RUN, optimizer=SGD(rate)) for rate in (0.001, 0.01, 0.1, 0.2)])


def test_members_of_one_call_have_adam_hyperparameters_of_their_own():
    optimizers = [AdamW(0.01), AdamW(0.02, 0.5), AdamW(0.01, beta2=0.9), AdamW(0.01, eps=0.1, weight_decay=1.0)]
    assert_agrees_with_the_loop([replace(RUN, optimizer=optimizer) for optimizer in optimizers])


def test_members_of_one_call_have_targets_and_metrics_of_their_own():
    parities = [replace(RUN, task=task) for task in (Parity(8, 2), Parity(8, 3), Parity(8, 2, (4, 7)))]
    links = [
        replace(RUN, task=SingleIndex(8, Hermite(k), norm), optimizer=SGD(0.003)) for k, norm in ((1, 2.0), (2, 1))
    ]
    runs = [*parities, *links, parities[1].at(9)]
    assert len({Ensemble().group_key(run) for run in runs}) == 2
    assert_agrees_with_the_loop(runs)


def test_a_member_starts_from_the_weights_it_is_given():
    given = train([RUN.at(5)])[0].states[END]
    jobs = [Job(RUN, start=given, keep=(END,)), Job(RUN, keep=(END,))]
    for mine, theirs in zip(train(jobs), train(jobs, Loop()), strict=True):
        assert_alike(mine, theirs)


# --- a model of somebody else -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attentive:
    """One head of attention over the coordinates as tokens, with a norm before it: nothing like an MLP."""

    width: int = 4

    semantics: ClassVar[int] = 1

    def parameters(self, signature):
        n, dim = self.width, signature.num_inputs
        return (
            Parameter("embed", Role.EMBEDDING, 0, (dim, n), 1),
            Parameter("norm.weight", Role.NORM, 1, (n,), 1),
            Parameter("norm.bias", Role.BIAS, 1, (n,), 1),
            Parameter("query.weight", Role.QUERY, 1, (n, n), n),
            Parameter("key.weight", Role.KEY, 1, (n, n), n),
            Parameter("value.weight", Role.VALUE, 1, (n, n), n),
            Parameter("readout.weight", Role.READOUT, 2, (1, n), n),
        )

    def initial_weights(self, signature, seed):
        draws = {
            p.name: normals(seed, Stream.INIT, [i], int(np.prod(p.shape)))[0].reshape(p.shape)
            for i, p in enumerate(self.parameters(signature))
        }
        return draws | {"norm.weight": np.ones(self.width, dtype=np.float32)}

    def module(self, signature):
        width, dim = self.width, signature.num_inputs

        class Network(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = torch.nn.Parameter(torch.empty(dim, width))
                self.norm = torch.nn.LayerNorm(width)
                for name in ("query", "key", "value"):
                    self.add_module(name, torch.nn.utils.skip_init(torch.nn.Linear, width, width, bias=False))
                self.readout = torch.nn.utils.skip_init(torch.nn.Linear, width, 1, bias=False)

            def forward(self, x):
                mask = self.mask(x.shape[1])
                h = self.norm(x[:, :, None] * self.embed)
                q, k, v = self.query(h), self.key(h), self.value(h)
                h = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
                return self.readout(h.mean(1)).squeeze(-1)

            def mask(self, num):
                return torch.ones(num, num, dtype=torch.bool).tril()

        return Network()


@dataclass(frozen=True)
class Stubborn(Attentive):
    """A model whose forward pass asks for a number, which no stack of members can give."""

    def module(self, signature):
        network = super().module(signature)
        forward = network.forward
        network.forward = lambda x: forward(x) if x.sum().item() < 1e9 else x[:, 0]
        return network


@pytest.mark.parametrize("optimizer", [SGD(0.05), AdamW(0.01)], ids=["sgd", "adamw"])
def test_a_foreign_module_with_attention_and_norms_is_trained(optimizer):
    run = replace(RUN, model=Attentive(), optimizer=optimizer)
    assert Ensemble().supports(run) is None
    assert_agrees_with_the_loop([run.at(seed) for seed in range(3)], **ADAM_TOLERANCE)


@dataclass(frozen=True)
class Doubled:
    """f(x) = (a + b) . x: two parameters whose gradients are one tensor."""

    semantics: ClassVar[int] = 1

    def parameters(self, signature):
        dim = signature.num_inputs
        return tuple(Parameter(name, Role.READOUT, 0, (dim,), dim) for name in ("a", "b"))

    def initial_weights(self, signature, seed):
        return {name: normals(seed, Stream.INIT, [i], signature.num_inputs)[0] for i, name in enumerate("ab")}

    def module(self, signature):
        dim = signature.num_inputs

        class Network(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = (torch.nn.Parameter(torch.empty(dim)) for _ in "ab")

            def forward(self, x):
                return x @ (self.a + self.b)

        return Network()


def test_gradients_that_share_a_tensor_are_summed_once_over_passes(monkeypatch):
    monkeypatch.setattr(engine, "_CACHE_BYTES", 2**10)
    monkeypatch.setattr(engine, "_LONGEST_PASS", 4)
    monkeypatch.setattr(engine, "_SHORTEST_PASS", 1)
    task, model = replace(RUN.task, num_test=64), Doubled()
    run = replace(RUN, task=task, model=model, optimizer=SGD(0.01), plan=Fixed(90), batch=FullBatch())
    run = replace(run, budget=Budget(4, 4))
    assert_agrees_with_the_loop([run, run.at(1)])


def test_a_module_that_cannot_be_stacked_is_refused_with_the_reason():
    assert "cannot stack Stubborn" in Ensemble().supports(replace(RUN, model=Stubborn()))


@dataclass(frozen=True)
class Masked(Attentive):
    """The same with its mask as a buffer: a constant, which is no part of what a module saves, or one that is."""

    persistent: bool = False

    def module(self, signature):
        network, num = super().module(signature), signature.num_inputs
        network.register_buffer("kept", network.mask(num), persistent=self.persistent)
        network.mask = lambda num: network.kept
        return network


def test_a_module_with_a_constant_trains_like_any_other():
    plain, masked = (replace(RUN, model=model) for model in (Attentive(), Masked()))
    for trainer in (Loop(), Ensemble()):
        (one,), (two,) = train([plain], trainer), train([masked], trainer)
        assert np.array_equal(one.trace["test_loss"], two.trace["test_loss"])


def test_a_module_with_buffers_is_left_to_the_loop_which_trains_it():
    plain, masked = (replace(RUN, model=model) for model in (Attentive(), Masked(persistent=True)))
    assert Ensemble().supports(masked) == "it lacks the buffers of Masked"
    (one,), (two,) = train([plain], Loop()), train([masked], Loop())
    assert np.array_equal(one.trace["test_loss"], two.trace["test_loss"])


def test_an_optimizer_or_a_device_it_does_not_know_is_refused_by_name():
    @dataclass(frozen=True)
    class Lion(SGD):
        pass

    assert "Lion" in Ensemble().supports(replace(RUN, optimizer=Lion(0.1)))
    assert "mps" in Ensemble().supports(RUN, "mps")


# --- grouping -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [RUN, replace(RUN, plan=PHASES, optimizer=ADAM)], ids=["sgd", "adamw phases"])
def test_neighbours_and_their_order_change_nothing_beyond_rounding(run):
    runs = [run.at(seed) for seed in range(5)]
    together, reverse = train(runs), train(runs[::-1])[::-1]
    assert [outcome.run for outcome in together] == runs
    for one, two, alone in zip(together, reverse, (train([run])[0] for run in runs), strict=True):
        assert_alike(one, two)
        assert_alike(one, alone)


def test_runs_of_several_groups_come_out_in_the_order_of_the_jobs():
    runs = [
        RUN.at(1),
        replace(RUN, model=MLP(5)),
        RUN.at(2),
        replace(RUN, loss=Hinge()),
        replace(RUN, model=MLP(5)).at(3),
    ]
    outcomes = train(runs)
    assert [outcome.run for outcome in outcomes] == runs
    for run, outcome in zip(runs, outcomes, strict=True):
        assert_alike(outcome, train([run])[0])


def test_samples_are_drawn_once_for_members_that_share_a_seed(monkeypatch):
    drawn = []
    sample = Parity.sample
    monkeypatch.setattr(Parity, "sample", lambda task, seed, *rest: drawn.append(seed) or sample(task, seed, *rest))
    runs = [replace(RUN, optimizer=SGD(rate), seed=seed) for rate in (0.01, 0.1, 0.2) for seed in (50, 51)]
    outcomes = train(runs)
    assert drawn.count(50) == drawn.count(51) == 2
    for run, outcome in zip(runs, outcomes, strict=True):
        assert_alike(outcome, train([run], Loop())[0])


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_batches_are_the_same_in_blocks_of_any_length(block, monkeypatch):
    runs = [replace(RUN, plan=PHASES).at(seed) for seed in range(2)]
    whole = train(runs)
    monkeypatch.setattr(feed, "BLOCK", block)
    for one, two in zip(train(runs), whole, strict=True):
        assert_alike(one, two, rtol=0, atol=0)


# --- memory -------------------------------------------------------------------------------------------------------


def cohorts(monkeypatch):
    """The sizes and the longest passes of the cohorts made from now on."""
    made = []

    class Noted(cohort.Cohort):
        def __init__(self, members, device, limits):
            made.append((len(members), limits.rows))
            super().__init__(members, device, limits)

    monkeypatch.setattr(engine, "Cohort", Noted)
    return made


def test_members_too_large_to_share_a_stack_go_to_the_loop():
    run = replace(RUN, plan=Online(), batch=Batch(4))
    pair = Ensemble(memory_budget=4 * Ensemble().memory(run))
    assert pair.stack_size(run) == 2
    assert pair.supports(run) is None
    single = replace(pair, memory_budget=2 * Ensemble().memory(run))
    assert single.stack_size(run) == 1
    assert "beside a copy" in single.supports(run)


@pytest.mark.parametrize(
    ("plan", "batch"), [(Online(), Batch(8)), (Fixed(30), Batch(8)), (Fixed(600), FullBatch())], ids=str
)
def test_a_small_memory_budget_means_fewer_members_at_once_and_the_same_results(plan, batch, monkeypatch):
    runs = [replace(RUN, plan=plan, batch=batch).at(seed) for seed in range(5)]
    made = cohorts(monkeypatch)
    whole = train(runs)
    small = Ensemble(memory_budget=3 * Ensemble().memory(runs[0]))
    chunked = train(runs, small)
    (first, _), *others = made
    assert first == sum(members for members, _ in others) == 5
    assert max(members for members, _ in others) <= 2
    for one, two in zip(chunked, whole, strict=True):
        assert_alike(one, two)


@pytest.mark.parametrize("batch", [Batch(300), FullBatch()], ids=str)
@pytest.mark.parametrize("plan", [Fixed(301), PHASES], ids=["fixed", "phases"])
def test_large_batches_are_summed_over_passes(plan, batch, monkeypatch):
    runs = [replace(RUN, plan=plan, batch=batch).at(seed) for seed in range(3)]
    made = cohorts(monkeypatch)
    train(runs)
    monkeypatch.setattr(engine, "_CACHE_BYTES", 2**14)
    monkeypatch.setattr(engine, "_LONGEST_PASS", 50)
    assert_agrees_with_the_loop(runs)
    assert made[0][1] > 200
    assert made[-1][1] < 200


def test_one_member_is_trained_however_small_the_budget():
    for mine, theirs in zip(
        train([RUN, RUN.at(1)], Ensemble(memory_budget=2**16)), train([RUN, RUN.at(1)]), strict=True
    ):
        assert_alike(mine, theirs)


# --- divergence ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_bad", [1, 6])
@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_members_that_diverge_leave_their_neighbours_alone(kind, num_bad):
    good = [replace(RUN, optimizer=kind(0.01)).at(seed) for seed in range(4)]
    bad = [replace(RUN, optimizer=kind(1e30)).at(seed) for seed in range(num_bad)]
    runs = [good[0], *bad, *good[1:]]
    outcomes = train(runs)
    assert [o.trace.status is Status.DIVERGED for o in outcomes] == [run in bad for run in runs]
    for mine, theirs in zip(outcomes, train(runs, Loop()), strict=True):
        assert_alike(replace(mine, states={}), replace(theirs, states={}), **ADAM_TOLERANCE)
    for outcome in outcomes:
        if outcome.run in good:
            assert_alike(outcome, train([outcome.run])[0])
        else:
            assert outcome.states[END] is None
            assert outcome.trace.steps.tolist() == [0]


def test_a_member_that_diverges_late_keeps_its_finite_records():
    runs = [replace(RUN, optimizer=SGD(rate), budget=Budget(60, 1)) for rate in (0.05, 1.5)]
    (calm, wild), (_, expected) = train(runs), train(runs, Loop())
    assert calm.trace.status is Status.FINISHED
    assert wild.trace.status is expected.trace.status is Status.DIVERGED
    assert len(wild.trace.steps) == len(expected.trace.steps) > 1


def test_the_watch_hears_of_the_living_only():
    heard = []
    runs = [replace(RUN, optimizer=SGD(1e30)), RUN]
    train(runs, watch=lambda index, step: heard.append((index, step)) or False)
    assert heard == [(0, 0), (1, 0), (1, 4), (1, 8), (1, 12)]


# --- interruption -------------------------------------------------------------------------------------------------

RESUMED = [
    pytest.param(RUN, id="sgd"),
    pytest.param(replace(RUN, plan=PHASES, optimizer=ADAM), id="adamw phases"),
    pytest.param(replace(RUN, plan=Fixed(50), batch=FullBatch(), optimizer=ADAM), id="full batch"),
]
MOMENTS = (Step(3), Step(10), END, Reaches("test_loss", 1e9), Reaches("test_loss", -1.0))


def interrupt(jobs, at):
    with pytest.raises(Interrupted):
        train(jobs, watch=lambda index, step: step == at)


@pytest.mark.parametrize("run", RESUMED)
@pytest.mark.parametrize("at", [0, 8])
def test_a_group_that_is_interrupted_goes_on_bit_for_bit(run, at, tmp_path):
    jobs = [Job(run.at(seed), keep=MOMENTS, checkpoint=tmp_path / f"{seed}.ckpt") for seed in range(3)]
    whole = train([replace(job, checkpoint=None) for job in jobs])
    interrupt(jobs, at)
    heard = []
    resumed = train(jobs, watch=lambda index, step: heard.append((index, step)) or False)
    assert sorted(heard) == [(index, step) for index in range(3) for step in (0, 4, 8, 12) if step > at]
    for one, two in zip(resumed, whole, strict=True):
        assert_alike(one, two, rtol=0, atol=0)
        assert np.array_equal(one.trace["test_accuracy"], two.trace["test_accuracy"])


@pytest.mark.parametrize("run", RESUMED)
def test_members_interrupted_at_different_steps_go_on_in_other_groups(run, tmp_path):
    jobs = [Job(run.at(seed), keep=MOMENTS, checkpoint=tmp_path / f"{seed}.ckpt") for seed in range(5)]
    interrupt(jobs[:2], 4)
    interrupt([jobs[3], jobs[2]], 8)
    for one, job in zip(train(jobs), jobs, strict=True):
        assert_alike(one, train([replace(job, checkpoint=None)])[0], **ADAM_TOLERANCE)


def test_a_member_that_diverged_before_the_interruption_is_handed_over_and_needs_no_checkpoint(tmp_path):
    runs = [replace(RUN, optimizer=SGD(1e30)), RUN, RUN.at(1)]
    jobs = [Job(run, keep=(END,), checkpoint=tmp_path / f"{i}.ckpt") for i, run in enumerate(runs)]
    ended = []
    with pytest.raises(Interrupted):
        ended.extend(outcome for outcome in Ensemble().train(jobs, watch=lambda index, step: step == 8))
    assert [(outcome.run, outcome.trace.status) for outcome in ended] == [(runs[0], Status.DIVERGED)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.ckpt", "2.ckpt"]
    heard = []
    resumed = train(jobs[1:], watch=lambda index, step: heard.append((index, step)) or False)
    assert heard == [(0, 12), (1, 12)]
    for one, two in zip([*ended, *resumed], train(runs), strict=True):
        assert_alike(one, two)


def test_checkpoints_are_written_as_time_passes_and_leave_no_other_file(tmp_path):
    jobs = [Job(RUN.at(seed), checkpoint=tmp_path / f"{seed}.ckpt") for seed in range(3)]
    train(jobs, Ensemble(checkpoint_seconds=0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.ckpt", "1.ckpt", "2.ckpt"]
    heard = []
    train(jobs, watch=lambda index, step: heard.append(step) or False)
    assert heard == [12, 12, 12]


@pytest.mark.parametrize("kind", ["damaged", "another seed", "another cell", "another keep", "the loop", "anything"])
def test_a_checkpoint_that_does_not_fit_is_not_used(kind, tmp_path):
    job = Job(RUN, keep=(END,), checkpoint=tmp_path / "run.ckpt")
    other = {
        "another seed": replace(job, run=RUN.at(1)),
        "another cell": replace(job, run=replace(RUN, optimizer=SGD(0.2))),
        "another keep": replace(job, keep=()),
    }.get(kind, job)
    with pytest.raises(Interrupted):
        train([other], Loop() if kind == "the loop" else None, watch=lambda index, step: step == 8)
    if kind == "damaged":
        job.checkpoint.write_bytes(job.checkpoint.read_bytes()[:1000])
    if kind == "anything":
        torch.save({"step": 8}, job.checkpoint)
    assert_alike(train([job])[0], train([RUN])[0], rtol=0, atol=0)


def test_the_loop_does_not_go_on_from_a_checkpoint_of_the_ensemble(tmp_path):
    job = Job(RUN, keep=(END,), checkpoint=tmp_path / "run.ckpt")
    interrupt([job], 8)
    assert_alike(train([job], Loop())[0], train([RUN], Loop())[0], rtol=0, atol=0)


def test_the_number_of_torch_threads_is_given_back_between_outcomes():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert [torch.get_num_threads() for _ in Ensemble(memory_budget=2**16).train([Job(RUN), Job(RUN.at(1))])] == [
            2,
            2,
        ]
    finally:
        torch.set_num_threads(before)


def test_the_state_of_a_run_without_momentum_has_none_whoever_shares_its_stack():
    plain, heavy = replace(RUN, optimizer=SGD(0.1)), replace(RUN, optimizer=SGD(0.1, momentum=0.9))
    (alone,), (among, other) = train([plain]), train([plain, heavy])
    end = Step(RUN.budget.steps)
    assert alone.states[end].moments == among.states[end].moments == {}
    assert other.states[end].moments


def test_a_step_traced_on_whole_batches_takes_parts_of_larger_ones():
    run = Run(
        Split(ModularArithmetic(5, base=5), 12),
        MLP(4, embedding=Embedding(3)),
        Online(),
        CrossEntropy(),
        AdamW(0.1),
        batch=FullBatch(),
        budget=Budget(1, 1),
    )
    net = network(run, "cpu", run.loss)
    stack = {n: torch.from_numpy(np.stack([a, a])) for n, a in run.fresh_weights().items()}
    samples = run.task.sample(0, np.arange(12))
    x, y = (torch.from_numpy(np.stack([a, a])) for a in (samples.x, samples.y))
    count = torch.tensor(6.0)
    whole = net.gradients(stack, {}, x[:, :6].contiguous(), y[:, :6].contiguous(), count)
    part = net.gradients(stack, {}, x[:, :6], y[:, :6], count)
    assert all(torch.allclose(whole[name], part[name]) for name in whole)
