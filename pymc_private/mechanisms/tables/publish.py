"""From counts and a plan to a Release: charge, then draw."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import xarray as xr

from pymc_private.errors import BudgetExceeded, Incompatible, PrivacyWarning, PymcPrivateError
from pymc_private.mechanisms import assembly, drawing
from pymc_private.mechanisms.guards import check_names
from pymc_private.mechanisms.refusals import explained
from pymc_private.mechanisms.release import Release
from pymc_private.mechanisms.tables.families import Family
from pymc_private.mechanisms.tables.plan import CountPlan
from pymc_private.privacy import Entry, Guarantee, Ledger
from pymc_private.privacy.neighbors import ADD_REMOVE

PACKAGES = ("pymc-private", "numpy", "scipy", "opendp")
CLAIM = "proved (real arithmetic, ideal randomness)"
Arrays = dict[str, np.ndarray]
_REHEARSED: set[tuple[object, ...]] = set()


@dataclass(frozen=True)
class Where:
    """Who pays, and where the release is kept.

    Attributes
    ----------
    ledger : Ledger or None
    name, data_version : str
    save : path or None
    again : bool
    random_seed : int or None
        Makes a release that is not private and charges nothing.
    covered : frozenset of str
        Heads of earlier charges of other records: no record is in both, so that one promise
        protects each. If this very promise was charged under one of them in this ledger, nothing
        more is; in another ledger, it is charged in full.
    keep : bool
        Whether the ledger keeps a release without a name, too; else it notes that there was one.
    """

    ledger: Ledger | None = None
    name: str | None = None
    data_version: str = ""
    save: str | os.PathLike[str] | None = None
    again: bool = False
    random_seed: int | None = None
    covered: frozenset[str] = frozenset()
    keep: bool = True

    @property
    def stored(self) -> bool:
        """Whether the release will be written anywhere."""
        return self.keep or self.name is not None or self.save is not None


@dataclass(frozen=True)
class Content:
    """What a release will hold, and how it is made.

    Attributes
    ----------
    families : tuple of Family
    draws : int
    sampler, grid : str
    dtype : type
    ranges : tuple of float or None
        Ends of every number.
    make : callable
        ``(seed or None)`` to arrays by family name, shape (draws, ...). Reads the data.
    told : mapping
        More public facts.
    """

    families: tuple[Family, ...]
    draws: int
    sampler: str
    grid: str
    dtype: type
    ranges: tuple[float, float] | None
    make: Callable[[int | None], Arrays]
    told: Mapping[str, Any] = field(default_factory=dict)


def publish(plan: CountPlan, content: Content, where: Where) -> Release:
    """Charge, then draw; what can fail without the data fails before the charge.

    Raises
    ------
    BudgetExceeded, Incompatible, DomainError
        Nothing was charged.
    PymcPrivateError
        The draw failed after the charge; the cause is withheld.
    """
    if where.random_seed is not None:
        assembly.check_destination(where.save, overwrite=where.again)
        values = content.make(where.random_seed)
        seeded = _build(plan, content, values, where.name, None)
        return assembly.save_as(seeded, where.save, overwrite=where.again)
    ledger, at = _ledger(where.ledger, plan)
    key = f"{plan.fingerprint}|{content.sampler}|{where.data_version}"
    if where.name is not None and not where.again:
        stored = _stored(ledger, where.name, key)
        if stored is not None:
            return assembly.save_as(stored, where.save)
    assembly.check_destination(where.save, overwrite=where.again)
    _rehearse(plan, content, where)
    label = where.name or f"tables of counts ({plan.method})"
    cost = plan.guarantee
    if any(e.head in where.covered and e.guarantee.atoms == cost.atoms for e in ledger.entries):
        cost, label = Guarantee((), cost.neighbors), f"{label}: other records, priced in parallel"
    try:
        entry = ledger.charge(cost, label, delta=at, name=where.name, key=key)
    except BudgetExceeded as error:
        raise explained(error, plan.budget.delta, ledger) from None
    release = drawing.stoppable(lambda: _paid(plan, content, ledger, entry))
    kept = release.to_bytes if where.stored else lambda: None
    drawing.stoppable(lambda: ledger.store(entry, kept()), drawing.STOPPED_LATE)
    return assembly.save_as(release, where.save, overwrite=where.again)


def _ledger(ledger: Ledger | None, plan: CountPlan) -> tuple[Ledger, float | Fraction | None]:
    """Give the ledger to charge and at which delta; a new one takes exactly what was proved."""
    ledger = ledger if ledger is not None else Ledger.current()
    if ledger is not None:
        return ledger, plan.budget.delta or None
    warnings.warn(
        "no ledger: this charge is forgotten when the session ends, and two such releases of the "
        "same data add up unseen; pass ledger=Ledger('study.sqlite', epsilon=..., delta=...)",
        PrivacyWarning,
        stacklevel=5,
    )
    delta = Fraction(repr(plan.budget.delta))
    epsilon = Fraction(plan.guarantee.exact_epsilon(delta))
    shares = {"approximate": delta} if delta else None
    words: dict[str, Any] = {"neighbors": plan.guarantee.neighbors, "shares": shares}
    return Ledger(epsilon=epsilon, delta=delta, **words), delta or None


def _stored(ledger: Ledger, name: str, key: str) -> Release | None:
    entry = ledger.find(name, key)
    if entry is not None:
        return Release.from_bytes(ledger.fetch(entry))
    if name in ledger.names:
        raise Incompatible(
            f"the name '{name}' belongs to another charge in this ledger",
            got="other tables, another plan or data_version, or a draw that never finished",
            allowed="one plan per name",
            do="choose another name, or again=True to charge anew",
        )
    return None


def _rehearse(plan: CountPlan, content: Content, where: Where) -> None:
    """Build the release on made-up numbers: what would fail after the charge fails here.

    It depends on what is public alone, so once is enough.
    """
    known = (plan.fingerprint, content.sampler, where.name, where.stored)
    if known in _REHEARSED:
        return
    middle = {
        f.name: np.full((content.draws, *f.shape), 1 if content.dtype is int else 0.5)
        for f in content.families
    }
    release = _build(plan, content, middle, where.name, {})
    check_names(release.posterior)
    if where.stored:
        release.to_bytes()
    _REHEARSED.add(known)


def _paid(plan: CountPlan, content: Content, ledger: Ledger, entry: Entry) -> Release:
    told = {
        "charges": [{"label": e.label, "guarantee": e.guarantee.to_dict()} for e in ledger.entries],
        "budget": {"epsilon": str(ledger.budget.epsilon), "delta": str(ledger.budget.delta)},
        "ledger_head": entry.head,
    }
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = content.make(None)
    except Exception as error:
        cause = type(error).__name__
    else:
        return _build(plan, content, values, entry.name, told)
    raise PymcPrivateError(
        "the draw failed after it was charged; nothing is released",
        got=cause,
        do="the cause may depend on the data and is not shown; publishing the failure is not "
        "covered by the guarantee",
    ) from None


def _build(
    plan: CountPlan,
    content: Content,
    values: Mapping[str, np.ndarray],
    name: str | None,
    told: Mapping[str, Any] | None,
) -> Release:
    """Name the numbers and add public facts; without any, the release is a seeded one."""
    private = told is not None
    guarantee = plan.guarantee if private else Guarantee.none(
        "random_seed makes the draws a function of the data that anyone can recompute",
        neighbors=plan.guarantee.neighbors,
    )  # fmt: skip
    ends = None if content.ranges is None else list(content.ranges)
    facts = {
        "sampler": content.sampler,
        "claim": CLAIM,
        "draws": content.draws,
        "epsilon": guarantee.epsilon(plan.budget.delta),
        "delta": plan.budget.delta,
        "neighbors": guarantee.neighbors,
        "records": plan.design.unit,
        "counts": plan.facts() | _public_total(plan),
        "grid": content.grid,
        "model": plan.fingerprint,
        "ranges": {f.variable: ends for f in content.families},
        "name": name,
        "versions": {package: _version(package) for package in PACKAGES},
        "withheld": [],
        "charges": [],
        "budget": None,
        "citations": [],
    }
    facts |= dict(content.told) | dict(told or {})
    return Release(_dataset(content, values), guarantee, facts, private=private)


def _public_total(plan: CountPlan) -> dict[str, float]:
    if plan.design.neighbors == ADD_REMOVE or plan.design.total is None:
        return {}
    return {"total": plan.design.total}


def _dataset(content: Content, values: Mapping[str, np.ndarray]) -> xr.Dataset:
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for family in content.families:
        array: np.ndarray = np.asarray(values[family.name]).astype(content.dtype)
        variables[family.variable] = (("chain", "draw", *family.dims), array[None])
        coords |= family.coords
    return xr.Dataset(variables, coords=coords)


@lru_cache(maxsize=16)
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "run from its source folder"
