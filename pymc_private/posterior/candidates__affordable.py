"""What a budget affords: the largest range, mu and power, and what a sampler leaves of delta."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from pymc_private.errors import Unsupported
from pymc_private.release.charge__refusals import NO_DISTANCE
from pymc_private.certificates.certificate import Certificate
from pymc_private.certificates.conjugate__pair import ConjugatePair
from pymc_private.certificates.terms import Terms
from pymc_private.privacy import Guarantee, approx_delta_n, gdp_delta
from pymc_private.privacy.rounding__printing import counted, number

DIGITS = 6
"""Of a power: a short one is easier to read and to state."""
LEAST_POWER = 2.0**-40
"""Below it a likelihood says nothing."""


class Affordable:
    """The budget (epsilon, delta) of so many draws.

    Parameters
    ----------
    epsilon, delta : float
    draws : int
    exact : float, optional
        What a sampler's distance from its law leaves of delta.
    """

    def __init__(
        self, epsilon: float, delta: float, draws: int, exact: float | None = None
    ) -> None:
        self.epsilon, self.delta, self.draws = epsilon, delta, draws
        self.exact = delta if exact is None else exact

    def of(self, terms: Terms) -> Affordable:
        """The same budget less what a sampler's terms take of delta (`exact_delta`)."""
        exact = exact_delta(terms, self.epsilon, self.delta, self.draws)
        return Affordable(self.epsilon, self.delta, self.draws, exact=exact)

    @cached_property
    def range(self) -> float:
        """See `largest_range`."""
        return largest_range(self.epsilon, self.exact, self.draws)

    @cached_property
    def mu(self) -> float:
        """The largest mu of one draw that fits (T7), rounded down; 0 at delta = 0."""
        if self.exact == 0.0:
            return 0.0

        def fits(mu: float) -> bool:
            return gdp_delta(self.epsilon, mu) <= self.exact

        return _largest(fits, 1e-3 * self.epsilon) / math.sqrt(self.draws) * (1.0 - 1e-12)

    def fits(self, certificate: Certificate) -> bool:
        """Whether draws at the certificate's power keep to the budget."""
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
        if pair is not None and self.exact > 0.0:
            powers.append(self._power_by_pair(certificate, pair))
        power = min(_shorter(max(powers)), Fraction(1))
        while power and not self.fits(certificate.tempered(certificate.power * power)):
            power = _shorter(power * (1 - Fraction(1, 10**DIGITS)))
        return power

    def _power_by_mu(self, certificate: Certificate) -> Fraction:
        """mu is concave in the power where data add precision, else proportional to it."""

        def fits(power: float) -> bool:
            return certificate.tempered(certificate.power * Fraction(power)).mu <= self.mu

        return Fraction(_largest(fits, min(1.0, self.mu / certificate.mu) * (1.0 - 1e-9)))

    def _power_by_pair(self, certificate: Certificate, pair: ConjugatePair) -> Fraction:
        """The quick curve finds the way, the proved one decides: delta rises with the power (T12).

        Where the quick one is of no use, steps downward grow until the proved one agrees.
        """

        def seems_to_fit(power: float) -> bool:
            at = float(certificate.power) * power
            return power <= 1.0 and pair.guess(at, self.draws, self.epsilon) <= self.exact

        try:
            with np.errstate(all="ignore"):
                power = Fraction(_largest(seems_to_fit, 0.5, least=LEAST_POWER))
        except (ArithmeticError, ValueError, RuntimeError):  # of budgets beyond all sense
            power = Fraction(1, 2)
        step = Fraction(1, 2**14)
        while power > LEAST_POWER:
            if self.fits(certificate.tempered(certificate.power * power)):
                return power
            power, step = power * (1 - step), min(2 * step, Fraction(3, 4))
        return Fraction(0)


def _shorter(power: Fraction) -> Fraction:
    """The power cut to six significant digits."""
    if power == 0:
        return power
    digits = DIGITS - math.floor(math.log10(power)) - 1
    return Fraction(math.floor(power * Fraction(10) ** digits), 1) / Fraction(10) ** digits


def _largest(fits: Callable[[float], bool], start: float, least: float = 0.0) -> float:
    """The largest number that fits, within 1e-9, from a start above 0; the end given was tried.

    Down to `least`, which may not fit.
    """
    low = start
    while low > least and not fits(low):
        low /= 2.0
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

    Bisection on a non-increasing predicate; the returned end satisfies it, which is checked.
    """
    low = epsilon / draws * (1.0 - 2.0**-50)
    if delta == 0.0:
        return low
    high = low
    while _fits(high * 2.0, epsilon, delta, draws):
        low, high = high * 2.0, high * 2.0
    high = high * 2.0
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _fits(middle, epsilon, delta, draws) else (low, middle)
        if high - low < 1e-7 * low:
            break
    # The ledger asks for epsilon at delta, whose own root finder errs upward by a hair.
    while Guarantee.bounded_range_of(low, draws).epsilon(delta) > epsilon:
        low *= 1.0 - 1e-8
    return low


def _fits(candidate: float, epsilon: float, delta: float, draws: int) -> bool:
    return Guarantee.bounded_range_of(candidate, draws).delta(epsilon) <= delta


def exact_delta(terms: Terms, epsilon: float, delta: float, draws: int) -> float:
    """What a sampler's distance from its law leaves of delta, rounded down (T18).

    Raises
    ------
    Unsupported
        Nothing is left.
    """
    if terms.tv == 0.0:
        return delta
    far = approx_delta_n(epsilon, 0.0, terms.tv, draws)
    left = math.nextafter((delta - far) * (1.0 - 1e-12), 0.0)
    if left <= 0.0:
        raise Unsupported(
            "the sampler's distance from the posterior costs more delta than there is",
            got=f"{counted(draws, 'draw')} within {terms.tv:.3g} each: delta {number(far)} at "
            f"epsilon {number(epsilon)}",
            allowed=f"less than delta = {number(delta, up=False)}",
            do="a larger delta, fewer draws, a smaller tv= of the sampler, delta=0 by "
            "pmp.Proximal(pure=True), or exact draws (trim to a box of few parameters)"
            if delta
            else NO_DISTANCE,
        )
    return left
