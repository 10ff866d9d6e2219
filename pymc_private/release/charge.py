"""Charge, then draw: the one order in which anything here is released."""

from __future__ import annotations

import math
import os
import warnings
import numpy as np
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from pymc_private.errors import BudgetExceeded, DomainError, Incompatible, PrivacyWarning, PymcPrivateError
from pymc_private.posterior import assemble
from pymc_private.release import charge__drawing
from pymc_private.release.charge__refusals import endless, explained
from pymc_private.release.release import Release
from pymc_private.ledger import Entry, Ledger
from pymc_private.privacy import Guarantee
from pymc_private.privacy.validation__texts import storable

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

    def __post_init__(self) -> None:
        check_ledger(self.ledger)
        if self.name is not None:
            storable(self.name, "the name of a release")
        storable(str(self.data_version), "data_version", empty=True)
        if self.save is not None and not isinstance(self.save, str | os.PathLike):
            raise DomainError(
                "save= is the path of a file; nothing was charged",
                got=type(self.save).__name__,
                do="save='release.nc', for example",
            )
        try:
            if self.random_seed is not None:  # no draw that is private asks NumPy for anything
                np.random.default_rng(self.random_seed)
        except (TypeError, ValueError):
            raise DomainError(
                "random_seed is a whole number; nothing was charged",
                got=repr(self.random_seed)[:60],
                allowed="0, 1, 2, ..., for draws that are NOT PRIVATE; None for private ones",
            ) from None

    @property
    def stored(self) -> bool:
        """Whether the release will be written anywhere."""
        return self.keep or self.name is not None or self.save is not None


def check_ledger(ledger: Any) -> None:
    """Refuse what is no ledger, such as the path of one.

    Raises
    ------
    DomainError
        Nothing was charged.
    """
    if ledger is None or isinstance(ledger, Ledger):
        return
    is_path = isinstance(ledger, str | os.PathLike)
    place = f"{os.fspath(ledger)!r}" if is_path else ""
    raise DomainError(
        "this is no ledger; nothing was charged",
        got=f"{type(ledger).__name__} {place}".rstrip(),
        allowed="a pmp.Ledger",
        do=f"pmp.Ledger({place}, epsilon=..., delta=..., neighbors=...), or "
        f"pmp.Ledger.open({place}) if it is there already"
        if is_path
        else "pmp.Ledger('study.sqlite', epsilon=..., delta=..., neighbors=...)",
    )


@dataclass(frozen=True)
class Offer:
    """What a charge buys: all of it public but what `draw` reads.

    Attributes
    ----------
    guarantee : Guarantee
    delta : float
        At which a ledger enters it, where it has no pure epsilon there.
    exact_delta : Fraction
        The same for a new ledger, which gets exactly what was proved.
    key : str
        Everything public that the draws depend on: it belongs to a name.
    label : str
        In the ledger, where there is no name.
    another : str
        What else a name may belong to, as in "another law".
    rehearse : callable
        Fails where building or storing the release would fail after the charge. Reads no data.
    draw : callable
        ``(seed or None)`` to the draws. Reads the data.
    build : callable
        ``(draws, facts of the ledger or None)`` to a release; None: one that is not private.
    depth : int
        Calls between the user and `publish`, for the place that a warning names.
    """

    guarantee: Guarantee
    delta: float
    exact_delta: Fraction
    key: str
    label: str
    another: str
    rehearse: Callable[[], None]
    draw: Callable[[int | None], Any]
    build: Callable[[Any, Mapping[str, Any] | None], Release]
    depth: int = 1


def publish(offer: Offer, where: Where) -> Release:
    """Charge, then draw; what can fail without the data fails before the charge.

    With a seed: draw what is marked not private, and charge nothing.

    Raises
    ------
    BudgetExceeded, Incompatible, DomainError
        Nothing was charged.
    PymcPrivateError
        The draw failed after the charge; the cause is withheld.
    UnsavedRelease
        It was drawn, and could not be stored or saved; the error has it.
    """
    if where.random_seed is not None:
        assemble.check_destination(where.save, overwrite=where.again)
        seeded = offer.build(offer.draw(where.random_seed), None)
        return _saved(seeded, where, "nothing was charged: it is `release` of this error")
    ledger, at = _ledger(offer, where)
    key = f"{offer.key}|{where.data_version}"
    stored = None if where.again or where.name is None else _stored(ledger, where.name, key, offer)
    if stored is not None:
        return _saved(stored, where, f"nothing more was charged; {charge__drawing.KEPT}")
    assemble.check_destination(where.save, overwrite=where.again)
    _rehearse(offer)
    entry = _charged(offer, where, ledger, at, key)
    release = charge__drawing.stoppable(lambda: _paid(offer, ledger, entry))
    charge__drawing.stoppable(lambda: _keep(release, ledger, entry, where), charge__drawing.STOPPED_LATE)
    return _saved(release, where, f"the charge stands; {charge__drawing.KEPT}", charged=True)


def _keep(release: Release, ledger: Ledger, entry: Entry, where: Where) -> None:
    """Put a release on record; one that cannot be is not lost."""
    try:
        ledger.store(entry, release.to_bytes() if where.stored else None)
    except (OSError, PymcPrivateError) as error:
        problem = "the release was drawn and charged, but the ledger could not keep it"
        raise charge__drawing.unsaved(release, error, problem, charge__drawing.UNKEPT) from error


def _saved(release: Release, where: Where, do: str, *, charged: bool = False) -> Release:
    """Write the file that was asked for; a release that cannot be written is not lost."""
    caught = (OSError, PymcPrivateError) if charged else OSError
    try:
        return assemble.save_as(release, where.save, overwrite=where.again)
    except caught as error:
        problem = "the release was drawn, but it could not be saved"
        raise charge__drawing.unsaved(release, error, problem, do) from error


def unprotected(guarantee: Guarantee) -> Guarantee:
    """What a seed makes of a promise."""
    return Guarantee.none(
        "random_seed makes the draws a function of the data that anyone can recompute",
        neighbors=guarantee.neighbors,
    )


def _ledger(offer: Offer, where: Where) -> tuple[Ledger, float | Fraction | None]:
    """The ledger to charge (given, of the context, or a new one in memory), and at which delta.

    A ledger reads 0.1 as the decimal 1/10, as its user means it. The new one is made for this very
    promise, so it gets the numbers that were proved, exactly.
    """
    ledger = where.ledger if where.ledger is not None else Ledger.current()
    if ledger is not None:
        return ledger, offer.delta or None
    delta, guarantee = offer.exact_delta, offer.guarantee
    epsilon = guarantee.exact_epsilon(delta)
    if not math.isfinite(epsilon):
        raise endless(guarantee, offer.delta)
    warnings.warn(
        "no ledger: this charge is forgotten when the session ends, and two such releases of the "
        "same data add up unseen; pass ledger=Ledger('study.sqlite', epsilon=..., delta=..., "
        f"neighbors={guarantee.neighbors!r})",
        PrivacyWarning,
        stacklevel=offer.depth + 3,
    )
    shares = {"approximate": delta} if delta else None
    words: dict[str, Any] = {"neighbors": guarantee.neighbors, "shares": shares}
    return Ledger(epsilon=Fraction(epsilon), delta=delta, **words), delta or None


def _rehearse(offer: Offer) -> None:
    """What would fail after the charge fails here, with the cure that fits the promise."""
    try:
        offer.rehearse()
    except DomainError:
        if math.isfinite(offer.guarantee.epsilon(offer.delta)):
            raise
        raise endless(offer.guarantee, offer.delta) from None


def _stored(ledger: Ledger, name: str, key: str, offer: Offer) -> Release | None:
    """The release that this name and promise already paid for."""
    entry = ledger.find(name, key)
    if entry is not None:
        return Release.from_bytes(ledger.fetch(entry))
    if name in ledger.names:
        raise Incompatible(
            f"the name '{name}' belongs to another charge in this ledger",
            got=f"{offer.another} or data_version, or a draw that never finished",
            allowed="one plan per name",
            do="choose another name, or again=True to charge anew",
        )
    return None


def _charged(
    offer: Offer, where: Where, ledger: Ledger, at: float | Fraction | None, key: str
) -> Entry:
    """The charge, or why it is refused."""
    cost, label = offer.guarantee, where.name or offer.label
    if any(e.head in where.covered and e.guarantee.atoms == cost.atoms for e in ledger.entries):
        cost, label = Guarantee((), cost.neighbors), f"{label}: other records, priced in parallel"
        at = None  # nothing is asked of delta either
    try:
        return ledger.charge(cost, label, delta=at, name=where.name, key=key)
    except BudgetExceeded as error:
        raise explained(error, cost, offer.delta, ledger) from None


def _paid(offer: Offer, ledger: Ledger, entry: Entry) -> Release:
    told = {
        "charges": [{"label": e.label, "guarantee": e.guarantee.to_dict()} for e in ledger.entries],
        "budget": {"epsilon": str(ledger.budget.epsilon), "delta": str(ledger.budget.delta)},
        "ledger_head": entry.head,
    }
    return offer.build(charge__drawing.withheld(lambda: offer.draw(None)), told)
