"""The command line. Each command is a function; tyro makes its flags from the signature.

Exit codes: 0 done, 1 a claim does not hold under `check --strict`, 2 a mistake in the call, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence

import tyro

from headstart.cli import experiment, results, storage
from headstart.cli.options import app
from headstart.core.errors import HeadstartError

__all__ = ["experiment", "main", "results", "storage"]


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line; mistakes in the call are one line and exit code 2."""
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
    except KeyboardInterrupt:
        print("\nstopped; what is finished is stored, and the same command goes on from there", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
