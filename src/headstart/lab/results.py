"""What a study's claims and figure are computed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.core.errors import HeadstartError
from headstart.core.metric import Metric
from headstart.core.trace import Status, Summary, Traces
from headstart.lab.arms import Arm
from headstart.lab.computed import Arrays
from headstart.lab.sweep import Tuned


@dataclass(frozen=True)
class Results:
    """What a study's claims and figure are computed from: stored traces, stored arrays and nothing else."""

    arms: Mapping[str, Arm]
    summaries: Mapping[str, Sequence[Summary]]
    traces: Mapping[str, Traces]
    tuned: Mapping[str, Tuned]
    knobs: Any
    computed: Mapping[str, Arrays] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)

    def metric(self, arm: str) -> Metric:
        """The leading metric of an arm's task."""
        if arm not in self.arms:
            raise HeadstartError(f"there is no arm {arm!r}; the study has {', '.join(self.arms)}")
        return self.arms[arm].run.task.metrics[0]

    def finals(self, arm: str) -> NDArray[np.float64]:
        """The last value of the leading test metric, [seeds]; diverged runs are at chance."""
        self.metric(arm)
        return np.array([summary.final for summary in self.summaries[arm]])

    def num_diverged(self, arm: str) -> int:
        """How many of an arm's runs did not finish."""
        return sum(summary.status is not Status.FINISHED for summary in self.summaries[arm])

    def curves(self, arm: str, of: str = "test") -> NDArray[np.float64]:
        """The leading metric of "test" or "train" rows, [seeds, records]; diverged runs are at chance from then on."""
        metric = self.metric(arm)
        if arm not in self.traces:
            raise HeadstartError(f"arm {arm!r} keeps summaries only and has no curves")
        return self.traces[arm].stack(f"{of}_{metric.name}", metric.chance)
