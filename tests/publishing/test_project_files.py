"""What a published project has: a licence, a citation, and one version and one licence in all of them."""

import tomllib
from pathlib import Path

import yaml

import headstart

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_version_is_one():
    assert headstart.__version__ == PROJECT["version"] == CITATION["version"]


def test_the_licence_is_one_and_its_text_is_whole():
    assert PROJECT["license"] == CITATION["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text()
    assert text.split("\n\n")[0].split() == [
        "Apache", "License", "Version", "2.0,", "January", "2004", "http://www.apache.org/licenses/"
    ]  # fmt: skip
    assert all(f"\n   {number}. " in text for number in range(1, 10))
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_citation_has_what_its_format_asks_for():
    assert {"cff-version", "message", "title", "authors"} <= CITATION.keys()
    assert all({"type", "title", "authors"} <= reference.keys() for reference in CITATION["references"])
