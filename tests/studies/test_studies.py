"""What every study must be. A new study joins by existing."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import headstart as hs
from headstart.lab import provenance
from headstart.lab.conduct import conduct, make_report, stored
from headstart.lab.figures import save_figure
from headstart.lab.progress import Silent
from headstart.studies import all_studies, find, names, select

STUDIES = [pytest.param(study, id=name) for name, study in all_studies().items()]
# Two per paper run in `make test`; `make test-all` runs all.
QUICK = {
    "less_data/mini_and_full_batch_mlp",
    "less_data/random_labels_transformers",
    "grok_transfer/fnn_to_fnn",
    "grok_transfer/weak_model_quality",
    "batch_size/beyond_gaussian",
    "batch_size/real_data",
    "stability/logistic",
    "decision_lists/one_step",
    "decision_lists/w_only",
    "stability/connectivity",
    "local_signal/toy",
    "local_signal/images",
    "growing/thirty_operators",
    "growing/ul2",
}
USERS_STUDY = Path(__file__).parent / "users_study.py"
PRESETS = ("smoke", "laptop", "desk", "paper")
RUNNING = [
    pytest.param(study, id=name, marks=() if name in QUICK else pytest.mark.slow)
    for name, study in all_studies().items()
]


def test_two_studies_per_paper_run_in_every_test():
    papers = [name.partition("/")[0] for name in all_studies()]
    quick = [name.partition("/")[0] for name in QUICK]
    assert {paper: quick.count(paper) for paper in papers} == {paper: min(2, papers.count(paper)) for paper in papers}
    assert set(all_studies()) >= QUICK


@pytest.mark.parametrize("study", RUNNING)
def test_a_study_runs_its_smoke_preset_and_draws_its_figure(study, tmp_path):
    knobs = study.knobs("smoke")
    with hs.open_store(tmp_path / "s.sqlite") as store:
        outcome = conduct(study, "smoke", knobs, store, Silent())
        again = stored(study, "smoke", knobs, store)
        assert make_report(study, "smoke", again, store)["claims"] == outcome.report["claims"]
    path = save_figure(study.draw(outcome.results), tmp_path / "figure.png")
    assert path.stat().st_size > 10_000
    for name, tuned in outcome.results.tuned.items():
        if isinstance(outcome.results.arms[name].sweep, hs.Sweep):
            assert tuned.inside or not tuned.learned, name
        assert max(summary.seed for summary in outcome.results.summaries[name]) < 1_000_000


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_reads_like_a_method_section(study):
    for heading in ("Paper", "Claim", "Setting", "Measured"):
        assert f"\n{heading} " in study.doc
    assert list(study.presets) == list(study.minutes) == [p for p in PRESETS if p in study.presets]
    assert {"smoke", "laptop", "paper"} <= set(study.presets)
    assert study.tags


BUILT = [
    pytest.param(study, preset, id=f"{preset}-{name}")
    for name, study in all_studies().items()
    for preset in study.presets
]


@pytest.mark.parametrize(("study", "preset"), BUILT)
def test_every_preset_can_be_built_and_every_claim_is_distinct(study, preset):
    knobs = study.knobs(preset)
    arms, claims = study.arms(knobs), study.claims(knobs)
    assert len({arm.name for arm in arms}) == len(arms)
    assert len({claim.id for claim in claims}) == len(claims)
    assert all(claim.paper for claim in claims)


@pytest.mark.parametrize("study", STUDIES)
def test_rates_behind_a_primary_claim_are_chosen_on_enough_seeds(study):
    for preset in set(study.presets) - {"smoke"}:
        dear = "transformer" in study.tags or preset == "desk"  # runs of minutes each
        knobs, least = study.knobs(preset), 8 if dear else 16
        compared = {
            arm
            for claim in study.claims(knobs)
            if claim.kind is hs.Kind.PRIMARY
            for arm in getattr(claim.estimate, "arms", ())
        }
        swept = {arm.name for arm in study.arms(knobs) if isinstance(arm.sweep, hs.Sweep)}
        assert not compared & swept or knobs.num_selection_seeds >= least


def test_another_first_seed_replicates_a_study_on_new_seeds_at_the_same_learning_rates(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(USERS_STUDY.parent))
    study = find(str(USERS_STUDY))
    with hs.open_store(tmp_path / "s.sqlite") as store:
        one, other = (
            conduct(study, "smoke", study.knobs("smoke", {"first_seed": seed}), store, Silent()) for seed in ("0", "50")
        )
    assert one.report["choices"] == other.report["choices"]
    assert one.report["claims"] != other.report["claims"]
    assert {s.seed for many in other.results.summaries.values() for s in many} == {50, 51}
    with pytest.raises(hs.HeadstartError, match="first_seed=-1"):
        study.knobs("smoke", {"first_seed": "-1"})


def test_a_paper_is_the_studies_of_its_folder():
    assert [s.name for s in select("less_data")] == [n for n in all_studies() if n.startswith("less_data/")]
    assert select("less_data", only="mlp")


LOADED = """
import sys
import headstart as hs
from headstart.studies import find, names, select
assert len(names()) > 20
before = set(sys.modules)
chosen = select("less_data/no_gap") + [find("less_data/no_gap")]
assert {study.name for study in chosen} == {"less_data/no_gap"}
files = [m.partition("studies.")[2] for m in set(sys.modules) - before if m.startswith("headstart.studies.")]
print(*sorted(name.replace(".", "/") for name in files))
"""


def test_a_study_is_found_by_its_name_without_importing_any_other():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) & set(names()) == {"less_data/no_gap"}
    assert set(names()) == set(all_studies())


def test_a_study_file_outside_the_package_runs_by_its_path_in_worker_processes(tmp_path, monkeypatch, capsys):
    from headstart.cli import main

    monkeypatch.syspath_prepend(str(USERS_STUDY.parent))
    main(["run", str(USERS_STUDY), "--jobs", "2", "--store", str(tmp_path / "s.sqlite"), "--preset", "smoke"])
    assert "small is better" in capsys.readouterr().out
    with hs.open_store(tmp_path / "s.sqlite") as store:
        traces = store.traces(study="users_study")
        assert len(traces) == 4
        assert (
            store.run_of(traces[0].cell, trust=["users_study"]).task
            == find(str(USERS_STUDY)).arms(find(str(USERS_STUDY)).knobs("smoke"))[0].run.task
        )


def test_a_report_names_the_commits_of_every_rate_tried_and_of_the_runs_that_arms_start_from(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(USERS_STUDY.parent))
    study = find(str(USERS_STUDY))
    source = replace(study.arms(study.knobs())[0].run, optimizer=hs.SGD(0.05))

    def arms(knobs):
        return [replace(arm, run=replace(arm.run, start=hs.From(source))) for arm in study.arms(knobs)]

    calls = iter(range(10**6))
    monkeypatch.setattr(provenance, "commit", lambda: f"commit {next(calls)}")  # another for every batch
    with hs.open_store(tmp_path / "s.sqlite") as store:
        found = conduct(replace(study, arms=arms), "smoke", study.knobs("smoke"), store, Silent()).report["commit"]
    assert len(found.split(", ")) > 3
    assert set(found.split(", ")) == {f"commit {i}" for i in range(next(calls))}


def test_a_study_file_must_bind_a_study(tmp_path):
    path = Path(tmp_path) / "empty_study_file.py"
    path.write_text("x = 1\n")
    with pytest.raises(hs.HeadstartError, match="does not bind STUDY"):
        find(str(path))
