"""Cloze accuracy: how often a language model fills in held-out text, in another way than it was trained on."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from headstart.core.errors import HeadstartError, check_count, check_flag
from headstart.measures.on_the_way import Every, View, When
from headstart.tasks import Language, Spans, held_out


@dataclass(frozen=True)
class Cloze:
    """The accuracy on `windows` of the held-out text under an `objective`, such as Spans(): spans cut out of it.

    With `last` only the last target of a window counts, which has seen all the others, as the last word in LAMBADA.
    The symbols of the objective must be among those the model was trained with: that of a Mixture, or Causal().
    """

    objective: Any = Spans()
    windows: int = 1024
    last: bool = False
    at: When = Every(10**9)

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("Cloze", "windows", self.windows)
        check_flag("Cloze", "last", self.last)

    def __call__(self, view: View) -> dict[str, float]:
        """Its "accuracy"."""
        if not isinstance(view.task, Language):
            raise HeadstartError(f"Cloze(...): it looks at language models, and this run's task is {view.task}")
        asked = replace(view.task, objective=self.objective, test=self.windows)
        if asked.num_symbols > view.task.num_symbols:
            raise HeadstartError(
                f"Cloze(objective={self.objective}): it needs {asked.num_symbols} symbols, and the model was trained "
                f"on {view.task.num_symbols}; train with a Mixture that has this objective"
            )
        data = held_out(asked, view.seed)
        right = view.predict(data.x).argmax(axis=-1) == data.y
        weight = np.ones(data.y.shape, dtype=np.float32) if data.weight is None else data.weight
        if self.last:
            right, weight = right[:, -1], weight[:, -1]
        return {"accuracy": float((right * weight).sum() / weight.sum())}
