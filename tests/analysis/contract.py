"""The contract of scalar rules: what every rule must do, with the boxes and points it is tried on.

The cases come from the registry of rules itself. A real function is compared with its Arb value, an
exact one with the Op's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from flint import arb, ctx
from pymc.distributions import dist_math
from pytensor.tensor.elemwise import Elemwise

from pymc_private.analysis import Bounds, propagate_bounds
from pymc_private.analysis.intervals import bound_scalar_op, logic, ops, ops_with_rules
from pymc_private.analysis.traversal import evaluate_node
from tests.analysis import gaps
from tests.analysis.truth import BITS, TRUE, is_above, is_below, power, product

REAL: dict[type, Callable[..., arb]] = {
    ps.Add: lambda *x: sum(x, arb(0)),
    ps.ArcSinh: TRUE["arcsinh"],
    ps.ArcTan: TRUE["arctan"],
    ps.ArcTanh: TRUE["arctanh"],
    ps.Cos: TRUE["cos"],
    ps.Cosh: TRUE["cosh"],
    ps.Exp: TRUE["exp"],
    ps.Expm1: TRUE["expm1"],
    ps.Log: TRUE["log"],
    ps.Log10: TRUE["log10"],
    ps.Log1p: TRUE["log1p"],
    ps.Log2: TRUE["log2"],
    ps.Mul: product,
    ps.Pow: power,
    ps.Reciprocal: lambda x: 1 / x,
    ps.Sin: arb.sin,
    ps.Sinh: TRUE["sinh"],
    ps.Sqr: lambda x: x * x,
    ps.Sqrt: TRUE["sqrt"],
    ps.Sub: lambda x, y: x - y,
    ps.Tanh: TRUE["tanh"],
    ps.TrueDiv: lambda x, y: x / y,
    psm.BetaInc: TRUE["betainc"],
    psm.Erf: TRUE["erf"],
    psm.Erfc: TRUE["erfc"],
    psm.Erfcx: TRUE["erfcx"],
    psm.Erfinv: TRUE["erfinv"],
    psm.Gamma: TRUE["gamma"],
    psm.GammaInc: TRUE["gammainc"],
    psm.GammaIncC: TRUE["gammaincc"],
    psm.GammaLn: TRUE["gammaln"],
    psm.I0: TRUE["i0"],
    psm.I1: TRUE["i1"],
    dist_math.I0e: TRUE["i0e"],
    psm.Log1mexp: TRUE["log1mexp"],
    psm.Psi: TRUE["psi"],
    psm.Sigmoid: TRUE["sigmoid"],
    psm.Softplus: TRUE["softplus"],
    psm.TriGamma: TRUE["trigamma"],
}
REAL |= gaps.REAL
COMPOSITES = {k: v.scalar_op for k, v in vars(ops).items() if isinstance(v, Elemwise)}
MODULES = (ps, psm, dist_math, logic, ops, COMPOSITES)
LOGIC = (ps.AND, ps.OR, ps.Invert)
EXACT = (
    ops.EqualForms,
    ps.Abs,
    ps.Cast,
    ps.Ceil,
    ps.Clip,
    ps.EQ,
    ps.Floor,
    ps.GE,
    ps.GT,
    ps.Identity,
    ps.IsInf,
)
EXACT += (ps.IsNan, ps.LE, ps.LT, ps.NEQ, ps.Neg, ps.RoundHalfToEven, ps.ScalarMaximum)
EXACT += (ps.ScalarMinimum, ps.Second, ps.Sign, ps.Switch, logic.Clamp, *LOGIC)

POSITIVE = (ps.Log, ps.Log2, ps.Log10, ps.Sqrt, psm.GammaInc, psm.GammaIncC, psm.GammaLn, psm.Psi)
POSITIVE += (psm.Gamma,)
POSITIVE += (psm.TriGamma, ps.Pow)
POSITIVE += (psm.BetaInc,)
UNIT = (ps.ArcTanh, psm.Erfinv)


@dataclass(frozen=True)
class Case:
    """One scalar Op on inputs of one data type."""

    scalar: ps.ScalarOp
    dtype: str
    count: int

    def __str__(self) -> str:
        return f"{self.scalar}-{self.dtype}-{self.count}"

    @property
    def kind(self) -> type:
        return type(self.scalar)

    def node(self):
        inputs = [pt.matrix(dtype=self.dtype) for _ in range(self.count)]
        return Elemwise(self.scalar)(*inputs).owner


def scalar_cases() -> list[Case]:
    """A case for each ruled scalar Op, of each arity; and on small integers where it takes them."""
    cases = []
    for kind in ops_with_rules()[1][1:]:
        found = {
            str(v): v
            for m in MODULES
            for v in (m if isinstance(m, dict) else vars(m)).values()
            if type(v) is kind
        }
        for scalar in found.values():
            if "complex" in str(scalar):
                continue
            counts = (2, 3) if scalar.nin == -1 else (scalar.nin,)
            first = "bool" if kind in LOGIC else "float64"
            cases += [Case(scalar, first, count) for count in counts]
            if kind is ops.EqualForms:
                continue
            cases += [Case(scalar, d, counts[0]) for d in ("int8", "uint8", "bool") if d != first]
    return [case for case in cases if _takes(case)]


def _takes(case: Case) -> bool:
    try:
        node = case.node()
        evaluate_node(node, [np.ones((1, 1), case.dtype)] * case.count)
    except (TypeError, NotImplementedError):
        return case.dtype == "float64"  # a ruled Op that cannot even be built must not pass unseen
    return True


LANDMARKS = np.array([0, 1, -1, 2, 0.5, 1.4616321449683623, np.pi / 2, np.pi, -np.pi, 8, 26, 700])


def float_boxes(rng: np.random.Generator, case: Case, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points, boxes that touch or hold zero, near landmarks, huge, with infinite ends, and top."""
    sizes = 10.0 ** (rng.choice([1, 1, 1, 4, 100], (2, n)) * rng.uniform(-1, 1.2, (2, n)))
    a, b = sizes * rng.choice([-1, 1], (2, n))
    near = rng.choice(LANDMARKS, n)
    kind = rng.integers(0, 10, n)
    b = np.where(kind == 0, a, b)
    a = np.where(kind == 1, 0.0, a)
    a, b = (
        np.where(kind == 2, near, a),
        np.where(kind == 2, near + 10.0 ** rng.uniform(-16, 1, n), b),
    )
    a = np.where(kind == 3, near, a)
    b = np.where(kind == 4, a * (1 + 10.0 ** rng.uniform(-16, 0, n)), b)
    b = np.where(kind == 5, np.inf * rng.choice([-1, 1], n), b)
    usual = (rng.random(n) < 0.9) | (case.kind is psm.TriGamma)  # SciPy hangs on negative ones
    if case.kind in POSITIVE:
        a, b = np.where(usual, abs(a), a), np.where(usual, abs(b), b)
    if case.kind in (psm.GammaInc, psm.GammaIncC):  # Arb's answers are slow from here to 2e4
        a, b = (np.where((end > 300) & (end < 3e4), 300, end) for end in (a, b))
    if case.kind in UNIT:
        a, b = np.where(usual, np.tanh(a), a), np.where(usual, np.tanh(b), b)
    if case.kind is psm.Log1mexp:
        a, b = np.where(usual, -abs(a), a), np.where(usual, -abs(b), b)
    if case.kind is ps.Cast:
        a, b = (np.clip(end, *_range_of(case.scalar)) for end in (a, b))
    top = (rng.random(n) < 0.03) & (case.kind is not ps.Cast)
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.where(top, np.nan, low)[:, None], np.where(top, np.nan, high)[:, None]


def _range_of(cast: ps.Cast) -> tuple[float, float]:
    """What a cast may be asked for: the Op itself refuses integers beyond their type."""
    dtype = np.dtype(cast.o_type.dtype)
    if dtype.kind not in "iu":
        return (-1e300, 1e300)
    return max(float(np.iinfo(dtype).min), -(2.0**54)), min(float(np.iinfo(dtype).max), 2.0**54)


def float_points(rng: np.random.Generator, low: np.ndarray, high: np.ndarray, k: int) -> np.ndarray:
    """Ends, zero, middles, points at all distances from the ends; NaN too in the top element."""
    first = np.where(np.isnan(low), -1e3, np.maximum(low, -1e300))
    last = np.where(np.isnan(high), 1e3, np.minimum(high, 1e300))
    t = rng.choice([0.0, 1.0, 0.5, np.nan], (len(low), k), p=[0.2, 0.2, 0.1, 0.5])
    t = np.where(np.isnan(t), rng.random(t.shape) ** rng.choice([1, 8, 40], t.shape), t)
    t = np.where(rng.random(t.shape) < 0.5, t, 1 - t)
    points = np.clip(first + t * (last - first), first, last)
    points = np.where((rng.random(t.shape) < 0.1) & (first <= 0) & (last >= 0), 0.0, points)
    return np.where(np.isnan(low) & (rng.random(t.shape) < 0.3), np.nan, points)


def whole_boxes(rng: np.random.Generator, case: Case, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of small integers, as doubles."""
    info = (0, 1) if case.dtype == "bool" else (np.iinfo(case.dtype).min, np.iinfo(case.dtype).max)
    ends = rng.integers(info[0], info[1], (2, n), endpoint=True)
    small = rng.integers(max(info[0], -4), min(info[1], 4), (2, n), endpoint=True)
    ends = np.where(rng.random(n) < 0.6, small, ends).astype(float)
    if case.kind is ps.Pow:
        ends = abs(ends) % 8
    if case.kind is ps.Cast:
        ends = np.clip(ends, *_range_of(case.scalar))
    return ends.min(axis=0)[:, None], ends.max(axis=0)[:, None]


def whole_points(rng: np.random.Generator, low: np.ndarray, high: np.ndarray, k: int) -> np.ndarray:
    return rng.integers(low.astype(int), high.astype(int), (len(low), k), endpoint=True)


@dataclass
class Tally:
    """Trials, values outside their interval, and how many intervals said something."""

    trials: int
    escapes: list
    informed: float


def boxes_of(case: Case, rng: np.random.Generator, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    make = float_boxes if case.dtype == "float64" else whole_boxes
    boxes = [make(rng, case, n) for _ in range(case.count)]
    if case.kind is ops.EqualForms:  # two intervals of one value
        (low, high), more = boxes[0], rng.integers(0, 3, (4, n, 1))
        return [(low - more[k], high + more[k + 1]) for k in (0, 2)]
    if case.dtype != "float64":
        return boxes
    return [gaps.fit(case.kind, place, *box) for place, box in enumerate(boxes)]


def points_of(case: Case, rng: np.random.Generator, boxes: list, k: int) -> list[np.ndarray]:
    """Points in each box; one and the same where both boxes are of one value."""
    pick = float_points if case.dtype == "float64" else whole_points
    if case.kind is ops.EqualForms:
        low, high = np.fmax(boxes[0][0], boxes[1][0]), np.fmin(boxes[0][1], boxes[1][1])
        return [pick(rng, low, high, k)] * 2
    return [pick(rng, low, high, k).astype(case.dtype) for low, high in boxes]


def enclose(node, boxes: list[tuple[np.ndarray, np.ndarray]]) -> Bounds:
    """The rule's answer, by the walk that the certifier itself uses."""
    given = {v: Bounds(*box) for v, box in zip(node.inputs, boxes, strict=True)}
    return propagate_bounds(node.outputs, given)[node.outputs[0]]


def attempt(case: Case, seed: int, n: int, k: int) -> Tally:
    """n boxes with k points each."""
    rng = np.random.default_rng(seed)
    node, boxes = case.node(), boxes_of(case, rng, n)
    points = points_of(case, rng, boxes, k)
    fact = enclose(node, boxes)
    with np.errstate(all="ignore"):
        values = evaluate_node(node, points)[0]
    lower, upper = (np.broadcast_to(end, (n, 1)) for end in (fact.lower, fact.upper))
    escapes, before = [], ctx.prec
    ctx.prec = BITS
    for i in range(n):
        for j in range(k):
            point = tuple(float(p[i, j]) for p in points)
            if not _holds(case, lower[i, 0], upper[i, 0], values[i, j], point):
                escapes.append(([tuple(float(e[i, 0]) for e in box) for box in boxes], point))
    ctx.prec = before
    return Tally(n * k, escapes, float(np.mean(~np.isnan(lower.astype(float)))))


def _holds(case: Case, low: float, high: float, value: float, point: tuple[float, ...]) -> bool:
    """Whether a value lies in its interval; NaN only lies in the top element."""
    if np.isnan(low) and np.isnan(high):
        return True
    if np.isnan(low) or np.isnan(high):
        return False
    if case.kind in REAL and np.isfinite(point).all() and np.asarray(value).dtype.kind == "f":
        real = _real_value(case.kind, point)
        if real.is_finite():
            return is_below(low, real) and is_above(high, real)
    slack = 0.0 if case.kind in EXACT or not np.isfinite(value) else 1e-9 * abs(float(value))
    return bool(low <= value + slack and value - slack <= high)


@lru_cache(maxsize=1 << 16)
def _real_value(kind: type, point: tuple[float, ...]) -> arb:
    """Thousands of bits take a while: small integers recur, and so do the points of a fault."""
    return REAL[kind](*map(arb, point))


@contextmanager
def planted(kind: type, rule: Callable[..., Bounds]) -> Iterator[None]:
    """Replace a rule for a while."""
    original = bound_scalar_op.registry[kind]
    bound_scalar_op.register(kind, rule)
    try:
        yield
    finally:
        bound_scalar_op.register(kind, original)
