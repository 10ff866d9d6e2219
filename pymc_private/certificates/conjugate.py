"""Bayesian linear regression with known variance: recognized in the graph of the mean.

The mean is affine in the parameters if the graph says so, node by node; then its coefficients are
its values at unit vectors. Covariates may be private, public or constants.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
from collections.abc import Collection
from dataclasses import dataclass
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pymc_private.analysis.intervals.arrays import TAKE
from pymc_private.analysis.intervals.arrays__shape import MOVERS
from pymc_private.analysis.record_dependence import Concrete
from pymc_private.certificates.conjugate_families import Conjugate
from pymc_private.certificates.conjugate_families__patterns import Numbers, arguments_of, fractions_of
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.models.distributions__laws import kind_of
from pymc_private.privacy.rounding__power import float_down
from pymc_private.models.private_model import PrivateModel

ADDITIVE = (ps.Add, ps.Sub, ps.Neg, ps.Identity, ps.Second)


@dataclass(frozen=True, eq=False)
class LinearRegression(Conjugate):
    """y ~ Normal(A theta + b, sigma), theta normal with independent entries (floats).

    Parameters
    ----------
    mean : Variable
        A theta + b, of the free variables and the data.
    free : tuple of Variable
    """

    mean: Variable
    free: tuple[Variable, ...]

    def posterior(self, private: PrivateModel) -> dict[str, Numbers]:
        """Mean and precision of the normal posterior. Reads the data.

        Precision P = D + w A'A / sigma^2, mean P^-1 (D m + w A'(y - b) / sigma^2), D the prior's.
        """
        y, (rows, offset) = _outcome(private), self._design(private)
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
            value = np.asarray(Concrete({**data, **given})(self.mean), float)
            columns.append(np.broadcast_to(value, (private.n,)))
        offset = columns[0]
        return np.stack([c - offset for c in columns[1:]], axis=1), offset


def linear_regression(private: PrivateModel) -> LinearRegression | None:
    """Recognize the model, or None. Reads no data."""
    model, graph = private.base, private.graph
    plain = graph.clip is None and private.theta_l is None and not graph.windows
    if not plain or model.potentials or len(model.observed_RVs) != 1 or len(graph.factors) != 1:
        return None
    rv = model.observed_RVs[0]
    free = tuple(model.free_RVs)
    if kind_of(rv) != "normal" or not free or any(kind_of(v) != "normal" for v in free):
        return None
    outcome = model.rvs_to_values[rv]
    if not any(s.variable is outcome and s.row_shape == () for s in private.sources):
        return None
    mean, sigma = rv.owner.op.dist_params(rv.owner)
    known = fractions_of(sigma)
    if known is None or known.size != 1 or not np.ravel(known)[0] > 0:
        return None
    prior = _prior(private, free)
    if prior is None or set(ancestors([mean])).isdisjoint(free) or not _is_affine(mean, free):
        return None
    names = tuple(v.name for v in free)
    constants = {"sigma": np.array(np.ravel(known)[0], dtype=object)}
    return LinearRegression(
        "linear", "normal", names, prior, constants, lambda *arguments: {}, mean, free
    )


def _outcome(private: PrivateModel) -> np.ndarray:
    outcome = private.base.rvs_to_values[private.base.observed_RVs[0]]
    (source,) = (s for s in private.sources if s.variable is outcome)
    return np.asarray(source.values(), float)


def _prior(private: PrivateModel, free: tuple[Variable, ...]) -> dict[str, np.ndarray] | None:
    """Means and standard deviations of all entries, or None if they are no numbers."""
    found: dict[str, list[np.ndarray]] = {"mean": [], "sd": []}
    for variable in free:
        center, scale = (fractions_of(a) for a in arguments_of(variable))
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
        one = len(moving) == 1
        if isinstance(op, ps.TrueDiv):
            one = one and moving[0] is node.inputs[0]
        allowed = isinstance(op, ADDITIVE) or (isinstance(op, ps.Mul | ps.TrueDiv) and one)
        allowed = allowed or isinstance(op, (DimShuffle, Sum, *MOVERS))
        allowed = allowed or (isinstance(core, Dot) and one)
        allowed = allowed or (isinstance(op, tuple(TAKE)) and one and moving[0] is node.inputs[0])
        return allowed and all(affine(x) for x in moving)

    return affine(variable)
