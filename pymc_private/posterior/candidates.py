"""Candidate regions and the powers that a budget affords.

`CandidateModels` holds certified forms of one model (as it is, central boxes of prior mass,
clipped log-likelihoods), each certified once. `DrawBudget` inverts the accounting: the largest
range R (T1-T4), Gaussian mu (T7) and likelihood power for (epsilon, delta) and a number of
draws, after the distance of a sampler from its distribution has taken its share of delta
(T18).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product

import numpy as np

from pymc_private.certificates.certificate import Certificate
from pymc_private.certificates.certify import certify
from pymc_private.certificates.clip import clip
from pymc_private.certificates.conjugate import ConjugatePair
from pymc_private.certificates.restrict import temper, trim
from pymc_private.certificates.terms import SamplingTerms
from pymc_private.errors import DomainError, NotCertified, PymcPrivateError, Unsupported
from pymc_private.models.compat import say_stage
from pymc_private.models.distributions import ORDERED, has_central_box, transform_name
from pymc_private.models.information import Information, assumed_information
from pymc_private.models.prior import in_region
from pymc_private.models.private_model import PrivateModel
from pymc_private.posterior.plan import FrontierRow
from pymc_private.privacy import Guarantee, approx_delta_n, gdp_delta
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import SMALLEST_DOUBLE, format_count, format_number
from pymc_private.release.charge import EXACT_SAMPLER_ADVICE
from pymc_private.samplers.method import Method

PRIOR_MASSES = (0.8, 0.9, 0.95, 0.99, 0.999)
DEFAULT_MASS = 0.95
"""The mass at which the search for the best box starts: the usual public convention (T8)."""
SEARCH_TOLERANCE = 0.2
"""Gap between bound and truth at which boxes are compared; the one chosen is certified finely."""
CLIP_SHARES = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96, 0.99, 1.0)
"""Shares of simulated log-likelihoods that lie below an end of a clip, where its search starts."""
ORDER_GAP = 0.2
"""Gap between boxes of ordered entries, as a share of the distance of their medians."""
FIRST_STEP, LAST_STEP = 0.25, 0.02
"""Steps of an end of a clip in that search, in distances between the ends."""
BOX_TAIL = 0.0025
"""Tail of prior draws beyond a box of what has no central box, where a clip needs one."""
CLIP_ADVANTAGE = 1.1
"""A clip changes the model, so it must promise this many times the information of the others."""
NEIGHBOR_TOLERANCE = 0.97
"""Boxes of neighboring masses promise at most a few percent more than one another."""
PROBE_POWER = Fraction(1, 2**40)
"""A power at which every sampler applies that applies at any: some need a low one."""
CertifiedModel = tuple[PrivateModel, Certificate]


class CandidateModels:
    """Certified forms of one model, each certified once and on demand. Reads no data.

    Parameters
    ----------
    private : PrivateModel
    pick : callable
        Chooses a sampler for a model, or raises `Unsupported`.
    information : Information or None
        Simulated records; None where nothing can be simulated.
    n : int or None
        Number of records, where it is public.
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
        self._known: dict[Hashable, CertifiedModel | PymcPrivateError] = {}
        self._clips: dict[int, tuple[float, float] | None] = {}
        self._refused: dict[Hashable, PymcPrivateError] = {}

    def as_given(self, budget: DrawBudget) -> FrontierRow | None:
        """The model as it is; None if it has no finite guarantee or no sampler."""
        return self._row(None, self._given, budget, None)

    def box(self, mass: float, budget: DrawBudget) -> FrontierRow | None:
        """A central box of that prior mass."""
        return self._row(mass, lambda: self._boxed(mass), budget, mass)

    def clipped(self, budget: DrawBudget) -> FrontierRow | None:
        """The default box with log-likelihoods clipped to the best bounds on simulated records.

        Certified without a search: records at both ends of a clip nearly reach 2 (b - a), of T25.
        """
        box, bounds = self._box_of_a_clip, self._clip_bounds(budget)
        if bounds is None or self.information is None:
            return None

        def make() -> CertifiedModel:
            model, power = clip(box, *bounds), Fraction(_power_for_clip(box, bounds, budget))
            self._pick(tempered(model, power))  # a sampler may apply only at a low power
            return model, certify(model, seconds=0)

        kept = float(in_region(box, self.information.drawn).mean())
        central = set(box.region) <= set(self._central_region)
        mass = DEFAULT_MASS if central and box.region else round(kept, 2) if box.region else None
        row = self._row((bounds, budget.draws), make, budget, mass)
        return None if row is None else replace(row, clipped=True)

    def promise_of_clip(self, budget: DrawBudget) -> float:
        """Information that the best clip would give, in nats, before it is certified; 0 if none."""
        bounds = self._clip_bounds(budget)
        if bounds is None or self.information is None:
            return 0.0
        power = _power_for_clip(self._box_of_a_clip, bounds, budget)
        return self.information.gain(self._box_of_a_clip, power, bounds)

    def _clip_bounds(self, budget: DrawBudget) -> tuple[float, float] | None:
        """The best ends of a clip; None if nothing was simulated, or the model is no likelihood."""
        changed = self.private.graph.clip is not None or self.private.score is not None
        if self.information is None or changed:
            return None
        if budget.draws not in self._clips:
            box, information = self._box_of_a_clip, self.information
            self._clips[budget.draws] = best_clip_bounds(box, information, budget)
        return self._clips[budget.draws]

    @property
    def is_judged(self) -> bool:
        """Whether information is expected of records of the model, and their number is public."""
        return self.information is not None and self.n is not None

    @cached_property
    def _central_region(self) -> tuple[str, ...]:
        """Names of the parameters that have a central box."""
        base = self.private.base
        return tuple(rv.name for rv in base.free_RVs if has_central_box(base, rv))

    @cached_property
    def _box_of_a_clip(self) -> PrivateModel:
        """The default box; of what has no central box, quantiles of prior draws.

        The range of a clipped model needs no box, the box sampler does.
        """
        try:
            box = trim(self.private, mass=DEFAULT_MASS)
        except (DomainError, Unsupported):
            box = self.private
        drawn = {} if self.information is None else self.information.drawn
        ordered = [rv.name for rv in box.base.free_RVs if transform_name(box.base, rv) == ORDERED]
        tails = {
            name: _box_of_draws(drawn[name], name in ordered)
            for name, bounds in box.box.items()
            if name in drawn and drawn[name].dtype.kind == "f" and not bounds.is_finite
        }
        try:
            return trim(box, box=tails) if tails else box
        except (DomainError, Unsupported):
            return box

    def finely(self, row: FrontierRow, budget: DrawBudget) -> FrontierRow:
        """The row of a box, certified as finely as the effort allows."""
        if row.mass is None or row.clipped or row.certificate.tolerance < SEARCH_TOLERANCE:
            return row
        private = row.private
        fine = self._row(("fine", row.mass), lambda: (private, certify(private)), budget, row.mass)
        return row if fine is None else fine

    def is_undrawable(self, mass: float) -> bool:
        """Whether no sampler applies to the box of that mass at the power it affords."""
        return isinstance(self._refused.get(mass), Unsupported)

    @property
    def is_boxable(self) -> bool:
        """Whether a central box excludes anything: of a simplex none does."""
        base = self.private.base
        return any(has_central_box(base, rv) for rv in base.free_RVs)

    def refusal(self) -> PymcPrivateError:
        """The error where no candidate is left: no bound in the default box, or no sampler."""
        given, box = (self._refused.get(key) for key in (None, DEFAULT_MASS))
        if isinstance(given, Unsupported) and (box is None or isinstance(box, DomainError)):
            return given
        known = box or given
        if known is not None:
            return known
        return Unsupported(
            "no way was found to meet the budget",
            do="a larger epsilon, fewer draws, pmp.trim(private, mass=...), release='summary'",
        )

    def _given(self) -> CertifiedModel:
        """The model as it is: certified first, so that the certificate's error comes first."""
        certificate = certify(self.private)
        self._check_drawable(self.private)
        return self.private, certificate

    def _boxed(self, mass: float) -> CertifiedModel:
        """A central box; a model without a sampler is refused before the long certification."""
        private = trim(self.private, mass=mass)
        self._check_drawable(private)
        return private, certify(private, tolerance=SEARCH_TOLERANCE)

    def _check_drawable(self, private: PrivateModel) -> None:
        """Refuse a model without a sampler at any power; checked again at the power afforded."""
        self._pick(tempered(private, PROBE_POWER))

    def _row(
        self,
        key: Hashable,
        make: Callable[[], CertifiedModel],
        budget: DrawBudget,
        mass: float | None,
    ) -> FrontierRow | None:
        """The row of one candidate at the greatest power afforded; None if it cannot be had."""
        if key not in self._known:
            box = "the model as it is" if mass is None else f"a box of prior mass {mass:g}"
            say_stage("a clip" if isinstance(key, tuple) and key[0] != "fine" else box)
            try:
                self._known[key] = make()
            except (DomainError, NotCertified, Unsupported) as error:
                self._known[key] = self._refused[key] = error
        found = self._known[key]
        if isinstance(found, PymcPrivateError):
            return None
        try:
            return self._priced(*found, budget, mass)
        except Unsupported as error:  # the sampler costs more than the budget
            self._refused[key] = error
            return None

    def _priced(
        self,
        private: PrivateModel,
        certificate: Certificate,
        budget: DrawBudget,
        mass: float | None,
    ) -> FrontierRow | None:
        """The greatest power of a certified model, on the terms of the sampler that will draw."""
        power = budget.power(certificate)
        if power == 0:  # a Gaussian guarantee alone, and no delta
            return None
        final = tempered(private, power)
        terms = self._pick(final).terms(final)
        if terms != certificate.terms:  # the terms of a sampler may depend on the power
            certificate = certificate.on(terms)
            power = budget.of(terms).power(certificate)
            if power == 0:  # the terms exclude the only accounting method that was left
                return None
        total = float(power * private.power)
        return FrontierRow(
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
        """The information expected from a form of the model, in nats."""
        if self.information is not None:
            return self.information.gain(private, power, private.graph.clip)
        size = sum(math.prod(shape) for shape in private.shapes.values())
        return assumed_information(power, self.n, 1.0 if mass is None else mass, size)


def tempered(private: PrivateModel, power: Fraction) -> PrivateModel:
    """The model at that power of its likelihood; itself at 1."""
    return private if power == 1 else temper(private, power)


def candidate_boxes(
    candidates: CandidateModels, budget: DrawBudget, climb: bool, given: float = 0.0
) -> list[FrontierRow]:
    """Rows of central boxes, sorted by mass.

    With `climb` the search goes from the default mass to its neighbors as long as their information
    grows: the power afforded falls with the mass, and the share of the prior rises. Else every
    mass is tried. `given` is the information of the model as it is: if the default box is clearly
    below it, no other is tried.
    """
    if not candidates.is_boxable:
        return []
    rows: dict[float, FrontierRow | None] = {}

    def information_of(mass: float) -> float:
        if mass not in rows:
            rows[mass] = candidates.box(mass, budget)
        row = rows[mass]
        return -math.inf if row is None else row.information

    start = PRIOR_MASSES.index(DEFAULT_MASS)
    default = information_of(DEFAULT_MASS) if climb else math.nan
    if -math.inf < default < NEIGHBOR_TOLERANCE * given:
        pass
    elif default == -math.inf and given > 0.0 and candidates.is_undrawable(DEFAULT_MASS):
        pass  # smaller boxes afford more power, which takes a sampler longer
    elif default > -math.inf:
        for direction in (PRIOR_MASSES[start:], PRIOR_MASSES[start::-1]):
            for here, there in pairwise(direction):
                if information_of(there) <= information_of(here):
                    break
    else:
        for mass in PRIOR_MASSES:  # without a finite range in a small box, none in a larger one
            if information_of(mass) == -math.inf:
                break
    return [row for _, row in sorted(rows.items()) if row is not None]


def _box_of_draws(draws: np.ndarray, ordered: bool) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles of draws, elementwise; entries in order get boxes with a gap between medians."""
    lower, middle, upper = np.quantile(draws, [BOX_TAIL, 0.5, 1.0 - BOX_TAIL], axis=0)
    if ordered:
        between = (middle[..., 1:] + middle[..., :-1]) / 2.0
        room = ORDER_GAP / 2.0 * np.diff(middle, axis=-1)
        lower[..., 1:] = np.maximum(lower[..., 1:], between + room)
        upper[..., :-1] = np.minimum(upper[..., :-1], between - room)
    return lower, upper


def best_clip_bounds(
    private: PrivateModel, information: Information, budget: DrawBudget
) -> tuple[float, float] | None:
    """Clipping bounds of the log-likelihood of a record with the largest expected information.

    In multiples of 0.01 nats; None if no simulated log-likelihoods lie apart. R is at most twice
    their distance (T25; once under add/remove). The best pair of quantiles is moved, one end at a
    time, by steps that halve.
    """

    def gain(bounds: tuple[float, float]) -> float:
        if bounds[0] >= bounds[1]:
            return -math.inf
        return information.gain(private, _power_for_clip(private, bounds, budget), bounds)

    ends = dict.fromkeys(round(information.quantile(share), 2) for share in CLIP_SHARES)
    pairs = [(low, high) for low, high in product(ends, ends) if low < high]
    if not pairs:
        return None
    best = max(pairs, key=gain)
    best_gain, step = gain(best), FIRST_STEP
    while step >= LAST_STEP:
        room = step * (best[1] - best[0])
        moved = [(-room, 0.0), (room, 0.0), (0.0, -room), (0.0, room), (-room, room), (room, -room)]
        near = [(round(best[0] + low, 2), round(best[1] + high, 2)) for low, high in moved]
        gains = [gain(bounds) for bounds in near]
        if max(gains) > best_gain * (1.0 + 1e-3):
            best, best_gain = near[int(np.argmax(gains))], max(gains)
        else:
            step /= 2.0
    return best


def _power_for_clip(
    private: PrivateModel, bounds: tuple[float, float], budget: DrawBudget
) -> float:
    """The power that a budget affords for log-likelihoods clipped to these bounds."""
    times = (1 if private.neighbors == ADD_REMOVE else 2) * private.records_per_unit
    return min(1.0, budget.range / (times * (bounds[1] - bounds[0])))


POWER_DIGITS = 6
"""Significant digits of a power: a short one is easier to read and to state."""
LEAST_POWER = 2.0**-40
"""The smallest power that is tried: below it a likelihood carries no information."""


class DrawBudget:
    """A budget (epsilon, delta) for a number of draws: the largest range, mu and power it affords.

    Parameters
    ----------
    epsilon, delta : float
    draws : int
    exact_delta : float, optional
        The delta that is left for exact draws after the distance of the sampler from its
        distribution took its share. Default: all of it.
    """

    def __init__(
        self, epsilon: float, delta: float, draws: int, exact_delta: float | None = None
    ) -> None:
        self.epsilon, self.delta, self.draws = epsilon, delta, draws
        self.exact_delta = delta if exact_delta is None else exact_delta

    def of(self, terms: SamplingTerms) -> DrawBudget:
        """The same budget less what the terms of a sampler take of delta (`remaining_delta`)."""
        left = remaining_delta(terms, self.epsilon, self.delta, self.draws)
        return DrawBudget(self.epsilon, self.delta, self.draws, exact_delta=left)

    @cached_property
    def range(self) -> float:
        """The largest range R of one draw that fits; see `largest_range`."""
        return largest_range(self.epsilon, self.exact_delta, self.draws)

    @cached_property
    def mu(self) -> float:
        """The largest mu of one draw that fits (T7), rounded down; 0 at delta = 0."""
        if self.exact_delta == 0.0:
            return 0.0

        def fits(mu: float) -> bool:
            return gdp_delta(self.epsilon, mu) <= self.exact_delta

        return _largest_fitting(fits, 1e-3 * self.epsilon) / math.sqrt(self.draws) * (1.0 - 1e-12)

    def fits(self, certificate: Certificate) -> bool:
        """Whether the draws fit the budget at the power of the certificate."""
        guarantee = certificate.guarantee(self.draws)
        return guarantee.epsilon(self.delta) <= self.epsilon

    def power(self, certificate: Certificate) -> Fraction:
        """The largest power, at most one, by which an untempered certificate fits, rounded down."""
        if self.fits(certificate):
            return Fraction(1)
        powers = [Fraction(0)]
        if math.isfinite(certificate.range):
            powers.append(Fraction(self.range) / Fraction(certificate.charged_range))
        if math.isfinite(certificate.charged_mu) and self.mu > 0.0:
            powers.append(self._power_by_mu(certificate))
        pair = certificate.charged_pair
        if pair is not None and self.exact_delta > 0.0:
            powers.append(self._power_by_pair(certificate, pair))
        power = min(_round_power_down(max(powers)), Fraction(1))
        while power and not self.fits(certificate.tempered(certificate.power * power)):
            power = _round_power_down(power * (1 - Fraction(1, 10**POWER_DIGITS)))
        return power

    def _power_by_mu(self, certificate: Certificate) -> Fraction:
        """mu is concave in the power where data add precision, else proportional to it."""

        def fits(power: float) -> bool:
            return certificate.tempered(certificate.power * Fraction(power)).mu <= self.mu

        return Fraction(_largest_fitting(fits, min(1.0, self.mu / certificate.mu) * (1.0 - 1e-9)))

    def _power_by_pair(self, certificate: Certificate, pair: ConjugatePair) -> Fraction:
        """The power by the exact curve of a conjugate pair; delta rises with the power (T12).

        A quick approximation of the curve proposes a power and the proved curve decides. Where it
        refuses, the power is lowered in growing steps until it fits.
        """

        def seems_to_fit(power: float) -> bool:
            at = float(certificate.power) * power
            return power <= 1.0 and pair.guess(at, self.draws, self.epsilon) <= self.exact_delta

        try:
            with np.errstate(all="ignore"):
                power = Fraction(_largest_fitting(seems_to_fit, 0.5, least=LEAST_POWER))
        except (ArithmeticError, ValueError, RuntimeError):  # of absurd budgets
            power = Fraction(1, 2)
        step = Fraction(1, 2**14)
        while power > LEAST_POWER:
            if self.fits(certificate.tempered(certificate.power * power)):
                return power
            power, step = power * (1 - step), min(2 * step, Fraction(3, 4))
        return Fraction(0)


def _round_power_down(power: Fraction) -> Fraction:
    """The power, rounded down to six significant digits."""
    if power == 0:
        return power
    digits = POWER_DIGITS - math.floor(math.log10(power)) - 1
    return Fraction(math.floor(power * Fraction(10) ** digits), 1) / Fraction(10) ** digits


def _largest_fitting(fits: Callable[[float], bool], start: float, least: float = 0.0) -> float:
    """The largest number that fits, within a relative 1e-9, searched from `start` >= 0.

    The number returned was tried and fits, unless the search ended at `least`.
    """
    low = max(start, SMALLEST_DOUBLE)
    while low > least and not fits(low):
        low /= 2.0
    if low == 0.0:  # which no doubling leaves
        return low
    high = 2.0 * low
    while fits(high) and high < 1e300:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if fits(middle) else (low, middle)
        if high - low < 1e-9 * low:
            break
    return low


def largest_range(epsilon: float, delta: float, draws: int) -> float:
    """The largest R for which `draws` draws are (epsilon, delta)-DP (T1-T4), in nats, rounded down.

    Bisection on a non-increasing predicate, which the returned number satisfies.
    """
    low = epsilon / draws * (1.0 - 2.0**-50)
    if delta == 0.0:
        return low
    high = low
    while _range_fits(high * 2.0, epsilon, delta, draws):
        low, high = high * 2.0, high * 2.0
    high = high * 2.0
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _range_fits(middle, epsilon, delta, draws) else (low, middle)
        if high - low < 1e-7 * low:
            break
    # The ledger computes epsilon at delta, and its root finder errs upward by a little.
    while Guarantee.bounded_range_of(low, draws).epsilon(delta) > epsilon:
        low *= 1.0 - 1e-8
    return low


def _range_fits(candidate: float, epsilon: float, delta: float, draws: int) -> bool:
    return Guarantee.bounded_range_of(candidate, draws).delta(epsilon) <= delta


def remaining_delta(terms: SamplingTerms, epsilon: float, delta: float, draws: int) -> float:
    """The delta that is left after the distance of a sampler from its distribution (T18).

    Rounded down; raises `Unsupported` if nothing is left.
    """
    if terms.tv == 0.0:
        return delta
    cost = approx_delta_n(epsilon, 0.0, terms.tv, draws)
    left = math.nextafter((delta - cost) * (1.0 - 1e-12), 0.0)
    if left <= 0.0:
        raise Unsupported(
            "the sampler's distance from the posterior costs more delta than there is",
            got=f"{format_count(draws, 'draw')} within {terms.tv:.3g} each: delta "
            f"{format_number(cost)} at epsilon {format_number(epsilon)}",
            allowed=f"less than delta = {format_number(delta, up=False)}",
            do="a larger delta, fewer draws, a smaller tv= of the sampler, delta=0 by "
            "pmp.samplers.Proximal(pure=True), or exact draws (trim to a box of few parameters)"
            if delta
            else EXACT_SAMPLER_ADVICE,
        )
    return left
