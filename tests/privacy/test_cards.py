"""Cards: what is shown is the text, escaped, and it can neither inject markup nor be overlooked."""

import html
import re

import pytest

from pymc_private.privacy import cards


def shown(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "\n", page))


def test_a_card_holds_every_line_and_escapes_it():
    page = cards.html_card("a < b", [("x & y", "one\ntwo"), ("", "whole <i>width</i>")])
    for text in ("a < b", "x & y", "one", "two", "whole <i>width</i>"):
        assert text in shown(page)
    assert "<i>" not in page
    assert page.count("<dt") == 1
    assert page.count("<dd") == 2


def test_columns_stay_columns_and_sentences_break():
    page = cards.html_card("t", [("values", "     mean   sd\na     1.0  2.0\nA sentence.")])
    (kept,) = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)
    assert kept == "     mean   sd\na     1.0  2.0"
    assert "overflow-x:auto" in page
    assert "A sentence." in shown(page)


@pytest.mark.parametrize("start", ["WARNING", "REFUSED", "NOT PRIVATE"])
def test_a_warning_is_colored_and_nothing_else_is(start):
    page = cards.html_text(f"Plan\n  fine\n  {start}: look here\n  fine")
    (colored,) = re.findall(rf"color:{cards.ALARM}\">(.*?)</div>", page)
    assert colored == f"{start}: look here"


def test_an_alarm_colors_the_title():
    assert f"color:{cards.ALARM}" in cards.html_card("t", [], alarm=True)
    assert f"color:{cards.ALARM}" not in cards.html_card("t", [])


def test_a_table_scrolls_and_breaks_long_cells_only():
    page = cards.html_table(("name", "what"), [["a<b", "x" * 80], ["c", "short"]], left=True)
    assert page.startswith('<div style="overflow-x:auto">')
    assert "a&lt;b" in page
    assert page.count("min-width:12rem") == 1
    assert page.count("white-space:nowrap") == 3
