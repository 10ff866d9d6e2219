"""The few shapes that a report is made of, each written as text and as HTML."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from pymc_private.release import display

WIDTH = 92  # columns of the text report


@dataclass(frozen=True)
class Rows:
    """Pairs of title and text."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """Columns of short texts, the first one names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Verbatim:
    """Text whose line breaks matter."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A plot as light and dark PNG, base64; the text report shows its caption only."""

    light: str
    dark: str
    caption: str


Block = Rows | Table | Points | Verbatim | Picture


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
def _(block: Rows) -> str:
    width = max((len(title) for title, _ in block.pairs), default=0)
    return "\n".join(_hanging(f"{title:<{width}}  ", text) for title, text in block.pairs)


@as_text.register
def _(block: Table) -> str:
    body = display.table(block.columns, block.rows)
    return body + ("\n" + _hanging("", block.note) if block.note else "")


@as_text.register
def _(block: Points) -> str:
    return "\n".join(_hanging("- ", sentence) for sentence in block.sentences)


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
def _(block: Rows) -> str:
    items = "".join(
        f"<dt>{html.escape(title)}</dt><dd>{html.escape(text)}</dd>" for title, text in block.pairs
    )
    return f"<dl>{items}</dl>"


@as_html.register
def _(block: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in block.columns)
    body = "".join(_table_row(row) for row in block.rows)
    note = f'<p class="note">{html.escape(block.note)}</p>' if block.note else ""
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{note}"
    )


@as_html.register
def _(block: Points) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in block.sentences) + "</ul>"


@as_html.register
def _(block: Verbatim) -> str:
    return f"<pre>{html.escape(block.text)}</pre>"


@as_html.register
def _(block: Picture) -> str:
    caption = html.escape(block.caption)
    data = "data:image/png;base64,"
    return (
        "<figure><picture>"
        f'<source media="screen and (prefers-color-scheme: dark)" '
        f'srcset="{data}{block.dark}">'
        f'<img src="{data}{block.light}" alt="{caption}">'
        f"</picture><figcaption>{caption}</figcaption></figure>"
    )


def _table_row(row: Sequence[str]) -> str:
    first, *others = (html.escape(cell) for cell in row)
    first = re.sub(r"(?=\[)|(?<=_)", "<wbr>", first)  # long names break where people would
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'


def _hanging(start: str, text: str) -> str:
    """Wrap a paragraph behind ``start``, later lines indented to match; keep its line breaks."""
    indent = " " * len(start)
    lines = [
        textwrap.fill(line, WIDTH - len(start), break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines() or [""]
    ]
    return start + "\n".join(lines).replace("\n", "\n" + indent)
