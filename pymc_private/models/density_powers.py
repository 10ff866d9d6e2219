"""Integrals of powers of densities, which make the beta-divergence of a model.

For the density f of one outcome, beta > 0 and its parameters theta,

    I(theta) = integral of f(u)^(1 + beta) du,

or the sum over all values of a discrete outcome. Normal, Laplace, Student t, exponential, gamma,
beta, log-normal, Weibull and multivariate normal densities have closed forms; Bernoulli and
categorical ones are sums of a few probabilities. For every other outcome of one dimension the sum
or integral goes over the declared domain, by all whole numbers in it or by a fixed Gauss-Legendre
rule. That is the whole integral that matters: the divergence

    f^(1 + beta) - (1 + 1 / beta) g f^beta + g^(1 + beta) / beta >= 0

is nonnegative point by point, so that over any set it is least where f agrees with the density g of
the records there. Privacy rests on none of it: what is bounded is the function that is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_private.analysis.traversal import rebuild
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.distributions import distribution_class
from pymc_private.models.domains import Simplex

POINTS = 101
"""Nodes of the rule for a continuous outcome on its domain."""
MOST_COUNTS = 2000
"""Most whole numbers of a domain that are summed over."""


ENTRY_BY_ENTRY = (Elemwise, DimShuffle, Alloc)


def power_integral(rv: Variable, source: Source, beta: float, n: int | None) -> Variable:
    """I for each entry of an outcome; it broadcasts against the outcome.

    Parameters
    ----------
    rv : Variable
        The random variable that generates the outcome.
    source : Source
        The private variable that holds it; its domain is what is summed over without a closed form.
    beta : float
    n : int or None
        Number of records: no rule has as many nodes, so that no axis is taken for theirs. None
        where it is protected, and nothing may depend on it.

    Returns
    -------
    Variable
        In the model's own random variables.

    Raises
    ------
    Unsupported
        An outcome of several dimensions without a closed form, or of too many values.
    """
    kind = distribution_class(rv)
    if kind in CLOSED_FORMS:
        return pt.exp(CLOSED_FORMS[kind](beta, *rv.owner.op.dist_params(rv.owner)))
    if kind == "MvNormalRV":
        return pt.exp(_of_mv_normal(rv, beta))
    if kind in FINITE_SUMS:
        return FINITE_SUMS[kind](beta, *rv.owner.op.dist_params(rv.owner))
    if rv.owner.op.ndim_supp or isinstance(source.domain, Simplex):
        raise Unsupported(
            f"the integral of a power of the density of '{rv.name}' is not known",
            got=kind.removesuffix("RV"),
            allowed="outcomes of one dimension, and MvNormal",
            do="pmp.clip(private, lower, upper), which bounds any density",
        )
    is_continuous = str(rv.type.dtype).startswith("float")
    if is_continuous and any(_is_atom(v) for v in ancestors([rv])):
        raise Unsupported(
            f"'{rv.name}' has a point of positive probability, which no density describes there",
            got=kind.removesuffix("RV"),
            allowed="continuous or discrete outcomes, not mixed ones",
            do="pmp.clip(private, lower, upper), which bounds any density",
        )
    return _over_domain(rv, source, beta, n)


def _is_atom(v: Variable) -> bool:
    """Whether a variable is a component of a mixture at a point, as of a hurdle."""
    return v.owner is not None and "DiracDelta" in type(v.owner.op).__name__


def _of_normal(beta: float, mu: Variable, sigma: Variable) -> Variable:
    return -beta * (pt.log(sigma) + 0.5 * math.log(2.0 * math.pi)) - 0.5 * math.log1p(beta)


def _of_laplace(beta: float, mu: Variable, b: Variable) -> Variable:
    return -beta * pt.log(2.0 * b) - math.log1p(beta)


def _of_student(beta: float, nu: Variable, mu: Variable, sigma: Variable) -> Variable:
    half = (nu + 1.0) / 2.0
    scale = pt.gammaln(half) - pt.gammaln(nu / 2.0) - 0.5 * pt.log(nu * math.pi)
    tail = half * (1.0 + beta)
    spread = 0.5 * pt.log(nu * math.pi) + pt.gammaln(tail - 0.5) - pt.gammaln(tail)
    return (1.0 + beta) * scale + spread - beta * pt.log(sigma)


def _of_cauchy(beta: float, center: Variable, width: Variable) -> Variable:
    return _of_student(beta, pt.constant(1.0), center, width)


def _of_exponential(beta: float, scale: Variable) -> Variable:
    return -beta * pt.log(scale) - math.log1p(beta)


def _of_gamma(beta: float, shape: Variable, scale: Variable) -> Variable:
    power = (shape - 1.0) * (1.0 + beta) + 1.0
    found = pt.gammaln(power) - power * math.log1p(beta) - (1.0 + beta) * pt.gammaln(shape)
    return _where_finite(power, found - beta * pt.log(scale))


def _of_weibull(beta: float, shape: Variable, scale: Variable) -> Variable:
    power = 1.0 + beta * (1.0 - 1.0 / shape)
    found = pt.gammaln(power) - power * math.log1p(beta) + beta * (pt.log(shape) - pt.log(scale))
    return _where_finite(power, found)


def _of_beta(beta: float, first: Variable, second: Variable) -> Variable:
    one, two = ((end - 1.0) * (1.0 + beta) + 1.0 for end in (first, second))
    whole = pt.gammaln(first) + pt.gammaln(second) - pt.gammaln(first + second)
    found = pt.gammaln(one) + pt.gammaln(two) - pt.gammaln(one + two) - (1.0 + beta) * whole
    return _where_finite(pt.minimum(one, two), found)


def _of_log_normal(beta: float, mu: Variable, sigma: Variable) -> Variable:
    return _of_normal(beta, mu, sigma) - beta * mu + beta**2 * sigma**2 / (2.0 * (1.0 + beta))


def _of_bernoulli(beta: float, p: Variable) -> Variable:
    return p ** (1.0 + beta) + (1.0 - p) ** (1.0 + beta)


def _of_categorical(beta: float, p: Variable) -> Variable:
    return (p ** (1.0 + beta)).sum(axis=-1)


CLOSED_FORMS: dict[str, Callable[..., Variable]] = {
    "NormalRV": _of_normal,
    "LaplaceRV": _of_laplace,
    "StudentTRV": _of_student,
    "CauchyRV": _of_cauchy,
    "ExponentialRV": _of_exponential,
    "GammaRV": _of_gamma,
    "WeibullBetaRV": _of_weibull,
    "BetaRV": _of_beta,
    "LogNormalRV": _of_log_normal,
}
"""log I of a distribution, in the order of the parameters of its random variable."""
FINITE_SUMS: dict[str, Callable[..., Variable]] = {
    "BernoulliRV": _of_bernoulli,
    "CategoricalRV": _of_categorical,
}
"""I of a distribution of few values, by the same parameters."""


def _where_finite(power: Variable, found: Variable) -> Variable:
    """The closed form where the integral converges; infinite where the density is too steep."""
    return pt.switch(power > 0.0, found, np.inf)


def _of_mv_normal(rv: Variable, beta: float) -> Variable:
    """(2 pi)^(-d beta / 2) |S|^(-beta / 2) (1 + beta)^(-d / 2), by the density at its mean."""
    mean = rv.owner.op.dist_params(rv.owner)[0]
    size = mean.shape[-1].astype("float64")
    center = pt.shape_padleft(mean, rv.type.ndim - mean.type.ndim)
    return beta * pm.logp(rv, center) - 0.5 * size * math.log1p(beta)


def _over_domain(rv: Variable, source: Source, beta: float, n: int | None) -> Variable:
    """A sum over the whole numbers of the domain, or a Gauss-Legendre rule on it."""
    box = source.domain.bounds(source.row_shape)
    low, high = float(np.min(box.lower)), float(np.max(box.upper))
    is_discrete = not str(rv.type.dtype).startswith("float")
    nodes, weights = _counts(rv, low, high, n) if is_discrete else _legendre(low, high, n)
    shape = (len(nodes), *([1] * rv.type.ndim))
    values = pt.constant(nodes.reshape(shape).astype(rv.type.dtype))
    heights = _once(rv, pm.logp(rv, values))
    terms = pt.exp((1.0 + beta) * heights) * pt.constant(weights.reshape(shape))
    return terms.sum(axis=0)


def _counts(rv: Variable, low: float, high: float, n: int | None) -> tuple[np.ndarray, np.ndarray]:
    """All whole numbers of a domain, and weights of one."""
    nodes = np.arange(math.ceil(low), math.floor(high) + 1.0)
    if len(nodes) > MOST_COUNTS:
        raise Unsupported(
            f"too many values of '{rv.name}' to sum over",
            got=len(nodes),
            allowed=f"a domain of at most {MOST_COUNTS} whole numbers",
            do="declare a narrower domain, or pmp.clip(private, lower, upper)",
        )
    if len(nodes) == n:  # an axis as long as that of the records could be taken for it
        nodes = np.append(nodes, nodes[-1] + 1.0)
    return nodes, np.ones(len(nodes))


def _legendre(low: float, high: float, n: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a Gauss-Legendre rule on an interval."""
    nodes, weights = np.polynomial.legendre.leggauss(POINTS + (n == POINTS))
    half = (high - low) / 2.0
    return (low + high) / 2.0 + half * nodes, half * weights


def _once(rv: Variable, heights: Variable) -> Variable:
    """Log-densities at the nodes, computed once where entries have the same distribution.

    What parameters are computed from by sums, products of matrices or lengths stays as it is.
    """
    above = ancestors(rv.owner.op.dist_params(rv.owner))
    reads_length = [v for v in above if v.owner and not isinstance(v.owner.op, ENTRY_BY_ENTRY)]
    kept = [
        v for v in ancestors([heights]) if v.owner is None or hasattr(v.owner.op, "dist_params")
    ]
    return rebuild([heights], {v: v for v in [*kept, *reads_length]}, _without_size)[0]


def _without_size(node: Apply, inputs: list[Variable]) -> Variable | None:
    """Leave out what repeats an array along an axis; what reads it broadcasts."""
    whole = isinstance(node.op, Alloc) and inputs[0].type.ndim == node.outputs[0].type.ndim
    return inputs[0] if whole else None
