"""Pairs of networks whose training differs in one row, trained together."""

from headstart.engines.pairs.logistic import LogisticPairs

__all__ = ["LogisticPairs"]
