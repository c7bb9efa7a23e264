"""Which engine trains a run: the fastest that supports it."""

from dataclasses import dataclass
from functools import cache

from headstart.core.errors import HeadstartError
from headstart.engines.engine import Engine
from headstart.run import Run


@dataclass(frozen=True)
class Choice:
    """The engine for a run, and for each faster engine why it cannot serve."""

    engine: Engine
    reasons: tuple[tuple[str, str], ...] = ()


@cache
def engines() -> tuple[Engine, ...]:
    """All engines, the fastest first. Imported on first use, since most import torch."""
    from headstart.engines.ensemble import Ensemble
    from headstart.engines.fused import Fused
    from headstart.engines.loop import Loop

    return Fused(), Ensemble(), Loop()


def choose(run: Run, device: str = "cpu") -> Choice:
    """The first engine that supports the run on the device, with the reasons against those before it."""
    reasons: list[tuple[str, str]] = []
    for engine in engines():
        lacking = engine.supports(run, device)
        if lacking is None:
            return Choice(engine, tuple(reasons))
        reasons.append((engine.name, lacking))
    raise HeadstartError(f"no engine can train this run: {'; '.join(f'{n}: {r}' for n, r in reasons)}")
