"""Elementary functions: NumPy face, PyTensor face, proved range and float error.

The float error is the number of units in the last place by which SciPy or NumPy may miss the real
value at a double. The figures are generous; ``tests/analysis/test_functions.py`` checks each
against Arb over its whole domain. Where a function's relative error is unbounded near one of its
zeros (gammaln near 1 and 2, psi near 1.46), ``absolute`` adds an absolute slack.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import scipy.special as sc
from collections.abc import Callable
from dataclasses import dataclass
from pymc_private.analysis.intervals.functions import Array, down, is_symbolic, library, up

INF = float("inf")


@dataclass(frozen=True)
class Function:
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
        Proved range of the function over the extended reals; ends of intervals are clamped to it.
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
        value = down(self(*arrays), self.ulps)
        value = value - self.absolute if self.absolute else value
        return library(value).maximum(value, self.low) if self.low > -INF else value

    def up(self, *arrays: Array) -> Array:
        """An upper bound of the real value."""
        value = up(self(*arrays), self.ulps)
        value = value + self.absolute if self.absolute else value
        return library(value).minimum(value, self.high) if self.high < INF else value


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


def _unscaled(scaled: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """e^|x| scaled(x) for a Bessel function, without SciPy's early overflow of e^|x|."""

    def face(x: np.ndarray) -> np.ndarray:
        half = np.exp(np.abs(x) / 2.0)
        return np.where(np.isinf(x), scaled(np.sign(x)) * np.inf, half * scaled(x) * half)

    return face


def _log_phi_tensor(x: Array) -> Array:
    """log Phi(x) as `scipy.special.log_ndtr` computes it."""
    far = pt.log(pt.erfcx(-x / np.sqrt(2.0)) / 2.0) - pt.sqr(x) / 2.0
    return pt.switch(x < -1.0, far, pt.log1p(-pt.erfc(x / np.sqrt(2.0)) / 2.0))


EXP = Function("exp", np.exp, pt.exp, low=0.0)
EXPM1 = Function("expm1", np.expm1, pt.expm1, low=-1.0)
LOG = Function("log", np.log, pt.log)
LOG2 = Function("log2", np.log2, pt.log2)
LOG10 = Function("log10", np.log10, pt.log10)
LOG1P = Function("log1p", np.log1p, pt.log1p)
LOG1MEXP = Function("log1mexp", _log1mexp, pt.log1mexp, ulps=8.0, high=0.0)
SQRT = Function("sqrt", np.sqrt, pt.sqrt, ulps=1.0, low=0.0)
# expit and erfc flush results below 1e-307 to zero: `absolute` covers them.
SIGMOID = Function("sigmoid", sc.expit, pt.sigmoid, ulps=8.0, low=0.0, high=1.0, absolute=1e-307)
SOFTPLUS = Function("softplus", _softplus, pt.softplus, ulps=8.0, low=0.0)
TANH = Function("tanh", np.tanh, pt.tanh, low=-1.0, high=1.0)
SINH = Function("sinh", np.sinh, pt.sinh)
COSH = Function("cosh", np.cosh, pt.cosh, low=1.0)
ARCTAN = Function("arctan", np.arctan, pt.arctan, low=-1.5707963267948968, high=1.5707963267948968)
ARCSINH = Function("arcsinh", np.arcsinh, pt.arcsinh, ulps=8.0)
ARCTANH = Function("arctanh", np.arctanh, pt.arctanh, ulps=8.0)
COS = Function("cos", np.cos, pt.cos, low=-1.0, high=1.0)
ERF = Function("erf", sc.erf, pt.erf, ulps=8.0, low=-1.0, high=1.0)
# Both hold e^(x^2) or its inverse: the rounding of x^2 < 712 alone costs 256 ulps.
ERFC = Function("erfc", sc.erfc, pt.erfc, ulps=320.0, low=0.0, high=2.0, absolute=1e-307)
ERFCX = Function("erfcx", sc.erfcx, pt.erfcx, ulps=320.0, low=0.0)
# log Phi on the lower half of the line, where its relative error is that of a few roundings.
LOG_PHI = Function("log_phi", sc.log_ndtr, _log_phi_tensor, ulps=16.0, high=0.0)
ERFINV = Function("erfinv", sc.erfinv, pt.erfinv, ulps=64.0)
GAMMALN = Function("gammaln", _gammaln, pt.gammaln, ulps=16.0, absolute=2e-15)
GAMMA = Function("gamma", sc.gamma, pt.gamma, ulps=128.0, low=0.8856031944108886)
PSI = Function("psi", sc.psi, pt.psi, ulps=32.0, absolute=2e-15)
TRIGAMMA = Function("trigamma", _trigamma, lambda x: pt.polygamma(1, x), ulps=64.0, low=0.0)
I0 = Function("i0", _unscaled(sc.i0e), pt.i0, ulps=16.0, low=1.0)
I1 = Function("i1", _unscaled(sc.i1e), pt.i1, ulps=16.0)
I0E = Function("i0e", sc.i0e, lambda x: pt.i0(x) * pt.exp(-abs(x)), ulps=16.0, low=0.0, high=1.0)
# The exponent k log x - x - gammaln(k) loses an ulp per unit: the figure is for k, x <= 1e4.
GAMMAINC = Function(
    "gammainc", sc.gammainc, pt.gammainc, ulps=2.0**18, low=0.0, high=1.0, absolute=1e-307
)
GAMMAINCC = Function(
    "gammaincc", sc.gammaincc, pt.gammaincc, ulps=2.0**18, low=0.0, high=1.0, absolute=1e-307
)
GAMMAINC_LARGEST = 1e4
"""Largest shape and argument for which the incomplete gamma functions are checked."""
# Powers of x lose an ulp per unit of the exponent, for a, b <= 1e3; tiny results lose digits.
BETAINC = Function(
    "betainc", sc.betainc, pt.betainc, ulps=2.0**14, low=0.0, high=1.0, absolute=1e-280
)
BETAINC_LARGEST = 1e3
"""Largest shapes for which the incomplete beta function is checked."""

GAMMALN_MINIMUM = 1.4616321449683623
"""Where gammaln is least on the positive axis (a double next to the real minimizer)."""
