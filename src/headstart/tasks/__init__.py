"""Level 3: where samples come from."""

from headstart.tasks.decision_list import DecisionList
from headstart.tasks.images import Images
from headstart.tasks.in_context import InContextRegression
from headstart.tasks.language import Language
from headstart.tasks.links import Erf, Link, Relu, Series, Sign, Tanh, named_link
from headstart.tasks.local_signal import LocalSignal
from headstart.tasks.made_images import MadeImages
from headstart.tasks.made_text import MadeText
from headstart.tasks.modular import ModularArithmetic, Operation
from headstart.tasks.multi_index import MultiIndex
from headstart.tasks.multi_links import Committee, HermiteSum, MultiLink, ProductOf
from headstart.tasks.objectives import Causal, Masked, Mixture, Prefix, Spans, TextObjective
from headstart.tasks.parity import Parity
from headstart.tasks.pasted import Distractors, GaussianNoise, Pasted, Photographs, Placement
from headstart.tasks.rows import Rows, row_numbers
from headstart.tasks.single_index import Hermite, SingleIndex
from headstart.tasks.split import Split
from headstart.tasks.swap_row import Swap, SwapRow, draw_swap
from headstart.tasks.task import RandomlyLabelled, Relabelled, Task, held_out
from headstart.tasks.validation import Validation
from headstart.tasks.vocabularies import BPE, Bytes, Characters, Vocabulary
from headstart.tasks.xor_clusters import XorClusters

__all__ = [
    "BPE",
    "Bytes",
    "Causal",
    "Characters",
    "Committee",
    "DecisionList",
    "Distractors",
    "Erf",
    "GaussianNoise",
    "Hermite",
    "HermiteSum",
    "Images",
    "InContextRegression",
    "Language",
    "Link",
    "LocalSignal",
    "MadeImages",
    "MadeText",
    "Masked",
    "Mixture",
    "ModularArithmetic",
    "MultiIndex",
    "MultiLink",
    "Operation",
    "Parity",
    "Pasted",
    "Photographs",
    "Placement",
    "Prefix",
    "ProductOf",
    "RandomlyLabelled",
    "Relabelled",
    "Relu",
    "Rows",
    "Series",
    "Sign",
    "SingleIndex",
    "Spans",
    "Split",
    "Swap",
    "SwapRow",
    "Tanh",
    "Task",
    "TextObjective",
    "Validation",
    "Vocabulary",
    "XorClusters",
    "draw_swap",
    "held_out",
    "named_link",
    "row_numbers",
]
