"""The probe: no gap on linear regression, a gap on parity, equal arms, and verdicts that need evidence."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import probed_problems
import pytest
import torch

import headstart as hs
from headstart.cli import main
from headstart.lab.probe_arms import FULL, ProbeArm, probe_arms
from headstart.lab.probe_problem import Problem, split
from headstart.lab.probe_training import Training
from headstart.lab.probe_verdict import ArmResult, Goal, conclude
from headstart.lab.progress import Silent

QUICK = {"steps": 60, "seeds": 2, "max_seeds": 2, "selection_seeds": 1, "rates": (0.5, 1.0)}
AXIS = np.linspace(0, 100, 21)
GOAL = Goal(target=0.9, gain=1.0, smallest=0.85, num_looks=1, num_arms=1)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pasted(outcome):
    """What the recipe leaves behind when it is run as it is printed."""
    assert str(outcome).endswith(outcome.recipe.rstrip())
    names = {}
    exec(outcome.recipe, names)
    return names


def test_linear_regression_has_no_gap_and_its_recipe_runs_when_pasted():
    """It stops as soon as the intervals exclude a gain worth having."""
    options = {"steps": 60, "seeds": 8, "max_seeds": 256, "rates": (1.0,), "smallest": 0.8}
    outcome = hs.probe(probed_problems.linear_regression, **options)
    assert outcome.verdict is hs.ProbeVerdict.ABSENT
    assert outcome.num_seeds < 256
    assert str(outcome).startswith("Absent")
    left = pasted(outcome)
    assert left["problem"].test_metric(left["model"], left["batch"]) > -0.05
    assert left["optimizer"].param_groups[0]["lr"] == outcome.arms[0].lr


@pytest.mark.slow
def test_small_parity_has_a_gap_and_its_recipe_runs_when_pasted():
    outcome = hs.probe("probed_problems:small_parity", steps=2000, jobs=2)
    assert outcome.verdict is hs.ProbeVerdict.GAP
    assert outcome.best not in (FULL, None)
    assert outcome.ratios[outcome.best].high < 1
    assert outcome.best not in outcome.conclusion.worse
    left = pasted(outcome)
    assert left["problem"].test_metric(left["model"], left["batch"]) > 0.9


@pytest.mark.slow
def test_parity_has_a_gap():
    outcome = hs.probe(probed_problems.parity, steps=2200, max_seeds=24, rates=(0.7, 1.0, 1.4))
    assert outcome.verdict is hs.ProbeVerdict.GAP


@pytest.mark.slow
def test_a_tiny_gpt2_gets_a_verdict_and_a_recipe_that_runs_when_pasted():
    pytest.importorskip("transformers")
    outcome = hs.probe("probed_problems:tiny_gpt2", steps=300, jobs=2)
    assert outcome.verdict in (hs.ProbeVerdict.GAP, hs.ProbeVerdict.ABSENT)
    left = pasted(outcome)
    assert left["problem"].test_metric(left["model"], left["batch"]) > -3


@pytest.mark.slow
def test_batches_of_dicts_train_a_language_model_by_its_own_loss():
    pytest.importorskip("transformers")
    outcome = hs.probe("probed_problems:tiny_gpt2", **QUICK | {"steps": 40, "rates": (1.0,)}, target=-5.2)
    assert outcome.target == -5.2
    for arm in outcome.arms:
        assert arm.curves is None or arm.curves[:, -1].mean() > arm.curves[:, 0].mean() + 0.5
    left = pasted(outcome)
    assert set(left["batch"]) == {"input_ids", "labels"}


def curves(time, num=16, noise=0.1, seed=0, end=1.0):
    """Runs that learn at about this time, as steep sigmoids up to `end`."""
    rng = np.random.Generator(np.random.Philox(seed))
    times = time * np.exp(noise * rng.normal(size=(num, 1)))
    return end / (1 + np.exp(-(AXIS - times) / 5))


def result(name, its):
    return ArmResult(ProbeArm(name, hs.PhaseSchedule([], everything=1), ""), 0.1, its)


def concluded(arms, goal=GOAL):
    return conclude(tuple(result(name, its) for name, its in arms.items()), AXIS, goal)


def test_an_arm_that_is_there_in_half_the_time_is_a_gap():
    outcome = concluded({FULL: curves(60), "small": curves(25, seed=1)})
    assert (outcome.verdict, outcome.best) == (hs.ProbeVerdict.GAP, "small")
    ratio = outcome.ratios["small"]
    assert ratio.low < ratio.value < ratio.high < 1


def test_a_gain_worth_having_that_the_interval_excludes_is_absent():
    for time in (60, 80):
        outcome = concluded({FULL: curves(60), "small": curves(time, seed=1)})
        assert outcome.verdict is hs.ProbeVerdict.ABSENT
        assert not outcome.is_open("small", GOAL.smallest)
    smaller = replace(GOAL, smallest=0.99)
    assert concluded({FULL: curves(60), "small": curves(60, seed=1)}, smaller).verdict is hs.ProbeVerdict.UNDECIDED


def test_too_few_noisy_seeds_are_undecided():
    outcome = concluded({FULL: curves(50, 8, noise=0.6), "small": curves(45, 8, noise=0.6, seed=1)})
    assert outcome.verdict is hs.ProbeVerdict.UNDECIDED
    assert outcome.is_open("small", GOAL.smallest)


def test_five_seeds_decide_nothing():
    for time in (25, 60):
        outcome = concluded({FULL: curves(60, 5), "small": curves(time, 5, seed=1)})
        assert (outcome.verdict, outcome.best) == (hs.ProbeVerdict.UNDECIDED, None)


def test_runs_that_miss_the_target_count_with_the_horizon_and_hide_no_absence():
    outcome = concluded({FULL: curves(300), "small": curves(40, seed=1)})
    assert outcome.verdict is hs.ProbeVerdict.GAP
    assert 0.4 < outcome.ratios["small"].value < 0.6
    # Both mostly miss it: the ratio is near 1 by construction, which is no sign of absence.
    few = concluded({FULL: curves(100), "small": curves(100, seed=1)})
    assert few.arrivals < 0.8
    assert few.verdict is hs.ProbeVerdict.UNDECIDED


def test_among_arms_that_gain_one_that_does_not_end_worse_is_preferred():
    arms = {FULL: curves(60), "fast": curves(20, seed=1, end=0.95), "good": curves(35, seed=2)}
    outcome = concluded(arms)
    assert outcome.ratios["fast"].value < outcome.ratios["good"].value
    assert outcome.worse == {"fast"}
    assert outcome.best == "good"
    assert concluded({name: its for name, its in arms.items() if name != "good"}).best == "fast"


def test_an_arm_with_fewer_seeds_is_paired_with_the_same_seeds_of_the_full_data():
    full = curves(60, 32)
    outcome = concluded({FULL: full, "small": 0.999 * full[:8]})
    assert outcome.ratios["small"].value == pytest.approx(1, abs=0.01)


def test_arms_take_the_same_steps_and_batches_and_end_on_all_rows():
    for rows, batch, steps in [(20_000, 32, 60), (1500, 32, 500), (2**18, 64, 3000), (130, 32, 40)]:
        arms = probe_arms(rows, batch, steps)
        assert arms[0].name == FULL
        for arm in arms:
            sampler = hs.PhasedBatchSampler(rows, arm.schedule, batch)
            assert sampler.route.steps == steps
            assert sampler.route.course.legs[-1].pool.size == rows
            assert eval(arm.code, {"hs": hs}) == arm.schedule


def test_all_arms_of_a_seed_start_alike_and_a_probe_leaves_torchs_generator_alone():
    problem = Problem.of(probed_problems.linear_regression)
    data = split(problem, 0)
    before = torch.get_rng_state()
    starts = [Training(problem, data, arm, 0.1, seed=3).curve for arm in probe_arms(data.num_train, 32, 60)]
    assert len({tuple(curve) for curve in starts}) == 1
    hs.probe(probed_problems.linear_regression, **QUICK)
    assert torch.equal(torch.get_rng_state(), before)


def test_test_rows_are_held_out_of_training():
    problem = Problem.of(probed_problems.linear_regression)
    data = split(problem, 5)
    held = {tuple(x.tolist()) for _, (inputs, _) in data.test for x in inputs}
    assert len(held) == sum(num for num, _ in data.test) == 2000
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
    assert {arm.lr for arm in outcome.arms} == {0.05}


def test_rates_widen_until_the_best_is_inside_and_every_arm_has_as_many():
    far = probed_problems.linear_regression() | {"lr": 0.02}
    outcome = hs.probe(lambda: far, **QUICK | {"rates": None})
    assert all(arm.lr > 0.04 for arm in outcome.arms)
    assert not any(arm.at_the_end for arm in outcome.arms)
    assert len({arm.num_tries for arm in outcome.arms}) == 1
    fixed = hs.probe(lambda: far, **QUICK)
    assert all(arm.lr <= 0.02 and arm.num_tries == 2 for arm in fixed.arms)
    assert "at an end of the sweep" in str(fixed)


def test_the_two_best_rates_of_an_arm_are_tried_on_all_selection_seeds():
    options = QUICK | {"rates": (0.1, 0.5, 1.0), "selection_seeds": 3}
    outcome = hs.probe(probed_problems.linear_regression, **options)
    num_arms = len(outcome.arms)
    assert outcome.cost.num_runs == num_arms * (3 * 2 + 2 * 1 + 2)
    assert all(arm.num_tries == 3 and arm.lr > 0.01 for arm in outcome.arms)


def test_a_model_that_learns_nothing_is_said_to():
    outcome = hs.probe(probed_problems.linear_regression, **QUICK | {"rates": (1e-12,)})
    assert outcome.verdict is hs.ProbeVerdict.NOTHING_LEARNED
    assert "raise steps" in str(outcome)
    assert "import headstart" not in str(outcome)


def test_one_bar_covers_all_and_says_first_what_it_will_take():
    class Watching(Silent):
        def __init__(self):
            self.titles, self.done = [], []

        def begin(self, title, total):
            self.titles.append(title)
            self.total = total

        def update(self, done, text=""):
            self.done.append(done)

    shown = Watching()
    outcome = hs.probe(probed_problems.linear_regression, **QUICK, progress=shown)
    assert len(shown.titles) == 1
    assert shown.titles[0].startswith("16 to 16 runs, ")
    assert outcome.cost.num_runs == 16
    assert shown.done == sorted(shown.done)
    assert shown.done[-1] == pytest.approx(shown.total)


def changed(**fields):
    return probed_problems.linear_regression() | fields


def test_a_step_of_ones_own_trains_on_any_batch():
    given = changed(
        loss=None,
        metric=None,
        step=lambda model, batch: ((model(batch["x"]) - batch["y"]) ** 2).mean(),
        collate=lambda rows: {"x": torch.stack([x for x, _ in rows]), "y": torch.stack([y for _, y in rows])},
    )
    plain, own = hs.probe(lambda: changed(metric=None), **QUICK), hs.probe(given, **QUICK)
    assert own.to_json()["arms"] == plain.to_json()["arms"]
    assert "collate_fn=problem.collate" in own.recipe
    exec(own.recipe.replace("hs.Problem.of(problem)", "hs.Problem.of(given)"), {"given": given})


def test_the_command_prints_draws_and_speaks_json(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(Path(probed_problems.__file__).read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADSTART_STORE", str(tmp_path))
    call = ["probe", "mine.py:linear_regression", "--steps", "40", "--seeds", "2", "--max-seeds", "2", "--jobs", "1"]
    call += ["--rates", "0.5", "1"]
    main([*call, "--figure", "arms.svg"])
    printed = capsys.readouterr().out
    assert "Cost: " in printed
    assert "full data" in printed
    assert (tmp_path / "arms.svg").read_text().startswith("<?xml")
    assert len(list((tmp_path / "probes").glob("*.sqlite"))) == 1
    main([*call, "--json"])
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["verdict"] in [str(v) for v in hs.ProbeVerdict]
    assert outcome["arms"][0]["name"] == FULL
    assert outcome["num_seeds"] == 2
    assert outcome["cost"]["stored"] == outcome["cost"]["runs"]
    assert outcome["cost"]["steps"] == 0


def test_a_notebook_shows_a_table_without_markup_of_others():
    outcome = hs.probe(probed_problems.linear_regression, **QUICK)
    shown = outcome._repr_html_()
    assert shown.count("<tr>") == 1 + len(outcome.arms)
    assert "Undecided: 2 seeds are too few to tell" in shown
    assert "training_loss" in shown
    hostile = replace(outcome, source=replace(outcome.source, code="<script>x</script>"))
    assert "<script>" not in hostile._repr_html_()


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("nowhere", "write package.module:factory"),
        ("no_such_module:f", "No module named 'no_such_module'.*PYTHONPATH"),
        ("no_such_file.py:f", r"there is no file no_such_file\.py"),
        (".fact:none", r"'\.fact' is no name of a module"),
        ("headstart:f", "module headstart has no f"),
        (lambda: 3, r"returned a int; return hs\.Problem"),
        (lambda: {"model": 3}, "lacks dataset"),
        (lambda: changed(epochs=3), "has no use for epochs"),
        (lambda: changed(loss=3), "loss=3"),
        (lambda: changed(step=lambda model, batch: 0), "give one of the two"),
        (lambda: changed(loss=None), "output has no loss of its own"),
        (lambda: changed(dataset=iter([])), r"dataset=list_iterator\): give a map-style"),
        (lambda: changed(test_set=[]), r"test_set=\.\.\.\): it has no rows"),
        (lambda: changed(dataset=[1.0] * 500), "this is a Tensor; give step"),
        (lambda: changed(batch_size=10_000), "20000 rows are fewer than four batches"),
        (lambda: changed(loss=lambda p, t: (p - t) ** 2), "returns a scalar tensor; take its mean"),
        (lambda: changed(metric=lambda p, t: float("nan")), "metric of the untrained model is nan"),
        (
            lambda: changed(metric=lambda p, t: p / 0 + t[0, 0]),
            r"metric=\.\.\.\) raised IndexError.*test_probe\.py, line",
        ),
        (lambda: changed(model=lambda: torch.nn.Linear(3, 1)), r"model\(input\), raised RuntimeError"),
        (lambda: 1 / 0, r"the factory raised ZeroDivisionError: division by zero \(.*test_probe\.py, line \d+\)"),
    ],
)
def test_a_problem_that_cannot_be_trained_is_named(factory, message):
    with pytest.raises(hs.HeadstartError, match=message):
        hs.probe(factory, **QUICK)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f():\n    return 1 / 0\n", "ZeroDivisionError: division by zero (PATH, line 2)"),
        ("def f(:\n", "SyntaxError: invalid syntax (mine.py, line 1) (PATH, line 1)"),
        ("import absent_package\n", "ModuleNotFoundError: No module named 'absent_package' (PATH, line 1)"),
        ("x = 1\nraise RuntimeError('a\\nb')\n", "RuntimeError: a b (PATH, line 2)"),
        ("import sys\nsys.exit(7)\n", "SystemExit: 7 (PATH, line 2)"),
        ("def f(x):\n    return x\n", "missing 1 required positional argument: 'x'"),
    ],
)
@pytest.mark.parametrize("form", ["mine_{number}:f", "mine_{number}.py:f"])
def test_a_factory_that_fails_is_one_line_with_its_last_frame(text, message, form, tmp_path, monkeypatch, capsys):
    number = abs(hash(text)) % 10**8
    path = tmp_path / f"mine_{number}.py"
    path.write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["probe", form.format(number=number), "--steps", "40", "--store", str(tmp_path / "store")])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert message.replace("PATH", str(path)).replace("mine.py", path.name) in said
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 3}, "steps=3"),
        ({"seeds": 1}, "seeds=1"),
        ({"seeds": 9, "max_seeds": 8}, "max_seeds=8.*at least 9"),
        ({"rates": ()}, "at least one factor"),
        ({"rates": (0,)}, "rates=0"),
        ({"jobs": 0}, "jobs=0"),
        ({"jobs": 10**9}, "jobs is at most 1024"),
        ({"steps": 2**63}, "steps is at most"),
        ({"seeds": 10**11, "max_seeds": 10**11}, "seeds is at most 10000"),
        ({"jobs": 2}, "find a factory by its name"),
        ({"smallest": 1.5}, "smallest=1.5"),
        ({"target": float("nan")}, "target=nan"),
        ({"device": "abacus"}, "abacus: not available"),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(hs.HeadstartError, match=message):
        hs.probe(lambda: probed_problems.linear_regression(), **QUICK | options)
