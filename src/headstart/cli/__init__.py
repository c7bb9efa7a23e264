"""The command line. Each command is a function; tyro makes its flags from the signature.

Exit codes: 0 done, 1 a primary claim does not hold under `check --strict`, 2 a mistake in the call, 130 Ctrl-C,
143 SIGTERM.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence

import tyro

from headstart.cli import experiment, report, results, storage
from headstart.cli.options import app
from headstart.core.errors import HeadstartError

__all__ = ["experiment", "main", "report", "results", "storage"]


class _Terminated(KeyboardInterrupt):
    """SIGTERM, as a batch system sends it: treated as Ctrl-C, so that runs under way write their checkpoints."""


def _terminate(*_: object) -> None:
    raise _Terminated


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line; mistakes in the call are one line and exit code 2."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)
    try:
        app.cli(
            prog="headstart",
            description="Train neural networks in less compute by shaping the first part of training.",
            args=list(args) if args is not None else None,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except HeadstartError as error:
        print(f"headstart: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt as stop:
        print("\nstopped; what is finished is stored, and the same command goes on from there", file=sys.stderr)
        raise SystemExit(143 if isinstance(stop, _Terminated) else 130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
