"""sample: private posterior draws, made once (BAPS: charge, then draw, then release)."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from concurrent.futures import Executor
from fractions import Fraction
from typing import Any

from pymc_private.errors import DomainError, Incompatible, PrivacyWarning
from pymc_private.mechanisms import assembly, drawing
from pymc_private.mechanisms.calibrate import at_cost, calibrate
from pymc_private.mechanisms.conjugate import sample_conjugate
from pymc_private.mechanisms.guards import check_unchanged
from pymc_private.mechanisms.refusals import charged
from pymc_private.mechanisms.release import Release
from pymc_private.mechanisms.tables.publish import Where
from pymc_private.models.plan import Plan
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.models.progress import bars
from pymc_private.privacy import Entry, Guarantee, Ledger
from pymc_private.samplers.choose import AUTO

MEANINGLESS = {
    "tune": "exact draws need no warm-up; remove it",
    "chains": "draws are independent; say draws=, and release.to_arviz(chains=...) to split them",
    "cores": "the draw runs in this process; remove it",
    "initvals": "exact draws have no start; remove it",
    "step": "the sampler is chosen by the plan; see calibrate",
    "nuts_sampler": "say sampler=pmp.Nuts(backend=..., tv=...): its claim is conditional",
    "target_accept": "there is no step size; remove it",
    "idata_kwargs": "a release holds draws alone; see release.to_arviz()",
}
DECLARE = ("records", "domain", "neighbors", "records_per_unit", "public", "constants")


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
    _refuse_keywords(declaration)
    what, declaration = _declared(what, draws, epsilon, declaration)
    where = Where(ledger, name, data_version, save, again, random_seed)
    with bars(progressbar):
        direct = _counted(what, draws, epsilon, delta, where, sampler, strict)
        if direct is not None:
            return direct
        plan = _plan(what, draws, epsilon, delta, declaration, sampler, strict)
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


def _refuse_keywords(declaration: Mapping[str, Any]) -> None:
    for keyword in declaration:
        if keyword in MEANINGLESS:
            raise TypeError(f"sample() has no '{keyword}': {MEANINGLESS[keyword]}")
        if keyword not in DECLARE:
            raise TypeError(f"sample() got an unexpected keyword '{keyword}'")


def _declared(
    what: Any, draws: int | None, epsilon: float | None, declaration: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """A model with a budget as a private model; anything else as it is."""
    if isinstance(what, Plan | PrivateModel) or epsilon is None or draws is None:
        return what, declaration
    return privatize(what, **declaration), {}


def _plan(
    what: Any,
    draws: int | None,
    epsilon: float | None,
    delta: float,
    declaration: Mapping[str, Any],
    sampler: Any,
    strict: bool,
) -> Plan:
    """Whatever was given, as a plan."""
    if isinstance(what, Plan | PrivateModel) and declaration:
        raise DomainError(
            "the declaration was made already",
            got=", ".join(declaration),
            allowed="records=, domain=, ... with a model only",
            do="call privatize again to declare something else",
        )
    if isinstance(what, Plan):
        _refuse_other_numbers(what, draws, epsilon, delta)
        _refuse_other_sampler(what, sampler, strict)
        return what
    if draws is None:
        raise DomainError("how many draws?", got="draws=None", allowed="draws=1, 2, ...")
    private = what if isinstance(what, PrivateModel) else privatize(what, **declaration)
    if epsilon is None:
        if not isinstance(what, PrivateModel):
            raise DomainError(
                "a model needs a budget",
                got="epsilon=None",
                allowed="epsilon > 0, in nats",
                do="pass epsilon= (and delta=), or calibrate a plan",
            )
        return at_cost(private, draws, delta, sampler, strict)
    return calibrate(
        private, epsilon=epsilon, delta=delta, draws=draws, sampler=sampler, strict=strict
    )


def _refuse_other_sampler(plan: Plan, sampler: Any, strict: bool) -> None:
    """A sampler named beside a plan must be the plan's own."""
    named = sampler if isinstance(sampler, str) else sampler.name
    same = named in (AUTO, plan.sampler) and (isinstance(sampler, str) or sampler == plan.method)
    if not same or (strict and not plan.certificate.terms.strict):
        raise DomainError(
            "a plan fixes its sampler",
            got=f"sampler={named!r}" if not same else "strict=True",
            allowed=f"{plan.method}",
            do="calibrate another plan with sampler= or strict=",
        )


def _refuse_other_numbers(
    plan: Plan, draws: int | None, epsilon: float | None, delta: float
) -> None:
    """Numbers beside a plan must be the plan's own."""
    asked = {"draws": draws, "epsilon": epsilon, "delta": delta or None}
    fixed = {"draws": plan.draws, "epsilon": plan.epsilon, "delta": plan.delta}
    other = [key for key, value in asked.items() if value is not None and value != fixed[key]]
    if other:
        raise DomainError(
            "a plan fixes its numbers",
            got=", ".join(f"{key}={asked[key]}" for key in other),
            allowed=", ".join(f"{key}={fixed[key]}" for key in other),
            do="calibrate another plan",
        )


def _ledger(ledger: Ledger | None, plan: Plan) -> tuple[Ledger, float | Fraction]:
    """The ledger to charge (given, of the context, or a new one in memory), and at which delta.

    A ledger reads 0.1 as the decimal 1/10, as its user means it. The new one is made for this very
    plan, so it gets the doubles that were proved, exactly.
    """
    ledger = ledger if ledger is not None else Ledger.current()
    if ledger is not None:
        return ledger, plan.delta
    warnings.warn(
        "no ledger: this charge is forgotten when the session ends, and two such releases of the "
        "same data add up unseen; pass ledger=Ledger('study.sqlite', epsilon=..., delta=...)",
        PrivacyWarning,
        stacklevel=3,
    )
    epsilon, delta = Fraction(plan.epsilon), Fraction(plan.delta)
    shares = {"approximate": delta} if delta else None
    return Ledger(epsilon=epsilon, delta=delta, shares=shares), delta


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
        "random_seed makes the draws a function of the data that anyone can recompute"
    )
    return assembly.assemble(plan, values, guarantee, False, name)
