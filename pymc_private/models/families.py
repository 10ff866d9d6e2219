"""Models whose Lipschitz tail is known by formula: Lemmas 19-22, corrected (theory, section 1.1).

All have one parameter with an exponential or symmetric Beta prior. For records in the domain and
one of them replaced, ell(theta) is a multiple of theta, or of |logit theta|.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytensor.scalar.basic as ps
from pytensor.graph.basic import Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_private.errors import DomainError
from pymc_private.models.domain import Categories, Interval
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.sources import constant_value
from pymc_private.privacy.model_constants import (
    beta_bernoulli_C,
    beta_binomial_c,
    exp_exp_C,
    laplace_C,
    normal_var_C,
)
from pymc_private.privacy.neighbors import SUBSTITUTE

HAIR = 2.0**-48
"""Relative slack for the rounding of a few products."""

Monomial = tuple[float, float]


@dataclass(frozen=True)
class Family:
    """A model recognized as one of the lemmas, for one replaced record.

    Parameters
    ----------
    lemma : str
    formula : str
        ell(theta) in words.
    L0 : float, nats
        Rounded up.
    c : float, 1 / nats
        Rounded down. The prior has P(ell > L) <= e^(-c (L - L0)) for L >= L0.
    log_constant : float
        Logarithm of C >= sup p(x | theta) / p(x), over all data sets of n records; inf if unknown.
    ell : callable
        The formula, to be checked against the graph.
    """

    lemma: str
    formula: str
    L0: float
    c: float
    log_constant: float
    ell: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class _Parts:
    """What the lemmas are about."""

    n: int
    likelihood: str
    parameters: list[Variable]
    theta: Variable
    low: float
    high: float
    prior: str
    hyper: list[float]
    least: float
    greatest: float


def recognize(private: PrivateModel) -> Family | None:
    """Find the lemma a model belongs to, by its distributions; None if there is none.

    Reads no data.
    """
    parts = _parts(private)
    if parts is None:
        return None
    rule = RULES.get((parts.likelihood, parts.prior))
    return None if rule is None else rule(parts)


def _parts(private: PrivateModel) -> _Parts | None:
    """One parameter, one outcome with an interval or categories, nothing else."""
    model = private.base
    if len(model.free_RVs) != 1 or len(private.sources) != 1 or private.graph.clip is not None:
        return None
    if private.neighbors != SUBSTITUTE or private.theta_l is not None:
        return None
    (theta,), (source,) = model.free_RVs, private.sources
    outcomes = [rv for rv in model.observed_RVs if rv.name in private.graph.factors]
    if len(outcomes) != 1 or len(private.graph.factors) != 1 or private.shapes[theta.name] != ():
        return None
    if model.potentials or source.row_shape != ():
        return None
    likelihood, prior = type(outcomes[0].owner.op).__name__, type(theta.owner.op).__name__
    if (likelihood, prior) not in RULES:
        return None
    hyper = [constant_value(v) for v in theta.owner.op.dist_params(theta.owner)]
    if any(value is None for value in hyper) or not isinstance(
        source.domain, Interval | Categories
    ):
        return None
    (outcome,), box, ends = outcomes, private.box[theta.name], source.domain.bounds(())
    return _Parts(
        n=private.n,
        likelihood=likelihood,
        parameters=list(outcome.owner.op.dist_params(outcome.owner)),
        theta=theta,
        low=float(box.lower),
        high=float(box.upper),
        prior=prior,
        hyper=[float(value) for value in hyper if value is not None],
        least=float(ends.lower),
        greatest=float(ends.upper),
    )


def monomial(variable: Variable, theta: Variable) -> Monomial | None:
    """(a, k) if `variable` is a theta^k for theta > 0; None otherwise.

    Parameters
    ----------
    variable : Variable
    theta : Variable, scalar
    """
    if variable is theta:
        return 1.0, 1.0
    if isinstance(variable, Constant):
        value = np.unique(np.asarray(variable.data, dtype=float))
        return (float(value[0]), 0.0) if value.size == 1 else None
    node = variable.owner
    if node is None:
        return None
    if isinstance(node.op, DimShuffle | CheckAndRaise | Alloc):
        return monomial(node.inputs[0], theta)
    if not isinstance(node.op, Elemwise):
        return None
    parts = [monomial(v, theta) for v in node.inputs]
    if any(part is None for part in parts):
        return None
    return _combined(node.op.scalar_op, [part for part in parts if part is not None])


def _combined(op: ps.ScalarOp, parts: list[Monomial]) -> Monomial | None:
    """The monomial that an operation makes of monomials."""
    (a, k), *rest = parts
    if isinstance(op, ps.Identity | ps.Cast):
        return a, k
    if isinstance(op, ps.Abs):
        return abs(a), k
    if isinstance(op, ps.Sign):
        return math.copysign(1.0, a), 0.0
    if isinstance(op, ps.Mul):
        return math.prod([a, *(b for b, _ in rest)]), k + sum(j for _, j in rest)
    if isinstance(op, ps.TrueDiv) and rest[0][0] != 0.0:
        return a / rest[0][0], k - rest[0][1]
    powers = {ps.Reciprocal: -1.0, ps.Sqrt: 0.5, ps.Sqr: 2.0}
    power = powers.get(type(op))
    if isinstance(op, ps.Pow) and rest[0][1] == 0.0:
        power = rest[0][0]
    return None if power is None or a <= 0.0 else (a**power, k * power)


def _multiple(
    parts: _Parts, lemma: str, scale: float, spread: float, words: str, log_constant: float
) -> Family | None:
    """ell = scale * spread * theta with an exponential prior of rate 1 / hyper."""
    slope = scale * spread
    if not (slope > 0.0 and math.isfinite(slope) and parts.hyper[0] > 0.0 and parts.low >= 0.0):
        return None
    return Family(
        lemma=lemma,
        formula=words,
        L0=parts.low * slope * (1.0 + HAIR),
        c=(1.0 - HAIR) / (parts.hyper[0] * slope),
        log_constant=log_constant,
        ell=lambda theta: slope * theta,
    )


def _log_constant(
    formula: Callable[..., float], parts: _Parts, factor: float, *rest: float
) -> float:
    """n times the logarithm of one record's constant: it holds, and grows with n."""
    if not (parts.low > 0.0 and math.isfinite(parts.high)):
        return math.inf
    ends = (parts.low * factor * (1.0 - HAIR), parts.high * factor * (1.0 + HAIR))
    try:
        return parts.n * math.log(formula(*ends, *rest)) * (1.0 + HAIR)
    except (DomainError, OverflowError, ValueError):
        return math.inf


def _exponential(parts: _Parts) -> Family | None:
    """Lemma 19: x ~ Exponential(theta)."""
    found = monomial(parts.parameters[0], parts.theta)
    if found is None or found[1] != -1.0 or found[0] <= 0.0 or parts.least < 0.0:
        return None
    factor = 1.0 / found[0]
    log_constant = _log_constant(exp_exp_C, parts, factor, parts.greatest)
    words = "theta times the width of the domain"
    return _multiple(parts, "Lemma 19", factor, parts.greatest - parts.least, words, log_constant)


def _laplace(parts: _Parts) -> Family | None:
    """Lemma 20: x ~ Laplace(mu, 1 / theta)."""
    center = constant_value(parts.parameters[0])
    found = monomial(parts.parameters[1], parts.theta)
    if center is None or found is None or found[1] != -1.0 or found[0] <= 0.0:
        return None
    factor, (near, far) = 1.0 / found[0], _distances(parts, center)
    largest = max(abs(parts.least), abs(parts.greatest))
    log_constant = _log_constant(laplace_C, parts, factor, largest, center)
    return _multiple(parts, "Lemma 20", factor, far - near, "theta times a distance", log_constant)


def _normal(parts: _Parts) -> Family | None:
    """Lemma 22: x ~ Normal with precision theta."""
    center = constant_value(parts.parameters[0])
    found = monomial(parts.parameters[1], parts.theta)
    if center is None or found is None or found[1] != -0.5 or found[0] <= 0.0:
        return None
    factor, (near, far) = found[0] ** -2.0, _distances(parts, center)
    largest = max(abs(parts.least), abs(parts.greatest))
    log_constant = _log_constant(normal_var_C, parts, factor, largest, center)
    words = "theta times half a difference of squares"
    return _multiple(parts, "Lemma 22", factor, (far**2 - near**2) / 2.0, words, log_constant)


def _distances(parts: _Parts, center: float) -> tuple[float, float]:
    """Least and greatest distance of a record from a center."""
    ends = abs(parts.least - center), abs(parts.greatest - center)
    inside = parts.least <= center <= parts.greatest
    return (0.0 if inside else min(ends)), max(ends)


def _bernoulli(parts: _Parts) -> Family | None:
    """Lemma 21: theta ~ Beta(alpha, alpha), x ~ Bernoulli or Binomial(theta)."""
    first, second = parts.hyper
    if monomial(parts.parameters[-1], parts.theta) != (1.0, 1.0) or first != second or first <= 1:
        return None
    trials = parts.greatest - parts.least
    symmetric = abs(parts.low + parts.high - 1.0) <= 1e-12
    stated = 1.0 if parts.likelihood == "BernoulliRV" else constant_value(parts.parameters[0])
    if (
        not symmetric
        or stated is None
        or trials <= 0
        or (parts.least, parts.greatest) != (0, stated)
    ):
        return None
    whole = int(stated)
    try:
        log_constant = math.log(beta_bernoulli_C(first, parts.n * whole)) * (1.0 + HAIR) + HAIR
    except (DomainError, OverflowError, ValueError):
        log_constant = math.inf
    return Family(
        lemma="Lemma 21",
        formula="|logit theta| times the number of trials",
        L0=0.0,
        c=beta_binomial_c(first) / whole * (1.0 - HAIR),
        log_constant=log_constant if (parts.low, parts.high) == (0.0, 1.0) else math.inf,
        ell=lambda theta: whole * np.abs(np.log(theta) - np.log1p(-theta)),
    )


RULES: dict[tuple[str, str], Callable[[_Parts], Family | None]] = {
    ("ExponentialRV", "ExponentialRV"): _exponential,
    ("LaplaceRV", "ExponentialRV"): _laplace,
    ("NormalRV", "ExponentialRV"): _normal,
    ("BernoulliRV", "BetaRV"): _bernoulli,
    ("BinomialRV", "BetaRV"): _bernoulli,
}
