"""Samplers as values: a name, a claim, terms, and the draw itself."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable
from pymc_private.errors import Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.certificates.terms import EXACT, Terms
from pymc_private.privacy.validation import as_whole
from pymc_private.privacy.rounding__printing import counted
from pymc_private.samplers.rejection__boxes import sample_boxes
from pymc_private.samplers.conjugate import STRICT, conjugate_of, sample_conjugate
from pymc_private.samplers.executors import spread
from pymc_private.samplers.rejection__fitness import refuse_boxes
from pymc_private.samplers.grid import Scores, sample_grid
from pymc_private.samplers.grid__lattice import TAU_BITS, make_lattice, points_of_each
from pymc_private.samplers.randomness import Uniform, round_to_grid
from pymc_private.samplers.log_density__target import Target

Draws = dict[str, np.ndarray]
Progress = Callable[[int], None]
REAL, PROVED = "proved (real arithmetic)", "proved"


@runtime_checkable
class Method(Protocol):
    """How draws are made. A frozen value: it belongs to a plan and to its fingerprint."""

    @property
    def name(self) -> str:
        """One word."""

    def claim(self, private: PrivateModel) -> str:
        """What is known of the draws."""

    def check(self, private: PrivateModel) -> None:
        """Refuse a model that cannot be drawn from, with `Unsupported`. Reads no data."""

    def terms(self, private: PrivateModel) -> Terms:
        """What its law costs beyond that of exact draws, or `Unsupported`. Reads no data."""

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """A rough estimate from what is public, on one core."""

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Uniform,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """Independent draws by name, shape (draws, *shape), on a public grid. Reads the data."""


@dataclass(frozen=True)
class Boxes:
    """Exact rejection from interval envelopes: any certified model of few parameters."""

    name = "boxes"

    def claim(self, private: PrivateModel) -> str:
        """Exact in real arithmetic."""
        return REAL

    def check(self, private: PrivateModel) -> None:
        """See `fitness.refuse_boxes`."""
        refuse_boxes(private)

    def terms(self, private: PrivateModel) -> Terms:
        """Exact."""
        return EXACT

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """Cells grow with the dimension, walks linearly with n (benchmarks/boxes.py)."""
        size = sum(int(np.prod(shape)) for shape in private.shapes.values())
        cell = 1e-3 + 2e-6 * private.n
        return 0.5 + cell * (4.0**size + 0.1 * draws)

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Uniform,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `boxes.sample_boxes`. In parts, each refines an envelope of its own."""
        if executor is not None:
            return spread(_box_draws, private, draws, randomness, progress, executor)
        return _box_draws(private, draws, randomness, progress)


def _box_draws(
    private: PrivateModel,
    draws: int,
    randomness: Uniform,
    progress: Progress = lambda done: None,
) -> Draws:
    target = Target(private)
    points = sample_boxes(target, draws, randomness, progress)
    return target.unpack(round_to_grid(points, target.lower, target.upper))


@dataclass(frozen=True)
class Conjugate:
    """Closed-form posteriors: proved in floating point where one coordinate is drawn at a time."""

    name = "conjugate"

    def claim(self, private: PrivateModel) -> str:
        """Proved; for normal-gamma and multivariate normal posteriors in real arithmetic."""
        return PROVED if conjugate_of(private).family in STRICT else REAL

    def check(self, private: PrivateModel) -> None:
        """See `conjugate.conjugate_of`."""
        conjugate_of(private)

    def terms(self, private: PrivateModel) -> Terms:
        """Exact."""
        return Terms(strict=conjugate_of(private).family in STRICT)

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """Half a millisecond per coordinate, more where there are many records."""
        size = sum(int(np.prod(shape)) for shape in private.shapes.values())
        return 1e-6 * private.n + 5e-4 * draws * size * max(1.0, (private.n / 100) ** 0.5)

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Uniform,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `conjugate.sample_conjugate`."""
        return sample_conjugate(private, draws, randomness, progress)


@dataclass(frozen=True)
class Grid:
    """The posterior on a public grid of points: proved in floating point, a pure promise.

    Parameters
    ----------
    points : int, optional
        Per continuous coordinate. Default: as many as make about 4,096 in all.
    """

    points: int | None = None
    name = "grid"

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", as_whole(self.points))

    def claim(self, private: PrivateModel) -> str:
        """Proved as it is."""
        return PROVED

    def check(self, private: PrivateModel) -> None:
        """See `lattice.make_lattice` and `grid.Scores`."""
        if private.metric is not None or private.graph.windows:
            raise Unsupported(
                "the grid rounds the score of each factor row, which is priced per replaced record "
                "that one row reads",
                got=private.neighbors if private.metric is not None else "a sequence",
                allowed="neighbors='substitute' or 'add_remove', rows of one record each",
                do="sampler='boxes'",
            )
        Scores(private, make_lattice(private, self.points))

    def terms(self, private: PrivateModel) -> Terms:
        """Four times tau per record of a unit (theory, section 8)."""
        slack = 4 * Fraction(1, 2**TAU_BITS) * private.records_per_unit
        count = counted(len(make_lattice(private, self.points).points), "point")
        each = points_of_each(private, self.points)
        along = f", {each} along each continuous coordinate" if each else ""
        return Terms(
            slack=slack,
            discrete=True,
            points=each,
            strict=True,
            theorem="T15c",
            assumption=f"the prior lives on a public grid of {count}{along}",
        )

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """A walk over the points for each distinct record."""
        count = len(make_lattice(private, self.points).points)
        return (1e-3 + 1e-6 * count) * private.n + 1e-6 * count * draws

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Uniform,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `grid.sample_grid`."""
        return dict(sample_grid(private, draws, randomness, progress, self.points))
