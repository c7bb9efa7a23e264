"""Attention as one operation: what torch's own attention gives, and its gradients, alone and stacked."""

import pytest
import torch
from torch.func import grad, vmap

from headstart.models.attend import attend


def draw(num, queries, keys, width, dtype=torch.float64):
    make = torch.Generator().manual_seed(0)
    shapes = (num, queries, width), (num, keys, width), (num, keys, width)
    return [torch.randn(shape, generator=make, dtype=dtype, requires_grad=True) for shape in shapes]


def by_torch(q, k, v, heads, causal):
    apart = (x.unflatten(2, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(*apart, is_causal=causal).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 6])
def test_it_is_the_attention_of_torch(heads, causal):
    q, k, v = draw(3, 5, 5, 12)
    assert torch.allclose(attend(q, k, v, heads, causal), by_torch(q, k, v, heads, causal))


def test_queries_are_the_last_tokens_where_they_are_fewer():
    q, k, v = draw(3, 5, 5, 8)
    assert torch.allclose(attend(q[:, 3:], k, v, 2, causal=True), attend(q, k, v, 2, causal=True)[:, 3:])


@pytest.mark.parametrize("causal", [False, True])
def test_its_gradients_are_those_of_finite_differences(causal):
    inputs = draw(2, 3, 4, 4)
    assert torch.autograd.gradcheck(lambda q, k, v: attend(q, k, v, 2, causal), inputs)


def test_stacked_members_have_the_gradients_that_each_has_alone():
    q, k, v = (x.detach().unflatten(0, (3, 2)) for x in draw(6, 4, 4, 8))

    def loss(q, k, v):
        return attend(q, k, v, 2, causal=True).square().sum()

    together = vmap(grad(loss, argnums=(0, 1, 2)))(q, k, v)
    for member in range(3):
        alone = grad(loss, argnums=(0, 1, 2))(q[member], k[member], v[member])
        assert all(torch.allclose(all_[member], one) for all_, one in zip(together, alone, strict=True))


def test_what_members_share_needs_no_copy_of_their_own():
    q, k, v = (x.detach() for x in draw(2, 4, 4, 8))
    queries = torch.stack((q, 2 * q))
    shared = vmap(lambda q: attend(q, k, v, 2))(queries)
    assert torch.allclose(shared[1], attend(2 * q, k, v, 2))
