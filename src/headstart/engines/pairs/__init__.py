"""Pairs of networks whose training differs in one row, trained together."""

from headstart.engines.pairs.logistic import LogisticPairs
from headstart.engines.pairs.networks import NetworkPair

__all__ = ["LogisticPairs", "NetworkPair"]
