"""What a budget affords: the largest range, and what a sampler leaves of delta."""

from __future__ import annotations

import math
from fractions import Fraction

from pymc_private.errors import Unsupported
from pymc_private.models.terms import Terms
from pymc_private.privacy import Guarantee, approx_delta_n
from pymc_private.privacy.printing import number


def shorter(power: Fraction) -> Fraction:
    """The power cut to six significant digits."""
    digits = 6 - math.floor(math.log10(power)) - 1
    return Fraction(math.floor(power * 10**digits), 10**digits)


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
            got=f"{draws} draws within {terms.tv:.3g} each: delta {number(far)} at epsilon "
            f"{number(epsilon)}",
            allowed=f"less than delta = {number(delta, up=False)}",
            do="a larger delta, fewer draws, a smaller tv= of the sampler, or a sampler of exact "
            "draws (trim to a box of few parameters)",
        )
    return left
