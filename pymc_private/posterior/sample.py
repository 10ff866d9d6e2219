"""sample: private posterior draws, made once (BAPS: charge, then draw, then release)."""

from __future__ import annotations

import os
import numpy as np
from collections.abc import Mapping
from concurrent.futures import Executor
from fractions import Fraction
from typing import Any
from pymc_private.posterior import assemble
from pymc_private.release import charge, charge__drawing
from pymc_private.posterior.sample__asked import as_plan, refuse_keywords
from pymc_private.release.charge import Where
from pymc_private.posterior.assemble__guards import check_unchanged
from pymc_private.release.release import Release
from pymc_private.posterior.plan import Plan
from pymc_private.models.compat__progress import bars
from pymc_private.ledger import Ledger
from pymc_private.privacy.rounding__printing import counted
from pymc_private.samplers.choose import AUTO
from pymc_private.samplers.executors import check_executor, try_executor

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
    strict: bool = False,
    executor: Executor | None = None,
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
    draws : int
        Number of draws. Of a plan: may be left out.
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
    strict : bool
        As in `calibrate`.
    executor : concurrent.futures.Executor, optional
        Where independent chains run: a `ProcessPoolExecutor`, or ``client.get_executor()`` of Dask.
        Samplers that share work between draws run here all the same.
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
        that cannot be computed.

    Notes
    -----
    With delta > 0 the exact posterior of a Beta-Bernoulli or Dirichlet-categorical model, at the
    exact price of Dirichlet draws (T9, T10), is among the ways that `calibrate` weighs.

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
    refuse_keywords(declaration)
    where = Where(ledger, name, data_version, save, again, random_seed)
    check_executor(executor)
    with bars(progressbar):
        plan = as_plan(what, draws, epsilon, delta, declaration, sampler, strict)
    check_unchanged(plan)
    return charge.publish(_offer(plan, name, progressbar, executor), where)


def _offer(
    plan: Plan, name: str | None, progressbar: bool, executor: Executor | None
) -> charge.Offer:
    """What a charge buys: draws by the plan's sampler."""

    def drawn(seed: int | None) -> dict[str, np.ndarray]:
        if seed is not None:
            return charge__drawing.seeded_draw(plan, seed, progressbar)
        return charge__drawing.private_draw(plan, progressbar, executor)

    def rehearsed() -> None:
        try_executor(executor)
        assemble.rehearse(plan, name)

    def built(values: Any, told: Mapping[str, Any] | None) -> Release:
        private = told is not None
        promise = plan.guarantee if private else charge.unprotected(plan.guarantee)
        return assemble.assemble(plan, values, promise, private, name, told)

    return charge.Offer(
        guarantee=plan.guarantee,
        delta=plan.delta,
        exact_delta=Fraction(plan.delta),
        key=plan.fingerprint,
        label=counted(plan.draws, "draw"),
        another="another plan",
        rehearse=rehearsed,
        draw=drawn,
        build=built,
    )
