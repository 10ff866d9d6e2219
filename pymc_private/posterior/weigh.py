"""Draws or a summary: the choice of `calibrate(release=...)`, by expected information.

Both kinds of plan are made from public facts alone, and the one that promises more information is
taken; one that cannot be made leaves the other, with its reason.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pymc_private.errors import DomainError, PrivacyWarning, PymcPrivateError
from pymc_private.models.verdict import free_coordinates, variance_removed_by_draws
from pymc_private.posterior.plan import Plan
from pymc_private.privacy.validation import short_repr
from pymc_private.release.arguments import equals
from pymc_private.summaries.choose_mechanism import AUTO, METHODS, make_summary_plan, weigh
from pymc_private.summaries.summary_plan import SummaryPlan

DRAWS, SUMMARY = "draws", "summary"
RELEASES = (DRAWS, SUMMARY, AUTO)
DRAW_OPTIONS = {"draws": None, "temper": True, "clip": None, "sampler": AUTO, "strict": False}
"""What says something about draws alone, with its default."""


def check_release_kind(release: Any, method: Any) -> None:
    """Refuse an unknown kind of release, and a method of summaries beside draws.

    Raises
    ------
    DomainError
        Neither draws nor summary nor auto.
    """
    if not isinstance(release, str) or release not in RELEASES:
        raise DomainError(
            "there is no such kind of release",
            got=short_repr(release),
            allowed=", ".join(map(repr, RELEASES)),
        )
    if release == DRAWS and not equals(method, AUTO):
        raise DomainError(
            "method= says how a summary is made, and these are draws",
            got=f"release='draws', method={short_repr(method)}",
            allowed=", ".join(map(repr, METHODS)) + " with release='summary'",
        )


def plan_release(
    release: str,
    plan_draws: Callable[[], Plan],
    options: Mapping[str, Any],
    words: Mapping[str, Any],
) -> Plan | SummaryPlan:
    """The plan of a summary or, by "auto", of whichever promises more information.

    Parameters
    ----------
    release : {"summary", "auto"}
    plan_draws : callable
        Makes the plan for draws.
    options : mapping
        What was said about draws.
    words : mapping
        Keywords of `make_summary_plan`.
    """
    if release == SUMMARY:
        _refuse_draw_options(options)
        return make_summary_plan(**words)
    summary, no_summary = _attempt(lambda: make_summary_plan(**words))
    draws, no_draws = _attempt(plan_draws)
    if draws is None or summary is None:
        if draws is None and summary is None:
            raise no_draws or no_summary or ValueError(release)
        if draws is None:
            return replace(summary, reason=f"no draws: {_reason(no_draws)}")
        why_not = _reason(no_summary).removesuffix("; nothing was charged")
        details = "" if no_summary is None or no_summary.got is None else f" ({no_summary.got})"
        return replace(draws, reason=f"no summary: {why_not}{details}")
    better, why = weigh(_nats_of_draws(draws), summary)
    return replace(summary, reason=why) if better else replace(draws, reason=why)


def _nats_of_draws(plan: Plan) -> float:
    """Information that a reader of the draws is expected to have, NaN if unknown.

    Less than they were drawn with, by the noise of few draws: see `variance_removed_by_draws`.
    """
    if math.isnan(plan.information):
        return math.nan
    coordinates = free_coordinates(plan.private)
    share = variance_removed_by_draws(plan.information, plan.draws)
    return -0.5 * coordinates * math.log1p(-min(share, 1.0 - 1e-12))


def _refuse_draw_options(options: Mapping[str, Any]) -> None:
    """Refuse what says something about draws beside release="summary"."""
    other = [key for key, value in options.items() if not equals(value, DRAW_OPTIONS[key])]
    if other:
        raise DomainError(
            "these say how to draw, and a summary is not drawn",
            got=", ".join(f"{key}=" for key in other),
            do="leave them out; draws of summary.model() are those of pm.sample, and are free",
        )


def _attempt(make: Callable[[], Any]) -> tuple[Any, PymcPrivateError | None]:
    """A plan, or the error that says why there is none; of a clip only a plan taken warns."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            return make(), None
    except PymcPrivateError as error:
        return None, error


def _reason(error: PymcPrivateError | None) -> str:
    return "" if error is None else error.problem
