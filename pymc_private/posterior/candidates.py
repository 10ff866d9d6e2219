"""What calibrate chooses among: the model as it is, boxes of prior mass, clipped likelihoods."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from pymc_private.errors import DomainError, NotCertified, PymcPrivateError, Unsupported
from pymc_private.posterior.candidates__affordable import Affordable
from pymc_private.certificates.certificate import Certificate
from pymc_private.certificates.certify import certify
from pymc_private.certificates.clip import clip
from pymc_private.models.information import Information, supposed
from pymc_private.posterior.plan import Frontier
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.distributions import has_central_box
from pymc_private.certificates.restrict__temper import temper
from pymc_private.certificates.restrict import trim
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE
from pymc_private.samplers.method__method import Method

MASSES = (0.8, 0.9, 0.95, 0.99, 0.999)
DEFAULT_MASS = 0.95
"""Where the search for the best box starts: the usual public convention (theory T8)."""
TAILS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.4)
"""Shares of simulated log-likelihoods that a clip may lie beyond, at either end."""
CLEARLY = 1.1
"""A clip changes the model, so it must promise so many times the information of other ways."""
NEAR = 0.97
"""Neighbors of a box promise a few percent more at most."""
LOW = Fraction(1, 2**40)
"""A power at which every sampler does that does at any: some only do at a low one."""

Certified = tuple[PrivateModel, Certificate]


class Regions:
    """Certified forms of one model, each certified once, when it is asked for. Reads no data.

    Parameters
    ----------
    private : PrivateModel
    pick : callable
        Chooses a sampler for a model, or raises `Unsupported`.
    information : Information or None
        Simulated records; None where nothing can be simulated.
    n : int or None
        Number of records, where plans may speak of it.
    """

    def __init__(
        self,
        private: PrivateModel,
        pick: Callable[[PrivateModel], Method],
        information: Information | None,
        n: int | None,
    ) -> None:
        self.private, self.information, self.n = private, information, n
        self._pick = pick
        self._known: dict[Hashable, Certified | PymcPrivateError] = {}
        self._refused: dict[Hashable, PymcPrivateError] = {}

    def as_given(self, budget: Affordable) -> Frontier | None:
        """The model as it is; None if nothing prices it or draws from it."""
        return self._row(None, self._given, budget, None)

    def box(self, mass: float, budget: Affordable) -> Frontier | None:
        """A central box of that prior mass."""
        return self._row(mass, lambda: self._boxed(mass), budget, mass)

    def clipped(self, budget: Affordable) -> Frontier | None:
        """The usual box, log-likelihoods clipped to the best ends that the prior predictive has."""
        if self.information is None or self.private.graph.clip is not None:
            return None
        try:
            box = trim(self.private, mass=DEFAULT_MASS)
        except (DomainError, Unsupported):
            return None
        ends = best_ends(box, self.information, budget)

        def make() -> Certified:
            model, power = clip(box, *ends), Fraction(_power_between(box, ends, budget))
            self._pick(tempered(model, power))  # a sampler may only do at a low power
            return model, certify(model)

        row = self._row((ends, budget.draws), make, budget, DEFAULT_MASS)
        return None if row is None else replace(row, clipped=True)

    def is_undrawable(self, mass: float) -> bool:
        """Whether no sampler takes the box of that mass at the power it affords."""
        return isinstance(self._refused.get(mass), Unsupported)

    @property
    def is_boxable(self) -> bool:
        """Whether a central box leaves anything out: of a simplex none does."""
        base = self.private.base
        return any(has_central_box(base, rv) for rv in base.free_RVs)

    def refusal(self) -> PymcPrivateError:
        """Why there is no way: what stays without a bound in the usual box, or cannot be drawn."""
        given, box = (self._refused.get(key) for key in (None, DEFAULT_MASS))
        if isinstance(given, Unsupported) and (box is None or isinstance(box, DomainError)):
            return given
        return box or given or Unsupported("no way was found to meet the budget")

    def _given(self) -> Certified:
        certificate = certify(self.private)
        self._drawable(self.private)
        return self.private, certificate

    def _boxed(self, mass: float) -> Certified:
        return self._certified(trim(self.private, mass=mass))

    def _certified(self, private: PrivateModel) -> Certified:
        self._drawable(private)  # what nothing can draw from is refused before the long work
        return private, certify(private)

    def _drawable(self, private: PrivateModel) -> None:
        """Refuse what nothing draws from at any power; at the power afforded it is asked again."""
        self._pick(tempered(private, LOW))

    def _row(
        self, key: Hashable, make: Callable[[], Certified], budget: Affordable, mass: float | None
    ) -> Frontier | None:
        """One way to meet the budget, at the greatest power it affords."""
        if key not in self._known:
            try:
                self._known[key] = make()
            except (DomainError, NotCertified, Unsupported) as error:
                self._known[key] = self._refused[key] = error
        found = self._known[key]
        if isinstance(found, PymcPrivateError):
            return None
        try:
            return self._priced(*found, budget, mass)
        except Unsupported as error:  # the sampler costs more than there is
            self._refused[key] = error
            return None

    def _priced(
        self,
        private: PrivateModel,
        certificate: Certificate,
        budget: Affordable,
        mass: float | None,
    ) -> Frontier | None:
        """At the greatest power, on the terms of the sampler that will draw."""
        power = budget.power(certificate)
        if power == 0:  # a Gaussian road alone, and no delta
            return None
        final = tempered(private, power)
        terms = self._pick(final).terms(final)
        if terms != certificate.terms:  # what a sampler adds may hang on the power
            certificate = certificate.on(terms)
            power = budget.of(terms).power(certificate)
            if power == 0:  # the terms shut the one road that was open
                return None
        total = float(power * private.power)
        return Frontier(
            private=private,
            certificate=certificate,
            power=power,
            mass=mass,
            records_kept=total * (math.nan if self.n is None else self.n),
            chosen=False,
            information=self.gain(private, total, mass),
            draws=budget.draws,
        )

    def gain(self, private: PrivateModel, power: float, mass: float | None = None) -> float:
        """Information expected from a form of the model, in nats."""
        if self.information is not None:
            return self.information.gain(private, power, private.graph.clip)
        size = sum(math.prod(shape) for shape in private.shapes.values())
        return supposed(power, self.n, 1.0 if mass is None else mass, size)


def tempered(private: PrivateModel, power: Fraction) -> PrivateModel:
    """The model at that power of its likelihood; itself at 1."""
    return private if power == 1 else temper(private, power)


def best_ends(
    private: PrivateModel, information: Information, budget: Affordable
) -> tuple[float, float]:
    """Ends of each record's log-likelihood by which a clipped model tells most, in 0.01 nats.

    Between them R is at most twice their distance (T25; once under add/remove).
    """

    def gain(ends: tuple[float, float]) -> float:
        return information.gain(private, _power_between(private, ends, budget), ends)

    found = []
    for low, high in product(TAILS[1:], TAILS):
        lower, upper = information.quantile(low), information.quantile(1.0 - high)
        found.append((math.floor(100.0 * lower) / 100.0, math.ceil(100.0 * upper) / 100.0))
    return max((ends for ends in found if ends[0] < ends[1]), key=gain)


def _power_between(private: PrivateModel, ends: tuple[float, float], budget: Affordable) -> float:
    """What a budget affords between two ends."""
    times = (1 if private.neighbors == ADD_REMOVE else 2) * private.records_per_unit
    return min(1.0, budget.range / (times * (ends[1] - ends[0])))


def best_boxes(
    regions: Regions, budget: Affordable, climb: bool, given: float = 0.0
) -> list[Frontier]:
    """Boxes worth showing, by mass.

    Parameters
    ----------
    regions : Regions
    budget : Affordable
    climb : bool
        From the usual mass on to its neighbors, as long as they promise more: what the budget
        affords falls with the mass, and what is learned rises. Else every mass.
    given : float
        Information that the model as it is promises: if the usual box is clearly behind, so are
        all.
    """
    if not regions.is_boxable:
        return []
    rows: dict[float, Frontier | None] = {}

    def worth(mass: float) -> float:
        if mass not in rows:
            rows[mass] = regions.box(mass, budget)
        row = rows[mass]
        return -math.inf if row is None else row.information

    start = MASSES.index(DEFAULT_MASS)
    usual = worth(DEFAULT_MASS) if climb else math.nan
    if -math.inf < usual < NEAR * given:
        pass
    elif usual == -math.inf and given > 0.0 and regions.is_undrawable(DEFAULT_MASS):
        pass  # smaller boxes afford more power, which takes a sampler longer
    elif usual > -math.inf:
        for onward in (MASSES[start:], MASSES[start::-1]):
            for here, there in pairwise(onward):
                if worth(there) <= worth(here):
                    break
    else:
        for mass in MASSES:  # what has no price in a small box has none in a larger one
            if worth(mass) == -math.inf:
                break
    return [row for _, row in sorted(rows.items()) if row is not None]
