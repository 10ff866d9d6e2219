"""Record models by hand, with the interface of a density and its nodes: oracles for T36.

theta = (intercept, slopes[, log scale]) with normal priors; covariates in one array `x`.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from scipy.special import expit, gammaln, pdtr
from scipy.stats import t as student


@dataclass
class NormalParameters:
    """Independent normal priors of an unconstrained vector."""

    mean: np.ndarray
    deviations: np.ndarray
    size: int = field(init=False)

    def __post_init__(self):
        self.mean = np.asarray(self.mean, float)
        self.size = len(self.mean)

    @property
    def names(self):
        return ("theta",)

    @property
    def covariance(self):
        return np.diag(np.asarray(self.deviations, float) ** 2)

    def draws(self, count, seed):
        rng = np.random.default_rng(seed)
        return self.mean + self.deviations * rng.standard_normal((count, self.size))

    def log_prior(self, theta):
        return -0.5 * (((theta - self.mean) / self.deviations) ** 2).sum(axis=1)


def design(rows):
    return np.column_stack([np.ones(len(rows["x"])), rows["x"]])


class LinearPredictor:
    """One linear predictor and, with `scale`, a free log scale as the second."""

    scale = False

    def __init__(self, mean, sd):
        self.parameters = NormalParameters(mean, np.asarray(sd, float))

    def predictors(self, theta, rows):
        a = design(rows)
        eta = a @ theta[: a.shape[1]]
        return np.column_stack([eta, np.full(len(eta), theta[-1])]) if self.scale else eta[:, None]

    def jacobian(self, theta, rows):
        a = design(rows)
        if not self.scale:
            return a[:, None, :]
        found = np.zeros((len(a), 2, a.shape[1] + 1))
        found[:, 0, :-1] = a
        found[:, 1, -1] = 1.0
        return found

    def log_density(self, theta, rows, y):
        a = design(rows)
        eta = (theta[:, : a.shape[1]] @ a.T)[:, :, None]
        return self.at(eta, theta[:, -1][:, None, None], y)

    def log_likelihood(self, theta, rows, y):
        size = max(1, int(1e6) // len(y))
        parts = [
            self.log_density(theta[k : k + size], rows, y[:, None]).sum(axis=(1, 2))
            for k in range(0, len(theta), size)
        ]
        return np.concatenate(parts)

    def as_nodes(self, values, mass):
        return SimpleNamespace(values=values, mass=mass, clipped=values)


class Logistic(LinearPredictor):
    def at(self, eta, _, y):
        return y * eta - np.logaddexp(0, eta)

    def scores(self, predictors, rows, y):
        return (y - expit(predictors[:, :1]))[:, :, None]

    def nodes(self, predictors, rows):
        p = expit(predictors[:, 0])
        values = np.broadcast_to([0.0, 1.0], (len(p), 2))
        return self.as_nodes(values, np.stack([1 - p, p], 1))

    def draw(self, theta, rows, rng):
        return (rng.random(len(rows["x"])) < expit(self.predictors(theta, rows)[:, 0])) * 1.0


class Normal(LinearPredictor):
    scale = True
    degrees = None

    def __init__(self, mean, sd, points=49):
        super().__init__(mean, sd)
        self.z = np.linspace(-6, 6, points)
        self.mass = np.exp(-(self.z**2) / 2) / np.exp(-(self.z**2) / 2).sum()

    def at(self, eta, log_scale, y):
        z = (y - eta) * np.exp(-log_scale)
        if self.degrees is None:
            return -z * z / 2 - log_scale
        return -(self.degrees + 1) / 2 * np.log1p(z * z / self.degrees) - log_scale

    def scores(self, predictors, rows, y):
        scale = np.exp(predictors[:, 1:])
        z = (y - predictors[:, :1]) / scale
        pull = z if self.degrees is None else (self.degrees + 1) * z / (self.degrees + z * z)
        return np.stack([pull / scale, pull * z - 1], -1)

    def nodes(self, predictors, rows):
        values = predictors[:, :1] + np.exp(predictors[:, 1:]) * self.z
        return self.as_nodes(values, np.broadcast_to(self.mass, values.shape))

    def noise(self, rng, n):
        if self.degrees is None:
            return rng.standard_normal(n)
        return rng.standard_t(self.degrees, n)

    def draw(self, theta, rows, rng):
        eta = self.predictors(theta, rows)[:, 0]
        return eta + np.exp(theta[-1]) * self.noise(rng, len(eta))


class StudentT(Normal):
    degrees = 5

    def __init__(self, mean, sd):
        super().__init__(mean, sd)
        x, w = np.polynomial.legendre.leggauss(48)
        self.z, self.mass = student.ppf((x + 1) / 2, self.degrees), w / 2


class Poisson(LinearPredictor):
    def at(self, eta, _, y):
        eta = np.clip(eta, -30, 9)
        return y * eta - np.exp(eta)

    def scores(self, predictors, rows, y):
        return (y - np.exp(np.clip(predictors, -30, 6.5)))[:, :, None]

    def nodes(self, predictors, rows):
        mean, count = np.exp(np.clip(predictors[:, 0], -30, 6.5)), 60
        low = np.maximum(0, np.floor(mean - 7 * np.sqrt(mean) - 3))
        width = np.ceil(np.ceil(mean + 8 * np.sqrt(mean) + 20 - low) / count).clip(1)
        left = low[:, None] + np.arange(count) * width[:, None]
        right = left + width[:, None] - 1
        below = np.where(left > 0, pdtr(np.maximum(left - 1, 0), mean[:, None]), 0)
        mass = np.maximum(pdtr(right, mean[:, None]) - below, 1e-300)
        return self.as_nodes(np.round((left + right) / 2), mass)

    def draw(self, theta, rows, rng):
        return rng.poisson(np.exp(self.predictors(theta, rows)[:, 0])) * 1.0


class NegativeBinomial(LinearPredictor):
    """Mean exp(eta), variance mean + alpha mean^2; the last parameter is log alpha."""

    scale = True

    def at(self, eta, log_alpha, y):
        mean, k = np.exp(np.clip(eta, -30, 7)), np.exp(-np.clip(log_alpha, -6, 4))
        levels, place = np.unique(y, return_inverse=True)
        table = gammaln(levels + k[:, 0]) - gammaln(k[:, 0])
        first = table[:, place.reshape(-1)].reshape((len(k), *np.shape(y)))
        return first - k * np.log1p(mean / k) + y * (np.log(mean) - np.log(k + mean))

    def scores(self, predictors, rows, y):
        from scipy.special import digamma

        mean = np.exp(np.clip(predictors[:, :1], -30, 7))
        alpha = np.exp(np.clip(predictors[:, 1:], -6, 4))
        k = 1 / alpha
        d = digamma(y + k) - digamma(k) + np.log(k / (k + mean)) + (mean - y) / (k + mean)
        return np.stack([(y - mean) / (1 + alpha * mean), -k * d], -1)

    def nodes(self, predictors, rows):
        from scipy.special import betainc

        mean = np.exp(np.clip(predictors[:, 0], -30, 7))
        alpha = np.exp(np.clip(predictors[:, 1], -6, 4))
        sd = np.sqrt(mean + alpha * mean**2)
        high = np.ceil(mean + 10 * sd * (1 + alpha) + 30)
        exact, count = 14, 44
        growth = (
            np.linspace(0, 1, count - exact + 1)
            * np.log(np.maximum(high - exact, count - exact + 1) + 1)[:, None]
        )
        edges = exact + np.maximum(np.floor(np.exp(growth) - 1), np.arange(count - exact + 1))
        singles = np.broadcast_to(np.arange(float(exact)), (len(mean), exact))
        left = np.column_stack([singles, edges[:, :-1]])
        right = np.column_stack([singles, edges[:, 1:] - 1])
        q = (1 / alpha / (1 / alpha + mean))[:, None]
        k = (1 / alpha)[:, None]
        below = np.where(left > 0, betainc(k, np.maximum(left - 1, 0) + 1, q), 0)
        mass = np.maximum(betainc(k, right + 1, q) - below, 1e-300)
        return self.as_nodes(np.round((left + right) / 2), mass)

    def draw(self, theta, rows, rng):
        k = np.exp(-theta[-1])
        mean = np.exp(self.predictors(theta, rows)[:, 0])
        return rng.poisson(mean * rng.gamma(k, 1 / k, len(mean))) * 1.0
