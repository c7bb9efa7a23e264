"""Level 2: where samples come from."""

from headstart.tasks.parity import Parity
from headstart.tasks.single_index import Hermite, SingleIndex
from headstart.tasks.task import RandomlyLabelled, Relabelled, Samples, Task, held_out

__all__ = [
    "Hermite",
    "Parity",
    "RandomlyLabelled",
    "Relabelled",
    "Samples",
    "SingleIndex",
    "Task",
    "held_out",
]
