"""Models whose Lipschitz tail is known by formula: Lemmas 19-24, corrected (theory, section 1.1).

All are about records in the domain of which one is replaced. Lemmas 19-22 have one parameter
with an exponential or symmetric Beta prior; ell(theta) is a multiple of theta, or of |logit
theta|.

Lemma 23 has normal rows in a ball, their precision a multiple of an exponential parameter t.
In the ball's own units let the precision of every entry be 2 k t and the mean be m. For rows
|z| <= r, with h = |m|,

    ell = t k ((h + r)^2 - max(h - r, 0)^2),

which rises with h. Lemma 23 as printed needs a bound of |m| that holds all over the prior;
with it the tail of ell is no heavier than that of a multiple of t.

Lemma 24 has Bayesian networks, each factor an entry of a table of probabilities. Replacing a
record replaces one entry of each table by another, maybe of another row, so ell(theta) is at
most the sum over the factors of the largest logarithm of a ratio of two entries. Of coins it
is the largest |logit theta|: the least entry and the greatest are those of one coin. With K
factors and entries in [a, 1 - a] that is K log((1 - a) / a), twice of which is the range of
the corrected lemma. Coins on all of (0, 1) with symmetric Beta priors have the tail of Lemma
21, once for each cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import SpecifyShape
from scipy.special import logit

from pymc_private.analysis import Bounds, propagate_bounds
from pymc_private.analysis.intervals.arrays import (
    INDEXING_OPS,
)
from pymc_private.analysis.rewrites.specialize import specialize
from pymc_private.analysis.traversal import scalar_op
from pymc_private.certificates.ball_range import (
    QuadraticInBall,
    norm_graph,
    quadratic_in_ball,
    scalar_and_vector_factors,
)
from pymc_private.certificates.lipschitz.monomials import monomial, monomials
from pymc_private.certificates.lipschitz.variation import joint_value
from pymc_private.errors import DomainError
from pymc_private.models.distributions import (
    BOX_TRANSFORMS,
    casts_between,
    constant_value,
    distribution_class,
    domain_is_in_support,
    observes_unchanged,
    transform_name,
)
from pymc_private.models.domains import Ball, Categories, Interval
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import SingleRecord, single_record
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.privacy.stochastic_lipschitz import (
    beta_bernoulli_C,
    beta_binomial_c,
    exp_exp_C,
    laplace_C,
    normal_var_C,
)

ROUNDING_SLACK = 2.0**-48
"""Relative slack for the rounding of a few products."""

WHOLE_PRIOR_TRANSFORMS = {*BOX_TRANSFORMS, "SimplexTransform"}
"""Transforms under which a prior keeps its shape on its box."""

NORMAL_LIKELIHOODS = {"NormalRV", "MvNormalRV"}

COIN_PRIORS, ROW_PRIORS = {"BetaRV", "UniformRV"}, {"DirichletRV"}

PASS_THROUGH_OPS = (Alloc, CheckAndRaise, DimShuffle, SpecifyShape)

ParameterPoints = Mapping[str, np.ndarray]
"""Values of the parameters, one row each."""


@dataclass(frozen=True)
class LemmaModel:
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
        The formula, of points by name, to be checked against the graph.
    is_exact : bool
        Whether ell(theta) equals the formula; else it is at most that.
    """

    lemma: str
    formula: str
    L0: float
    c: float
    log_constant: float
    ell: Callable[[ParameterPoints], np.ndarray]
    is_exact: bool = True


def recognize_lemma(private: PrivateModel) -> LemmaModel | None:
    """The lemma that applies to a model, by its distributions, or None. Reads no data."""
    changed = private.graph.clip is not None or private.score is not None
    if changed or private.neighbors != SUBSTITUTE:
        return None
    if private.theta_l is not None or private.graph.windows or not _has_own_priors(private):
        return None
    parts = _lemma_inputs(private)
    found = None if parts is None else LEMMA_RULES[parts.likelihood, parts.prior](parts)
    return found or normal_in_ball(private) or bayesian_network(private)


def _has_own_priors(private: PrivateModel) -> bool:
    """Whether every parameter follows its own prior on its box: nothing public conditions it.

    The lemmas are about that prior. A likelihood of public data, a potential, or a region of a
    parameter that another prior reads gives it another distribution.
    """
    model, factors = private.base, private.graph.factors
    parts = [*model.observed_RVs, *model.potentials]
    above = set(ancestors([v for rv in model.free_RVs for v in rv.owner.inputs]))
    known = all(transform_name(model, rv) in WHOLE_PRIOR_TRANSFORMS for rv in model.free_RVs)
    return known and all(v.name in factors for v in parts) and above.isdisjoint(model.free_RVs)


@dataclass(frozen=True)
class _LemmaInputs:
    """The numbers of a model that Lemmas 19-22 read.

    `low` and `high` bound the parameter `theta`, `least` and `greatest` a record; `parameters` are
    the likelihood's, `hyper` the prior's.
    """

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


def _lemma_inputs(private: PrivateModel) -> _LemmaInputs | None:
    """The numbers of a model of one parameter and one outcome, with an interval or categories."""
    model = private.base
    if len(model.free_RVs) != 1 or len(private.sources) != 1:
        return None
    (theta,), (source,) = model.free_RVs, private.sources
    outcomes = [rv for rv in model.observed_RVs if rv.name in private.graph.factors]
    if len(outcomes) != 1 or len(private.graph.factors) != 1 or private.shapes[theta.name] != ():
        return None
    if model.potentials or source.row_shape != ():
        return None
    likelihood, prior = distribution_class(outcomes[0]), distribution_class(theta)
    if (likelihood, prior) not in LEMMA_RULES:
        return None
    hyper = [constant_value(v) for v in theta.owner.op.dist_params(theta.owner)]
    (outcome,), box, domain = outcomes, private.box[theta.name], source.domain.bounds(())
    what = source.variable, source.domain, ()
    observed = observes_unchanged(model.rvs_to_values[outcome], *what) and domain_is_in_support(
        outcome, *what
    )
    known = isinstance(source.domain, Interval | Categories) and None not in hyper
    if not (observed and known):
        return None
    return _LemmaInputs(
        n=private.n,
        name=theta.name,
        likelihood=likelihood,
        parameters=list(outcome.owner.op.dist_params(outcome.owner)),
        theta=theta,
        low=float(box.lower),
        high=float(box.upper),
        prior=prior,
        hyper=[float(value) for value in hyper if value is not None],
        least=float(domain.lower),
        greatest=float(domain.upper),
    )


def _lemma_19(parts: _LemmaInputs) -> LemmaModel | None:
    """Lemma 19: x ~ Exponential(theta)."""
    found = monomial(parts.parameters[0], parts.theta)
    if found is None or found[1] != -1.0 or found[0] <= 0.0 or parts.least < 0.0:
        return None
    factor = 1.0 / found[0]
    log_constant = _scaled_log_constant(exp_exp_C, parts, factor, parts.greatest)
    words = "theta times the width of the domain"
    return _multiple_of_theta(
        parts, "Lemma 19", factor, parts.greatest - parts.least, words, log_constant
    )


def _lemma_20(parts: _LemmaInputs) -> LemmaModel | None:
    """Lemma 20: x ~ Laplace(mu, 1 / theta)."""
    center = constant_value(parts.parameters[0])
    found = monomial(parts.parameters[1], parts.theta)
    if center is None or found is None or found[1] != -1.0 or found[0] <= 0.0:
        return None
    factor, (near, far) = 1.0 / found[0], _distances_from_center(parts, center)
    largest = max(abs(parts.least), abs(parts.greatest))
    log_constant = _scaled_log_constant(laplace_C, parts, factor, largest, center)
    return _multiple_of_theta(
        parts, "Lemma 20", factor, far - near, "theta times a distance", log_constant
    )


def _lemma_21(parts: _LemmaInputs) -> LemmaModel | None:
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
        log_constant = (
            math.log(beta_bernoulli_C(first, parts.n * whole)) * (1.0 + ROUNDING_SLACK)
            + ROUNDING_SLACK
        )
    except (DomainError, OverflowError, ValueError):
        log_constant = math.inf
    return LemmaModel(
        lemma="Lemma 21",
        formula="|logit theta| times the number of trials",
        L0=0.0,
        c=beta_binomial_c(first) / whole * (1.0 - ROUNDING_SLACK),
        log_constant=log_constant if (parts.low, parts.high) == (0.0, 1.0) else math.inf,
        ell=lambda points: whole * abs(logit(points[parts.name])),
    )


def _lemma_22(parts: _LemmaInputs) -> LemmaModel | None:
    """Lemma 22: x ~ Normal with precision theta."""
    center = constant_value(parts.parameters[0])
    found = monomial(parts.parameters[1], parts.theta)
    if center is None or found is None or found[1] != -0.5 or found[0] <= 0.0:
        return None
    factor, (near, far) = found[0] ** -2.0, _distances_from_center(parts, center)
    largest = max(abs(parts.least), abs(parts.greatest))
    log_constant = _scaled_log_constant(normal_var_C, parts, factor, largest, center)
    words = "theta times half a difference of squares"
    return _multiple_of_theta(
        parts, "Lemma 22", factor, (far**2 - near**2) / 2.0, words, log_constant
    )


def _multiple_of_theta(
    parts: _LemmaInputs, lemma: str, scale: float, spread: float, words: str, log_constant: float
) -> LemmaModel | None:
    """ell = scale * spread * theta with an exponential prior of rate 1 / hyper."""
    slope = scale * spread
    if not (slope > 0.0 and math.isfinite(slope) and parts.hyper[0] > 0.0 and parts.low >= 0.0):
        return None
    return LemmaModel(
        lemma=lemma,
        formula=words,
        L0=parts.low * slope * (1.0 + ROUNDING_SLACK),
        c=(1.0 - ROUNDING_SLACK) / (parts.hyper[0] * slope),
        log_constant=log_constant,
        ell=lambda points: slope * points[parts.name],
    )


def _scaled_log_constant(
    formula: Callable[..., float], parts: _LemmaInputs, factor: float, *rest: float
) -> float:
    """n times the logarithm of one record's constant: it holds, and grows with n."""
    if not (parts.low > 0.0 and math.isfinite(parts.high)):
        return math.inf
    limits = (
        parts.low * factor * (1.0 - ROUNDING_SLACK),
        parts.high * factor * (1.0 + ROUNDING_SLACK),
    )
    try:
        return parts.n * math.log(formula(*limits, *rest)) * (1.0 + ROUNDING_SLACK)
    except (DomainError, OverflowError, ValueError):
        return math.inf


def _distances_from_center(parts: _LemmaInputs, center: float) -> tuple[float, float]:
    """Least and greatest distance of a record from a center."""
    distances = abs(parts.least - center), abs(parts.greatest - center)
    inside = parts.least <= center <= parts.greatest
    return (0.0 if inside else min(distances)), max(distances)


LEMMA_RULES: dict[tuple[str, str], Callable[[_LemmaInputs], LemmaModel | None]] = {
    ("ExponentialRV", "ExponentialRV"): _lemma_19,
    ("LaplaceRV", "ExponentialRV"): _lemma_20,
    ("NormalRV", "ExponentialRV"): _lemma_22,
    ("BernoulliRV", "BetaRV"): _lemma_21,
    ("BinomialRV", "BetaRV"): _lemma_21,
}


def normal_in_ball(private: PrivateModel) -> LemmaModel | None:
    """The constants of Lemma 23; None if it does not apply.

    For one replaced record, a box of parameters, and rows that are read one by one. Reads no data.
    """
    rows = _lemma_rows(private)
    if rows is None or not (rows.low >= 0.0 and math.isfinite(rows.slope) and rows.mean > 0.0):
        return None
    slope = rows.slope
    return LemmaModel(
        lemma="Lemma 23",
        formula=f"at most {rows.name} times what squares in the ball differ by",
        L0=rows.low * slope * (1.0 + ROUNDING_SLACK),
        c=(1.0 - ROUNDING_SLACK) / (rows.mean * slope),
        log_constant=_log_constant_in_ball(private, rows),
        ell=lambda points: slope * points[rows.name],
        is_exact=False,
    )


@dataclass(frozen=True)
class _LemmaRows:
    """The numbers of a model that Lemma 23 reads.

    Parameters
    ----------
    name : str
        The exponential parameter t.
    mean : float
        Its prior mean.
    low, high : float
        Its bounds.
    factor : float
        k.
    far : float
        The greatest |m|, rounded up.
    radius : float
    size : int
    """

    name: str
    mean: float
    low: float
    high: float
    factor: float
    far: float
    radius: float
    size: int

    @property
    def slope(self) -> float:
        """ell is at most so many times t, rounded up."""
        near = max(self.far - self.radius, 0.0)
        return self.factor * ((self.far + self.radius) ** 2 - near**2) * (1.0 + ROUNDING_SLACK)


def _lemma_rows(private: PrivateModel) -> _LemmaRows | None:
    """Read t, k and the mean off the record's graph."""
    domains = [source.domain for source in private.sources]
    if private.base.potentials or len(domains) != 1 or not isinstance(domains[0], Ball):
        return None
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None or record.public:
        return None
    rows = {record.data[s.name]: s.domain.bounds(s.row_shape) for s in private.sources}
    whole = quadratic_in_ball(joint_value(private, record), rows)
    if whole is None or whole.square.type.ndim:
        return None
    box = {record.parameters[name]: b for name, b in private.box.items()}
    whole = replace(whole, square=specialize(whole.square, box), slope=specialize(whole.slope, box))
    for rv in private.base.free_RVs:
        name = rv.name
        found = monomial(whole.square, record.parameters[name])
        if (
            found is not None
            and found[1] == 1.0
            and found[0] < 0.0
            and _has_own_exponential_prior(private, rv)
        ):
            return _read_constants(private, record, whole, name, -found[0])
    return None


def _has_own_exponential_prior(private: PrivateModel, rv: Variable) -> bool:
    """Whether a scalar has a plain exponential prior that no other prior reads."""
    if distribution_class(rv) != "ExponentialRV" or private.shapes[rv.name] != ():
        return False
    others = [other for other in private.base.free_RVs if other is not rv]
    return rv not in set(ancestors(others))


def _read_constants(
    private: PrivateModel, record: SingleRecord, whole: QuadraticInBall, name: str, factor: float
) -> _LemmaRows | None:
    """The other constants, given t and k."""
    t = record.parameters[name]
    (rv,) = (v for v in private.base.free_RVs if v.name == name)
    (mean,) = (constant_value(v) for v in rv.owner.op.dist_params(rv.owner))
    far = _largest_mean_norm(private, record, whole, t, factor)
    if mean is None or far is None:
        return None
    box = private.box[name]
    low, high = float(box.lower), float(box.upper)
    return _LemmaRows(name, mean, low, high, factor, far, whole.radius, whole.size)


def _largest_mean_norm(
    private: PrivateModel, record: SingleRecord, whole: QuadraticInBall, t: Variable, factor: float
) -> float | None:
    """The greatest |m| = |b| / (2 k t) over the box, rounded up, where t cancels."""
    numbers, vectors = scalar_and_vector_factors(whole.slope)
    if any(isinstance(v, Constant) and not np.any(v.data) for v in (*numbers, *vectors)):
        return 0.0
    over = [v for v in (*numbers, *vectors) if t in ancestors([v])]
    rest = [v for v in (*numbers, *vectors) if v not in over]
    found = [monomials(v, t) for v in over]
    known = [each for each in found if each is not None]
    powers = [np.unique(power) for _, power in known]
    if len(known) < len(found) or any(p.size != 1 for p in powers) or sum(powers) != 1.0:
        return None
    rest += [pt.constant(number) for number, _ in known]
    length = pt.as_tensor(norm_graph(pt.mul(pt.constant(1.0), *rest), whole.size))
    read = set(ancestors([length]))
    given = {record.parameters[k]: b for k, b in private.box.items()}
    fact: Bounds = propagate_bounds([length], {v: b for v, b in given.items() if v in read})[length]
    far = float(fact.upper) / (2.0 * factor) * (1.0 + ROUNDING_SLACK)
    return far if math.isfinite(far) else None


def _log_constant_in_ball(private: PrivateModel, rows: _LemmaRows) -> float:
    """n log C, C = max((c2 / c1)^(d/2) e^(k c1 D^2), e^(k c2 D^2)), D = h + r; inf if unknown.

    log p = (d / 2) log t - k t D^2 is concave in t, so it is least at an endpoint.
    """
    alone = len(private.graph.factors) == 1  # one factor t^(1/2) for each entry
    normal = {distribution_class(rv) for rv in private.base.observed_RVs} <= NORMAL_LIKELIHOODS
    if not (alone and normal and rows.low > 0.0 and math.isfinite(rows.high)):
        return math.inf
    square = rows.factor * (rows.far + rows.radius) ** 2
    wide = rows.size / 2.0 * math.log(rows.high / rows.low) + square * rows.low
    return private.n * max(wide, square * rows.high) * (1.0 + ROUNDING_SLACK)


def bayesian_network(private: PrivateModel) -> LemmaModel | None:
    """The constants of Lemma 24; None if some factor is not an entry of a table.

    For one replaced record, and rows that are read one by one. Reads no data.
    """
    outcomes = {rv.name: rv for rv in private.base.observed_RVs}
    if not private.graph.factors or not set(private.graph.factors) <= outcomes.keys():
        return None
    found = [_probability_table(private, outcomes[name]) for name in private.graph.factors]
    tables = [table for table in found if table is not None]
    if len(tables) < len(found):
        return None
    limits = [table.steepest() for table in tables]
    tail = _unbounded_tail(
        private, [t for t, limit in zip(tables, limits, strict=True) if limit == math.inf]
    )
    if tail is None:
        return None
    start, rate, log_constant = tail
    bounded = sum(limit for limit in limits if limit < math.inf)
    return LemmaModel(
        lemma="Lemma 24" if not start and rate == math.inf else "Lemmas 21 and 24",
        formula="at most the sum over the tables of the largest log-ratio of their entries",
        L0=(bounded + start) * (1.0 + ROUNDING_SLACK),
        c=rate,
        log_constant=log_constant if not bounded or rate == math.inf else math.inf,
        ell=lambda points: np.sum([table.steepness(points) for table in tables], axis=0),
        is_exact=False,
    )


@dataclass(frozen=True, eq=False)
class _ProbabilityTable:
    """The probabilities that a factor picks from.

    Parameters
    ----------
    prior : Variable
        The free variable.
    box : Bounds
        Of its entries.
    times : int
        How many of its entries a record reads in this factor.
    is_coin : bool
        Whether an entry is the probability of one of two values, and not one of a row.
    """

    prior: Variable
    box: Bounds
    times: int
    is_coin: bool

    @property
    def name(self) -> str:
        """Of the free variable."""
        return str(self.prior.name)

    def steepness(self, points: ParameterPoints) -> np.ndarray:
        """The largest logarithm of a ratio at given entries, one for each point."""
        values = np.asarray(points[self.name], dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.is_coin:
                ratios = np.abs(logit(values)).reshape(len(values), -1)
            else:  # the greatest and the least may stand in two rows
                logs = np.log(values.reshape(len(values), -1))
                ratios = logs.max(axis=1, keepdims=True) - logs.min(axis=1, keepdims=True)
        return self.times * np.where(np.isnan(ratios), np.inf, ratios).max(axis=1)

    def steepest(self) -> float:
        """The same over the box, rounded up; infinite where an entry may be zero."""
        low, high = (np.asarray(side, dtype=float) for side in (self.box.lower, self.box.upper))
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.is_coin:
                ratios = np.maximum(np.abs(logit(low)), np.abs(logit(high)))
            else:
                rest = low.sum(axis=-1, keepdims=True) - low
                high = np.minimum(high, (1.0 - rest) * (1.0 + ROUNDING_SLACK))
                ratios = np.log(high.max()) - np.log(low.min())
        largest = float(np.max(np.where(np.isnan(ratios), np.inf, ratios)))
        return self.times * largest * (1.0 + ROUNDING_SLACK)


def _probability_table(private: PrivateModel, outcome: Variable) -> _ProbabilityTable | None:
    """The table whose entries are the probabilities of an outcome."""
    likelihood = distribution_class(outcome)
    value = private.base.rvs_to_values[outcome]
    found = [s for s in private.sources if casts_between(value, s.variable) is not None]
    if likelihood not in {"BernoulliRV", "CategoricalRV"} or len(found) != 1:
        return None
    what = found[0].variable, found[0].domain, found[0].row_shape
    if not (observes_unchanged(value, *what) and domain_is_in_support(outcome, *what)):
        return None
    (probabilities,) = outcome.owner.op.dist_params(outcome.owner)
    prior = _table_source(probabilities, set(private.base.free_RVs))
    if prior is None or distribution_class(prior) not in _table_priors(likelihood):
        return None
    last = private.shapes[str(prior.name)][-1] - 1 if likelihood == "CategoricalRV" else 1
    if np.max(found[0].domain.bounds(found[0].row_shape).upper) > last:
        return None
    times = math.prod(found[0].row_shape)
    return _ProbabilityTable(
        prior, private.box[str(prior.name)], times, likelihood == "BernoulliRV"
    )


def _table_priors(likelihood: str) -> set[str]:
    return COIN_PRIORS if likelihood == "BernoulliRV" else ROW_PRIORS


def _table_source(variable: Variable, free: set[Variable]) -> Variable | None:
    """The free variable that all entries are taken from, by an index that reads no parameter."""
    while variable not in free:
        node = variable.owner
        same = node is not None and (
            isinstance(node.op, PASS_THROUGH_OPS) or isinstance(scalar_op(variable), ps.Identity)
        )
        picks = node is not None and isinstance(node.op, tuple(INDEXING_OPS))
        if not (same or picks) or not free.isdisjoint(ancestors(node.inputs[1:])):
            return None
        variable = node.inputs[0]
    return variable


def _unbounded_tail(
    private: PrivateModel, tables: list[_ProbabilityTable]
) -> tuple[float, float, float] | None:
    """(L0, c, log C) of factors that have no bound: symmetric Beta priors on all of (0, 1).

    If K terms add up to more than L, one of them exceeds L / K; it is the largest of its cells, so
    P <= m e^(-c L / K) with m cells in all.
    """
    if not tables:
        return 0.0, math.inf, 0.0
    found = [_symmetric_alpha(table) for table in tables]
    alphas = [alpha for alpha in found if alpha is not None]
    if len(alphas) < len(found):
        return None
    rates = [beta_binomial_c(a) / t.times for a, t in zip(alphas, tables, strict=True)]
    cells = [max(1, math.prod(private.shapes[t.name])) for t in tables]
    rate = min(rates)
    start = len(tables) * math.log(sum(cells)) / rate
    constants = [
        _log_constant_of_cells(private, a, t, m)
        for a, t, m in zip(alphas, tables, cells, strict=True)
    ]
    alone = len({t.name for t in tables}) == len(tables)
    log_constant = sum(constants) if alone else math.inf
    return start * (1.0 + ROUNDING_SLACK), rate / len(tables) * (1.0 - ROUNDING_SLACK), log_constant


def _symmetric_alpha(table: _ProbabilityTable) -> float | None:
    """alpha of a Beta(alpha, alpha) prior on all of (0, 1), above 1; None otherwise."""
    whole = np.all(table.box.lower == 0.0) and np.all(table.box.upper == 1.0)
    if distribution_class(table.prior) != "BetaRV" or not whole:
        return None
    first, second = (constant_value(v) for v in table.prior.owner.op.dist_params(table.prior.owner))
    return first if first is not None and first == second and first > 1.0 else None


def _log_constant_of_cells(
    private: PrivateModel, alpha: float, table: _ProbabilityTable, cells: int
) -> float:
    """log C of all cells: each is tossed at most once a record and entry, and C rises with n."""
    try:
        one = (
            math.log(beta_bernoulli_C(alpha, private.n * table.times)) * (1.0 + ROUNDING_SLACK)
            + ROUNDING_SLACK
        )
    except (DomainError, OverflowError, ValueError):
        return math.inf
    return cells * one
