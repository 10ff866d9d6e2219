"""Conjugate models recognized in the graph, and the exact cost of their untrimmed draws (T13).

A conjugate model has one prior, one likelihood and nothing else; its posterior is a named
distribution in closed form. Bayesian linear regression with known variance is one too: the
mean is affine in the parameters if the graph says so, node by node, and its coefficients are
its values at unit vectors; covariates may be private, public or constants.

Where no range is finite, the cost follows from one dominating pair of posteriors (T9, T10,
T13): Beta with Bernoulli or binomial records and Gamma with Poisson records, one scalar
parameter; Dirichlet with categorical records, or one-hot rows of them; under add/remove, where
records are counted in one cell each. Nothing here reads data but the `posterior` methods.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum

from pymc_private.analysis.intervals.arrays import INDEXING_OPS, LAYOUT_OPS
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.certificates.conjugate_families import (
    CONJUGATE_RULES,
    ConjugateModel,
    FractionArray,
    distribution_arguments,
    fractions_in,
    normal_gamma_model,
)
from pymc_private.models.data_variables import Source
from pymc_private.models.distributions import (
    CONTINUOUS,
    LIKELIHOOD_SUPPORTS,
    distribution_name,
    has_full_support,
    observes_unchanged,
)
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy import Guarantee
from pymc_private.privacy.dirichlet_tables import estimate_delta
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.rounding import float_down, format_number

ADDITIVE = (ps.Add, ps.Sub, ps.Neg, ps.Identity, ps.Second)

PAIR_THEOREMS = {"gamma": "T10, T13", "beta": "T9, T13", "dirichlet": "T9", "cells": "T10"}

GAMMA_FAMILIES = ("gamma", "cells")


def recognize_conjugate(private: PrivateModel) -> ConjugateModel | None:
    """The conjugate family of a model, or None. Reads no data.

    None unless the model has one likelihood, of one private variable, with conjugate priors whose
    parameters are numbers, and nothing else (no potential, no clip, no transform that cuts or
    orders them); or it is a linear regression of known variance.
    """
    model = private.base
    if not all(has_full_support(model, rv, private.shapes[rv.name]) for rv in model.free_RVs):
        return None
    return _recognize_single(private) or linear_regression(private)


def _recognize_single(private: PrivateModel) -> ConjugateModel | None:
    """A model of one private variable with one likelihood and nothing else."""
    model, graph = private.base, private.graph
    alone = len(private.sources) == 1 and len(graph.factors) == 1
    alone = alone and graph.clip is None and private.score is None
    if private.theta_l is not None or graph.windows:  # a set is no box: no inverse CDF stays in it
        return None
    if not alone or model.potentials or len(model.observed_RVs) != 1:
        return None
    rv = model.observed_RVs[0]
    source, shapes = private.sources[0], private.shapes
    value = model.rvs_to_values[rv]
    kept = observes_unchanged(value, source.variable, source.domain, source.row_shape)
    if rv.name not in graph.factors or not kept:
        return None
    found = None
    if len(model.free_RVs) == 1:
        rule = CONJUGATE_RULES.get((distribution_name(model.free_RVs[0]), distribution_name(rv)))
        found = rule(model.free_RVs[0], rv) if rule is not None else None
    elif len(model.free_RVs) == 2:
        found = normal_gamma_model(model.free_RVs, rv)
    if found is None or not _has_matching_entries(found, source, shapes):
        return None
    return _broadcast_prior(found, shapes)


def _has_matching_entries(
    found: ConjugateModel, source: Source, shapes: dict[str, tuple[int, ...]]
) -> bool:
    """Whether each entry of a parameter belongs to its own entry of every record."""
    shape = shapes[found.names[0]]
    if not _is_supported(found, source, shape):
        return False
    if found.family == "normal_gamma":
        return all(shapes[name] == () for name in found.names)
    if found.likelihood == "categorical":
        return len(shape) == 1 and source.row_shape == ()
    if shape == () and found.family in ("beta", "gamma", "normal"):
        return True
    return source.axis == 0 and source.row_shape == shape and len(shape) == 1


def _is_supported(found: ConjugateModel, source: Source, shape: tuple[int, ...]) -> bool:
    """Whether every record of the domain is one that the likelihood can give."""
    low, high = LIKELIHOOD_SUPPORTS[found.likelihood]
    if found.likelihood in ("binomial", "multinomial"):
        high = float(found.constants["trials"][()])
    elif found.likelihood == "categorical":
        high = shape[0] - 1.0
    bounds = source.domain.bounds(source.row_shape)
    if found.likelihood == "multinomial" and getattr(bounds.within, "total", None) != high:
        return False
    inside = bool(np.all(bounds.lower >= low) and np.all(bounds.upper <= high))
    return inside and (source.is_whole or found.likelihood in CONTINUOUS)


def _broadcast_prior(found: ConjugateModel, shapes: dict[str, tuple[int, ...]]) -> ConjugateModel:
    """Give every parameter of a prior the shape of what it is a prior of."""
    if found.family == "mvnormal":
        return found
    shape = shapes[found.names[0]]
    prior = {k: np.broadcast_to(v, shape).copy() for k, v in found.prior.items()}
    return replace(found, prior=prior)


@dataclass(frozen=True, eq=False)
class LinearRegression(ConjugateModel):
    """y ~ Normal(A theta + b, sigma), theta normal with independent entries (floats).

    Parameters
    ----------
    mean : Variable
        A theta + b, of the free variables and the data.
    free : tuple of Variable
    """

    mean: Variable
    free: tuple[Variable, ...]

    def posterior(self, private: PrivateModel) -> dict[str, FractionArray]:
        """Mean and precision of the normal posterior. Reads the data.

        Precision P = D + w A'A / sigma^2, mean P^-1 (D m + w A'(y - b) / sigma^2), D the prior's.
        """
        y, (rows, offset) = _outcome_values(private), self._design(private)
        each = float_down(private.power) / float(self.constants["sigma"][()]) ** 2
        known = np.diag(1.0 / self.prior["sd"] ** 2)
        precision = known + each * rows.T @ rows
        right = known @ self.prior["mean"] + each * rows.T @ (y - offset)
        return {"mean": np.linalg.solve(precision, right), "precision": precision}

    def _design(self, private: PrivateModel) -> tuple[np.ndarray, np.ndarray]:
        """A, shape (n, d), and b: the mean at unit vectors less that at zero, and at zero."""
        data = {v: v.get_value() for v in public_data([self.mean])}
        data |= {s.variable: s.values() for s in private.sources}
        sizes = [int(np.prod(private.shapes[v.name])) for v in self.free]
        columns = []
        for unit in np.vstack([np.zeros(sum(sizes)), np.eye(sum(sizes))]):
            parts = np.split(unit, np.cumsum(sizes)[:-1])
            given = {
                v: part.reshape(private.shapes[v.name])
                for v, part in zip(self.free, parts, strict=True)
            }
            value = np.asarray(ConcreteValues({**data, **given})(self.mean), float)
            columns.append(np.broadcast_to(value, (private.n,)))
        offset = columns[0]
        return np.stack([c - offset for c in columns[1:]], axis=1), offset


def linear_regression(private: PrivateModel) -> LinearRegression | None:
    """Recognize a linear regression of known variance; None if it is not one. Reads no data."""
    model, graph = private.base, private.graph
    plain = graph.clip is None and private.score is None
    plain = plain and private.theta_l is None and not graph.windows
    if not plain or model.potentials or len(model.observed_RVs) != 1 or len(graph.factors) != 1:
        return None
    rv = model.observed_RVs[0]
    free = tuple(model.free_RVs)
    if (
        distribution_name(rv) != "normal"
        or not free
        or any(distribution_name(v) != "normal" for v in free)
    ):
        return None
    outcome = model.rvs_to_values[rv]
    if not any(s.variable is outcome and s.row_shape == () for s in private.sources):
        return None
    mean, sigma = rv.owner.op.dist_params(rv.owner)
    known = fractions_in(sigma)
    if known is None or known.size != 1 or not np.ravel(known)[0] > 0:
        return None
    prior = _normal_prior(private, free)
    if prior is None or set(ancestors([mean])).isdisjoint(free) or not _is_affine(mean, free):
        return None
    names = tuple(v.name for v in free)
    constants = {"sigma": np.array(np.ravel(known)[0], dtype=object)}
    return LinearRegression(
        "linear", "normal", names, prior, constants, lambda *arguments: {}, mean, free
    )


def _outcome_values(private: PrivateModel) -> np.ndarray:
    """The observed values of the regression. Reads the data."""
    outcome = private.base.rvs_to_values[private.base.observed_RVs[0]]
    (source,) = (s for s in private.sources if s.variable is outcome)
    return np.asarray(source.values(), float)


def _normal_prior(
    private: PrivateModel, free: tuple[Variable, ...]
) -> dict[str, np.ndarray] | None:
    """Means and standard deviations of all entries, or None if they are no numbers."""
    found: dict[str, list[np.ndarray]] = {"mean": [], "sd": []}
    for variable in free:
        center, scale = (fractions_in(a) for a in distribution_arguments(variable))
        if center is None or scale is None or not all(x > 0 for x in np.ravel(scale)):
            return None
        for name, value in (("mean", center), ("sd", scale)):
            wide = np.broadcast_to(value.astype(float), private.shapes[variable.name])
            found[name].append(np.ravel(wide))
    return {name: np.concatenate(values) for name, values in found.items()}


def _is_affine(variable: Variable, free: Collection[Variable]) -> bool:
    """Whether the graph writes an affine function of the free variables, whatever the data are."""
    reads: dict[Variable, bool] = {}

    def moves(v: Variable) -> bool:
        if v not in reads:
            inner = v.owner is not None and v not in free
            reads[v] = v in free or (inner and any(moves(x) for x in v.owner.inputs))
        return reads[v]

    def affine(v: Variable) -> bool:
        if v in free or not moves(v):
            return True
        node = v.owner
        moving = [x for x in node.inputs if moves(x)]
        op = getattr(node.op, "scalar_op", node.op) if isinstance(node.op, Elemwise) else node.op
        core = op.core_op if isinstance(op, Blockwise) else op
        additive = isinstance(op, (*ADDITIVE, DimShuffle, Sum, *LAYOUT_OPS))
        bilinear = len(moving) == 1 and (isinstance(op, ps.Mul) or isinstance(core, Dot))
        in_first = isinstance(op, (ps.TrueDiv, *INDEXING_OPS))
        in_first = in_first and len(moving) == 1 and moving[0] is node.inputs[0]
        return (additive or bilinear or in_first) and all(affine(x) for x in moving)

    return affine(variable)


@dataclass(frozen=True)
class ConjugatePair:
    """The dominating pair of posteriors, with r = power times `shift`.

    Parameters
    ----------
    family : {"beta", "gamma", "dirichlet", "cells"}
        Beta(a + r, b) against Beta(a, b + r), or Gamma(a + r) against Gamma(a): of a Gamma
        posterior at any rate, or of the one cell that an added or removed record is counted in.
    shift : Fraction
        How far one record, or one unit, moves a parameter of the posterior at power one.
    shape : tuple of Fraction
        Prior parameters: (a, b) of a Beta prior, the two least of a Dirichlet prior, (a,) of a
        Gamma prior, the least of any cell.
    """

    family: str
    shift: Fraction
    shape: tuple[Fraction, ...]

    def guarantee(self, power: Fraction, draws: int, **words: Any) -> Guarantee:
        """Promise for draws from one posterior at a power of its likelihood.

        *Promise*: the exact curve of the pair, whatever the other records are. Gamma: with a total
        t of the other counts the posteriors are Gamma(a + w (t + y)), of one rate, for n is public;
        adding a Gamma(w (t + min y)) variable to both sides gives them from Gamma(a + k) and
        Gamma(a), k <= r (T10), which Gamma(a + r) and Gamma(a) dominate by the monotonicity lemma
        (T13). Beta: successes and failures of a public total lie at [t, t + k] on a line of length
        w n m >= r; the lemma widens the step to r on that line, T9 takes the other counts away.
        Dirichlet: a replaced record moves w between two cells, which is T9 itself. Cells: an added
        record puts w into one, which is T10.
        """
        r = power * self.shift
        if self.family == "gamma":
            return Guarantee.gamma_of(r, self.shape[0], draws, **words)
        if self.family == "cells":  # a Gamma pair, by the neighbors among the words
            return Guarantee.dirichlet_of(r, self.shape[0], draws=draws, **words)
        least, more = sorted(self.shape)
        return Guarantee.dirichlet_of(r, least, draws=draws, beta=more, **words)

    def guess(self, power: Fraction | float, draws: int, epsilon: float) -> float:
        """A fast estimate of the delta at `epsilon`, which may be on either side of the truth."""
        r, shape = float(power * self.shift), [float(a) for a in sorted(self.shape)]
        relation = ADD_REMOVE if self.family in GAMMA_FAMILIES else SUBSTITUTE
        return estimate_delta(epsilon, r, shape[0], draws, relation, shape[-1])

    @property
    def theorem(self) -> str:
        """By number."""
        return PAIR_THEOREMS[self.family]

    def words(self, power: Fraction) -> str:
        """The pair in words, for a certificate."""
        r, low = (
            format_number(power * self.shift, 6),
            [format_number(a, 6, up=False) for a in self.shape],
        )
        if self.family in GAMMA_FAMILIES:
            return f"Gamma({low[0]} + r) and Gamma({low[0]}), r = {r}; {self.theorem}"
        a, b = low
        return f"Beta({a} + r, {b}) and Beta({a}, {b} + r), r = {r}; {self.theorem}"


def conjugate_pair(private: PrivateModel) -> ConjugatePair | None:
    """The dominating pair of a conjugate model, or None. Reads no data.

    None for other families, trimmed parameters (T9 and T10 are about whole distributions), several
    parameters, neighbors at a distance, and counts without an upper bound. Units of several records
    only where all of them count on one line. Under add/remove only where a record is counted in one
    cell of a table.
    """
    plain = private.metric is None and not private.region and private.theta_l is None
    known = private.neighbors in (SUBSTITUTE, ADD_REMOVE)
    found = recognize_conjugate(private) if plain and known else None
    if found is None:
        return None
    if private.neighbors == ADD_REMOVE:
        return _add_remove_pair(private, found)
    if private.n < private.records_per_unit:
        return None
    if found.family == "dirichlet":
        least = _prior_of_cells(private, found)[:2]
        return ConjugatePair("dirichlet", Fraction(1), least) if len(least) == 2 else None
    if found.family not in ("beta", "gamma") or private.shapes[found.names[0]]:
        return None
    if found.likelihood not in ("bernoulli", "binomial", "poisson"):
        return None
    shift = _width_of_sums(private) * private.records_per_unit
    names = ("a", "b") if found.family == "beta" else ("a",)
    shape = tuple(Fraction(found.prior[name].item()) for name in names)
    return ConjugatePair(found.family, Fraction(shift), shape) if 0 < shift < math.inf else None


def _add_remove_pair(private: PrivateModel, found: ConjugateModel) -> ConjugatePair | None:
    """The pair of one record more in one cell, whatever the number of records."""
    least = _prior_of_cells(private, found)[:1]
    return ConjugatePair("cells", Fraction(1), least) if least else None


def _prior_of_cells(private: PrivateModel, found: ConjugateModel) -> tuple[Fraction, ...]:
    """Prior parameters of the cells, the least first; none unless a record is counted in one."""
    one_hot = found.likelihood == "multinomial" and found.constants["trials"][()] == 1
    coin = found.likelihood == "bernoulli" and not private.sources[0].row_shape
    scalar = not private.shapes[found.names[0]]
    fits = (coin and scalar) or found.likelihood == "categorical" or one_hot
    if not fits or private.records_per_unit != 1:
        return ()
    return tuple(sorted(Fraction(a) for name in found.prior for a in np.ravel(found.prior[name])))


def _width_of_sums(private: PrivateModel) -> Fraction | float:
    """How far the sum of one record's entries may lie from another's; whole, or infinite."""
    source = private.sources[0]
    bounds = source.domain.bounds(source.row_shape)
    if not bounds.is_finite:
        return math.inf
    widths = np.broadcast_to(np.subtract(bounds.upper, bounds.lower), source.row_shape)
    return sum((Fraction(math.ceil(width)) for width in np.ravel(widths)), Fraction(0))
