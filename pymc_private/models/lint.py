"""Rules of `lint` about numbers written into a model that equal a statistic of the data."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from pymc_private.models.lint_facts import Column, Facts, Finding, Number

DIGITS = 6
"""A number equals a statistic if they agree when both are rounded to so many digits."""
LETTERS = (math.pi, 2 * math.pi, math.e, 2, 3, 5, math.log(2), math.log(10), np.euler_gamma)
POWERS = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
KNOWN = (
    *(f * letter**power for letter in LETTERS for power in POWERS for f in (0.5, 1.0, 2.0)),
    math.log(2 * math.pi),
    0.5 * math.log(2 * math.pi),
    math.pi / math.sqrt(3),
)
"""Numbers that formulas are full of."""
QUANTILES = (0.05, 0.1, 0.25, 0.75, 0.9, 0.95)
MULTIPLES = (0.5, 2.0, 2.5, 3.0, 5.0, 10.0)
"""Multiples of a standard deviation that automatic priors use."""
STRETCHES = (1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6, 1.75, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0)
"""How far beyond the data a Gaussian process on a range (HSGP) is usually spread."""


@dataclass(frozen=True)
class Match:
    """A statistic of a column, in words."""

    words: str
    column: Column
    kind: str  # "order": of entries of the data; "moment": of all of them; "count"


def is_plain(number: float) -> bool:
    """Whether a number would be written without data: see the rule in `lint`."""
    size = abs(number)
    if size == 0 or not math.isfinite(size):
        return True
    fraction = Fraction(size).limit_denominator(12)
    plain = (float(f"{size:.1e}"), *KNOWN, *([float(fraction)] if fraction.numerator <= 12 else []))
    return any(math.isclose(size, value, rel_tol=1e-7) for value in plain)


def is_coarse(column: Column) -> bool:
    """Whether all values have at most three decimals, as a questionnaire's do."""
    values = column.finite
    return bool(np.all(np.abs(values - np.round(values, 3)) <= 1e-9 * np.maximum(1, abs(values))))


def constant_equals_statistic(facts: Facts) -> Iterator[Finding]:
    """A number of a prior or likelihood equals a moment, quantile or count of a column."""
    table = _table(facts, _statistics) if facts.numbers else {}
    _add_ratios(table, facts)
    for number, matches in _matched(facts, table):
        yield Finding(
            "constant",
            "hint" if all(_may_be_innocent(match) for match in matches) else "warning",
            number.where,
            f"a number here equals {_listed(matches)} to {DIGITS} digits",
            "write a number that was fixed before the data were seen, such as "
            "pm.Normal(..., mu=0, sigma=10)",
        )


def range_baked_in(facts: Facts) -> Iterator[Finding]:
    """A number equals the midpoint or half-range of a column, as pm.gp.HSGP computes them."""
    table = _table(facts, _ranges) if facts.numbers else {}
    for number, matches in _matched(facts, table):
        yield Finding(
            "range",
            "hint" if all(_may_be_innocent(match) for match in matches) else "warning",
            number.where,
            f"a number here equals {_listed(matches)} to {DIGITS} digits; pm.gp.HSGP takes its "
            "X_center, and L if given c=, from the data's range",
            "fix both by public ends before the data come in: gp = pm.gp.HSGP(m=[...], L=[...], "
            "cov_func=...); gp.prior_linearized(np.array([[low], [high]]))",
        )


def _statistics(column: Column) -> Iterator[tuple[str, float, str]]:
    """(words, value, kind) of one column."""
    x = column.finite
    yield "the mean", x.mean(), "moment"
    yield "the sum", x.sum(), "moment"
    for ddof, suffix in ((0, ""), (1, " (n - 1)")):
        sd = x.std(ddof=ddof)
        yield f"the sd{suffix}", sd, "moment"
        yield f"the variance{suffix}", sd**2, "moment"
        for factor in MULTIPLES:
            yield f"{factor:g} sd{suffix}", factor * sd, "moment"
        if sd > 0:
            yield f"1 / sd{suffix}", 1 / sd, "moment"
            yield f"2.5 / sd{suffix}", 2.5 / sd, "moment"
            yield f"1 / variance{suffix}", 1 / sd**2, "moment"
    yield "the min", x.min(), "order"
    yield "the max", x.max(), "order"
    yield "the median", float(np.median(x)), "order"
    for q, value in zip(QUANTILES, np.quantile(x, QUANTILES), strict=True):
        yield f"the {q:g} quantile", value, "order"


def _ranges(column: Column) -> Iterator[tuple[str, float, str]]:
    x = column.finite
    half = (x.max() - x.min()) / 2
    yield "the midpoint", (x.max() + x.min()) / 2, "order"
    yield "the half-range", half, "order"
    for stretch in STRETCHES:
        yield f"{stretch:g} half-range", stretch * half, "order"


def _table(facts: Facts, statistics: Any) -> dict[str, list[Match]]:
    """Statistics of the private columns, by their digits."""
    table: dict[str, list[Match]] = {}
    for column in (*facts.columns, *facts.arrays):
        if column.private and column.finite.size > 1:
            for words, value, kind in statistics(column):
                match = Match(f"{words} of {column.name}", column, kind)
                table.setdefault(_digits(value), []).append(match)
    return table


def _add_ratios(table: dict[str, list[Match]], facts: Facts) -> None:
    """Add Bambi's scale of a slope, 2.5 sd(y) / sd(x), and the number of records."""
    columns = [c for c in facts.columns if c.private and c.finite.size > 1]
    if not facts.numbers or not columns:
        return
    if facts.n >= 10:
        count = Match("the number of records", columns[0], "count")
        table.setdefault(_digits(facts.n), []).append(count)
    for ddof in (0, 1):
        sds = [(c, c.finite.std(ddof=ddof)) for c in columns]
        for y, over in (pair for pair in sds if pair[0].observed):
            for x, under in ((x, sd) for x, sd in sds if x.array is not y.array and sd > 0):
                for factor in (1.0, 2.5):
                    times = "" if factor == 1 else f"{factor:g} "
                    words = f"{times}sd of {y.name} / sd of {x.name}"
                    table.setdefault(_digits(factor * over / under), []).append(
                        Match(words, x, "moment")
                    )


def _matched(
    facts: Facts, table: Mapping[str, list[Match]]
) -> Iterator[tuple[Number, list[Match]]]:
    """Numbers that are not plain, not declared, and equal to a statistic; each once a place."""
    declared = {_digits(value) for value in facts.public}
    for number in dict.fromkeys(facts.numbers):
        digits = _digits(number.value)
        matches = table.get(digits, [])
        # A whole number equal to n is a shape more often than not.
        matches = [m for m in matches if not (m.kind == "count" and number.whole)]
        if digits in declared:
            matches = [m for m in matches if m.kind == "moment"]
        if matches and not is_plain(number.value):
            yield number, matches


def _may_be_innocent(match: Match) -> bool:
    """n is public under substitution; ends of a coarse scale are met by the data."""
    return match.kind == "count" or (match.kind == "order" and is_coarse(match.column))


def _listed(matches: list[Match]) -> str:
    words = list(dict.fromkeys(match.words for match in matches))
    return " and ".join(words[:2]) + (f" (and {len(words) - 2} more)" if len(words) > 2 else "")


def _digits(value: float) -> str:
    """The leading digits and the exponent, without the sign."""
    return f"{abs(value):.{DIGITS - 1}e}"
