"""The report on a release: one text, one page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from pymc_private.errors import DomainError, Incompatible
from pymc_private.release import display
from pymc_private.release.release import Release
from pymc_private.release.storage import write_atomically
from pymc_private.privacy.rounding__printing import counted
from pymc_private.report import render__html, report__words
from pymc_private.report.render import Rows, Section, WIDTH, as_text
from pymc_private.report.report import sections_of

@dataclass(frozen=True, repr=False)
class Report:
    """A finished report.

    Attributes
    ----------
    text : str
        Plain text, for a terminal or a log.
    html : str
        A complete page: inline style and pictures, no script, nothing fetched.
    fragment : str
        The same as an ``article``, as notebooks show it.
    """

    text: str
    html: str
    fragment: str

    def save(self, path: str | os.PathLike[str] = "report.html") -> Path:
        """Write the page, whole or not at all; an older one is replaced."""
        return write_atomically(path, self.html.encode("utf-8"))

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.fragment


def report(release: Release, ledger: Any = None) -> Report:
    """Report on a release: promise, assumptions, budget and posterior, side by side.

    Everything in it is public or computed from the released draws, so it may be published with
    them. It shows which charges were made, never when or which were drawn to the end.

    Parameters
    ----------
    release : Release
    ledger : Ledger, optional
        For the account of spent and left; else the facts of the release say what they know.

    Returns
    -------
    Report

    Raises
    ------
    DomainError
        Not a release, or not a ledger.
    Incompatible
        The ledger counts other neighbors than the release.
    """
    if not isinstance(release, Release):
        raise DomainError(
            "A report is about a release.",
            got=type(release).__name__,
            do="pmp.load(path) for a saved one",
        )
    if ledger is not None and not hasattr(ledger, "neighbors"):
        raise DomainError(
            "The account is that of a ledger.",
            got=type(ledger).__name__,
            do="pmp.Ledger.open(path) opens one; report(release).save(path) writes a file",
        )
    if ledger is not None and ledger.neighbors != release.guarantee.neighbors:
        raise Incompatible(
            "Ledger and release speak of different neighbors.",
            got=ledger.neighbors,
            allowed=release.guarantee.neighbors,
        )
    title = release.facts.get("name") or display.law_of(release).capitalize()
    sections = sections_of(release, ledger)
    premises = display.assumptions(release)
    body = render__html.fragment(
        title, _subtitle(release), _promise(release), report__words.claim(release), premises, sections,
        alarm=not release.private,
    )  # fmt: skip
    return Report(
        _text(title, release, sections), render__html.page(f"{title}: privacy report", body), body
    )


def _promise(release: Release) -> str:
    if not release.private:
        return display.promise(release)
    epsilon, delta = display.stated(release)
    return f"ε = {_power(display.number(epsilon))} nats,  δ = {_power(display.number(delta))}"


def _power(number: str) -> str:
    """Write 1e-6 as 10⁻⁶."""
    mantissa, e, exponent = number.partition("e")
    if not e:
        return number
    raised = exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if mantissa == "1" else f"{mantissa}·10{raised}"


def _subtitle(release: Release) -> str:
    names = ", ".join(display.shape_of(array) for array in release.posterior.data_vars.values())
    return f"{counted(release.posterior.sizes['draw'], 'draw')} of {names}"


def _text(title: str, release: Release, sections: Sequence[Section]) -> str:
    head = [
        f"Privacy report: {title}",
        _subtitle(release),
        "",
        display.promise(release),
    ]
    if release.private:
        premises = display.assumptions(release) or ("nothing beyond the theorem",)
        head += [f"claim: {report__words.claim(release)}", as_text(Rows(tuple(
            ("assuming" if i == 0 else "", premise) for i, premise in enumerate(premises)
        )))]  # fmt: skip
    parts = ["\n".join(head)]
    for section in sections:
        texts = [text for text in map(as_text, section.blocks) if text]
        if texts:
            parts.append("\n".join([section.title, "-" * len(section.title), *texts]))
    rule = "=" * WIDTH
    return f"{rule}\n" + "\n\n".join(parts) + f"\n{rule}"
