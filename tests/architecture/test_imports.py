"""The house: who may import whom, how long a module may be, and that no global generator is used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headstart

ROOT = Path(headstart.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# A module imports only from strictly lower levels, or from its own package.
LEVELS = {
    "core": 1,
    "data": 2,
    "losses": 2,
    "optimizers": 2,
    "tasks": 3,
    "models": 3,
    "plans": 3,
    "methods": 4,
    "measures": 4,
    "theory": 4,
    "fit": 4.5,
    "run": 5,
    "engines": 6,
    "lab": 7,
    "studies": 8,
    "integrations": 8,
    "web": 8,
    "headstart": 8.5,  # headstart/__init__.py: the public names
    "cli": 9,
    "__main__": 10,
}
FORBIDDEN_NAMES = {"utils", "helpers", "common", "misc"}
MAX_LINES = 400
SLOW_IMPORTS = ("torch", "numba", "pandas", "matplotlib", "scipy")
MAX_IMPORT_SECONDS = 2.0

# What of numpy.random and torch may be named: generators that are made with a key and passed on.
KEYED_GENERATORS = {"Generator", "BitGenerator", "SeedSequence", "Philox", "PCG64"}
TORCH_GENERATOR_CALLS = {
    "manual_seed",
    "seed",
    "rand",
    "randn",
    "randint",
    "randperm",
    "rand_like",
    "randn_like",
    "randint_like",
    "bernoulli",
    "multinomial",
    "normal",
    "set_rng_state",
}


def dotted(path):
    """The name of the module in a file: headstart.core.streams."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module):
    """The package or top-level module a dotted name lives in: headstart.core.streams is in core."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "headstart"


def imports(tree, module, is_package):
    """Every headstart module a tree imports, wherever in the file, for types or not, as (line, dotted name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if room_of_headstart(alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*parents, *([base] if base else [])])
            if base == "headstart":
                for alias in node.names:
                    yield node.lineno, f"headstart.{alias.name}" if alias.name in LEVELS else "headstart"
            elif room_of_headstart(base):
                yield node.lineno, base


def room_of_headstart(name):
    return name == "headstart" or name.startswith("headstart.")


def violations(source, module, is_package=False):
    """The imports of a module that go up or sideways, one sentence each."""
    own = room(module)
    if own not in LEVELS:
        return [f"{module}: {own!r} has no level; give it one in LEVELS"]
    return [
        f"{module}:{line} (level {LEVELS[own]}) imports {name} (level {LEVELS.get(room(name))})"
        for line, name in imports(ast.parse(source), module, is_package)
        if room(name) != own and LEVELS.get(room(name), 99) >= LEVELS[own]
    ]


def global_generators(source):
    """Every use of a global generator in a source, one sentence each."""
    found, tree = [], ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [f"line {node.lineno}: import random" for alias in node.names if alias.name == "random"]
        elif isinstance(node, ast.ImportFrom):
            taken = {alias.name for alias in node.names}
            if node.module == "random" or (node.module == "numpy.random" and taken - KEYED_GENERATORS):
                found.append(f"line {node.lineno}: from {node.module} import {', '.join(sorted(taken))}")
            if node.module == "torch" and taken & TORCH_GENERATOR_CALLS:
                found.append(f"line {node.lineno}: from torch import {', '.join(sorted(taken))}")
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            owner, _, last = name.rpartition(".")
            if owner in ("np.random", "numpy.random") and last not in KEYED_GENERATORS:
                found.append(f"line {node.lineno}: {name}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            keyed = any(keyword.arg == "generator" for keyword in node.keywords)
            if ast.unparse(node.func.value) in ("torch", "torch.random", "torch.cuda", "torch.mps") and (
                node.func.attr in TORCH_GENERATOR_CALLS and not keyed
            ):
                found.append(f"line {node.lineno}: {ast.unparse(node.func)}")
    return found


every_module = pytest.mark.parametrize("path", MODULES, ids=dotted)


@every_module
def test_a_module_imports_only_from_lower_levels(path):
    assert not violations(path.read_text(), dotted(path), path.name == "__init__.py")


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("headstart.core.streams", "from headstart.tasks import Parity"),
        ("headstart.tasks.parity", "import headstart.models"),
        ("headstart.tasks.parity", "def f():\n    from headstart.run import Run"),
        ("headstart.theory.xor", "from ..measures import area"),
        ("headstart.run", "from headstart import cli"),
        ("headstart.lab.store", "import headstart as hs"),
        ("headstart.studies.less_data.figure", "from headstart.web import page"),
        ("headstart.attic.old", "import json"),
    ],
)
def test_an_import_that_goes_up_or_sideways_is_seen(module, source):
    assert len(violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("headstart.tasks.parity", "from headstart.core.errors import check\nfrom .task import Task"),
        ("headstart.methods.layer_scale", "from headstart.optimizers import Rates"),
        ("headstart.lab.runner", "from headstart.lab.store import Store\nimport torch"),
        ("headstart", "from headstart.lab import train"),
        ("headstart.cli", "import headstart as hs\nfrom headstart import lab"),
    ],
)
def test_an_import_that_goes_down_or_stays_at_home_is_welcome(module, source):
    assert not violations(source, module, module == "headstart")


def module_graph():
    """Which modules of headstart each imports, wherever in the file, for types or not."""
    paths = {dotted(path): path for path in MODULES}
    graph = {}
    for module, path in paths.items():
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                named = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {name if name in paths else node.module for name in named}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        graph[module] = found & paths.keys() - {module}
    return graph


def test_imports_go_one_way_in_type_checks_too():
    graph = module_graph()
    while True:
        leaves = {module for module, needs in graph.items() if not needs & graph.keys()}
        if not leaves:
            break
        graph = {module: needs for module, needs in graph.items() if module not in leaves}
    assert not graph, f"these import each other, or what does: {sorted(graph)}"


@every_module
def test_a_module_is_named_for_what_it_holds(path):
    assert not FORBIDDEN_NAMES & set(dotted(path).split("."))


@every_module
def test_a_module_is_short_enough_to_read(path):
    assert len(path.read_text().splitlines()) <= MAX_LINES


@every_module
def test_no_module_uses_a_global_generator(path):
    assert not global_generators(path.read_text())


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import choice",
        "import numpy as np\nnp.random.seed(0)",
        "import numpy as np\nx = np.random.rand(3)",
        "import numpy as np\nrng = np.random.default_rng()",
        "from numpy.random import shuffle",
        "import torch\ntorch.manual_seed(0)",
        "import torch\nx = torch.randn(3)",
        "import torch\ntorch.cuda.manual_seed(0)",
    ],
)
def test_a_global_generator_is_seen(source):
    assert len(global_generators(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nrng = np.random.Generator(np.random.Philox(key=1))\nrng.normal()",
        "import torch\nx = torch.randn(3, generator=g)",
        "from headstart.core.streams import normals",
    ],
)
def test_a_keyed_generator_is_welcome(source):
    assert not global_generators(source)


def test_importing_headstart_is_quick_and_brings_in_no_heavy_library():
    program = (
        "import sys, time; began = time.process_time(); import headstart; took = time.process_time() - began; "
        f"print(took, *[name for name in {SLOW_IMPORTS!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    took, *heavy = done.stdout.split()
    assert not heavy
    assert float(took) < MAX_IMPORT_SECONDS
