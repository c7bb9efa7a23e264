"""What every study must be. A new study joins by existing."""

from pathlib import Path

import pytest

import headstart as hs
from headstart.lab.conduct import conduct, make_report
from headstart.lab.figures import save_figure
from headstart.lab.progress import Silent
from headstart.lab.study import stored
from headstart.studies import all_studies, find, select

STUDIES = [pytest.param(study, id=name) for name, study in all_studies().items()]


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_runs_its_smoke_preset_and_draws_its_figure(study, tmp_path):
    knobs = study.knobs("smoke")
    with hs.open_store(tmp_path / "s.sqlite") as store:
        outcome = conduct(study, "smoke", knobs, store, Silent())
        again = stored(study, "smoke", knobs, store)
        assert make_report(study, "smoke", again, store)["claims"] == outcome.report["claims"]
    path = save_figure(study.figure(outcome.results), tmp_path / "figure.png")
    assert path.stat().st_size > 10_000
    for name, tuned in outcome.results.tuned.items():
        assert min(tuned.rates) < tuned.rate < max(tuned.rates), name
        assert max(summary.seed for summary in outcome.results.summaries[name]) < 1_000_000


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_reads_like_a_method_section(study):
    for heading in ("Paper", "Claim", "Setting", "Measured"):
        assert f"\n{heading} " in study.doc
    assert set(study.presets) == set(study.minutes) == {"smoke", "laptop", "paper"}
    assert study.tags


@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("preset", ["smoke", "laptop", "paper"])
def test_every_preset_can_be_built_and_every_claim_is_distinct(study, preset):
    knobs = study.knobs(preset)
    arms, claims = study.arms(knobs), study.claims(knobs)
    assert len({arm.name for arm in arms}) == len(arms)
    assert len({claim.id for claim in claims}) == len(claims)
    assert all(claim.paper for claim in claims)


def test_a_paper_is_the_studies_of_its_folder():
    assert [s.name for s in select("less_data")] == [n for n in all_studies() if n.startswith("less_data/")]
    assert select("less_data", only="mlp")


USERS_STUDY = '''
"""Does a user's own task, in a file outside the package, work?"""
from dataclasses import dataclass, replace
import headstart as hs
from headstart.tasks.parity import ACCURACY

@dataclass(frozen=True)
class Majority:
    dim: int
    semantics = 1
    losses = ("mse",)
    num_test = 64
    metrics = (ACCURACY,)
    population_size = None
    def sample(self, seed, ids, stream=hs.Stream.DATA):
        inner = hs.Parity(self.dim, 1).sample(seed, ids, stream)
        return hs.Samples(inner.x, (2 * (inner.x.sum(1) > 0) - 1).astype("float32"))
    def population(self, seed, ids=None):
        raise NotImplementedError

def arms(knobs):
    run = hs.Run(Majority(5), hs.MLP(4), hs.Online(), hs.MSE(), hs.SGD(0.1), hs.Batch(8), budget=hs.Budget(20, 5))
    return [hs.Arm("small", "16", replace(run, plan=hs.Fixed(16)), hs.Sweep(0.1, 0.2), hs.Side.SMALL),
            hs.Arm("large", "fresh", run, hs.Sweep(0.1, 0.2), hs.Side.LARGE)]

def claims(knobs):
    return [hs.Claim("final", "small is better", "-", hs.above(1), hs.FinalRatio("small", "large"))]

def figure(results):
    from headstart.lab.figures import draw_curve, house_style
    with house_style() as module:
        picture = module.Figure()
        for arm in results.arms:
            draw_curve(picture.subplots(), results, arm)
        return picture

knobs = hs.Knobs(num_seeds=2, num_selection_seeds=1)
STUDY = hs.Study("users_study", "A user's study", "none", "none", {"smoke": knobs, "laptop": knobs},
                 {"smoke": 0, "laptop": 0}, arms, claims, figure)
'''


def test_a_study_file_outside_the_package_runs_by_its_path_in_worker_processes(tmp_path, monkeypatch, capsys):
    from headstart.cli import main

    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "users_study.py"
    path.write_text(USERS_STUDY)
    main(["run", str(path), "--jobs", "2", "--store", str(tmp_path / "s.sqlite"), "--preset", "smoke"])
    assert "small is better" in capsys.readouterr().out
    with hs.open_store(tmp_path / "s.sqlite") as store:
        traces = store.traces(study="users_study")
        assert len(traces) == 4
        assert store.run_of(traces[0].cell).task == find(str(path)).arms(None)[0].run.task


def test_a_study_file_must_bind_a_study(tmp_path):
    path = Path(tmp_path) / "empty_study_file.py"
    path.write_text("x = 1\n")
    with pytest.raises(hs.HeadstartError, match="does not bind STUDY"):
        find(str(path))
