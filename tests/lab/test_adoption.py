"""Settings that a published page chose: a study with them trains its claims alone, and says where they are from."""

import json
from dataclasses import replace

import pytest
from small_runs import parity_run

import headstart as hs
from headstart.cli import main
from headstart.lab.adoption import adopt, published_choices
from headstart.lab.arms import FIRST_SELECTION_SEED
from headstart.lab.conduct import conduct
from headstart.lab.explain import explain_studies
from headstart.lab.progress import Silent
from headstart.lab.report import write_report

PLANS = {"small": hs.Fixed(16), "large": hs.Online(), "alone": hs.Fixed(32)}
KNOBS = hs.Knobs(num_seeds=3, num_selection_seeds=2)


def study(steps=20, **sweep):
    """Two arms that a claim compares, and one that stands alone."""
    how = {"tries": 4, "score": hs.TimeToTarget(0.55)} | sweep
    return hs.Study(
        name="tests/adopting",
        title="Adopting",
        paper="none",
        figures="none",
        presets={"laptop": KNOBS},
        minutes={"laptop": 0},
        arms=lambda k: [
            hs.Arm(
                name,
                name,
                parity_run(plan=plan, budget=hs.Budget(steps if name == "small" else 20, 5)),
                hs.rates(0.1, 0.3, **how),
            )
            for name, plan in PLANS.items()
        ],
        claims=lambda k: [hs.Claim("end", "better", "-", hs.above(1), hs.FinalRatio("small", "large"))],
        figure=lambda results, figure: None,
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of the study, after it went through a file."""
    with hs.open_store(tmp_path_factory.mktemp("page") / "s.sqlite") as store:
        report = conduct(study(), "laptop", KNOBS, store, Silent()).report
    return json.loads(json.dumps(report | {"commit": "0123abc"}))


def test_claims_on_a_pages_settings_are_the_pages_claims_and_no_setting_is_searched_for(page, tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as store:
        assert adopt(study(), KNOBS, store, [page]) == (3, 0)
        outcome = conduct(study(), "laptop", KNOBS, store, Silent())
        assert max(trace.seed for trace in store.traces()) < FIRST_SELECTION_SEED
    assert outcome.report["claims"] == page["claims"]
    assert outcome.report["arms"] == page["arms"]
    assert all(choice == page["choices"][n] | {"page": "0123abc"} for n, choice in outcome.report["choices"].items())


def test_a_page_says_at_which_commit_its_settings_were_chosen_and_hands_that_on(page, tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as store:
        adopt(study(), KNOBS, store, [page])
        outcome = conduct(study(), "laptop", KNOBS, store, Silent())
        text = write_report(study(), outcome.results, outcome.report, tmp_path)[1].read_text()
    assert text.count("; chosen at commit 0123abc |") == 3
    later = published_choices(study(), KNOBS, [outcome.report | {"commit": "4567def"}])
    assert {tuned.page for tuned in later.values()} == {"0123abc"}


def test_other_seeds_for_the_claims_take_the_same_settings(page):
    more = replace(KNOBS, num_seeds=9, first_seed=500)
    assert published_choices(study(), more, [page]).keys() == PLANS.keys()


@pytest.mark.parametrize(
    ("now", "taken"),
    [
        (study(steps=25), {"alone"}),  # another run, and with it the arm that it is compared with
        (study(tries=50), set()),
        (study(score=hs.TimeToTarget(0.8)), set()),
        (replace(study(), name="tests/other"), set()),
    ],
    ids=["a longer run", "more tries", "another score", "another study"],
)
def test_what_changed_since_the_page_is_searched_for_again(page, now, taken):
    assert published_choices(now, KNOBS, [page]).keys() == taken


def test_other_numbers_of_selection_seeds_and_drafts_are_no_source(page):
    assert not published_choices(study(), replace(KNOBS, num_selection_seeds=3), [page])
    assert not published_choices(study(), KNOBS, [page | {"draft": ["made beside changes"]}])


def test_an_arm_that_learned_nothing_is_known_by_its_first_rung(tmp_path):
    idle = hs.rates(1e-9, 2e-9, tries=3, rungs=(1, 2))
    base = study()
    dead = replace(base, arms=lambda k: [replace(arm, sweep=idle) for arm in base.arms(k)])
    with hs.open_store(tmp_path / "s.sqlite") as store:
        report = conduct(dead, "laptop", replace(KNOBS, num_selection_seeds=4), store, Silent()).report
    assert not any(choice["learned"] for choice in report["choices"].values())
    assert published_choices(dead, replace(KNOBS, num_selection_seeds=4), [report]).keys() == PLANS.keys()


def test_a_choice_of_the_stores_own_stays(page, tmp_path):
    with hs.open_store(tmp_path / "s.sqlite") as store:
        conduct(study(), "laptop", KNOBS, store, Silent())
        assert adopt(study(), KNOBS, store, [page]) == (0, 0)
        assert not any(
            tuned.page for tuned in conduct(study(), "laptop", KNOBS, store, Silent()).results.tuned.values()
        )


def test_what_is_known_does_not_count_as_work(page, tmp_path):
    known = published_choices(study(), KNOBS, [page])
    with hs.open_store(tmp_path / "s.sqlite") as store:
        rows = explain_studies([(study(), KNOBS, known)], store)
    assert [row["runs"] for row in rows] == [3, 3, 3]


def test_a_folder_without_pages_is_met_before_the_store(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["run", "less_data/no_gap", "--choices", str(tmp_path), "--store", str(tmp_path / "s.sqlite")])
    assert f"--choices {tmp_path}: no report is in it" in capsys.readouterr().err
    assert not (tmp_path / "s.sqlite").exists()
