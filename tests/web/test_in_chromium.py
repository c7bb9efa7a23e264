"""The page in a real Chromium: views without a complaint, curves that move, filters, and the exported site."""

import threading

import pytest
from looking import STUDY, run_study, serving, until

VIEWS = ["#/", f"#/study/{STUDY}", "#/cells", "#/compare", "#/now"]


# The page itself looks, often enough on a busy machine too: how many records and points are drawn, and of which study.
WATCH = """() => {
  window.seen = [];
  window.studies = [];
  setInterval(() => {
    const session = document.querySelector(".session[data-records]");
    const chart = session?.querySelector(".chart");
    if (!chart) return;
    const now = `${session.dataset.records} ${chart.dataset.points}`;
    if (window.seen.at(-1) !== now) window.seen.push(now);
    const study = session.querySelector("h2").innerText;
    if (!window.studies.includes(study)) window.studies.push(study);
  }, 20);
}"""


def test_live_curves_move_while_a_smoke_study_runs(look, tmp_path):
    path = tmp_path / "store.sqlite"
    slow = {"sgd_index_steps": 12_000, "gd_index_steps": 4000}
    training = threading.Thread(target=run_study, args=(path,), kwargs=slow, daemon=True)
    with serving(path) as port:
        seen = look()
        page = seen.open(f"http://127.0.0.1:{port}/#/now")
        assert "Nothing is training" in page.inner_text("main")
        page.evaluate(WATCH)
        training.start()
        page.wait_for_selector(".session[data-records] canvas")
        assert until(lambda: page.evaluate("window.seen.length") > 1), "the curves do not move"
        assert page.evaluate("window.studies") == [STUDY]
        page.goto(f"http://127.0.0.1:{port}/#/")
        page.wait_for_selector(".claim .dot", timeout=60_000)  # the study has ended, and nobody reloaded
        training.join(60)
        page.goto(f"http://127.0.0.1:{port}/#/now")
        page.wait_for_selector(".sessions .nothing")
        assert seen.errors == []
    assert not list(tmp_path.glob("*.live-*"))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_every_view_opens_without_a_complaint_and_fits_the_screen(look, smoke, width, scheme):
    with serving(smoke) as port:
        seen = look(width=width, scheme=scheme)
        for view in VIEWS:
            page = seen.open(f"http://127.0.0.1:{port}/{view}")
            page.wait_for_selector("h1")
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, view
            assert page.get_attribute("html", "data-theme") == scheme
        page.wait_for_timeout(100)
    assert seen.errors == []


def test_filters_switches_links_and_keys(look, smoke, tmp_path):
    with serving(smoke) as port:
        seen = look(accept_downloads=True)
        page = seen.open(f"http://127.0.0.1:{port}/#/")
        num = int(page.get_attribute(".studies", "data-claims"))
        page.keyboard.press("/")
        page.keyboard.type("single index")
        page.wait_for_url(lambda url: url.endswith("q=single+index"))
        few = int(page.get_attribute(".studies", "data-claims"))
        assert 0 < few < num
        again = seen.open(page.url)  # a link keeps the view
        assert again.get_attribute(".studies", "data-claims") == str(few)
        page.keyboard.press("1")
        page.wait_for_selector(f".studies[data-claims='{num}']")
        with page.expect_download() as saved:
            page.click(".controls .take:has-text('CSV')")
        lines = saved.value.path().read_text().splitlines()
        assert lines[0].startswith("paper,study,preset,claim,kind,verdict")
        assert len(lines) == num + 1

        page = seen.open(f"http://127.0.0.1:{port}/#/study/{STUDY}")
        page.wait_for_selector(".panels[data-ready] canvas")
        page.click(".arm[data-arm='sgd_parity_small']")
        page.click(".choice button:has-text('FLOPs')")
        page.click("button:has-text('log x')")
        page.wait_for_selector(".arm[data-arm='sgd_parity_small'][aria-pressed='false']")
        assert {"axis=flops", "logx=1", "off=sgd_parity_small"} == set(page.url.partition("?")[2].split("&"))
        for kind, start in (("SVG", b"<?xml"), ("PNG", b"\x89PNG"), ("CSV", b"line,")):
            with page.expect_download() as saved:
                page.click(f".panel >> nth=0 >> .take:has-text('{kind}')")
            assert saved.value.path().read_bytes().startswith(start)

        page = seen.open(f"http://127.0.0.1:{port}/#/cells")
        rows = int(page.get_attribute(".scroll[data-rows]", "data-rows"))
        page.fill("input[type=search]", "task=SingleIndex optimizer.lr>0.15")
        page.wait_for_selector(f".scroll[data-rows]:not([data-rows='{rows}'])")
        assert 0 < int(page.get_attribute(".scroll[data-rows]", "data-rows")) < rows
        page.fill("input[type=search]", "")
        page.select_option("label.select:has-text('group by') select", "task")
        page.wait_for_selector(".scroll[data-rows='2']")
        page.check("table.cells tbody tr >> nth=0 >> input")
        page.wait_for_selector(".panels.one canvas")
        page.keyboard.press("t")
        page.wait_for_selector("html[data-theme=dark]")
        assert seen.errors == []


def test_the_exported_site_opens_from_disk_without_a_network(look, smoke, tmp_path):
    from headstart.web.site import export_site

    export_site(smoke, tmp_path / "site")
    num = export_site(smoke, tmp_path / "site")  # a second time replaces the first
    assert num == sum(path.is_file() for path in (tmp_path / "site").rglob("*"))
    seen = look(offline=True)
    asked = []
    seen.page.on("request", lambda request: asked.append(request.url))
    for view in VIEWS:
        page = seen.open(f"{(tmp_path / 'site' / 'index.html').as_uri()}{view}")
        page.wait_for_selector("h1")
        if "study" in view:
            page.wait_for_selector(".panels[data-ready] canvas")
            page.click(".choice button:has-text('samples')")
            page.wait_for_selector(".panels.two .panel canvas")
    assert seen.errors == []
    assert all(url.startswith(("file:", "about:", "blob:", "data:")) for url in asked)


def test_hostile_names_in_a_store_are_text_and_nothing_else(look, smoke, tmp_path):
    import json
    import sqlite3

    path, bad = tmp_path / "store.sqlite", "<img src=x onerror=document.title='caught'><script>alert(1)</script>"
    with sqlite3.connect(smoke) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
        report = json.loads(copy.execute("SELECT json FROM reports").fetchone()[0])
        report["claims"][0]["statement"] = report["title"] = report["finding"] = bad
        copy.execute("UPDATE reports SET json = ?", (json.dumps(report),))
    source.close()
    copy.close()
    with serving(path) as port:
        seen = look()
        page = seen.open(f"http://127.0.0.1:{port}/#/")
        assert bad in page.inner_text(".study h3")
        assert page.query_selector("main img") is None
        assert "caught" not in page.title().split("<")[0]
    assert seen.errors == []
