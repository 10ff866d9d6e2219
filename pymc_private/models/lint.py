"""Lint: warnings for the curator where a model looks computed from its private data.

Each rule is a generator of findings: numbers that equal a statistic of a column, priors and terms
that Bambi scaled by the data, columns scaled by themselves, and records that occur twice. Findings
are computed from the private data and are not to be published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_private.errors import DomainError, suggest_arguments
from pymc_private.models.bambi import automatic_priors, stateful_terms
from pymc_private.models.declare import resolve_model
from pymc_private.models.lint_facts import (
    DataColumn,
    EmbeddedNumber,
    Finding,
    LintFacts,
    collect_facts,
    list_column_names,
    model_factors,
)
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import cards

CURATOR_ONLY = "for the curator: not to be published"
NOTHING_FOUND = "nothing found, which proves nothing: only you know where the constants came from"
EULER = np.euler_gamma
DIGITS = 6
"""A number equals a statistic if they agree when both are rounded to this many digits."""
FORMULA_CONSTANTS = (math.pi, 2 * math.pi, math.e, 2, 3, 5, math.log(2), math.log(10), EULER)
POWERS = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
KNOWN_NUMBERS = (
    *(f * c**power for c in FORMULA_CONSTANTS for power in POWERS for f in (0.5, 1.0, 2.0)),
    math.log(2 * math.pi),
    0.5 * math.log(2 * math.pi),
    math.pi / math.sqrt(3),
)
"""Numbers that are common in formulas."""
QUANTILES = (0.05, 0.1, 0.25, 0.75, 0.9, 0.95)
MULTIPLES = (0.5, 2.0, 2.5, 3.0, 5.0, 10.0)
"""Multiples of a standard deviation that automatic priors use."""
STRETCHES = (1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6, 1.75, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Usual ratios of the range of a Gaussian process (HSGP) to that of the data."""
LAGS = (1, 2, 3)
FEWEST_DISTINCT = 8
"""Distinct values that a column must have before a copy of it means anything."""
PUBLIC_SCALE = "scale by public bounds: scale = pmp.Scale(lower=[...], upper=[...]); X = scale(raw)"


@dataclass(frozen=True, repr=False)
class LintReport(Sequence[Finding]):
    """What `lint` found, a sequence; for the curator: not to be published.

    True if there is anything. Each finding has a ``rule``, a ``severity`` ("warning": if true it
    voids the guarantee; "hint": may well be innocent), a place (``where``), a ``message`` and a
    ``fix``. None quotes a number of the data, but whether there is a finding depends on them.

    Attributes
    ----------
    findings : tuple of Finding
        Warnings first.
    """

    findings: tuple[Finding, ...] = ()

    def __getitem__(self, index: Any) -> Any:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that would void the guarantee."""
        return tuple(f for f in self.findings if f.severity == "warning")

    def to_frame(self) -> pd.DataFrame:
        """One row per finding: rule, severity, where, message, fix."""
        columns = [field.name for field in fields(Finding)]
        return pd.DataFrame([astuple(f) for f in self.findings], columns=columns)

    def _title(self) -> str:
        hints = len(self) - len(self.warnings)
        counts = f"warnings: {len(self.warnings)}, hints: {hints}" if self else NOTHING_FOUND
        return f"{counts} ({CURATOR_ONLY})"

    def __repr__(self) -> str:
        lines = [f"LintReport: {self._title()}"]
        for f in self.findings:
            lines += [
                f"  {f.severity:8s} {f.rule}: {f.where}",
                f"           {f.message}",
                f"           fix: {f.fix}",
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names = [field.name for field in fields(Finding)]
        table = cards.html_table(names, map(astuple, self.findings), left=True) if self else ""
        return cards.html_card(f"LintReport: {self._title()}", [], alarm=True, below=table)


@suggest_arguments
def lint(model: Any = None, *, records: str | Mapping[str, int] | None = None) -> LintReport:
    """Look for constants of a model that seem computed from its private data.

    For the curator: not to be published, not even how many findings there were. The guarantee
    assumes that priors and all other constants were fixed without looking at the data; this
    function reads the data to tell where that may be false. It changes nothing, nothing else calls
    it, and finding nothing proves nothing. Looked for:

    - *constant*: a number of a prior, likelihood or potential that equals, to 6 digits, a mean,
      sum, sd, variance, quantile or extreme of a column, or a usual multiple of a sd;
    - *automatic prior*, *transform*: priors that Bambi scaled by the data, and terms such as
      ``scale(x)``, ``bs(x)`` or ``hsgp(x)`` with a state computed from them;
    - *scaled*: a column centered, standardized or stretched by its own statistics;
    - *range*: the middle of a column, or a usual multiple of half its range, as `pymc.gp.HSGP`
      writes them into the graph;
    - *levels*: an index that takes every level of its dim (a hint);
    - *lag*: a column that is another one moved by 1 to 3 rows;
    - *copy*: a column that occurs in two arrays (a hint, unless one of them is public).

    A number is never reported if it would be written without data: one with at most two significant
    digits, a fraction of whole numbers up to 12, a known constant (pi, e, roots and logarithms of
    small numbers), or a bound of a domain declared in `privatize`. The number of records is
    reported from 10 on, and only as a hint, since it is public under substitution. Quantiles,
    extremes and ranges of columns with at most three decimals are hints: data reach the ends of a
    coarse scale.

    Parameters
    ----------
    model : pymc.Model, Bambi model or PrivateModel, optional
        Left untouched (a Bambi model is built if it was not). Default: the model of the context.
        Prefer the model itself: data of a PrivateModel are already clipped, and Bambi's marks gone.
    records : str or dict, optional
        As for `privatize`. Default: whatever is as long as the longest axis of the observed data.

    Returns
    -------
    LintReport

    Raises
    ------
    DomainError
        This is not a model, `records` names no dim, array or axis of it, or was given together with
        a PrivateModel, which knows its own.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_private as pmp
    >>> y = np.random.default_rng(1).normal(size=50)
    >>> with pm.Model(coords={"person": range(50)}) as model:
    ...     mu = pm.Normal("mu", 0, 2.5 * y.std())
    ...     seen = pm.Normal("y", mu, 1, observed=y, dims="person")
    >>> [finding.message for finding in pmp.lint(model, records="person")]
    ["a number here equals 2.5 sd of 'y' to 6 digits"]
    """
    if isinstance(model, PrivateModel):
        if records is not None:
            raise DomainError(
                "a PrivateModel knows its records",
                got=f"records={records!r}",
                allowed="no records=",
                do="leave it out",
            )
        base = model.base
    else:
        base = resolve_model(model)
    facts = collect_facts(base if model is None else model, base, records)
    with np.errstate(all="ignore"):  # no warning of NumPy may depend on the data
        found = [finding for rule in RULES for finding in rule(facts)]
    found = sorted(dict.fromkeys(found), key=lambda finding: finding.severity != "warning")
    return LintReport(tuple(found))


def constant_equals_statistic(facts: LintFacts) -> Iterator[Finding]:
    """A number of a prior or likelihood equals a moment, quantile or count of a column."""
    table = _statistics_by_digits(facts, _statistics) if facts.numbers else {}
    _add_ratios(table, facts)
    for number, matches in _matched_numbers(facts, table):
        yield Finding(
            "constant",
            "hint" if all(_may_be_innocent(match) for match in matches) else "warning",
            number.where,
            f"a number here equals {_list_matches(matches)} to {DIGITS} digits",
            "write a number that was fixed before the data were seen, such as "
            "pm.Normal(..., mu=0, sigma=10)",
        )


def embedded_range(facts: LintFacts) -> Iterator[Finding]:
    """A number equals the midpoint or half-range of a column, as pm.gp.HSGP computes them."""
    table = _statistics_by_digits(facts, _range_statistics) if facts.numbers else {}
    for number, matches in _matched_numbers(facts, table):
        yield Finding(
            "range",
            "hint" if all(_may_be_innocent(match) for match in matches) else "warning",
            number.where,
            f"a number here equals {_list_matches(matches)} to {DIGITS} digits; pm.gp.HSGP takes "
            "its X_center, and L if given c=, from the data's range",
            "fix both by public bounds before the data come in: gp = pm.gp.HSGP(m=[...], L=[...], "
            "cov_func=...); gp.prior_linearized(np.array([[low], [high]]))",
        )


@dataclass(frozen=True)
class StatisticMatch:
    """A statistic of a column, described.

    Its kind is "order" for an order statistic, "moment" for one of all entries, or "count".
    """

    words: str
    column: DataColumn
    kind: str


def is_plain_number(number: float) -> bool:
    """Whether a number is likely to have been written without data; see `lint` for the rule."""
    size = abs(number)
    if size == 0 or not math.isfinite(size):
        return True
    fraction = Fraction(size).limit_denominator(12)
    plain = (
        float(f"{size:.1e}"),
        *KNOWN_NUMBERS,
        *([float(fraction)] if fraction.numerator <= 12 else []),
    )
    return any(math.isclose(size, value, rel_tol=1e-7) for value in plain)


def is_coarse_column(column: DataColumn) -> bool:
    """Whether all values have at most three decimals, as those of a questionnaire do."""
    values = column.finite
    return bool(np.all(np.abs(values - np.round(values, 3)) <= 1e-9 * np.maximum(1, abs(values))))


def _statistics(column: DataColumn) -> Iterator[tuple[str, float, str]]:
    """Statistics of one column, each as (words, value, kind)."""
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


def _range_statistics(column: DataColumn) -> Iterator[tuple[str, float, str]]:
    """Statistics of the range of one column, each as (words, value, kind)."""
    x = column.finite
    half = (x.max() - x.min()) / 2
    yield "the midpoint", (x.max() + x.min()) / 2, "order"
    yield "the half-range", half, "order"
    for stretch in STRETCHES:
        yield f"{stretch:g} half-range", stretch * half, "order"


def _statistics_by_digits(facts: LintFacts, statistics: Any) -> dict[str, list[StatisticMatch]]:
    """Statistics of the private columns, by their leading digits."""
    table: dict[str, list[StatisticMatch]] = {}
    for column in (*facts.columns, *facts.arrays):
        if column.private and column.finite.size > 1:
            for words, value, kind in statistics(column):
                match = StatisticMatch(f"{words} of {column.name}", column, kind)
                table.setdefault(_leading_digits(value), []).append(match)
    return table


def _add_ratios(table: dict[str, list[StatisticMatch]], facts: LintFacts) -> None:
    """Add Bambi's scale of a slope, 2.5 sd(y) / sd(x), and the number of records."""
    columns = [c for c in facts.columns if c.private and c.finite.size > 1]
    if not facts.numbers or not columns:
        return
    if facts.n >= 10:
        count = StatisticMatch("the number of records", columns[0], "count")
        table.setdefault(_leading_digits(facts.n), []).append(count)
    for ddof in (0, 1):
        sds = [(c, c.finite.std(ddof=ddof)) for c in columns]
        for y, over in (pair for pair in sds if pair[0].observed):
            for x, under in ((x, sd) for x, sd in sds if x.array is not y.array and sd > 0):
                for factor in (1.0, 2.5):
                    times = "" if factor == 1 else f"{factor:g} "
                    words = f"{times}sd of {y.name} / sd of {x.name}"
                    table.setdefault(_leading_digits(factor * over / under), []).append(
                        StatisticMatch(words, x, "moment")
                    )


def _matched_numbers(
    facts: LintFacts, table: Mapping[str, list[StatisticMatch]]
) -> Iterator[tuple[EmbeddedNumber, list[StatisticMatch]]]:
    """Numbers that equal a statistic and are neither plain nor declared; each once per place."""
    declared = {_leading_digits(value) for value in facts.public}
    for number in dict.fromkeys(facts.numbers):
        digits = _leading_digits(number.value)
        matches = table.get(digits, [])
        # A whole number equal to n is a shape more often than not.
        matches = [m for m in matches if not (m.kind == "count" and number.whole)]
        if digits in declared:
            matches = [m for m in matches if m.kind == "moment"]
        if matches and not is_plain_number(number.value):
            yield number, matches


def _may_be_innocent(match: StatisticMatch) -> bool:
    """Whether a match is a count, public under substitution, or an extreme of a coarse scale."""
    return match.kind == "count" or (match.kind == "order" and is_coarse_column(match.column))


def _list_matches(matches: list[StatisticMatch]) -> str:
    words = list(dict.fromkeys(match.words for match in matches))
    return " and ".join(words[:2]) + (f" (and {len(words) - 2} more)" if len(words) > 2 else "")


def _leading_digits(value: float) -> str:
    """The leading digits and the exponent, without the sign."""
    return f"{abs(value):.{DIGITS - 1}e}"


def automatic_prior(facts: LintFacts) -> Iterator[Finding]:
    """Bambi scaled a prior by the data: it is marked `auto_scale` and has odd numbers."""
    for term, prior in automatic_priors(facts.original) if facts.is_bambi else ():
        if not _is_plain_prior(prior):
            yield Finding(
                "automatic prior",
                "warning",
                f"the prior of '{term}'",
                "Bambi chose this prior from the data's own means and sds",
                f'bmb.Model(..., priors={{"{term}": {_prior_code(prior)}}}, auto_scale=False)',
            )


def stateful_transform(facts: LintFacts) -> Iterator[Finding]:
    """A term of the formula has a state computed from the data: scale(x), bs(x), hsgp(x), ..."""
    if not facts.is_bambi:
        return
    for term in stateful_terms(facts.original):
        yield Finding(
            "transform",
            "hint" if "knots" in term else "warning",
            f"the term '{term}'",
            "the transform takes its constants (means, sds, knots, ranges) from the data",
            "compute the column before the model by public constants, and name it in the "
            "formula: table['z'] = (table['x'] - low) / (high - low)",
        )


def _is_plain_prior(prior: Any) -> bool:
    """Whether all numbers of a Bambi prior, and of priors within it, are plain."""
    if hasattr(prior, "args"):
        return all(_is_plain_prior(value) for value in prior.args.values())
    values = np.asarray(prior)
    return values.dtype.kind not in "iuf" or all(map(is_plain_number, values.ravel().tolist()))


def _prior_code(prior: Any) -> str:
    """Code of a prior of the same kind, with its scale left open."""
    if prior.name.startswith("Half"):
        return 'bmb.Prior("HalfNormal", sigma=...)'
    inner = prior.args.get("sigma")
    sigma = _prior_code(inner) if hasattr(inner, "args") else "..."
    return f'bmb.Prior("Normal", mu=0, sigma={sigma})'


def self_scaled(facts: LintFacts) -> Iterator[Finding]:
    """A column was centered, standardized or stretched by its own statistics."""
    groups: dict[tuple[Variable, str, str], list[DataColumn]] = {}
    for column in facts.columns:
        if column.private and column.finite.size > 2:
            groups.setdefault((column.array, *_scaling(column)), []).append(column)
    for (_, severity, what), columns in groups.items():
        if what:
            centered = facts.is_bambi and "centered" in what
            cure = "bmb.Model(..., center_predictors=False), or " if centered else ""
            yield Finding("scaled", severity, list_column_names(columns), what, cure + PUBLIC_SCALE)


def _scaling(column: DataColumn) -> tuple[str, str]:
    """Severity and description of the scaling of a column; empty if it looks raw."""
    x = column.finite
    if is_coarse_column(column):
        return "", ""
    sd, low, high = x.std(), x.min(), x.max()
    if sd <= 1e-9 * max(abs(low), abs(high)):
        return "", ""
    unit = min(abs(sd - 1), abs(x.std(ddof=1) - 1)) < 5e-7
    if unit and abs(x.mean()) < 5e-7:
        return "warning", "was scaled by the data's own mean and sd"
    if unit:
        return "warning", "was scaled by the data's own sd"
    if abs(x.mean()) <= 1e-9 * sd and not _is_symmetric(x):
        return "warning", "was centered by the data's own mean"
    if low == 0 and high == 1 and np.unique(x).size >= FEWEST_DISTINCT:
        return "hint", "may have been scaled by the data's own min and max: it reaches both 0 and 1"
    return "", ""


def _is_symmetric(x: np.ndarray) -> bool:
    """Whether the values come in pairs of opposite sign, as in a designed experiment."""
    ordered = np.sort(x)
    return bool(np.allclose(ordered, -ordered[::-1], rtol=0, atol=1e-9 * abs(x).max()))


def learned_levels(facts: LintFacts) -> Iterator[Finding]:
    """A column of whole numbers takes every value of the dim that it indexes, and no other."""
    whole = {c.array: c for c in facts.columns if c.private and _is_full_range(c.finite)}
    seen = set()
    for variable in ancestors(model_factors(facts.model)) if whole else ():
        node = variable.owner
        if node is None or not type(node.op).__name__.startswith("AdvancedSubtensor"):
            continue
        sizes = _axis_lengths(facts.model, node.inputs[0])
        for index in ancestors(node.inputs[1:]):
            column = whole.get(index)
            if column is None or index in seen or column.finite.max() + 1 not in sizes:
                continue
            seen.add(index)
            yield Finding(
                "levels",
                "hint",
                column.name,
                "takes each level of the parameter it indexes, and no other: were the levels "
                "learned from the data?",
                'declare the public list of levels, "other" among them: coords={"group": [...]}',
            )


def _is_full_range(x: np.ndarray) -> bool:
    """Whether the values are 0, 1, ..., k - 1, all of them, k at least 2."""
    levels = np.unique(x)
    return levels.size > 1 and np.array_equal(levels, np.arange(levels.size))


def _axis_lengths(model: Any, variable: Variable) -> set[int]:
    """Lengths of the axes of an array, as far as its type or its dims hold them."""
    sizes = {size for size in variable.type.shape if size is not None}
    for dim in model.named_vars_to_dims.get(variable.name) or ():
        labels = model.coords.get(dim)
        sizes |= {len(labels)} if labels is not None else set()
    return sizes


def lagged_column(facts: LintFacts) -> Iterator[Finding]:
    """A column is another one moved by one to three rows, so that a record occurs in two rows."""
    columns = _comparable_columns(facts)
    for lag in LAGS:
        heads: dict[bytes, list[DataColumn]] = {}
        for column in columns:
            heads.setdefault(_values_as_bytes(column.values[:-lag]), []).append(column)
        for late in columns:
            early = heads.get(_values_as_bytes(late.values[lag:]), [])
            if any(c.private for c in (late, *early)) and early:
                moved = "one row" if lag == 1 else f"{lag} rows"
                source = list_column_names(early)
                yield Finding(
                    "lag",
                    "warning",
                    late.name,
                    f"is {source} moved by {moved}, so that a record stands in two rows",
                    "leave the lag out, or make one record of a person's whole series, a row each",
                )


def _values_as_bytes(values: np.ndarray) -> bytes:
    """The values as bytes, with zeros of one sign."""
    return (values + 0.0).tobytes()


def copied_column(facts: LintFacts) -> Iterator[Finding]:
    """A column equals one of another array, exactly or by a linear map."""
    columns = _comparable_columns(facts)
    if len(columns) < 2:
        return
    equal = np.abs(np.corrcoef([c.values for c in columns])) > 1 - 1e-12
    for i, first in enumerate(columns):
        twins = [
            c for j, c in enumerate(columns) if j > i and equal[i, j] and c.array is not first.array
        ]
        if not twins or not any(c.private for c in (first, *twins)):
            continue
        one_is_public = not all(c.private for c in (first, *twins))
        yield Finding(
            "copy",
            "warning" if one_is_public else "hint",
            first.name,
            f"stands a second time in {list_column_names(twins)}, as it is or by a straight line"
            + ("; one of them is public" if one_is_public else ": the bound counts it twice"),
            'hold it once, x = pm.Data("x", ..., dims=...), and compute what else is needed from x',
        )


def _comparable_columns(facts: LintFacts) -> list[DataColumn]:
    """Finite columns with enough distinct values that are no mere row numbers."""
    return [
        c
        for c in facts.columns
        if np.isfinite(c.values).all()
        and np.unique(c.values).size >= FEWEST_DISTINCT
        and not np.allclose(np.diff(c.values, n=2), 0, atol=1e-9 * abs(c.values).max())
    ]


RULES: tuple[Callable[[LintFacts], Iterator[Finding]], ...] = (
    constant_equals_statistic,
    automatic_prior,
    stateful_transform,
    self_scaled,
    embedded_range,
    learned_levels,
    lagged_column,
    copied_column,
)
"""Every rule: a function from facts to findings."""
