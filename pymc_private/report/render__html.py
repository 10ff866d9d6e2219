"""Setting a report as one HTML page: inline style, inline pictures, no script, nothing fetched."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from itertools import groupby
from pymc_private.report.render import Section, as_html

def fragment(
    title: str,
    subtitle: str,
    promise: str,
    claim: str,
    premises: Sequence[str],
    sections: Sequence[Section],
    *,
    alarm: bool,
) -> str:
    """Set the report as an ``article`` that may stand in a notebook.

    Parameters
    ----------
    title, subtitle : str
    promise : str
        Epsilon and delta, or that there is none.
    claim : str
        Proved, conditional, or not private.
    premises : sequence of str
        Assumptions, set as large as the promise.
    sections : sequence of Section
    alarm : bool
        The release is not private.

    Returns
    -------
    str
    """
    kind = "alarm" if alarm else "figures"
    body = "".join(_run(beside, list(run)) for beside, run in groupby(sections, _is_beside))
    style = files("pymc_private.report").joinpath("style.css").read_text("utf-8")
    return (
        f'<style>{style}</style><article class="pmp"><header><p class="kicker">Privacy report</p>'
        f'<h1>{html.escape(title)}</h1><p class="sub">{html.escape(subtitle)}</p></header>'
        f'<div class="promise"><p class="loud {kind}">{html.escape(promise)}</p>'
        f"{'' if alarm else _terms(claim, premises)}</div>{body}</article>"
    )


def page(title: str, body: str) -> str:
    """Wrap a fragment as a complete document."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{html.escape(title)}</title>"
        "<style>body{margin:0;background:#fff}"
        "@media screen and (prefers-color-scheme:dark){body{background:#15181c}}</style>"
        f"</head><body>{body}</body></html>\n"
    )


def _terms(claim: str, premises: Sequence[str]) -> str:
    """Set the claim and the assumptions, each in the size of epsilon."""
    texts = premises or ("nothing beyond the theorem",)
    paragraphs = "".join(f'<p class="loud">{html.escape(text)}</p>' for text in texts)
    return (
        f'<p class="label">claim</p><p class="loud">{html.escape(claim)}</p>'
        f'<p class="label">assuming</p>{paragraphs}'
    )


def _is_beside(section: Section) -> bool:
    return section.beside


def _run(beside: bool, sections: list[Section]) -> str:
    inner = "".join(_section(section) for section in sections)
    return f'<div class="beside">{inner}</div>' if beside else inner


def _section(section: Section) -> str:
    blocks = "".join(map(as_html, section.blocks))
    return f"<section><h2>{html.escape(section.title)}</h2>{blocks}</section>"
