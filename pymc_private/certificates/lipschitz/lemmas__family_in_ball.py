"""Lemma 23: normal rows in a ball, their precision a multiple of an exponential parameter.

In the ball's own units let the precision of every entry be 2 k t and the mean be m. For rows
|z| <= r and one of them replaced, with h = |m|,

    ell = t k ((h + r)^2 - max(h - r, 0)^2),

which rises with h. Lemma 23 as printed needs a bound of |m| that holds all over the prior; with it
the tail of ell is no heavier than that of a multiple of t. Theory, section 1.1.
"""

from __future__ import annotations

import math
import numpy as np
import pytensor.tensor as pt
from dataclasses import dataclass, replace
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Interval as Bounds, bounds
from pymc_private.analysis.rewrites.specialize import specialize
from pymc_private.certificates.ball_range__quadratic import InBall, factors, norm, whole_in_ball
from pymc_private.models.domains__ball import Ball
from pymc_private.models.distributions__laws import law_name
from pymc_private.certificates.lipschitz.lemmas__family import Family, HAIR, monomial, monomials
from pymc_private.certificates.lipschitz.variation import joint_value
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood__single_record import SingleRecord, single_record
from pymc_private.models.data_variables import constant_value

NORMAL = {"NormalRV", "MvNormalRV"}


@dataclass(frozen=True)
class _Rows:
    """What the lemma is about.

    Parameters
    ----------
    name : str
        The exponential parameter t.
    mean : float
        Its prior mean.
    low, high : float
        Its ends.
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
        return self.factor * ((self.far + self.radius) ** 2 - near**2) * (1.0 + HAIR)


def normal_in_ball(private: PrivateModel) -> Family | None:
    """Find the constants of Lemma 23; None if the model is none of its.

    Parameters
    ----------
    private : PrivateModel
        One record replaced, a box of parameters, each row read by itself. Reads no data.
    """
    rows = _rows(private)
    if rows is None or not (rows.low >= 0.0 and math.isfinite(rows.slope) and rows.mean > 0.0):
        return None
    slope = rows.slope
    return Family(
        lemma="Lemma 23",
        formula=f"at most {rows.name} times what squares in the ball differ by",
        L0=rows.low * slope * (1.0 + HAIR),
        c=(1.0 - HAIR) / (rows.mean * slope),
        log_constant=_log_constant(private, rows),
        ell=lambda points: slope * points[rows.name],
        is_exact=False,
    )


def _rows(private: PrivateModel) -> _Rows | None:
    """Read t, k and the mean off the record's graph."""
    domains = [source.domain for source in private.sources]
    if private.base.potentials or len(domains) != 1 or not isinstance(domains[0], Ball):
        return None
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None or record.public:
        return None
    rows = {record.data[s.name]: s.domain.bounds(s.row_shape) for s in private.sources}
    whole = whole_in_ball(joint_value(private, record), rows)
    if whole is None or whole.square.type.ndim:
        return None
    box = {record.parameters[name]: b for name, b in private.box.items()}
    whole = replace(whole, square=specialize(whole.square, box), slope=specialize(whole.slope, box))
    for rv in private.base.free_RVs:
        name = rv.name
        found = monomial(whole.square, record.parameters[name])
        if found is not None and found[1] == 1.0 and found[0] < 0.0 and _is_apart(private, rv):
            return _read(private, record, whole, name, -found[0])
    return None


def _is_apart(private: PrivateModel, rv: Variable) -> bool:
    """Whether a scalar has a plain exponential prior that no other prior reads."""
    if law_name(rv) != "ExponentialRV" or private.shapes[rv.name] != ():
        return False
    others = [other for other in private.base.free_RVs if other is not rv]
    return rv not in set(ancestors(others))


def _read(
    private: PrivateModel, record: SingleRecord, whole: InBall, name: str, factor: float
) -> _Rows | None:
    """The other constants, given t and k."""
    t = record.parameters[name]
    (rv,) = (v for v in private.base.free_RVs if v.name == name)
    (mean,) = (constant_value(v) for v in rv.owner.op.dist_params(rv.owner))
    far = _farthest(private, record, whole, t, factor)
    if mean is None or far is None:
        return None
    box = private.box[name]
    ends = float(box.lower), float(box.upper)
    return _Rows(name, mean, *ends, factor, far, whole.radius, whole.size)


def _farthest(
    private: PrivateModel, record: SingleRecord, whole: InBall, t: Variable, factor: float
) -> float | None:
    """The greatest |m| = |b| / (2 k t) over the box, rounded up, where t cancels."""
    numbers, vectors = factors(whole.slope)
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
    length = pt.as_tensor(norm(pt.mul(pt.constant(1.0), *rest), whole.size))
    read = set(ancestors([length]))
    given = {record.parameters[k]: b for k, b in private.box.items()}
    fact: Bounds = bounds([length], {v: b for v, b in given.items() if v in read})[length]
    far = float(fact.upper) / (2.0 * factor) * (1.0 + HAIR)
    return far if math.isfinite(far) else None


def _log_constant(private: PrivateModel, rows: _Rows) -> float:
    """n log C, C = max((c2 / c1)^(d/2) e^(k c1 D^2), e^(k c2 D^2)), D = h + r; inf if unknown.

    log p = (d / 2) log t - k t D^2 is concave in t, so it is least at an end.
    """
    alone = len(private.graph.factors) == 1  # one factor t^(1/2) for each entry
    normal = {law_name(rv) for rv in private.base.observed_RVs} <= NORMAL
    if not (alone and normal and rows.low > 0.0 and math.isfinite(rows.high)):
        return math.inf
    square = rows.factor * (rows.far + rows.radius) ** 2
    wide = rows.size / 2.0 * math.log(rows.high / rows.low) + square * rows.low
    return private.n * max(wide, square * rows.high) * (1.0 + HAIR)
