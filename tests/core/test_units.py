"""Steps, samples and FLOPs."""

import pytest

from headstart.core.errors import HeadstartError
from headstart.core.roles import Parameter, Role
from headstart.core.units import Batch, Budget, flops_per_sample


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        (Budget(steps=10, record_every=5), (0, 5, 10)),
        (Budget(steps=10, record_every=4), (0, 4, 8, 10)),
        (Budget(steps=1, record_every=20), (0, 1)),
        (Budget(steps=3, record_every=1), (0, 1, 2, 3)),
    ],
)
def test_a_budget_records_the_start_every_interval_and_the_end_once(budget, steps):
    assert budget.recorded_steps() == steps


def test_a_weight_costs_six_flops_a_sample_and_a_bias_two():
    weight = Parameter("w", Role.INPUT, 0, (64, 20), 20)
    bias = Parameter("b", Role.BIAS, 0, (64,), 20)
    assert flops_per_sample([weight]) == 6 * 64 * 20
    assert flops_per_sample([weight, bias]) == 6 * 64 * 20 + 2 * 64


@pytest.mark.parametrize("bad", [0, -3, 1.5, True, "8"])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda n: Batch(n), "Batch"),
        (lambda n: Budget(steps=n), "steps"),
        (lambda n: Budget(record_every=n), "record_every"),
    ],
)
def test_a_count_is_a_whole_number_above_zero(make, name, bad):
    with pytest.raises(HeadstartError, match=name) as caught:
        make(bad)
    assert repr(bad) in str(caught.value)
