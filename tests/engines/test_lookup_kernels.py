"""The kernels of a look-up beside the operation they stand for, and how they come into a traced step."""

import numpy as np
import pytest
import torch
from torch.func import grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

import headstart as hs
from headstart.engines import Job
from headstart.engines.ensemble import Ensemble
from headstart.engines.ensemble.kernels import with_kernels
from headstart.engines.ensemble.lookup import KERNELS, backward, forward
from headstart.engines.loop import Loop
from headstart.models.lookup import BACKWARD, FORWARD, looked_up


def draw(places, width, dtype=torch.float32, members=2, symbols=7, num=11):
    make = torch.Generator().manual_seed(0)
    tables = torch.randn(members, places, symbols, width, generator=make, dtype=dtype)
    x = torch.randint(symbols, (members, num, places), generator=make)
    return tables, x, torch.randn(members, num, width, generator=make, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("places", [1, 2, 3])
def test_they_are_the_operation_and_its_gradient_up_to_rounding(places, dtype):
    tables, x, d_out = draw(places, 9, dtype)
    tolerance = 1e-6 if dtype is torch.float32 else 1e-14
    assert torch.allclose(forward(tables, x), FORWARD(tables, x), rtol=tolerance, atol=tolerance)
    # What was there before does not count.
    out = torch.full_like(tables, torch.nan)
    assert backward(d_out, x, 7, out=out) is out
    assert torch.allclose(out, BACKWARD(d_out, x, 7), rtol=tolerance, atol=tolerance)


def test_a_member_that_is_not_finite_leaves_its_neighbour_alone():
    tables, x, d_out = draw(2, 8)
    clean = forward(tables, x)[0], backward(d_out, x, 7)[0]
    tables[1], d_out[1] = torch.nan, torch.nan
    assert torch.equal(forward(tables, x)[0], clean[0])
    assert torch.equal(backward(d_out, x, 7)[0], clean[1])


@pytest.mark.parametrize("symbol", [7, -1])
def test_a_symbol_without_a_row_is_refused(symbol):
    tables, x, _ = draw(2, 8)
    x[1, 3, 1] = symbol
    with pytest.raises(IndexError, match="no row"):
        forward(tables, x)


def test_a_traced_step_calls_the_kernels_on_the_processor_and_the_operation_elsewhere():
    tables, x, _ = draw(2, 8)

    def step(tables, x):
        return vmap(grad(lambda t, x: looked_up(t, x).square().sum()))(tables, x)

    for device, expected in (("cpu", set(KERNELS)), ("cuda", {FORWARD, BACKWARD})):
        graph = make_fx(step)(tables, x)
        with_kernels(graph, device)
        assert {node.target for node in graph.graph.nodes} & {*KERNELS, FORWARD, BACKWARD} == expected
        if device == "cpu":
            assert torch.allclose(graph(tables, x), step(tables, x), atol=1e-5)


@pytest.mark.slow
def test_a_decoder_of_two_symbols_trains_as_in_the_loop_alone_or_in_company():
    run = hs.Run(
        hs.Split(hs.ModularArithmetic(5, base=5), train=0.5),
        hs.Transformer(8, 2, heads=2, mlp_width=8, causal=True, readout="last", bias=False),
        hs.Online(),
        hs.CrossEntropy(),
        hs.AdamW(0.01, weight_decay=1.0),
        hs.FullBatch(),
        budget=hs.Budget(6, 3),
    )
    jobs = [Job(run.at(seed), keep=(hs.Step(6),)) for seed in range(3)]
    together = list(Ensemble().train(jobs))
    (alone,) = Ensemble().train(jobs[1:2])
    (specified,) = Loop().train(jobs[1:2])
    for name, weight in together[1].states[hs.Step(6)].weights.items():
        assert np.array_equal(alone.states[hs.Step(6)].weights[name], weight)
        np.testing.assert_allclose(specified.states[hs.Step(6)].weights[name], weight, rtol=1e-4, atol=1e-5)
