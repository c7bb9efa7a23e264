"""Which engine trains a run: the fastest that supports it."""

import importlib
import os
from dataclasses import dataclass
from functools import cache
from math import prod

from headstart.core.errors import HeadstartError
from headstart.engines.engine import Engine
from headstart.run import Run

# Where the engines are, the fastest first. Each is imported when a run comes to it: those after the first need torch.
_ENGINES = ("fused:Fused", "span:Span", "ensemble:Ensemble", "loop:Loop")


@dataclass(frozen=True)
class Choice:
    """The engine for a run, and for each faster engine why it cannot serve."""

    engine: Engine
    reasons: tuple[tuple[str, str], ...] = ()


@cache
def _engine(where: str) -> Engine:
    module, _, name = where.partition(":")
    engine: Engine = getattr(importlib.import_module(f"headstart.engines.{module}"), name)()
    return engine


def engines() -> tuple[Engine, ...]:
    """All engines, the fastest first."""
    return tuple(_engine(where) for where in _ENGINES)


def _check_memory(run: Run) -> None:
    """Raise where the weights and their gradients alone do not fit into the memory of this machine."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not said here
        return
    num = sum(prod(p.shape) for p in run.parameters)
    if 8 * num > memory:
        raise HeadstartError(
            f"Run(model={run.model}): it has {num:.3g} parameters, which take {8 * num / 2**30:.3g} GB to train, and "
            f"this machine has {memory / 2**30:.3g} GB; use a smaller model or task"
        )


def choose(run: Run, device: str = "cpu") -> Choice:
    """The first engine that supports the run on the device, with the reasons against those before it."""
    _check_memory(run)
    reasons: list[tuple[str, str]] = []
    for where in _ENGINES:
        engine = _engine(where)
        lacking = engine.supports(run, device)
        if lacking is None:
            return Choice(engine, tuple(reasons))
        reasons.append((engine.name, lacking))
    raise HeadstartError(f"no engine can train this run: {'; '.join(f'{n}: {r}' for n, r in reasons)}")
