"""Reference distributions: what is known without the data, and how to draw from it.

`as_reference` reads what users may give: probabilities, SciPy distributions (quantiles known),
a public `Box`, a PyMC model (its prior), variable or prior predictive, or any object with a
log density and a sampler (scikit-learn's, `gaussian_kde`, one's own).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pymc as pm
import pytensor
import scipy
from pymc.logprob.basic import conditional_logp
from pytensor.graph.replace import vectorize_graph
from scipy import special

from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.fingerprint import graph_text
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy.argument_kinds import DOUBLES
from pymc_private.privacy.validation import check_count, refuse_mask

TAIL_LOGIT = 27.0
"""Cells end at quantiles 1 / (1 + e^27) from either side: 2e-12 of the reference."""
CELLS_PER_AXIS = {1: 2**16, 2: 400, 3: 64}
"""Cells along each axis by dimension, up to one or two."""
DEFAULT_POOL_SIZE = 2**17
"""Public draws that stand for a reference without quantiles, or of many dimensions."""


class Reference(Protocol):
    """A public distribution on vectors.

    Attributes
    ----------
    shapes : dict of str to tuple of int
        The variables that a draw holds.
    text : str
        A description of the distribution, which is stored in releases.
    """

    shapes: dict[str, tuple[int, ...]]
    text: str

    @property
    def dimension(self) -> int:
        """Numbers in one draw."""

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows, shape (n, d) to (n,)."""

    def pool(self, count: int) -> np.ndarray:
        """Public independent draws, shape (count, d), which depend on no data."""


class FiniteReference:
    """Probabilities of finitely many categories.

    Parameters
    ----------
    mass : array, shape (d,)
        Not negative; normalized here.
    labels : sequence, optional
        Names or numbers of the categories. Numbers are released as they are, names as positions.
    """

    shapes: dict[str, tuple[int, ...]]

    def __init__(self, mass: Any, labels: Sequence[Any] | None = None) -> None:
        self.mass = normalized_probabilities(mass, "the reference")
        self.labels: Sequence[Any] = range(len(self.mass)) if labels is None else list(labels)
        if not len(self.labels) == len(self.mass) == len(_distinct_labels(self.labels)):
            raise DomainError(
                "every category has one label of its own",
                got=f"{len(self.labels)} labels of {len(self.mass)} categories",
                allowed="as many different labels as probabilities",
            )
        self.numbers = _numeric_labels(self.labels)
        self.shapes = {"category" if self.numbers is None else "x": ()}
        self.text = f"probabilities of {len(self.mass)} categories"
        label_range = (
            [0, len(self.mass) - 1] if self.numbers is None else _label_range(self.numbers)
        )
        self.ranges = dict.fromkeys(self.shapes, label_range)

    @property
    def dimension(self) -> int:
        """One category."""
        return 1

    @property
    def fingerprint(self) -> str:
        """Tell two references apart: SHA-256 of labels and probabilities, hex."""
        labels = repr(self.labels).encode()
        return hashlib.sha256(labels + b"|" + self.mass.tobytes()).hexdigest()

    def positions(self, values: Sequence[Any] | np.ndarray) -> np.ndarray:
        """The positions of values among the labels; refuses a value that is none of them."""
        known = {label: i for i, label in enumerate(self.labels)}
        plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
        try:
            return np.array([known[value] for value in plain], dtype=np.int64)
        except (KeyError, TypeError):
            raise DomainError(
                "the reference has no such category",
                allowed=f"one of its {len(self.labels)} labels",
                do="add the category to the reference, or one for all others",
            ) from None


class QuantileReference:
    """Independent coordinates with known quantiles, or an affine image of them.

    Parameters
    ----------
    marginals : sequence
        Continuous SciPy distributions, frozen or of SciPy's new interface.
    shift, matrix : array, optional
        x = shift + matrix z, z with these coordinates. The matrix is lower triangular.
    """

    def __init__(
        self,
        marginals: Sequence[Any],
        shift: np.ndarray | None = None,
        matrix: np.ndarray | None = None,
        text: str = "",
    ) -> None:
        self.marginals = tuple(marginals)
        self.shapes: dict[str, tuple[int, ...]]
        self.shift, self.matrix = shift, matrix
        d = len(self.marginals)
        self.shapes = {"x": () if d == 1 else (d,)}
        self.text = text or ", ".join(
            describe_distribution(distribution) for distribution in self.marginals
        )

    @property
    def dimension(self) -> int:
        """Coordinates."""
        return len(self.marginals)

    @property
    def fingerprint(self) -> str:
        """Tell two references apart by all their digits, which the text rounds: SHA-256, hex."""
        marginals = [_full_description(distribution) for distribution in self.marginals]
        affine = [None if a is None else a.tolist() for a in (self.shift, self.matrix)]
        return hashlib.sha256(repr((self.text, marginals, affine)).encode()).hexdigest()

    def transport(self, u: np.ndarray) -> np.ndarray:
        """Map uniform numbers, shape (n, d), to draws: a public map."""
        z = np.column_stack(
            [_quantiles(distribution, u[:, j]) for j, distribution in enumerate(self.marginals)]
        )
        return z if self.matrix is None else self.shift + z @ self.matrix.T

    def uniforms(self, x: np.ndarray) -> np.ndarray:
        """Invert `transport`."""
        z = self._standard(x)
        return np.column_stack(
            [distribution.cdf(z[:, j]) for j, distribution in enumerate(self.marginals)]
        )

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows."""
        z = self._standard(x)
        total = sum(distribution.logpdf(z[:, j]) for j, distribution in enumerate(self.marginals))
        scale = 0.0 if self.matrix is None else np.log(np.abs(np.diag(self.matrix))).sum()
        return np.asarray(total) - scale

    def pool(self, count: int) -> np.ndarray:
        """Public draws."""
        u = np.random.default_rng(system_seed()).random((count, self.dimension))
        return self.transport(np.clip(u, 2.0**-53, 1.0 - 2.0**-53))

    def levels(self) -> np.ndarray:
        """Ends of cells along an axis, as quantiles: half of them even, half far into the tails."""
        half = CELLS_PER_AXIS[self.dimension] // 2
        even = np.linspace(0.0, 1.0, half + 1)
        return np.union1d(even, special.expit(np.linspace(-TAIL_LOGIT, TAIL_LOGIT, half)))

    def _standard(self, x: np.ndarray) -> np.ndarray:
        if self.matrix is None:
            return x
        return np.linalg.solve(self.matrix, (x - self.shift).T).T


class Box(QuantileReference):
    """The uniform distribution on a public box: the reference where nothing better is known.

    Parameters
    ----------
    lower, upper : float or array, shape (d,)
    """

    def __init__(self, lower: Any, upper: Any) -> None:
        low, high = np.broadcast_arrays(
            *(
                np.atleast_1d(np.asarray(DOUBLES.of(end, name, "Box"), float))
                for name, end in (("lower", lower), ("upper", upper))
            )
        )
        if low.ndim != 1 or not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise DomainError(
                "the bounds of a box are finite numbers, or vectors of them",
                got=f"shapes {low.shape}, {high.shape}",
                allowed="Box(0, 1), or Box([0, 0], [1, 2])",
            )
        if not (low < high).all():
            raise DomainError("each lower end is below its upper end", allowed="lower < upper")
        bounds = ", ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
        marginals = [scipy.stats.uniform(a, b - a) for a, b in zip(low, high, strict=True)]
        super().__init__(marginals, text=f"uniform on {bounds}")
        shape = self.shapes["x"]
        self.ranges = {"x": [low.reshape(shape).tolist(), high.reshape(shape).tolist()]}

    def __repr__(self) -> str:
        return f"Box: {self.text}"

    def levels(self) -> np.ndarray:
        """Even cells: a box has no tails."""
        return np.linspace(0.0, 1.0, CELLS_PER_AXIS[self.dimension] + 1)


def pool_size(base: Any, asked: int | None) -> int:
    """The size of a pool: a power of two, so that the probability of each draw is exact."""
    wanted = (
        getattr(base, "pool_size", DEFAULT_POOL_SIZE)
        if asked is None
        else check_count(asked, "pool")
    )
    return 1 << (wanted.bit_length() - 1)


def normalized_probabilities(given: Any, name: str) -> np.ndarray:
    """A vector of probabilities, normalized; refused unless its sum is one within 1e-6."""
    refuse_mask(given, "probabilities")
    try:
        mass = np.asarray(given, float)
    except (TypeError, ValueError, OverflowError):
        mass = np.empty(0)
    if mass.ndim != 1 or not len(mass):
        raise DomainError(
            f"{name} is no distribution that is known here",
            got=type(given).__name__,
            allowed="probabilities, a SciPy distribution, a Box, a PyMC model, or an object with "
            "logpdf and sample",
        )
    if not np.isfinite(mass).all() or (mass < 0.0).any() or abs(mass.sum() - 1.0) > 1e-6:
        raise DomainError(
            f"{name} holds probabilities",
            got="numbers that are negative, not finite, or do not sum to one",
            allowed=">= 0, with sum 1 within 1e-6",
        )
    return mass / mass.sum()


def system_seed() -> int:
    """A seed from the operating system."""
    return int.from_bytes(os.urandom(32), "little")


def _quantiles(distribution: Any, u: np.ndarray) -> np.ndarray:
    """Quantiles of a SciPy distribution."""
    return np.asarray(
        distribution.ppf(u) if hasattr(distribution, "ppf") else distribution.icdf(u), float
    )


def describe_distribution(distribution: Any) -> str:
    """A SciPy distribution as text, its parameters rounded."""
    if hasattr(distribution, "dist"):
        numbers = [
            f"{value:g}"
            for value in (*distribution.args, *distribution.kwds.values())
            if np.ndim(value) == 0
        ]
        return f"{distribution.dist.name}({', '.join(numbers)})"
    return str(distribution)


def _full_description(distribution: Any) -> str:
    """A SciPy distribution as text, with all digits of its parameters."""
    if not hasattr(distribution, "dist"):
        return str(distribution)
    given = [*enumerate(distribution.args), *sorted(distribution.kwds.items())]
    return repr(
        (distribution.dist.name, [(key, np.asarray(value).tolist()) for key, value in given])
    )


def _distinct_labels(labels: Sequence[Any]) -> Sequence[Any] | set[Any]:
    return labels if isinstance(labels, range) else set(labels)


def _label_range(numbers: np.ndarray) -> list[float]:
    return [float(numbers.min()), float(numbers.max())]


def _numeric_labels(labels: Sequence[Any]) -> np.ndarray | None:
    """Labels that are numbers, as an array to release; None if they are names."""
    if isinstance(labels, range) or all(
        isinstance(label, int | float | np.number) for label in labels
    ):
        return np.asarray(labels)
    return None


FINGERPRINT_POINTS = np.concatenate([-np.geomspace(1e-3, 1e6, 28), np.geomspace(1e-3, 1e6, 28)])
"""Where the density of a black box is evaluated for its fingerprint."""
MOST_NESTING = 8
"""The depth to which the contents of an object enter its fingerprint."""


class BlackBoxReference:
    """Any object with a log density and a sampler (scikit-learn, `gaussian_kde`, one's own)."""

    def __init__(self, given: Any) -> None:
        self._given = given
        self.shapes: dict[str, tuple[int, ...]]
        first = self.pool(2)
        if not np.isfinite(first).all():
            raise DomainError(
                "the reference draws numbers that are not finite",
                got="inf or NaN",
                allowed="finite numbers",
                do="check its rvs or sample method",
            )
        self.shapes = {"x": () if first.shape[1] == 1 else (first.shape[1],)}
        self.text = type(given).__name__

    @property
    def fingerprint(self) -> str:
        """Tell two references apart: SHA-256 of what they consist of and of their densities.

        Densities are taken at fixed points, in case an object hides its state.
        """
        with np.errstate(all="ignore"):
            found = self.logpdf(FINGERPRINT_POINTS[:, None] * np.ones(self.dimension))
        parts = self.text, canonical_contents(self._given), [f"{value:.9g}" for value in found]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @property
    def dimension(self) -> int:
        """Coordinates."""
        return math.prod(self.shapes["x"])

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows."""
        if hasattr(self._given, "score_samples"):
            return np.asarray(self._given.score_samples(x), float).reshape(len(x))
        if isinstance(self._given, scipy.stats.gaussian_kde):
            return np.asarray(self._given.logpdf(x.T), float)
        flat = x[:, 0] if self.dimension == 1 else x
        return np.asarray(self._given.logpdf(flat), float).reshape(len(x))

    def pool(self, count: int) -> np.ndarray:
        """Public draws, by the object's own sampler."""
        given, seed = self._given, int.from_bytes(os.urandom(4), "little")
        if hasattr(given, "resample"):
            return np.asarray(given.resample(count, seed=seed), float).T
        if hasattr(given, "rvs"):
            drawn = given.rvs(size=count, random_state=seed)
        else:
            drawn = given.sample(count)
            drawn = drawn[0] if isinstance(drawn, tuple) else drawn
        return np.asarray(drawn, float).reshape(count, -1)


def canonical_contents(value: Any, depth: int = MOST_NESTING) -> Any:
    """The contents of a value as plain values, the same in every session.

    Arrays by their digests, objects by their attributes, functions by their code and closures.
    Memory addresses and the states of random generators are left out.
    """
    if isinstance(value, np.ndarray) and value.dtype != object:
        whole = np.ascontiguousarray(value)
        return str(whole.dtype), whole.shape, hashlib.sha256(whole.tobytes()).hexdigest()
    if value is None or isinstance(value, str | bytes | int | float | complex | np.generic):
        return repr(value)
    kind = type(value).__name__
    if depth == 0 or isinstance(value, np.random.Generator | np.random.RandomState):
        return kind
    if isinstance(value, Mapping):
        return kind, [
            (str(key), canonical_contents(item, depth - 1)) for key, item in value.items()
        ]
    if isinstance(value, list | tuple | np.ndarray):
        return kind, [canonical_contents(item, depth - 1) for item in value]
    code = getattr(value, "__code__", None)
    if code is not None:
        inside = [cell.cell_contents for cell in value.__closure__ or ()]
        return kind, code.co_code.hex(), canonical_contents(code.co_consts, depth - 1), [
            canonical_contents(item, depth - 1) for item in inside
        ]  # fmt: skip
    return kind, canonical_contents(getattr(value, "__dict__", {}), depth - 1)


def as_reference(given: Any) -> Reference | FiniteReference:
    """The reference that a user gives.

    Parameters
    ----------
    given : object
        Probabilities (array, or dict by label), a frozen SciPy distribution or a list of them, a
        public `Box`, a PyMC model (its prior) or variable, or whatever has ``logpdf`` (or
        ``score_samples``) and ``sample`` (or ``rvs``, ``resample``): a density fitted to public
        data, for example.

    Raises
    ------
    DomainError
        It is none of these.
    """
    if isinstance(given, FiniteReference | QuantileReference | BlackBoxReference) or hasattr(
        given, "shapes"
    ):
        return given
    if isinstance(given, Mapping):
        return FiniteReference(list(given.values()), list(given.keys()))
    if type(given).__module__.split(".")[0] in ("pymc", "pytensor"):
        return pymc_reference(given)
    if isinstance(given, Sequence) and len(given) and all(map(_has_quantiles, given)):
        return QuantileReference(given)
    if hasattr(getattr(given, "dist", None), "pmf"):
        return _from_discrete(given)
    if _has_quantiles(given):
        return QuantileReference([given])
    if type(given).__name__ == "multivariate_normal_frozen":
        return _from_normal(given)
    samples = any(hasattr(given, name) for name in ("sample", "rvs", "resample"))
    if samples and (hasattr(given, "logpdf") or hasattr(given, "score_samples")):
        return BlackBoxReference(given)
    return FiniteReference(given)


def _has_quantiles(distribution: Any) -> bool:
    inverse = hasattr(distribution, "ppf") or hasattr(distribution, "icdf")
    return inverse and hasattr(distribution, "cdf") and hasattr(distribution, "logpdf")


def _from_discrete(distribution: Any) -> FiniteReference:
    """A discrete SciPy distribution, truncated to the support between its 2**-53 quantiles."""
    first, last = (int(distribution.ppf(q)) for q in (2.0**-53, 1.0 - 2.0**-53))
    values = np.arange(first, last + 1)
    finite = FiniteReference(
        distribution.pmf(values) / distribution.pmf(values).sum(), values.tolist()
    )
    finite.text = describe_distribution(distribution)
    return finite


def _from_normal(distribution: Any) -> QuantileReference:
    covariance = np.atleast_2d(distribution.cov)
    marginals = [scipy.stats.norm()] * len(covariance)
    text = f"multivariate normal of dimension {len(covariance)}"
    return QuantileReference(
        marginals, np.asarray(distribution.mean, float), np.linalg.cholesky(covariance), text
    )


class PyMCReference:
    """Joint distribution of random variables of PyMC; a draw holds all their entries in a row.

    Parameters
    ----------
    variables : list of random variables
    names : list of str
    text : str
    """

    pool_size = 2**14  # PyMC draws one by one

    def __init__(self, variables: list[Any], names: list[str], text: str) -> None:
        self._variables, self.text = variables, text
        first = self._draw(2)
        self.shapes = {name: array.shape[1:] for name, array in zip(names, first, strict=True)}
        self._logp: Any = None

    @property
    def fingerprint(self) -> str:
        """Tell two references apart: SHA-256 of the graph, its constants and its public arrays."""
        held = [v.get_value(borrow=True) for v in public_data(self._variables)]
        arrays = [canonical_contents(value) for value in held if isinstance(value, np.ndarray)]
        parts = self.text, graph_text(self._variables), arrays
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    @property
    def dimension(self) -> int:
        """Entries of all variables."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def pool(self, count: int) -> np.ndarray:
        """Public draws, by PyMC."""
        parts = [array.reshape(count, -1) for array in self._draw(count)]
        return np.concatenate(parts, axis=1).astype(float)

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows, without transforms and Jacobians."""
        if self._logp is None:
            self._logp = self._compiled()
        parts, start = [], 0
        for rv, shape in zip(self._variables, self.shapes.values(), strict=True):
            width = math.prod(shape)
            part = x[:, start : start + width].reshape(len(x), *shape)
            parts.append(part.astype(rv.dtype))
            start += width
        return np.asarray(self._logp(*parts), float)

    def _draw(self, count: int) -> list[np.ndarray]:
        seed = system_seed() % 2**31  # public, as the pool is
        try:
            drawn = pm.draw(self._variables, draws=count, random_seed=seed)
        except NotImplementedError as cause:
            raise DomainError(
                "this distribution cannot be drawn from",
                got="an improper prior",
                do="replace Flat and HalfFlat by proper priors, chosen without the data",
            ) from cause
        return [np.asarray(array) for array in drawn]

    def _compiled(self) -> Any:
        values = {rv: rv.type() for rv in self._variables}
        terms = conditional_logp(dict(values))
        total: Any = sum(term.sum() for term in terms.values())
        batched = {
            v: pytensor.tensor.tensor(dtype=v.dtype, shape=(None, *v.type.shape))
            for v in values.values()
        }
        return pytensor.function(
            [batched[values[rv]] for rv in self._variables], vectorize_graph(total, batched)
        )


class PriorPredictiveReference(PyMCReference):
    """One record of a model's observed variables under its prior.

    Parameters
    ----------
    model : pymc.Model
    rows : int, optional
        Number of public rows of covariates; then a draw names its row first. Without it records
        are identically distributed, and the first stands for all.
    """

    def __init__(self, model: pm.Model, rows: int | None = None) -> None:
        observed = list(model.observed_RVs)
        names = [rv.name for rv in observed]
        if rows is None:
            variables = [rv[0] for rv in observed]
        else:
            row = pm.DiscreteUniform.dist(0, rows - 1)
            variables = [row, *(rv[row] for rv in observed)]
            names = ["row", *names]
        super().__init__(variables, names, "the prior predictive of a record")

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Refuse: a predictive density is an integral."""
        raise Unsupported(
            "a prior predictive has no density at hand",
            do="estimate='trees', 'network' or a classifier",
        )


def pymc_reference(given: Any) -> PyMCReference:
    """The reference of a model (its prior) or of a random variable made by ``.dist()``.

    Raises
    ------
    DomainError
        A model with potentials, whose prior PyMC does not draw from, or no random variable.
    """
    if isinstance(given, pm.Model):
        if given.potentials:
            raise DomainError(
                "a prior with potentials cannot be drawn from",
                got=", ".join(p.name for p in given.potentials),
                do="give the same model without them as reference",
            )
        names = [rv.name for rv in given.free_RVs]
        if not names:
            raise DomainError(
                "the model has no free variables, so it has no prior",
                got="a model of observed variables and data alone",
                allowed="a model with a prior",
                do="give a distribution such as pm.Normal.dist(0, 1), or mollifiers.Box",
            )
        return PyMCReference(list(given.free_RVs), names, f"the prior of {', '.join(names)}")
    if getattr(given, "owner", None) is None:
        raise DomainError(
            "this is no random variable of PyMC",
            got=type(given).__name__,
            allowed="pm.Normal.dist(0, 1) or the like, or a pm.Model for its prior",
        )
    return PyMCReference([given], [given.name or "x"], "a PyMC distribution")
