"""The command line. Each command is a function; tyro makes its flags from the signature.

Exit codes: 0 done, 1 a primary claim does not hold under `check --strict`, or `check-store` or `data check` found
damage, 2 a mistake in the call or a fault of the system, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
"""

import os
import signal
import stat
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import tyro

from headstart.cli import data, experiment, page, plan, probe, report, results, storage
from headstart.cli.options import app
from headstart.core.errors import HeadstartError
from headstart.core.faults import one_line, systems_fault, users_fault

__all__ = ["data", "experiment", "main", "page", "plan", "probe", "report", "results", "storage"]


class _Stopped(KeyboardInterrupt):
    """A signal to end, from a batch system or a terminal that closed: treated as Ctrl-C, so checkpoints are written."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number


def _stop(number: int, frame: object) -> None:
    if number == getattr(signal, "SIGHUP", None):
        _let_go_of_the_terminal()
    raise _Stopped(number)


def _let_go_of_the_terminal() -> None:
    """After a terminal has closed, writing to it fails: write to nowhere instead. Files and pipes stay."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode):
                os.dup2(nowhere, number)
    os.close(nowhere)


@contextmanager
def _heeding_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP stop the command as Ctrl-C does; one that is ignored, as under nohup, stays so."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _warn(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    _say(f"warning: {message}")


def _say(text: str) -> None:
    print(f"headstart: {one_line(text)}", file=sys.stderr)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line; mistakes in the call and faults of the system are one line and exit code 2."""
    with _heeding_signals(), warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            app.cli(
                prog="headstart",
                description="Train neural networks in less compute by shaping the first part of training.",
                args=list(args) if args is not None else None,
                config=(tyro.conf.FlagCreatePairsOff,),
            )
        except KeyboardInterrupt as stop:
            print("\nstopped; what is finished is stored, and the same command goes on from there", file=sys.stderr)
            raise SystemExit(getattr(stop, "code", 130)) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except Exception as error:
            fault = error if isinstance(error, HeadstartError) else users_fault(error) or systems_fault(error)
            if fault is None or os.environ.get("HEADSTART_TRACEBACK") == "1":
                raise
            _say(str(fault))
            raise SystemExit(2) from None
