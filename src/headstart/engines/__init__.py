"""Level 6: what trains. `choose(run)` names the fastest engine that supports a run."""

from headstart.engines.choose import Choice, choose, engines
from headstart.engines.engine import Engine, Interrupted, Job, Listens, Outcome, Watch
from headstart.engines.lower import Lowered, lower, samples_processed
from headstart.engines.member import value_names

__all__ = [
    "Choice",
    "Engine",
    "Interrupted",
    "Job",
    "Listens",
    "Lowered",
    "Outcome",
    "Watch",
    "choose",
    "engines",
    "lower",
    "samples_processed",
    "value_names",
]
