"""Kernels give the same numbers whether they were compiled a moment ago or read from the cache."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib
from dataclasses import replace
import headstart as hs
from headstart.engines import Job
from headstart.engines.fused import Fused
from headstart.run import Step

run = hs.Run(hs.Parity(10, 3), hs.MLP(32), hs.Online(), hs.MSE(), hs.AdamW(0.01), hs.Batch(16), budget=hs.Budget(40))
runs = [
    run,
    replace(run, batch=hs.FullBatch(), optimizer=hs.SGD(0.1), model=hs.MLP(32, bias=False)),
    replace(run, batch=hs.FullBatch(), optimizer=hs.SGD(0.1), model=hs.MLP(64, bias=False), task=hs.Parity(18, 6)),
    replace(run, model=hs.MLP(24, depth=3, activation="gelu")),
]
for outcome in Fused().train([Job(run, keep=(Step(40),)) for run in runs]):
    print(hashlib.md5(b"".join(w.tobytes() for w in outcome.states[Step(40)].weights.values())).hexdigest())
"""


@pytest.mark.slow
def test_a_run_has_the_same_numbers_with_fresh_kernels_and_with_cached_ones(tmp_path):
    calls = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    ]
    assert calls[0].stdout == calls[1].stdout
