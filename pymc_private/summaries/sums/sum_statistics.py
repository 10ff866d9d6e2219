"""Sums of records of conjugate models: what is added, its noise, and its moments.

Numbers (`NumberSums`): each record adds y - c to the sum of its parameter, c the middle of the
domain. Given the parameter, the sum is normal by the central limit theorem, with mean n m and
variance n v + s^2, where m and v are the moments of a clipped record. Under add/remove the number
of records is released with noise, too; with a flat prior it is integrated out. Levels
(`LevelSums`): counts of levels, as in noisy cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.certificates.conjugate import recognize_conjugate
from pymc_private.certificates.conjugate_families import ConjugateModel
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.summaries.cells.cell_likelihood import (
    NoisyCells,
    cell_log_likelihood,
    symbolic_cell_log_likelihood,
)
from pymc_private.summaries.noise import NoiseScale, split_mu
from pymc_private.summaries.sums.sum_moments import MOMENTS, NUMPY, clipped_moments, mean_slope

LEVELS = ("categorical", "multinomial")
CONTINUOUS = ("exponential", "normal")
SumDistribution = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Mean (S, k) and covariance (S, k, k) of k sums, and slopes of the mean by the d entries of the
parameter (S, k, d), at S values of it."""
Entries = Callable[[], Iterator[np.ndarray]]
"""Gives the private entries of all records in chunks, records along the first axis, each time anew:
every term is exact arithmetic of one record, wherever it stands."""
LEAST_COUNT_SHARE = 0.02
"""Least share of mu^2 for the number of records where that is protected."""


class SumStatistic(Protocol):
    """What is released of the records of a conjugate model."""

    @property
    def name(self) -> str:
        """Name of the parameter."""

    @property
    def stages(self) -> tuple[str, ...]:
        """What is released, in turn."""

    @property
    def facts(self) -> dict[str, Any]:
        """What is public, in JSON types."""

    def release(self, entries: Entries, noise: Any) -> dict[str, np.ndarray]:
        """Noisy sums of the records."""

    def log_likelihood(self, released: Mapping[str, np.ndarray], values: np.ndarray) -> np.ndarray:
        """Log-likelihood of the noisy sums at S values of the parameter, up to a constant: (S,)."""

    def symbolic_log_likelihood(
        self, released: Mapping[str, np.ndarray], parameter: Variable
    ) -> Variable:
        """The same as a scalar graph of the natural parameter."""

    def distribution(self, values: np.ndarray, n: float) -> SumDistribution:
        """What the noisy sums of n records are expected to be."""

    @property
    def widths(self) -> np.ndarray:
        """Range of what one record adds to each sum, shape (k,)."""

    def narrowed(self) -> Iterator[Any]:
        """The same sums of numbers clipped to narrower bounds."""

    def as_released(self, released: Mapping[str, np.ndarray]) -> Any:
        """With the public numbers of a release."""

    def count(self, released: Mapping[str, np.ndarray]) -> float:
        """The number of records, or a public estimate of it."""

    def observed(self, released: Mapping[str, np.ndarray]) -> np.ndarray:
        """The noisy sums, in the order of `distribution`."""


def sum_statistic(private: PrivateModel, mu: float) -> SumStatistic:
    """The statistic of a conjugate model; reads no data.

    Raises
    ------
    Unsupported
        The model is not recognized as conjugate, or its records have no sums of few dimensions.
    DomainError
        The domain of the records is unbounded.
    """
    found = recognize_conjugate(private)
    if (
        found is None
        or found.family == "linear"  # the sum of outcomes says nothing of covariates
        or found.likelihood not in (*MOMENTS, *LEVELS)
        or len(found.names) != 1
    ):
        raise Unsupported(
            "sums need one parameter with a conjugate prior, and records of its family",
            got="a model of another form" if found is None else f"family {found.family}",
            allowed="Beta-Bernoulli, -binomial and -geometric, Gamma-Poisson and -exponential, a "
            "normal mean of known standard deviation, Dirichlet-categorical and -multinomial",
            do='method="scores" or "cells"',
        )
    scale = NoiseScale(private.neighbors, private.records_per_unit)
    n = private.record_count if private.neighbors == SUBSTITUTE else None
    if found.likelihood in LEVELS:
        return LevelSums.of_model(private, found, scale, mu, n)
    return NumberSums.of_model(private, found, scale, mu, n)


def _constants(found: ConjugateModel) -> dict[str, float]:
    return {name: float(np.ravel(value)[0]) for name, value in found.constants.items()}


@dataclass(frozen=True, eq=False)
class NumberSums:
    """Sums of clipped numbers.

    Parameters
    ----------
    name : str
    likelihood : str
    constants : dict
    low, high : array
        Bounds to which a record's entries are clipped, of the record's shape.
    parameter_shape : tuple of int
        () where all entries have one parameter, else the record's shape.
    scale : NoiseScale
    mu : float
    n : int or None
        None where the number of records is protected.
    typical : float
        Size of E y - c over the prior, relative to its bound: it decides how mu is split.
    """

    name: str
    likelihood: str
    constants: dict[str, float]
    low: np.ndarray
    high: np.ndarray
    parameter_shape: tuple[int, ...]
    scale: NoiseScale
    mu: float
    n: int | None
    typical: float = 1.0

    @classmethod
    def of_model(
        cls, private: PrivateModel, found: ConjugateModel, scale: NoiseScale, mu: float,
        n: int | None,
    ) -> NumberSums:  # fmt: skip
        """From the domain of the private variable."""
        source = private.sources[0]
        bounds = source.domain.bounds(source.row_shape)
        low, high = (np.broadcast_to(b, source.row_shape) for b in (bounds.lower, bounds.upper))
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise DomainError(
                "a sum is as sensitive as its domain is wide",
                got=f"an unbounded domain of {source.name}",
                allowed="finite bounds",
                do="declare domain={name: (low, high)}; records beyond are clipped to it",
            )
        return cls(
            found.names[0], found.likelihood, _constants(found), low.astype(float),
            high.astype(float), private.shapes[found.names[0]], scale, mu, n,
        )  # fmt: skip

    def adapted(self, means: np.ndarray) -> NumberSums:
        """With mu split for these E y - c, of shape (S, k), where n is protected."""
        if self.n is not None:
            return self
        sizes = np.where(self.width > 0.0, np.abs(means) / np.maximum(self.width, 1e-300), 0.0)
        return replace(self, typical=float(np.sqrt((sizes**2).mean())))

    @property
    def _center(self) -> np.ndarray:
        return (self.low + self.high) / 2.0

    @cached_property
    def width(self) -> np.ndarray:
        """h: what |y - c| is at most, for each sum: shape (k,)."""
        half = np.maximum(self._center - self.low, self.high - self._center)
        flat = half.reshape(-1)
        return np.array([flat.sum()]) if self.parameter_shape == () else flat

    @property
    def widths(self) -> np.ndarray:
        """Range of what one record adds to each sum."""
        return 2.0 * self.width

    @property
    def bound(self) -> float:
        """Norm of a record's terms (y - c) / h, at most."""
        return float(np.sqrt(len(self.width)))

    @cached_property
    def budget(self) -> tuple[float, float | None]:
        """The mu of the sums and of the number of records.

        The noise s_n of the number adds m s_n to that of a sum. With m = `typical` in units of its
        bound, the sum of both variances is least at shares 1 : m.
        """
        if self.n is not None:
            return self.mu, None
        share = max(LEAST_COUNT_SHARE, self.typical / (1.0 + self.typical))
        return split_mu(self.mu, (1.0 - share, share))  # type: ignore[return-value]

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of the noise of each sum."""
        return self.width * self.scale.sd(self.bound, False, self.budget[0], len(self.width))

    @property
    def count_sd(self) -> float:
        """Standard deviation of the noise of the number of records; 0 where it is public."""
        mu = self.budget[1]
        return 0.0 if mu is None else self.scale.sd(1.0, True, mu, 1)

    @property
    def stages(self) -> tuple[str, ...]:
        """What is released."""
        return ("sums",) if self.n is not None else ("sums", "count")

    @property
    def facts(self) -> dict[str, Any]:
        """What is public of the sums."""
        return {
            "sum_of": self.name,
            "likelihood": self.likelihood,
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "noise_sd": self.sd.tolist(),
            "count_noise_sd": self.count_sd,
        }

    def release(self, entries: Entries, noise: Any) -> dict[str, np.ndarray]:
        """Sums of y - c, and the number of records where it is protected."""
        mu, count_mu = self.budget
        found = {
            "sums": self.width * noise.total(self._terms(entries()), self.bound, False, mu),
            "sums_sd": self.sd,
            "low": self.low,
            "high": self.high,
        }
        if count_mu is not None:
            ones = (np.ones((len(chunk), 1)) for chunk in entries())
            found["count"] = noise.total(ones, 1.0, True, count_mu)[0]
            found["count_sd"] = np.array(self.count_sd)
        return {name: np.asarray(value, dtype=float) for name, value in found.items()}

    def _terms(self, chunks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
        for chunk in chunks:
            centered = np.clip(chunk.astype(float), self.low, self.high) - self._center
            flat = centered.reshape(len(chunk), -1)
            sums = _row_sums(flat) if self.parameter_shape == () else flat
            yield sums / np.where(self.width > 0.0, self.width, 1.0)

    def moments(self, xp: Any, parameter: Any) -> tuple[Any, Any]:
        """Mean of y - c and variance of y, for each sum, along the last axis."""
        mean, variance = clipped_moments(
            xp, self.likelihood, self.constants, self._wide(parameter), self.low, self.high
        )
        return self._summed(xp, mean - self._center), self._summed(xp, variance)

    def _wide(self, parameter: Any) -> Any:
        """One parameter for each entry of a record."""
        if self.parameter_shape == ():
            parameter = parameter[(..., *(None,) * self.low.ndim)]
        return parameter + np.zeros(self.low.shape)

    def _summed(self, xp: Any, entries: Any) -> Any:
        """What entries of a record give for each sum."""
        if self.low.ndim == 0:
            return entries[..., None]
        if self.parameter_shape != ():
            return entries
        return xp.sum(entries, axis=tuple(range(-self.low.ndim, 0)))[..., None]

    def narrowed(self) -> Iterator[NumberSums]:
        """The same sums of numbers clipped to narrower bounds: less noise, and less information."""
        width = self.high - self.low
        whole = self.likelihood not in CONTINUOUS
        for low_share, high_share in ((0.0, 0.25), (0.25, 0.0), (0.125, 0.125)):
            low, high = self.low + low_share * width, self.high - high_share * width
            if whole:
                low, high = np.ceil(low), np.floor(high)
            if np.all(low < high) and not np.all((low == self.low) & (high == self.high)):
                yield replace(self, low=low, high=high)

    def as_released(self, released: Mapping[str, np.ndarray]) -> NumberSums:
        """With the bounds of a release."""
        low, high = (
            np.asarray(released[name], float).reshape(self.low.shape) for name in ("low", "high")
        )
        if np.array_equal(low, self.low) and np.array_equal(high, self.high):
            return self
        return replace(self, low=low, high=high)

    def distribution(self, values: np.ndarray, n: float) -> SumDistribution:
        """n m, and n v + s^2 with the noise of the number of records."""
        with np.errstate(all="ignore"):
            mean, variance = self.moments(NUMPY, values)
            entries = mean_slope(
                self.likelihood, self.constants, self._wide(values), self.low, self.high
            )
        slopes = self._summed(NUMPY, entries)  # each sum has its own entry, or the one sum the one
        noise = np.broadcast_to(self.sd, self.width.shape) ** 2
        shared = self.count_sd**2 * mean[:, :, None] * mean[:, None, :]
        each = np.eye(len(self.width))
        covariance = (n * variance + noise)[:, :, None] * each + shared
        return n * mean, covariance, n * slopes[:, :, None] * each

    def log_likelihood(self, released: Mapping[str, np.ndarray], values: np.ndarray) -> np.ndarray:
        """In NumPy."""
        with np.errstate(all="ignore"):
            mean, variance = self.moments(NUMPY, values)
            return np.asarray(self._log_normal(np, released, mean, variance))

    def symbolic_log_likelihood(
        self, released: Mapping[str, np.ndarray], parameter: Variable
    ) -> Variable:
        """In PyTensor."""
        return self._log_normal(pt, released, *self.moments(pt, parameter))

    def _log_normal(
        self, xp: Any, released: Mapping[str, np.ndarray], mean: Any, variance: Any
    ) -> Any:
        """log N(z; n m, diag(n v + s^2) + s_n^2 m m'), by the formula of Sherman and Morrison."""
        n = self.count(released)
        spread = n * variance + np.asarray(released["sums_sd"], float) ** 2
        rest = self.observed(released) - n * mean
        value = xp.sum(rest**2 / spread, axis=-1) + xp.sum(xp.log(spread), axis=-1)
        if self.n is None:
            shared = float(released["count_sd"]) ** 2
            alpha = 1.0 + shared * xp.sum(mean**2 / spread, axis=-1)
            lost = shared * xp.sum(mean * rest / spread, axis=-1) ** 2 / alpha
            value = value - lost + xp.log(alpha)
        return -0.5 * value

    def count(self, released: Mapping[str, np.ndarray]) -> float:
        """n, or the noisy number of records, at least 1."""
        return float(self.n) if self.n is not None else max(float(released["count"]), 1.0)

    def observed(self, released: Mapping[str, np.ndarray]) -> np.ndarray:
        """The noisy sums."""
        return np.asarray(released["sums"], dtype=float)


@dataclass(frozen=True, eq=False)
class LevelSums:
    """Counts of levels, one for each entry of a probability vector.

    Parameters
    ----------
    name : str
    likelihood : str
    levels : int
    trials : int
        Of each record: 1 unless records are multinomial counts.
    scale : NoiseScale
    mu : float
    n : int or None
    """

    name: str
    likelihood: str
    levels: int
    trials: int
    scale: NoiseScale
    mu: float
    n: int | None

    @property
    def stages(self) -> tuple[str, ...]:
        """What is released."""
        return ("counts",)

    @property
    def widths(self) -> np.ndarray:
        """Range of what one record adds to each count."""
        return np.full(self.levels, float(self.trials))

    @classmethod
    def of_model(
        cls, private: PrivateModel, found: ConjugateModel, scale: NoiseScale, mu: float,
        n: int | None,
    ) -> LevelSums:  # fmt: skip
        """From the parameter's shape and the number of trials."""
        trials = int(_constants(found).get("trials", 1))
        (levels,) = private.shapes[found.names[0]]
        return cls(found.names[0], found.likelihood, levels, trials, scale, mu, n)

    @property
    def _center(self) -> float:
        """What is subtracted from the counts of a multinomial record where n is public."""
        return self.trials / self.levels if self.n is not None else 0.0

    @property
    def bound(self) -> float:
        """Norm of the term of a multinomial record, at most."""
        share = 1.0 - 1.0 / self.levels if self.n is not None else 1.0
        return self.trials * float(np.sqrt(share))

    @property
    def sd(self) -> float:
        """Standard deviation of the noise of each count."""
        if self.likelihood == "categorical":
            return self.scale.counts_sd(self.mu)
        return self.scale.sd(self.bound, False, self.mu, self.levels)

    @property
    def facts(self) -> dict[str, Any]:
        """What is public of the counts."""
        return {
            "sum_of": self.name,
            "likelihood": self.likelihood,
            "levels": self.levels,
            "trials": self.trials,
            "noise_sd": self.sd,
        }

    def release(self, entries: Entries, noise: Any) -> dict[str, np.ndarray]:
        """Noisy counts of all levels."""
        if self.likelihood == "categorical":
            labels = (chunk.astype(np.int64).reshape(-1) for chunk in entries())
            counts = noise.counts(labels, self.levels, self.mu)
        else:
            terms = (chunk.astype(float) - self._center for chunk in entries())
            counts = noise.total(terms, self.bound, False, self.mu)
            counts = counts + (self.n or 0) * self._center
        return {"counts": np.asarray(counts, dtype=float), "counts_sd": np.array(self.sd)}

    def _cells(self, released: Mapping[str, np.ndarray]) -> NoisyCells:
        n = None if self.n is None else float(self.n * self.trials)
        return NoisyCells(self.observed(released)[None], float(released["counts_sd"]) ** 2, n)

    def log_likelihood(self, released: Mapping[str, np.ndarray], values: np.ndarray) -> np.ndarray:
        """As of noisy cells."""
        return cell_log_likelihood(self._cells(released), values[:, None, :])

    def symbolic_log_likelihood(
        self, released: Mapping[str, np.ndarray], parameter: Variable
    ) -> Variable:
        """As of noisy cells."""
        return symbolic_cell_log_likelihood(self._cells(released), parameter[None, :])

    def distribution(self, values: np.ndarray, n: float) -> SumDistribution:
        """n q, and n (diag q - q q') + s^2 I; a protected n leaves out q q'."""
        total, each = n * self.trials, np.eye(self.levels)
        covariance = (total * values + self.sd**2)[:, :, None] * each
        if self.n is not None:
            covariance = covariance - total * values[:, :, None] * values[:, None, :]
        return total * values, covariance, np.broadcast_to(total * each, covariance.shape)

    def narrowed(self) -> Iterator[LevelSums]:
        """Counts have no narrower bounds."""
        return iter(())

    def as_released(self, released: Mapping[str, np.ndarray]) -> LevelSums:
        """The same."""
        return self

    def count(self, released: Mapping[str, np.ndarray]) -> float:
        """n, or an estimate of it from the noisy counts."""
        return float(self._cells(released).totals[0]) / self.trials

    def observed(self, released: Mapping[str, np.ndarray]) -> np.ndarray:
        """The noisy counts."""
        return np.asarray(released["counts"], dtype=float)


def _row_sums(values: np.ndarray) -> np.ndarray:
    """Sums of rows, shape (N, 1): column by column, in one order whatever the number of rows."""
    total = np.zeros(len(values))
    for column in values.T:
        total = total + column
    return total[:, None]
