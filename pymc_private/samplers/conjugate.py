"""conjugate: exact draws from posteriors in closed form, trimmed to a box or not.

Beta, Gamma, normal and Dirichlet posteriors are drawn by inverse CDFs that are correctly rounded
(`inverse`), from sums of the data without rounding: what is proved holds for the bits that leave.
Normal-gamma and multivariate normal posteriors, those of linear regression too, are exact for real
arithmetic.
"""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from fractions import Fraction
from scipy.special import expit, gammaincinv, log_expit
from pymc_private.analysis import Interval as Bounds
from pymc_private.errors import Unsupported
from pymc_private.certificates.conjugate_families import Conjugate
from pymc_private.certificates.conjugate__posterior import recognize
from pymc_private.models.private_model import PrivateModel
from pymc_private.samplers.inverse_cdf import Lattice, RoundedDraws
from pymc_private.samplers.inverse_cdf__laws import Beta, Gamma, Law, Normal
from pymc_private.samplers.randomness import GRID_BITS, Uniform, grid_width, has_grid, normal, round_open, round_to_grid

STRICT = ("beta", "gamma", "normal", "dirichlet")
"""Families whose draws are proved in floating point."""
TINY, NEXT_TO_ONE = float(np.finfo(float).tiny), 1.0 - 2.0**-53
Draws = dict[str, np.ndarray]
Progress = Callable[[int], None]


def conjugate_of(private: PrivateModel) -> Conjugate:
    """Recognize a model that this sampler draws from. Reads no data.

    Raises
    ------
    Unsupported
        No conjugate model, or a region on which its posterior has no inverse CDF.
    """
    found = recognize(private)
    if found is None:
        raise Unsupported(
            "this is no conjugate model that is recognized",
            got=", ".join(private.shapes),
            allowed="one likelihood of one variable with conjugate priors of constant parameters: "
            "Beta with Bernoulli, binomial or geometric; Gamma with Poisson or exponential; normal "
            "mean; normal-gamma; Dirichlet with categorical or multinomial; MvNormal mean; linear "
            "regression with known variance",
            do="another sampler",
        )
    several = found.family in ("normal_gamma", "mvnormal", "linear") or (
        found.family == "dirichlet" and private.shapes[found.names[0]][0] > 2
    )
    if several and any(name in private.region for name in found.names):
        raise Unsupported(
            f"a trimmed {found.family} posterior has no inverse CDF",
            got=", ".join(private.region),
            allowed="untrimmed parameters",
            do="sampler='boxes' or 'proximal' draws from it; a mean vector with a diagonal "
            "covariance is recognized as normal",
        )
    for name, box in private.region.items():
        if box.within is None and box.is_finite and not has_grid(box.lower, box.upper):
            raise Unsupported(
                f"the box of '{name}' is too narrow or too wide for double precision",
                do="shift or scale the parameter in the model",
            )
    return found


def sample_conjugate(
    private: PrivateModel,
    draws: int,
    randomness: Uniform,
    progress: Progress = lambda done: None,
) -> Draws:
    """Independent draws by name, shape (draws, *shape), on a public grid. Reads the data.

    Raises
    ------
    Unsupported
        As `conjugate_of`.
    """
    found = conjugate_of(private)
    posterior = found.posterior(private)
    if found.family == "normal_gamma":
        return _normal_gamma(found, posterior, draws, randomness)
    if found.family == "mvnormal":
        return _mvnormal(found, posterior, draws, randomness)
    if found.family == "linear":
        return _linear(private, found, posterior, draws, randomness)
    (name,) = found.names
    if found.family == "dirichlet":
        values = _dirichlet(posterior["a"], private.box[name], draws, randomness, progress)
        return {name: values}
    shape = private.shapes[name]
    columns = [
        _Coordinate.of(found, posterior, private.box[name], index) for index in np.ndindex(shape)
    ]
    values = np.empty((draws, len(columns)))
    for k in range(draws):
        values[k] = [column.draw(randomness) for column in columns]
        progress(k + 1)
    return {name: values.reshape(draws, *shape)}


class _Coordinate:
    """One coordinate of a posterior: its law, its region and its lattice."""

    def __init__(self, law: Law, low: float, high: float, scale: float) -> None:
        self.low, self.high, self.scale = low, high, scale
        self.is_boxed = low > law.support[0] or high < law.support[1]
        self.is_boxed = self.is_boxed and math.isfinite(low) and math.isfinite(high)
        if self.is_boxed:
            lattice = Lattice.even(Fraction(float(grid_width(np.array(low), np.array(high)))))
        elif isinstance(law, Beta):
            lattice = Lattice.logistic()
        elif isinstance(law, Gamma):
            lattice = Lattice.logarithmic()
        else:
            lattice = Lattice.even(Fraction(2) ** (math.floor(math.log2(scale)) - GRID_BITS))
        self.kind, self._draws = type(law), RoundedDraws(law, lattice, low, high)

    @classmethod
    def of(
        cls, found: Conjugate, posterior: dict, box: Bounds, index: tuple[int, ...]
    ) -> _Coordinate:
        """The coordinate at an index of the parameter."""
        low, high = float(box.lower[index]), float(box.upper[index])
        law: Law
        if found.family == "beta":
            law = Beta(posterior["a"][index], posterior["b"][index])
        elif found.family == "gamma":
            law = Gamma(posterior["a"][index], posterior["rate"][index])
        else:
            law = Normal(posterior["mean"][index], posterior["variance"][index])
        scale = float(found.prior["sd"][index]) if found.family == "normal" else 1.0
        return cls(law, low, high, scale)

    def draw(self, randomness: Uniform) -> float:
        """One draw: what is computed after the lattice point is a public map of it."""
        place = self._draws.draw(randomness)
        if self.is_boxed:
            ends = np.array(self.low), np.array(self.high)
            return float(round_to_grid(np.array(float(place)), *ends))
        if self.kind is Beta:
            return float(np.clip(expit(float(place)), TINY, NEXT_TO_ONE))
        if self.kind is Gamma:
            with np.errstate(over="ignore", under="ignore"):
                value = np.clip(np.exp(float(place)), TINY, np.finfo(float).max)
            return float(np.clip(value, self.low, self.high))
        rounded = round_open(np.array([[float(place)]]), np.array([self.scale]))
        return float(np.clip(rounded[0, 0], self.low, self.high))


def _dirichlet(
    alpha: np.ndarray, box: Bounds, draws: int, randomness: Uniform, progress: Progress
) -> np.ndarray:
    """By sticks: each a Beta draw, rounded; what is made of them is a map of rounded draws."""
    rest = [sum(alpha[j + 1 :], Fraction(0)) for j in range(len(alpha) - 1)]
    pair = len(alpha) == 2 and (np.any(box.lower > 0.0) or np.any(box.upper < 1.0))
    if pair:  # x and 1 - x in their intervals
        # Ends of the second entry, rounded inward: both entries stay in their certified box.
        low = float(max(box.lower[0], np.nextafter(1.0 - box.upper[1], 1.0), 0.0))
        high = float(min(box.upper[0], np.nextafter(1.0 - box.lower[1], 0.0), 1.0))
        stick = _Coordinate(Beta(alpha[0], alpha[1]), low, high, 1.0)
        first = np.array([stick.draw(randomness) for _ in range(draws)])
        return np.stack([first, 1.0 - first], axis=1)
    sticks = [
        RoundedDraws(Beta(a, b), Lattice.logistic(), 0.0, 1.0)
        for a, b in zip(alpha[:-1], rest, strict=True)
    ]
    values = np.empty((draws, len(alpha)))
    for k in range(draws):
        places = np.array([float(stick.draw(randomness)) for stick in sticks])
        left = np.append(0.0, np.cumsum(log_expit(-places)))
        logs = left + np.append(log_expit(places), 0.0)
        values[k] = np.exp(logs - np.logaddexp.reduce(logs))
        progress(k + 1)
    return values


def _normal_gamma(found: Conjugate, posterior: dict, draws: int, randomness: Uniform) -> Draws:
    """Precision by its inverse CDF, then the mean given it: exact in real arithmetic."""
    m, kappa, a, rate = (float(posterior[k][()]) for k in ("m", "kappa", "a", "rate"))
    precision = np.maximum(gammaincinv(a, randomness.uniform(draws)) / rate, TINY)
    mean = m + normal(randomness, draws) / np.sqrt(kappa * precision)
    prior = {k: float(found.prior[k][()]) for k in ("kappa", "a", "rate")}
    usual = prior["a"] / prior["rate"]
    scales = (1.0 / math.sqrt(prior["kappa"] * usual), 0.0)
    values = [
        round_open(column[:, None], np.array([scale]))[:, 0]
        for column, scale in zip((mean, precision), scales, strict=True)
    ]
    return dict(zip(found.names, values, strict=True))


def _mvnormal(found: Conjugate, posterior: dict, draws: int, randomness: Uniform) -> Draws:
    """By a Cholesky factor of the precision: exact in real arithmetic."""
    factor = np.linalg.cholesky(posterior["precision"])
    noise = np.linalg.solve(factor.T, normal(randomness, len(factor), draws))
    values = posterior["mean"] + noise.T
    return {found.names[0]: round_open(values, np.sqrt(np.diag(found.prior["cov"])))}


def _linear(
    private: PrivateModel, found: Conjugate, posterior: dict, draws: int, randomness: Uniform
) -> Draws:
    """All coefficients at once, as for a mean vector, then each by its name."""
    factor = np.linalg.cholesky(posterior["precision"])
    noise = np.linalg.solve(factor.T, normal(randomness, len(factor), draws))
    values = round_open(posterior["mean"] + noise.T, found.prior["sd"])
    shapes = [private.shapes[name] for name in found.names]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    return {
        name: part.reshape(draws, *shape)
        for name, part, shape in zip(
            found.names, np.split(values, ends, axis=1), shapes, strict=True
        )
    }
