"""Rules of `lint` about whole columns: scaled by themselves, indexes learned, records met twice."""

from __future__ import annotations

import numpy as np
from collections.abc import Iterator
from typing import Any
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pymc_private.models.lint_facts import Column, Facts, Finding, named, roots_of
from pymc_private.models.lint import is_coarse

LAGS = (1, 2, 3)
FEWEST = 8
"""Distinct values that a column must have before a copy of it means anything."""
PUBLIC_SCALE = "scale by public ends: scale = pmp.Scale(lower=[...], upper=[...]); X = scale(raw)"


def scaled_by_itself(facts: Facts) -> Iterator[Finding]:
    """A column was centered, standardized or stretched by its own statistics."""
    alike: dict[tuple[Variable, str, str], list[Column]] = {}
    for column in facts.columns:
        if column.private and column.finite.size > 2:
            alike.setdefault((column.array, *_scaled(column)), []).append(column)
    for (_, severity, what), columns in alike.items():
        if what:
            centered = facts.is_bambi and "centered" in what
            cure = "bmb.Model(..., center_predictors=False), or " if centered else ""
            yield Finding("scaled", severity, named(columns), what, cure + PUBLIC_SCALE)


def _scaled(column: Column) -> tuple[str, str]:
    """(severity, what was done) of one column; nothing if it looks raw."""
    x = column.finite
    if is_coarse(column):
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
    if low == 0 and high == 1 and np.unique(x).size >= FEWEST:
        return "hint", "may have been scaled by the data's own min and max: it reaches both 0 and 1"
    return "", ""


def _is_symmetric(x: np.ndarray) -> bool:
    """Whether the values come in pairs of opposite sign: a design, not an accident."""
    ordered = np.sort(x)
    return bool(np.allclose(ordered, -ordered[::-1], rtol=0, atol=1e-9 * abs(x).max()))


def levels_learned(facts: Facts) -> Iterator[Finding]:
    """A whole-number column takes every value of the dim that it indexes, and no more."""
    whole = {c.array: c for c in facts.columns if c.private and _is_full_range(c.finite)}
    met = set()
    for variable in ancestors(roots_of(facts.model)) if whole else ():
        node = variable.owner
        if node is None or not type(node.op).__name__.startswith("AdvancedSubtensor"):
            continue
        sizes = _sizes(facts.model, node.inputs[0])
        for index in ancestors(node.inputs[1:]):
            column = whole.get(index)
            if column is None or index in met or column.finite.max() + 1 not in sizes:
                continue
            met.add(index)
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


def _sizes(model: Any, variable: Variable) -> set[int]:
    """Lengths of an array's axes, as far as they are written in its type or its dims."""
    sizes = {size for size in variable.type.shape if size is not None}
    for dim in model.named_vars_to_dims.get(variable.name) or ():
        labels = model.coords.get(dim)
        sizes |= {len(labels)} if labels is not None else set()
    return sizes


def lagged(facts: Facts) -> Iterator[Finding]:
    """A column is another one moved by one to three rows: a record stands in two rows."""
    columns = _comparable(facts)
    for lag in LAGS:
        heads: dict[bytes, list[Column]] = {}
        for column in columns:
            heads.setdefault(_key(column.values[:-lag]), []).append(column)
        for late in columns:
            early = heads.get(_key(late.values[lag:]), [])
            if any(c.private for c in (late, *early)) and early:
                rows = "one row" if lag == 1 else f"{lag} rows"
                yield Finding(
                    "lag",
                    "warning",
                    late.name,
                    f"is {named(early)} moved by {rows}, so that a record stands in two rows",
                    "leave the lag out, or make one record of a person's whole series, a row each",
                )


def _key(values: np.ndarray) -> bytes:
    """The values as bytes, zero without a sign."""
    return (values + 0.0).tobytes()


def copied(facts: Facts) -> Iterator[Finding]:
    """A column equals one of another array, exactly or by a straight line."""
    columns = _comparable(facts)
    if len(columns) < 2:
        return
    alike = np.abs(np.corrcoef([c.values for c in columns])) > 1 - 1e-12
    for i, first in enumerate(columns):
        twins = [
            c for j, c in enumerate(columns) if j > i and alike[i, j] and c.array is not first.array
        ]
        if not twins or not any(c.private for c in (first, *twins)):
            continue
        open_too = not all(c.private for c in (first, *twins))
        yield Finding(
            "copy",
            "warning" if open_too else "hint",
            first.name,
            f"stands a second time in {named(twins)}, as it is or by a straight line"
            + ("; one of them is public" if open_too else ": the bound counts it twice"),
            'hold it once, x = pm.Data("x", ..., dims=...), and compute what else is needed from x',
        )


def _comparable(facts: Facts) -> list[Column]:
    """Finite columns with enough distinct values that are no mere row numbers."""
    return [
        c
        for c in facts.columns
        if np.isfinite(c.values).all()
        and np.unique(c.values).size >= FEWEST
        and not np.allclose(np.diff(c.values, n=2), 0, atol=1e-9 * abs(c.values).max())
    ]
