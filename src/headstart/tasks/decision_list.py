"""Sequences of different tokens, each labelled by the first token of a list of its own that is there."""

from dataclasses import dataclass
from functools import cached_property
from math import comb, perm
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_flag
from headstart.core.metric import Metric, class_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, words

_LARGEST_POPULATION = 2**24

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class DecisionList:
    """Of token a in a sequence s: y = pi(a_j), j the least with a_j in s, for its list L_a = (a_1, ..., a_m = a).

    `vocabulary` is L, `length` n, `lists` has L_a for every token 0 .. L - 1, each without repeats and ending on a, and
    `mapping` is the permutation pi. s is uniform on the sequences of n different tokens, so that a sequence has a label
    for every position, and a_j is the label-determining token of a. With ordered=False the tokens of a sequence stand
    in increasing order: to a model that does not see positions the same law, with n! times fewer points.

    Reference: Karp, Awasthi and Kale, Provable Gradient-Descent-Based Learning of Decision Lists by Transformers, 2023,
    Sections 4.2.2 and 4.2.3 of the first author's thesis (Assumption 4.1: no duplicate tokens).
    """

    vocabulary: int
    length: int
    lists: tuple[tuple[int, ...], ...]
    mapping: tuple[int, ...]
    ordered: bool = True

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)
    num_test: ClassVar[int] = 512

    @classmethod
    def cyclic(
        cls,
        vocabulary: int,
        length: int,
        offsets: tuple[int, ...] = (10, 20, 30, 0),
        shift: int = 20,
        ordered: bool = True,
    ) -> "DecisionList":
        """L_a = (a + offset mod L for each offset) and pi(a) = a + shift mod L, as in Fig. 4.1; the last offset is 0.

        There f(i) = i mod (L + 1), which is a permutation of the L + 1 tokens 0 .. L and not of 1 .. L.
        """
        check_count("DecisionList", "vocabulary", vocabulary)
        lists = tuple(tuple((a + offset) % vocabulary for offset in offsets) for a in range(vocabulary))
        return cls(vocabulary, length, lists, tuple((a + shift) % vocabulary for a in range(vocabulary)), ordered)

    def __post_init__(self) -> None:
        check_count("DecisionList", "vocabulary", self.vocabulary, minimum=2)
        check_count("DecisionList", "length", self.length, maximum=self.vocabulary)
        check_flag("DecisionList", "ordered", self.ordered)
        object.__setattr__(self, "lists", tuple(tuple(tokens) for tokens in self.lists))
        object.__setattr__(self, "mapping", tuple(self.mapping))
        everything = set(range(self.vocabulary))
        if len(self.mapping) != self.vocabulary or set(self.mapping) != everything:
            raise HeadstartError(
                f"DecisionList(mapping={self.mapping!r}): give every token 0 .. {self.vocabulary - 1} once"
            )
        if len(self.lists) != self.vocabulary:
            raise HeadstartError(f"DecisionList(lists=...): there are {len(self.lists)}; give {self.vocabulary}")
        for token, its in enumerate(self.lists):
            if not its or its[-1] != token or len(set(its)) != len(its) or not set(its) <= everything:
                raise HeadstartError(
                    f"DecisionList(lists=...): that of token {token} is {its}; give different tokens of "
                    f"0 .. {self.vocabulary - 1} that end on {token}"
                )

    @property
    def longest(self) -> int:
        """M, the length of the longest list, its own token included."""
        return max(map(len, self.lists))

    @property
    def signature(self) -> Signature:
        """n symbols to one score per label and position."""
        return Signature((self.length,), symbols=self.vocabulary, outputs=(self.length, self.vocabulary))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy: the share of positions whose largest score is that of y."""
        return (class_accuracy(self.vocabulary),)

    @property
    def population_size(self) -> int | None:
        """L! / (L - n)! sequences, or L over n sets where they are not ordered, up to 2^24."""
        size = (perm if self.ordered else comb)(self.vocabulary, self.length)
        return size if size <= _LARGEST_POPULATION else None

    @cached_property
    def _padded(self) -> Ints:
        """The lists as one table [L, M]; shorter ones end on their own token several times."""
        return np.array([its + its[-1:] * (self.longest - len(its)) for its in self.lists], dtype=np.int64)

    def determining(self, x: Ints) -> Ints:
        """The label-determining token of every position of sequences x [..., n], of the same shape."""
        rows = x.reshape(-1, x.shape[-1])
        there = np.zeros((len(rows), self.vocabulary), dtype=bool)
        np.put_along_axis(there, rows, True, axis=1)
        theirs = self._padded[rows]  # [rows, n, M]
        first = there[np.arange(len(rows))[:, None, None], theirs].argmax(axis=2)
        return np.take_along_axis(theirs, first[:, :, None], axis=2)[:, :, 0].reshape(x.shape)

    def label(self, x: Ints) -> Ints:
        """The labels of every position of sequences x [..., n], of the same shape."""
        return np.array(self.mapping, dtype=np.int64)[self.determining(x)]

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """Uniform sequences, one per sample id, dealt by Fisher and Yates: word j picks one of L - j tokens."""
        left = np.arange(self.vocabulary, self.vocabulary - self.length, -1, dtype=np.uint64)
        picks = (words(seed, stream, ids, self.length).astype(np.uint64) * left) >> np.uint64(32)
        dealt = self._dealt(picks.astype(np.int64))
        return self._labelled(dealt if self.ordered else np.sort(dealt, axis=1))

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """All sequences, or all sets in lexicographic order."""
        if self.population_size is None:
            raise HeadstartError(
                f"DecisionList({self.vocabulary}, {self.length}): more than 2^24 sequences; "
                "use Fixed(size=...) or Batch(...)"
            )
        index = np.arange(self.population_size) if ids is None else np.asarray(ids, dtype=np.int64)
        return self._labelled(self._sequences(index) if self.ordered else self._sets(index))

    def _labelled(self, x: Ints) -> Samples:
        return Samples(x, self.label(x))

    def _dealt(self, picks: Ints) -> Ints:
        """The tokens that picks [k, n] deal, pick j below L - j; one to one."""
        deck = np.tile(np.arange(self.vocabulary), (len(picks), 1))
        rows = np.arange(len(picks))
        for j in range(self.length):
            place = j + picks[:, j]
            chosen = deck[rows, place]
            deck[rows, place] = deck[:, j]
            deck[:, j] = chosen
        return np.ascontiguousarray(deck[:, : self.length])

    def _sequences(self, index: Ints) -> Ints:
        """Number i written with digits below L, L - 1, ..., the first the most significant, deals sequence i."""
        picks = np.empty((len(index), self.length), dtype=np.int64)
        for j in reversed(range(self.length)):
            index, picks[:, j] = np.divmod(index, self.vocabulary - j)
        return self._dealt(picks)

    def _sets(self, index: Ints) -> Ints:
        """Set number i of n tokens in lexicographic order, its tokens increasing."""
        out = np.empty((len(index), self.length), dtype=np.int64)
        index, filled = index.copy(), np.zeros(len(index), dtype=np.int64)
        for token in range(self.vocabulary):
            rest = self.vocabulary - token - 1
            with_it = np.array(
                [comb(rest, self.length - j - 1) if j < self.length else 0 for j in range(self.length + 1)]
            )
            taken = index < with_it[filled]
            index -= np.where(taken, 0, with_it[filled])
            out[np.flatnonzero(taken), filled[taken]] = token
            filled += taken
        return out
