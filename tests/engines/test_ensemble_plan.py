"""A traced step whose tensors have planned places gives the numbers it gave before, in less memory."""

import pytest
import torch
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from headstart.engines.ensemble.plan import plan


class Shortcuts(torch.nn.Module):
    """A residual network: values that live long, an operation that changes its operand, views that change nothing."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = (torch.nn.Linear(6, 6) for _ in range(3))
        self.change = torch.nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.change(self.one(x)).view(-1, 6).expand(len(x), 6)
        h = h + self.two(torch.tanh(h) * h)
        return (self.out(h) + x).T.contiguous().sum(dim=0)


def traced(members, num):
    module = Shortcuts()
    make = torch.Generator().manual_seed(0)
    weights = {n: torch.randn(members, *p.shape, generator=make) for n, p in module.named_parameters()}
    x = torch.randn(members, num, 6, generator=make)

    def loss(weights, x):
        prediction = functional_call(module, weights, (x,))
        return prediction.square().sum(), prediction

    return make_fx(vmap(grad(loss, has_aux=True)))(weights, x), weights, x


def leaves(result):
    gradients, prediction = result
    return [*gradients.values(), prediction]


@pytest.mark.parametrize(("members", "num"), [(2, 5), (3, 1), (1, 64)])
def test_the_results_are_the_same_bit_for_bit_and_other_inputs_do_not_meet_old_ones(members, num):
    graph, weights, x = traced(members, num)
    before = [leaves(graph(weights, each)) for each in (x, -2 * x, x)]
    plan(graph, (weights, x), {})
    after = [leaves(graph(weights, each)) for each in (x, -2 * x, x)]
    for one, other in zip(before, after, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_what_a_step_returned_is_not_overwritten_by_the_next():
    graph, weights, x = traced(2, 5)
    plan(graph, (weights, x), {})
    first = leaves(graph(weights, x))
    copies = [tensor.clone() for tensor in first]
    graph(weights, -2 * x)
    assert all(torch.equal(kept, copy) for kept, copy in zip(first, copies, strict=True))


def test_places_are_used_again_and_shared_by_steps_that_take_turns():
    graph, weights, x = traced(2, 50)
    pool = {}
    plan(graph, (weights, x), pool)
    assert len(list(graph.buffers())) > sum(len(buffers) for buffers in pool.values())
    size = {bytes_: len(buffers) for bytes_, buffers in pool.items()}
    again, *inputs = traced(2, 50)
    plan(again, inputs, pool)
    assert {bytes_: len(buffers) for bytes_, buffers in pool.items()} == size


def test_an_operation_that_changes_its_operand_stays():
    graph, weights, x = traced(2, 5)
    changing = [n for n in graph.graph.nodes if getattr(n.target, "_schema", None) and n.target._schema.is_mutable]
    plan(graph, (weights, x), {})
    assert changing
    assert set(changing) <= set(graph.graph.nodes)
