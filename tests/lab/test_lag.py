"""Landscape-aware growing of a model of one's own, on toys where the best operator is known."""

import math

import pytest
import torch

import headstart as hs
from headstart.lab.progress import Silent

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))


class Add(torch.nn.Module):
    """x + w, a layer that a random draw makes far too large."""

    def __init__(self, size):
        super().__init__()
        self.inner = torch.nn.ParameterList([torch.full((4, 4), size)])

    def reset_parameters(self):
        torch.nn.init.normal_(self.inner[0], std=3.0)

    def forward(self, x):
        return x + x @ self.inner[0]


def parent(layers=(0.1, 0.2, 0.4)):
    model = torch.nn.Sequential(*[Add(size) for size in layers])
    return model, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)


def loss(model, x):
    return (model(x) - 2 * x).square().mean()


def step(model, optimizer, x):
    optimizer.zero_grad()
    loss(model, x).backward()
    optimizer.step()


def validate(model):
    with torch.no_grad():
        return loss(model.eval(), X).item()


def search(operators, k=8, **changes):
    model, optimizer = parent()
    generator = torch.Generator().manual_seed(1)
    data = (torch.randn(16, 4, generator=generator) for _ in range(k + 3))
    asked = {"validate": validate, "progress": Silent(), **changes}
    return hs.lag(model, optimizer, step, data, operators, k, **asked)


SPACE = hs.design_space(3, 1)


def by_hand(operator, k=8):
    """The validation loss of one child after k steps, in a loop of its own."""
    model, optimizer = parent()
    grown = hs.grow(model, optimizer, operator)
    generator = torch.Generator().manual_seed(1)
    for _ in range(k):
        step(grown.model, grown.optimizer, torch.randn(16, 4, generator=generator))
    return validate(grown.model)


def test_every_child_is_what_a_loop_of_its_own_would_make_and_the_best_goes_on():
    found = search(SPACE)
    expected = {operator: by_hand(operator) for operator in SPACE}
    assert {child.operator: child.score for child in found.children} == expected
    assert found.grown.operator == found.best.operator == min(expected, key=expected.get)
    assert validate(found.grown.model) == found.best.score
    # Duplicates of the smallest layer disturb least, and random layers are far too large.
    assert found.best.operator == hs.Grow(0, 1, "duplicate", 1)


def test_the_cost_counts_every_child_and_the_parent():
    found = search(SPACE)
    assert (found.steps, found.extra_steps) == (7 * 8, 6 * 8)
    assert search(SPACE, parent=False).steps == 6 * 8
    assert "of which 48 steps are not in the model" in str(found)
    assert "not grown" in str(found)


def test_the_parent_beside_its_children_is_trained_on_the_same_batches():
    found = search(SPACE)
    model, optimizer = parent()
    generator = torch.Generator().manual_seed(1)
    for _ in range(8):
        step(model, optimizer, torch.randn(16, 4, generator=generator))
    assert found.parent.score == validate(model)


def test_halving_finds_the_same_and_costs_less():
    whole, cheap = search(SPACE, parent=False), search(SPACE, parent=False, halving=True)
    assert cheap.steps == 6 * 2 + 3 * 2 + 2 * 4
    assert cheap.best == whole.best or cheap.best.score == whole.best.score
    assert sorted(child.steps[-1] for child in cheap.children) == [2, 2, 2, 4, 8, 8]


def test_no_steps_is_the_loss_at_growth_and_a_window_smooths():
    start = search(SPACE, k=0)
    assert start.best.losses == (start.best.score,)
    assert start.steps == 0
    smooth = search(SPACE, every=1, window=3)
    for child in smooth.children:
        assert child.steps == tuple(range(9))
        assert child.score == pytest.approx(sum(child.losses[-3:]) / 3)


def test_a_child_that_diverges_is_never_chosen_and_the_given_model_stays():
    model, optimizer = parent()
    before = [p.clone() for p in model.parameters()]
    torch.manual_seed(5)
    state = torch.get_rng_state()
    data = [X[:16]] * 4

    def broken(child):
        return math.nan if len(child) == 4 and child[0].inner[0][0, 0] == child[1].inner[0][0, 0] else validate(child)

    found = hs.lag(model, optimizer, step, data, SPACE, 0, validate=broken, progress=Silent())
    assert found.best.operator != hs.Grow(0, 1, "duplicate", 1)
    assert math.isinf(next(c.score for c in found.children if c.operator == hs.Grow(0, 1, "duplicate", 1)))
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    assert not optimizer.state
    with pytest.raises(hs.HeadstartError, match="no child has a loss that is a number; lower the optimizer's"):
        hs.lag(model, optimizer, step, data, SPACE, 0, validate=lambda _: math.nan, progress=Silent())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operators": ()}, r"operators=\(\)"),
        ({"operators": [SPACE[0]] * 2}, "different operators"),
        ({"operators": "all"}, "operators='all'"),
        ({"operators": [hs.Grow(3, layers=1)]}, "index=3"),
        ({"k": -1}, "k=-1"),
        ({"window": 0}, "window=0"),
        ({"halving": 2}, "halving=2"),
        ({"data": [X]}, "the data have 1 batches; give more, or k=1"),
        ({"data": 5}, "data=5.*give batches"),
        ({"validate": lambda model: "good"}, "returned 'good'"),
        ({"validate": 0.5}, r"validate=0.5.*validate\(model\)"),
        ({"step": None}, r"step=None.*step\(model, optimizer, batch\)"),
        ({"optimizer": torch.optim.SGD([torch.nn.Parameter(X)], 0.1)}, "not of this model"),
    ],
)
def test_a_bad_call_is_said_before_anything_is_trained(changes, message):
    model, optimizer = parent()

    def never(*_):
        raise AssertionError("trained")

    asked = {"optimizer": optimizer, "step": never, "data": [X] * 3, "operators": SPACE, "k": 3, "validate": validate}
    with pytest.raises(hs.HeadstartError, match=message):
        hs.lag(model, progress=Silent(), **asked | changes)
