"""From a promise and a way to draw to a Release: charge, then draw."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr

from pymc_private.errors import Incompatible, PrivacyWarning, PymcPrivateError
from pymc_private.mechanisms import assembly, drawing
from pymc_private.mechanisms.guards import check_names
from pymc_private.mechanisms.release import Release
from pymc_private.privacy import Entry, Guarantee, Ledger
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness, Uniform

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Plan:
    """What is to be released, all of it public but `values`.

    Attributes
    ----------
    guarantee : Guarantee
    delta : float
        At which the ledger enters it, where it has no pure epsilon there.
    draws : int
    reference : str
        Tells one reference law from another.
    shapes : mapping of str to tuple of int
        The variables of one draw.
    facts : mapping
        Public facts.
    values : callable
        ``(randomness, progress)`` to an array, shape (draws, numbers in one draw). Reads the data.
    """

    guarantee: Guarantee
    delta: float
    draws: int
    reference: str
    shapes: Mapping[str, tuple[int, ...]]
    facts: Mapping[str, Any]
    values: Callable[[Uniform, Progress], np.ndarray] = field(repr=False)

    @property
    def key(self) -> str:
        """What belongs to a name: everything public that a draw depends on."""
        shown = {k: v for k, v in self.facts.items() if k in ("model", "domain")}
        promise = self.guarantee.to_dict(), self.delta, self.draws
        return repr((promise, self.reference, dict(self.shapes), shown))


@dataclass(frozen=True)
class Where:
    """Who pays, and where the release is kept."""

    ledger: Ledger | None = None
    name: str | None = None
    data_version: str = ""
    save: str | os.PathLike[str] | None = None
    again: bool = False


def publish(plan: Plan, where: Where, random_seed: int | None, progressbar: bool) -> Release:
    """Charge, then draw; or, with a seed, draw what is marked not private and charge nothing.

    Raises
    ------
    BudgetExceeded, Incompatible, DomainError
        Nothing was charged.
    PymcPrivateError
        The draw failed after the charge; the cause is withheld.
    """
    if random_seed is not None:
        assembly.check_destination(where.save, overwrite=where.again)
        randomness = SeededRandomness.from_seed(random_seed)
        release = _build(plan, _draw(plan, randomness, progressbar), where.name, private=False)
        return assembly.save_as(release, where.save, overwrite=where.again)
    ledger, at = _ledger(where.ledger, plan)
    key = f"{plan.key}|{where.data_version}"
    if where.name is not None and not where.again:
        stored = _stored(ledger, where.name, key)
        if stored is not None:
            return assembly.save_as(stored, where.save)
    assembly.check_destination(where.save, overwrite=where.again)
    _rehearse(plan, where.name)
    label = where.name or f"{plan.draws} draws"
    entry = ledger.charge(plan.guarantee, label, delta=at, name=where.name, key=key)
    release = drawing.stoppable(lambda: _paid(plan, ledger, entry, progressbar))
    drawing.stoppable(lambda: ledger.store(entry, release.to_bytes()), drawing.STOPPED_LATE)
    return assembly.save_as(release, where.save, overwrite=where.again)


def _ledger(ledger: Ledger | None, plan: Plan) -> tuple[Ledger, float | Fraction | None]:
    """The ledger to charge, and at which delta; a new one gets exactly what was proved."""
    ledger = ledger if ledger is not None else Ledger.current()
    if ledger is not None:
        return ledger, plan.delta or None
    warnings.warn(
        "no ledger: this charge is forgotten when the session ends, and two such releases of the "
        "same data add up unseen; pass ledger=Ledger('study.sqlite', epsilon=..., "
        f"neighbors={plan.guarantee.neighbors!r})",
        PrivacyWarning,
        stacklevel=4,
    )
    delta = Fraction(plan.delta)
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
            got="another law or data_version, or a draw that never finished",
            do="choose another name, or again=True to charge anew",
        )
    return None


def _rehearse(plan: Plan, name: str | None) -> None:
    """Build the release on zeros: what would fail after the charge fails here."""
    width = sum(math.prod(shape) for shape in plan.shapes.values())
    release = _build(plan, np.zeros((plan.draws, width)), name)
    check_names(release.posterior)
    release.to_bytes()


def _paid(plan: Plan, ledger: Ledger, entry: Entry, progressbar: bool) -> Release:
    told = {
        "charges": [{"label": e.label, "guarantee": e.guarantee.to_dict()} for e in ledger.entries],
        "budget": {"epsilon": str(ledger.budget.epsilon), "delta": str(ledger.budget.delta)},
        "ledger_head": entry.head,
    }
    try:
        values = _draw(plan, SystemRandomness(), progressbar)
    except Exception as error:
        cause = type(error).__name__
    else:
        return _build(plan, values, entry.name, told)
    raise PymcPrivateError(
        "the draw failed after it was charged; nothing is released",
        got=cause,
        do="the cause may depend on the data and is not shown; publishing the failure is not "
        "covered by the guarantee",
    ) from None


def _draw(plan: Plan, randomness: Uniform, progressbar: bool) -> np.ndarray:
    with drawing.silence(), drawing.bar(plan.draws, progressbar) as progress:
        return plan.values(randomness, progress)


def _build(
    plan: Plan,
    values: np.ndarray,
    name: str | None,
    told: Mapping[str, Any] | None = None,
    private: bool = True,
) -> Release:
    """Name the numbers and add public facts."""
    guarantee = plan.guarantee
    if not private:
        guarantee = Guarantee.none(
            "random_seed makes the draws a function of the data that anyone can recompute",
            neighbors=plan.guarantee.neighbors,
        )
    facts = dict(plan.facts) | {
        "draws": plan.draws,
        "epsilon": guarantee.epsilon(plan.delta),
        "delta": plan.delta,
        "neighbors": guarantee.neighbors,
        "name": name,
        "versions": {package: assembly.version_of(package) for package in assembly.PACKAGES},
        "charges": [],
        "budget": None,
        "citations": [],
    }
    return Release(_dataset(plan, values), guarantee, facts | dict(told or {}), private=private)


def _dataset(plan: Plan, values: np.ndarray) -> xr.Dataset:
    variables, start = {}, 0
    for name, shape in plan.shapes.items():
        width = math.prod(shape)
        part = values[:, start : start + width].reshape(1, plan.draws, *shape)
        dims = [f"{name}_dim_{i}" for i in range(len(shape))]
        variables[name] = (("chain", "draw", *dims), part)
        start += width
    return xr.Dataset(variables)
