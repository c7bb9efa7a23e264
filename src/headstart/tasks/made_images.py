"""Images that are made, not measured: they need no file, and exercise whatever takes rows of real images."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError, check_count
from headstart.core.metric import Metric, class_accuracy
from headstart.core.samples import Samples
from headstart.core.signature import Signature
from headstart.core.streams import Stream, integers, normals
from headstart.tasks.rows import TrainingRows, row_numbers

# How much of the pattern of a class is in its images, in units of the noise along it.
_STRENGTH = 2.0


@dataclass(frozen=True)
class MadeImages(TrainingRows):
    """`train` and `test` of `rows` images [channels, side, side], dealt by the seed as those of real data are.

    Row r is x = xi + 2 u_k with unit patterns u_1, u_2, ..., one per class, k uniform and xi standard normal, and its
    class is y = argmax_j <u_j, x>, k most of the time. The images are the same for every seed; a seed chooses among
    them.
    """

    train: int = 200
    test: int = 200
    side: int = 8
    channels: int = 1
    classes: int = 10
    rows: int = 2000

    semantics: ClassVar[int] = 1
    losses: ClassVar[tuple[str, ...]] = ("cross_entropy",)

    def __post_init__(self) -> None:
        for name in ("train", "test", "side", "channels"):
            check_count("MadeImages", name, getattr(self, name))
        check_count("MadeImages", "classes", self.classes, minimum=2)
        check_count("MadeImages", "rows", self.rows)
        if self.train + self.test > self.rows:
            raise HeadstartError(
                f"MadeImages(train={self.train}, test={self.test}): there are {self.rows} rows; give fewer, or rows=..."
            )

    @property
    def num_train(self) -> int:
        """The number of training rows."""
        return self.train

    @property
    def num_test(self) -> int:
        """The number of test rows."""
        return self.test

    @property
    def signature(self) -> Signature:
        """Pixels to one score per class."""
        return Signature((self.channels, self.side, self.side), outputs=(self.classes,))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Accuracy."""
        return (class_accuracy(self.classes),)

    @property
    def patterns(self) -> NDArray[np.float64]:
        """u, the unit patterns of the classes: float64[classes, pixels]."""
        drawn = normals(0, Stream.TASK, np.arange(self.classes), self.signature.num_inputs).astype(np.float64)
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    def sample(self, seed: int, ids: NDArray[np.int64], stream: Stream = Stream.DATA) -> Samples:
        """The training images with these ids or, of the evaluation stream, the test images."""
        rows = row_numbers("MadeImages", seed, ids, stream, self.train, self.test, self.rows)
        patterns = self.patterns
        hidden = integers(0, Stream.LABELS, rows, 1, self.classes)[:, 0]
        noise = normals(0, Stream.DATA, rows, self.signature.num_inputs)
        x = (noise + _STRENGTH * patterns[hidden]).astype(np.float32)
        scores = np.einsum("np,cp->nc", x.astype(np.float64), patterns)
        return Samples(x.reshape(len(x), *self.signature.inputs), scores.argmax(axis=1))
