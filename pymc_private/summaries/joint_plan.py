r"""Summaries that are declared together: what they share, and what all of them cost at once (T30).

Plans of the same records are released as one sequence of noisy sums. Each keeps its own scores; the
noisy number of records and the moments of the covariates are released once where a later plan may
read those of an earlier one, since a moved reference, restricted to fewer columns, is a function of
released numbers. So the squared mu of the shared stages is paid once:

    mu^2 = sum_k mu_k^2 - (squared mu of the shared stages of all that take them from another).

Stacked statistics cost no less in general: the squared sensitivities of two scores add up, because
one record may move both by as much as it can.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from pymc_private.errors import BudgetExceeded, DomainError, Incompatible
from pymc_private.models.data_variables import Source
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import Guarantee
from pymc_private.privacy.gaussian import gdp_eps
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import root_up
from pymc_private.summaries.choose_mechanism import make_summary_plan
from pymc_private.summaries.noise import largest_mu
from pymc_private.summaries.scores.marginal_moments import counted_entries
from pymc_private.summaries.scores.reference import CovariateReference
from pymc_private.summaries.scores.score_budget import ScoreBudget
from pymc_private.summaries.scores.score_mechanism import ScoreMechanism, reference_of
from pymc_private.summaries.scores.score_release import SharedReference
from pymc_private.summaries.summary_plan import SummaryPlan

SAME_RECORDS = (
    "the data of all summaries that were released together are of the same records: no unit has "
    "more of them in any of the models than was declared"
)
"""Condition of a guarantee of several summaries."""
SHARED = "number of records and moments of the covariates"
ATTEMPTS = 4
"""Times that budgets of plans are scaled to what they share."""


@dataclass(frozen=True, eq=False)
class JointSummaryPlan:
    """Plans that are released at once.

    Attributes
    ----------
    plans : tuple of SummaryPlan
        Of the same records; two or more.
    """

    plans: tuple[SummaryPlan, ...]

    def __post_init__(self) -> None:
        refuse_no_plans(self.plans)
        refuse_other_records([plan.private for plan in self.plans])
        _refuse_other_deltas(self.plans)

    @property
    def delta(self) -> float:
        """The delta at which a ledger is charged."""
        return max(plan.charged_delta for plan in self.plans)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Plans in the order of their release: those that others may take from come first."""

        def width(k: int) -> tuple[float, ...]:
            mechanism = self.plans[k].mechanism
            if not isinstance(mechanism, ScoreMechanism):
                return (0.0, 0.0, 0.0)
            design = mechanism.design
            columns = sum(int(np.prod(v.shape[1:])) for v in design.large.rows.values())
            return -columns, -(design.budget.moments or 0.0), -len(design.small.weights)

        return tuple(sorted(range(len(self.plans)), key=width))

    @cached_property
    def givers(self) -> tuple[int | None, ...]:
        """For each plan, the one whose number of records and moments it reads; None for its own."""
        found: dict[int, int | None] = {}
        for k in self.order:
            own = [j for j, giver in found.items() if giver is None]
            found[k] = next((j for j in own if may_read(self.plans[k], self.plans[j])), None)
        return tuple(found[k] for k in range(len(self.plans)))

    @property
    def shares_stages(self) -> bool:
        """Whether some plan reads what another one releases."""
        return any(giver is not None for giver in self.givers)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What all summaries together reveal at most, declared in advance."""
        parts = [
            plan.guarantee if giver is None else _without_shared(plan)
            for plan, giver in zip(self.plans, self.givers, strict=True)
        ]
        found = Guarantee.jointly(*parts)
        return replace(found, assumptions=(*found.assumptions, SAME_RECORDS))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the fingerprints of all plans in their order."""
        text = "|".join(("together", *(plan.fingerprint for plan in self.plans)))
        return hashlib.sha256(text.encode()).hexdigest()

    def facts(self, k: int) -> dict[str, Any]:
        """Public facts of one summary about the others."""
        giver = self.givers[k]
        return {
            "together": {
                "summaries": len(self.plans),
                "position": k + 1,
                "shared": None if giver is None else f"{SHARED}: those of summary {giver + 1}",
            }
        }

    def shared_reference(
        self, k: int, released: Mapping[int, Mapping[str, np.ndarray]]
    ) -> SharedReference | None:
        """What one plan reads of those that were released before it."""
        giver = self.givers[k]
        if giver is None:
            return None
        mechanism: Any = self.plans[k].mechanism  # of scores, as `may_read` demands
        return shared_reference(released[giver], tuple(mechanism.design.large.rows))


def shared_reference(released: Mapping[str, np.ndarray], names: Sequence[str]) -> SharedReference:
    """Number of records and moved references of a release, restricted to some columns."""
    large, small = (
        CovariateReference({name: reference.rows[name] for name in names}, reference.weights)
        for reference in (reference_of(released, which) for which in ("large", "small"))
    )
    moments = {name: released[name] for name in ("moments", "moments_sd")}
    return SharedReference(float(released["count"]), large, small, moments)


# ---- what may be shared ------------------------------------------------------------------------
def may_read(taker: SummaryPlan, giver: SummaryPlan) -> bool:
    """Whether a plan may read the number of records and the moved references of another one.

    Both are scores without groups, and every column of the taker's references is one of the
    giver's: the same private covariates with the same domains and coordinates, the same public
    rows. The giver's moments have no more noise, levels of the same entries are counted, and its
    references have no fewer rows.
    """
    given, taken = giver.mechanism, taker.mechanism
    if not (isinstance(given, ScoreMechanism) and isinstance(taken, ScoreMechanism)):
        return False
    if given.read is not given.parameters or taken.read is not taken.parameters:
        return False
    one, other = given.design, taken.design
    if one.budget.moments is None or other.budget.moments is None:
        return False
    if one.part is not None or other.part is not None:  # which reads a part of the records (T37)
        return False
    return (
        one.budget.moments >= other.budget.moments
        and set(other.large.rows) <= set(one.large.rows)
        and counted_entries(one.moments) == counted_entries(other.moments)
        and len(one.large.weights) >= len(other.large.weights)
        and len(one.small.weights) >= len(other.small.weights)
        and taker.reference is giver.reference
        and _same_public_rows(one.public_rows, other.public_rows)
        and all(
            _same_source(giver.private, s) and _same_entries(giver.private, taker.private, s)
            for s in _sources_in(taker.private, other.large)
        )
    )


def _sources_in(private: PrivateModel, reference: CovariateReference) -> list[Source]:
    return [source for source in private.sources if source.name in reference.rows]


def _same_source(private: PrivateModel, source: Source) -> bool:
    """Whether a model has a private variable of this name, row shape and domain."""
    return any(known.is_declared_as(source) for known in private.sources)


def _same_entries(one: PrivateModel, other: PrivateModel, source: Source) -> bool:
    """Whether coordinates do not say that two variables of one name hold other columns."""
    pairs = zip(_entry_labels(one, source), _entry_labels(other, source), strict=False)
    return all(a is None or b is None or tuple(a) == tuple(b) for a, b in pairs)


def _entry_labels(private: PrivateModel, source: Source) -> list[Sequence[Any] | None]:
    dims = private.base.named_vars_to_dims.get(source.name) or ()
    return [private.base.coords.get(d) for axis, d in enumerate(dims) if axis != source.axis]


def _same_public_rows(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(name in one and np.array_equal(one[name], rows) for name, rows in other.items())


def _without_shared(plan: SummaryPlan) -> Guarantee:
    """The guarantee of a plan whose number of records and moments were released before."""
    mechanism: Any = plan.mechanism
    mu = min(own_mu(mechanism.design.budget), mechanism.mu)
    proved = mechanism.guarantee
    own = Guarantee.gdp_of(mu, neighbors=proved.neighbors, theorem=proved.theorem)
    return replace(own, assumptions=plan.guarantee.assumptions)


def own_mu(budget: ScoreBudget) -> float:
    """The mu of all stages but the shared ones, rounded up (T30)."""
    stages = (*budget.pilots, budget.score, budget.curvature)
    return root_up(sum((Fraction(mu) ** 2 for mu in stages if mu is not None), Fraction(0)))


# ---- refusals ----------------------------------------------------------------------------------
def refuse_no_plans(plans: Sequence[Any]) -> None:
    """Refuse what are not two or more plans of summaries, or the same one twice."""
    if len(plans) < 2 or not all(isinstance(plan, SummaryPlan) for plan in plans):
        raise DomainError(
            "summaries are released together from two or more plans; nothing was charged",
            got=", ".join(type(plan).__name__ for plan in plans) or "none",
            allowed="plans of calibrate(..., release='summary'), or private models with epsilon=",
        )
    if len({plan.fingerprint for plan in plans}) < len(plans):
        raise DomainError(
            "the same plan is given twice; nothing was charged",
            got="plans with the same model, method and budget",
            allowed="plans of different models",
            do="one summary of it at the whole budget",
        )


def refuse_other_records(privates: Sequence[PrivateModel]) -> None:
    """Refuse models that were not declared for the same records; public facts only."""
    first, *others = privates
    for other in others:
        wrong = [
            f"{what} {mine} and {own}"
            for what, mine, own in (
                ("records", first.records, other.records),
                ("neighbors", first.neighbors, other.neighbors),
                ("records_per_unit", first.records_per_unit, other.records_per_unit),
                ("n", _public_count(first), _public_count(other)),
            )
            if mine != own
        ]
        wrong += [
            f"the domain of '{source.name}'"
            for source in other.sources
            if source.name in {s.name for s in first.sources} and not _same_source(first, source)
        ]
        if wrong:
            raise Incompatible(
                "summaries that are released together are of the same records; nothing was charged",
                got=f"models that differ in {'; '.join(wrong)}",
                allowed="one table: the same records, neighbors, units and domains",
                do="declare all models for the same records; or summarize them one by one",
            )


def _public_count(private: PrivateModel) -> int | None:
    return None if private.neighbors == ADD_REMOVE else private.record_count


def _refuse_other_deltas(plans: Sequence[SummaryPlan]) -> None:
    deltas = sorted({plan.charged_delta for plan in plans} - {0.0})
    if len(deltas) > 1:
        raise Incompatible(
            "plans that are charged together need one delta; nothing was charged",
            got=", ".join(map(str, deltas)),
            allowed="the same delta= in all of them",
            do="calibrate them at one delta",
        )


# ---- one budget for several models -------------------------------------------------------------
def plan_together(
    privates: Sequence[PrivateModel], epsilon: float, delta: float, **request: Any
) -> JointSummaryPlan:
    """Plans of several models whose joint cost is at most (epsilon, delta), of equal mu.

    Parameters
    ----------
    privates : sequence of PrivateModel
    epsilon, delta : float
        Budget of all of them together.
    **request
        ``method``, ``reference``, ``n``: as of `calibrate`.

    Raises
    ------
    BudgetExceeded
        Rounding keeps the plans above the budget.
    DomainError, Incompatible, NotInformative, Unsupported
        As `calibrate`; models of other records.
    """
    refuse_other_records(privates)
    whole = largest_mu(epsilon, delta)
    mu = whole / math.sqrt(len(privates))
    for _ in range(ATTEMPTS):
        each = float(gdp_eps(delta, mu))
        plans = [make_summary_plan(p, epsilon=each, delta=delta, **request) for p in privates]
        found = JointSummaryPlan(tuple(plans))
        spent = found.guarantee.epsilon(delta)
        if spent <= epsilon and (spent > 0.995 * epsilon or not found.shares_stages):
            return found
        mu *= min(whole / found.guarantee.gdp, 1.2) * (1.0 - 1e-9)
    zero = Fraction(0)
    asked = Fraction(epsilon), Fraction(delta)
    raise BudgetExceeded(
        "no split of this budget was found; nothing was charged",
        asked=asked,
        spent=(zero, zero),
        left=asked,
        do="calibrate each model, and give the plans",
    )
