"""What `calibrate` weighs within one budget: forms of a model, and numbers of draws.

Forms are the model as it is, central boxes, and a clip of its log-likelihoods. A clip makes another
model. Where none was asked for it is weighed only if the model as it is would be of little worth
(`models.verdict`), and taken only if it makes the verdict better and promises twice as much.

The number of draws is chosen where none was asked for. A reader who knows the plan takes from N
draws of a posterior that removes a share s of the prior variance the share

    r(s, N) = s^2 / (s + (1 - s) / N)

in the Gaussian approximation (`models.verdict.variance_removed_by_draws`). While the power is below
one it falls at least as 1 / sqrt(N), and then r is largest at N = 1: with K = s / (1 - s) of one
draw, r(N) <= K^2 / (1 + K^2 + K (sqrt(N) + 1 / sqrt(N))) <= K^2 / (1 + K)^2 = r(1). So more draws
are weighed only where a single draw leaves the likelihood whole.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from pymc_private.errors import BudgetExceeded, PymcPrivateError, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.verdict import (
    INFORMATIVE_SHARE,
    VERDICTS,
    free_coordinates,
    share_text,
    variance_removed,
    variance_removed_by_draws,
    verdict_of,
)
from pymc_private.posterior.candidates import (
    CLIP_ADVANTAGE,
    CandidateModels,
    DrawBudget,
    candidate_boxes,
)
from pymc_private.posterior.plan import FrontierRow
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.summary_plan import SummaryPlan

NUMBERS_OF_DRAWS = (1, 2, 5, 10, 20, 50, 100)
"""Weighed in turn where no number of draws was asked for."""
UNASKED_ADVANTAGE = 2.0
"""A clip that nobody asked for must promise this many times the information of the others."""
CLEARLY_MORE = 1.05
"""A larger number of draws must promise its reader this many times the information, in nats."""


@dataclass(frozen=True)
class CalibrationRequest:
    """The arguments of `calibrate`, checked.

    `counts` are the numbers of draws; None if none was asked for.
    """

    epsilon: float
    delta: float
    counts: tuple[int, ...] | None
    n: int | None
    temper: bool
    sampler: Any
    strict: bool
    clip: bool | None
    private: PrivateModel

    @property
    def sampler_options(self) -> dict[str, bool]:
        """The keywords of `choose_sampler`."""
        return {"strict": self.strict, "pure": self.delta == 0}


def weigh_candidates(
    candidates: CandidateModels, request: CalibrationRequest
) -> tuple[tuple[FrontierRow, ...], int]:
    """All rows of the frontier, the best of each number of draws marked; and the number to take.

    Raises
    ------
    NotCertified, Unsupported
        No candidate has a guarantee, or no sampler.
    BudgetExceeded
        The likelihood must not be tempered, and does not fit.
    """
    if request.counts is not None:
        rows = [row for n in request.counts for row in _rows_of(candidates, request, n)]
        return tuple(rows), request.counts[0]
    rows = _rows_of(candidates, request, NUMBERS_OF_DRAWS[0])
    best, most = NUMBERS_OF_DRAWS[0], _reader_nats(candidates, rows)
    for count in NUMBERS_OF_DRAWS[1:]:
        if _chosen(rows, best).power < 1 or math.isnan(most):
            break
        try:
            more = _rows_of(candidates, request, count)
        except PymcPrivateError:  # so many cannot be had
            break
        found, rows = _reader_nats(candidates, more), rows + more
        if not found > CLEARLY_MORE * most:
            break
        best, most = count, found
    return tuple(rows), best


def shares_of_clips(
    candidates: CandidateModels, request: CalibrationRequest, rows: tuple[FrontierRow, ...]
) -> dict[int, float]:
    """By number of draws, the share of the prior variance that the best clip would remove.

    Empty where it is not known; 0 where no clip is allowed.
    """
    found: dict[int, float] = {}
    for draws in dict.fromkeys(row.draws for row in rows):
        if request.clip is False:
            found[draws] = 0.0
            continue
        if not candidates.is_judged:
            break
        nats = candidates.promise_of_clip(DrawBudget(request.epsilon, request.delta, draws))
        found[draws] = variance_removed(nats, free_coordinates(candidates.private))
    return found


def _chosen(rows: list[FrontierRow], draws: int) -> FrontierRow:
    return next(row for row in rows if row.chosen and row.draws == draws)


def _reader_nats(candidates: CandidateModels, rows: list[FrontierRow]) -> float:
    """Information per parameter that a reader of the draws is expected to have; NaN if unknown."""
    row = next(row for row in rows if row.chosen)
    share = _share_of(candidates, row)
    if math.isnan(share):
        return math.nan
    told = variance_removed_by_draws(share, row.draws)
    return -0.5 * math.log1p(-min(told, 1.0 - 1e-12))


def _share_of(candidates: CandidateModels, row: FrontierRow | None) -> float:
    """Share of the prior variance that a candidate removes; NaN if unknown, 0 of none."""
    if row is None:
        return 0.0
    if not candidates.is_judged:
        return math.nan
    return variance_removed(row.information, free_coordinates(row.private))


def _rows_of(
    candidates: CandidateModels, request: CalibrationRequest, draws: int
) -> list[FrontierRow]:
    """The candidates that meet the budget for that number of draws; the best is marked."""
    budget = DrawBudget(request.epsilon, request.delta, draws)
    given = candidates.as_given(budget)
    rows = [] if given is None else [given]
    if given is None or math.isinf(given.certificate.range):
        best_yet = 0.0 if given is None else given.information
        rows += candidate_boxes(candidates, budget, request.temper, best_yet)
    clipped = _clip_worth_weighing(candidates, request, budget, rows)
    rows += [] if clipped is None else [clipped]
    if not rows:
        raise _with_advice(candidates.refusal(), request)
    value = partial(_value, temper=request.temper)
    coarse = max(rows, key=value)
    if coarse.power < 1 and not request.temper:  # closer bounds may fit
        rows = [candidates.finely(row, budget) for row in rows]
        coarse = max(rows, key=value)
    best = candidates.finely(coarse, budget)
    rows = [best if row is coarse else row for row in rows]
    if best.power < 1 and not request.temper:
        _refuse_untempered(best, request.epsilon, request.delta, draws)
    return [replace(row, chosen=True) if row is best else row for row in rows]


def _value(row: FrontierRow, temper: bool) -> tuple[bool, float]:
    """The order of rows: information, discounted for a clip; with temper=False power 1 first."""
    return temper or row.power == 1, row.information / (CLIP_ADVANTAGE if row.clipped else 1.0)


def _clip_worth_weighing(
    candidates: CandidateModels,
    request: CalibrationRequest,
    budget: DrawBudget,
    rows: list[FrontierRow],
) -> FrontierRow | None:
    """The clipped candidate, where it is asked for, or makes the verdict on these rows better."""
    if request.clip is not None or not rows:
        return None if request.clip is False else candidates.clipped(budget)
    best = max(rows, key=lambda row: row.information)
    share = _share_of(candidates, best)
    if not (share < INFORMATIVE_SHARE and request.temper):  # informative, or unknown
        return None
    promised = candidates.promise_of_clip(budget)
    lifted = variance_removed(promised, free_coordinates(best.private))
    if promised < UNASKED_ADVANTAGE * best.information or _grade(lifted) <= _grade(share):
        return None
    clipped = candidates.clipped(budget)
    better = clipped is not None and _grade(_share_of(candidates, clipped)) > _grade(share)
    return clipped if better else None


def _grade(share: float) -> int:
    """The place of a verdict in their order."""
    return VERDICTS.index(verdict_of(share))


def _with_advice(refusal: PymcPrivateError, request: CalibrationRequest) -> PymcPrivateError:
    """A refusal of draws that names a summary too, where one can be had and tells something."""
    summary = _summary_of_scores(request) if isinstance(refusal, Unsupported) else None
    if summary is None or summary.verdict in ("", VERDICTS[0]):
        return refusal
    return Unsupported(
        refusal.problem,
        got=refusal.got,
        allowed=refusal.allowed,
        do="one noisy summary in place of draws, calibrate(..., release='summary'): it would "
        f"remove about {share_text(summary.information)} of the prior variance; or {refusal.do}",
    )


def _summary_of_scores(request: CalibrationRequest) -> SummaryPlan | None:
    """A plan of noisy scores, of records with one answer or several; None if there is none."""
    protected = request.private.neighbors == ADD_REMOVE
    words: dict[str, Any] = {"epsilon": request.epsilon, "delta": request.delta}
    words |= {"n": request.n if protected else None}
    for method in ("scores", "records"):
        with suppress(PymcPrivateError):
            return make_summary_plan(request.private, method=method, **words)
    return None


def _refuse_untempered(chosen: FrontierRow, epsilon: float, delta: float, draws: int) -> None:
    """Refuse a budget that the untempered posterior does not fit."""
    cost = chosen.certificate.guarantee(draws).epsilon(delta)
    asked = (Fraction(cost), Fraction(delta)) if math.isfinite(cost) else (Fraction(0), Fraction(0))
    raise BudgetExceeded(
        f"the budget is too small for {format_count(draws, 'draw')} of the untempered posterior",
        asked=asked,
        spent=(Fraction(0), Fraction(0)),
        left=(Fraction(epsilon), Fraction(delta)),
        got=f"epsilon {format_number(cost)} at delta {format_number(delta)} "
        f"(R = {format_number(chosen.certificate.range)} per draw)",
        allowed=f"epsilon {format_number(epsilon, up=False)} at delta {format_number(delta)}",
        do=f"allow temper=True (power {format_number(chosen.power, up=False)}), ask for fewer "
        "draws, or trim to a smaller box",
    )
