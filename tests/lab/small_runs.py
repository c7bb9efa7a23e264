"""Runs that take milliseconds, for the tests of the lab."""

import headstart as hs


def parity_run(**changes: object) -> hs.Run:
    """A tiny mini-batch run; every part can be replaced."""
    parts: dict = {
        "task": hs.Parity(6, 2),
        "model": hs.MLP(width=4),
        "plan": hs.Online(),
        "loss": hs.MSE(),
        "optimizer": hs.SGD(0.1),
        "batch": hs.Batch(16),
        "budget": hs.Budget(steps=20, record_every=5),
    }
    return hs.Run(**(parts | changes))
