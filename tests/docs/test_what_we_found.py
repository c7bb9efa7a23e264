"""The page for somebody who will not read the rest."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "what_we_found.md"


def test_what_was_found_is_said_in_at_most_800_words_with_links_to_claims():
    text = PAGE.read_text()
    assert len(text.split()) <= 800
    assert text.count("](results/less_data/") >= 8
