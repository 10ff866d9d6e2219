"""A small mechanism whose posterior is known: a normal mean, a noisy sum of clipped values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.privacy import Guarantee
from pymc_private.summaries.choose_mechanism import SummaryRequest
from pymc_private.summaries.noise import largest_mu
from pymc_private.summaries.parameters import ParameterVector
from pymc_private.summaries.protocol import Caution

BOUND = 3.0


class NormalSum:
    """The sum of y, y ~ Normal(theta, 1), clipped to [-3, 3], with noise."""

    method = "sums"
    stages = ("sum",)

    def __init__(self, private: pmp.PrivateModel, request: SummaryRequest) -> None:
        self.mu = largest_mu(request.epsilon, request.delta)
        self.n = float(private.n)
        self.parameters = ParameterVector(private)
        self.guarantee = Guarantee.gdp_of(self.mu, neighbors=private.neighbors, theorem="T30, T31")
        self.sd = 2.0 * BOUND * private.records_per_unit / self.mu
        ratio = self.n**2 * float(self.parameters.covariance[0, 0]) / self.variance
        self.information = 0.5 * float(np.log1p(ratio))
        self.variance_left = np.array([1.0 / (1.0 + ratio)])
        self.facts = {"bound": BOUND, "mu": self.mu}

    @property
    def variance(self) -> float:
        return self.n + self.sd**2

    def release(self, records: Any, noise: Any, progress: Any = None) -> dict[str, np.ndarray]:
        found = noise.total([np.asarray(records["y"])[:, None]], BOUND, False, self.mu)
        if progress is not None:
            progress(1)
        return {"sum": found, "n": np.array(self.n)}

    def log_likelihood(self, released: Any) -> Any:
        total = float(released["sum"][0])
        return lambda theta: -0.5 * (total - self.n * theta[:, 0]) ** 2 / self.variance

    def start(self, released: Any) -> tuple[np.ndarray, np.ndarray]:
        precision = 1.0 / self.parameters.covariance[0, 0] + self.n**2 / self.variance
        center = self.n * float(released["sum"][0]) / self.variance / precision
        return np.array([center]), np.array([[1.0 / precision]])

    def potential(self, released: Any, parameters: Any) -> Any:
        gap = float(released["sum"][0]) - self.n * parameters["theta"].sum()
        return -0.5 * gap**2 / self.variance

    def warnings(self, released: Any) -> list[Caution]:
        far = abs(float(released["sum"][0])) > 2.0 * self.n
        return [Caution("the mean lies far out", refuse=True)] if far else []


def normal_model(values: np.ndarray, prior_sd: float = 1.0) -> pm.Model:
    with pm.Model(coords={"person": range(len(values))}) as model:
        theta = pm.Normal("theta", 0.0, prior_sd)
        pm.Deterministic("double", 2.0 * theta)
        pm.Normal("y", theta, 1.0, observed=values, dims="person")
    return model


def normal_private(values: np.ndarray, **words: Any) -> pmp.PrivateModel:
    model = normal_model(values, words.pop("prior_sd", 1.0))
    return pmp.privatize(model, records="person", domain={"y": (-3, 3)}, **words)
