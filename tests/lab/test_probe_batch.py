"""The critical batch size: the fit, branches from one state, what is said when it cannot tell, and the command."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import headstart as hs
from headstart.cli import main
from headstart.lab.critical_batch import BatchVerdict, fit_curve
from headstart.lab.probe_arms import full_arm
from headstart.lab.probe_batch import _sizes
from headstart.lab.probe_problem import Problem, split
from headstart.lab.probe_training import Branch, ProbeRun, Training, train_run

BATCHES = np.array([4, 8, 16, 32, 64, 128])
QUICK = {"batches": (4, 16, 64, 256), "warmup": 30, "steps": 60, "seeds": 3, "rates": (2.0, 8.0)}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def regression(rows=4000, noise=1.0):
    """Linear regression with directions of many sizes, so that it takes more than a few steps."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.arange(1, 21) ** -0.5
    x = torch.randn(rows, 20, generator=generator) * sizes
    return hs.Problem(
        model=lambda: torch.nn.Sequential(torch.nn.Linear(20, 1), torch.nn.Flatten(0)),
        dataset=TensorDataset(x, x @ (1 / sizes) + noise * torch.randn(rows, generator=generator)),
        loss=torch.nn.functional.mse_loss,
        metric=lambda prediction, target: 0.0,  # the probe looks at the loss
        optimizer=torch.optim.SGD,
        batch_size=16,
        lr=0.05,
    )


# --- the curve ----------------------------------------------------------------------------------------------------


def times(critical, fewest=20.0, seeds=8, noise=0.1, batches=BATCHES):
    """Steps to the target of some seeds, around the curve."""
    rng = np.random.default_rng(0)
    return fewest * (1 + critical / batches) * np.exp(noise * rng.normal(size=(seeds, len(batches))))


def fitted(its, batches=BATCHES, arrived=None):
    return fit_curve(batches, its, np.ones(its.shape, dtype=bool) if arrived is None else arrived)


@pytest.mark.parametrize("critical", [8.0, 30.0, 100.0])
def test_a_curve_gives_its_numbers_back_and_its_intervals_hold_them(critical):
    exact = fitted(times(critical, noise=0.0))
    assert exact.critical.value == pytest.approx(critical, rel=0.02)
    assert exact.fewest_steps.value == pytest.approx(20, rel=0.02)
    assert exact.steps(exact.critical.value) == pytest.approx(2 * exact.fewest_steps.value)
    assert exact.worst == pytest.approx(1, abs=0.02)
    noisy = fitted(times(critical))
    assert noisy.verdict is BatchVerdict.VALUE
    assert noisy.critical.low < critical < noisy.critical.high
    assert noisy.fewest_steps.low < 20 < noisy.fewest_steps.high
    assert noisy.critical.low < noisy.critical.value < noisy.critical.high


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    """Forty experiments of six seeds; at 95% three or more misses in forty have a chance of a third, seven of 0.3%."""
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(40):
        its = 20 * (1 + 30 / BATCHES) * np.exp(0.2 * rng.normal(size=(6, 6)))
        found = fitted(its).critical
        missed += not found.low <= 30 <= found.high
    assert missed < 7


def test_proportional_times_are_a_lower_bound_and_constant_ones_an_upper_bound():
    assert fitted(times(1e5, fewest=0.01)).verdict is BatchVerdict.ABOVE
    assert fitted(times(0.01)).verdict is BatchVerdict.BELOW


def test_wide_intervals_few_sizes_and_one_seed_cannot_tell():
    assert fitted(times(30, noise=2.0, seeds=3)).verdict is BatchVerdict.CANNOT_TELL
    assert fitted(times(30, seeds=1)).verdict is BatchVerdict.CANNOT_TELL
    its = times(30)
    arrived = np.ones(its.shape, dtype=bool)
    arrived[:3, :4] = False  # five of eight
    few = fitted(its, arrived=arrived)
    assert few.verdict is BatchVerdict.CANNOT_TELL
    assert few.used == (64, 128)
    assert np.isnan(few.critical.value)


def test_sizes_that_do_not_arrive_or_take_too_few_steps_are_left_out():
    its = times(30, noise=0.02)
    its[:, -1] = 1.5
    arrived = np.ones(its.shape, dtype=bool)
    arrived[:2, 0] = False
    its[:2, 0] = 1000.0
    curve = fitted(its, arrived=arrived)
    assert curve.used == (8, 16, 32, 64)
    assert curve.critical.value == pytest.approx(30, rel=0.1)


# --- branches -----------------------------------------------------------------------------------------------------


def branch_of(problem, size, lr, seed=0, until=None):
    return ProbeRun(full_arm(20, "some"), lr, seed, (0, 5, 10, 20), Branch(10, problem.lr, 3, size, until))


def test_a_branch_with_the_same_batches_goes_on_from_the_warmed_up_state():
    problem = regression()
    data = split(problem, 0)
    warm = Training(replace(problem, metric=None), data, full_arm(10), problem.lr, 3)
    warm.advance(10)
    found = train_run(problem, data, branch_of(problem, 16, problem.lr))
    other = train_run(problem, data, branch_of(problem, 64, 3 * problem.lr))
    assert found.curve[0] == other.curve[0] == pytest.approx(warm.curve[-1])
    # By hand: the model and optimizer as they are, other batches.
    sampler = hs.PhasedBatchSampler(data.num_train, hs.PhaseSchedule([], everything=20), 64, 0, 1, 0)
    for group in warm.optimizer.param_groups:
        group["lr"] = 3 * problem.lr
    for rows in sampler:
        warm.optimizer.zero_grad()
        problem.training_loss(warm.model, data.batch(rows)).backward()
        warm.optimizer.step()
    assert other.curve[-1] == pytest.approx(warm.evaluate())


def test_a_branch_ends_once_it_was_at_its_target_twice():
    problem = regression()
    data = split(problem, 0)
    whole = train_run(problem, data, branch_of(problem, 64, 0.2))
    early = train_run(problem, data, branch_of(problem, 64, 0.2, until=whole.curve[1]))
    assert early.steps == 10 < whole.steps == 20
    assert early.curve[:3] == whole.curve[:3]
    assert early.curve[3] == early.curve[2]


def test_a_warm_up_that_diverges_is_named():
    problem = replace(regression(), lr=1e6)
    with pytest.raises(hs.HeadstartError, match="the warm-up diverged"):
        train_run(problem, split(problem, 0), branch_of(problem, 16, 0.1))


# --- the whole ----------------------------------------------------------------------------------------------------


def test_a_probe_measures_tells_and_gives_a_schedule_to_paste():
    outcome = hs.probe_batch(regression, **QUICK)
    assert [each.batch_size for each in outcome.sizes] == [4, 16, 64, 256]
    means = [each.mean for each in outcome.sizes]
    assert means[0] > means[1] > means[2]
    rows = [each.mean * each.batch_size for each in outcome.sizes]
    assert rows[0] < rows[2] < rows[3]
    assert all(each.num_tries == 2 for each in outcome.sizes)
    assert outcome.losses[0] > outcome.target > outcome.losses[1]
    assert outcome.verdict is hs.BatchVerdict.VALUE
    assert 4 < outcome.curve.critical.value < 256
    printed = str(outcome)
    assert printed.startswith(f"The critical batch size is {outcome.curve.critical.value:.0f} [")
    assert printed.endswith(outcome.recipe.rstrip())
    names = {"regression": regression}
    exec(outcome.recipe, names)
    assert names["schedule"].batch_sizes == (16, outcome.best.batch_size)
    assert len(names["batch"][0]) == outcome.best.batch_size
    assert names["optimizer"].param_groups[0]["lr"] == pytest.approx(outcome.best.lr, rel=1e-3)
    assert outcome.figure().axes[0].get_ylabel().startswith("steps to a loss of")
    assert outcome._repr_html_().count("<tr>") == 5


def test_rates_are_tuned_for_each_size_until_the_best_is_inside():
    options = QUICK | {"rates": None, "batches": (4, 8, 16, 64), "seeds": 2, "steps": 40}
    outcome = hs.probe_batch(regression, **options)
    rates = {each.batch_size: each.lr for each in outcome.sizes}
    assert rates[64] > rates[4]
    assert all(not each.at_the_end or each.num_tries == 6 for each in outcome.sizes)


def test_one_seed_gives_one_result_and_a_store_goes_on(tmp_path):
    options = QUICK | {"seeds": 2}
    one = hs.probe_batch(regression, **options, store=tmp_path / "probe.sqlite")
    two = hs.probe_batch(regression, **options, store=tmp_path / "probe.sqlite")
    assert (two.cost.num_stored, two.cost.steps) == (one.cost.num_runs, 0)
    assert replace(two, cost=one.cost).to_json() == one.to_json()


def test_a_problem_that_does_not_learn_cannot_tell():
    outcome = hs.probe_batch(regression, **QUICK | {"rates": (1e-9,)}, target=0.0)
    assert outcome.verdict is hs.BatchVerdict.CANNOT_TELL
    assert not outcome.recipe
    assert outcome.best is None
    assert "Cannot tell" in str(outcome)
    far = hs.probe_batch(regression, **QUICK, target=0.5)  # below the noise
    assert far.verdict is hs.BatchVerdict.CANNOT_TELL
    assert "0 of 4 batch sizes reach a loss of 0.5" in str(far)


def test_sizes_are_those_that_the_rows_allow():
    assert _sizes(32, 100_000, None) == [8, 16, 32, 64, 128, 256, 512]
    assert _sizes(32, 1000, None) == [8, 16, 32, 64, 128]
    assert _sizes(2, 1000, None) == [1, 2, 4, 8, 16, 32]
    assert _sizes(16, 1000, [200, 50, 4]) == [4, 16, 50, 200]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batches": (8, 16)}, "2 batch sizes make no curve; give at least 4"),
        ({"batches": (8, 16, 32, 64_000)}, r"batches=64000\): batches is at most 968"),
        ({"warmup": 0}, "warmup=0"),
        ({"steps": 39}, "steps=39"),
        ({"seeds": 1}, "seeds=1"),
        ({"target": -1.0}, r"target=-1\.0"),
        ({"rates": (0.0,)}, r"rates=0\.0"),
        ({"jobs": 2}, "put it into a module"),
    ],
)
def test_what_makes_no_sense_is_refused(options, words):
    problem = regression()
    with pytest.raises(hs.HeadstartError, match=words):
        hs.probe_batch(lambda: problem, **QUICK | options)


MINE = """
import sys
sys.path.insert(0, {folder!r})
from test_probe_batch import regression
"""


def test_the_command_prints_draws_and_speaks_json(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(MINE.format(folder=str(Path(__file__).parent)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADSTART_STORE", str(tmp_path))
    call = ["probe", "--vary", "batch", "mine.py:regression", "--steps", "40", "--warmup", "20", "--seeds", "2"]
    call += ["--batches", "4", "16", "64", "256", "--rates", "4", "--jobs", "1"]
    main([*call, "--figure", "steps.svg"])
    printed = capsys.readouterr().out
    assert "batch  64" in printed
    assert "Cost: 16 branches" in printed
    assert (tmp_path / "steps.svg").read_text().startswith("<?xml")
    main([*call, "--json"])
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["verdict"] in [str(v) for v in hs.BatchVerdict]
    assert outcome["cost"]["steps"] == 0
    assert [each["batch_size"] for each in outcome["sizes"]] == [4, 16, 64, 256]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["--vary", "width"], "--vary width: choose subset or batch"),
        (["--vary", "batch", "--smallest", "0.5"], "--smallest 0.5: this is for --vary subset"),
        (["--warmup", "5"], "--warmup 5: this is for --vary batch"),
    ],
)
def test_options_of_the_other_question_are_refused(call, words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["probe", "headstart:nothing", *call])
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_a_problem_needs_no_metric_of_its_own():
    assert Problem.of(regression).metric is not None
    plain = hs.probe_batch(lambda: replace(regression(), metric=None), **QUICK)
    assert plain.to_json()["sizes"] == hs.probe_batch(regression, **QUICK).to_json()["sizes"]
