"""Level 3: where samples come from."""

from headstart.tasks.images import Images
from headstart.tasks.in_context import InContextRegression
from headstart.tasks.links import Erf, Link, Relu, Series, Sign, Tanh, named_link
from headstart.tasks.modular import ModularArithmetic, Operation
from headstart.tasks.parity import Parity
from headstart.tasks.rows import Rows, row_numbers
from headstart.tasks.single_index import Hermite, SingleIndex
from headstart.tasks.split import Split
from headstart.tasks.task import RandomlyLabelled, Relabelled, Task, held_out
from headstart.tasks.validation import Validation
from headstart.tasks.xor_clusters import XorClusters

__all__ = [
    "Erf",
    "Hermite",
    "Images",
    "InContextRegression",
    "Link",
    "ModularArithmetic",
    "Operation",
    "Parity",
    "RandomlyLabelled",
    "Relabelled",
    "Relu",
    "Rows",
    "Series",
    "Sign",
    "SingleIndex",
    "Split",
    "Tanh",
    "Task",
    "Validation",
    "XorClusters",
    "held_out",
    "named_link",
    "row_numbers",
]
