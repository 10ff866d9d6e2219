"""Models whose Lipschitz tail is known by formula: Lemmas 19-24, corrected (theory, section 1.1).

Lemmas 19-22 have one parameter with an exponential or symmetric Beta prior. For records in the
domain and one of them replaced, ell(theta) is a multiple of theta, or of |logit theta|. Lemma 23 is
in `family_in_ball`, Lemma 24 in `family_of_tables`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from scipy.special import logit
from pymc_private.errors import DomainError
from pymc_private.models.domains import Categories, Interval
from pymc_private.models.distributions__laws import is_given, is_kept, law_name
from pymc_private.certificates.lipschitz.lemmas__family import Family, HAIR, monomial
from pymc_private.certificates.lipschitz.lemmas__family_in_ball import normal_in_ball
from pymc_private.certificates.lipschitz.lemmas__family_of_tables import network
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.data_variables import constant_value
from pymc_private.models.distributions import BOXABLE, transform_name
from pymc_private.privacy.stochastic_lipschitz import beta_bernoulli_C, beta_binomial_c, exp_exp_C, laplace_C, normal_var_C
from pymc_private.privacy.neighbors__neighbors import SUBSTITUTE

KNOWN = {*BOXABLE, "SimplexTransform"}
"""Transforms that keep a prior whole on its box."""


@dataclass(frozen=True)
class _Parts:
    """What the lemmas are about."""

    n: int
    name: str
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
    if private.graph.clip is not None or private.neighbors != SUBSTITUTE:
        return None
    if private.theta_l is not None or private.graph.windows or not _is_prior(private):
        return None
    parts = _parts(private)
    found = None if parts is None else RULES[parts.likelihood, parts.prior](parts)
    return found or normal_in_ball(private) or network(private)


def _is_prior(private: PrivateModel) -> bool:
    """Whether every parameter follows its own prior on its box: nothing public bears on it.

    The lemmas are about that prior. A likelihood of public data, a potential, or a region of what
    another parameter is the prior of makes another law of it.
    """
    model, factors = private.base, private.graph.factors
    parts = [*model.observed_RVs, *model.potentials]
    above = set(ancestors([v for rv in model.free_RVs for v in rv.owner.inputs]))
    known = all(transform_name(model, rv) in KNOWN for rv in model.free_RVs)
    return known and all(v.name in factors for v in parts) and above.isdisjoint(model.free_RVs)


def _parts(private: PrivateModel) -> _Parts | None:
    """One parameter, one outcome with an interval or categories, nothing else."""
    model = private.base
    if len(model.free_RVs) != 1 or len(private.sources) != 1:
        return None
    (theta,), (source,) = model.free_RVs, private.sources
    outcomes = [rv for rv in model.observed_RVs if rv.name in private.graph.factors]
    if len(outcomes) != 1 or len(private.graph.factors) != 1 or private.shapes[theta.name] != ():
        return None
    if model.potentials or source.row_shape != ():
        return None
    likelihood, prior = law_name(outcomes[0]), law_name(theta)
    if (likelihood, prior) not in RULES:
        return None
    hyper = [constant_value(v) for v in theta.owner.op.dist_params(theta.owner)]
    (outcome,), box, ends = outcomes, private.box[theta.name], source.domain.bounds(())
    what = source.variable, source.domain, ()
    observed = is_kept(model.rvs_to_values[outcome], *what) and is_given(outcome, *what)
    known = isinstance(source.domain, Interval | Categories) and None not in hyper
    if not (observed and known):
        return None
    return _Parts(
        n=private.n,
        name=theta.name,
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
        ell=lambda points: slope * points[parts.name],
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
        ell=lambda points: whole * abs(logit(points[parts.name])),
    )


RULES: dict[tuple[str, str], Callable[[_Parts], Family | None]] = {
    ("ExponentialRV", "ExponentialRV"): _exponential,
    ("LaplaceRV", "ExponentialRV"): _laplace,
    ("NormalRV", "ExponentialRV"): _normal,
    ("BernoulliRV", "BetaRV"): _bernoulli,
    ("BinomialRV", "BetaRV"): _bernoulli,
}
