"""Published results are under one set of rules, and from committed code."""

import json
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def reported():
    return {
        p.relative_to(RESULTS).with_suffix("").as_posix(): json.loads(p.read_text()) for p in RESULTS.glob("*/*.json")
    }


def test_every_page_is_under_the_rules_of_version_0_2():
    assert reported()
    assert not [name for name, report in reported().items() if "version" not in report]


def test_no_page_is_a_draft():
    drafts = [name for name, report in reported().items() if report.get("draft")]
    assert not drafts, "headstart report them again, from committed code"
