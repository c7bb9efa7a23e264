"""Which engine trains a run: the fastest that supports it."""

import importlib
from dataclasses import dataclass
from functools import cache

from headstart.core.errors import HeadstartError
from headstart.engines.engine import Engine
from headstart.run import Run

# Where the engines are, the fastest first. Each is imported when a run comes to it: those after the first need torch.
_ENGINES = ("fused:Fused", "ensemble:Ensemble", "loop:Loop")


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


def choose(run: Run, device: str = "cpu") -> Choice:
    """The first engine that supports the run on the device, with the reasons against those before it."""
    reasons: list[tuple[str, str]] = []
    for where in _ENGINES:
        engine = _engine(where)
        lacking = engine.supports(run, device)
        if lacking is None:
            return Choice(engine, tuple(reasons))
        reasons.append((engine.name, lacking))
    raise HeadstartError(f"no engine can train this run: {'; '.join(f'{n}: {r}' for n, r in reasons)}")
