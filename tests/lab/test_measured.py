"""Measures on the way: they look at a run at extra stops, change nothing, and are stored beside it."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from small_runs import parity_run

import headstart as hs
from headstart.engines import Interrupted, Job
from headstart.engines.ensemble import Ensemble
from headstart.engines.fused import Fused
from headstart.engines.loop import Loop
from headstart.lab.conduct import conduct, stored
from headstart.lab.progress import Silent
from headstart.measures import distance

ENGINES = [Loop(), Ensemble(), Fused()]


@dataclass(frozen=True)
class Probe:
    """The step, all weights of the readout, and the mean prediction on test samples."""

    at: hs.When = hs.Recorded()
    wrong: str = ""

    semantics: ClassVar[int] = 1

    def __call__(self, view):
        if self.wrong == "raises":
            raise RuntimeError("no such layer")
        extra = {"late": 1.0} if self.wrong == "shapes" and view.step else {}
        readout = next(p.name for p in view.parameters if p.role == hs.Role.READOUT)
        return {"readout": view.weights[readout], "mean": view.predict(view.test.x).mean(), **extra}


def outcome(engine, run, measures, **options):
    (found,) = engine.train([Job(run, measures=measures, **options)])
    return found


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.name)
@pytest.mark.parametrize("plan", [hs.Online(), hs.Fixed(24)], ids=["online", "fixed"])
def test_extra_stops_change_no_number_of_the_trace(engine, plan):
    run = parity_run(plan=plan)
    plain = outcome(engine, run, ())
    looked = outcome(engine, run, (Probe(hs.Every(3)), hs.Distance(hs.Geometric(4))))
    assert looked.trace.steps.tolist() == plain.trace.steps.tolist() == [0, 5, 10, 15, 20]
    for name, curve in plain.trace.values.items():
        np.testing.assert_array_equal(looked.trace[name], curve)
    seen = looked.measured[Probe(hs.Every(3))]
    assert seen["step"].tolist() == [0, 3, 6, 9, 12, 15, 18, 20]
    assert seen["readout"].shape == (8, 1, 4)
    assert looked.measured[hs.Distance(hs.Geometric(4))]["step"].tolist() == [0, 1, 3, 7, 20]
    assert plain.measured == {}


@pytest.mark.parametrize("engine", ENGINES[1:], ids=lambda e: e.name)
def test_every_engine_shows_measures_the_same_run(engine):
    run, measure = parity_run(methods=(hs.LayerScale(init={0: 2.0}),)), hs.Distance(hs.Every(4))
    one, other = (outcome(e, run, (measure,)).measured[measure] for e in (engine, ENGINES[0]))
    assert one.keys() == other.keys() == {"step", "distance", "distance_input", "distance_readout", "distance_bias"}
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-6)
    assert one["distance"][0] == 0
    parts = [one[f"distance_{role}"] for role in ("input", "readout", "bias")]
    np.testing.assert_allclose(one["distance"], np.sqrt(sum(p**2 for p in parts)))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: e.name)
def test_a_run_stopped_on_the_way_goes_on_and_has_seen_the_same(engine, tmp_path):
    run, measures = parity_run(), (Probe(hs.Every(3)), hs.Distance())
    whole = outcome(engine, run, measures)
    file = tmp_path / "checkpoint"
    for stop in (5, 10, 15):
        with pytest.raises(Interrupted):
            list(
                engine.train(
                    [Job(run, measures=measures, checkpoint=file)], watch=lambda _, step, stop=stop: step >= stop
                )
            )
    resumed = outcome(engine, run, measures, checkpoint=file)
    for measure in measures:
        for name, array in whole.measured[measure].items():
            np.testing.assert_array_equal(resumed.measured[measure][name], array)


def test_a_view_shows_the_samples_that_are_trained_on():
    views = []

    @dataclass(frozen=True)
    class Note:
        at: hs.When = hs.Every(7)
        semantics: ClassVar[int] = 1

        def __call__(self, view):
            views.append(view)
            return {"size": len(view.train.y)}

    run = parity_run(plan=hs.Phases((hs.Phase(size=8, steps=10), hs.Phase())))
    seen = outcome(Loop(), run, (Note(),)).measured[Note()]
    assert seen["size"].tolist() == [8, 8, 16, 16]
    np.testing.assert_array_equal(views[0].train.x, run.task.sample(0, np.arange(8)).x)
    np.testing.assert_array_equal(
        views[0].test.x, run.task.sample(0, np.arange(run.task.num_test), hs.Stream.EVALUATION).x
    )
    last = views[-1]
    assert distance(last.weights, last.initial) > 0
    assert distance(last.initial, views[0].weights) == 0
    import torch

    with torch.no_grad():
        direct = last.module()(torch.from_numpy(last.test.x)).numpy()
    np.testing.assert_array_equal(last.predict(last.test.x), direct)
    assert not np.array_equal(last.predict(last.test.x, last.initial), direct)


def test_a_view_predicts_as_the_method_that_rewrites_the_model_does():
    run = parity_run(methods=(hs.Linearised(),), budget=hs.Budget(60, 20))
    found = outcome(Loop(), run, (Probe(),))
    trained = found.measured[Probe()]["mean"]
    plain = parity_run(budget=hs.Budget(60, 20))
    assert trained[0] == outcome(Loop(), plain, (Probe(),)).measured[Probe()]["mean"][0]

    @dataclass(frozen=True)
    class Accuracy:
        at: hs.When = hs.Recorded()
        semantics: ClassVar[int] = 1

        def __call__(self, view):
            return {"accuracy": view.task.metrics[0].score(view.predict(view.test.x), view.test.y).mean()}

    seen = outcome(Loop(), run, (Accuracy(),))
    np.testing.assert_allclose(seen.measured[Accuracy()]["accuracy"], seen.trace["test_accuracy"])


def test_a_diverged_run_is_measured_as_far_as_it_came():
    run = parity_run(optimizer=hs.SGD(1e6))
    traces = hs.train(run, seeds=range(2), measures=(hs.Distance(),))
    assert traces.num_diverged == 2
    steps = traces.measured(hs.Distance())["step"]
    assert len(steps) == len(traces[0].steps) < 5


@pytest.mark.parametrize(("wrong", "said"), [("raises", "no such layer"), ("shapes", "other names or shapes")])
def test_a_measure_that_fails_is_named_with_its_step(wrong, said):
    with pytest.raises(hs.HeadstartError, match=said):
        hs.train(parity_run(), measures=(Probe(wrong=wrong),))


@pytest.mark.parametrize("wrong", [hs.Distance, "distance", lambda view: {}, Probe(at=5)])
def test_what_is_no_measure_is_refused_before_training(wrong):
    with pytest.raises(hs.HeadstartError, match="is no measure"):
        hs.train(parity_run(), measures=(wrong,))
    with pytest.raises(hs.HeadstartError, match="is no measure"):
        hs.Arm("a", "a", parity_run(), None, measures=(wrong,))


def num_rows(store, table):
    return store._db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]


def test_a_stored_run_that_lacks_a_measure_is_trained_again_and_not_stored_twice(tmp_path, monkeypatch):
    run = parity_run()
    with hs.open_store(tmp_path / "s.sqlite") as store:
        first = hs.train(run, seeds=range(3), store=store)
        again = hs.train(run, seeds=range(3), store=store, measures=(hs.Distance(),))
        assert [t.cell for t in again] == [t.cell for t in first]
        assert (num_rows(store, "runs"), num_rows(store, "summaries"), num_rows(store, "measured")) == (3, 3, 3)
        seen = again.measured(hs.Distance())
        assert seen["distance"].shape == (3, 5)
        # A measure is known by its fields and its semantics.
        hs.train(run, seeds=range(3), store=store, measures=(hs.Distance(hs.Every(20)),))
        assert num_rows(store, "measured") == 6
        monkeypatch.setattr(hs.Distance, "semantics", 2)
        hs.train(run, seeds=range(3), store=store, measures=(hs.Distance(),))
        assert num_rows(store, "measured") == 9
        with pytest.raises(hs.HeadstartError, match="did not look at 3 of these 3 runs"):
            first.measured(hs.Distance())


def test_a_run_that_comes_out_otherwise_than_stored_is_not_measured(tmp_path):
    run = parity_run()
    with hs.open_store(tmp_path / "s.sqlite") as store:
        (outcome,) = Loop().train([Job(run)])
        other = {name: curve + 0.01 for name, curve in outcome.trace.values.items()}
        store.add([replace(outcome, trace=replace(outcome.trace, values=other))], "loop")
        with pytest.raises(hs.HeadstartError, match=r"came out otherwise than store .* measure into another store"):
            hs.train(run, store=store, measures=(hs.Distance(),))
        assert num_rows(store, "measured") == 0


def test_a_damaged_measurement_is_refused_and_repair_drops_it(tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as store:
        hs.train(parity_run(), store=store, measures=(hs.Distance(),))
        store._db.execute("UPDATE measured SET data = zeroblob(length(data))")
        with pytest.raises(hs.HeadstartError, match=r"corrupt.*--repair"):
            hs.train(parity_run(), store=store, measures=(hs.Distance(),))
        store.repair()
        assert hs.train(parity_run(), store=store, measures=(hs.Distance(),)).measured(hs.Distance())


def test_the_arms_of_a_study_ask_for_measures_and_its_claims_see_them(tmp_path):
    measure = hs.Distance(hs.Every(10))

    def travelled(results):
        far = results.traces["a"].measured(measure)["distance"][:, -1]
        return hs.bootstrap(lambda rows: float(far[rows].mean()), len(far))

    def study(*measures):
        return hs.Study(
            name="measured",
            title="Distance",
            paper="none",
            figures="none",
            presets={"laptop": hs.Knobs(num_seeds=3, num_selection_seeds=1)},
            minutes={"laptop": 0},
            arms=lambda k: [hs.Arm("a", "a", parity_run(), hs.rates(0.1, 0.2), measures=measures)],
            claims=lambda k: [hs.Claim("far", "it moves", "-", hs.above(0.0), travelled)] if measures else [],
            figure=lambda results, figure: None,
        )

    plain, looking = study(), study(measure)
    with hs.open_store(tmp_path / "s.sqlite") as store:
        cell = conduct(plain, "laptop", plain.knobs(), store, Silent()).results.arms["a"].run.cell
        with pytest.raises(hs.HeadstartError, match="3 measured runs are missing"):
            stored(looking, "laptop", looking.knobs(), store)
        before = num_rows(store, "runs")
        outcome = conduct(looking, "laptop", looking.knobs(), store, Silent())
        assert outcome.results.arms["a"].run.cell == cell
        assert (num_rows(store, "runs"), num_rows(store, "measured")) == (before, 3)
        assert outcome.report["claims"][0]["verdict"] == "holds"
        assert stored(looking, "laptop", looking.knobs(), store).traces["a"].measured(measure)["distance"].shape == (
            3,
            3,
        )


def test_moments_of_measures_are_spread_as_they_say():
    budget = hs.Budget(1000, 300)
    assert hs.Recorded().steps(budget) == (0, 300, 600, 900, 1000)
    assert hs.Every(400).steps(budget) == (0, 400, 800, 1000)
    assert hs.Geometric(4).steps(budget) == (0, 1, 10, 100, 1000)
    for wrong in (lambda: hs.Every(0), lambda: hs.Geometric(1)):
        with pytest.raises(hs.HeadstartError, match="num="):
            wrong()
