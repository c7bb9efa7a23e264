"""Simulations in a study: computed once, stored whole, known by their part."""

import json
import sqlite3
from dataclasses import dataclass, replace

import numpy as np
import pytest
from small_runs import Powers

import headstart as hs
from headstart.lab.conduct import conduct, make_report, stored
from headstart.lab.explain import explain_studies, print_explanation
from headstart.lab.progress import Silent
from headstart.lab.report import write_report
from headstart.lab.workers import workers


@dataclass(frozen=True)
class Knobs(hs.Knobs):
    """Which bases, and where their calls are noted."""

    bases: tuple[float, ...] = (2.0, 3.0)
    diary: str = ""


def largest(results):
    value = float(max(arrays["power"].max() for arrays in results.simulations.values()))
    return hs.Estimate(value, value, value)


def figure(results):
    with hs.house_style() as module:
        picture = module.Figure()
        for arrays in results.simulations.values():
            picture.subplots().plot(arrays["order"], arrays["power"])
        return picture


STUDY = hs.Study(
    name="tests/powers",
    title="Powers",
    paper="none",
    figures="none",
    presets={"laptop": Knobs()},
    minutes={"laptop": 0.1},
    simulations=lambda k: [hs.Simulation(f"base_{b:g}", Powers(b, diary=k.diary)) for b in k.bases],
    claims=lambda k: [hs.Claim("large", "the largest is above 10", "no number", hs.above(10.0), largest)],
    figure=figure,
    doc="A study without arms.",
)


@pytest.fixture
def store(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as store:
        yield store


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_study_without_arms_computes_its_simulations_once(store, tmp_path, jobs):
    diary = tmp_path / "diary"
    knobs = Knobs(diary=str(diary))
    for _ in range(2):
        with workers(jobs) as pool:
            outcome = conduct(STUDY, "laptop", knobs, store, Silent(), pool)
        assert sorted(diary.read_text().split()) == ["2", "3"]
    assert outcome.results.simulations["base_3"]["power"].tolist() == [1, 3, 9, 27]
    assert outcome.results.simulations["base_3"]["order"].dtype == np.int64
    assert outcome.report["claims"][0]["verdict"] == "holds"
    assert outcome.report["commit"]
    again = stored(STUDY, "laptop", knobs, store)
    assert make_report(STUDY, "laptop", again, store)["claims"] == outcome.report["claims"]


def test_only_what_is_missing_is_computed(store, tmp_path):
    diary = tmp_path / "diary"
    conduct(STUDY, "laptop", Knobs(diary=str(diary)), store, Silent())
    conduct(STUDY, "laptop", Knobs(bases=(3.0, 5.0), diary=str(diary)), store, Silent())
    assert diary.read_text().split() == ["2", "3", "5"]


def test_an_error_in_one_simulation_keeps_those_that_were_finished(store):
    with pytest.raises(hs.HeadstartError, match="base=-1"):
        conduct(STUDY, "laptop", Knobs(bases=(2.0, -1.0)), store, Silent())
    assert store.has_simulation(Powers(2.0))
    assert not store.has_simulation(Powers(-1.0))


def test_a_study_that_is_not_complete_is_not_shown(store):
    with pytest.raises(hs.HeadstartError, match=r"2 simulations are missing; run: headstart run tests/powers"):
        stored(STUDY, "laptop", Knobs(), store)


def test_a_simulation_is_known_by_its_fields_and_its_semantics(store, monkeypatch):
    store.add_simulation(Powers(2.0), Powers(2.0).simulate())
    assert store.has_simulation(Powers(2))
    assert not store.has_simulation(Powers(2.0, num=5))
    monkeypatch.setattr(Powers, "semantics", 2)
    assert not store.has_simulation(Powers(2.0))


def test_what_is_stored_is_never_written_again(store):
    store.add_simulation(Powers(2.0), {"power": np.ones(2)})
    store.add_simulation(Powers(2.0), {"power": np.zeros(2)})
    assert store.simulation(Powers(2.0))["power"].tolist() == [1, 1]


def test_a_damaged_simulation_is_refused_and_repair_drops_it(store):
    conduct(STUDY, "laptop", Knobs(), store, Silent())
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE simulations SET data = zeroblob(length(data)) WHERE json LIKE '%3.0%'")
    with pytest.raises(hs.HeadstartError, match=r"corrupt.*--repair"):
        store.simulation(Powers(3.0))
    store.repair()
    assert (store.has_simulation(Powers(2.0)), store.has_simulation(Powers(3.0))) == (True, False)
    assert conduct(STUDY, "laptop", Knobs(), store, Silent()).results.simulations["base_3"]["power"][-1] == 27


def test_two_simulations_of_one_name_are_refused():
    with pytest.raises(hs.HeadstartError, match="'base_2'"):
        STUDY.validate(Knobs(bases=(2.0, 2.0)))


def test_explain_counts_simulations(store, capsys):
    from rich.console import Console

    conduct(STUDY, "laptop", Knobs(bases=(2.0,)), store, Silent())
    rows = explain_studies([(STUDY, Knobs())], store)
    assert [(row["arm"], row["runs"], row["stored"]) for row in rows] == [("base_2", 1, 1), ("base_3", 1, 0)]
    print_explanation(rows, 1, Console(width=140))
    assert "simulation" in capsys.readouterr().out


def test_the_page_of_a_study_without_arms_has_no_table_of_learning_rates(store, tmp_path):
    outcome = conduct(STUDY, "laptop", Knobs(), store, Silent())
    _, page, data = write_report(STUDY, outcome.results, outcome.report, tmp_path / "results")
    assert "Learning rates" not in page.read_text()
    assert "| the largest is above 10 | 27 [27, 27] | no number | **holds** |" in page.read_text()
    assert json.loads(data.read_text())["learning_rates"] == {}


def test_a_part_that_is_not_plain_values_is_refused(store):
    with pytest.raises(hs.HeadstartError, match="frozen dataclass of plain values"):
        store.has_simulation(replace(Powers(2.0), diary=object()))
