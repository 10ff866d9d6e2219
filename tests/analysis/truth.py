"""The real values of functions, as Arb balls: the oracle that knows nothing of NumPy or SciPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flint import arb, ctx

BITS = 200
FAR = 1e6
"""e^FAR is beyond every double, and e^-FAR beneath every positive one."""


def exp(x: arb) -> arb:
    """e^x, with the exponent kept where Arb can hold the result."""
    return arb(min(max(float(x.mid()), -FAR), FAR)).exp() if abs(x) > FAR else x.exp()


def log1mexp(x: arb) -> arb:
    return (-exp(x)).log1p() if x < -1 else (-x.expm1()).log()


def softplus(x: arb) -> arb:
    return x + exp(-x).log1p() if x > 0 else exp(x).log1p()


def expm1(x: arb) -> arb:
    return exp(x) - 1 if abs(x) > 1 else x.expm1()


def sinh(x: arb) -> arb:
    return (exp(x) - exp(-x)) / 2 if abs(x) > 1 else x.sinh()


def erfcx(x: arb) -> arb:
    if x < -FAR:
        return exp(arb(FAR))  # beyond every double, as the value is
    if x > FAR:  # (1 - 1/(2 x^2) + ...) / (x sqrt(pi))
        return arb(1, 1e-12) / (x * arb.pi().sqrt())
    return (x * x).exp() * x.erfc()


def bessel_i(order: int) -> Callable[[arb], arb]:
    def value(x: arb) -> arb:
        near = arb(min(max(float(x.mid()), -2000.0), 2000.0))  # e^2000 is beyond every double
        return near.bessel_i(order)

    return value


def i0e(x: arb) -> arb:
    if abs(x) > FAR:  # e^-x I0(x) = (1 + 1/(8x) + ...) / sqrt(2 pi x)
        return arb(1, 1e-6) / (2 * arb.pi() * abs(x)).sqrt()
    return x.bessel_i(0) * (-abs(x)).exp()


def gamma(x: arb) -> arb:
    return exp(arb(FAR)) if x > 1e4 else x.gamma()  # beyond every double, as the value is


def lower_gamma(k: arb, x: arb) -> arb:
    """P(k, x) = x^k e^-x sum_n x^n / Gamma(k + n + 1): all terms are positive."""
    if not (k > 0 and x >= 0) or k > 2e4 or x > 2e4:
        return arb.nan()  # undefined, or the series would take too long
    if x.is_zero():
        return arb(0)
    term = (k * x.log() - x - (k + 1).lgamma()).exp()
    total, n, k_mid, x_mid = term, 1, float(k.mid()), float(x.mid())
    while n % 16 or 2 * x_mid > k_mid + n or not term < total * arb(2) ** (9 - ctx.prec):
        term = term * x / (k + n)
        total, n = total + term, n + 1
    return total + arb(0, 2) * term  # the rest is less than a geometric series of ratio 1/2


def upper_gamma(k: arb, x: arb) -> arb:
    """Q(k, x) = 1 - P(k, x), with enough bits for the difference."""
    if not (k > 0 and x >= 0) or k > 2e4 or x > 2e4:
        return arb.nan()
    if x.is_zero():
        return arb(1)
    before = ctx.prec
    # log Q >= -x + (k - 1) log x - gammaln(k) roughly; small k costs log2(1/k) bits besides.
    guess = float(x.mid()) * 1.5 + max(0.0, -1.5 * float(k.log().mid()))
    ctx.prec = BITS + min(int(guess * 2), 4000)
    try:
        return 1 - lower_gamma(k, x)
    finally:
        ctx.prec = before


def log_phi(x: arb) -> arb:
    """log Phi(x) for x <= 0; far out by its asymptotic series."""
    if abs(x) > 1e5:
        return -x * x / 2 - (-x * (2 * arb.pi()).sqrt()).log() + arb(0, 1e-10)
    return ((-x / arb(2).sqrt()).erfc() / 2).log()


def betainc(a: arb, b: arb, x: arb) -> arb:
    """I_x(a, b), with as many bits as the smaller tail needs.

    Beyond the mean it is 1 - I_{1-x}(b, a): Arb's series is thousands of times slower near x = 1.
    """
    if not (a > 0 and b > 0 and x >= 0 and x <= 1) or a > 2e3 or b > 2e3:
        return arb.nan()
    if x.is_zero() or x == 1:
        return arb(0) if x.is_zero() else arb(1)
    before = ctx.prec
    for bits in (before, 4 * before, 16 * before, 64 * before):
        ctx.prec = bits
        if x < a / (a + b):
            value = x.beta_lower(a, b, regularized=True)
        else:
            value = 1 - (1 - x).beta_lower(b, a, regularized=True)
        if value.is_finite() and value.rel_accuracy_bits() > 80:
            break
    ctx.prec = before
    return value


def product(*factors: arb) -> arb:
    total = arb(1)
    for factor in factors:
        total = total * factor
    return total


def power(x: arb, y: arb) -> arb:
    whole = y.is_integer()
    if x.is_zero() or (whole and abs(y) > 1e9):
        return arb.nan()  # left to the Op: 0^0, 1/0
    return x ** y.unique_fmpz() if whole else x**y


TRUE: dict[str, Callable[..., arb]] = {
    "exp": exp,
    "expm1": expm1,
    "log": arb.log,
    "log2": lambda x: x.log() / arb(2).log(),
    "log10": lambda x: x.log() / arb(10).log(),
    "log1p": arb.log1p,
    "log1mexp": log1mexp,
    "sqrt": arb.sqrt,
    "sigmoid": lambda x: 1 / (1 + exp(-x)),
    "softplus": softplus,
    "tanh": arb.tanh,
    "sinh": sinh,
    "cosh": lambda x: (exp(x) + exp(-x)) / 2,
    "arctan": arb.atan,
    "arcsinh": arb.asinh,
    "arctanh": arb.atanh,
    "cos": arb.cos,
    "erf": arb.erf,
    "erfc": arb.erfc,
    "erfcx": erfcx,
    "erfinv": arb.erfinv,
    "gamma": gamma,
    "gammaln": arb.lgamma,
    "psi": arb.digamma,
    "trigamma": lambda x: arb(2).zeta(x),
    "i0": bessel_i(0),
    "i1": bessel_i(1),
    "i0e": i0e,
    "betainc": betainc,
    "log_phi": log_phi,
    "gammainc": lower_gamma,
    "gammaincc": upper_gamma,
}


def true(name: str, *arguments: float) -> arb:
    """The real value of a function at doubles, as a ball."""
    before, ctx.prec = ctx.prec, BITS
    try:
        return TRUE[name](*(arb(float(x)) for x in arguments))
    finally:
        ctx.prec = before


def is_below(end: float, value: arb) -> bool:
    """Whether a lower end does not exceed the value (to the ball's width)."""
    return end == -np.inf or (end < np.inf and not arb(float(end)) > value)


def is_above(end: float, value: arb) -> bool:
    """Whether an upper end is not beneath the value."""
    return end == np.inf or (end > -np.inf and not arb(float(end)) < value)
