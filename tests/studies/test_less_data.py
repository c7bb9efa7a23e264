"""One number for one contrast: studies that share an arm of Fig. 2 share its cell, its sweep and its seeds."""

import pytest

from headstart.studies import find, select

SHARING = (
    "mini_and_full_batch_mlp",
    "small_set_size",
    "random_labels",
    "layerwise_learning_rate",
    "robustness",
    "input_bias",
    "depth_and_width",
    "mup_and_alpha",
)


@pytest.mark.parametrize("preset", ["laptop", "paper"])
def test_arms_of_one_name_are_one_arm_in_all_studies_of_fig_2(preset):
    found = {}
    for name in SHARING:
        study = find(f"less_data/{name}")
        knobs = study.knobs(preset)
        for arm in study.arms(knobs):
            if arm.name in ("sgd_parity_small", "sgd_parity_large", "gd_parity_small", "gd_parity_large") or (
                arm.name in ("sgd_index_small", "sgd_index_large", "gd_index_small", "gd_index_large")
            ):
                seeds = arm.claim_seeds(knobs), arm.selection_seeds(knobs)
                found.setdefault(arm.name, {})[name] = (arm.run.cell, arm.sweep, seeds)
    assert len(found) == 8
    for arm, by_study in found.items():
        assert len(by_study) > 1, arm
        first = next(iter(by_study.values()))
        assert all(its == first for its in by_study.values()), (arm, list(by_study))


def test_every_study_of_mlps_has_a_finding_and_a_primary_claim_for_few_sentences():
    for study in select("less_data", only="mlp"):
        kinds = [claim.kind for claim in study.claims(study.knobs("laptop"))]
        assert study.finding, study.name
        assert 1 <= kinds.count("primary") <= 9, study.name
