"""The study local_signal/images: what is trained, what is shared, and what is kept."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from headstart.core.errors import HeadstartError
from headstart.studies.local_signal._images import (
    KEPT,
    KERNEL,
    NETWORK,
    SETTINGS,
    accuracies,
    arm_name,
    image_arms,
    image_parts,
    network_run,
    part_name,
    task,
)
from headstart.studies.local_signal.images import STUDY, Better, Kept

LAPTOP, PAPER = STUDY.presets["laptop"], STUDY.presets["paper"]
SWEPT = replace(LAPTOP, rates=(0.01, 0.1), kernel_rates=(1e-3, 1e-2), function_rates=(0.1, 0.3), num_selection_seeds=1)


@dataclass(frozen=True)
class Fake:
    """Results with accuracies of arms and parts by name."""

    knobs: Any
    ends: dict
    computed: dict

    def finals(self, arm):
        return self.ends[arm]


def results():
    """Networks have 0.9 and 0.855; kernels 0.8 at the second rate, which the selection seed chooses, and then 0.6."""
    ends = {arm_name(NETWORK, "noise", level): np.full(3, 0.9 - 0.045 * level) for level in (0.0, 1.0)}
    seeds = SWEPT.claim_seeds
    parts = {
        part_name("noise", level, seed): {"test_accuracy": np.array([[0.1, 0.95], [0.1, value]])}
        for level, value in ((0.0, 0.8), (1.0, 0.6))
        for seed in seeds
    }
    parts[part_name("noise", 0.0, 1_000_000)] = {"test_accuracy": np.array([[0.9, 0.3], [0.0, 0.4]])}
    return Fake(SWEPT, ends, parts)


def test_the_selection_seed_chooses_the_rate_of_kernels_in_function_space():
    np.testing.assert_allclose(accuracies(results(), KERNEL, "noise", 1.0), [0.6] * 3)


def test_what_is_kept_is_the_accuracy_with_the_strongest_background_over_that_without():
    assert Kept(NETWORK, "noise")(results()).value == pytest.approx(0.95)
    assert Kept(KERNEL, "noise")(results()).value == pytest.approx(0.75)
    assert Kept(NETWORK, "noise", (KERNEL, "noise"))(results()).value == pytest.approx(0.2)
    nearly = Better((KERNEL, "noise"), (NETWORK, "noise"), ratio=True)
    assert nearly(results()).value == pytest.approx(0.8 / 0.9)
    both = Better((NETWORK, "noise"), (KERNEL, "noise"), levels=(0.0, 1.0))
    assert both(results()).value == pytest.approx((0.9 + 0.855) / 2 - 0.7)


def test_black_backgrounds_are_trained_once_whatever_they_would_have_been():
    assert task(LAPTOP, "noise", 0.0) == task(LAPTOP, "photographs", 0.0)
    arms = {arm.name: arm for arm in image_arms(LAPTOP)}
    assert arms["network_noise_0"].run.cell == arms["network_photographs_0"].run.cell
    assert arms["network_noise_1"].run.cell != arms["network_photographs_1"].run.cell


def test_both_sides_have_as_many_tries_and_all_arms_the_rate_of_their_side():
    arms = {arm.name: arm for arm in image_arms(SWEPT)}
    swept = {name: arm.sweep for name, arm in arms.items() if hasattr(arm.sweep, "axes")}
    assert set(swept) == {"network_ten_0", "kernel_ten_0"}
    assert {len(sweep.axes[0].values) for sweep in swept.values()} == {len(SWEPT.function_rates)}
    assert all(arm.sweep.arm == f"{name.split('_')[0]}_ten_0" for name, arm in arms.items() if name not in swept)
    assert all(arm.sweep is None for arm in image_arms(LAPTOP))
    with pytest.raises(HeadstartError, match="as many"):
        replace(SWEPT, rates=(0.1,))


def test_the_paper_preset_is_that_of_the_thesis():
    assert set(PAPER.rows) - set(SETTINGS) == {
        "noise_corner_32", "noise_fixed_32", "noise_random_64", "noise_corner_64", "noise_fixed_64",
    }  # fmt: skip
    run, large = network_run(PAPER, "ten", 1.0), network_run(PAPER, "noise_fixed_64", 1.0)
    assert run.budget.steps == 200 * 50_000 // 128
    # Cross-entropy as a mean over ten classes, and a penalty without 1/2: the same steps as these.
    assert (run.optimizer.lr, run.optimizer.weight_decay) == pytest.approx((0.01, 0.01))
    assert run.model.widen == 10
    assert (large.batch.size, large.optimizer.lr) == (50, pytest.approx(0.025))
    assert large.task.signature.inputs == (3, 64, 64)
    assert large.task.task.signature.inputs == (3, 32, 32)
    assert task(PAPER, "noise", 1.0).strength == 2.0
    vehicles = task(PAPER, "vehicles", 1.0)
    assert (vehicles.num_train, vehicles.num_test, vehicles.placement) == (20_000, 4_000, "corner")
    assert len(vehicles.background.task.groups) == 6
    assert list(image_parts(PAPER, {})) == ["examples"]
    assert {"larger", "fixed_kernel", "corner_network"} <= {claim.id for claim in STUDY.claims(PAPER)}


def test_the_numbers_of_table_3_1_stand_beside_ours():
    said = {claim.id: claim.paper for claim in STUDY.claims(LAPTOP)}
    assert said["network_ten"] == "0.9897"
    assert said["kernel_vehicles"] == "0.7637"
    assert set(KEPT) == set(SETTINGS)


@pytest.mark.parametrize("levels", [(0.0, 0.5), (0.5, 1.0), (1.0, 0.0)])
def test_levels_go_from_nothing_to_all(levels):
    with pytest.raises(HeadstartError, match="from 0 to 1"):
        replace(LAPTOP, levels=levels)
