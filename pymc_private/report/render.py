"""Building blocks of a report, rendered as plain text and as one self-contained HTML page.

The page has inline style and inline pictures, no script, and fetches nothing.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from importlib.resources import files
from itertools import groupby

from pymc_private.privacy import cards
from pymc_private.release import display

WIDTH = 92
"""Columns of the text report."""
NARROW_PAGE = "34rem"
"""Pages up to this width show the narrow pictures."""


@dataclass(frozen=True)
class FieldList:
    """Pairs of title and text."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ReportTable:
    """A table of short texts whose first column names the rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class BulletList:
    """A list of sentences."""

    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Verbatim:
    """Text whose line breaks matter."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A plot as PNG, base64; the text report shows its caption only.

    Attributes
    ----------
    wide, narrow : tuple of two str
        For light and for dark pages; `narrow` is for those of a telephone.
    caption : str
    """

    wide: tuple[str, str]
    narrow: tuple[str, str]
    caption: str


Block = FieldList | ReportTable | BulletList | Verbatim | Picture


@dataclass(frozen=True)
class Section:
    """A titled part of the report; ``beside`` sections share a line where the page is wide."""

    title: str
    blocks: tuple[Block, ...]
    beside: bool = False


@singledispatch
def as_text(block: object) -> str:
    """Write a block as plain text."""
    raise TypeError(f"a report has no block {type(block).__name__}")


@as_text.register
def _(block: FieldList) -> str:
    width = max((len(title) for title, _ in block.pairs), default=0)
    return "\n".join(_hanging_paragraph(f"{title:<{width}}  ", text) for title, text in block.pairs)


@as_text.register
def _(block: ReportTable) -> str:
    body = cards.text_table(block.columns, block.rows)
    return body + ("\n" + _hanging_paragraph("", block.note) if block.note else "")


@as_text.register
def _(block: BulletList) -> str:
    return "\n".join(_hanging_paragraph("- ", sentence) for sentence in block.sentences)


@as_text.register
def _(block: Verbatim) -> str:
    return block.text


@as_text.register
def _(block: Picture) -> str:
    return ""


@singledispatch
def as_html(block: object) -> str:
    """Write a block as HTML; every text is escaped."""
    raise TypeError(f"a report has no block {type(block).__name__}")


@as_html.register
def _(block: FieldList) -> str:
    items = "".join(
        f"<dt>{html.escape(title)}</dt><dd>{html.escape(text)}</dd>" for title, text in block.pairs
    )
    return f"<dl>{items}</dl>"


@as_html.register
def _(block: ReportTable) -> str:
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in block.columns)
    body = "".join(_table_row(row) for row in block.rows)
    note = f'<p class="note">{html.escape(block.note)}</p>' if block.note else ""
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{note}"
    )


@as_html.register
def _(block: BulletList) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in block.sentences) + "</ul>"


@as_html.register
def _(block: Verbatim) -> str:
    return f"<pre>{html.escape(block.text)}</pre>"


@as_html.register
def _(block: Picture) -> str:
    caption = html.escape(block.caption)
    narrow, dark = f"(max-width: {NARROW_PAGE})", "(prefers-color-scheme: dark)"
    sources = {
        f"{narrow} and {dark}": block.narrow[1],
        narrow: block.narrow[0],
        dark: block.wide[1],
    }
    if block.narrow == block.wide:
        sources = {dark: block.wide[1]}
    data = "data:image/png;base64,"
    others = "".join(
        f'<source media="screen and {media}" srcset="{data}{png}">'
        for media, png in sources.items()
    )
    return (
        f'<figure><picture>{others}<img src="{data}{block.wide[0]}" alt="{caption}">'
        f"</picture><figcaption>{caption}</figcaption></figure>"
    )


def _table_row(row: Sequence[str]) -> str:
    first, *others = (html.escape(cell) for cell in row)
    first = re.sub(r"(?=\[)|(?<=_)", "<wbr>", first)  # long names break where people would
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'


def _hanging_paragraph(start: str, text: str) -> str:
    """Wrap a paragraph behind ``start``, later lines indented to match; keep its line breaks."""
    indent = " " * len(start)
    lines = [
        textwrap.fill(line, WIDTH - len(start), break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines() or [""]
    ]
    return start + "\n".join(lines).replace("\n", "\n" + indent)


def fragment(
    title: str,
    subtitle: str,
    headline: str,
    claim: str,
    assumptions: Sequence[str],
    sections: Sequence[Section],
    *,
    alarm: bool,
    learned: Sequence[str] = (),
) -> str:
    """The report as an ``article`` that may stand in a notebook.

    `headline` is epsilon and delta, or that there is none; the `assumptions` are set as large as
    it. `alarm` marks a release that is not private; `learned` are sentences on what draws tell.
    """
    kind = "alarm" if alarm else "figures"
    body = "".join(_section_run(beside, list(run)) for beside, run in groupby(sections, _is_beside))
    told = "".join(map(_told_paragraph, learned))
    style = files("pymc_private.report").joinpath("style.css").read_text("utf-8")
    return (
        f'<style>{style}</style><article class="pmp"><header><p class="kicker">Privacy report</p>'
        f'<h1>{html.escape(title)}</h1><p class="sub">{html.escape(subtitle)}</p>{told}</header>'
        f'<div class="promise"><p class="loud {kind}">{html.escape(headline)}</p>'
        f"{'' if alarm else _claim_and_assumptions(claim, assumptions)}</div>{body}</article>"
    )


def _told_paragraph(sentence: str) -> str:
    kind = ' class="alarm"' if cards.is_warning(sentence) else ""
    return f"<p{kind}>{html.escape(sentence)}</p>"


def page(title: str, body: str) -> str:
    """A complete HTML document around a fragment."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{html.escape(title)}</title>"
        "<style>body{margin:0;background:#fff}"
        "@media screen and (prefers-color-scheme:dark){body{background:#15181c}}</style>"
        f"</head><body>{body}</body></html>\n"
    )


def _claim_and_assumptions(claim: str, assumptions: Sequence[str]) -> str:
    """The claim and the assumptions, in the font size of epsilon."""
    texts = assumptions or (display.ONLY_ASSUMED,)
    paragraphs = "".join(f'<p class="loud">{html.escape(text)}</p>' for text in texts)
    return (
        f'<p class="label">claim</p><p class="loud">{html.escape(claim)}</p>'
        f'<p class="label">assuming</p>{paragraphs}'
    )


def _is_beside(section: Section) -> bool:
    return section.beside


def _section_run(beside: bool, sections: list[Section]) -> str:
    inner = "".join(_section_html(section) for section in sections)
    return f'<div class="beside">{inner}</div>' if beside else inner


def _section_html(section: Section) -> str:
    blocks = "".join(map(as_html, section.blocks))
    return f"<section><h2>{html.escape(section.title)}</h2>{blocks}</section>"
