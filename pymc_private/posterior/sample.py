"""`sample`: one charged, private draw from the posterior of a plan or model (T1-T3).

The order is that of BAPS (Dimitrakakis et al. 2017, Algorithm 1): resolve the arguments to a
plan, check it from public facts alone, charge the ledger, and only then read the data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Executor
from fractions import Fraction
from typing import Any

import numpy as np

from pymc_private.errors import DomainError, NotInformative, suggest_arguments
from pymc_private.ledger import Ledger
from pymc_private.models.compat import progress_bars
from pymc_private.models.data_clipping import clip_to_domain
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.models.verdict import WEAK_SHARE
from pymc_private.posterior import assemble
from pymc_private.posterior.assemble import check_unchanged
from pymc_private.posterior.calibrate import calibrate, plan_at_cost
from pymc_private.posterior.plan import Plan, improvements
from pymc_private.posterior.rehearsal import rehearse_draw
from pymc_private.privacy.rounding import format_count
from pymc_private.privacy.validation import check_flags
from pymc_private.release import charge
from pymc_private.release.arguments import (
    equals,
    refuse_keywords,
    refuse_other_numbers,
    refuse_second_declaration,
)
from pymc_private.release.charge import ReleaseOptions, progress_bar, suppress_warnings
from pymc_private.release.release import Release
from pymc_private.samplers.choose import AUTO, check_sampler
from pymc_private.samplers.executors import check_executor, try_executor
from pymc_private.samplers.randomness import Randomness, SeededRandomness, SystemRandomness
from pymc_private.summaries.summary_plan import SummaryPlan


@suggest_arguments
def sample(
    what: Any = None,
    *,
    draws: int | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    ledger: Ledger | None = None,
    name: str | None = None,
    data_version: str = "",
    save: str | os.PathLike[str] | None = None,
    again: bool = False,
    random_seed: int | None = None,
    progressbar: bool = True,
    sampler: Any = AUTO,
    executor: Executor | None = None,
    accept_prior: bool = False,
    **declaration: Any,
) -> Release:
    """Draw from the posterior once and release the draws.

    The order is fixed: everything that can fail is checked from the plan alone; the ledger is
    charged (durably); only then are the data read. What is released are the draws, rounded to a
    public grid, and public facts. Queries on the release cost nothing more.

    Parameters
    ----------
    what : Plan, PrivateModel, pymc.Model or Bambi model, optional
        A plan is drawn as it stands. A private model with `epsilon` is calibrated first, without
        it charged at cost. A model takes the keywords of `privatize`. Default: the model of the
        context.
    draws : int, optional
        Number of draws. Of a plan: its own. With `epsilon`: chosen as in `calibrate`. At cost: must
        be given.
    epsilon, delta : float
        Budget of this release (epsilon in nats). Of a plan: may be left out.
    ledger : Ledger, optional
        Default: the ledger of the context, else one in memory, with a warning.
    name : str, optional
        Running again with the same name, plan and `data_version` returns the stored release, free.
    data_version : str
        A word for the state of the data; belongs to the name.
    save : path, optional
        Where to save the release (netCDF).
    again : bool
        Charge and draw anew although the name is taken.
    random_seed : int, optional
        Makes a reproducible release that is marked NOT PRIVATE and charges nothing.
    progressbar : bool
        Show progress on this screen.
    sampler : str or sampler
        As in `calibrate`. Of a plan: may be left out.
    executor : concurrent.futures.Executor, optional
        Where independent chains run: a `ProcessPoolExecutor`, or ``client.get_executor()`` of Dask.
        Samplers that share work between draws run here all the same.
    accept_prior : bool
        Charge for draws that are expected to hardly differ from the prior (`Plan.verdict`).
    **declaration
        ``records=``, ``domain=``, ``neighbors=``, ``records_per_unit=``, ``public=``,
        ``constants=``: see `privatize`.

    Returns
    -------
    Release

    Raises
    ------
    TypeError
        A keyword that means nothing here, with the equivalent.
    NotInformative
        The plan's verdict is "prior" and `accept_prior` is not set; nothing was charged.
    BudgetExceeded
        The ledger cannot pay; nothing was charged.
    PymcPrivateError
        The executor does no work: nothing was charged. Or the draw failed after the charge, and the
        error says so; of one that could not be saved, it has the `release`.
    Incompatible
        The name belongs to another plan, `save` names another file, or the plan's model was
        changed after it was certified.
    DomainError, NotCertified, Unsupported
        As `privatize`, `calibrate` and `certify`; a name that cannot be stored; a Deterministic
        that cannot be computed; a draw that fails on made-up records of the domain, too. Nothing
        was charged.

    Notes
    -----
    With delta > 0 the exact posterior of a Beta-Bernoulli or Dirichlet-categorical model, at the
    exact price of Dirichlet draws (T9, T10), is among the candidates of `calibrate`.

    Data that were set on ``private.base`` since `privatize` are clipped once more, in the charged
    draw, which refuses no record: what cannot be clipped (NaN, a category that was not declared)
    counts as one fixed record of the domain. Call `privatize` anew to have new data checked.

    Once charged, a draw runs to its end. Interrupted (Ctrl-C), nothing is released, the charge
    stays, and publishing the fact that it was interrupted is outside the guarantee. A
    Deterministic that fails at some of the draws is withheld; the draws are released all the same.

    References
    ----------
    Dimitrakakis et al. (2017), Algorithm 1; theory T1-T3.
    """
    refuse_keywords(sample, declaration, UNSUPPORTED_KEYWORDS)
    options = ReleaseOptions(ledger, name, data_version, save, again, random_seed)
    check_flags(accept_prior=accept_prior, progressbar=progressbar)
    check_executor(executor)
    with progress_bars(progressbar):
        plan = resolve_plan(what, draws, epsilon, delta, declaration, sampler)
    check_unchanged(plan)
    return charge.publish(_release_job(plan, name, progressbar, executor, accept_prior), options)


def _release_job(
    plan: Plan, name: str | None, progressbar: bool, executor: Executor | None, accept_prior: bool
) -> charge.ReleaseJob:
    """The job for `charge.publish`: draws by the plan's sampler."""

    def drawn(seed: int | None) -> dict[str, np.ndarray]:
        if seed is not None:
            return seeded_draw(plan, seed, progressbar)
        return private_draw(plan, progressbar, executor)

    def rehearsed() -> None:
        if not accept_prior:
            _refuse_prior(plan)
        try_executor(executor)
        assemble.rehearse(plan, name)
        rehearse_draw(plan, name, executor, clip_to_domain)

    return charge.ReleaseJob(
        guarantee=plan.guarantee,
        delta=plan.delta,
        exact_delta=Fraction(plan.delta),
        key=plan.fingerprint,
        label=format_count(plan.draws, "draw"),
        another="another plan",
        rehearse=rehearsed,
        draw=drawn,
        build=lambda values, ledger_facts: assemble.assemble(plan, values, name, ledger_facts),
        restore=Release.from_bytes,
        depth=2,
    )


def _refuse_prior(plan: Plan) -> None:
    """Refuse to charge for draws that are expected to hardly differ from the prior."""
    if plan.verdict == "prior":
        raise NotInformative(
            "these draws would hardly differ from draws of the prior; nothing was charged",
            got=f"expected to remove {plan.information:.2g} of the prior variance of a parameter",
            allowed=f"at least {WEAK_SHARE}, or accept_prior=True",
            do=f"what may tell more: {', '.join(improvements(plan))}",
        )


UNSUPPORTED_KEYWORDS = {
    "tune": "exact draws need no warm-up; remove it",
    "chains": "draws are independent; say draws=, and release.to_arviz(chains=...) to split them",
    "cores": "the draw runs in this process; remove it",
    "initvals": "exact draws have no start; remove it",
    "step": "the sampler is chosen by the plan; see calibrate",
    "nuts_sampler": "say sampler=pmp.samplers.Nuts(backend=..., tv=...): its claim is conditional",
    "target_accept": "there is no step size; remove it",
    "idata_kwargs": "a release holds draws alone; see release.to_arviz()",
}


def resolve_plan(
    what: Any,
    draws: int | None,
    epsilon: float | None,
    delta: float,
    declaration: Mapping[str, Any],
    sampler: Any,
) -> Plan:
    """The plan to draw: the one given, or one made of a private model or a model."""
    _refuse_what_is_not_drawn(what)
    if isinstance(what, Plan | PrivateModel):
        refuse_second_declaration(declaration)
    if isinstance(what, Plan):
        given = {"draws": draws, "epsilon": epsilon, "delta": None if equals(delta, 0) else delta}
        refuse_other_numbers(given, {key: getattr(what, key) for key in given})
        _refuse_other_sampler(what, sampler)
        return what
    private = what if isinstance(what, PrivateModel) else privatize(what, **declaration)
    if epsilon is None:
        if not isinstance(what, PrivateModel):
            raise DomainError(
                "a model needs a budget",
                got="epsilon=None",
                allowed="epsilon > 0, in nats",
                do="pass epsilon= (and delta=), or calibrate a plan",
            )
        if draws is None:
            raise DomainError(
                "sample needs a number of draws, or an epsilon that they may cost together",
                got="draws=None",
                allowed="draws=1, 2, ...; or epsilon=, within which the number is chosen",
            )
        return plan_at_cost(private, draws, delta, sampler)
    return calibrate(private, epsilon=epsilon, delta=delta, draws=draws, sampler=sampler)


def _refuse_what_is_not_drawn(what: Any) -> None:
    """Refuse the plan of a noisy summary, and a number of draws in its place."""
    if isinstance(what, SummaryPlan):
        raise DomainError(
            "this is a plan for a noisy summary, not for draws; nothing was charged",
            got="SummaryPlan",
            allowed="a Plan, a PrivateModel or a model",
            do="pmp.summarize(plan, ledger=...), then pm.sample() of its model; or "
            "calibrate(private, ..., release='draws')",
        )
    if isinstance(what, int | np.integer):
        raise DomainError(
            "the first argument is what to draw from, not a number of draws",
            got=f"sample({what})",
            allowed="a Plan, a PrivateModel, a model, or nothing in the context of a model",
            do=f"did you mean sample(plan), of a plan made with draws={what}? Each draw costs: "
            "see calibrate",
        )


def _refuse_other_sampler(plan: Plan, sampler: Any) -> None:
    """Refuse a sampler given beside a plan that is not the plan's own."""
    check_sampler(sampler)
    named = sampler if isinstance(sampler, str) else sampler.name
    same = named in (AUTO, plan.sampler) and (isinstance(sampler, str) or sampler == plan.method)
    if not same:
        raise DomainError(
            "a plan fixes its sampler",
            got=f"sampler={named!r}",
            allowed=f"{plan.method}",
            do="calibrate another plan with sampler=",
        )


def private_draw(
    plan: Plan, progressbar: bool, executor: Executor | None = None
) -> dict[str, np.ndarray]:
    """Draw from a charged plan with randomness of the system, on the public grid of its box."""
    return _draw_from_plan(plan, SystemRandomness(), progressbar, executor)


def seeded_draw(plan: Plan, seed: int, progressbar: bool) -> dict[str, np.ndarray]:
    """Draw from a plan with a seed: not private, charges nothing."""
    return _draw_from_plan(plan, SeededRandomness.from_seed(seed), progressbar)


def _draw_from_plan(
    plan: Plan, randomness: Randomness, progressbar: bool, executor: Executor | None = None
) -> dict[str, np.ndarray]:
    """Clip the data once more and draw, without warnings; arrays of shape (draws, ...)."""
    with suppress_warnings(), progress_bar(plan.draws, progressbar) as progress:
        clip_to_domain(plan.private)
        return plan.method.sample(plan.private, plan.draws, randomness, progress, executor)
