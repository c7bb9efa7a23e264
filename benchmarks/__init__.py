"""Headstart beside its peers on identical mathematics: `python -m benchmarks [--quick]`."""
