"""Cards and tables in which objects show themselves, as text and as HTML.

The HTML takes colors and fonts from its page, light or dark, and fits pages 400 pixels wide: long
lines break, and a table that is too wide scrolls inside its card.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import groupby

Row = tuple[str, str]

ALARM = "#d13b30"
"""Readable on white and on black."""
ACCENT = "#3b6ea8"
SHORT_CELL = 32
"""Characters of a cell that stay on one line."""
CELL_STYLE = "padding:.1rem 1rem .1rem 0;text-align:left;vertical-align:top"
_CARD = f"border-left:3px solid {ACCENT};padding:.3rem 0 .3rem .9rem"
_ROWS = (
    "display:grid;grid-template-columns:fit-content(35%) minmax(0,1fr);"
    "column-gap:1rem;row-gap:.1rem;margin:.2rem 0 0"
)
_NAME = "margin:0;font-weight:500;opacity:.7"
_VALUE = "margin:0;overflow-wrap:anywhere"
_WHOLE = f"{_VALUE};grid-column:1/-1"
_BREAKS = (";white-space:nowrap", ";min-width:12rem")
_LINE = "padding-left:1em;text-indent:-1em"
_COLUMNS = (
    "margin:0;padding:0;border:0;background:none;color:inherit;overflow-x:auto;white-space:pre;"
    "font-size:.85em;line-height:1.4"
)


def text_card(title: str, rows: Iterable[Row]) -> str:
    """Lay out a title and its rows as text."""
    lines = list(rows)
    width = max((len(name) for name, _ in lines), default=0)
    indent = " " * (width + 4)
    return "\n".join(
        [
            title,
            *(f"  {name:<{width}}  " + text.replace("\n", f"\n{indent}") for name, text in lines),
        ]
    )


def text_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A small text table: first column aligned left, the others right."""
    cells = [list(columns), *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def html_card(
    title: str, rows: Iterable[Row], *, alarm: bool = False, above: str = "", below: str = ""
) -> str:
    """Lay out a title and its rows as HTML.

    Each line of a text is a paragraph; lines in columns (two spaces in a row) are kept in them.
    A row without a name takes the whole width. `above` and `below` the rows stands more HTML.
    """
    color = ALARM if alarm else "inherit"
    body = "".join(map(_html_row, rows))
    return (
        f'<div style="{_CARD}"><div style="font-weight:600;color:{color}">{html.escape(title)}'
        f'</div>{above}<dl style="{_ROWS}">{body}</dl>{below}</div>'
    )


def html_text(text: str, *, below: str = "") -> str:
    """A card whose title is the first line of a text; the other lines are its paragraphs."""
    title, *lines = text.splitlines()
    return html_card(title, [("", "\n".join(line.strip() for line in lines))], below=below)


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: bool = False) -> str:
    """Lay out a table as HTML that scrolls where it is too wide; long cells break.

    The first column is aligned left, the others right, or left as well.
    """
    other = CELL_STYLE if left else CELL_STYLE.replace("left", "right", 1)
    styles = [CELL_STYLE, *[other] * (len(columns) - 1)]
    head = "".join(
        f'<th scope="col" style="{style};font-weight:500;opacity:.7">{html.escape(name)}</th>'
        for name, style in zip(columns, styles, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{style}{_BREAKS[len(cell) > SHORT_CELL]}">{html.escape(cell)}</td>'
            for cell, style in zip(row, styles, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;margin:.4rem 0 0">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _html_row(row: Row) -> str:
    name, text = row
    value = _html_value(text)
    if not name:
        return f'<dd style="{_WHOLE}">{value}</dd>'
    return f'<dt style="{_NAME}">{html.escape(name)}</dt><dd style="{_VALUE}">{value}</dd>'


def _html_value(text: str) -> str:
    """Paragraphs, and runs of lines in columns."""
    parts = []
    for in_columns, run in groupby(text.split("\n"), lambda line: "  " in line.rstrip()):
        if in_columns:
            columns = html.escape("\n".join(run))
            parts.append(f'<pre style="{_COLUMNS}">{columns}</pre>')
        else:
            parts += [_html_line(line) for line in run]
    return "".join(parts)


def _html_line(line: str) -> str:
    color = f";color:{ALARM}" if is_warning(line) else ""
    return f'<div style="{_LINE}{color}">{html.escape(line)}</div>'


def is_warning(line: str) -> bool:
    """Whether a line of a card is one that must not be overlooked."""
    return line.startswith(("WARNING", "REFUSED", "NOT PRIVATE"))
