"""Numbers of claims in prose follow their reports."""

import json

import pytest

from headstart.core.errors import HeadstartError
from headstart.lab.quotes import quotes, renew, short

CLAIM = {"id": "gap", "estimate": 0.8123, "low": 0.77, "high": 0.8549, "verdict": "holds"}
LINK = '](results/paper/study.md "gap: holds")'


@pytest.fixture
def page(tmp_path):
    (tmp_path / "results" / "paper").mkdir(parents=True)
    (tmp_path / "results" / "paper" / "study.json").write_text(json.dumps({"claims": [CLAIM]}))
    return tmp_path / "page.md"


def test_a_number_is_written_as_its_report_has_it_and_nothing_else_changes(page):
    page.write_text(f"It takes [1.5 [1, 2]{LINK} of the steps, [9{LINK} in short; [a link](other.md).\n")
    found = renew(page)
    assert [quote.number for quote in found] == ["1.5 [1, 2]", "9"]
    assert page.read_text() == (
        f"It takes [0.81 [0.77, 0.85]{LINK} of the steps, [0.812{LINK} in short; [a link](other.md).\n"
    )
    assert all(quote.number == quote.reported and not quote.turned for quote in quotes(page))


def test_a_verdict_that_turned_is_said_and_left_for_a_person(page):
    page.write_text('[0.81](results/paper/study.md "gap: undecided")')
    (quote,) = renew(page)
    assert quote.turned == "page.md:1: gap was 'undecided' and is 'holds': mend the sentence"
    assert "undecided" in page.read_text()


def test_a_claim_or_a_report_that_is_not_there_is_named(page):
    page.write_text('\n[1](results/paper/study.md "gone: holds")')
    with pytest.raises(HeadstartError, match=r"page\.md:2: results/paper/study has no claim 'gone'; it has gap"):
        quotes(page)
    page.write_text('[1](results/paper/other.md "gap: holds")')
    with pytest.raises(HeadstartError, match="results/paper/other, which has no report"):
        quotes(page)


def test_numbers_have_two_decimals_or_two_digits():
    assert [short(x) for x in (0.8, 1.2345, 0.0123, 250.4, 0.0, None)] == [
        "0.80",
        "1.23",
        "0.012",
        "2.5e+02",
        "0.00",
        "∞",
    ]
