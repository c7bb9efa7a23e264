"""Networks on few rows of many numbers: the first layer as initial weights and a combination of the rows."""

from headstart.engines.span.engine import Span

__all__ = ["Span"]
