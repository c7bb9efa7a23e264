"""Progress of long work: a live bar on a terminal, a line now and then elsewhere, or nothing."""

import sys
import time
from types import TracebackType
from typing import Protocol, TextIO


class Progress(Protocol):
    """Shows how much of the estimated work is done. Work is counted in estimated seconds of one core."""

    def begin(self, title: str, total: float) -> None:
        """A new piece of work of `total` estimated seconds."""
        ...

    def update(self, done: float, text: str = "") -> None:
        """So much of the piece is done."""
        ...

    def __enter__(self) -> "Progress": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...


class Silent:
    """Shows nothing."""

    def begin(self, title: str, total: float) -> None:
        """Nothing."""

    def update(self, done: float, text: str = "") -> None:
        """Nothing."""

    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *exit: object) -> None:
        return None


class Lines:
    """A line at most every `every` seconds, for logs and pipes."""

    def __init__(self, stream: TextIO | None = None, every: float = 10.0) -> None:
        self.stream, self.every = stream or sys.stderr, every
        self.title, self.total, self.began, self.said = "", 0.0, 0.0, 0.0

    def begin(self, title: str, total: float) -> None:
        """Say what begins."""
        self.title, self.total = title, total
        self.began = self.said = time.monotonic()
        print(title, file=self.stream, flush=True)

    def update(self, done: float, text: str = "") -> None:
        """Say how far it is, if the last line is old enough."""
        now = time.monotonic()
        if now - self.said < self.every or not self.total:
            return
        self.said = now
        share = min(done / self.total, 1.0)
        left = f"about {(now - self.began) * (1 - share) / share:.0f} s left" if share > 0.005 else "starting"
        print(f"  {share:4.0%}  {text}  {left}", file=self.stream, flush=True)

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *exit: object) -> None:
        return None


class Bar:
    """A live bar with the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self.rich = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            speed_estimate_period=60.0,
        )
        self.task = self.rich.add_task("", total=None, text="", visible=False)
        self.total = 0.0

    def begin(self, title: str, total: float) -> None:
        """A new bar in place of the old one, which stays above it."""
        self.update(self.total)
        self.total = total
        self.task = self.rich.add_task(title, total=total, text="")

    def update(self, done: float, text: str = "") -> None:
        """Move the bar."""
        self.rich.update(self.task, completed=min(done, self.total), text=text)

    def __enter__(self) -> "Bar":
        self.rich.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if kind is None:
            self.update(self.total)
        self.rich.stop()


def display() -> Progress:
    """A bar on a terminal, lines otherwise."""
    return Bar() if sys.stderr.isatty() else Lines()
