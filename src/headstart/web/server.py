"""The server of the page: a few routes over a store that is opened to be read, and one stream of events."""

import json
import logging
import math
import socket
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headstart.core.errors import HeadstartError
from headstart.web.encoding import to_json
from headstart.web.events import Events
from headstart.web.guard import App, Guard
from headstart.web.reading import NotThere, Reading
from headstart.web.requests import BadRequest, parse_look, parse_name, parse_series
from headstart.web.site import static_files
from headstart.web.thinning import warm_up

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain; charset=utf-8",
}
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_MOST_KEPT = 48


def answer(name: str, reading: Reading, asked: Mapping[str, str]) -> Any:
    """What the page asks for, by name and parameters, as plain data and arrays."""
    if name == "scoreboard":
        return reading.scoreboard()
    if name == "study":
        preset = parse_name("preset", asked["preset"]) if "preset" in asked else None
        return reading.study(parse_name("name", asked.get("name")), preset)
    if name == "curves":
        series = parse_series(asked.get("series"))
        chances = _numbers(asked.get("chance"), len(series))
        return reading.curves(series, parse_look(asked), chances)
    if name == "pair":
        lines = [parse_series(asked.get(side)) for side in ("a", "b")]
        if any(len(line) != 1 for line in lines):
            raise BadRequest("a=...&b=...: give one line each, such as a=cell:0-15&b=cell:0-15")
        chance = _numbers(asked.get("chance"), 1).get(0)
        return reading.pair(lines[0][0], lines[1][0], parse_look(asked), chance, asked.get("higher", "1") == "1")
    if name == "cells":
        return reading.cells()
    if name == "runs":
        return reading.runs(parse_series(asked.get("cell"))[0][0].cell)
    if name == "computed":
        return reading.computed(parse_name("study", asked.get("study")), parse_name("name", asked.get("name")))
    raise NotThere(f"there is no {name}")


def _numbers(text: str | None, num: int) -> dict[int, float]:
    """Numbers separated by ";", by their place; an empty one is left out."""
    out: dict[int, float] = {}
    for place, each in enumerate((text or "").split(";")[:num]):
        try:
            value = float(each) if each else math.nan
        except ValueError:
            raise BadRequest(f"chance={text!r}: give numbers, separated by ;") from None
        if math.isfinite(value):
            out[place] = value
    return out


def make_app(path: Path, token: str | None = None, hosts: tuple[str, ...] = ()) -> App:
    """The page over the store at `path`, for requests to loopback or to these host names."""
    reading = Reading(path)
    events = Events(reading)
    pages = static_files()

    @lru_cache(maxsize=_MOST_KEPT)
    def made(name: str, asked: tuple[tuple[str, str], ...], version: str) -> str:
        return to_json(answer(name, reading, dict(asked)))

    def api(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            asked = tuple(sorted(request.query_params.items()))
            return Response(made(name, asked, reading.version()), media_type="application/json")
        except NotThere as error:
            return _refused(404, error)
        except BadRequest as error:
            return _refused(400, error)
        except HeadstartError as error:
            return _refused(409, error)

    def static(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in pages:
            return PlainTextResponse("there is no such page\n", 404)
        kind = _TYPES.get(Path(name).suffix, "application/octet-stream")
        return Response(pages[name], headers={"cache-control": "no-cache"}, media_type=kind)

    async def stream(request: Request) -> Response:
        return EventSourceResponse(events.listen(), ping=15)

    routes = [Route("/api/{name}", api), Route("/events", stream), Route("/", static), Route("/{name:path}", static)]
    return Guard(Starlette(routes=routes), {*_LOOPBACK, *(host.lower() for host in hosts)}, token)


def _refused(code: int, error: HeadstartError) -> Response:
    return Response(json.dumps({"error": str(error)}), code, media_type="application/json")


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; a port in use, or a host that is not this machine's, is said in words."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(128)
    except (OSError, OverflowError) as error:
        made.close()
        said = getattr(error, "strerror", None) or error
        raise HeadstartError(
            f"--host {host} --port {port}: {said}; choose another port, or --port 0 for any free one"
        ) from None
    return made


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    return host in ("localhost", "::1") or host.startswith("127.")


def serve(path: Path, host: str, port: int, token: str | None, say: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C. On loopback nobody else can see it; elsewhere the token is asked for."""
    import uvicorn

    listening = bind(host, port)
    name = f"[{host}]" if ":" in host else host
    names = (name, socket.gethostname(), socket.getfqdn()) if not is_loopback(host) else (name,)
    app = make_app(path, token, names)
    threading.Thread(target=warm_up, daemon=True).start()
    say(f"http://{name}:{listening.getsockname()[1]}/")
    # No access log: an address may hold what is nobody's business.
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="off", server_header=False, timeout_graceful_shutdown=1
    )
    # At Ctrl-C streams that browsers still read are cut off, which is no error.
    logging.getLogger("uvicorn.error").addFilter(lambda record: "without completing" not in record.getMessage())
    uvicorn.Server(config).run(sockets=[listening])
