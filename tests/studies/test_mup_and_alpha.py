"""What the comparison of muP, alpha and the standard parametrisation must not fool itself about."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.lab.conduct import conduct
from headstart.lab.progress import Silent
from headstart.lab.scores import Scored
from headstart.methods import MuP
from headstart.optimizers import SGD
from headstart.studies import find
from headstart.studies.less_data.mup_and_alpha import AtBestAlpha, best_alpha, parity_family

STUDY = find("less_data/mup_and_alpha")


def _run(preset: str, arm: str, **changes) -> hs.Run:
    """An arm's run cut to a few steps at a common rate; batches, task, network, plan and methods stay its own."""
    run = next(a.run for a in STUDY.arms(STUDY.knobs(preset)) if a.name == arm)
    return replace(run, optimizer=SGD(0.02), budget=hs.Budget(120, record_every=60), **changes)


@pytest.mark.parametrize("side", ["small", "large"])
@pytest.mark.parametrize("task", ["parity", "index"])
def test_the_mup_arm_at_width_64_is_not_the_standard_arm(task, side):
    standard, mup = (_run("laptop", f"sgd_{task}{name}_{side}") for name in ("", "_64_mup"))
    assert standard.cell != mup.cell
    one, other = (hs.train(run, seeds=range(2)).stack("test_loss", 0.0) for run in (standard, mup))
    # Even the networks at step 0 differ, as muP's readouts are 8 times smaller at width 64.
    assert (np.abs(one - other) > 1e-3).all()


def test_with_base_width_64_the_two_arms_would_be_one():
    standard = _run("laptop", "sgd_parity_small")
    mup = _run("laptop", "sgd_parity_64_mup_small", methods=(MuP(base_width=64),))
    one, other = (hs.train(run, seeds=range(2)).stack("test_loss", 0.0) for run in (standard, mup))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("preset", ["laptop", "paper"])
def test_every_mup_arm_has_base_width_one_and_every_width_of_the_paper_is_there(preset):
    arms = {arm.name: arm.run for arm in STUDY.arms(STUDY.knobs(preset))}
    mup = {name: run for name, run in arms.items() if "_mup_" in name}
    assert {run.methods for run in mup.values()} == {(MuP(base_width=1),)}
    assert {run.model.width for name, run in mup.items() if "parity" in name} == {32, 64, 256, 1024}
    assert {run.model.width for name, run in mup.items() if "index" in name} == {64, 1024}


@pytest.mark.slow
def test_alpha_is_chosen_on_the_selection_seeds_and_the_claim_uses_that_panel(tmp_path):
    knobs = STUDY.knobs("smoke")
    with hs.open_store(tmp_path / "s.sqlite") as store:
        results = conduct(STUDY, "smoke", knobs, store, Silent()).results
    family = parity_family(knobs, knobs.width)
    chosen = best_alpha(results, family)
    scores = {alpha: [s for _, s in results.tuned[panel.arm("small")].tries] for alpha, panel in family.items()}
    assert chosen == min(scores, key=lambda alpha: min(s.score for s in scores[alpha]))
    assert AtBestAlpha(family)(results) == family[chosen].ratio("small", "large")(results)
    # Had the selection seeds preferred another alpha, so would the claim.
    for other, panel in family.items():
        better = replace(results.tuned[panel.arm("small")], tries=(({}, Scored(-1.0, 1.0, 0.0)),))
        assert best_alpha(replace(results, tuned={**results.tuned, panel.arm("small"): better}), family) == other
