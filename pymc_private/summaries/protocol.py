"""What a summary mechanism is, and what it needs: noise, records, cautions.

A mechanism fixes everything public before the data are read: its guarantee, the information it is
expected to give, and the parameters it is about. `release` reads the records and adds the noise it
is given; whatever it returns is public afterwards. All else is post-processing of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pymc_private.privacy import Guarantee
from pymc_private.summaries.noise import CHUNK

Released = dict[str, np.ndarray]
"""Arrays that leave: noisy sums, and the public constants that the likelihood needs."""
LogLikelihood = Callable[[np.ndarray], np.ndarray]
"""Log-likelihood of a released summary at unconstrained parameters: (S, p) to (S,)."""
Progress = Callable[[int], None]
"""Called with the number of finished stages."""


class RecordTable(Protocol):
    """Records that are read in chunks, from the first to the last, as often as is asked."""

    def __len__(self) -> int:
        """The number of records."""

    def chunks(self, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """Arrays of `size` rows by name of the source, each with its number of true rows.

        Rows beyond these only fill a chunk up; there is a chunk even if there are no records.
        """

    def chunk_size(self, relation: str, large: int = CHUNK) -> int:
        """Rows of a chunk such that a record's terms do not depend on the other records (T30)."""

    def pilots(self, threshold: int) -> RecordTable:
        """The records whose coin is below threshold / 2**16 (T37)."""

    def with_coins(
        self, size: int, threshold: int
    ) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray, int]]:
        """As `chunks`, with a bool for each row of a chunk: whether it is one of the pilots."""

    def add_up(self, terms: Any, sums: Any, size: int, threshold: int) -> Any:
        """Sums (`weighted_sums.WeightedSums`) with the terms of all records.

        `terms` makes coins and terms of what `with_coins` gives. Workers of a cluster may do it.
        """

    def sum_up(self, work: Any, size: int) -> list[list[int]]:
        """Exact totals of all records.

        `work` makes lists of integers of a chunk and its number of true rows. Workers of a cluster
        may do it.
        """

    def beside(self, rows: Mapping[str, np.ndarray]) -> RecordTable:
        """The same records, each with its row of public arrays."""


Records = Mapping[str, np.ndarray] | RecordTable
"""Arrays of the private variables by name of the source, records along the first axis; or a table
that is read in chunks of such arrays."""


class SumNoise(Protocol):
    """A noisy sum of bounded terms (T30, T31)."""

    def total(
        self, chunks: Iterable[np.ndarray], bound: float, positive: bool, mu: float
    ) -> np.ndarray:
        """The noisy sum of all rows of the chunks, each of shape (c, k): shape (k,).

        `positive`: the rows are packed positive semidefinite matrices, off-diagonal elements times
        the root of two, so that the Euclidean norm of a row is the Frobenius norm.
        """


class SummaryNoise(SumNoise, Protocol):
    """Sums of bounded terms with Gaussian noise (T30, T31)."""

    def totals(
        self,
        chunks: Iterable[tuple[np.ndarray, Sequence[np.ndarray]]],
        sums: Sequence[Any],
        weight: int,
    ) -> list[np.ndarray]:
        """Noisy weighted sums of several terms of each row, in one pass (T37).

        Chunks hold a bool for each row, and the terms of each sum. Rows for which it is true count
        `weight` / 256, the others 1. `sums` are of `weighted_sums.BoundedSum`; those of matrices
        give factors of them, and symmetric matrices are returned.
        """

    def term_sd(self, one: Any, k: int) -> float:
        """The standard deviation of the noise that `totals` adds; of matrices, on the diagonal."""

    def of_parts(self) -> SummaryNoise:
        """The same for sums that read parts of the records (T37)."""

    def sd(self, bound: float, positive: bool, mu: float, k: int) -> float:
        """The standard deviation of the noise that `total` adds to each element; public."""

    def counts(self, chunks: Iterable[np.ndarray], cells: int, mu: float) -> np.ndarray:
        """Noisy numbers of records in disjoint cells; chunks hold the cell of each record."""

    def noisy_counts(self, counts: Sequence[int] | np.ndarray, mu: float) -> np.ndarray:
        """Numbers of records in disjoint cells, counted before, with the noise of `counts`."""

    def counts_sd(self, mu: float) -> float:
        """The standard deviation of the noise that `counts` adds to each cell."""


@dataclass(frozen=True)
class Caution:
    """A reason to distrust a released summary, computed from what was released.

    Attributes
    ----------
    text : str
    refuse : bool
        Whether the summary is refused unless the user accepts it.
    """

    text: str
    refuse: bool = False

    def __repr__(self) -> str:
        """The reason in words, as lists of them are printed."""
        return f"refused: {self.text}" if self.refuse else self.text


def is_same_release(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    """Whether two releases hold the same numbers: a summary gives them in a new dictionary."""
    if one is other:
        return True
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) for name in one
    )


class Parameters(Protocol):
    """The parameters of a model as one unconstrained vector of length `size`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the free variables."""

    @property
    def size(self) -> int:
        """Length of the vector."""

    @property
    def mean(self) -> np.ndarray:
        """Prior mean, shape (p,)."""

    @property
    def covariance(self) -> np.ndarray:
        """Prior covariance, shape (p, p)."""

    def draws(self, count: int, seed: int) -> np.ndarray:
        """Draws from the prior, shape (count, p)."""

    def natural(self, theta: np.ndarray) -> Mapping[str, np.ndarray]:
        """Values of the free variables at unconstrained vectors of shape (S, p)."""

    def unconstrained(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inverse of `natural`, shape (S, p)."""

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        """Log prior density of the unconstrained vector, shape (S,)."""


class Mechanism(Protocol):
    """A way to release one noisy summary, fixed before the data are read."""

    @property
    def method(self) -> str:
        """The kind of summary: "scores", "records", "cells" or "sums"."""

    @property
    def guarantee(self) -> Guarantee:
        """What all that `release` gives reveals at most."""

    @property
    def information(self) -> float:
        """Expected information gain about all parameters (nats), averaged over the prior."""

    @property
    def variance_left(self) -> np.ndarray:
        """Posterior variance of each coordinate in prior ones, averaged over the prior.

        Shape (p,), of a normal approximation; empty where it is not known.
        """

    @property
    def parameters(self) -> Any:
        """The parameters of the model (`Parameters`)."""

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts, in JSON types."""

    @property
    def stages(self) -> tuple[str, ...]:
        """What the release does, for the progress bar."""

    def release(
        self, records: Records, noise: SummaryNoise, progress: Progress | None = None
    ) -> Released:
        """Read the records and give all that leaves."""

    def log_likelihood(self, released: Mapping[str, np.ndarray]) -> LogLikelihood:
        """The log-likelihood of a released summary, in NumPy."""

    def start(self, released: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """A center and a covariance of the posterior, approximately: (p,), (p, p)."""

    def potential(self, released: Mapping[str, np.ndarray], parameters: Mapping[str, Any]) -> Any:
        """The log-likelihood as a PyTensor scalar of the natural parameters.

        Raises unless value and gradient agree with `log_likelihood` at the center.
        """

    def warnings(self, released: Mapping[str, np.ndarray]) -> Sequence[Caution]:
        """Reasons to distrust what was released."""
