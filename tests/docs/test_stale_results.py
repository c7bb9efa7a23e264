"""Results under the rules of an earlier version say so, and become fewer."""

import json
from pathlib import Path

from headstart.lab.report import STALE

RESULTS = Path(__file__).parents[2] / "docs" / "results"
BANNER = "**Rules of version 0.1.**"
# Lower it when studies are run again; never raise it.
MOST = 1


def reported():
    return {path.relative_to(RESULTS).with_suffix("").as_posix(): path for path in RESULTS.glob("*/*.json")}


def test_the_list_of_stale_results_is_exactly_what_was_reported_before_version_0_2():
    listed = (RESULTS / STALE).read_text().split()
    old = [name for name, path in sorted(reported().items()) if "version" not in json.loads(path.read_text())]
    assert sorted(listed) == old
    assert len(listed) <= MOST


def test_a_stale_page_has_a_banner_and_no_other_has():
    listed = set((RESULTS / STALE).read_text().split())
    for name, path in reported().items():
        assert (BANNER in path.with_suffix(".md").read_text()) == (name in listed), name


def test_no_page_is_a_draft():
    drafts = [name for name, path in reported().items() if json.loads(path.read_text()).get("draft")]
    assert not drafts, "headstart report them again, from committed code"
