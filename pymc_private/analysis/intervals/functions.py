"""Directed rounding and elementary functions with proved ranges and float errors.

The processor rounds to nearest. A bound is therefore moved outward by a stated number of units
in the last place after every inexact step, so the exact real value stays inside; the
arithmetic works on arrays and on PyTensor graphs alike.

Each `ElementaryFunction` has a NumPy and a PyTensor implementation, a proved range and a float
error: the number of units in the last place by which SciPy or NumPy may miss the real value at
a double. The figures are generous; ``tests/analysis/test_functions.py`` checks each against
Arb over its whole domain. Where a function's relative error is unbounded near one of its zeros
(gammaln near 1 and 2, psi near 1.46), ``absolute`` adds an absolute slack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy.special as sc
from pytensor.graph.basic import Variable

UNIT = 2.0**-52
"""One relative spacing of doubles: the half-width of one correctly rounded step is UNIT / 2."""
TINY = 2.0**-1074 * 4
"""Absolute slack that covers underflow, where relative spacing means nothing."""
LARGEST_DOUBLE = float(np.finfo(np.float64).max)
INF = float("inf")

Array = Any
"""A NumPy array, or a PyTensor variable of the same shape."""

_REAL_ARITHMETIC = ContextVar("real_arithmetic", default=False)


@contextmanager
def without_symbolic_rounding() -> Iterator[None]:
    """Leave symbolic bounds where real arithmetic puts them: a graph of the bounds as functions.

    Such a graph is a fifth as large. Whoever evaluates it answers for the rounding: by
    `propagate_bounds`, which rounds outward, or by a margin.
    """
    token = _REAL_ARITHMETIC.set(True)
    try:
        yield
    finally:
        _REAL_ARITHMETIC.reset(token)


def is_symbolic(*arrays: Array) -> bool:
    """Whether any argument is a PyTensor variable."""
    for array in arrays:
        cls: Any = type(array)
        if cls is not np.ndarray and _is_symbolic_type(cls):
            return True
    return False


@cache
def _is_symbolic_type(cls: type) -> bool:
    """Whether values of this type are symbolic: to ask an abstract class each time is slow."""
    return issubclass(cls, Variable)


def array_namespace(*arrays: Array) -> Any:
    """NumPy, or ``pytensor.tensor`` as soon as one argument is symbolic."""
    return pt if is_symbolic(*arrays) else np


def round_down(value: Array, ulps: float = 1.0) -> Array:
    """A lower bound of the real number that `value` approximates within `ulps` units.

    An overflow to +inf stands for a finite number beyond the largest double, so it comes back to
    the largest double. NaN stays NaN (nothing is known).
    """
    xp = array_namespace(value)
    if xp is pt and _REAL_ARITHMETIC.get():
        return value
    slack = xp.minimum(abs(value), LARGEST_DOUBLE) * (ulps * UNIT) + ulps * TINY
    return xp.minimum(value - slack, LARGEST_DOUBLE)


def round_up(value: Array, ulps: float = 1.0) -> Array:
    """An upper bound of the real number that `value` approximates within `ulps` units."""
    xp = array_namespace(value)
    if xp is pt and _REAL_ARITHMETIC.get():
        return value
    slack = xp.minimum(abs(value), LARGEST_DOUBLE) * (ulps * UNIT) + ulps * TINY
    return xp.maximum(value + slack, -LARGEST_DOUBLE)


def add_down(a: Array, b: Array) -> Array:
    """A lower bound of a + b, exact whenever the sum is a double."""
    if is_symbolic(a, b):
        return round_down(a + b)
    total, error = _two_sum(a, b)
    return np.where(error == 0.0, total, np.nextafter(total, -np.inf))


def add_up(a: Array, b: Array) -> Array:
    """An upper bound of a + b, exact whenever the sum is a double."""
    if is_symbolic(a, b):
        return round_up(a + b)
    total, error = _two_sum(a, b)
    return np.where(error == 0.0, total, np.nextafter(total, np.inf))


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knuth's error-free sum: total + error = a + b exactly."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    # An infinite term gives NaN above although inf + finite is exact; an overflow is not.
    exact = np.isinf(total) & (np.isinf(a) | np.isinf(b))
    return total, np.where(exact, 0.0, error)


def multiply_bounds(a: Array, b: Array) -> tuple[Array, Array]:
    """A lower and an upper bound of a * b; exact for factors 0, 1, -1 and never across zero."""
    product = a * b
    if is_symbolic(a, b):
        return round_down(product), round_up(product)
    exact = _is_zero_or_unit(a) | _is_zero_or_unit(b)
    if exact.all():
        return np.asarray(product), np.array(product)  # two arrays: a point is one
    negative = np.signbit(product)
    lower, upper = np.nextafter(product, -np.inf), np.nextafter(product, np.inf)
    lower = np.where(negative, lower, np.maximum(lower, 0.0))
    upper = np.where(negative, np.minimum(upper, 0.0), upper)
    return np.where(exact, product, lower), np.where(exact, product, upper)


def product_bounds(firsts: Sequence[Array], seconds: Sequence[Array]) -> tuple[Array, Array]:
    """Bounds of all products of a first and a second factor."""
    if not is_symbolic(*firsts, *seconds) and len(firsts) + len(seconds) > 2:
        # A product rounded to nearest is next to the real one, or equal to it; so are extremes.
        products = [a * b for a in firsts for b in seconds]
        least, greatest = reduce(np.minimum, products), reduce(np.maximum, products)
        no_zero = least.all() and greatest.all()  # whose sign would be lost
        if no_zero and not any(_is_zero_or_unit(x).any() for x in (*firsts, *seconds)):
            return np.nextafter(least, -np.inf), np.nextafter(greatest, np.inf)
    pairs = [multiply_bounds(a, b) for a in firsts for b in seconds]
    if len(pairs) == 1:
        return pairs[0]
    xp = array_namespace(*firsts, *seconds)
    return reduce(xp.minimum, (p[0] for p in pairs)), reduce(xp.maximum, (p[1] for p in pairs))


def _is_zero_or_unit(x: np.ndarray) -> np.ndarray:
    """Whether a factor is 0, 1 or -1."""
    return (x == 0.0) | (np.abs(x) == 1.0)


def elementwise_equal(a: Array, b: Array) -> Array:
    """Elementwise equality (a PyTensor variable's own ``==`` compares identity)."""
    return pt.eq(a, b) if is_symbolic(a, b) else np.equal(a, b)


# ---- elementary functions --------------------------------------------------------------------


@dataclass(frozen=True)
class ElementaryFunction:
    """A real function and what is known of it.

    Parameters
    ----------
    name : str
        Name in messages.
    numpy, tensor : callable
        The function on arrays and on PyTensor variables.
    ulps : float
        Bound of the relative float error, in units of 2**-52.
    low, high : float
        Proved range of the function over the extended reals; bounds are clamped to it.
    absolute : float
        Absolute float error that adds to the relative one.
    """

    name: str
    numpy: Callable[..., np.ndarray]
    tensor: Callable[..., Array]
    ulps: float = 4.0
    low: float = -INF
    high: float = INF
    absolute: float = 0.0

    def __call__(self, *arrays: Array) -> Array:
        """Evaluate, symbolically where an argument is symbolic."""
        return (self.tensor if is_symbolic(*arrays) else self.numpy)(*arrays)

    def down(self, *arrays: Array) -> Array:
        """A lower bound of the real value."""
        value = round_down(self(*arrays), self.ulps)
        value = value - self.absolute if self.absolute else value
        return array_namespace(value).maximum(value, self.low) if self.low > -INF else value

    def up(self, *arrays: Array) -> Array:
        """An upper bound of the real value."""
        value = round_up(self(*arrays), self.ulps)
        value = value + self.absolute if self.absolute else value
        return array_namespace(value).minimum(value, self.high) if self.high < INF else value


def _log1mexp(x: np.ndarray) -> np.ndarray:
    """log(1 - e^x) for x <= 0, by the branch that keeps relative accuracy (Maechler 2012)."""
    return np.where(x < -np.log(2.0), np.log1p(-np.exp(x)), np.log(-np.expm1(x)))


def _softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + e^x) without cancellation: for x > 0 it is x + log(1 + e^-x)."""
    return np.where(x > 0.0, x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _gammaln(x: np.ndarray) -> np.ndarray:
    """log Gamma(x); below 1e-300, where SciPy answers inf too early, -log(x) to the last ulp."""
    return np.where(x < 1e-300, -np.log(x), sc.gammaln(x))


def _trigamma(x: np.ndarray) -> np.ndarray:
    """psi'(x) for x > 0; SciPy never returns from large negative arguments."""
    return sc.polygamma(1, np.where(x > 0.0, x, np.nan))


def _unscaled_bessel(
    scaled: Callable[[np.ndarray], np.ndarray],
) -> Callable[[np.ndarray], np.ndarray]:
    """e^|x| scaled(x) for a Bessel function, without SciPy's early overflow of e^|x|."""

    def unscaled(x: np.ndarray) -> np.ndarray:
        half = np.exp(np.abs(x) / 2.0)
        return np.where(np.isinf(x), scaled(np.sign(x)) * np.inf, half * scaled(x) * half)

    return unscaled


def _log_phi_tensor(x: Array) -> Array:
    """log Phi(x) as `scipy.special.log_ndtr` computes it."""
    far = pt.log(pt.erfcx(-x / np.sqrt(2.0)) / 2.0) - pt.sqr(x) / 2.0
    return pt.switch(x < -1.0, far, pt.log1p(-pt.erfc(x / np.sqrt(2.0)) / 2.0))


EXP = ElementaryFunction("exp", np.exp, pt.exp, low=0.0)
EXPM1 = ElementaryFunction("expm1", np.expm1, pt.expm1, low=-1.0)
LOG = ElementaryFunction("log", np.log, pt.log)
LOG2 = ElementaryFunction("log2", np.log2, pt.log2)
LOG10 = ElementaryFunction("log10", np.log10, pt.log10)
LOG1P = ElementaryFunction("log1p", np.log1p, pt.log1p)
LOG1MEXP = ElementaryFunction("log1mexp", _log1mexp, pt.log1mexp, ulps=8.0, high=0.0)
SQRT = ElementaryFunction("sqrt", np.sqrt, pt.sqrt, ulps=1.0, low=0.0)
# expit and erfc flush results below 1e-307 to zero: `absolute` covers them.
SIGMOID = ElementaryFunction(
    "sigmoid", sc.expit, pt.sigmoid, ulps=8.0, low=0.0, high=1.0, absolute=1e-307
)
SOFTPLUS = ElementaryFunction("softplus", _softplus, pt.softplus, ulps=8.0, low=0.0)
TANH = ElementaryFunction("tanh", np.tanh, pt.tanh, low=-1.0, high=1.0)
SINH = ElementaryFunction("sinh", np.sinh, pt.sinh)
COSH = ElementaryFunction("cosh", np.cosh, pt.cosh, low=1.0)
ARCTAN = ElementaryFunction(
    "arctan", np.arctan, pt.arctan, low=-1.5707963267948968, high=1.5707963267948968
)
ARCSINH = ElementaryFunction("arcsinh", np.arcsinh, pt.arcsinh, ulps=8.0)
ARCTANH = ElementaryFunction("arctanh", np.arctanh, pt.arctanh, ulps=8.0)
COS = ElementaryFunction("cos", np.cos, pt.cos, low=-1.0, high=1.0)
ERF = ElementaryFunction("erf", sc.erf, pt.erf, ulps=8.0, low=-1.0, high=1.0)
# Both hold e^(x^2) or its inverse: the rounding of x^2 < 712 alone costs 256 ulps.
ERFC = ElementaryFunction("erfc", sc.erfc, pt.erfc, ulps=320.0, low=0.0, high=2.0, absolute=1e-307)
ERFCX = ElementaryFunction("erfcx", sc.erfcx, pt.erfcx, ulps=320.0, low=0.0)
# log Phi on the lower half of the line, where its relative error is that of a few roundings.
LOG_PHI = ElementaryFunction("log_phi", sc.log_ndtr, _log_phi_tensor, ulps=16.0, high=0.0)
ERFINV = ElementaryFunction("erfinv", sc.erfinv, pt.erfinv, ulps=64.0)
GAMMALN = ElementaryFunction("gammaln", _gammaln, pt.gammaln, ulps=16.0, absolute=2e-15)
GAMMA = ElementaryFunction("gamma", sc.gamma, pt.gamma, ulps=128.0, low=0.8856031944108886)
PSI = ElementaryFunction("psi", sc.psi, pt.psi, ulps=32.0, absolute=2e-15)
TRIGAMMA = ElementaryFunction(
    "trigamma", _trigamma, lambda x: pt.polygamma(1, x), ulps=64.0, low=0.0
)
I0 = ElementaryFunction("i0", _unscaled_bessel(sc.i0e), pt.i0, ulps=16.0, low=1.0)
I1 = ElementaryFunction("i1", _unscaled_bessel(sc.i1e), pt.i1, ulps=16.0)
I0E = ElementaryFunction(
    "i0e", sc.i0e, lambda x: pt.i0(x) * pt.exp(-abs(x)), ulps=16.0, low=0.0, high=1.0
)
# The exponent k log x - x - gammaln(k) loses an ulp per unit: the figure is for k, x <= 1e4.
GAMMAINC = ElementaryFunction(
    "gammainc", sc.gammainc, pt.gammainc, ulps=2.0**18, low=0.0, high=1.0, absolute=1e-307
)
GAMMAINCC = ElementaryFunction(
    "gammaincc", sc.gammaincc, pt.gammaincc, ulps=2.0**18, low=0.0, high=1.0, absolute=1e-307
)
GAMMAINC_LARGEST = 1e4
"""Largest shape and argument for which the incomplete gamma functions are checked."""
# Powers of x lose an ulp per unit of the exponent, for a, b <= 1e3; tiny results lose digits.
BETAINC = ElementaryFunction(
    "betainc", sc.betainc, pt.betainc, ulps=2.0**14, low=0.0, high=1.0, absolute=1e-280
)
BETAINC_LARGEST = 1e3
"""Largest shapes for which the incomplete beta function is checked."""

GAMMALN_MINIMIZER = 1.4616321449683623
"""Where gammaln is least on the positive axis (a double next to the real minimizer)."""
