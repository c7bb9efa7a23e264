"""Many members of one architecture, stacked with torch.func and trained in lockstep."""

from headstart.engines.ensemble.engine import Ensemble

__all__ = ["Ensemble"]
