"""Privacy events: one mechanism, run a fixed number of times, and what is proved about it.

An event has a kind (pure, bounded range, zCDP, GDP, a Beta or Gamma pair, ...) and its parameters.
It gives its pure epsilon, zCDP, GDP and Renyi divergence, and the event for groups of records
(T24). A Fraction is exact; a float was rounded up, and so is all that is computed from it.
`event_to_json` and `event_from_json` store an event in plain JSON types, exact to the last bit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pymc_private.errors import DomainError, Unsupported
from pymc_private.privacy.beta_gamma_pairs import beta_pair_rdp, gamma_pair_rdp
from pymc_private.privacy.bounded_range import br_zcdp_tight
from pymc_private.privacy.gaussian import gdp_to_zcdp
from pymc_private.privacy.rounding import (
    float_down,
    float_up,
    format_number,
    is_infinite,
    times_up,
    widen,
)
from pymc_private.privacy.validation import (
    check_count,
    check_delta,
    check_positive,
    double_down,
    double_up,
    rational_text,
)

PARAMETER_NAMES = {
    "pure": "epsilon",
    "bounded_range": "R",
    "zcdp": "rho",
    "gdp": "mu",
    "discrete_gaussian": "1 / sigma",
    "approximate": "epsilon",
    "beta_pair": "r",
    "gamma_pair": "r",
    "gamma_shift": "r",
    "gamma_either": "r",
    "mollifier": "epsilon",
    "window": "epsilon",
    "rdp": "the Renyi divergence",
    "distance": "the total variation",
    "none": "epsilon",
}
"""Kinds of event, and what the value of each is called."""
GAMMA_KINDS = ("gamma_pair", "gamma_shift", "gamma_either")
"""Gamma(alpha + r) and Gamma(alpha), by the side of P: that of the data set with one record more
(T10); one unknown side for all runs (T13); a side of its own for each run."""
PAIR_KINDS = ("beta_pair", *GAMMA_KINDS)
SECOND_PARAMETER_NAMES = {**dict.fromkeys(PAIR_KINDS, "alpha"), "rdp": "order", "window": "top"}
"""Kinds with a second parameter, and its name."""
MAX_FRACTION_BITS = 3322
"""A thousand digits; longer fractions are rounded up to doubles."""


@dataclass(frozen=True)
class PrivacyEvent:
    """One kind of mechanism, `count` times.

    Parameters
    ----------
    kind : str
        A key of `PARAMETER_NAMES`.
    value : Fraction or float
        epsilon, R, rho, mu, ... by kind. A Fraction of at most 1000 digits is kept exactly; a float
        was rounded up already, and all else is rounded up here.
    delta : Fraction or float
        Of one run; above 0 for an approximate event only.
    count : int
        Runs fixed in advance.
    shape : float, rounded down
        Prior parameter of a pair, the order at which a Renyi divergence is known, or the upper end
        of an asymmetric window of a mollifier.
    other : float, rounded down
        The second least prior parameter of a Beta pair; 0 where it is `shape`, too.
    mu : Fraction or float
        Of a draw of bounded range: its Gaussian differential privacy, proved separately (T7); inf
        where there is none. Both bounds hold for the same draw, and so does the better one.

    Raises
    ------
    DomainError
        A number is out of its range.
    """

    kind: str
    value: Fraction | float
    delta: Fraction | float = 0.0
    count: int = 1
    shape: float = 0.0
    other: float = 0.0
    mu: Fraction | float = math.inf

    def __post_init__(self) -> None:
        if self.kind not in PARAMETER_NAMES:
            raise DomainError(
                "this is no kind of privacy event",
                got=self.kind,
                allowed=", ".join(PARAMETER_NAMES),
            )
        rounded = {
            "value": double_up(self.value, PARAMETER_NAMES[self.kind]),
            "delta": check_delta(self.delta),
            "mu": double_up(self.mu, "mu"),
        }
        for name, up in rounded.items():
            if not _is_short_fraction(getattr(self, name)):
                object.__setattr__(self, name, up)
        object.__setattr__(self, "count", check_count(self.count, "the number of draws or runs"))
        self._check_parameters()
        object.__setattr__(self, "shape", double_down(self.shape))  # a smaller one is less private
        other = double_down(self.other)
        if other and (self.kind != "beta_pair" or other < self.shape):
            raise DomainError(
                "`other` is the larger parameter of a Beta pair, and of nothing else",
                got=f"other={self.other}, shape={self.shape}, kind={self.kind}",
                allowed="shape <= other, of kind beta_pair",
            )
        object.__setattr__(self, "other", 0.0 if other == self.shape else other)
        self._check_limits()

    def _check_parameters(self) -> None:
        if self.delta > 0 and self.kind != "approximate":
            raise DomainError(f"a {self.kind} guarantee has no delta", got=self.delta, allowed="0")
        if self.kind != "bounded_range" and not is_infinite(self.mu):
            raise DomainError(
                f"a {self.kind} guarantee has no mu besides", got=self.mu, allowed="inf"
            )
        if self.kind in SECOND_PARAMETER_NAMES:
            check_positive(**{SECOND_PARAMETER_NAMES[self.kind]: self.shape})
        if self.kind in PAIR_KINDS:
            check_positive(r=self.value)

    def _check_limits(self) -> None:
        if self.kind == "distance" and self.value > 1:
            raise DomainError("a total variation is at most 1", got=self.value, allowed="<= 1")
        if self.kind == "window" and not self.shape < self.value:
            raise DomainError(
                "a window begins below 0", got=self.shape, allowed=f"top < {self.value}"
            )
        if self.kind == "rdp" and not self.shape > 1.0:
            raise DomainError("a Renyi order must exceed 1", got=self.shape, allowed="order > 1")

    @property
    def number(self) -> float:
        """Value as a double, rounded up."""
        return float_up(self.value)

    @property
    def pure(self) -> Fraction | float:
        """Pure epsilon of all runs, nats, exact where the value is; inf if there is none."""
        if self.kind in ("pure", "bounded_range", "mollifier", "window") and not is_infinite(
            self.value
        ):
            return self.count * Fraction(self.value)
        reveals_nothing = self.value == 0 and self.delta == 0 and self.kind != "none"
        return 0.0 if reveals_nothing else math.inf

    @property
    def gaussian(self) -> Fraction | float:
        """Mu of one run; inf if there is none."""
        return self.value if self.kind == "gdp" else self.mu

    @property
    def zcdp(self) -> float:
        """Rho of all runs; inf if there is none.

        A bounded range has that of T2, or of its mu. Pure epsilon is a bounded range of 2 epsilon,
        which gives at most the epsilon^2 / 2 of Bun and Steinke (2016, Proposition 3.3); mu-GDP has
        mu^2 / 2.
        """
        value = self.number
        if self.kind == "bounded_range":
            each = min(br_zcdp_tight(value), gdp_to_zcdp(float_up(self.mu)))
        elif self.kind in ("pure", "mollifier", "window"):
            each = br_zcdp_tight(times_up(2.0, value))
        elif self.kind in ("gdp", "discrete_gaussian"):
            each = gdp_to_zcdp(value)
        else:
            each = value if self.kind == "zcdp" or self.pure == 0.0 else math.inf
        return times_up(self.count, each)

    def renyi(self, order: float) -> float:
        """Renyi divergence of all runs at an order >= 1, nats; inf if there is none."""
        if self.kind == "beta_pair":
            each = beta_pair_rdp(order, self.number, self.shape, self.other or None)
            return times_up(self.count, each)
        if self.kind in GAMMA_KINDS:
            return times_up(self.count, gamma_pair_rdp(order, self.number, self.shape))
        if self.kind == "rdp":  # divergences do not fall in their order
            return times_up(self.count, self.number) if order <= self.shape else math.inf
        return min(times_up(order, self.zcdp), float_up(self.pure))

    @property
    def last_order(self) -> float:
        """Order beyond which no Renyi divergence is finite."""
        if self.kind in PAIR_KINDS:
            return 1.0 + self.shape / self.number
        return self.shape if self.kind == "rdp" else math.inf

    def runs(self, n: int) -> PrivacyEvent:
        """Event of n times as many runs; a record may be on another side of the pair in each."""
        if n == 1:
            return self
        kind = "gamma_either" if self.kind == "gamma_shift" else self.kind
        return replace(self, kind=kind, count=n * self.count, other=0.0)

    def group(self, k: int) -> PrivacyEvent:
        """Event for groups of k records (T24); a shift of a Gamma shape adds up (T13).

        Raises
        ------
        Unsupported
            Dirichlet pairs have no such rule.
        """
        unchanged = ("none", "distance", "mollifier", "window")  # hold for any two data sets
        if self.kind in unchanged or k == 1:
            return self
        if self.kind in ("beta_pair", "gamma_pair"):
            raise Unsupported(
                "a Dirichlet draw has no rule for groups",
                got=f"units of {k} records",
                do="build the guarantee for the counts that a whole unit changes (T11)",
            )
        if self.kind == "rdp":
            return self._renyi_group(k)
        if self.kind == "discrete_gaussian":  # the curve is for a change by one, the rho for any
            return PrivacyEvent("zcdp", self._times(k) ** 2 / 2, count=self.count)
        value = self._times(k * k if self.kind == "zcdp" else k)
        if self.kind == "approximate":
            return self._approximate_group(k, value)
        mu = math.inf if is_infinite(self.mu) else k * Fraction(self.mu)
        return replace(self, value=value, mu=mu)

    def _approximate_group(self, k: int, value: Fraction | float) -> PrivacyEvent:
        """Epsilon k epsilon = `value`, and delta (1 + e^epsilon + ... + e^((k-1) epsilon))."""
        ratio, least = math.inf, float_down(self.value)
        if value < 700:  # each bound is safe; the first is the sharp one where epsilon is tiny
            ratio = float_up(Fraction(k)) * math.exp(float_up((k - 1) * Fraction(self.value)))
            if least > 0:
                ratio = min(ratio, math.expm1(float_up(value)) / math.expm1(least))
            ratio = max(ratio, float_up(Fraction(k)))
        delta = widen(float_up(self.delta) * ratio, 1e-12)
        if delta < 1.0:
            return replace(self, value=value, delta=delta)
        return PrivacyEvent("none", math.inf)

    def _times(self, factor: int) -> Fraction | float:
        """Exact multiple of the value."""
        return math.inf if is_infinite(self.value) else factor * Fraction(self.value)

    def _renyi_group(self, k: int) -> PrivacyEvent:
        """Halve the order and triple the divergence for each doubling (Mironov 2017, Prop. 2)."""
        doublings = (k - 1).bit_length()
        if self.shape < 2.0 ** (doublings + 1):
            return PrivacyEvent("none", math.inf)
        order = self.shape / 2.0**doublings
        return replace(self, value=self._times(3**doublings), shape=order)

    def __str__(self) -> str:
        value = format_number(self.value, 6)
        shape = format_number(self.shape, 6, up=False)  # a smaller one is less private
        second = f" and {format_number(self.other, 6, up=False)} or more" if self.other else ""
        distance = format_number(self.value, 3)
        gaussian = "" if is_infinite(self.mu) else f", {format_number(self.mu, 6)}-GDP"
        words = {
            "pure": f"{value}-DP",
            "bounded_range": f"posterior draw of range {value}{gaussian}",
            "zcdp": f"{value}-zCDP",
            "gdp": f"{value}-GDP",
            "discrete_gaussian": f"count with discrete Gaussian noise (1 / sigma = {value})",
            "approximate": f"({value}, {format_number(self.delta, 3)})-DP",
            "beta_pair": f"Dirichlet or Beta draw (r = {value}, alpha = {shape}{second})",
            "gamma_pair": f"Dirichlet draw (r = {value}, alpha = {shape})",
            "gamma_shift": f"Gamma draw (r = {value}, alpha = {shape})",
            "gamma_either": f"Gamma draw (r = {value}, alpha = {shape})",
            "mollifier": f"mollifier draw of width {value}",
            "window": f"mollifier draw of width {value}, log ratio at most {shape}",
            "rdp": f"({shape}, {value})-RDP",
            "distance": f"total variation {distance} from the stated distribution",
            "none": "not private",
        }[self.kind]
        return words if self.count == 1 else f"{self.count} x {words}"


def _is_short_fraction(value: object) -> bool:
    """Whether this is a Fraction that can be kept and stored exactly."""
    if not isinstance(value, Fraction):
        return False
    return max(abs(value.numerator), value.denominator).bit_length() <= MAX_FRACTION_BITS


def event_to_json(event: PrivacyEvent) -> list[Any]:
    """List of kind, value, delta, count and shape; of some kinds also the other parameter or mu."""
    numbers = [
        _number_to_text(event.value),
        _number_to_text(event.delta),
        event.count,
        event.shape.hex(),
    ]
    if event.kind == "beta_pair" and event.other:
        return [event.kind, *numbers, event.other.hex()]
    return [event.kind, *numbers, *([] if event.mu == math.inf else [_number_to_text(event.mu)])]


def event_from_json(stored: Sequence[Any]) -> PrivacyEvent:
    """Event that `event_to_json` wrote."""
    kind, value, delta, count, shape, *rest = stored
    more: dict[str, Any] = {"shape": _double_from_text(shape)}
    if rest:
        (number,) = rest
        beta = kind == "beta_pair"
        more["other" if beta else "mu"] = (_double_from_text if beta else _number_from_text)(number)
    return PrivacyEvent(kind, _number_from_text(value), _number_from_text(delta), count, **more)


def _number_to_text(value: Fraction | float) -> str:
    """Write a number exactly: a fraction as "p/q", a double in hexadecimal."""
    return rational_text(value) if isinstance(value, Fraction) else float(value).hex()


def _number_from_text(text: str) -> Fraction | float:
    """Number that `_number_to_text` wrote; nothing else, for "0.1" in hexadecimal is not 1/10."""
    if re.fullmatch(r"[0-9]+/[0-9]+", text):
        return Fraction(text)
    return _double_from_text(text)


def _double_from_text(text: str) -> float:
    if text == "inf" or text.startswith("0x"):
        return float.fromhex(text)
    raise ValueError(text)
