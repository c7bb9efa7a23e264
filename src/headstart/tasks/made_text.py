"""A text that is made, not written: it needs no file, and exercises whatever takes text."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from headstart.core.errors import check_count
from headstart.core.streams import Stream, integers, uniforms

_LETTERS = b"etaoinshrdlucmfwypvbgk"


@dataclass(frozen=True)
class MadeText:
    """`num_words` words of a made lexicon of `lexicon`, each followed by one of `choices` others, the first most often.

    The r-th choice of a word has a probability proportional to 1 / r. Words have two to seven letters. The text is the
    same for every seed.
    """

    num_words: int = 20_000
    lexicon: int = 100
    choices: int = 4

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("num_words", "lexicon", "choices"):
            check_count("MadeText", name, getattr(self, name))

    def text(self) -> bytes:
        """The text, its words between spaces."""
        return _made(self)


@lru_cache(maxsize=8)
def _made(text: MadeText) -> bytes:
    numbers = np.arange(text.lexicon)
    letters = integers(0, Stream.TASK, numbers, 8, len(_LETTERS))
    words = [bytes(_LETTERS[letter] for letter in row[: 2 + row[7] % 6]) for row in letters]
    follow = integers(0, Stream.LABELS, numbers, text.choices, text.lexicon)
    weights = 1.0 / np.arange(1, text.choices + 1)
    drawn = uniforms(0, Stream.NOISE, np.arange(text.num_words), 1)[:, 0]
    choice = np.searchsorted(np.cumsum(weights) / weights.sum(), drawn).tolist()
    word, said = 0, []
    after = follow.tolist()
    for pick in choice:
        said.append(words[word])
        word = after[word][pick]
    return b" ".join(said)
