"""One small graph or more for every Op with a rule that is not elementwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import SplineWrapper
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor import subtensor
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.math import Min
from pytensor.tensor.shape import Shape_i, SpecifyShape
from scipy.interpolate import InterpolatedUnivariateSpline

from pymc_private.analysis.intervals.ops import on_simplex

try:
    from pytensor.tensor.linalg import cholesky, inv, solve_triangular
except ImportError:  # PyTensor 2
    from pytensor.tensor.nlinalg import inv
    from pytensor.tensor.slinalg import cholesky, solve_triangular

X, Y = pt.matrix("X"), pt.matrix("Y")  # (3, 4) and (4, 2)
T = pt.tensor3("T")  # (2, 3, 3)
x, y, s = pt.vector("x"), pt.vector("y"), pt.scalar("s")  # 4 numbers, 4 numbers, one
b = pt.vector("b", dtype="bool")  # 4
i8 = pt.vector("i8", dtype="int8")  # 4
known, index = pt.constant(np.array([2, 0, 2])), pt.vector("index", dtype="int64")  # 3, in 0..2
Z = pt.matrix("Z")  # (3, 3), positive

SHAPES = {X: (3, 4), Y: (4, 2), T: (2, 3, 3), x: (4,), y: (4,), s: (), b: (4,), i8: (4,)}
SHAPES |= {index: (3,), Z: (3, 3)}
RANGES = dict.fromkeys(SHAPES, (-3.0, 3.0)) | {
    b: (0, 1),
    i8: (-128, 127),
    index: (0, 2),
    Z: (0.5, 2.0),
}


def boxes_for(graph: Variable, rng: np.random.Generator) -> dict[Variable, tuple]:
    """A random box for every input of a graph; whole ends for integers."""
    boxes = {}
    for variable in ancestors([graph]):
        if variable not in SHAPES:
            continue
        low, high = RANGES[variable]
        shape, whole = SHAPES[variable], not variable.type.dtype.startswith("float")
        draw = rng.integers if whole else rng.uniform
        a, c = draw(low, high + whole, (2, *shape)) if whole else draw(low, high, (2, *shape))
        kind = rng.integers(0, 4, shape)
        c = np.where(kind == 0, a, c)
        a = np.where((kind == 1) & (low <= 0), 0, a)
        boxes[variable] = (np.minimum(a, c).astype(float), np.maximum(a, c).astype(float))
    return boxes


@dataclass(frozen=True)
class Structure:
    """A graph and the name it goes by."""

    name: str
    build: Callable[[], list[Variable]]

    def __str__(self) -> str:
        return self.name


def solve(a: Variable, c: Variable, lower: bool, unit: bool = False) -> Variable:
    return solve_triangular(a, c, lower=lower, unit_diagonal=unit)


def old(name: str, *arguments: Variable) -> Variable:
    """The Ops of one index vector, which PyTensor 2 has besides the general ones."""
    kind = getattr(subtensor, f"Advanced{name}1", None) or getattr(subtensor, f"Advanced{name}")
    if kind.__name__.endswith("1"):
        return kind()(*arguments, known)
    first, *rest = arguments
    return pt.inc_subtensor(first[known], *rest) if rest else first[known]


CUTS = pt.constant(np.array([-4.0, 0.0, 3.5]))
U = pt.sigmoid(s)
BROKEN_LINE = InterpolatedUnivariateSpline(np.linspace(-3, 3, 9), [0, 4, 1, 1, 5, 2, 9, 0, 3], k=1)
STAIRS = BROKEN_LINE.derivative()


def categories(p: Variable) -> Variable:
    """Differences of (0, p, 1) along the last axis."""
    ends = p[..., :1]
    steps = pt.concatenate([pt.zeros_like(ends), p, pt.ones_like(ends)], axis=-1)
    return steps[..., 1:] - steps[..., :-1]


def guarded(value: Variable, condition: Variable) -> Variable:
    return CheckAndRaise(ValueError, "a condition")(value, condition)


ONE = [
    Structure("DimShuffle", lambda: [X.T, X[None], X.dimshuffle("x", 1, "x", 0), x[:, None]]),
    Structure(
        "Reshape", lambda: [X.reshape((4, 3)), X.reshape((-1,)), X.reshape((X.shape[1], -1))]
    ),
    Structure("Subtensor", lambda: [X[1], X[:, 1:3], X[-1, ::-2], x[0], x[1:], x[:-1], i8[2:]]),
    Structure("AdvancedSubtensor", lambda: [X[known], X[:, known], X[known, known], x[index]]),
    Structure("AdvancedSubtensor of unknown rows", lambda: [X[index], Z[index, 1], X[:, index]]),
    Structure("AdvancedSubtensor of a mask", lambda: [x[pt.constant([True, False, True, True])]]),
    Structure("AdvancedSubtensor of pairs", lambda: [Z[index, index], X[known[:, None], known]]),
    Structure("IncSubtensor", lambda: [pt.set_subtensor(x[1:3], y[:2]), pt.inc_subtensor(X[0], x)]),
    Structure(
        "AdvancedIncSubtensor",
        lambda: [
            pt.inc_subtensor(x[known], s),
            pt.inc_subtensor(x[known], y[:3]),
            pt.set_subtensor(X[known], 2.0 * X),
            pt.inc_subtensor(X[:, known], 1.0),
        ],
    ),
    Structure(
        "AdvancedIncSubtensor at unknown rows", lambda: [pt.set_subtensor(X[index], 2.0 * X)]
    ),
    Structure("one index vector", lambda: [old("Subtensor", x), old("IncSubtensor", x, y[:3])]),
    Structure("Sum", lambda: [X.sum(), X.sum(axis=0), X.sum(axis=(0, 1)), i8.sum(), b.sum()]),
    Structure("Prod", lambda: [X.prod(), X.prod(axis=1), i8[:2].prod()]),
    Structure("Max", lambda: [X.max(), X.max(axis=0), i8.max(), (i8 + i8).max()]),
    Structure("Min", lambda: [Min((0, 1))(X), Min((1,))(X), Min((0,))(i8)]),
    Structure("All", lambda: [pt.all(b), pt.all(X > 0, axis=0)]),
    Structure("Any", lambda: [pt.any(b), pt.any(X > 2.5)]),
    Structure("CumOp", lambda: [pt.cumsum(X, axis=0), pt.cumsum(x), pt.cumprod(X, axis=1)]),
    Structure("Dot", lambda: [X @ Y, X @ x, x @ y, x @ Y, pt.dot(X, Y), pt.dot(i8, i8)]),
    Structure("Blockwise", lambda: [T @ T, solve(Z, X[:, :3].T, lower=True)]),
    Structure("SolveTriangular", lambda: [solve(Z, x[:3], lower=low) for low in (True, False)]),
    Structure("SolveTriangular of many", lambda: [solve(Z, X, True), solve(T + 4, x[:3], True)]),
    Structure("SolveTriangular, unit", lambda: [solve(Z, x[:3], lower=True, unit=True)]),
    Structure(
        "Cholesky", lambda: [cholesky(Z + Z.T + 12 * pt.eye(3), lower=low) for low in (True, False)]
    ),
    Structure("MatrixInverse", lambda: [inv(Z + 8 * pt.eye(3)), inv(Z * s + 20 * pt.eye(3))]),
    Structure(
        "CheckAndRaise", lambda: [guarded(x, pt.constant(True)), guarded(x * 2, pt.all(Z > 0))]
    ),
    Structure(
        "Alloc", lambda: [pt.alloc(s, 2, 3), pt.zeros_like(X) + s, pt.alloc(x, X.shape[0], 4)]
    ),
    Structure("ExtractDiag", lambda: [pt.diagonal(Z), pt.diagonal(Z, 1), pt.diagonal(T, 0, 1, 2)]),
    Structure(
        "Join", lambda: [pt.concatenate([x, y]), pt.concatenate([X, Z], 1), pt.join(0, i8, i8 * 1)]
    ),
    Structure(
        "Join of types", lambda: [pt.join(0, i8, x), pt.join(0, b, i8), pt.join(0, i8, i8 + i8)]
    ),
    Structure("MakeVector", lambda: [pt.stack([s, x[0], s * 2]), pt.stack([i8[0], i8[1]])]),
    Structure("Repeat", lambda: [pt.repeat(x, pt.constant([1, 0, 2, 1])), pt.repeat(X, 2, axis=1)]),
    Structure("ScalarFromTensor", lambda: [TensorFromScalar()(ScalarFromTensor()(s))]),
    Structure(
        "Split",
        lambda: [*pt.split(x, [1, 3], n_splits=2), *pt.split(X, [2, 2], n_splits=2, axis=1)],
    ),
    Structure("SpecifyShape", lambda: [SpecifyShape()(x, 4) * 2, SpecifyShape()(X, 3, None)]),
    Structure("Shape", lambda: [X.shape, X.shape[0] * 2.0, X.T.shape, Shape_i(1)(X), x.size]),
    Structure(
        "ARange", lambda: [pt.arange(4), pt.arange(x.shape[0] - 1), pt.arange(1, X.shape[1] * 2)]
    ),
    Structure("Eye", lambda: [pt.eye(X.shape[0]), pt.eye(X.shape[0] + 1, X.shape[1], k=1) * s]),
    Structure("Softmax", lambda: [pt.special.softmax(X, axis=k) for k in (0, 1, -1)]),
    Structure("LogSoftmax", lambda: [pt.special.log_softmax(X, axis=k) for k in (0, 1)]),
    Structure(
        "LogSumExp", lambda: [pt.logsumexp(X, axis=1), pt.logsumexp(X), pt.logsumexp(X, 0, True)]
    ),
    Structure("OnSimplex", lambda: [on_simplex(pt.special.softmax(X, axis=1)) * 2.0]),
    Structure(
        "ordered categories",
        lambda: [
            categories(pt.sigmoid(CUTS - v)) for v in (s, x[:, None], (X[:, 0] - x[0])[:, None])
        ],
    ),
    Structure(
        "ordered categories of free cutpoints",
        lambda: [categories(pt.sigmoid(CUTS + pt.sigmoid(x[:3]) - s)).sum()],
    ),
    Structure(
        "complements",
        lambda: [pt.stack([s, x[0], 1 - s - x[0]]), pt.stack([x, 1 - x], axis=-1).sum(axis=1)],
    ),
    Structure(
        "power steps",
        lambda: [pt.log(q ** (k**p) - q ** ((k + 1) ** p)) for q, k, p in [(U, 3.0 * U, 1 + U)]],
    ),
    Structure("SplineWrapper", lambda: [SplineWrapper(BROKEN_LINE)(v) for v in (x, X[0] / 3)]),
    Structure("SplineWrapper of steps", lambda: [SplineWrapper(STAIRS)(v) for v in (x, X / 3)]),
    Structure("Second", lambda: [pt.second(x, s), pt.second(X, x)]),
    Structure("index arithmetic", lambda: [x[pt.arange(x.shape[0] - 1) + 1], X[index // 1, index]]),
    Structure("index beyond the array", lambda: [x[index + 1], x[index - 1], x[index * 2]]),
]
