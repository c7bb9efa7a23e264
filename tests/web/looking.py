"""A store with a smoke study, the server over it on loopback, and a real Chromium to look at it."""

import http.client
import os
import shutil
import threading
import time
from contextlib import contextmanager

import pytest

from headstart.lab import provenance
from headstart.lab.conduct import conduct
from headstart.lab.progress import Silent
from headstart.lab.store import open_store
from headstart.studies import find

STUDY = "less_data/mini_and_full_batch_mlp"
# As root, in a container, without a screen; and nothing of it speaks to the outside.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def run_study(path, **knobs):
    """Run the smoke preset of the first study into a store."""
    study = find(STUDY)
    with open_store(path) as store:
        conduct(study, "smoke", study.knobs("smoke", {name: str(v) for name, v in knobs.items()}), store, Silent())


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """A store that holds the smoke preset of the first study."""
    path = tmp_path_factory.mktemp("web") / "store.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "commit", lambda: "0123456789")
        run_study(path)
    return path


@contextmanager
def serving(path, token=None):
    """The server over a store, in a thread, on a free port of loopback; gives the port."""
    uvicorn = pytest.importorskip("uvicorn", reason="make test installs the extra ui")
    from headstart.web.server import bind, make_app

    listening = bind("127.0.0.1", 0)
    config = uvicorn.Config(make_app(path, token), log_level="warning", access_log=False, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        listening.close()


def get(port, path, method="GET", **headers):
    """(status, headers, body) of a request; names of headers are written with _ for -."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest(method, path, skip_host="host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


@pytest.fixture(scope="session")
def chromium():
    """Chromium of Debian or of the user; without one the tests that need it are skipped."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="make test installs playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("HEADSTART_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("there is no Chromium: apt-get install chromium, or name one in HEADSTART_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


class Seen:
    """A page, and what its console complained of."""

    def __init__(self, page):
        self.page, self.errors = page, []
        page.on("console", lambda said: self.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, address):
        """Go to an address anew, and wait until it is drawn."""
        self.page.goto("about:blank")
        self.page.goto(address)
        self.page.wait_for_selector("body[data-drawn]")
        return self.page


@pytest.fixture
def look(chromium):
    """Open a page: look(width=..., scheme=...) gives a `Seen`."""
    contexts = []

    def make(width=1280, height=900, scheme="light", **more):
        contexts.append(chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **more))
        contexts[-1].set_default_timeout(20_000)
        return Seen(contexts[-1].new_page())

    yield make
    for context in contexts:
        context.close()


def until(true, seconds=20.0):
    """Wait until something is so; returns whether it came."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return False
