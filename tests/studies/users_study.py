"""Does a user's own task, in a file outside the package, work?"""

from dataclasses import dataclass, replace

import headstart as hs


@dataclass(frozen=True)
class Majority:
    """A task that no kernel knows, so that processes train it."""

    dim: int

    semantics = 1
    losses = ("mse",)
    num_test = 64
    metrics = (hs.sign_accuracy(),)
    population_size = None

    @property
    def signature(self):
        return hs.Signature((self.dim,))

    def sample(self, seed, ids, stream=hs.Stream.DATA):
        inner = hs.Parity(self.dim, 1).sample(seed, ids, stream)
        return hs.Samples(inner.x, (2 * (inner.x.sum(1) > 0) - 1).astype("float32"))

    def population(self, seed, ids=None):
        raise NotImplementedError


@dataclass(frozen=True)
class Knobs(hs.Knobs):
    steps: int = 20


def arms(knobs):
    budget = hs.Budget(knobs.steps, 5)
    run = hs.Run(Majority(5), hs.MLP(4), hs.Online(), hs.MSE(), hs.SGD(0.1), hs.Batch(8), budget=budget)
    return [
        hs.Arm("small", "16", replace(run, plan=hs.Fixed(16)), hs.rates(0.1, 0.2), hs.warm()),
        hs.Arm("large", "fresh", run, hs.rates(0.1, 0.2)),
    ]


def claims(knobs):
    return [hs.Claim("final", "small is better", "-", hs.above(1), hs.FinalRatio("small", "large"))]


def figure(results, picture):
    ax = picture.subplots()
    for arm in results.arms:
        hs.draw_curve(ax, results, arm)


SHORT = Knobs(num_seeds=2, num_selection_seeds=1)
STUDY = hs.Study(
    name="users_study",
    title="A user's study",
    paper="none",
    figures="none",
    presets={"smoke": SHORT, "laptop": SHORT},
    minutes={"smoke": 0, "laptop": 0},
    arms=arms,
    claims=claims,
    figure=figure,
)
