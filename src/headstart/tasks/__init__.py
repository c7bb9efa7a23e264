"""Level 2: where samples come from."""

from headstart.tasks.in_context import InContextRegression
from headstart.tasks.modular import ModularAddition, ModularMultiplication
from headstart.tasks.parity import Parity
from headstart.tasks.single_index import Hermite, SingleIndex
from headstart.tasks.task import RandomlyLabelled, Relabelled, Samples, Task, held_out

__all__ = [
    "Hermite",
    "InContextRegression",
    "ModularAddition",
    "ModularMultiplication",
    "Parity",
    "RandomlyLabelled",
    "Relabelled",
    "Samples",
    "SingleIndex",
    "Task",
    "held_out",
]
