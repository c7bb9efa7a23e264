"""The pictures of docs/the_page.md, taken of a store in light and dark.

HEADSTART_SCREENSHOTS=docs/_static/page HEADSTART_STORE=demo.sqlite python -m pytest tests/web/test_screenshots.py -n 0

writes them of the store of `make demo`; without the first name they are taken of a smoke study and looked at only.
"""

import os
from pathlib import Path

import pytest
from looking import STUDY, serving

from headstart.lab.figures import MOST_BYTES, to_palette

PICTURES = {
    "claims": ("#/", 1280, 860),
    "study": (f"#/study/{STUDY}", 1280, 1180),
    "runs": ("#/cells?group=optimizer.lr&sort=-mean", 1280, 820),
    "compare": ("#/compare", 1280, 860),
    "phone": (f"#/study/{STUDY}", 360, 740),
}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_of_every_view(look, smoke, tmp_path, scheme):
    named = os.environ.get("HEADSTART_SCREENSHOTS")
    folder, store = (Path(named), Path(os.environ["HEADSTART_STORE"])) if named else (tmp_path, smoke)
    folder.mkdir(parents=True, exist_ok=True)
    with serving(store) as port:
        for name, (view, width, height) in PICTURES.items():
            seen = look(width=width, height=height, scheme=scheme)
            page = seen.open(f"http://127.0.0.1:{port}/{view}")
            if name == "runs":
                for row in range(4):
                    page.check(f"table.cells tbody tr >> nth={row} >> input")
                    page.wait_for_selector(".panels.one canvas")
            if name in ("study", "compare", "phone"):
                page.wait_for_selector(".chart canvas")
            page.wait_for_timeout(800)
            data = to_palette(page.screenshot())
            assert 5_000 < len(data) < MOST_BYTES
            (folder / f"{name}-{scheme}.png").write_bytes(data)
            assert seen.errors == []
