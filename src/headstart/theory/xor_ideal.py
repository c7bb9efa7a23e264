"""The embedding of Theorem 3.2 exactly as the theorem assumes it, drawn many times, with the events of its proof.

Reference: Let Me Grok For You, Section 3.3 and Appendix A.1.2.
"""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_flag, check_nonnegative, check_positive
from headstart.core.streams import Stream, check_seed, uniforms
from headstart.theory.xor_events import EVENTS, Draw
from headstart.theory.xor_statements import cluster_mean_ratio
from headstart.theory.xor_transfer import CORNERS, FEATURES, Rows, Target, descend, initial_target


@dataclass(frozen=True)
class IdealStep:
    """The setting of Theorem 3.2 with an embedding that is exactly as assumed, drawn `num_draws` times.

    |delta_l,i| = ratio for every l and i, which is r_W; None takes 2 eps / sqrt n, what cluster means have. The signs
    of (delta_1,i, delta_2,i, delta_3,i) are the four of an orthogonal table, each for a quarter of the coordinates, so
    the noise of z is a sum of four binomials: exact in law, without a row of p numbers. U does not depend on the
    samples, as the proof assumes. One draw is a training set, a target and `num_test` test points.
    """

    samples: int = 400
    dim: int = 80_000
    noise: float = 0.05
    ratio: float | None = None
    width: int = 2048
    init: float = 0.4
    rate: float = 2.0
    steps: int = 1
    features: tuple[tuple[int, int], ...] = FEATURES
    train_readout: bool = False
    num_test: int = 2000
    num_draws: int = 64
    seed: int = 0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("width", "steps", "num_test", "num_draws"):
            check_count("IdealStep", name, getattr(self, name))
        check_count("IdealStep", "samples", self.samples, minimum=2)
        check_count("IdealStep", "dim", self.dim, minimum=6)
        check_nonnegative("IdealStep", "noise", self.noise)
        check_positive("IdealStep", "init", self.init)
        check_positive("IdealStep", "rate", self.rate)
        check_flag("IdealStep", "train_readout", self.train_readout)
        check_seed(self.seed)
        if self.ratio is not None:
            check_nonnegative("IdealStep", "ratio", self.ratio)
        features = tuple(tuple(feature) for feature in self.features)
        if not 1 <= len(features) <= 3 or any(feature not in CORNERS for feature in features):
            raise HeadstartError(f"IdealStep(features={self.features!r}): give one to three corners such as (-1, 1)")
        object.__setattr__(self, "features", features)

    @property
    def off_signal(self) -> float:
        """|delta_l,i|."""
        return cluster_mean_ratio(self.noise, self.samples) if self.ratio is None else self.ratio

    @property
    def complement(self) -> float:
        """|delta|_F."""
        return self.off_signal * sqrt(len(self.features) * (self.dim - 2))

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        rows = self.num_draws * (self.samples + self.num_test)
        return 0.1 + rows * (2e-5 + 3e-8 * self.width * self.steps)

    def rows(self, draw: int, num: int, stream: Stream) -> Rows:
        """`num` samples: training rows from the data stream, test rows from that of evaluations."""
        from scipy.stats import binom

        ids = (draw << 32) + np.arange(num, dtype=np.int64)
        drawn = uniforms(self.seed, stream, ids, 6)
        corner = np.where(drawn[:, :2] < 0.5, -1.0, 1.0)
        table = np.array([(1, 1, 1), (1, -1, 1), (1, 1, -1), (1, -1, -1)])[:, : len(self.features)]
        counts = np.array([len(range(part, self.dim - 2, 4)) for part in range(4)])
        sums = 2 * binom.ppf(drawn[:, 2:], counts, 0.5) - counts  # of the signs in each quarter, [num, 4]
        noise = self.noise * self.off_signal * (sums @ table)
        return Rows(corner @ np.array(self.features, dtype=np.float64).T + noise, corner)

    def start(self, draw: int) -> Target:
        """The target of a draw before training."""
        return initial_target(self.width, len(self.features), self.init, self.seed, draw)

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """train_error and test_error [num_draws, steps + 1]; `EVENTS` by name, [num_draws]: the share that holds."""
        errors, seen = [], {name: np.zeros(self.num_draws) for name in EVENTS}
        for draw in range(self.num_draws):
            train = self.rows(draw, self.samples, Stream.DATA)
            test = self.rows(draw, self.num_test, Stream.EVALUATION)
            start = self.start(draw)
            drawn = Draw(train, test, start, np.array(self.features, dtype=np.float64), self.dim, self.noise)
            for name, event in EVENTS.items():
                seen[name][draw] = event.share(drawn)
            errors.append(descend(start, train, test, self.rate, self.steps, self.train_readout)[1])
        return {"train_error": np.array(errors)[..., 0], "test_error": np.array(errors)[..., 1], **seen}
