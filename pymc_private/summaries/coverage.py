"""Simulation-based calibration of a summary plan: how often its intervals hold the parameters.

Parameters are drawn from the prior and records from the model, the mechanism releases its summary
with simulated noise, and the posterior of that summary is found by importance sampling or NUTS
(`simulated_summaries`). If the likelihood of the summary is right, central intervals of mass q hold
the parameters in a share q of all simulations (Cook, Gelman and Rubin 2006). No data are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pymc_private.errors import DomainError
from pymc_private.privacy.cards import html_card, text_card, text_table
from pymc_private.privacy.rounding import format_count
from pymc_private.privacy.validation import check_count, check_flags
from pymc_private.release.charge import progress_bar, suppress_warnings
from pymc_private.release.display import format_estimate
from pymc_private.summaries.parameters import coordinate_names
from pymc_private.summaries.simulated_summaries import (
    LEAST_EFFECTIVE,
    NOT_FOUND,
    SimulatedSummaries,
    outside_sentences,
)

SHORT_BY = 0.03
"""Intervals fall short if they hold this much less than their mass by two standard errors more."""
SHOWN_PARAMETERS = 40


@dataclass(frozen=True, eq=False, repr=False)
class Coverage:
    """How often simulated intervals held the parameters.

    Attributes
    ----------
    names : tuple of str
        Coordinates of the parameters.
    levels : tuple of float
        Masses of the intervals.
    held : array, shape (simulations, coordinates, levels)
        Whether each interval held the parameter. Summaries that would be refused are left out.
    width : array, shape (simulations, coordinates)
        Posterior standard deviations in prior ones.
    effective : array, shape (simulations,)
        Effective draws of each posterior.
    refused, failed : int
        Simulations whose summary would be refused, or could not be read.
    not_found : int
        Simulations whose posterior neither importance sampling nor NUTS found (fewer than 100
        effective draws). They are left out: their intervals are those of a few draws.
    outside : dict of str to float
        Share of simulated outcomes that lay outside their domain and were clipped to it, by name.
    """

    names: tuple[str, ...]
    levels: tuple[float, ...]
    held: np.ndarray
    width: np.ndarray
    effective: np.ndarray
    refused: int = 0
    failed: int = 0
    not_found: int = 0
    outside: Mapping[str, float] = field(default_factory=dict)

    @property
    def simulations(self) -> int:
        """Simulations that were counted."""
        return len(self.held)

    @property
    def found(self) -> np.ndarray:
        """Share of intervals that held their parameter, pooled over parameters, by level."""
        return np.asarray(self.held.mean(axis=(0, 1)))

    @property
    def errors(self) -> np.ndarray:
        """Standard errors of `found`: simulations are independent, parameters of one are not."""
        each = self.held.mean(axis=1)
        smooth = np.sqrt(np.array(self.levels) * (1 - np.array(self.levels)) / len(each))
        spread = each.std(axis=0, ddof=1) if len(each) > 1 else smooth
        return np.asarray(np.maximum(spread, smooth / math.sqrt(each.size)) / math.sqrt(len(each)))

    @property
    def falls_short(self) -> bool:
        """Whether intervals of some level hold clearly less than their mass."""
        least = np.array(self.levels) - SHORT_BY
        return bool((self.found + 2.0 * self.errors < least).any())

    @property
    def sentence(self) -> str:
        """What was found, in a line."""
        parts = [
            f"{level:.0%} intervals held {found:.3f} ± {error:.3f}"
            for level, found, error in zip(self.levels, self.found, self.errors, strict=True)
        ]
        short = ": TOO NARROW" if self.falls_short else ""
        more = f"; {self.not_found} more could not be judged" if self.not_found else ""
        count = format_count(self.simulations, "simulation")
        return f"{', '.join(parts)} in {count}{short}{more}"

    @property
    def facts(self) -> dict[str, Any]:
        """The result in JSON types, for the facts of a summary."""
        return {
            "simulations": self.simulations,
            "levels": [float(v) for v in self.levels],
            "found": [float(v) for v in self.found],
            "errors": [float(v) for v in self.errors],
            "refused": self.refused,
            "failed": self.failed,
            "not_found": self.not_found,
            "sentence": self.sentence,
        }

    def to_frame(self) -> pd.DataFrame:
        """One row for each parameter and one for all: share held by level, width, simulations."""
        columns = [f"{level:.0%}" for level in self.levels]
        frame = pd.DataFrame(self.held.mean(axis=0), index=list(self.names), columns=columns)
        frame["width"] = np.median(self.width, axis=0)
        whole = pd.DataFrame([[*self.found, float(np.median(self.width))]], index=["all"],
                             columns=[*columns, "width"])  # fmt: skip
        return pd.concat([whole, frame])

    def plot(self, ax: Any = None) -> Any:
        """Plot the share held against the mass of the interval, for all and each parameter."""
        from pymc_private.summaries.plots import plot_coverage

        return plot_coverage(self, ax)

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("found", self.sentence),
            ("draws", f"{np.median(self.effective):.0f} effective (median), "
                      f"{self.effective.min():.0f} at least"),
        ]  # fmt: skip
        if self.refused:
            rows.append(("refused", f"{format_count(self.refused, 'simulation')}"))
        if self.failed:
            rows.append(("failed", f"{format_count(self.failed, 'simulation')}"))
        if self.not_found:
            count = format_count(self.not_found, "simulation")
            rows.append(("left out", f"{count}: {NOT_FOUND}"))
        rows += [("outside", sentence) for sentence in outside_sentences(self.outside)]
        return rows

    def _table(self) -> str:
        frame = self.to_frame()
        shown = frame.iloc[: SHOWN_PARAMETERS + 1]
        rows = [[str(k), *(format_estimate(float(v), 3) for v in row)] for k, row in
                zip(shown.index, shown.to_numpy(), strict=True)]  # fmt: skip
        more = len(frame) - len(shown)
        note = f"\n... and {more} more" if more else ""
        return text_table(("", *frame.columns), rows) + note

    def __repr__(self) -> str:
        return f"{text_card('Coverage', self._rows())}\n{self._table()}"

    def _repr_html_(self) -> str:
        rows = [*self._rows(), ("table", self._table())]
        return html_card("Coverage", rows, alarm=self.falls_short)


def simulate_coverage(
    plan: Any,
    simulations: int = 200,
    *,
    levels: Sequence[float] = (0.5, 0.9),
    draws: int = 1500,
    random_seed: int = 0,
    progressbar: bool = True,
    reference: Any = None,
) -> Coverage:
    """Simulate the whole mechanism of a plan; see `SummaryPlan.coverage`.

    Parameters
    ----------
    plan : SummaryPlan
    simulations, draws : int
    levels : sequence of float
    random_seed : int
    progressbar : bool
    reference : mapping of str to array, or pandas.DataFrame, optional
        *Public* covariates that simulated records have; default: uniform on their domain.

    Raises
    ------
    DomainError
        Impossible numbers.
    Unsupported
        No records can be simulated from the model.
    """
    check_flags(progressbar=progressbar)
    count = check_count(simulations, "simulations")
    masses = _checked_levels(levels)
    rng = _generator(random_seed)
    study = _Study(plan, masses, check_count(draws, "draws"), rng, reference)
    with progress_bar(count, progressbar, "simulations") as progress:
        for done in range(count):
            with suppress_warnings():
                study.simulate()
            progress(done + 1)
    return study.result()


def _generator(seed: Any) -> np.random.Generator:
    """NumPy's generator of this seed; refuses what is none."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError, OverflowError):
        raise DomainError(
            "random_seed is a whole number", got=repr(seed)[:60], allowed="0, 1, 2, ..."
        ) from None


def _checked_levels(levels: Sequence[float]) -> tuple[float, ...]:
    try:
        masses = tuple(float(v) for v in np.atleast_1d(np.asarray(levels, dtype=float)))
    except (TypeError, ValueError, OverflowError):  # text, or lists in lists
        masses = ()
    if not masses or not all(0.0 < v < 1.0 for v in masses):
        raise DomainError(
            "the mass of an interval lies inside (0, 1)",
            got=repr(levels)[:60],
            allowed="levels=(0.5, 0.9)",
        )
    return masses


class _Study:
    """The simulations so far."""

    def __init__(
        self,
        plan: Any,
        levels: tuple[float, ...],
        draws: int,
        rng: np.random.Generator,
        reference: Any,
    ) -> None:
        self.plan, self.levels, self.rng = plan, levels, rng
        self.summaries = SimulatedSummaries(plan, draws, rng, reference)
        self.prior_sd = np.sqrt(np.diag(plan.mechanism.parameters.covariance))
        ends = [((1.0 - level) / 2.0, (1.0 + level) / 2.0) for level in levels]
        self.shares = np.array(ends).T.ravel()
        self.held: list[np.ndarray] = []
        self.width: list[np.ndarray] = []
        self.effective: list[float] = []
        self.least = min(LEAST_EFFECTIVE, draws)
        self.not_found = 0

    def simulate(self) -> None:
        """One draw of parameters, records, noise and posterior."""
        theta = self.plan.mechanism.parameters.draws(1, int(self.rng.integers(2**32)))
        found = self.summaries.posterior_at(theta)
        if found is None:
            return
        if found.effective < self.least:
            self.not_found += 1
            return
        ends = found.quantiles(self.shares).reshape(2, len(self.levels), -1)
        self.held.append(((ends[0] <= theta[0]) & (theta[0] <= ends[1])).T)
        self.width.append(found.sd / self.prior_sd)
        self.effective.append(found.effective)

    def result(self) -> Coverage:
        """The simulations as one table."""
        if not self.held:
            raise self._nothing_found()
        return Coverage(
            coordinate_names(self.plan.mechanism.parameters),
            self.levels,
            np.array(self.held),
            np.array(self.width),
            np.array(self.effective),
            self.summaries.refused,
            self.summaries.failed,
            self.not_found,
            self.summaries.outside,
        )

    def _nothing_found(self) -> DomainError:
        got = f"{self.summaries.refused} refused, {self.summaries.failed} failed"
        do = "this plan is not worth its budget: a larger epsilon, fewer parameters or more records"
        if self.not_found:
            got += f", {self.not_found} whose posterior importance sampling and NUTS did not find"
            do = "draws= more, or simulate summaries and sample them by longer chains of pm.sample"
        do = "; ".join([do, *outside_sentences(self.summaries.outside)])
        return DomainError("no simulated summary could be read", got=got, do=do)
