"""The page over a store: served on this machine, or written as files."""

import os
import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from headstart.cli.options import StorePath, app, open_named
from headstart.core.errors import HeadstartError

_LEAST_TOKEN = 16


@app.command
def ui(
    store: StorePath = None,
    port: Annotated[int, arg(metavar="N", help="where to listen; 0 takes any free port")] = 8420,
    host: Annotated[str, arg(metavar="NAME", help="another host than loopback needs a token")] = "127.0.0.1",
    token: Annotated[
        str | None, arg(metavar="WORD", help="what browsers must say (default: HEADSTART_UI_TOKEN)")
    ] = None,
    export: Annotated[
        Path | None, arg(metavar="DIR", help="write the page as files that open from disk, and serve nothing")
    ] = None,
) -> None:
    """Look at a store in the browser: claims, curves, runs, and what is training now. It reads and never writes.

    The page is for this machine alone. For another host it asks for a token of 16 letters or more; the connection is
    not encrypted, so better forward a port: ssh -L 8420:localhost:8420 machine.

    Try: headstart ui --store results.sqlite --port 8000
    """
    with open_named(store) as opened:
        path = opened.path
    if export is not None:
        from headstart.web.site import export_site

        num = export_site(path, export)
        print(f"{export / 'index.html'}: {num} files; open it in a browser")
        return
    try:
        from headstart.web.server import is_loopback, serve
    except ImportError as error:
        raise HeadstartError(
            f"headstart ui needs the extra ui ({error.name} is missing): pip install 'headstart[ui]'"
        ) from None
    token = token or os.environ.get("HEADSTART_UI_TOKEN") or None
    if not 0 <= port < 65536:
        raise HeadstartError(f"--port {port}: use 0 to 65535")
    if token is not None and len(token) < _LEAST_TOKEN:
        raise HeadstartError(f"--token: use at least {_LEAST_TOKEN} letters; it has {len(token)}")
    if not is_loopback(host):
        if token is None:
            raise HeadstartError(f"--host {host}: others could read the store; give --token, or stay on 127.0.0.1")
        print(
            f"headstart: warning: {host} can be reached by others; whoever has the token reads the store, and the "
            "connection is not encrypted",
            file=sys.stderr,
        )
    try:
        serve(path, host, port, token, lambda address: print(f"{path}\n{address}  (Ctrl-C ends)", flush=True))
    except KeyboardInterrupt:
        print("closed", file=sys.stderr)
