"""Which frequencies a table of symbols is made of."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count, check_flag
from headstart.core.state import Arrays
from headstart.measures.on_the_way import Recorded, View, When
from headstart.models.embedding import MAP, TABLE


def spectrum(table: NDArray[np.floating]) -> NDArray[np.float64]:
    """The share of each frequency 1 .. p // 2 in a table [p, dim] of vectors of the residues 0 .. p - 1.

    sum_d |sum_s T_sd exp(-2 pi i k s / p)|^2 over frequencies k and -k, divided by that of all; the mean vector,
    frequency 0, is left out. All 0 for a table whose vectors are the same.
    """
    waves = np.asarray(table, dtype=np.float64)
    if waves.ndim != 2 or not waves.size:
        raise HeadstartError(f"spectrum(table of shape {waves.shape}): give [symbols, dim]")
    # Any constant may be taken off; with the first vector what is the same becomes exactly 0.
    power = np.square(np.abs(np.fft.rfft(waves - waves[0], axis=0))).sum(axis=1)[1:]
    if len(table) % 2 == 0:
        power[-1] /= 2  # the frequency p / 2 is its own opposite
    total = power.sum()
    return np.asarray(power / total if total > 0 else power)


def concentration(shares: NDArray[np.float64], top: int) -> NDArray[np.float64]:
    """The share of the `top` strongest frequencies, of shares [..., frequencies]."""
    check_count("concentration", "top", top)
    return np.asarray(np.sort(shares, axis=-1)[..., -top:].sum(axis=-1))


@dataclass(frozen=True)
class FourierSpectrum:
    """The spectrum of the embedding table: "power", the share of frequencies 1 .. p // 2, and "concentration".

    The concentration is the share of the `top` strongest. By default it is that of a table of dimension 4 that holds a
    cosine and a sine of each of two frequencies. A table of low rank, A B, is looked at in A, which is what a transfer
    takes; with `product` in A B, the vectors that the next layer sees. Reference: Nanda et al., Progress measures for
    grokking via mechanistic interpretability, 2023.
    """

    top: int = 2
    product: bool = False
    at: When = Recorded()

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("FourierSpectrum", "top", self.top)
        check_flag("FourierSpectrum", "product", self.product)

    def __call__(self, view: View) -> dict[str, NDArray[np.float64]]:
        """The spectrum now."""
        shares = spectrum(self.table(view))
        return {"power": shares, "concentration": concentration(shares, self.top)}

    def table(self, view: View) -> NDArray[np.floating]:
        """The table that is looked at, [symbols, dim or rank]."""
        if view.task.signature.symbols is None or TABLE not in view.weights:
            raise HeadstartError(
                f"FourierSpectrum: {view.model} has no table of symbols {TABLE!r}; give it an embedding, or take "
                f"`spectrum(table)` of your own"
            )
        return vectors(view.weights) if self.product else view.weights[TABLE]


def vectors(weights: Arrays) -> NDArray[np.floating]:
    """The vectors of all symbols, [symbols, dim]: the table, or A B where it is of low rank."""
    return weights[TABLE] @ weights[MAP].T if MAP in weights else weights[TABLE]
