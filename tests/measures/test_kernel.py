import numpy as np
import pytest
import torch

import headstart as hs
from headstart.engines import Job
from headstart.engines.loop import Loop
from headstart.measures import pseudo_ntk


def tiny(**changes):
    parts = {
        "task": hs.Split(hs.ModularArithmetic(5, base=5), train=12),
        "model": hs.MLP(width=6, depth=2, bias=False, embedding=hs.Embedding(3)),
        "plan": hs.Fixed(12),
        "loss": hs.CrossEntropy(),
        "optimizer": hs.AdamW(lr=0.03),
        "batch": hs.FullBatch(),
        "budget": hs.Budget(6, 3),
    }
    return hs.Run(**(parts | changes))


def seen(run, measure):
    (outcome,) = Loop().train([Job(run, measures=(measure,))])
    return outcome.measured[measure]


def by_hand(module, x, names):
    """K by one backward pass for every row and output."""
    rows = []
    for row in torch.from_numpy(x):
        outputs = module(row[None]).flatten()
        gradients = torch.zeros(sum(p.numel() for n, p in module.named_parameters() if n in names), dtype=torch.float64)
        for output in outputs:
            each = torch.autograd.grad(
                output, [p for n, p in module.named_parameters() if n in names], retain_graph=True
            )
            gradients += torch.cat([g.flatten() for g in each]).double() / len(outputs) ** 0.5
        rows.append(gradients)
    stacked = torch.stack(rows)
    return (stacked @ stacked.T).numpy()


@pytest.mark.parametrize("names", [["layers.0.weight"], ["embedding.weight", "layers.0.weight", "layers.1.weight"]])
def test_the_kernel_is_that_of_explicit_gradients(names):
    run = tiny()
    module = run.model.module(run.task.signature)
    module.load_state_dict({n: torch.from_numpy(w) for n, w in run.fresh_weights().items()})
    x = run.task.sample(0, np.arange(5)).x
    kernel = pseudo_ntk(module, x, names)
    assert kernel.shape == (5, 5)
    np.testing.assert_allclose(kernel, by_hand(module, x, names), rtol=1e-5, atol=1e-7)


def test_the_kernel_of_real_inputs_agrees_with_finite_differences():
    module = torch.nn.Linear(3, 2, dtype=torch.float64)
    with torch.no_grad():
        module.weight.copy_(torch.arange(6.0).reshape(2, 3))
        module.bias.zero_()
    x = np.array([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]], dtype=np.float32)
    # g is linear in the weights: its gradient is x / sqrt 2 for each output, and 1 / sqrt 2 for each bias.
    assert pseudo_ntk(module, x, ["weight", "bias"]) == pytest.approx(x @ x.T.astype(float) + 1)


def test_the_change_is_0_at_the_start_and_grows_and_the_parts_agree():
    found = seen(tiny(), hs.NTKChange(num=8))
    assert found["step"].tolist() == [0, 3, 6]
    assert found["change"][0] == 0
    assert abs(found["rotation"][0]) < 1e-12
    assert (np.diff(found["change"]) > 0).all()
    assert (found["rotation"][1:] > 0).all()


def test_a_network_that_only_grew_has_another_kernel_and_the_same_direction():
    run = tiny()
    view = made_view(run, {name: 2 * w for name, w in run.fresh_weights().items()})
    found = hs.NTKChange(num=8)(view)
    # Three layers of weights: a gradient has two of them as factors, the kernel four, 16 times as much.
    assert found["change"] == pytest.approx(15, rel=1e-4)
    assert found["rotation"] == pytest.approx(0, abs=1e-6)


def test_fixed_parameters_have_no_part_in_it():
    run = tiny(model=hs.MLP(width=6, depth=2, bias=False, embedding=hs.Embedding(3, fixed=True)))
    view = made_view(run, run.fresh_weights())
    names = [p.name for p in view.parameters if not p.fixed]
    assert "embedding.weight" not in names
    moved = dict(run.fresh_weights())
    moved["layers.1.weight"] = 3 * moved["layers.1.weight"]
    x = view.train.x[:8]
    now, before = (pseudo_ntk(view.module(w), x, names) for w in (moved, run.fresh_weights()))
    expected = np.linalg.norm(now - before) / np.linalg.norm(before)
    assert hs.NTKChange(num=8)(made_view(run, moved))["change"] == pytest.approx(expected)


def test_a_number_of_rows_that_is_none_is_refused():
    with pytest.raises(hs.HeadstartError, match=r"NTKChange\(num=0\)"):
        hs.NTKChange(num=0)


def made_view(run, weights):
    """A view of a run with weights of the test's own."""
    samples = run.task.sample(run.seed, np.arange(12))
    initial = run.fresh_weights()
    return hs.View(
        0, run.seed, run.task, run.model, run.parameters, weights, initial, {}, lambda: samples, lambda: samples, None
    )
