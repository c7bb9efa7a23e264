"""Gradient descent of one attention layer on decision lists, as parts of studies: one step, W alone, W and V.

Reference: as `headstart.theory.decision_lists`, Fig. 4.1 and Theorems 4.3 and 4.4.
"""

from dataclasses import dataclass
from itertools import product
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_flag, check_nonnegative, check_positive
from headstart.core.streams import Stream, check_seed, normals, uniforms
from headstart.tasks import DecisionList
from headstart.theory.decision_lists import Floats, every_set, first_value_gradient, gradients

_CHUNK = 4096


@dataclass(frozen=True)
class ValueStep:
    """V after one step of gradient descent from W = 0, V ~ N(0, std^2), on so many sequences, or on the population.

    At W = 0 attention is uniform, so that a sequence enters by the sets of its tokens and labels alone.
    `num_sequences` None is the population, in closed form to first order in V_0. `keep` stores V.
    """

    task: DecisionList
    num_sequences: int | None
    rate: float
    std: float = 1e-4
    seed: int = 0
    keep: bool = False

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.num_sequences is not None:
            check_count("ValueStep", "num_sequences", self.num_sequences)
        check_positive("ValueStep", "rate", self.rate)
        check_nonnegative("ValueStep", "std", self.std)
        check_seed(self.seed)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core."""
        return 0.05 + 1.5e-5 * (self.num_sequences or 0) * self.task.vocabulary / 200

    def start(self) -> Floats:
        """V_0, [L, L]."""
        size = self.task.vocabulary
        drawn = normals(self.seed, Stream.INIT, [1], size * size)[0].reshape(size, size)
        return self.std * drawn.astype(np.float64)

    def gradient(self) -> Floats:
        """dV at W = 0, [L, L]."""
        value, size, n = self.start(), self.task.vocabulary, self.task.length
        if self.num_sequences is None:
            return first_value_gradient(self.task, value)[0]
        total = np.zeros((size, size))
        for begin in range(0, self.num_sequences, _CHUNK):
            ids = np.arange(begin, min(begin + _CHUNK, self.num_sequences))
            data = self.task.sample(self.seed, ids)
            rows = np.arange(len(ids))[:, None]
            tokens, labels = np.zeros((len(ids), size)), np.zeros((len(ids), size))
            tokens[rows, data.x] = 1
            np.add.at(labels, (rows, data.y), 1)
            softmax = np.exp(tokens @ value.T / n)
            softmax /= softmax.sum(axis=1, keepdims=True)
            total += (softmax - labels / n).T @ tokens
        return total / (n * self.num_sequences)

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """found: share of columns whose largest entry is that of P. on_p, next: mean entry of P and largest other.

        `worst` is the least over columns of the entry of P less the largest other, and cosine that of V with P, means
        of columns taken away. With `keep`, value [L, L].
        """
        value, size = self.start() - self.rate * self.gradient(), self.task.vocabulary
        mapping, columns = np.array(self.task.mapping), np.arange(size)
        on_p = value[mapping, columns]
        others = value.copy()
        others[mapping, columns] = -np.inf
        centred = value - value.mean(axis=0)
        permuted = np.eye(size)[:, mapping] - 1 / size
        cosine = (centred * permuted).sum() / np.sqrt((centred**2).sum() * (permuted**2).sum())
        return {
            "found": np.array((on_p > others.max(axis=0)).mean()),
            "on_p": np.array(on_p.mean()),
            "next": np.array(others.max()),
            "worst": np.array((on_p - others.max(axis=0)).min()),
            "cosine": np.array(cosine),
            **({"value": value.astype(np.float32)} if self.keep else {}),
        }


@dataclass(frozen=True)
class AttentionDescent:
    """Gradient descent on the population in W alone, from W = 0 with V = c P, in m + 1 numbers, exactly.

    V = c P and uniform sequences make all tokens outside of L_a alike, so a column of W has one number for each of the
    m tokens of L_a and one for all others, the same for all lists of length m. What a sequence has of L_a is one of
    2^(m - 1) patterns, with a hypergeometric probability. Any L and n cost the same.
    """

    vocabulary: int
    length: int
    list_length: int
    scale: float
    rate: float
    steps: int

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("AttentionDescent", "list_length", self.list_length, maximum=12)
        check_count("AttentionDescent", "vocabulary", self.vocabulary, minimum=self.list_length + 1)
        check_count("AttentionDescent", "length", self.length, minimum=2, maximum=self.vocabulary)
        check_positive("AttentionDescent", "scale", self.scale)
        check_positive("AttentionDescent", "rate", self.rate)
        check_count("AttentionDescent", "steps", self.steps)

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core, where it takes all its steps."""
        return 0.01 + 6e-5 * self.steps

    def patterns(self) -> tuple[Floats, Floats]:
        """How many of each kind of token a sequence with a has, [patterns, m + 1], and how likely that is."""
        m, found, chances = self.list_length, [], []
        for there in product((1, 0), repeat=m - 1):
            others = self.length - 1 - sum(there)
            if 0 <= others <= self.vocabulary - m:
                found.append((*there, 1, others))
                chances.append(comb(self.vocabulary - m, others) / comb(self.vocabulary - 1, self.length - 1))
        return np.array(found, dtype=np.float64), np.array(chances)

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """first: the step from which all sequences are right, -1 for none, and where it ends.

        Recorded, at step 0 and then at steps that grow by a factor of about 1.1: step, loss, margin and gradient [t],
        and weights [t, m + 1], those of L_a in its order and that of all others. The gradient is the norm of that of
        all of W. The margin is the least over patterns of W for the
        label-determining token less the largest other there is.
        """
        counts, chances = self.patterns()
        right = counts[:, : self.list_length].argmax(axis=1)
        rows, w, found = np.arange(len(counts)), np.zeros(self.list_length + 1), -1
        each = np.append(np.ones(self.list_length), self.vocabulary - self.list_length)  # tokens of a kind
        record: list[tuple[int, Floats, float, float, float]] = []
        due = 0
        for step in range(self.steps + 1):
            seen = np.where(counts > 0, w, -np.inf)
            others = seen.copy()
            others[rows, right] = -np.inf
            margin = float((w[right] - others.max(axis=1)).min())
            loss, slope = self._slopes(seen, counts, chances, right)
            done = margin > 0
            if step >= due or done or step == self.steps:
                # L columns, in each of which a kind has so many entries of slope / (L each).
                norm = float(np.sqrt((slope**2 / each).sum() / self.vocabulary))
                record.append((step, w.copy(), loss, margin, norm))
                due = max(step + 1, int(1.1 * step))
            if done:
                found = step
                break
            w = w - self.rate * slope / (self.vocabulary * each)
        steps, weights, losses, margins, norms = zip(*record, strict=True)
        return {
            "first": np.array(found),
            "step": np.array(steps),
            "weights": np.array(weights),
            "loss": np.array(losses),
            "margin": np.array(margins),
            "gradient": np.array(norms),
        }

    def _slopes(self, seen: Floats, counts: Floats, chances: Floats, right: NDArray[np.intp]) -> tuple[float, Floats]:
        """The loss of a position, and its slope in the number of each kind."""
        rows = np.arange(len(counts))
        p = np.exp(seen - seen.max(axis=1, keepdims=True))
        p /= (counts * p).sum(axis=1, keepdims=True)
        top = self.scale * p.max(axis=1, keepdims=True)
        softmax = np.exp(self.scale * p - top)
        total = (counts * softmax).sum(axis=1) + (self.vocabulary - self.length) * np.exp(-top[:, 0])
        softmax /= total[:, None]
        loss = np.log(total) + top[:, 0] - self.scale * p[rows, right]
        slope = self.scale * softmax
        slope[rows, right] -= self.scale
        slope = counts * p * (slope - (counts * p * slope).sum(axis=1, keepdims=True))
        return float(chances @ loss), chances @ slope


@dataclass(frozen=True)
class ListDescent:
    """Gradient descent on the exact population in W and V, every set of a small vocabulary once, in float64.

    W_0 = 0. With a `scale` c, V_0 = c P + `spread` times uniforms on [-1, 1], as Theorem 4.4 has it; without, V_0 is
    `spread` times normals. It ends where all positions of all sets have a strict margin; learn_value=False keeps V.
    """

    task: DecisionList
    rate: float
    steps: int
    scale: float = 0.0
    spread: float = 1e-4
    learn_value: bool = True
    seed: int = 0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_positive("ListDescent", "rate", self.rate)
        check_count("ListDescent", "steps", self.steps)
        check_nonnegative("ListDescent", "scale", self.scale)
        check_nonnegative("ListDescent", "spread", self.spread)
        check_flag("ListDescent", "learn_value", self.learn_value)
        check_seed(self.seed)
        if comb(self.task.vocabulary, self.task.length) > 2**16:
            raise HeadstartError(f"ListDescent(task={self.task.vocabulary} over {self.task.length}): too many sets")

    @property
    def seconds(self) -> float:
        """About how long `compute` takes on one core, where it takes all its steps."""
        t = self.task
        return 0.01 + self.steps * (1e-4 + 4e-8 * comb(t.vocabulary, t.length) * t.length * t.vocabulary)

    def start(self) -> Floats:
        """V_0, [L, L]."""
        size = self.task.vocabulary
        if not self.scale:
            drawn = normals(self.seed, Stream.INIT, [1], size * size)[0].astype(np.float64)
            return self.spread * drawn.reshape(size, size)
        value = self.spread * (2 * uniforms(self.seed, Stream.INIT, [1], size * size)[0] - 1).reshape(size, size)
        value[np.array(self.task.mapping), np.arange(size)] += self.scale
        return value

    def compute(self) -> dict[str, NDArray[np.generic]]:
        """first: the step from which all is right, -1 for none; accuracy and loss [steps]; drift, of V from V_0.

        drift is the largest change of an entry of V over rate x steps taken, which Lemma 4.1 bounds by 1. `last` is the
        accuracy at the end, ties wrong, and `rises` the number of steps that raised the loss.
        """
        sets, value = every_set(self.task), self.start()
        begin, attention = value.copy(), np.zeros_like(value)
        losses, accuracies, drift = [], [], 0.0
        for step in range(self.steps + 1):
            found = gradients(sets, attention, value)
            losses.append(found.loss)
            accuracies.append(float((found.margin > 0).mean()))
            if accuracies[-1] == 1 or step == self.steps or not np.isfinite(found.loss):
                break
            attention = attention - self.rate * found.attention
            if self.learn_value:
                value = value - self.rate * found.value
                drift = max(drift, float(np.abs(value - begin).max()) / (self.rate * (step + 1)))
        return {
            "first": np.array(len(losses) - 1 if accuracies[-1] == 1 else -1),
            "accuracy": np.array(accuracies),
            "loss": np.array(losses),
            "drift": np.array(drift),
            "last": np.array(accuracies[-1]),
            "rises": np.array((np.diff(losses) > 0).sum()),
        }
