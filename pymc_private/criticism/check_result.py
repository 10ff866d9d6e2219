"""The `Check` class: what a charged check found, with its guarantee, as a value to publish.

It holds one noisy sum for each departure and the public constants of its null distribution (T38);
z, p, estimates and intervals are computed from these.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from pymc_private.criticism.variance_law import VarianceLaw
from pymc_private.errors import DomainError, Incompatible, PointsElsewhere
from pymc_private.privacy import cards
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.release import citations, display, storage
from pymc_private.release.allowed import ALLOWED_FACTS, as_float, check_facts, dump_json
from pymc_private.release.display import format_estimate

FORMAT = 1
KIND = "pymc_private check"
LEAST_P = 1e-300
MASS = 0.9
"""Mass of the interval of a departure."""
RELEASE_FACTS = (
    "name", "epsilon", "delta", "neighbors", "records", "domain", "model", "charges", "budget",
    "ledger_head", "versions", "citations",
)  # fmt: skip
"""Facts that a check shares with releases of draws."""
CHECK_FACTS = {
    "asked": (lambda value: isinstance(value, int | float), "the epsilon that was asked for"),
    "summary": (lambda value: isinstance(value, str), "fingerprint of the summary"),
    "total": (
        lambda value: isinstance(value, int | float),
        "epsilon with the summary, without other checks and releases",
    ),
}
"""Facts of a check alone, each with a check and its description."""
TEST_NUMBERS = ("bound", "mu", "noise_sd", "null_mean", "null_sd", "whole_sd", "sensitivity",
                "level", "statistic")  # fmt: skip
TEST_ARRAYS = ("weights", "sums")
"""Of a `VarianceTest`."""
ELSEWHERE = {
    "pvalue": "check['link'].p, or check.to_frame()",
    "p": "check['link'].p, or check.to_frame()",
    "summary": "repr(check)",
    "epsilon": "check.guarantee.epsilon(delta)",
}
"""What to write in place of attributes that a check has not."""


@dataclass(frozen=True)
class DepartureTest:
    """One departure as a check found it.

    Attributes
    ----------
    name, unit : str
    statistic : float
        The noisy sum.
    bound, mu, noise_sd : float
        C, the Gaussian privacy of the sum, and the standard deviation of its noise.
    null_mean, null_sd, whole_sd : float
        Moments of the sum without noise under the fitted model, given the summary; and its standard
        deviation at known parameters.
    sensitivity : float
        What a departure of size one adds.
    level : float
        At which `smallest` is seen with probability .8.
    """

    name: str
    unit: str
    statistic: float
    bound: float
    mu: float
    noise_sd: float
    null_mean: float
    null_sd: float
    whole_sd: float
    sensitivity: float
    level: float

    @property
    def sd(self) -> float:
        """Standard deviation of the noisy sum under the fitted model."""
        return float(np.hypot(self.null_sd, self.noise_sd))

    @property
    def z(self) -> float:
        """The sum in its standard deviations under the fitted model."""
        return (self.statistic - self.null_mean) / self.sd

    @property
    def p(self) -> float:
        """Two-sided p-value, of this departure alone."""
        return float(2.0 * ndtr(-abs(self.z)))

    @property
    def estimate(self) -> float:
        """Size of the departure, to first order."""
        return (self.statistic - self.null_mean) / self.sensitivity

    @property
    def estimate_sd(self) -> float:
        """Standard deviation of the estimate."""
        return self.sd / abs(self.sensitivity)

    def interval(self, mass: float = MASS) -> tuple[float, float]:
        """Central interval of the departure, to first order."""
        reach = float(ndtri((1.0 + mass) / 2.0)) * self.estimate_sd
        return self.estimate - reach, self.estimate + reach

    @property
    def smallest(self) -> float:
        """The smallest departure that the check sees with probability .8."""
        return float(ndtri(1.0 - self.level / 2.0) + ndtri(0.8)) * self.estimate_sd


@dataclass(frozen=True)
class VarianceTest(DepartureTest):
    """A departure whose size is the standard deviation of effects among groups.

    The statistic is a sum of squares, large only where effects vary: the test is one-sided. z is
    that of a two-sided normal test with the same p.

    Attributes
    ----------
    weights : tuple of float
        Of the squares: see `VarianceLaw`.
    sums : tuple of float
        The noisy sums of all groups.
    """

    weights: tuple[float, ...]
    sums: tuple[float, ...]

    @cached_property
    def law(self) -> VarianceLaw:
        """The distribution of the statistic at any size."""
        return VarianceLaw(tuple(self.weights))

    @property
    def sd(self) -> float:
        """Standard deviation of the statistic under the fitted model."""
        return self.null_sd

    @property
    def z(self) -> float:
        """The normal deviate of `p`, 0 or more."""
        return -float(ndtri(max(self.p, LEAST_P) / 2.0))

    @property
    def p(self) -> float:
        """One-sided p-value, of this departure alone."""
        return self.law.tail(self.statistic)

    @property
    def estimate(self) -> float:
        """Median-unbiased size of the departure; 0 where the statistic is below its median."""
        return float(np.sqrt(self.law.gamma(self.statistic, 0.5)))

    @property
    def estimate_sd(self) -> float:
        """Half the length of the central interval of 68%."""
        low, high = self.interval(0.6827)
        return 0.5 * (high - low)

    def interval(self, mass: float = MASS) -> tuple[float, float]:
        """Sizes at which the statistic is in no tail."""
        tails = (1.0 - mass) / 2.0, (1.0 + mass) / 2.0
        low, high = (float(np.sqrt(self.law.gamma(self.statistic, share))) for share in tails)
        return low, high

    @property
    def smallest(self) -> float:
        """The smallest departure that the check sees with probability .8."""
        return float(np.sqrt(self.law.gamma(self.law.critical(self.level), 0.8)))


class Check(PointsElsewhere):
    """What a check of a summarized model found; may be published, with its guarantee.

    A frozen value: equal content means equal objects and, saved, equal bytes. `check["link"]` is
    one `DepartureTest`.

    Parameters
    ----------
    tests : sequence of DepartureTest
    guarantee : Guarantee
        What publishing it reveals at most, beside the summary.
    facts : mapping
        Public facts: see `CHECK_FACTS` and `RELEASE_FACTS`.
    private : bool
        False for a seeded run; then the guarantee is ``Guarantee.none(reason)``.
    cells : mapping, optional
        Noisy ``counts`` by bin of the linear predictor and bin of the probability integral
        transform, and their ``noise_sd``.
    """

    _elsewhere = ELSEWHERE
    __slots__ = ("_cells", "_facts", "_guarantee", "_private", "_tests")

    _cells: dict[str, Any] | None
    _facts: dict[str, Any]
    _guarantee: Guarantee
    _private: bool
    _tests: tuple[DepartureTest, ...]

    def __init__(
        self,
        tests: Any,
        guarantee: Guarantee,
        facts: Mapping[str, Any],
        private: bool = True,
        cells: Mapping[str, Any] | None = None,
    ) -> None:
        allowed = {key: ALLOWED_FACTS[key] for key in RELEASE_FACTS} | CHECK_FACTS
        plain = check_facts(facts, allowed)
        found = tuple(tests)
        if not found or not all(isinstance(test, DepartureTest) for test in found):
            raise DomainError(
                "a check has one test at least",
                got=f"{len(found)} tests",
                allowed="one DepartureTest or more",
                do="pmp.check makes a Check; none is made by hand",
            )
        if private == (guarantee.epsilon(as_float(plain["delta"])) == float("inf")):
            raise DomainError(
                "a private check has a finite epsilon at its delta, and a seeded one no guarantee",
                got=f"private={private}",
                allowed="private=True with a finite epsilon, private=False without one",
                do="pmp.check makes a Check; none is made by hand",
            )
        plain_cells = None if cells is None else _checked_cells(cells)
        for field, value in (
            ("_cells", plain_cells),
            ("_tests", found), ("_guarantee", guarantee), ("_facts", plain),
            ("_private", bool(private)),
        ):  # fmt: skip
            object.__setattr__(self, field, value)

    # ---- what it holds -------------------------------------------------------------------------
    @property
    def tests(self) -> tuple[DepartureTest, ...]:
        """All departures."""
        return self._tests

    @property
    def guarantee(self) -> Guarantee:
        """What publishing the check reveals at most, beside the summary."""
        return self._guarantee

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts (a copy)."""
        return dict(json.loads(dump_json(self._facts)))

    @property
    def private(self) -> bool:
        """False if its noise came from a known seed: it must not be published."""
        return self._private

    @property
    def counts(self) -> np.ndarray | None:
        """Noisy counts of cells, shape (bins of eta, bins of F); None unless they were checked."""
        return None if self._cells is None else np.array(self._cells["counts"])

    @property
    def counts_noise_sd(self) -> float:
        """Standard deviation of the noise of each count; NaN without cells."""
        return float("nan") if self._cells is None else float(self._cells["noise_sd"])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content, hex; it finds damage and is not a signature."""
        return hashlib.sha256(dump_json(self._content()).encode()).hexdigest()

    def __getitem__(self, name: str) -> DepartureTest:
        """One departure by its name."""
        for test in self._tests:
            if test.name.replace(" ", "") == str(name).replace(" ", ""):
                return test
        raise KeyError(f"no departure {name!r}; allowed: {', '.join(t.name for t in self._tests)}")

    @property
    def p_holm(self) -> dict[str, float]:
        """P-values by name, adjusted for all departures of the check (Holm 1979)."""
        return dict(zip([t.name for t in self._tests], holm([t.p for t in self._tests]),
                        strict=True))  # fmt: skip

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was seen of each departure. None says that the model is right."""
        return tuple(_sentence(test, self.p_holm[test.name]) for test in self._tests)

    def to_frame(self) -> pd.DataFrame:
        """One row for each departure: z, p, Holm's p, estimate, interval, smallest seen, unit."""
        rows = []
        for test in self._tests:
            low, high = test.interval()
            rows.append(
                {
                    "z": test.z, "p": test.p, "p (Holm)": self.p_holm[test.name],
                    "estimate": test.estimate, "5%": low, "95%": high,
                    "smallest seen": test.smallest, "unit": test.unit,
                }
            )  # fmt: skip
        return pd.DataFrame(rows, index=[test.name for test in self._tests])

    def plot(self, ax: Any = None) -> Any:
        """Plot z of each departure, with the band that noise and records make under the model.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        from pymc_private.criticism.plots import plot_check

        return plot_check(self, ax)

    def plot_cells(self) -> Any:
        """Plot the histogram of F(y | x) with its band, and residuals of all cells.

        Returns
        -------
        matplotlib Figure

        Raises
        ------
        DomainError
            No cells were checked.
        """
        from pymc_private.criticism.plots import plot_cells

        if self._cells is None:
            raise DomainError(
                "this check has no cells",
                got=", ".join(test.name for test in self._tests),
                do="pmp.check_plan(summary, 'cells', ...)",
            )
        return plot_cells(self)

    # ---- stored --------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Save as JSON, whole or not at all; a file with an equal check stays as it is.

        Raises
        ------
        Incompatible
            The file exists and holds something else (unless ``overwrite``).
        """
        return storage.save(self, path, overwrite=overwrite)

    def to_bytes(self) -> bytes:
        """Give the content of :meth:`save` as bytes."""
        content = self._content() | {"fingerprint": self.fingerprint}
        return dump_json(content).encode()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Check:
        """Load what :meth:`save` wrote."""
        return cls.from_bytes(Path(path).read_bytes())

    @classmethod
    def from_bytes(cls, content: bytes) -> Check:
        """Restore a check from its bytes; raises Incompatible if they are not one."""
        try:
            found = json.loads(content)
            same_format = found.pop("kind") == KIND and found.pop("format") == FORMAT
            expected = found.pop("fingerprint")
            check = cls(
                [_stored_test(test) for test in found["tests"]],
                Guarantee.from_dict(found["guarantee"]),
                found["facts"],
                found["private"],
                found["cells"],
            )
        except Exception as cause:  # JSON of any form
            raise _damaged() from cause
        if not same_format or check.fingerprint != expected:
            raise _damaged()
        return check

    def _content(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "format": FORMAT,
            "tests": [
                {"name": t.name, "unit": t.unit}
                | {k: getattr(t, k) for k in TEST_NUMBERS}
                | {k: list(getattr(t, k)) for k in TEST_ARRAYS if isinstance(t, VarianceTest)}
                for t in self._tests
            ],
            "guarantee": self._guarantee.to_dict(),
            "facts": self._facts,
            "private": self._private,
            "cells": self._cells,
        }

    def cite(self) -> str:
        """BibTeX for the theorems that the guarantee and the tests rest on."""
        theorems = f"{self._guarantee.theorem}, T30, T31, T38"
        return citations.cite(theorems, self._facts.get("citations", ()))

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"a Check is frozen: cannot set {field!r}")

    def __delattr__(self, field: str) -> None:
        raise AttributeError(f"a Check is frozen: cannot delete {field!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Check):
            return NotImplemented
        return self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> Any:
        return Check, (self._tests, self._guarantee, self._facts, self._private, self._cells)

    def __repr__(self) -> str:
        return f"{cards.text_card(_title(self), _rows(self))}\n{_table(self)}"

    def _repr_html_(self) -> str:
        rows = [*_rows(self), ("table", _table(self))]
        return cards.html_card(_title(self), rows, alarm=not self._private)


def _stored_test(test: Mapping[str, Any]) -> DepartureTest:
    """A test as it was stored."""
    if "weights" not in test:
        return DepartureTest(**test)
    return VarianceTest(**{**test, **{k: tuple(test[k]) for k in TEST_ARRAYS}})


def _checked_cells(cells: Mapping[str, Any]) -> dict[str, Any]:
    counts = np.asarray(cells["counts"], dtype=float)
    if set(cells) != {"counts", "noise_sd"} or counts.ndim != 2:
        raise DomainError(
            "cells are counts and the standard deviation of their noise",
            allowed="{'counts': array of two dimensions, 'noise_sd': number}",
        )
    return {"counts": counts.tolist(), "noise_sd": float(cells["noise_sd"])}


def holm(p: list[float]) -> list[float]:
    """Adjusted p-values: each at most alpha where all false alarms together have level alpha."""
    order = np.argsort(p)
    adjusted = np.maximum.accumulate([p[k] * (len(p) - i) for i, k in enumerate(order)])
    found = np.empty(len(p))
    found[order] = np.minimum(adjusted, 1.0)
    return [float(v) for v in found]


def _sentence(test: DepartureTest, p: float) -> str:
    low, high = test.interval()
    size = format_estimate(max(abs(low), abs(high)), 2)
    band = f"90% interval {format_estimate(low, 2)} to {format_estimate(high, 2)}"
    if p < 0.05:
        return (
            f"{test.name}: a departure of {format_estimate(test.estimate, 2)} was seen ({band}), "
            f"p = {format_estimate(p, 2)}"
        )
    return (
        f"{test.name}: no departure larger than {size} seen ({band}), p = {format_estimate(p, 2)}"
    )


def _title(check: Check) -> str:
    name = f" {check.facts['name']!r}" if check.facts.get("name") else ""
    mark = "" if check.private else f" {display.NOT_PRIVATE}:"
    return f"Check{name}:{mark} {format_count(len(check.tests), 'departure')}"


def _rows(check: Check) -> list[cards.Row]:
    facts, delta = check.facts, as_float(check.facts["delta"])
    units = "\n".join(f"{test.name}: {test.unit}" for test in check.tests)
    rows = [("found", "\n".join(check.sentences)), ("sizes", units)]
    if check.private:
        cost = format_number(check.guarantee.epsilon(delta))
        total = format_number(as_float(facts["total"]), 4)
        rows += [
            ("guarantee", f"epsilon = {cost} nats at delta = {format_number(delta)}; "
                          f"{total} with the summary"),
            ("assumes", "\n".join(check.guarantee.assumptions) or display.ONLY_ASSUMED),
            ("theorem", check.guarantee.theorem),
        ]  # fmt: skip
    else:
        rows.append(("label", f"{display.NOT_PRIVATE}: {'; '.join(check.guarantee.assumptions)}"))
    return [*rows, ("p-values", "of large samples, for the very records of the summary")]


def _table(check: Check) -> str:
    frame = check.to_frame().drop(columns="unit")
    rows = [[str(name), *(format_estimate(float(v), 3) for v in row)]
            for name, row in zip(frame.index, frame.to_numpy(), strict=True)]  # fmt: skip
    return cards.text_table(("", *frame.columns), rows)


def _damaged() -> Incompatible:
    return Incompatible(
        "This is not a check, or it was changed by hand.",
        allowed="bytes or a file written by Check.save",
        do="load another copy; a named ledger keeps one",
    )
