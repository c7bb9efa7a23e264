"""What a study computes: once, stored whole, known by its part; over the States of runs, or by itself."""

import json
import sqlite3
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from small_runs import Powers, parity_run

import headstart as hs
from headstart.lab.conduct import conduct, make_report, stored
from headstart.lab.explain import explain_studies, print_explanation
from headstart.lab.progress import Silent
from headstart.lab.report import write_report
from headstart.lab.workers import workers
from headstart.measures import distance


@dataclass(frozen=True)
class Knobs(hs.Knobs):
    """Which bases, and where their calls are noted."""

    bases: tuple[float, ...] = (2.0, 3.0)
    diary: str = ""


def largest(results):
    value = float(max(arrays["power"].max() for arrays in results.computed.values()))
    return hs.Estimate(value, value, value)


def figure(results, picture):
    for arrays in results.computed.values():
        picture.subplots().plot(arrays["order"], arrays["power"])


STUDY = hs.Study(
    name="tests/powers",
    title="Powers",
    paper="none",
    figures="none",
    presets={"laptop": Knobs()},
    minutes={"laptop": 0.1},
    computed=lambda k, arms: {f"base_{b:g}": Powers(b, diary=k.diary) for b in k.bases},
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
    assert outcome.results.computed["base_3"]["power"].tolist() == [1, 3, 9, 27]
    assert outcome.results.computed["base_3"]["order"].dtype == np.int64
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
    assert store.has_computed(Powers(2.0))
    assert not store.has_computed(Powers(-1.0))


def test_a_study_that_is_not_complete_is_not_shown(store):
    with pytest.raises(hs.HeadstartError, match=r"2 computed parts are missing; run: headstart run tests/powers"):
        stored(STUDY, "laptop", Knobs(), store)


def test_a_simulation_is_known_by_its_fields_and_its_semantics(store, monkeypatch):
    store.add_computed(Powers(2.0), Powers(2.0).compute())
    assert store.has_computed(Powers(2))
    assert not store.has_computed(Powers(2.0, num=5))
    monkeypatch.setattr(Powers, "semantics", 2)
    assert not store.has_computed(Powers(2.0))


def test_what_is_stored_is_never_written_again(store):
    store.add_computed(Powers(2.0), {"power": np.ones(2)})
    store.add_computed(Powers(2.0), {"power": np.zeros(2)})
    assert store.computed(Powers(2.0))["power"].tolist() == [1, 1]


def test_a_damaged_simulation_is_refused_and_repair_drops_it(store):
    conduct(STUDY, "laptop", Knobs(), store, Silent())
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE simulations SET data = zeroblob(length(data)) WHERE json LIKE '%3.0%'")
    with pytest.raises(hs.HeadstartError, match=r"corrupt.*--repair"):
        store.computed(Powers(3.0))
    store.repair()
    assert (store.has_computed(Powers(2.0)), store.has_computed(Powers(3.0))) == (True, False)
    assert conduct(STUDY, "laptop", Knobs(), store, Silent()).results.computed["base_3"]["power"][-1] == 27


def test_explain_counts_computed_parts(store, capsys):
    from rich.console import Console

    conduct(STUDY, "laptop", Knobs(bases=(2.0,)), store, Silent())
    rows = explain_studies([(STUDY, Knobs(), {})], store)
    assert [(row["arm"], row["runs"], row["stored"]) for row in rows] == [("base_2", 1, 1), ("base_3", 1, 0)]
    print_explanation(rows, 1, Console(width=140))
    assert "computed" in capsys.readouterr().out


def test_the_page_of_a_study_without_arms_has_no_table_of_learning_rates(store, tmp_path):
    outcome = conduct(STUDY, "laptop", Knobs(), store, Silent())
    _, page, data = write_report(STUDY, outcome.results, outcome.report, tmp_path / "results")
    assert "Settings, chosen" not in page.read_text()
    assert "| the largest is above 10 | 27 [27, 27] | no number | **holds** |" in page.read_text()
    assert json.loads(data.read_text())["choices"] == {}


def test_a_part_that_is_not_plain_values_is_refused(store):
    with pytest.raises(hs.HeadstartError, match="frozen dataclass of plain values"):
        store.has_computed(replace(Powers(2.0), diary=object()))


@dataclass(frozen=True)
class Apart:
    """How far two runs are from each other at a step."""

    one: hs.Run
    other: hs.Run
    step: int

    semantics: ClassVar[int] = 1
    seconds: ClassVar[float] = 0.01

    @property
    def needs(self):
        return ((self.one, hs.Step(self.step)), (self.other, hs.Step(self.step)))

    def compute(self, one, other):
        return {"distance": np.array(distance(one.weights, other.weights))}


@dataclass(frozen=True)
class Pair:
    """The same at every step, by a part that trains both by itself: no State is stored."""

    one: hs.Run
    other: hs.Run

    semantics: ClassVar[int] = 1
    seconds: ClassVar[float] = 0.1

    def compute(self):
        steps = [hs.Step(step) for step in self.one.budget.recorded_steps()]
        one, other = hs.trained([self.one, self.other], keep=steps)
        apart = [distance(one.states[at].weights, other.states[at].weights) for at in steps]
        return {"step": one.trace.steps, "distance": np.array(apart)}


def pair_study(computed):
    run = parity_run()
    return replace(
        STUDY,
        presets={"laptop": hs.Knobs(num_seeds=2, num_selection_seeds=1)},
        arms=lambda k: [
            hs.Arm("a", "a", run, hs.rates(0.1, 0.2, tries=3)),
            hs.Arm("b", "b", replace(run, plan=hs.Fixed(8)), hs.RateOf("a")),
        ],
        computed=computed,
        claims=lambda k: [],
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_part_computes_over_the_states_of_runs_that_are_trained_for_it(store, jobs):
    study = pair_study(lambda k, arms: {str(s): Apart(arms["a"].run.at(s), arms["b"].run.at(s), 15) for s in range(2)})
    with workers(jobs) as pool:
        results = conduct(study, "laptop", study.knobs(), store, Silent(), pool).results
    part = results.parts["1"]
    # It saw the settings that were chosen for the arm, not the place holder.
    assert part.one.optimizer.lr == results.tuned["a"].rate == part.other.optimizer.lr
    one, other = (store.states.get(run, hs.Step(15)) for run in (part.one, part.other))
    assert results.computed["1"]["distance"] == distance(one.weights, other.weights) > 0
    again = conduct(study, "laptop", study.knobs(), store, Silent())
    assert again.results.computed["1"]["distance"] == results.computed["1"]["distance"]
    assert stored(study, "laptop", study.knobs(), store).computed.keys() == {"0", "1"}


def test_a_part_that_trains_both_members_itself_returns_curves_and_stores_no_state(store):
    run = parity_run()
    other = replace(run, plan=hs.Fixed(8))
    part = Pair(run, other)
    study = pair_study(lambda k, arms: {"pair": part})
    curves = conduct(study, "laptop", study.knobs(), store, Silent()).results.computed["pair"]
    assert curves["step"].tolist() == [0, 5, 10, 15, 20]
    assert curves["distance"][0] == 0
    assert store._db.execute("SELECT COUNT(*) FROM states").fetchone() == (0,)
    direct = conduct(
        pair_study(lambda k, arms: {"x": Apart(run, other, 15)}), "laptop", study.knobs(), store, Silent()
    ).results.computed["x"]["distance"]
    assert curves["distance"][3] == direct


def test_a_moment_that_never_comes_is_none(store):
    @dataclass(frozen=True)
    class Reached:
        run: hs.Run
        semantics: ClassVar[int] = 1
        seconds: ClassVar[float] = 0.01

        @property
        def needs(self):
            return ((self.run, hs.Reaches("test_accuracy", 2.0)),)

        def compute(self, state):
            return {"reached": np.array(state is not None)}

    study = pair_study(lambda k, arms: {"x": Reached(parity_run())})
    assert not conduct(study, "laptop", study.knobs(), store, Silent()).results.computed["x"]["reached"]


def test_what_is_needed_must_be_runs_with_moments():
    @dataclass(frozen=True)
    class Wrong(Apart):
        @property
        def needs(self):
            return (self.one,)

    study = pair_study(lambda k, arms: {"x": Wrong(parity_run(), parity_run(), 5)})
    with pytest.raises(hs.HeadstartError, match=r"Wrong.needs: give pairs \(run, at\)"):
        study.validate(study.knobs())


def test_only_runs_that_begin_fresh_are_trained_without_a_store():
    with pytest.raises(hs.HeadstartError, match="begin fresh"):
        hs.trained([parity_run(start=hs.From(parity_run()))])
