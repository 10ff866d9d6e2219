"""sample: private posterior draws, made once (BAPS: charge, then draw, then release)."""

from __future__ import annotations

import math
import os
import warnings
from concurrent.futures import Executor
from fractions import Fraction
from typing import Any

from pymc_private.errors import DomainError, Incompatible, PrivacyWarning
from pymc_private.mechanisms import assembly, drawing
from pymc_private.mechanisms.asked import as_declared, as_plan, refuse_keywords
from pymc_private.mechanisms.conjugate import sample_conjugate
from pymc_private.mechanisms.guards import check_unchanged
from pymc_private.mechanisms.refusals import charged
from pymc_private.mechanisms.release import Release
from pymc_private.mechanisms.tables.publish import Where
from pymc_private.models.plan import Plan
from pymc_private.models.progress import bars
from pymc_private.privacy import Entry, Guarantee, Ledger
from pymc_private.samplers.choose import AUTO


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
    Incompatible
        The name belongs to another plan, `save` names another file, or the plan's model was
        changed after it was certified.
    DomainError, NotCertified, Unsupported
        As `privatize`, `calibrate` and `certify`; a name that cannot be stored; a Deterministic
        that cannot be computed.

    Notes
    -----
    A Beta-Bernoulli or Dirichlet-categorical model with delta > 0 is drawn from its exact
    posterior, at the exact price of Dirichlet draws (T9), if that keeps more of the likelihood.

    Once charged, a draw runs to its end. Interrupted (Ctrl-C), nothing is released, the charge
    stays, and publishing the fact that it was interrupted is outside the guarantee. A
    Deterministic that fails at some of the draws is withheld; the draws are released all the same.

    References
    ----------
    Dimitrakakis et al. (2017), Algorithm 1; theory T1-T3.
    """
    refuse_keywords(declaration)
    what, declaration = as_declared(what, draws, epsilon, declaration)
    where = Where(ledger, name, data_version, save, again, random_seed)
    with bars(progressbar):
        direct = _counted(what, draws, epsilon, delta, where, sampler, strict)
        if direct is not None:
            return direct
        plan = as_plan(what, draws, epsilon, delta, declaration, sampler, strict)
    check_unchanged(plan)
    if random_seed is not None:
        assembly.check_destination(save, overwrite=again)
        seeded = _seeded(plan, random_seed, name, progressbar)
        return assembly.save_as(seeded, save, overwrite=again)
    key = f"{plan.fingerprint}|{data_version}"
    return _bought(plan, ledger, name, key, save, again, progressbar, executor)


def _bought(
    plan: Plan,
    ledger: Ledger | None,
    name: str | None,
    key: str,
    save: str | os.PathLike[str] | None,
    again: bool,
    progressbar: bool,
    executor: Executor | None,
) -> Release:
    """The release of this name and plan: the stored one, or charge, then draw."""
    ledger, at = _ledger(ledger, plan)
    stored = None if again or name is None else _stored(ledger, name, key)
    if stored is not None:
        return assembly.save_as(stored, save)
    assembly.check_destination(save, overwrite=again)
    assembly.rehearse(plan, name)
    entry = charged(plan, ledger, at, name, key)
    release = drawing.stoppable(lambda: _paid(plan, ledger, entry, progressbar, executor))
    drawing.stoppable(lambda: ledger.store(entry, release.to_bytes()), drawing.STOPPED_LATE)
    return assembly.save_as(release, save, overwrite=again)


def _counted(
    what: Any,
    draws: int | None,
    epsilon: float | None,
    delta: float,
    where: Where,
    sampler: Any,
    strict: bool,
) -> Release | None:
    """A draw at the exact price of Dirichlet draws, unless another sampler is asked for."""
    if strict or not (isinstance(sampler, str) and sampler == AUTO):
        return None
    return sample_conjugate(what, draws, epsilon, delta, where)


def _ledger(ledger: Ledger | None, plan: Plan) -> tuple[Ledger, float | Fraction]:
    """The ledger to charge (given, of the context, or a new one in memory), and at which delta.

    A ledger reads 0.1 as the decimal 1/10, as its user means it. The new one is made for this very
    plan, so it gets the doubles that were proved, exactly.
    """
    ledger = ledger if ledger is not None else Ledger.current()
    if ledger is not None:
        return ledger, plan.delta
    if not math.isfinite(plan.epsilon):
        raise DomainError(
            "these draws have no finite epsilon at this delta, so nothing was charged",
            got=f"delta = {plan.delta:g}, sampler {plan.sampler}",
            do="pass a larger delta: a sampler that is only near the posterior costs one",
        )
    warnings.warn(
        "no ledger: this charge is forgotten when the session ends, and two such releases of the "
        "same data add up unseen; pass ledger=Ledger('study.sqlite', epsilon=..., delta=...)",
        PrivacyWarning,
        stacklevel=3,
    )
    epsilon, delta = Fraction(plan.epsilon), Fraction(plan.delta)
    shares = {"approximate": delta} if delta else None
    neighbors = plan.guarantee.neighbors
    return Ledger(epsilon=epsilon, delta=delta, neighbors=neighbors, shares=shares), delta


def _stored(ledger: Ledger, name: str, key: str) -> Release | None:
    """The release that this name and plan already paid for."""
    entry = ledger.find(name, key)
    if entry is not None:
        return Release.from_bytes(ledger.fetch(entry))
    if name in ledger.names:
        raise Incompatible(
            f"the name '{name}' belongs to another charge in this ledger",
            got="another plan or data_version, or a draw that never finished",
            allowed="one plan per name",
            do="choose another name, or again=True to charge anew",
        )
    return None


def _paid(
    plan: Plan, ledger: Ledger, entry: Entry, progressbar: bool, executor: Executor | None
) -> Release:
    """What a charge paid for. What may fail without the data fails before they are read."""
    told = {
        "charges": [{"label": e.label, "guarantee": e.guarantee.to_dict()} for e in ledger.entries],
        "budget": {"epsilon": str(ledger.budget.epsilon), "delta": str(ledger.budget.delta)},
        "ledger_head": entry.head,
    }
    values = drawing.charged_draw(plan, progressbar, executor)
    return assembly.assemble(plan, values, plan.guarantee, True, entry.name, told)


def _seeded(plan: Plan, seed: int, name: str | None, progressbar: bool) -> Release:
    """A release for tests and demonstrations: not private, and says so everywhere."""
    values = drawing.seeded_draw(plan, seed, progressbar)
    guarantee = Guarantee.none(
        "random_seed makes the draws a function of the data that anyone can recompute",
        neighbors=plan.guarantee.neighbors,
    )
    return assembly.assemble(plan, values, guarantee, False, name)
