"""Reference laws: what is known without the data, and how to draw from it."""

from __future__ import annotations

import hashlib
import os
import numpy as np
from collections.abc import Sequence
from typing import Any, Protocol
from scipy import special, stats
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import refuse_mask, whole

LIMIT = 27.0
"""Cells end at quantiles 1 / (1 + e^27) from either side: 2e-12 of the reference."""
CELLS = {1: 2**16, 2: 400, 3: 64}
"""Cells along each axis by dimension, but for one or two."""


POOL = 2**17
"""Public draws that stand for a reference without quantiles, or of many dimensions."""


class Reference(Protocol):
    """A public law on vectors.

    Attributes
    ----------
    shapes : dict of str to tuple of int
        The variables that a draw holds.
    text : str
        What the law is, in words; it goes to releases.
    """

    shapes: dict[str, tuple[int, ...]]
    text: str

    @property
    def dimension(self) -> int:
        """Numbers in one draw."""

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows, shape (n, d) to (n,)."""

    def pool(self, count: int) -> np.ndarray:
        """Public independent draws, shape (count, d): nobody's secret depends on them."""


class Finite:
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
        self.mass = probabilities(mass, "the reference")
        self.labels: Sequence[Any] = range(len(self.mass)) if labels is None else list(labels)
        if not len(self.labels) == len(self.mass) == len(_distinct(self.labels)):
            raise DomainError(
                "every category has one label of its own",
                got=f"{len(self.labels)} labels of {len(self.mass)} categories",
            )
        self.numbers = _as_numbers(self.labels)
        self.shapes = {"category" if self.numbers is None else "x": ()}
        self.text = f"probabilities of {len(self.mass)} categories"
        ends = [0, len(self.mass) - 1] if self.numbers is None else _ends(self.numbers)
        self.ranges = dict.fromkeys(self.shapes, ends)

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
        """Where values stand among the labels.

        Raises
        ------
        DomainError
            One of them is no label.
        """
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


class Marginals:
    """Independent coordinates with known quantiles, or an affine image of them.

    Parameters
    ----------
    laws : sequence
        Continuous SciPy laws, frozen or of the new kind.
    shift, matrix : array, optional
        x = shift + matrix z, z with these coordinates. The matrix is lower triangular.
    """

    def __init__(
        self,
        laws: Sequence[Any],
        shift: np.ndarray | None = None,
        matrix: np.ndarray | None = None,
        text: str = "",
    ) -> None:
        self.laws = tuple(laws)
        self.shapes: dict[str, tuple[int, ...]]
        self.shift, self.matrix = shift, matrix
        d = len(self.laws)
        self.shapes = {"x": () if d == 1 else (d,)}
        self.text = text or ", ".join(describe(law) for law in self.laws)

    @property
    def dimension(self) -> int:
        """Coordinates."""
        return len(self.laws)

    @property
    def fingerprint(self) -> str:
        """Tell two references apart by all their digits, which the text rounds: SHA-256, hex."""
        laws = [_in_full(law) for law in self.laws]
        affine = [None if a is None else a.tolist() for a in (self.shift, self.matrix)]
        return hashlib.sha256(repr((self.text, laws, affine)).encode()).hexdigest()

    def transport(self, u: np.ndarray) -> np.ndarray:
        """Map uniform numbers, shape (n, d), to draws: a public map."""
        z = np.column_stack([_ppf(law, u[:, j]) for j, law in enumerate(self.laws)])
        return z if self.matrix is None else self.shift + z @ self.matrix.T

    def uniforms(self, x: np.ndarray) -> np.ndarray:
        """Invert `transport`."""
        z = self._standard(x)
        return np.column_stack([law.cdf(z[:, j]) for j, law in enumerate(self.laws)])

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        """Log density of rows."""
        z = self._standard(x)
        total = sum(law.logpdf(z[:, j]) for j, law in enumerate(self.laws))
        scale = 0.0 if self.matrix is None else np.log(np.abs(np.diag(self.matrix))).sum()
        return np.asarray(total) - scale

    def pool(self, count: int) -> np.ndarray:
        """Public draws."""
        u = np.random.default_rng(entropy()).random((count, self.dimension))
        return self.transport(np.clip(u, 2.0**-53, 1.0 - 2.0**-53))

    def levels(self) -> np.ndarray:
        """Ends of cells along an axis, as quantiles: half of them even, half far into the tails."""
        half = CELLS[self.dimension] // 2
        even = np.linspace(0.0, 1.0, half + 1)
        return np.union1d(even, special.expit(np.linspace(-LIMIT, LIMIT, half)))

    def _standard(self, x: np.ndarray) -> np.ndarray:
        if self.matrix is None:
            return x
        return np.linalg.solve(self.matrix, (x - self.shift).T).T


class Box(Marginals):
    """The uniform law on a public box: the reference where nothing better is known.

    Parameters
    ----------
    lower, upper : float or array, shape (d,)
    """

    def __init__(self, lower: Any, upper: Any) -> None:
        low, high = np.broadcast_arrays(
            np.atleast_1d(np.asarray(lower, float)), np.atleast_1d(np.asarray(upper, float))
        )
        if low.ndim != 1 or not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise DomainError("a box has finite ends", got=f"shapes {low.shape}, {high.shape}")
        if not (low < high).all():
            raise DomainError("each lower end is below its upper end", allowed="lower < upper")
        ends = ", ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
        laws = [stats.uniform(a, b - a) for a, b in zip(low, high, strict=True)]
        super().__init__(laws, text=f"uniform on {ends}")
        shape = self.shapes["x"]
        self.ranges = {"x": [low.reshape(shape).tolist(), high.reshape(shape).tolist()]}

    def __repr__(self) -> str:
        return f"Box: {self.text}"

    def levels(self) -> np.ndarray:
        """Even cells: a box has no tails."""
        return np.linspace(0.0, 1.0, CELLS[self.dimension] + 1)


def pool_size(base: Any, asked: int | None) -> int:
    """How many public draws to take: a power of two, so that each is drawn with exactly its share.

    Raises
    ------
    DomainError
        What was asked for is no whole number.
    """
    wanted = getattr(base, "pool_size", POOL) if asked is None else whole(asked, "pool")
    return 1 << (wanted.bit_length() - 1)


def probabilities(given: Any, name: str) -> np.ndarray:
    """Check and normalize a vector of probabilities.

    Raises
    ------
    DomainError
        Not a vector of non-negative finite numbers that sum to one within 1e-6.
    """
    refuse_mask(given, "probabilities")
    try:
        law = np.asarray(given, float)
    except (TypeError, ValueError):
        law = np.empty(0)
    if law.ndim != 1 or not len(law):
        raise DomainError(
            f"{name} is no law that is known here",
            got=type(given).__name__,
            allowed="probabilities, a SciPy law, a Box, a PyMC model, or an object with logpdf and "
            "sample",
        )
    if not np.isfinite(law).all() or (law < 0.0).any() or abs(law.sum() - 1.0) > 1e-6:
        raise DomainError(
            f"{name} holds probabilities",
            got="numbers that are negative, not finite, or do not sum to one",
            allowed=">= 0, with sum 1 within 1e-6",
        )
    return law / law.sum()


def entropy() -> int:
    """A seed from the operating system."""
    return int.from_bytes(os.urandom(32), "little")


def _ppf(law: Any, u: np.ndarray) -> np.ndarray:
    return np.asarray(law.ppf(u) if hasattr(law, "ppf") else law.icdf(u), float)


def describe(law: Any) -> str:
    """Write a SciPy law as text."""
    if hasattr(law, "dist"):
        numbers = [f"{value:g}" for value in (*law.args, *law.kwds.values()) if np.ndim(value) == 0]
        return f"{law.dist.name}({', '.join(numbers)})"
    return str(law)


def _in_full(law: Any) -> str:
    """Write a SciPy law with every digit of its parameters."""
    if not hasattr(law, "dist"):
        return str(law)
    given = [*enumerate(law.args), *sorted(law.kwds.items())]
    return repr((law.dist.name, [(key, np.asarray(value).tolist()) for key, value in given]))


def _distinct(labels: Sequence[Any]) -> Sequence[Any] | set[Any]:
    return labels if isinstance(labels, range) else set(labels)


def _ends(numbers: np.ndarray) -> list[float]:
    return [float(numbers.min()), float(numbers.max())]


def _as_numbers(labels: Sequence[Any]) -> np.ndarray | None:
    """Labels that are numbers, as an array to release; None if they are names."""
    if isinstance(labels, range) or all(
        isinstance(label, int | float | np.number) for label in labels
    ):
        return np.asarray(labels)
    return None
