"""Conversion from and to the events of dp-accounting, Google's library (extra ``pld``).

An event there has noise in units of the sensitivity under addition or removal of a record. Whether
substitution doubles that differs between its accountants, so here the larger is taken: nothing gets
smaller on the way in or out.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from flint import arb

from pymc_private.errors import Unsupported
from pymc_private.privacy.argument_kinds import GUARANTEE, takes
from pymc_private.privacy.event import PrivacyEvent
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import SUBSTITUTE, check_record_neighbors
from pymc_private.privacy.rounding import arb_lower, real
from pymc_private.privacy.validation import check_count


def from_event(event: Any, **options: Any) -> Guarantee:
    """Guarantee of an event of dp-accounting.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        Gaussian, Laplace, randomized response, zCDP, composed, self-composed, no-op or
        non-private.
    **options
        ``neighbors=``, ``theorem=`` and ``assumptions=`` of the guarantee. Under substitution the
        sensitivity of Gaussian and Laplace events is two.

    Returns
    -------
    Guarantee

    Raises
    ------
    Unsupported
        Sampled, tree and other events; zCDP with xi > 0.
    """
    kind = type(event).__name__
    sensitivity = (
        2 if check_record_neighbors(options.get("neighbors", SUBSTITUTE)) == SUBSTITUTE else 1
    )
    if kind == "SelfComposedDpEvent":
        return check_count(event.count, "the count") * from_event(event.event, **options)
    if kind == "ComposedDpEvent":
        parts = [from_event(part, **options) for part in event.events]
        return sum(parts, Guarantee((), **options))
    if kind == "GaussianDpEvent" and event.noise_multiplier > 0:
        return Guarantee.gaussian_of(sensitivity, event.noise_multiplier, **options)
    if kind == "LaplaceDpEvent" and event.noise_multiplier > 0:
        return Guarantee.laplace_of(sensitivity, event.noise_multiplier, **options)
    if kind == "RandomizedResponseDpEvent" and 0 < event.noise_parameter <= 1:
        levels = check_count(event.num_buckets, "the number of buckets")
        truth = 1 - Fraction(event.noise_parameter) * (1 - Fraction(1, levels))
        return Guarantee.randomized_response_of(truth, levels, **options)
    if kind == "ZCDpEvent" and event.xi == 0:
        return Guarantee.zcdp_of(event.rho, **options)
    if kind == "NoOpDpEvent":
        return Guarantee((), **options)
    if kind in ("NonPrivateDpEvent", "GaussianDpEvent", "LaplaceDpEvent"):
        return Guarantee.none("a mechanism without noise", **options)
    raise Unsupported(
        "this event of dp-accounting has no equivalent here",
        got=repr(event)[:200],
        allowed="Gaussian, Laplace, randomized response, zCDP without xi, and their compositions",
        do="account for it there, and state the outcome by Guarantee.approximate(epsilon, delta)",
    )


@takes(guarantee=GUARANTEE)
def to_event(guarantee: Guarantee) -> Any:
    """Event of dp-accounting for a guarantee.

    mu-GDP becomes a Gaussian event of multiplier 1 / mu, zCDP its own event. A pure epsilon, also
    of a bounded range or a mollifier, becomes the Gaussian event that touches its trade-off curve
    from below: mu = -2 Phi^-1(1 / (1 + e^epsilon)) (Dong, Roth and Su 2022).

    Parameters
    ----------
    guarantee : Guarantee

    Returns
    -------
    dp_accounting.DpEvent

    Raises
    ------
    ImportError
        dp-accounting is not installed.
    Unsupported
        A part has no event: an (epsilon, delta) pair, a Dirichlet draw, a single Renyi order.
    """
    try:
        import dp_accounting as library
    except ImportError as error:
        raise ImportError("events need dp-accounting: pip install 'pymc-private[pld]'") from error
    parts = [
        library.SelfComposedDpEvent(_dp_event(library, event), event.count)
        for event in guarantee.events
    ]
    return library.ComposedDpEvent(parts)


def _dp_event(library: Any, event: PrivacyEvent) -> Any:
    value = event.number
    if event.kind == "none" or math.isinf(value):
        return library.NonPrivateDpEvent()
    if value == 0.0 and event.delta == 0:
        return library.NoOpDpEvent()
    if event.kind == "gdp":
        return library.GaussianDpEvent(math.nextafter(1.0 / value, 0.0))
    if event.kind == "zcdp":
        return library.ZCDpEvent(value)
    if event.kind in ("pure", "bounded_range", "mollifier", "window"):
        multiplier = _gaussian_multiplier(value)
        if multiplier > 0.0:
            return library.GaussianDpEvent(multiplier)
        return library.NonPrivateDpEvent()  # a Gaussian that far apart hides nothing
    raise Unsupported(
        "dp-accounting has no event for this guarantee",
        got=str(event),
        allowed="pure, bounded range, mollifier, zCDP and Gaussian guarantees",
        do="use Guarantee.epsilon(delta) here",
    )


def _gaussian_multiplier(epsilon: float) -> float:
    """1 / mu of the Gaussian that a pure epsilon implies, rounded down."""

    def formula() -> arb:
        odds = 1 / (1 + real(epsilon).exp())
        # -Phi^-1(p) = sqrt(2) erfinv(1 - 2 p)
        return 1 / (2 * arb(2).sqrt() * (1 - 2 * odds).erfinv())

    return arb_lower(formula)
