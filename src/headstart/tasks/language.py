"""Language models: windows of text, and what they are asked about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.metric import Metric, class_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, uniforms
from headstart.data import open_dataset
from headstart.tasks.made_text import MadeText
from headstart.tasks.objectives import Causal, TextObjective, checked_shares, picked
from headstart.tasks.vocabularies import Characters, Vocabulary

# Another order begins this many ids further on.
_ORDER = 2**40
# An objective's own draws begin here; those before say which text, and where in it.
_FIRST_DRAW = 4


@dataclass(frozen=True)
class Language:
    """Windows of `length` symbols, at places that are uniform in the text, and an `objective` for each.

    `text` is a set of the data directory, such as "gutenberg" or one of your own (`headstart data get NAME --from
    FOLDER` reads its .txt files), or MadeText(), which needs no file; or several of these, of which a window takes one
    with the probabilities `shares`. Of every book of a set the last `validation` is held out: `test` windows of that
    are what runs are evaluated on, and no window of training reads a byte of it. A `vocabulary` is fitted to the
    training part. Where window number i of a seed lies does not depend on model, plan or objective. Another `order` has
    other windows for the same ids.

    Inputs int64[T] are symbols of the text and of the objective, and predictions [T, symbols] one score for each.
    """

    text: Any = "gutenberg"
    length: int = 32
    objective: TextObjective = Causal()
    vocabulary: Vocabulary = Characters()
    test: int = 256
    validation: float = 0.1
    shares: tuple[float, ...] = ()
    order: int = 0

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)

    def __post_init__(self) -> None:
        check_count("Language", "length", self.length, minimum=2)
        check_count("Language", "test", self.test)
        check_count("Language", "order", self.order, minimum=0, maximum=2**20)
        if isinstance(self.validation, bool) or not isinstance(self.validation, float) or not 0 < self.validation < 1:
            raise HeadstartError(f"Language(validation={self.validation!r}): give the share to hold out, as 0.1")
        texts = self.texts
        if not texts or not all(isinstance(each, str | MadeText) for each in texts):
            raise HeadstartError(f"Language(text={self.text!r}): give a set such as 'gutenberg', MadeText() or several")
        for name, kind, fix in (
            ("objective", TextObjective, "Causal() or Masked()"),
            ("vocabulary", Vocabulary, "Characters() or Bytes()"),
        ):
            value = getattr(self, name)
            if isinstance(value, type) or not isinstance(value, kind):
                raise HeadstartError(f"Language({name}={value!r}): give one such as {fix}")
        if self.shares or len(texts) > 1:
            object.__setattr__(self, "shares", checked_shares("Language", self.shares, len(texts)))
        self.objective.num_read(self.length)  # an objective that needs longer samples says so here

    @property
    def texts(self) -> tuple[Any, ...]:
        """The texts, also where there is one."""
        return tuple(self.text) if isinstance(self.text, tuple | list) else (self.text,)

    @property
    def num_test(self) -> int:
        """The windows that runs are evaluated on."""
        return self.test

    @property
    def population_size(self) -> None:
        """None: windows are drawn without end."""
        return None

    @property
    def num_symbols(self) -> int:
        """The symbols of the text and of the objective."""
        return self.vocabulary.size + self.objective.num_special(self.length)

    @property
    def signature(self) -> Signature:
        """T symbols to one score per symbol for each."""
        return Signature((self.length,), symbols=self.num_symbols, outputs=(self.length, self.num_symbols))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy: the share of the targets that count whose score is the largest."""
        return (class_accuracy(self.num_symbols),)

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """The training windows with these ids or, of the evaluation stream, windows of what is held out."""
        testing = stream is Stream.EVALUATION
        ids = np.asarray(ids, dtype=np.int64) + (0 if testing else _ORDER * self.order)
        read = max(self.length + 1, self.objective.num_read(self.length))  # as long for every objective that is usual
        where = uniforms(seed, stream, ids, 2)
        of = picked(where[:, 0], self.shares) if self.shares else np.zeros(len(ids), dtype=np.int64)
        windows = np.empty((len(ids), read), dtype=np.int64)
        for number, parts in enumerate(self._symbols()):
            rows, text = np.flatnonzero(of == number), parts[testing]
            places = len(text) - read + 1
            if places < 1:
                kind = f"held-out part (validation={self.validation})" if testing else "training part"
                raise HeadstartError(
                    f"Language(text={self.text!r}): its {kind} has {len(text)} symbols, and a window {read}; use a "
                    "longer text or a shorter length"
                )
            first = (where[rows, 1] * places).astype(np.int64)
            windows[rows] = text[first[:, None] + np.arange(read)]
        return self.objective.samples(
            windows,
            self.length,
            self.vocabulary.size,
            lambda num: uniforms(seed, stream, ids, num, first=_FIRST_DRAW),
        )

    def population(self, seed: int, ids: NDArray[np.int64] | None = None) -> Samples:
        """There is none to enumerate."""
        raise HeadstartError("Language: windows have no finite population; use Fixed(size=...) or Batch(...)")

    def _symbols(self) -> tuple[tuple[NDArray[np.int32], NDArray[np.int32]], ...]:
        vocabulary: Any = self.vocabulary  # a frozen part, which can be hashed
        marks = tuple(each if isinstance(each, MadeText) else _fingerprint(each) for each in self.texts)
        return _encoded(self.texts, marks, vocabulary, self.validation)


def _fingerprint(name: str) -> str:
    dataset = open_dataset(name)
    if "text" not in dataset.fingerprints:
        raise HeadstartError(f"Language(text={name!r}): this set is no text; `headstart data list` says more")
    return dataset.fingerprints["text"]


@lru_cache(maxsize=8)
def _encoded(
    texts: tuple[Any, ...], marks: tuple[Any, ...], vocabulary: Any, validation: float
) -> tuple[tuple[NDArray[np.int32], NDArray[np.int32]], ...]:
    """The symbols of every text, for training and held out; `marks` are of their contents."""
    cut = [_cut(text, validation) for text in texts]
    encode = vocabulary.fitted([train for trains, _ in cut for train in trains])

    def joined(parts: Sequence[bytes]) -> NDArray[np.int32]:
        return np.concatenate([encode(part) for part in parts])

    return tuple((joined(trains), joined(tests)) for trains, tests in cut)


def _cut(text: str | MadeText, validation: float) -> tuple[list[bytes], list[bytes]]:
    """The books of a text: their first parts, and their last."""
    if isinstance(text, MadeText):
        books = [text.text()]
    else:
        dataset = open_dataset(text)
        whole, starts = dataset["text"], dataset["starts"].tolist()
        books = [whole[a:b].tobytes() for a, b in pairwise(starts)]
    ends = [round((1 - validation) * len(book)) for book in books]
    return (
        [book[:end] for book, end in zip(books, ends, strict=True)],
        [book[end:] for book, end in zip(books, ends, strict=True)],
    )
