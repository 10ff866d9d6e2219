"""How the budget of noisy scores is split among their stages (T30, T36)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot

from pymc_private.summaries.noise import split_mu
from pymc_private.summaries.scores.pilot_part import PilotPart

ROUNDS = 10
"""Rounds of pilot scores."""
COUNT_SHARE, MOMENTS_SHARE, PILOT_SHARE, SCORE_SHARE, CURVATURE_SHARE = 0.02, 0.08, 0.34, 0.42, 0.16
"""Shares of mu^2; the first is taken from all others."""
MANY_RECORDS, SMALL_ERROR = 10_000, 0.17
"""Of outcomes with few values: from so many records on, and up to this predicted error, less
of the budget does for pilots. Others gain nothing (`benchmarks.scale_split`)."""
PILOTS_OF_MANY = 0.2
"""Share of all stages before the final ones then; each has its share of them as before."""


@dataclass(frozen=True)
class ScoreBudget:
    """The mu of each stage; None for a stage that a model does not need."""

    pilots: tuple[float, ...]
    score: float
    count: float | None = None
    moments: float | None = None
    curvature: float | None = None

    @property
    def totals(self) -> dict[str, float]:
        """The mu of all stages of a kind together."""
        return {
            "number of records": self.count or 0.0,
            "moments": self.moments or 0.0,
            "pilots": hypot(*self.pilots),
            "score": self.score,
            "curvature": self.curvature or 0.0,
        }


def score_budget(
    mu: float,
    counts_records: bool,
    covariates: bool,
    has_moments: bool = True,
    part: PilotPart | None = None,
    many: bool = False,
) -> ScoreBudget:
    """Split mu among the stages: the exact sum of their squares is at most mu^2 (T30).

    Private covariates make the curvature private, also where they have no moments to release.
    Stages that read a pilot part have (1 - s^2) mu^2, and the two others mu^2 (T37). `many`: of
    many records pilots have less of it (`are_many`).
    """
    if part is not None:
        return _split_budget(mu, counts_records, covariates, has_moments, part)
    if many:
        return _budget_of_many(mu, counts_records, covariates, has_moments)
    rest = 1.0 - COUNT_SHARE if counts_records else 1.0
    shares = {("pilot", k): rest * PILOT_SHARE / ROUNDS for k in range(ROUNDS)}
    shares |= {("score", 0): rest * SCORE_SHARE}
    if covariates:
        shares |= {("curvature", 0): rest * CURVATURE_SHARE}
    if covariates and has_moments:
        shares |= {("moments", 0): rest * MOMENTS_SHARE}
    if counts_records:
        shares |= {("count", 0): COUNT_SHARE * sum(shares.values()) / rest}
    return _budget_of(dict(zip(shares, split_mu(mu, tuple(shares.values())), strict=True)))


def _budget_of(parts: Mapping[tuple[str, int], float]) -> ScoreBudget:
    """The mu of each stage."""
    return ScoreBudget(
        pilots=tuple(parts["pilot", k] for k in range(ROUNDS)),
        score=parts["score", 0],
        count=parts.get(("count", 0)),
        moments=parts.get(("moments", 0)),
        curvature=parts.get(("curvature", 0)),
    )


def are_many(count: float, size: int, mu: float) -> bool:
    """Whether a fifth of the budget brings pilots of so many parameters near enough.

    By the error 2 sqrt(p / n) / mu that noise is expected to add, in posterior standard deviations,
    for a public number of records or a guess of it.
    """
    return count >= MANY_RECORDS and 2.0 * math.sqrt(size / count) / mu <= SMALL_ERROR


def _budget_of_many(
    mu: float, counts_records: bool, covariates: bool, has_moments: bool
) -> ScoreBudget:
    """That of records in pilots and main sums alike: a fifth, and four fifths."""
    first = {("pilot", k): PILOT_SHARE / ROUNDS for k in range(ROUNDS)}
    if covariates and has_moments:
        first |= {("moments", 0): MOMENTS_SHARE}
    if counts_records:
        first |= {("count", 0): COUNT_SHARE}
    main = {("score", 0): SCORE_SHARE}
    if covariates:
        main |= {("curvature", 0): CURVATURE_SHARE}
    whole = ((PILOTS_OF_MANY, first), (1.0 - PILOTS_OF_MANY, main))
    shares = {k: share * v / sum(of.values()) for share, of in whole for k, v in of.items()}
    return _budget_of(dict(zip(shares, split_mu(mu, tuple(shares.values())), strict=True)))


def _split_budget(
    mu: float, counts_records: bool, covariates: bool, has_moments: bool, part: PilotPart
) -> ScoreBudget:
    """The budget of T37: pilots together, score and curvature together."""
    shares = {("pilot", k): PILOT_SHARE / ROUNDS for k in range(ROUNDS)}
    if covariates and has_moments:
        shares |= {("moments", 0): MOMENTS_SHARE}
    if counts_records:
        shares |= {("count", 0): COUNT_SHARE}
    split = split_mu(part.pilot_mu(mu), tuple(shares.values()))
    pilot = dict(zip(shares, split, strict=True))
    main = split_mu(mu, (SCORE_SHARE, CURVATURE_SHARE) if covariates else (1.0,))
    return ScoreBudget(
        pilots=tuple(pilot["pilot", k] for k in range(ROUNDS)),
        score=main[0],
        count=pilot.get(("count", 0)),
        moments=pilot.get(("moments", 0)),
        curvature=main[1] if covariates else None,
    )
