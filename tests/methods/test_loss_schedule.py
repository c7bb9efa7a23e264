"""One loss first and another later in a loop of one's own: the change, the rates, and going on from a state."""

import json

import pytest
import torch

import headstart as hs


def batches(num, seed=0):
    generator = torch.Generator().manual_seed(seed)
    direction = torch.linspace(-1, 1, 5)
    for _ in range(num):
        x = torch.randn(64, 5, generator=generator)
        yield x, x @ direction


def linear():
    model = torch.nn.Sequential(torch.nn.Linear(5, 1, bias=False), torch.nn.Flatten(0))
    torch.nn.init.zeros_(model[0].weight)
    return model


def train(losses, model, optimizer, data):
    """The rate and the phase of every step."""
    seen = []
    for x, y in data:
        optimizer.zero_grad()
        losses(model(x), y).backward()
        seen.append((optimizer.param_groups[0]["lr"], losses.phase))
        optimizer.step()
        losses.step()
    return seen


def made(model, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    options = {"below": 0.6, **options}
    if "rate" in options or "decay" in options:
        options["optimizer"] = optimizer
    return hs.LossSchedule(hs.CorrelationLoss(), torch.nn.MSELoss(), **options), optimizer


def test_the_first_loss_is_minimised_until_the_second_is_under_its_share_and_then_the_second():
    model, plain = linear(), linear()
    losses, optimizer = made(model)
    seen = train(losses, model, optimizer, batches(30))
    first = losses.changed_at
    assert 1 < first < 30
    assert [phase for _, phase in seen] == [0] * first + [1] * (30 - first)
    # The same steps, written out.
    other, errors = torch.optim.SGD(plain.parameters(), lr=0.05), []
    for number, (x, y) in enumerate(batches(30)):
        prediction = plain(x)
        errors.append(((prediction - y) ** 2).mean())
        loss = -(prediction * y).mean() if number < first else errors[-1]
        other.zero_grad()
        loss.backward()
        other.step()
    assert torch.equal(plain[0].weight, model[0].weight)
    assert all(error >= 0.6 * errors[0] for error in errors[: first - 1])
    assert errors[first - 1] < 0.6 * errors[0]
    assert losses.start == pytest.approx(errors[0].item())
    assert losses.recorded == pytest.approx(errors[-1].item())


def test_rates_fall_at_the_change_and_after_every_later_step():
    model = linear()
    losses, optimizer = made(model, below=None, steps=4, rate=0.1, decay=0.9)
    rates = [lr for lr, _ in train(losses, model, optimizer, batches(8))]
    assert losses.changed_at == 4
    assert rates == pytest.approx([0.05] * 4 + [0.005 * 0.9**k for k in range(4)])


def test_of_two_conditions_the_first_counts():
    model = linear()
    early, optimizer = made(model, below=0.6, steps=2)
    train(early, model, optimizer, batches(6))
    assert early.changed_at == 2


def test_a_window_averages_what_is_looked_at_and_the_start():
    values = iter([4.0, 2.0, 1.0, 2.0, 1.0, 1.0])
    losses = hs.LossSchedule(lambda f, y: f.sum(), lambda f, y: f.sum() * 0 + next(values), below=0.5, window=2)
    for step in range(6):
        losses(torch.ones(2, requires_grad=True), None)
        losses.step()
        assert losses.start == (None if step == 0 else 3.0)
    # The means of two are 3, 1.5, 1.5, 1.5 and 1: one that is at the share is not under it.
    assert losses.changed_at == 6


def test_micro_batches_between_two_steps_are_averaged_and_evaluation_is_not_counted():
    losses = hs.LossSchedule(lambda f, y: f.mean(), lambda f, y: f.mean(), below=0.5)
    one, two = torch.full((3,), 4.0, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
    losses(one, None)
    losses(two, None)
    with torch.no_grad():
        assert losses(100 * one, None) == 400
    losses.step()
    assert losses.start == losses.recorded == 3


def test_processes_change_over_together(monkeypatch):
    """The mean over two processes, of which the other sees a loss of 10."""
    from torch import distributed

    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_reduce", lambda mean: mean.add_(10.0))
    losses = hs.LossSchedule(lambda f, y: f.mean(), lambda f, y: f.mean(), steps=5)
    losses(torch.full((3,), 4.0, requires_grad=True), None)
    losses.step()
    assert losses.recorded == 7


@pytest.mark.parametrize("stop", [1, 7, 20])
def test_a_loop_that_stops_goes_on_exactly(stop):
    data = list(batches(25))
    whole, part = linear(), linear()
    options = {"below": 0.7, "window": 3, "rate": 0.5, "decay": 0.99}
    losses, optimizer = made(whole, **options)
    expected = train(losses, whole, optimizer, data)
    before, half = made(part, **options)
    seen = train(before, part, half, data[:stop])
    saved = json.loads(json.dumps(before.state_dict()))
    resumed, other = made(part, **options)
    other.load_state_dict(half.state_dict())
    resumed.load_state_dict(saved)
    assert seen + train(resumed, part, other, data[stop:]) == expected
    assert torch.equal(whole[0].weight, part[0].weight)
    assert resumed.state_dict() == losses.state_dict()


MEAN = torch.nn.MSELoss()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: hs.LossSchedule(MEAN, MEAN), "say when to change over, such as below=0.6"),
        (lambda: hs.LossSchedule(MEAN, MEAN, below=1.5), r"below=1\.5.*between 0 and 1"),
        (lambda: hs.LossSchedule(MEAN, MEAN, below=True), "below=True"),
        (lambda: hs.LossSchedule(MEAN, MEAN, steps=0), "steps=0"),
        (lambda: hs.LossSchedule(MEAN, MEAN, steps=3, window=0), "window=0"),
        (lambda: hs.LossSchedule(MEAN, MEAN, steps=3, rate=0.1), r"rate=0\.1.*give the optimizer"),
        (lambda: hs.LossSchedule(MEAN, MEAN, steps=3, decay=-1), "decay=-1"),
        (lambda: hs.LossSchedule(torch.nn.MSELoss, MEAN, steps=3), "first=.*a function of"),
        (lambda: hs.LossSchedule(MEAN, "mse", steps=3), "last='mse'"),
        (lambda: hs.LossSchedule(MEAN, MEAN, steps=3).step(), "no batch since the last step"),
    ],
)
def test_what_makes_no_sense_is_refused(make, words):
    with pytest.raises(hs.HeadstartError, match=words):
        make()


def test_losses_that_are_no_means_or_begin_below_zero_are_named():
    ones = torch.ones(3, requires_grad=True)
    with pytest.raises(hs.HeadstartError, match=r"shape \(3,\); give a loss with a mean"):
        hs.LossSchedule(MEAN, torch.nn.MSELoss(reduction="none"), steps=3)(ones, torch.zeros(3))
    losses = hs.LossSchedule(MEAN, hs.CorrelationLoss(), below=0.5)
    losses(ones, torch.ones(3))
    with pytest.raises(hs.HeadstartError, match=r"begins at -1.*use steps"):
        losses.step()


def test_a_state_of_another_schedule_is_refused():
    one, other = hs.LossSchedule(MEAN, MEAN, steps=3), hs.LossSchedule(MEAN, MEAN, steps=4)
    with pytest.raises(hs.HeadstartError, match="the state has steps=3, this schedule 4"):
        other.load_state_dict(one.state_dict())
