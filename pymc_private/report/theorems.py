"""What the theorems under a guarantee speak of, for who reads a report and no theory page."""

from __future__ import annotations

import re
from collections.abc import Iterator

TITLES = {
    "T1": "bounded range of posterior draws",
    "T2": "one draw of bounded range",
    "T3": "exact curve of several draws from one posterior",
    "T4": "conversion to epsilon and delta",
    "T5": "ranges of common records",
    "T6": "stochastic Lipschitz condition",
    "T7": "Gaussian privacy of log-concave posteriors",
    "T8": "gradients of common log-concave models",
    "T9": "Dirichlet draws when a record is substituted",
    "T10": "Dirichlet draws when a record is added or removed",
    "T11": "several tables and vectors of counts",
    "T12": "calibration of a Dirichlet draw",
    "T13": "conjugate posteriors",
    "T14": "gain of boosted density estimation",
    "T15": "mollified draws",
    "T16": "answers from draws",
    "T17": "envelope of an estimated tail",
    "T18": "draws near a private distribution",
    "T19": "states of one chain",
    "T20": "noise that hides a distance",
    "T21": "proximal sampling",
    "T22": "structure of log-concave models",
    "T23": "fixed budget, adaptive charges",
    "T24": "units, cells and regions",
    "T25": "clipped likelihoods",
    "T26": "noisy counts",
    "T27": "reconstruction floor",
    "T28": "mass on a mode",
    "T29": "pure guarantees from nearly exact draws",
    "T30": "sums with Gaussian noise",
    "T31": "sensitivity of sums",
    "T32": "clipped scores of an outcome with two values",
    "T33": "noisy counts of cells",
    "T34": "pooled scores of whole records",
    "T35": "noisy sums of conjugate families",
    "T36": "noisy scores",
    "T37": "pilots of a part of the records",
    "T38": "score tests of a summarized model",
    "T39": "beta-divergence in place of a likelihood",
}
"""Titles of the theorems of ``docs/theory.md``, each under its number."""

_NUMBERS = re.compile(r"T(\d+)[a-d]?(?:-T(\d+))?")


def theorem_text(theorem: str) -> str:
    """Numbers of theorems, what each speaks of, and where it is proved.

    `theorem` is that of a guarantee: numbers, and ranges of numbers, in any text.
    """
    if not theorem:
        return "not proved"
    text = f"{theorem}: stated and proved in docs/theory.md, each under its number"
    titles = "; ".join(f"{number} {TITLES[number]}" for number in _named(theorem))
    return f"{text} ({titles})" if titles and "(" not in theorem else text


def _named(theorem: str) -> Iterator[str]:
    """The theorems that are named, alone or in a range."""
    spans = [(int(low), int(high or low)) for low, high in _NUMBERS.findall(theorem)]
    return (n for n in TITLES if any(low <= int(n[1:]) <= high for low, high in spans))
