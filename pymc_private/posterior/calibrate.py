"""`calibrate`: the region and power that keep most information within a budget.

Reads no data. The candidates of `posterior.candidates` are certified, tempered by the largest
power that fits (epsilon, delta) for the number of draws, and compared by their expected
information; the best becomes a `Plan`. `plan_at_cost` makes the plan of a model as it stands.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pymc_private.analysis.traversal import without_tracebacks
from pymc_private.certificates.certificate import Certificate
from pymc_private.certificates.certify import certify
from pymc_private.errors import (
    DomainError,
    PrivacyWarning,
    Unsupported,
    suggest_arguments,
)
from pymc_private.models.compat import say_stage, stages
from pymc_private.models.information import ASSUMED_N, Information, simulated_information
from pymc_private.models.placeholder_rows import require_own_records
from pymc_private.models.private_model import (
    PrivateModel,
    require_private_model,
    require_same_factors,
)
from pymc_private.posterior.candidates import CandidateModels, tempered
from pymc_private.posterior.frontier import CalibrationRequest, shares_of_clips, weigh_candidates
from pymc_private.posterior.plan import WEIGHTED_ON_DOMAIN, FrontierRow, Plan
from pymc_private.posterior.weigh import DRAWS, check_release_kind, plan_release
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import (
    MAX_COUNT,
    check_count,
    check_flags,
    is_number,
    short_repr,
)
from pymc_private.release.arguments import equals
from pymc_private.samplers.choose import AUTO, check_sampler, choose_sampler, sampler_candidates
from pymc_private.samplers.method import Method
from pymc_private.summaries.summary_plan import SummaryPlan

SIMULATED_FROM_DOMAIN = "records simulated from the prior, covariates uniform on their domain"
SIMULATED_FROM_REFERENCE = "records simulated from the prior, covariates from the reference"
BASES = (SIMULATED_FROM_DOMAIN, SIMULATED_FROM_REFERENCE, WEIGHTED_ON_DOMAIN)
"""What a verdict can rest on."""
LEAST_EPSILON = 1e-12
"""No plan is made for a smaller budget, whose numbers underflow."""
REFERENCE_CLAIM = "the reference= by which the plan was chosen is public"


@suggest_arguments
def calibrate(
    private: PrivateModel,
    *,
    epsilon: float,
    delta: float = 0.0,
    draws: int | Sequence[int] | None = None,
    temper: bool = True,
    reference: Any = None,
    n: int | None = None,
    clip: bool | None = None,
    sampler: Any = AUTO,
    strict: bool = False,
    release: str = DRAWS,
    method: str = AUTO,
    progressbar: bool = True,
) -> Any:
    """Plan a release that costs at most (epsilon, delta): draws of the posterior, or a summary.

    Reads no data: the plan depends on the model, the domain, n and a public reference alone. For
    draws it has the region and the power by which `draws` draws cost no more. Candidates are the
    model as it is and, if no range is proved of it, central boxes that hold 0.8 to 0.999 of the
    prior. In each the likelihood is tempered by the largest power that fits: by pure composition
    (N R), the exact curve of N draws (T3), zCDP (T4), or Gaussian privacy where the posterior is
    log-concave (T7, T22), whichever affords most. The candidate of the largest expected
    information is chosen: parameters and records are simulated from the model; a trim loses the
    parameters it cuts off, a power part of the information of each record (`.frontier` has the
    figures).

    Parameters
    ----------
    private : PrivateModel
    epsilon : float, nats
    delta : float
        In [0, 1).
    draws : int or sequence of int, optional
        Number of draws released, at least 1. Default: 1, or the number from which a reader learns
        most where the budget affords a single draw of the whole likelihood (the power falls with
        their number). Of several numbers the plan is for the first; `.frontier`, `.to_frame()` and
        `.plot()` show what each would leave, and `.at(number)` gives its plan.
    temper : bool
        Whether the likelihood may be tempered. If not, a budget too small is refused.
    reference : mapping of str to array, or pandas.DataFrame, optional
        *Public* records by the names of private covariates, from which covariates are simulated;
        default: uniform on their domain. That it is public stands among the assumptions; the rows
        of the data themselves are refused, by hashes that `privatize` keeps. Whether that happens
        is for the curator alone: no analyst may send references and see it, and no program may
        catch it and plan otherwise. A summary by scores stores them and is published with them
        (16,384 at most). `pymc_private.summaries.KnownCovariates`: their very distribution.
    n : int, optional
        Under add/remove: a public guess of the number of records, for the plan's text and for
        choosing (default there: 1000). Under substitution the number is public and known.
    clip : bool, optional
        Whether log-likelihoods may be clipped too (`pymc_private.clip`), with bounds that are
        searched on simulated records. That is another model: the summary says so in capitals, and
        a `PrivacyWarning` is given. Default: only if no other candidate has a guarantee, or where
        the verdict on all others is prior or weak, that on the clip is better, and it promises
        twice their information. True: where it promises 1.1 times their information.
    sampler : str or sampler
        ``"auto"`` takes the strongest claim that fits; or ``"conjugate"``, ``"boxes"``, ``"grid"``,
        or one with its options, such as ``pmp.samplers.Grid(points=64)``. Its cost is part of the
        guarantee.
    strict : bool
        Ask for a guarantee that holds in floating point, not only in real arithmetic.
    release : {"draws", "summary", "auto"}
        ``"summary"``: one noisy summary of the records, whose posterior is sampled by ordinary
        PyMC (see `summarize`). ``"auto"``: whichever promises more information; the plan says why.
    method : {"auto", "scores", "records", "cells", "sums"}
        The kind of summary; ``"auto"`` takes the one of the largest expected information.
    progressbar : bool
        Show what is being weighed, if it takes more than a second.

    Returns
    -------
    Plan or SummaryPlan

    Raises
    ------
    DomainError
        epsilon, delta or draws out of range; a reference that does not fit, or that holds rows of
        the data.
    Incompatible
        A prior, potential or outcome was added to the user's model since `privatize` copied it.
    NotCertified
        No box makes the range finite.
    BudgetExceeded
        ``temper=False`` and the budget is too small.
    Unsupported
        No sampler with a proof fits the model.

    Notes
    -----
    Information is that expected in the Gaussian approximation, E[1/2 log det(I + w n S J(theta))]
    over the prior, 0 where a trim cuts off: w is the power, S the prior covariance, J the Fisher
    information of one (clipped) record. A clip loses by its bias: scores no longer cancel, which
    shifts the posterior. The simulation has a fixed seed: it chooses a plan and is no private draw.
    Of potentials and densities without a generator, records of the domain stand in, each in
    proportion to its likelihood; where that fails, each record is assumed to hold as much
    information as the prior. The summary says so.

    References
    ----------
    Theory T1-T4, T7, T25; Lindley (1956), Chaloner and Verdinelli (1995) for the information.
    """
    check_release_kind(release, method)
    _check_words(private, temper=temper, strict=strict, clip=False if clip is None else clip)
    if release != DRAWS:
        options = {"draws": draws, "temper": temper, "clip": clip, "sampler": sampler,
                   "strict": strict}  # fmt: skip
        words = {"epsilon": epsilon, "delta": delta, "reference": reference, "n": n}
        planned = partial(calibrate, private, **words, **options)
        words |= {"private": private, "method": method}
        with stages(progressbar):
            plan = plan_release(release, planned, options, words)
        _warn_of_clip(plan)
        return plan
    private = require_private_model(private)
    require_own_records(private, "a sampler")
    check_sampler(sampler)
    counts, n = check_numbers(epsilon, delta, draws), public_record_count(private, n)
    request = CalibrationRequest(
        float(epsilon), float(delta), counts, n, temper, sampler, strict, clip, private
    )
    pick = partial(choose_sampler, sampler=sampler, strict=strict, pure=delta == 0)
    with stages(progressbar), without_tracebacks():
        plan = _plan_of_draws(request, pick, reference)
    _warn_of_clip(plan)
    return plan


def _check_words(private: Any, **flags: Any) -> None:
    """Refuse flags that are none, and a model that was changed since it was declared."""
    check_flags(**flags)
    require_same_factors(private)


def _plan_of_draws(
    request: CalibrationRequest, pick: Callable[[PrivateModel], Method], reference: Any
) -> Plan:
    """The plan of the best candidate, judged by simulated records."""
    private, n = request.private, request.n
    say_stage("simulating records")
    simulated, basis = _simulate_information(private, n, reference)
    if reference is not None:
        private = replace(private, claims=(*private.claims, REFERENCE_CLAIM))
    candidates = CandidateModels(private, pick, simulated, n)
    rows, count = weigh_candidates(candidates, request)
    clips = shares_of_clips(candidates, request, rows)
    judged = Judgment(candidates.gain(private, 1.0), basis, clips)
    return _make_plan(request, rows, judged, count)


def _warn_of_clip(plan: Plan | SummaryPlan) -> None:
    """Warn of log-likelihoods that `calibrate` clipped, at the line that called it."""
    if isinstance(plan, Plan) and plan.chosen.clipped:
        only = all(row.clipped for row in plan.frontier if row.draws == plan.draws)
        instead = "refuses instead" if only else "keeps yours"
        first = "release='summary' tells more of yours; " if plan.is_summary_better else ""
        warnings.warn(
            "calibrate clipped each record's log-likelihood: this is another model (see the plan's "
            f"summary); {first}clip=False {instead}",
            PrivacyWarning,
            stacklevel=4,
        )


@dataclass(frozen=True)
class Judgment:
    """How candidates were judged.

    Attributes
    ----------
    whole : float
        Information expected without a budget, in nats.
    basis : str
        What information was computed from.
    clips : dict of int to float
        By number of draws, the share of the prior variance that the best clip would remove.
    """

    whole: float
    basis: str
    clips: dict[int, float]


def check_numbers(
    epsilon: float, delta: float, draws: int | Sequence[int] | None
) -> tuple[int, ...] | None:
    """The numbers of draws, each once, or None; refuses impossible numbers, epsilon and delta."""
    _check_budget(epsilon, delta)
    if draws is None:
        return None
    several = isinstance(draws, Sequence) or (isinstance(draws, np.ndarray) and draws.ndim > 0)
    given: list[Any] = [draws]
    if several and not isinstance(draws, str | bytes):
        given = list(draws)  # type: ignore[arg-type]
    if not given:
        raise DomainError(
            "calibrate plans for one number of draws or more",
            got=f"draws={short_repr(draws)}",
            allowed="1, 2, ..., or a list of such numbers",
            do="leave draws= out, and the number is chosen",
        )
    return tuple(dict.fromkeys(check_count(count, "draws") for count in given))


def _check_budget(epsilon: float, delta: float) -> None:
    """Refuse an impossible epsilon or delta."""
    if not (is_number(epsilon) and 0 < epsilon <= sys.float_info.max):
        raise DomainError(
            "epsilon must be positive and finite", got=repr(epsilon), allowed="epsilon > 0"
        )
    if epsilon < LEAST_EPSILON:
        raise DomainError(
            "draws of so small an epsilon are draws from the prior",
            got=repr(epsilon),
            allowed=f"epsilon >= {LEAST_EPSILON}",
            do="a larger epsilon, or pm.sample_prior_predictive, which is free",
        )
    if not (is_number(delta) and 0.0 <= delta < 1.0):
        raise DomainError(
            "delta is a probability in [0, 1)",
            got=repr(delta),
            allowed="0 <= delta < 1",
        )


def public_record_count(private: PrivateModel, given: int | None) -> int | None:
    """The public number of records; None where it is protected and none was given."""
    if private.neighbors != ADD_REMOVE:
        if given is not None and not equals(given, private.n):
            raise DomainError(
                "n= is for add/remove neighbors; here the number of records is public",
                got=f"n={short_repr(given)}",
                allowed=f"{private.n}, or nothing",
                do="leave n= out",
            )
        return private.n
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if given is not None and not (whole and 1 <= given <= MAX_COUNT):
        raise DomainError(
            "n= is a public guess of the number of records, a whole number",
            got=f"n={short_repr(given)}",
            allowed=f"1, 2, ..., {MAX_COUNT}",
            do=f"leave n= out, and {ASSUMED_N} is taken",
        )
    return None if given is None else int(given)


def _simulate_information(
    private: PrivateModel, n: int | None, reference: Any
) -> tuple[Information | None, str]:
    """The information of simulated records, and a text that says how they were simulated."""
    try:
        found = simulated_information(private, n, reference, weighted=True)
        if not found.simulated:
            return found, WEIGHTED_ON_DOMAIN
        return found, SIMULATED_FROM_DOMAIN if reference is None else SIMULATED_FROM_REFERENCE
    except Unsupported as error:
        return None, f"each record supposed to tell as much as the prior ({error.problem})"


def _make_plan(
    request: CalibrationRequest,
    rows: tuple[FrontierRow, ...],
    judgment: Judgment,
    draws: int,
) -> Plan:
    """The plan for one of the numbers of draws."""
    chosen = _chosen_row(rows, draws)
    final, options = tempered(chosen.private, chosen.power), request.sampler_options
    method = choose_sampler(final, request.sampler, **options)
    # The sampler chosen at exactly this power is the one that is charged for.
    certificate = chosen.certificate.tempered(final.power).on(method.terms(final))
    guarantee = certificate.guarantee(draws)
    _refuse_costlier_sampler(request, method.name, guarantee.epsilon(request.delta))
    return Plan(
        private=final,
        certificate=certificate,
        guarantee=guarantee,
        sampler=method.name,
        method=method,
        draws=draws,
        epsilon=request.epsilon,
        delta=request.delta,
        frontier=rows,
        n=request.n,
        alternatives=partial(sampler_candidates, final, draws, **options),
        strict=request.strict,
        whole=judgment.whole,
        judged=judgment.basis,
        simulated=judgment.basis in BASES,
        others=partial(_make_plan, request, rows, judgment),
        original=request.private,
        draws_chosen=request.counts is None,
        of_clip=judgment.clips.get(draws, math.nan),
    )


def _chosen_row(rows: tuple[FrontierRow, ...], draws: int) -> FrontierRow:
    """The chosen candidate for a number of draws."""
    weighed = tuple(dict.fromkeys(row.draws for row in rows))
    if draws not in weighed:
        raise DomainError(
            "calibrate was not asked for this number of draws",
            got=draws,
            allowed=", ".join(map(str, weighed)),
            do="name it in calibrate(..., draws=[...])",
        )
    return next(row for row in rows if row.chosen and row.draws == draws)


def _refuse_costlier_sampler(request: CalibrationRequest, sampler: str, cost: float) -> None:
    """Refuse a sampler that costs more than the one by which the power was found."""
    if cost > request.epsilon:
        raise Unsupported(
            "the sampler that fits at this power costs more than the one it was found for",
            got=f"{sampler}: epsilon {format_number(cost)}",
            allowed=f"epsilon {format_number(request.epsilon, up=False)}",
            do="name a sampler: calibrate(..., sampler='boxes')",
        )


def plan_at_cost(private: PrivateModel, draws: int, delta: float, sampler: Any = AUTO) -> Plan:
    """The plan of a model as it stands, whatever its draws cost; pure where delta is zero."""
    require_own_records(private, "a sampler")
    (draws, *_) = check_numbers(1.0, delta, draws) or (1,)
    public = public_record_count(private, None)
    certificate, pure = certify(private), delta == 0
    method = choose_sampler(private, sampler, pure=pure)
    certificate = certificate.on(method.terms(private))
    guarantee = certificate.guarantee(draws)
    cost = guarantee.epsilon(delta)
    return Plan(
        private=private,
        certificate=certificate,
        guarantee=guarantee,
        sampler=method.name,
        method=method,
        draws=draws,
        epsilon=cost,
        delta=float(delta),
        frontier=(_frontier_at_cost(private, certificate, draws, public),),
        n=public,
        alternatives=partial(sampler_candidates, private, draws, pure=pure),
    )


def _frontier_at_cost(
    private: PrivateModel, certificate: Certificate, draws: int, n: int | None
) -> FrontierRow:
    """The single row of a plan that has no budget to meet."""
    kept = float(private.power) * (math.nan if n is None else n)
    return FrontierRow(private, certificate, Fraction(1), None, kept, True, draws=draws)
