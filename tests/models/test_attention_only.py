"""One attention layer and nothing else."""

import numpy as np
import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.core.signature import Signature
from headstart.models import AttentionOnly
from headstart.tasks import DecisionList

TASK = DecisionList.cyclic(8, 4, (1, 2, 0), 3)


def loaded(model, task=TASK):
    module = model.module(task.signature)
    module.load_state_dict({k: torch.from_numpy(v) for k, v in model.initial_weights(task.signature, 0).items()})
    return module


def test_it_begins_at_uniform_attention_and_near_the_permutation_it_is_given():
    weights = AttentionOnly(value_std=0.1, scale=5.0, near=TASK.mapping).initial_weights(TASK.signature, 1)
    plain = AttentionOnly(value_std=0.1).initial_weights(TASK.signature, 1)
    assert not weights["attention.weight"].any()
    added = weights["value.weight"] - plain["value.weight"]
    np.testing.assert_allclose(added, 5.0 * np.eye(8)[:, list(TASK.mapping)], atol=1e-6)


def test_lists_in_the_attention_and_the_permutation_in_the_values_have_every_label_right():
    module = loaded(AttentionOnly(value_std=0.0, scale=1.0, near=TASK.mapping))
    with torch.no_grad():
        for token, its in enumerate(TASK.lists):
            for place, other in enumerate(its):
                module.attention.weight[other, token] = 10.0 * (len(its) - place)
        data = TASK.population(0)
        assert np.array_equal(module(torch.from_numpy(data.x)).argmax(-1).numpy(), data.y)


def test_it_sees_no_positions():
    module = loaded(AttentionOnly(0.5, 0.5))
    x, order = torch.from_numpy(TASK.sample(0, np.arange(5)).x), [2, 0, 3, 1]
    torch.testing.assert_close(module(x)[:, order], module(x[:, order]))


@pytest.mark.parametrize(
    ("model", "signature", "fix"),
    [
        (AttentionOnly(), Signature((4,)), "sequences of symbols"),
        (AttentionOnly(), Signature((4,), symbols=8, outputs=(8,)), "one row of scores per position"),
        (AttentionOnly(scale=1.0, near=(0, 1)), TASK.signature, "for each of 8 symbols"),
    ],
    ids=["real inputs", "one label", "short permutation"],
)
def test_a_task_that_does_not_fit_is_refused(model, signature, fix):
    with pytest.raises(HeadstartError, match=f"AttentionOnly.*{fix}"):
        model.parameters(signature)


def test_a_factor_without_a_permutation_is_refused():
    with pytest.raises(HeadstartError, match="give both"):
        AttentionOnly(scale=2.0)
