"""Lemma 24: Bayesian networks, each factor an entry of a table of probabilities.

Replacing a record replaces one entry of each table by another, maybe of another row, so ell(theta)
is at most the sum over the factors of the largest logarithm of a ratio of two entries. Of coins it
is the largest |logit theta|: the least entry and the greatest are those of one coin. With K factors
and entries in [a, 1 - a] that is K log((1 - a) / a), twice of which is the range of the corrected
lemma. Coins on all of (0, 1) with symmetric Beta priors have the tail of Lemma 21, once for each
cell. Theory, section 1.1.
"""

from __future__ import annotations

import math
import numpy as np
import pytensor.scalar.basic as ps
from dataclasses import dataclass
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import SpecifyShape
from scipy.special import logit
from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis.intervals.arrays import TAKE
from pymc_private.analysis.traversal import scalar_op
from pymc_private.errors import DomainError
from pymc_private.models.distributions__laws import casts_of, is_given, is_kept, law_name
from pymc_private.certificates.lipschitz.lemmas__family import Family, HAIR, Points
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.data_variables import constant_value
from pymc_private.privacy.stochastic_lipschitz import beta_bernoulli_C, beta_binomial_c

COINS, ROWS = {"BetaRV", "UniformRV"}, {"DirichletRV"}
SAME = (Alloc, CheckAndRaise, DimShuffle, SpecifyShape)


@dataclass(frozen=True, eq=False)
class _Table:
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

    def steepness(self, points: Points) -> np.ndarray:
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
        low, high = (np.asarray(end, dtype=float) for end in (self.box.lower, self.box.upper))
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.is_coin:
                ratios = np.maximum(np.abs(logit(low)), np.abs(logit(high)))
            else:
                rest = low.sum(axis=-1, keepdims=True) - low
                high = np.minimum(high, (1.0 - rest) * (1.0 + HAIR))
                ratios = np.log(high.max()) - np.log(low.min())
        largest = float(np.max(np.where(np.isnan(ratios), np.inf, ratios)))
        return self.times * largest * (1.0 + HAIR)


def network(private: PrivateModel) -> Family | None:
    """Find the constants of Lemma 24; None if some factor is no entry of a table.

    Parameters
    ----------
    private : PrivateModel
        One record replaced, each row read by itself. Reads no data.
    """
    outcomes = {rv.name: rv for rv in private.base.observed_RVs}
    if not private.graph.factors or not set(private.graph.factors) <= outcomes.keys():
        return None
    found = [_table(private, outcomes[name]) for name in private.graph.factors]
    tables = [table for table in found if table is not None]
    if len(tables) < len(found):
        return None
    limits = [table.steepest() for table in tables]
    tail = _tail(private, [t for t, limit in zip(tables, limits, strict=True) if limit == math.inf])
    if tail is None:
        return None
    start, rate, log_constant = tail
    bounded = sum(limit for limit in limits if limit < math.inf)
    return Family(
        lemma="Lemma 24" if not start and rate == math.inf else "Lemmas 21 and 24",
        formula="at most the sum over the tables of the largest log-ratio of their entries",
        L0=(bounded + start) * (1.0 + HAIR),
        c=rate,
        log_constant=log_constant if not bounded or rate == math.inf else math.inf,
        ell=lambda points: np.sum([table.steepness(points) for table in tables], axis=0),
        is_exact=False,
    )


def _table(private: PrivateModel, outcome: Variable) -> _Table | None:
    """The table whose entries are the probabilities of an outcome."""
    kind = law_name(outcome)
    value = private.base.rvs_to_values[outcome]
    found = [s for s in private.sources if casts_of(value, s.variable) is not None]
    if kind not in {"BernoulliRV", "CategoricalRV"} or len(found) != 1:
        return None
    what = found[0].variable, found[0].domain, found[0].row_shape
    if not (is_kept(value, *what) and is_given(outcome, *what)):
        return None
    (probabilities,) = outcome.owner.op.dist_params(outcome.owner)
    prior = _picked_from(probabilities, set(private.base.free_RVs))
    if prior is None or law_name(prior) not in _priors(kind):
        return None
    last = private.shapes[str(prior.name)][-1] - 1 if kind == "CategoricalRV" else 1
    if np.max(found[0].domain.bounds(found[0].row_shape).upper) > last:
        return None
    times = math.prod(found[0].row_shape)
    return _Table(prior, private.box[str(prior.name)], times, kind == "BernoulliRV")


def _priors(likelihood: str) -> set[str]:
    return COINS if likelihood == "BernoulliRV" else ROWS


def _picked_from(variable: Variable, free: set[Variable]) -> Variable | None:
    """The free variable that all entries are taken from, by an index that reads no parameter."""
    while variable not in free:
        node = variable.owner
        same = node is not None and (
            isinstance(node.op, SAME) or isinstance(scalar_op(variable), ps.Identity)
        )
        picks = node is not None and isinstance(node.op, tuple(TAKE))
        if not (same or picks) or not free.isdisjoint(ancestors(node.inputs[1:])):
            return None
        variable = node.inputs[0]
    return variable


def _tail(private: PrivateModel, tables: list[_Table]) -> tuple[float, float, float] | None:
    """(L0, c, log C) of factors that have no bound: symmetric Beta priors on all of (0, 1).

    If K terms add up to more than L, one of them exceeds L / K; it is the largest of its cells, so
    P <= m e^(-c L / K) with m cells in all.
    """
    if not tables:
        return 0.0, math.inf, 0.0
    found = [_symmetric(table) for table in tables]
    alphas = [alpha for alpha in found if alpha is not None]
    if len(alphas) < len(found):
        return None
    rates = [beta_binomial_c(a) / t.times for a, t in zip(alphas, tables, strict=True)]
    cells = [max(1, math.prod(private.shapes[t.name])) for t in tables]
    rate = min(rates)
    start = len(tables) * math.log(sum(cells)) / rate
    constants = [_constant(private, a, t, m) for a, t, m in zip(alphas, tables, cells, strict=True)]
    alone = len({t.name for t in tables}) == len(tables)
    log_constant = sum(constants) if alone else math.inf
    return start * (1.0 + HAIR), rate / len(tables) * (1.0 - HAIR), log_constant


def _symmetric(table: _Table) -> float | None:
    """alpha of a Beta(alpha, alpha) prior on all of (0, 1), above 1; None otherwise."""
    whole = np.all(table.box.lower == 0.0) and np.all(table.box.upper == 1.0)
    if law_name(table.prior) != "BetaRV" or not whole:
        return None
    first, second = (constant_value(v) for v in table.prior.owner.op.dist_params(table.prior.owner))
    return first if first is not None and first == second and first > 1.0 else None


def _constant(private: PrivateModel, alpha: float, table: _Table, cells: int) -> float:
    """log C of all cells: each is tossed at most once a record and entry, and C rises with n."""
    try:
        one = math.log(beta_bernoulli_C(alpha, private.n * table.times)) * (1.0 + HAIR) + HAIR
    except (DomainError, OverflowError, ValueError):
        return math.inf
    return cells * one
