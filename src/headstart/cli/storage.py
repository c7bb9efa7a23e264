"""Commands about the store and the program itself."""

from typing import Annotated

from tyro.conf import arg

from headstart import __version__
from headstart.cli.options import Json, StorePath, app, open_named, print_json
from headstart.core.faults import one_line
from headstart.lab.database import Damaged
from headstart.lab.store import store_path


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
    with open_named(store) as opened:
        num, size = opened.collect_garbage(states)
    print(f"{opened.path}: dropped {num} files and States, {size / 2**20:.1f} MiB")


@app.command(name="check-store")
def check_store(store: StorePath = None, json: Json = False) -> None:
    """Look at every page and every row of a store, and say what is damaged; nothing is changed.

    The exit code is 1 if something is. `headstart run ... --repair` drops what is damaged and trains it again.

    Try: headstart check-store
    """
    path = store_path(store)
    try:
        with open_named(store) as opened:
            found = opened.damage()
    except Damaged as error:
        found = [str(error.__cause__ or error)]
    if json:
        print_json({"store": str(path), "damage": [one_line(each) for each in found]})
    else:
        for each in found:
            print(one_line(each))
        print(f"{path}: {f'{len(found)} damaged; --repair drops them' if found else 'all is as it was written'}")
    if found:
        raise SystemExit(1)


@app.command
def version() -> None:
    """Print the version.

    Try: headstart version
    """
    print(__version__)
