"""The page for somebody who will not read the rest, and numbers of claims on all pages."""

import re
from pathlib import Path

import pytest

from headstart.lab.quotes import quotes

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "what_we_found.md"


def test_what_was_found_is_said_in_at_most_800_words_with_links_to_claims():
    text = PAGE.read_text()
    assert len(re.sub(r"\]\([^)]*\)", "]", text).split()) <= 800
    assert text.count("](results/less_data/") >= 8


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.stem
)
def test_numbers_of_claims_on_a_page_and_their_verdicts_are_those_of_the_reports(path):
    for quote in quotes(path):
        assert quote.number == quote.reported, f"{quote.place}: run `headstart report`"
        assert not quote.turned


def test_the_page_quotes_its_claims():
    assert len(quotes(PAGE)) >= 20
