"""BibTeX entries by theorem number, for the theorems that a guarantee names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

KEYS_BY_THEOREM: dict[str, tuple[str, ...]] = {
    "T1": ("dimitrakakis2017posterior", "mcsherry2007mechanism", "durfee2019practical"),
    "T2": ("cesar2021bounding", "dong2020optimal", "harrison2026exact"),
    "T3": ("dong2020optimal",),
    "T4": ("canonne2020discrete", "bun2016concentrated"),
    "T7": ("gopi2022private", "dong2022gaussian"),
    "T8": ("gopi2022private", "dong2022gaussian"),
    "T9": ("ponnoprat2023dirichlet", "geumlek2017renyi"),
    "T10": ("ponnoprat2023dirichlet", "geumlek2017renyi"),
    "T11": ("ponnoprat2023dirichlet",),
    "T12": ("ponnoprat2023dirichlet",),
    "T14": ("husain2019integral",),
    "T15": ("husain2019integral", "husain2020local"),
    "T16": ("dimitrakakis2017posterior",),
    "T20": ("dong2022gaussian",),
    "T21": ("chen2022improved",),
    "T23": ("whitehouse2023fully",),
    "T26": ("canonne2020discrete", "opendp"),
    "T25": ("bissiri2016general", "mcsherry2007mechanism"),
    "T29": ("lin2025purifying", "durfee2019practical"),
    "T30": ("dong2022gaussian",),
    "T31": ("dong2022gaussian",),
    "T33": ("bernstein2018exponential", "ju2022augmentation"),
    "T35": ("bernstein2018exponential", "bernstein2019regression"),
    "T36": ("kunsch1989conditionally", "bernstein2019regression"),
    "T38": ("kunsch1989conditionally",),
    "T39": ("jewson2023differentially", "bissiri2016general"),
}
"""Keys of `references.bib`."""


@cache
def bibliography() -> dict[str, str]:
    """The entries of `references.bib` by their keys."""
    text = files("pymc_private.release").joinpath("references.bib").read_text(encoding="utf-8")
    return {_bibtex_key(entry): entry for entry in text.strip().split("\n\n")}


def cite(theorem: str, more: Iterable[str] = ()) -> str:
    """Collect BibTeX entries for the T-numbers named in ``theorem``, then ``more``, each once.

    Examples
    --------
    >>> print(cite("T3").splitlines()[0])
    @inproceedings{dong2020optimal,
    """
    entries = bibliography()
    numbers = _theorem_numbers(theorem)
    named = [entries[key] for number in numbers for key in KEYS_BY_THEOREM.get(number, ())]
    once: dict[str, str] = {}
    for entry in [*named, *more]:
        once.setdefault(_bibtex_key(entry), entry.strip())
    return "\n\n".join(once.values())


def _theorem_numbers(theorem: str) -> Iterator[str]:
    """List the T-numbers in a text; ``T1-T3`` names three."""
    for first, last in re.findall(r"\bT(\d+)[a-d]?(?:\s*[-–]\s*T?(\d+)[a-d]?)?\b", theorem):
        yield from (f"T{number}" for number in range(int(first), int(last or first) + 1))


def _bibtex_key(entry: str) -> str:
    """Entries are one if their BibTeX keys are; text without a key counts as itself."""
    found = re.match(r"\s*@\w+\s*\{\s*([^,\s]+)", entry)
    return found.group(1) if found else entry.strip()
