"""Exact draws from conjugate posteriors, truncated to a box or not.

Beta, Gamma, normal and Dirichlet posteriors are drawn by correctly rounded inverse CDFs
(`inverse_cdf`), from sums of the data without rounding: the claim is proved for the bits that
are released. Normal-gamma and multivariate normal posteriors, also those of linear regression,
are exact in real arithmetic.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.special import expit, gammaincinv, log_expit

from pymc_private.analysis import Bounds
from pymc_private.certificates.conjugate import recognize_conjugate
from pymc_private.certificates.conjugate_families import ConjugateModel
from pymc_private.errors import Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.samplers.inverse_cdf import (
    BetaDistribution,
    GammaDistribution,
    NormalDistribution,
    RoundedDraws,
    RoundingGrid,
    UnivariateDistribution,
)
from pymc_private.samplers.randomness import (
    GRID_BITS,
    Draws,
    Progress,
    Randomness,
    grid_width,
    has_grid,
    round_to_grid,
    round_unbounded,
    standard_normal,
)

STRICT_FAMILIES = ("beta", "gamma", "normal", "dirichlet")
"""Families whose draws are proved in floating point."""
SMALLEST_NORMAL, LARGEST_BELOW_ONE = float(np.finfo(float).tiny), 1.0 - 2.0**-53


def conjugate_model(private: PrivateModel) -> ConjugateModel:
    """Conjugate form of a model, if this sampler draws from it. Reads no data.

    Raises
    ------
    Unsupported
        The model is not recognized as conjugate, or its posterior is truncated to a region on
        which it has no inverse CDF.
    """
    found = recognize_conjugate(private)
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
    multivariate = found.family in ("normal_gamma", "mvnormal", "linear") or (
        found.family == "dirichlet" and private.shapes[found.names[0]][0] > 2
    )
    if multivariate and any(name in private.region for name in found.names):
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
    randomness: Randomness,
    progress: Progress = lambda done: None,
) -> Draws:
    """Independent draws by name, shape (draws, *shape), on a public grid. Reads the data.

    Raises
    ------
    Unsupported
        As `conjugate_model`.
    """
    found = conjugate_model(private)
    posterior = found.posterior(private)
    if found.family == "normal_gamma":
        return _draw_normal_gamma(found, posterior, draws, randomness)
    if found.family == "mvnormal":
        return _draw_mvnormal(found, posterior, draws, randomness)
    if found.family == "linear":
        return _draw_linear(private, found, posterior, draws, randomness)
    (name,) = found.names
    if found.family == "dirichlet":
        values = _draw_dirichlet(posterior["a"], private.box[name], draws, randomness, progress)
        return {name: values}
    shape = private.shapes[name]
    coordinates = [
        _CoordinateDraws.of(found, posterior, private.box[name], index)
        for index in np.ndindex(shape)
    ]
    values = np.empty((draws, len(coordinates)))
    for k in range(draws):
        values[k] = [coordinate.draw(randomness) for coordinate in coordinates]
        progress(k + 1)
    return {name: values.reshape(draws, *shape)}


class _CoordinateDraws:
    """Draws of one coordinate: its distribution, truncated to a region, on a rounding grid."""

    def __init__(
        self, distribution: UnivariateDistribution, low: float, high: float, scale: float
    ) -> None:
        self.low, self.high, self.scale = low, high, scale
        self.is_boxed = low > distribution.support[0] or high < distribution.support[1]
        self.is_boxed = self.is_boxed and math.isfinite(low) and math.isfinite(high)
        if self.is_boxed:
            grid = RoundingGrid.linear(Fraction(float(grid_width(np.array(low), np.array(high)))))
        elif isinstance(distribution, BetaDistribution):
            grid = RoundingGrid.logistic()
        elif isinstance(distribution, GammaDistribution):
            grid = RoundingGrid.logarithmic()
        else:
            grid = RoundingGrid.linear(Fraction(2) ** (math.floor(math.log2(scale)) - GRID_BITS))
        self.family, self._draws = type(distribution), RoundedDraws(distribution, grid, low, high)

    @classmethod
    def of(
        cls, found: ConjugateModel, posterior: dict, box: Bounds, index: tuple[int, ...]
    ) -> _CoordinateDraws:
        """The coordinate at an index of the parameter."""
        low, high = float(box.lower[index]), float(box.upper[index])
        distribution: UnivariateDistribution
        if found.family == "beta":
            distribution = BetaDistribution(posterior["a"][index], posterior["b"][index])
        elif found.family == "gamma":
            distribution = GammaDistribution(posterior["a"][index], posterior["rate"][index])
        else:
            distribution = NormalDistribution(
                posterior["mean"][index], posterior["variance"][index]
            )
        scale = float(found.prior["sd"][index]) if found.family == "normal" else 1.0
        return cls(distribution, low, high, scale)

    def draw(self, randomness: Randomness) -> float:
        """One draw; everything computed after the grid point is a public map of it."""
        position = self._draws.draw(randomness)
        if self.is_boxed:
            low, high = np.array(self.low), np.array(self.high)
            return float(round_to_grid(np.array(float(position)), low, high))
        if self.family is BetaDistribution:
            return float(np.clip(expit(float(position)), SMALLEST_NORMAL, LARGEST_BELOW_ONE))
        if self.family is GammaDistribution:
            with np.errstate(over="ignore", under="ignore"):
                value = np.clip(np.exp(float(position)), SMALLEST_NORMAL, np.finfo(float).max)
            return float(np.clip(value, self.low, self.high))
        rounded = round_unbounded(np.array([[float(position)]]), np.array([self.scale]))
        return float(np.clip(rounded[0, 0], self.low, self.high))


def _draw_dirichlet(
    alpha: np.ndarray, box: Bounds, draws: int, randomness: Randomness, progress: Progress
) -> np.ndarray:
    """Stick-breaking with rounded Beta draws: the result is a map of rounded draws."""
    remainders = [sum(alpha[j + 1 :], Fraction(0)) for j in range(len(alpha) - 1)]
    is_truncated = len(alpha) == 2 and (np.any(box.lower > 0.0) or np.any(box.upper < 1.0))
    if is_truncated:  # x and 1 - x in their intervals
        # Bounds of the second entry, rounded inward: both entries stay in their certified box.
        low = float(max(box.lower[0], np.nextafter(1.0 - box.upper[1], 1.0), 0.0))
        high = float(min(box.upper[0], np.nextafter(1.0 - box.lower[1], 0.0), 1.0))
        stick = _CoordinateDraws(BetaDistribution(alpha[0], alpha[1]), low, high, 1.0)
        first = np.array([stick.draw(randomness) for _ in range(draws)])
        return np.stack([first, 1.0 - first], axis=1)
    sticks = [
        RoundedDraws(BetaDistribution(a, b), RoundingGrid.logistic(), 0.0, 1.0)
        for a, b in zip(alpha[:-1], remainders, strict=True)
    ]
    values = np.empty((draws, len(alpha)))
    for k in range(draws):
        positions = np.array([float(stick.draw(randomness)) for stick in sticks])
        left = np.append(0.0, np.cumsum(log_expit(-positions)))
        logs = left + np.append(log_expit(positions), 0.0)
        values[k] = np.exp(logs - np.logaddexp.reduce(logs))
        progress(k + 1)
    return values


def _draw_normal_gamma(
    found: ConjugateModel, posterior: dict, draws: int, randomness: Randomness
) -> Draws:
    """Precision by its inverse CDF, then the mean given it; exact in real arithmetic."""
    m, kappa, a, rate = (float(posterior[k][()]) for k in ("m", "kappa", "a", "rate"))
    precision = np.maximum(gammaincinv(a, randomness.uniform(draws)) / rate, SMALLEST_NORMAL)
    mean = m + standard_normal(randomness, draws) / np.sqrt(kappa * precision)
    prior = {k: float(found.prior[k][()]) for k in ("kappa", "a", "rate")}
    usual = prior["a"] / prior["rate"]
    scales = (1.0 / math.sqrt(prior["kappa"] * usual), 0.0)
    values = [
        round_unbounded(column[:, None], np.array([scale]))[:, 0]
        for column, scale in zip((mean, precision), scales, strict=True)
    ]
    return dict(zip(found.names, values, strict=True))


def _draw_mvnormal(
    found: ConjugateModel, posterior: dict, draws: int, randomness: Randomness
) -> Draws:
    """A mean vector by a Cholesky factor of the precision; exact in real arithmetic."""
    factor = np.linalg.cholesky(posterior["precision"])
    noise = np.linalg.solve(factor.T, standard_normal(randomness, len(factor), draws))
    values = posterior["mean"] + noise.T
    return {found.names[0]: round_unbounded(values, np.sqrt(np.diag(found.prior["cov"])))}


def _draw_linear(
    private: PrivateModel,
    found: ConjugateModel,
    posterior: dict,
    draws: int,
    randomness: Randomness,
) -> Draws:
    """All regression coefficients as one vector (`_draw_mvnormal`), then split by name."""
    factor = np.linalg.cholesky(posterior["precision"])
    noise = np.linalg.solve(factor.T, standard_normal(randomness, len(factor), draws))
    values = round_unbounded(posterior["mean"] + noise.T, found.prior["sd"])
    shapes = [private.shapes[name] for name in found.names]
    splits = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    return {
        name: part.reshape(draws, *shape)
        for name, part, shape in zip(
            found.names, np.split(values, splits, axis=1), shapes, strict=True
        )
    }
