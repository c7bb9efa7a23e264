"""Server-sent events: one look at the store and its live files serves every browser; nobody polls."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from headstart.core.errors import HeadstartError
from headstart.web.live import LiveReading
from headstart.web.reading import Reading

LOOK_EVERY = 0.2
# A browser that lags behind by more messages than this gets the whole again.
_MOST_WAITING = 200


class Events:
    """Tells every listener what has changed. It looks only while somebody listens."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self.live = reading, LiveReading(reading.path)
        self._listeners: set[asyncio.Queue[str]] = set()
        self._task: asyncio.Task[None] | None = None
        self._version = ""

    async def listen(self) -> AsyncIterator[dict[str, str]]:
        """The messages for one browser: first the whole, then what is new."""
        queue: asyncio.Queue[str] = asyncio.Queue(_MOST_WAITING)
        if self._task is None or self._task.done():
            await asyncio.to_thread(self._look)
            self._task = asyncio.create_task(self._watch())
        self._listeners.add(queue)
        try:
            yield {"data": self._whole()}
            while True:
                if queue.full():
                    while not queue.empty():
                        queue.get_nowait()
                    yield {"data": self._whole()}
                yield {"data": await queue.get()}
        finally:
            self._listeners.discard(queue)

    def _whole(self) -> str:
        return json.dumps({"version": self._version, "sessions": self.live.whole()})

    async def _watch(self) -> None:
        while self._listeners:
            await asyncio.sleep(LOOK_EVERY)
            news = await asyncio.to_thread(self._look)
            if news:
                data = json.dumps(news)
                for queue in self._listeners:
                    if not queue.full():
                        queue.put_nowait(data)

    def _look(self) -> dict[str, Any]:
        """What has changed: the version of the store, and news of sessions."""
        news: dict[str, Any] = {}
        try:
            version = self.reading.version()
        except HeadstartError as error:
            version, news["fault"] = self._version, str(error)
        if version != self._version:
            self._version = news["version"] = version
        said = self.live.look()
        return news | ({"news": said} if said else {})
