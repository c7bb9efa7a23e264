"""Commands about the store and the program itself."""

from typing import Annotated

from tyro.conf import arg

from headstart import __version__
from headstart.cli.options import StorePath, app
from headstart.core.errors import HeadstartError
from headstart.lab.store import default_path, open_store


@app.command
def gc(
    states: Annotated[
        bool, arg(help="drop all kept States too; runs that start from one train its source again")
    ] = False,
    store: StorePath = None,
) -> None:
    """Drop files that a store no longer needs: orphaned States, checkpoints of finished runs and of version 0.1.

    Traces, claims and choices are never dropped. Nothing else drops a State.

    Try: headstart gc
    """
    path = store or default_path()
    if not path.exists():
        raise HeadstartError(f"--store {path}: there is no such store; nothing to drop")
    with open_store(path) as opened:
        num, size = opened.collect_garbage(states)
    print(f"{path}: dropped {num} files and States, {size / 2**20:.1f} MiB")


@app.command
def version() -> None:
    """Print the version.

    Try: headstart version
    """
    print(__version__)
