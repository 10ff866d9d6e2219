"""calibrate: for a budget and a number of draws, the trim and power that keep most information."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from pymc_private.errors import BudgetExceeded, DomainError, NotCertified, Unsupported
from pymc_private.mechanisms.affordable import Affordable, exact_delta
from pymc_private.models.certificate import Certificate
from pymc_private.models.certify import certify
from pymc_private.models.plan import Frontier, Plan
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.temper import temper as temper_model
from pymc_private.models.terms import Terms
from pymc_private.models.trim import trim
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.printing import number
from pymc_private.samplers.choose import AUTO, candidates, choose
from pymc_private.samplers.method import Method

MASSES = (0.8, 0.9, 0.95, 0.99, 0.999)
DEFAULT_MASS = 0.95
"""Prior mass kept when calibrate trims: the usual public convention (theory T8)."""


def calibrate(
    private: PrivateModel,
    *,
    epsilon: float,
    delta: float = 0.0,
    draws: int = 1,
    temper: bool = True,
    n: int | None = None,
    sampler: Any = AUTO,
    strict: bool = False,
) -> Plan:
    """Find a region and a power so that `draws` exact draws cost at most (epsilon, delta).

    Reads no data: the plan depends on the model, the domain and n alone. A model whose range is
    already finite keeps its region; otherwise the prior is trimmed to a central box of mass 0.95
    (the frontier shows other masses; trim yourself to choose another). Then the likelihood is
    tempered by the largest power that fits. The roads tried are pure (N R), the exact curve of N
    draws (T3), zCDP (T4), and Gaussian privacy where the posterior is log-concave (T7, T22); the
    best one counts. A model that a Gaussian road alone certifies keeps its region if a sampler
    fits.

    Parameters
    ----------
    private : PrivateModel
    epsilon : float, nats
    delta : float
        In [0, 1).
    draws : int
        Number of draws released, at least 1.
    temper : bool
        Whether the likelihood may be tempered. If not, a budget too small is refused.
    n : int, optional
        Under add/remove: a public guess of the number of records, for the plan's words only. Under
        substitution the number is public and known.
    sampler : str or sampler
        ``"auto"`` takes the strongest claim that fits; or ``"conjugate"``, ``"boxes"``, ``"grid"``,
        or one with its options, such as ``pmp.Grid(points=64)``. What it costs is in the price.
    strict : bool
        Ask for a promise that holds in floating point, not only in real arithmetic.

    Returns
    -------
    Plan

    Raises
    ------
    DomainError
        epsilon, delta or draws out of range.
    NotCertified
        No box makes the range finite.
    BudgetExceeded
        ``temper=False`` and the budget is too small.
    Unsupported
        No sampler with a proof fits the model.
    """
    _check(epsilon, delta, draws)
    n = _public_count(private, n)
    pick = partial(choose, sampler=sampler, strict=strict)
    rows = list(_candidates(private, epsilon, delta, draws, n, pick))
    if not rows:
        trimmed = trim(private, mass=DEFAULT_MASS)
        certify(trimmed)  # raises, naming what stays infinite
        pick(trimmed)  # or this, naming what nothing can draw
    chosen = _choice(rows)
    if chosen.power < 1 and not temper:
        _refuse(chosen, epsilon, delta, draws)
    final = _tempered(chosen.private, chosen.power)
    method = pick(final)
    terms = method.terms(final)
    if terms != chosen.certificate.terms:  # what the sampler adds to the price is known only now
        again = _repriced(chosen, terms, epsilon, delta, draws, n)
        rows[rows.index(chosen)] = chosen = again
        final = _tempered(chosen.private, chosen.power)
    certificate = chosen.certificate.tempered(final.power)
    return Plan(
        private=final,
        certificate=certificate,
        guarantee=certificate.guarantee(int(draws)),
        sampler=method.name,
        method=method,
        draws=int(draws),
        epsilon=float(epsilon),
        delta=float(delta),
        frontier=tuple(rows),
        n=n,
        alternatives=partial(candidates, final, int(draws)),
    )


def _public_count(private: PrivateModel, given: int | None) -> int | None:
    """The number of records that plans may speak of."""
    if private.neighbors != ADD_REMOVE:
        if given is not None and given != private.n:
            raise DomainError(
                "n= is for add/remove neighbors; here the number of records is public",
                got=given,
                allowed=f"{private.n}, or nothing",
            )
        return private.n
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool) and given >= 1
    if given is not None and not whole:
        raise DomainError("n= is a public number of records", got=given, allowed="1, 2, ...")
    return None if given is None else int(given)


def _choice(rows: list[Frontier]) -> Frontier:
    """The chosen row: if the usual mass is too large, the next below it."""
    if not any(row.chosen for row in rows):
        rows[-1] = replace(rows[-1], chosen=True)
    return next(row for row in rows if row.chosen)


def _repriced(
    chosen: Frontier, terms: Terms, epsilon: float, delta: float, draws: int, n: int | None
) -> Frontier:
    """The same region on a sampler's terms."""
    return _row(
        chosen.private,
        chosen.certificate.on(terms),
        Affordable(epsilon, delta, draws, exact=exact_delta(terms, epsilon, delta, draws)),
        chosen.mass,
        chosen=True,
        n=n,
    )


def _check(epsilon: float, delta: float, draws: int) -> None:
    if isinstance(draws, bool) or not (isinstance(draws, int | np.integer) and draws >= 1):
        raise DomainError("draws is a whole number >= 1", got=draws, allowed="1, 2, ...")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise DomainError("epsilon must be positive and finite", got=epsilon, allowed="epsilon > 0")
    if not 0.0 <= delta < 1.0:
        raise DomainError("delta is a probability below 1", got=delta, allowed="0 <= delta < 1")


def _candidates(
    private: PrivateModel,
    epsilon: float,
    delta: float,
    draws: int,
    n: int | None,
    pick: Callable[[PrivateModel], Method],
) -> Iterator[Frontier]:
    """Regions worth showing, with the power each affords; the chosen one is marked."""
    affordable = Affordable(epsilon, delta, draws)
    try:
        certificate = certify(private)
        if math.isinf(certificate.range):
            pick(private)
        yield _row(private, certificate, affordable, None, chosen=True, n=n)
        return
    except (NotCertified, Unsupported):  # no price, or nothing that draws: a box may cure both
        pass
    for mass in MASSES:
        try:
            trimmed = trim(private, mass=mass)
            pick(trimmed)  # a model that nothing can draw from is refused before the long work
            certificate = certify(trimmed)
        except NotCertified:
            continue
        yield _row(trimmed, certificate, affordable, mass, chosen=mass == DEFAULT_MASS, n=n)


def _row(
    private: PrivateModel,
    certificate: Certificate,
    affordable: Affordable | None,
    mass: float | None,
    chosen: bool,
    n: int | None,
) -> Frontier:
    power = Fraction(1) if affordable is None else affordable.power(certificate)
    kept = float(power * private.power) * (math.nan if n is None else n)
    return Frontier(private, certificate, power, mass, kept, chosen)


def _tempered(private: PrivateModel, power: Fraction) -> PrivateModel:
    return private if power == 1 else temper_model(private, power)


def _refuse(chosen: Frontier, epsilon: float, delta: float, draws: int) -> None:
    cost = chosen.certificate.guarantee(draws).epsilon(delta)
    asked = (Fraction(cost), Fraction(delta)) if math.isfinite(cost) else (Fraction(0), Fraction(0))
    raise BudgetExceeded(
        f"{draws} draws of the untempered posterior do not fit the budget",
        asked=asked,
        spent=(Fraction(0), Fraction(0)),
        left=(Fraction(epsilon), Fraction(delta)),
        got=f"epsilon {number(cost)} at delta {number(delta)} "
        f"(R = {number(chosen.certificate.range)} per draw)",
        allowed=f"epsilon {number(epsilon, up=False)} at delta {number(delta)}",
        do=f"allow temper=True (power {number(chosen.power, up=False)}), ask for fewer draws, or "
        "trim to a smaller box",
    )


def at_cost(
    private: PrivateModel, draws: int, delta: float, sampler: Any = AUTO, strict: bool = False
) -> Plan:
    """Plan `draws` draws of a model as it stands, at whatever they cost.

    Raises
    ------
    NotCertified, Unsupported, DomainError
        As `calibrate`.
    """
    _check(1.0, delta, draws)
    public = _public_count(private, None)
    certificate = certify(private)
    method = choose(private, sampler, strict=strict)
    certificate = certificate.on(method.terms(private))
    guarantee = certificate.guarantee(int(draws))
    cost = guarantee.epsilon(delta)
    return Plan(
        private=private,
        certificate=certificate,
        guarantee=guarantee,
        sampler=method.name,
        method=method,
        draws=int(draws),
        epsilon=cost,
        delta=float(delta),
        frontier=(_row(private, certificate, None, None, chosen=True, n=public),),
        n=public,
        alternatives=partial(candidates, private, int(draws)),
    )
