"""What stands before every request: methods, host names, paths and the token; and the headers of every answer."""

import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_LONGEST = 8192


class Guard:
    """Lets through GET and HEAD, from known host names, of plain paths; data only with the token, if there is one.

    The host name is checked since a page elsewhere could have its own name point to this machine. The code of the page
    holds no data, so it needs no token: it asks for it.
    """

    def __init__(self, app: App, hosts: Iterable[str], token: str | None = None) -> None:
        self.app, self.hosts, self.token = app, frozenset(hosts), token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refusal(scope)
        await (refused or self.app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page only reads: use GET\n", 405, {"allow": "GET, HEAD"})
        if _host(headers.getlist("host")) not in self.hosts:
            return PlainTextResponse("unknown host name; use the address that headstart ui printed\n", 400)
        raw = scope.get("raw_path") or b""
        if len(raw) + len(scope["query_string"]) > _LONGEST:
            return PlainTextResponse("the address is too long\n", 414)
        path = scope["path"]
        if ".." in path or "\\" in path or "\0" in path or "//" in path or b"%2f" in raw.lower():
            return PlainTextResponse("there is no such path\n", 400)
        if self.token is not None and path.startswith(("/api/", "/events")) and not self._is_welcome(headers):
            return PlainTextResponse("this page needs the token it was started with\n", 401)
        return None

    def _is_welcome(self, headers: Headers) -> bool:
        assert self.token is not None
        kind, _, given = headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode())


def _host(found: list[str]) -> str:
    """The name in a host header, without the port; nothing where there is none, or more than one."""
    if len(found) != 1:
        return ""
    name = found[0].strip().lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]
