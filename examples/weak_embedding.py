"""A small language model's embedding in a larger one: is the larger one cheaper to train, the small one counted?

python examples/weak_embedding.py           # two minutes or so
python examples/weak_embedding.py --quick   # seconds: only that it runs

The text ships with Python (`pydoc_data.topics`), as words; the last tenth is held out. A weak model of width 12 is
trained first, and its table of words becomes the A of a model of width 64, whose table is A B. Four arms: from
scratch; with the weak table; with A B as one table from the start, whose rank may grow; and with the rows of A
shuffled, which has the same values and rank and knows nothing. Each arm has the best learning rate of as many tries,
made on seeds of their own; so has the weak model. What counts is the compute to a loss: the FLOPs of all training
steps, the weak model's included, and again with every try included.

It does not pay here: 1.29 [1.20, 1.46] of the compute from scratch. A language model learns from its first step, so
there is no delay to take away.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pydoc_data.topics import topics

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import headstart as hs

WEAK_WIDTH, WIDTH, WINDOW, BATCH, VOCABULARY = 12, 64, 32, 16, 500
WEAK_RATES, RATES = (5e-3, 1e-2, 3e-2, 1e-1), (3e-3, 6e-3, 1.2e-2, 2.4e-2)
# Each arm with how it transfers, or None.
ARMS = {"from scratch": None, "weak table": {}, "merged at once": {"merge": True}, "rows shuffled": {"shuffled": True}}
SCRATCH, WEAK = "from scratch", "weak table"


@dataclass(frozen=True)
class Sizes:
    """How much is trained: steps of the large and of the weak model, and the seeds for choosing and for comparing."""

    steps: int = 160
    weak_steps: int = 200
    every: int = 10
    choosing: tuple[int, ...] = (100, 101)
    seeds: tuple[int, ...] = tuple(range(6))


class Model(nn.Module):
    """One causal attention layer and one hidden layer between a table of words and a head of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(WINDOW, width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.before, self.between, self.after = (nn.LayerNorm(width) for _ in range(3))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Scores of the next word at every place: float[n, window, vocabulary]."""
        x = self.words(words) + self.position(torch.arange(words.shape[1]))
        y = self.before(x)
        x = x + nn.functional.scaled_dot_product_attention(self.query(y), self.key(y), self.value(y), is_causal=True)
        return self.head(self.after(x + self.down(torch.relu(self.up(self.between(x))))))


Batch = tuple[torch.Tensor, torch.Tensor]
Curve = NDArray[np.float64]  # the held-out loss at every record


class Text:
    """The text as numbers of its most frequent words, all others being word 0."""

    def __init__(self) -> None:
        words = re.findall(r"\w+|[^\w\s]|\n", "".join(topics.values()))
        number = {word: i for i, (word, _) in enumerate(Counter(words).most_common(VOCABULARY - 1), start=1)}
        codes = torch.tensor([number.get(word, 0) for word in words])
        self.train, test = codes[: -len(codes) // 10], codes[-len(codes) // 10 :]
        self.held_out = windows(test, torch.linspace(0, len(test) - WINDOW - 1, 96).long())

    def batch(self, generator: torch.Generator) -> Batch:
        """Windows at random places."""
        return windows(self.train, torch.randint(len(self.train) - WINDOW, (BATCH,), generator=generator))


def windows(codes: torch.Tensor, starts: torch.Tensor) -> Batch:
    """(words, the words that follow them), int64[n, window] each."""
    rows = codes[starts[:, None] + torch.arange(WINDOW + 1)]
    return rows[:, :-1], rows[:, 1:]


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    """The cross-entropy per word, in nats."""
    return nn.functional.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def train(model: nn.Module, text: Text, lr: float, seed: int, steps: int, every: int) -> Curve:
    """Train a model in place; its held-out loss before, and after every `every` steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for step in range(steps + 1):
        if step % every == 0:
            with torch.no_grad():
                losses.append(loss_of(model, text.held_out).item())
        if step < steps:
            optimizer.zero_grad()
            loss_of(model, text.batch(generator)).backward()
            optimizer.step()
    return np.array(losses)


def flops_per_step(model: nn.Module, text: Text) -> int:
    """The FLOPs of one training step, forwards and backwards, as PyTorch counts them."""
    with FlopCounterMode(display=False) as counter:
        loss_of(model, text.batch(torch.Generator())).backward()
    return counter.get_total_flops()


def fresh(width: int, seed: int) -> Model:
    """A model with the initial weights of a seed."""
    torch.manual_seed(seed)
    return Model(width)


def large(arm: str, weak: Model, seed: int) -> Model:
    """The large model of an arm; this is all that a transfer takes."""
    model = fresh(WIDTH, seed)
    if (how := ARMS[arm]) is not None:
        hs.transfer_embedding(weak, model, seed=seed, **how)
    return model


def steps_to(target: float, curve: Curve, sizes: Sizes) -> int:
    """The first recorded step with a held-out loss of at most `target`; all of them if there is none."""
    reached = np.flatnonzero(curve <= target)
    return int(reached[0]) * sizes.every if len(reached) else sizes.steps


def best(rates: tuple[float, ...], score: Callable[[float], float]) -> float:
    """The rate with the lowest score."""
    return min(rates, key=score)


def compare(text: Text, sizes: Sizes) -> tuple[float, dict[str, float], dict[str, list[int]], dict[str, int]]:
    """(target loss, rate of each arm, steps to the target by arm and seed, FLOPs of a step by kind of model)."""

    def weak_model(lr: float, seed: int) -> tuple[Model, float]:
        model = fresh(WEAK_WIDTH, seed)
        return model, train(model, text, lr, seed, sizes.weak_steps, sizes.weak_steps)[-1]

    weak_rate = best(WEAK_RATES, lambda lr: float(np.mean([weak_model(lr, seed)[1] for seed in sizes.choosing])))
    weak = {seed: weak_model(weak_rate, seed)[0] for seed in sizes.choosing + sizes.seeds}

    def curve(arm: str, lr: float, seed: int) -> Curve:
        return train(large(arm, weak[seed], seed), text, lr, seed, sizes.steps, sizes.every)

    tried = {arm: {lr: [curve(arm, lr, seed) for seed in sizes.choosing] for lr in RATES} for arm in ARMS}
    # What the untouched model has after three quarters of the steps, at the rate that is best there.
    three_quarters = len(tried[SCRATCH][RATES[0]][0]) * 3 // 4
    target = min(float(np.mean(curves, axis=0)[three_quarters]) for curves in tried[SCRATCH].values())
    rates = {
        arm: best(RATES, lambda lr, arm=arm: float(np.mean([steps_to(target, c, sizes) for c in tried[arm][lr]])))
        for arm in ARMS
    }
    steps = {arm: [steps_to(target, curve(arm, rates[arm], seed), sizes) for seed in sizes.seeds] for arm in ARMS}
    some = weak[sizes.seeds[0]]
    flops = {"weak model": flops_per_step(some, text)} | {
        arm: flops_per_step(large(arm, some, 0), text) for arm in ARMS
    }
    return target, rates | {"weak model": weak_rate}, steps, flops


def main(sizes: Sizes | None = None) -> dict[str, hs.Estimate]:
    """Compare the arms and print what comes out; the ratios of compute to that from scratch."""
    sizes = Sizes() if sizes is None else sizes
    target, rates, steps, flops = compare(Text(), sizes)
    weak = sizes.weak_steps * flops["weak model"]
    tries = len(sizes.choosing) * len(RATES)
    print(f"target: {target:.2f} nats per word; weak model: {weak:.2e} FLOPs at rate {rates['weak model']:g}")
    ratios = {}
    for arm in ARMS:
        extra = 0 if arm == SCRATCH else weak
        own = np.array(steps[arm]) * flops[arm] + extra
        trying = tries * (sizes.steps * flops[arm] + extra)
        scratch = np.array(steps[SCRATCH]) * flops[SCRATCH]
        scratch_trying = tries * sizes.steps * flops[SCRATCH]
        for name, one, other in (("", own, scratch), (", tries counted", own + trying, scratch + scratch_trying)):
            ratios[arm + name] = hs.bootstrap(
                lambda rows, one=one, other=other: float(one[rows].mean() / other[rows].mean()), len(sizes.seeds)
            )
        print(f"{arm:14} rate {rates[arm]:<6g} {np.mean(steps[arm]):5.0f} steps {own.mean():.2e} FLOPs")
    for name, ratio in ratios.items():
        if not name.startswith(SCRATCH):
            print(f"{name}: {ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] of the compute from scratch")
    print(f"verdict: {verdict(ratios[WEAK])}")
    return ratios


def verdict(ratio: hs.Estimate) -> str:
    """Yes if the whole interval is below 1, no if it is above, else undecided."""
    if ratio.high < 1:
        return "yes, the weak table saves compute"
    return "no, it costs more" if ratio.low > 1 else "undecided: no saving that these seeds can show"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="does a weak model's embedding save compute in a language model?")
    parser.add_argument("--quick", action="store_true", help="a few steps, only to see that it runs")
    torch.set_num_threads(1)  # the layers are small
    main(Sizes(8, 10, 2, (100,), (0, 1)) if parser.parse_args().quick else Sizes())
