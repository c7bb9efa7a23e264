"""The kernels of attention beside the operation they stand for, and how they come into a traced step."""

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from headstart.engines.ensemble.attention import KERNELS, backward, forward
from headstart.engines.ensemble.kernels import with_kernels
from headstart.models.attend import BACKWARD, FORWARD, attend

# num, queries, keys, heads, size of a head, causal: the tasks' shapes, ends of vectors on both sides of eight.
SHAPES = [
    (5, 10, 10, 4, 16, False),
    (5, 1, 17, 4, 8, False),
    (3, 17, 17, 4, 8, True),
    (3, 8, 8, 1, 8, True),
    (2, 3, 9, 2, 32, True),
    (2, 1, 1, 1, 8, False),
    (2, 50, 50, 2, 8, False),
]


def draw(num, queries, keys, heads, size, scale=1.0):
    make = torch.Generator().manual_seed(0)
    lengths = queries, keys, keys, queries
    return [scale * torch.randn(num, length, heads * size, generator=make) for length in lengths]


@pytest.mark.parametrize("scale", [1.0, 10.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_they_are_the_operation_and_its_gradients_up_to_rounding(shape, scale):
    *sizes, heads, size, causal = shape
    q, k, v, d_out = draw(*sizes, heads, size, scale)
    out, p = forward(q, k, v, heads, causal)
    for mine, exact in zip((out, p), FORWARD(*(x.double() for x in (q, k, v)), heads, causal), strict=True):
        assert torch.allclose(mine.double(), exact, rtol=1e-4, atol=3e-5 * scale)
    exact_p = FORWARD(*(x.double() for x in (q, k, v)), heads, causal)[1]
    exact = BACKWARD(*(x.double() for x in (d_out, q, k, v)), exact_p, causal)
    for mine, theirs in zip(backward(d_out, q, k, v, p, causal), exact, strict=True):
        assert torch.allclose(mine.double(), theirs, rtol=1e-3, atol=1e-4 * scale**3)


def test_a_sequence_that_is_not_finite_leaves_its_neighbours_alone_bit_for_bit():
    q, k, v, d_out = draw(3, 10, 10, 2, 8)
    clean_out, clean_p = forward(q, k, v, 2, False)
    clean = backward(d_out, q, k, v, clean_p, False)
    for broken in (q, k, v):
        broken[1, 4, 3] = float("nan")
    out, p = forward(q, k, v, 2, False)
    gradients = backward(d_out, q, k, v, p, False)
    assert torch.isnan(out[1]).any()
    assert all(torch.isnan(gradient[1]).any() for gradient in gradients)
    for mine, alone in zip((out, *gradients), (clean_out, *clean), strict=True):
        assert torch.equal(mine[[0, 2]], alone[[0, 2]])


def test_very_negative_logits_are_weights_of_zero_and_never_of_nothing():
    q, k, v, _ = draw(1, 4, 4, 1, 8)
    q[:], k[:] = -100.0, 100.0
    k[0, 2] = 99.0
    out, p = forward(q, k, v, 1, False)
    assert torch.allclose(p[0, 0, 0], torch.tensor([0.0, 0.0, 1.0, 0.0]), atol=1e-30)
    assert torch.allclose(out[0, 0], v[0, 2], atol=1e-6)
    assert torch.isfinite(out).all()


def targets(width, heads, length, dtype=torch.float32, device="cpu"):
    x = torch.zeros(2, length, width, dtype=dtype)

    def step(x):
        with torch.enable_grad():
            x = x.requires_grad_()
            return torch.autograd.grad(attend(x, x, x, heads).sum(), x)

    graph = make_fx(step)(x)
    with_kernels(graph, device)
    return {node.target for node in graph.graph.nodes} & {*KERNELS, FORWARD, BACKWARD}


def test_a_traced_step_calls_the_kernels_where_they_fit_and_the_operation_elsewhere():
    assert targets(16, 2, 10) == set(KERNELS)
    operations = {FORWARD, BACKWARD}
    assert targets(12, 2, 10) == operations, "heads of six numbers"
    assert targets(16, 2, 65) == operations, "long sequences"
    assert targets(16, 2, 10, dtype=torch.float64) == operations
    assert targets(16, 2, 10, device="cuda") == operations


def test_results_are_written_where_they_are_wanted():
    q, k, v, d_out = draw(2, 5, 5, 2, 8)
    out, p = forward(q, k, v, 2, True)
    room = torch.full((p.numel() + 8,), np.nan)
    mine = torch.empty_like(out), room[: p.numel()].view(p.shape)
    assert forward(q, k, v, 2, True, out=mine) is mine
    assert torch.equal(mine[0], out)
    assert torch.equal(mine[1], p)
    wanted = tuple(torch.empty_like(x) for x in (q, k, v))
    assert backward(d_out, q, k, v, p, True, out=wanted) is wanted
    for written, fresh in zip(wanted, backward(d_out, q, k, v, p, True), strict=True):
        assert torch.equal(written, fresh)


def test_weights_without_room_behind_them_are_not_written_or_read():
    q, k, v, d_out = draw(2, 5, 5, 2, 8)
    out, p = forward(q, k, v, 2, True)
    with pytest.raises(AssertionError):
        forward(q, k, v, 2, True, out=(out, p.clone()))
    with pytest.raises(AssertionError):
        backward(d_out, q, k, v, p.clone(), True)
