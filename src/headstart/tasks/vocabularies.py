"""How text becomes symbols: bytes, characters, or pairs of bytes that are merged (BPE).

A vocabulary is fitted to training text alone, and its size is stated beforehand, so that a signature needs no file.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count

# Turns a text into symbols, int32[symbols].
Encoder = Callable[[bytes], NDArray[np.int32]]


@runtime_checkable
class Vocabulary(Protocol):
    """A set of `size` symbols."""

    semantics: ClassVar[int]

    @property
    def size(self) -> int:
        """The number of symbols."""
        ...

    def fitted(self, texts: Sequence[bytes]) -> Encoder:
        """What encodes texts, made for these."""
        ...


@dataclass(frozen=True)
class Bytes:
    """Every byte is a symbol, 0 .. 255."""

    semantics: ClassVar[int] = 1
    size: ClassVar[int] = 256

    def fitted(self, texts: Sequence[bytes]) -> Encoder:
        """Nothing is fitted."""
        return lambda text: np.frombuffer(text, dtype=np.uint8).astype(np.int32)


@dataclass(frozen=True)
class Characters:
    """The `size` - 1 most frequent characters, the most frequent first, and as the last symbol any other.

    Text is read as UTF-8. Where there are fewer characters, the symbols left over do not occur.
    """

    size: int = 96

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("Characters", "size", self.size, minimum=2)

    def fitted(self, texts: Sequence[bytes]) -> Encoder:
        """Counts characters; of two as frequent the one with the smaller code comes first."""
        counts = np.zeros(0x110000, dtype=np.int64)
        for text in texts:
            counts += np.bincount(_codes(text), minlength=len(counts))
        ranked = np.argsort(-counts, kind="stable")[: self.size - 1]
        table = np.full(len(counts), self.size - 1, dtype=np.int32)
        table[ranked] = np.arange(len(ranked))

        def encoded(text: bytes) -> NDArray[np.int32]:
            return table[_codes(text)]

        return encoded


@dataclass(frozen=True)
class BPE:
    """`size` symbols that byte-pair encoding finds: all bytes, then the most frequent pairs of symbols, merged in turn.

    Trained and applied by the library `tokenizers`, which Hugging Face's transformers bring. Reference: Sennrich,
    Haddow and Birch, "Neural machine translation of rare words with subword units", 2016.
    """

    size: int = 512

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("BPE", "size", self.size, minimum=257)

    def fitted(self, texts: Sequence[bytes]) -> Encoder:
        """Trains on the texts; takes seconds per ten megabytes."""
        tokenizers = _tokenizers()
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=self.size,
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        lines = (line for text in texts for line in _decoded(text).splitlines(keepends=True))
        tokenizer.train_from_iterator(lines, trainer)

        def encoded(text: bytes) -> NDArray[np.int32]:
            found = tokenizer.encode_batch(_decoded(text).splitlines(keepends=True))
            return np.concatenate([np.asarray(line.ids, dtype=np.int32) for line in found])

        return encoded


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise HeadstartError(
            "BPE(...): tokenizers is not installed; `pip install tokenizers`, or use Characters() or Bytes()"
        ) from None
    return tokenizers


def _codes(text: bytes) -> NDArray[np.uint32]:
    """The codes of the characters of a text."""
    return np.frombuffer(_decoded(text).encode("utf-32-le", "replace"), dtype=np.uint32)


def _decoded(text: bytes) -> str:
    """The text; what is no UTF-8, such as half a character where a text was cut, is left out."""
    return text.decode("utf-8", "ignore")
