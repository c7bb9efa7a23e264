"""The probe: no gap on linear regression, a gap on parity, equal arms, and verdicts that need evidence."""

import json
from pathlib import Path

import numpy as np
import probed_problems
import pytest
import torch

import headstart as hs
from headstart.cli import main
from headstart.lab.probe_arms import FULL, Training, probe_arms
from headstart.lab.probe_problem import as_problem, split
from headstart.lab.probe_verdict import ArmResult, conclude
from headstart.lab.progress import Silent

QUICK = {"steps": 60, "seeds": 2, "max_seeds": 2, "selection_seeds": 1, "rates": (0.5, 1.0)}
AXIS = np.linspace(0, 100, 21)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_linear_regression_has_no_gap():
    outcome = hs.probe(probed_problems.linear_regression, steps=60, seeds=32, max_seeds=96, rates=(0.5, 1.0))
    assert outcome.verdict is hs.ProbeVerdict.NO_GAP
    assert str(outcome).startswith("No gap")


@pytest.mark.slow
def test_parity_has_a_gap():
    outcome = hs.probe(probed_problems.parity, steps=2200, seeds=8, max_seeds=24, rates=(0.7, 1.0, 1.4))
    assert outcome.verdict is hs.ProbeVerdict.GAP
    assert outcome.best != FULL
    assert outcome.ratios[outcome.best].high < 1
    exec(outcome.lines.splitlines()[0], {"hs": hs})


def curves(time, num=16, length=101, noise=0.1, seed=0):
    """Runs that learn at about this time, as steep sigmoids."""
    rng = np.random.Generator(np.random.Philox(seed))
    times = time * np.exp(noise * rng.normal(size=(num, 1)))
    return 1 / (1 + np.exp(-(AXIS - times) / 5))


def verdict(**times):
    arms = tuple(ArmResult(name, "", 0.1, c, False) for name, c in times.items())
    return conclude(
        arms,
        axis=AXIS,
        batch_size=32,
        target=0.9,
        num_looks=1,
        learned=True,
        interrupted=False,
        steps_trained=1,
        seconds=1.0,
    )


def test_an_arm_that_is_there_in_half_the_time_is_a_gap():
    outcome = verdict(**{FULL: curves(60), "small": curves(25, seed=1)})
    assert (outcome.verdict, outcome.best) == (hs.ProbeVerdict.GAP, "small")
    ratio = outcome.ratios["small"]
    assert ratio.low < ratio.value < ratio.high < 1


def test_arms_that_are_alike_are_no_gap():
    assert verdict(**{FULL: curves(60), "small": curves(60, seed=1)}).verdict is hs.ProbeVerdict.NO_GAP
    assert verdict(**{FULL: curves(60), "small": curves(90, seed=1)}).verdict is hs.ProbeVerdict.NO_GAP


def test_too_few_noisy_seeds_are_undecided():
    outcome = verdict(**{FULL: curves(50, 8, noise=0.6), "small": curves(45, 8, noise=0.6, seed=1)})
    assert outcome.verdict is hs.ProbeVerdict.UNDECIDED


def test_a_full_arm_that_misses_the_target_is_censored_and_not_dropped():
    outcome = verdict(**{FULL: curves(300), "small": curves(40, seed=1)})
    assert outcome.verdict is hs.ProbeVerdict.GAP
    assert outcome.ratios["small"].low == 0


@pytest.mark.filterwarnings("ignore:this schedule uses")
def test_arms_take_the_same_steps_and_batches_and_fit_the_data():
    for rows, batch, steps in [(20_000, 32, 60), (1500, 32, 500), (2**18, 64, 3000), (130, 32, 40)]:
        arms = probe_arms(rows, batch, steps)
        assert arms[0].name == FULL
        for arm in arms:
            assert hs.PhasedBatchSampler(rows, arm.schedule, batch).route.steps == steps
            assert eval(arm.code, {"hs": hs}).route(rows, 1).steps == steps


def test_all_arms_of_a_seed_start_alike_and_a_probe_leaves_torchs_generator_alone():
    problem = as_problem(probed_problems.linear_regression)
    data = split(problem, 0)
    before = torch.get_rng_state()
    starts = [Training(problem, data, arm, 0.1, seed=3).curve for arm in probe_arms(data.num_train, 32, 60)]
    assert len({tuple(curve) for curve in starts}) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_test_rows_are_held_out_of_training():
    problem = as_problem(probed_problems.linear_regression)
    data = split(problem, 5)
    held = {tuple(x.tolist()) for inputs, _ in data.test for x in inputs}
    assert len(held) == 2000
    assert data.num_train == 18_000
    trained = {tuple(x.tolist()) for x in data.batch(range(18_000))[0]}
    assert len(trained) == 18_000
    assert not held & trained


def test_one_seed_gives_one_result():
    one, two = (hs.probe(probed_problems.linear_regression, **QUICK, seed=4).to_json() for _ in range(2))
    other = hs.probe(probed_problems.linear_regression, **QUICK, seed=5).to_json()
    for outcome in (one, two, other):
        del outcome["cost"]
    assert one == two
    assert one != other


def test_a_run_that_diverges_is_not_chosen():
    outcome = hs.probe(probed_problems.linear_regression, **QUICK | {"rates": (1.0, 1e6)})
    assert {arm.rate for arm in outcome.arms} == {0.05}


def test_a_model_that_learns_nothing_is_said_to():
    outcome = hs.probe(probed_problems.linear_regression, **QUICK | {"rates": (1e-12,)})
    assert outcome.verdict is hs.ProbeVerdict.NOTHING_LEARNED
    assert "raise steps" in str(outcome)


def test_an_interruption_gives_a_verdict_from_the_seeds_that_are_done():
    class Impatient(Silent):
        seen = 0

        def update(self, done, text=""):
            if self.title == "comparing the arms" and text == FULL:
                self.seen += 1
                if self.seen > 150:
                    raise KeyboardInterrupt

        def begin(self, title, total):
            self.title = title

    outcome = hs.probe(probed_problems.linear_regression, **QUICK | {"seeds": 9, "max_seeds": 9}, progress=Impatient())
    assert outcome.interrupted
    assert 2 <= outcome.num_seeds < 9


def test_the_command_prints_draws_and_speaks_json(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(Path(probed_problems.__file__).read_text())
    monkeypatch.chdir(tmp_path)
    call = ["probe", "mine.py:linear_regression", "--steps", "40", "--seeds", "2", "--max-seeds", "2"]
    main([*call, "--figure", "arms.svg"])
    printed = capsys.readouterr().out
    assert "Cost: " in printed
    assert "full data" in printed
    assert (tmp_path / "arms.svg").read_text().startswith("<?xml")
    main([*call, "--json"])
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["verdict"] in [str(v) for v in hs.ProbeVerdict]
    assert outcome["arms"][0]["name"] == FULL
    assert outcome["num_seeds"] == 2


def changed(**fields):
    return probed_problems.linear_regression() | fields


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("nowhere", "write package.module:factory"),
        ("no_such_module:f", "No module named 'no_such_module'.*PYTHONPATH"),
        ("no_such_file.py:f", r"there is no file no_such_file\.py"),
        ("headstart:f", "module headstart has no f"),
        (lambda: 3, r"returned a int; return hs\.Problem"),
        (lambda: {"model": 3}, "lacks dataset, loss, metric"),
        (lambda: changed(epochs=3), "has no use for epochs"),
        (lambda: changed(loss=3), "loss=3"),
        (lambda: changed(dataset=iter([])), r"dataset=list_iterator\): give a map-style"),
        (lambda: changed(batch_size=10_000), "20000 rows are fewer than four batches"),
        (lambda: changed(loss=lambda p, t: (p - t) ** 2), "returns a scalar tensor; take its mean"),
        (lambda: changed(metric=lambda p, t: float("nan")), "metric of the untrained model is nan"),
    ],
)
def test_a_problem_that_cannot_be_trained_is_named(factory, message):
    with pytest.raises(hs.HeadstartError, match=message):
        hs.probe(factory, **QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 3}, "steps=3"),
        ({"seeds": 1}, "seeds=1"),
        ({"seeds": 9, "max_seeds": 8}, "max_seeds=8.*at least 9"),
        ({"rates": ()}, "at least one factor"),
        ({"rates": (0,)}, "rates=0"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(hs.HeadstartError, match=message):
        hs.probe(probed_problems.linear_regression, **QUICK | options)
