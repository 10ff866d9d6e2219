r"""The likelihood of pooled releases: p normal numbers whose mean is reweighted records (T34).

All released sums z are read together around theta^, their mode:

    z ~ N(n m(theta), Sigma),   Sigma = n V + diag(s^2) + (n^2 / N)(V - B A^-1 B'),

V the joint covariance of all terms at theta^ (they read the same records) and the last part the
error of m(theta^) itself, which N simulated records give. With B = dm/dtheta there, Q an
orthonormal basis of Sigma^(-1/2) n B and G = Q' Sigma^(-1/2), the p numbers G z say all that z
does to first order. Their mean is nonlinear: over reference records of a mixture of theta^ and
seven other parameter vectors, with weights w(theta) proportional to p(. | theta) / mixture,

    G m(theta) = G m(theta^) + S G sum (w(theta) - w(theta^)) psi + R (theta - theta^),

so that value and slope at theta^ are those of many more records; R, what S leaves of the slope, is
mostly 0 (`stretched_mean`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from scipy.special import logsumexp

from pymc_private.errors import Incompatible
from pymc_private.summaries.density.numpy_likelihood import NumpyLikelihood
from pymc_private.summaries.records.pooled_mode import (
    NoisySum,
    PooledModel,
    RecordCount,
    SimulatedMoments,
    pooled_mode,
    simulated_moments,
    sum_covariance,
)
from pymc_private.summaries.records.pooled_terms import PooledTerms
from pymc_private.summaries.records.record_scores import WholeRecordDensity
from pymc_private.summaries.records.record_simulator import MadeUpRecords
from pymc_private.summaries.scores.score_model import checked_potential
from pymc_private.summaries.scores.symmetric import matrix_power
from pymc_private.summaries.stretched_mean import stretch

REFERENCE_RECORDS, MIXTURE = 1000, 8
"""Reference records, and the parameter vectors that they are simulated at."""
FEWEST_RECORDS, RECORDS_FOR_EACH = 10_000, 8
"""Records for the moments at theta^: so many, or so many times n."""
MODE_RECORDS, MODE_STEPS = 4000, 8
"""Records and Gauss-Newton steps for theta^."""
DRAWS = 60
"""Draws from the normal approximation at which the weights of the reference are judged."""
AGREEMENT = 1e-8
"""Most difference of the numbers at theta^ from what they were made to be there."""
OUTCOME = "outcome:"
"""Before the names of outcomes among the arrays of a likelihood."""


@dataclass(frozen=True, eq=False)
class PooledRecordLikelihood:
    """The likelihood of pooled releases as named constants.

    With mass = softmax(log p(records | theta) + base), the log-likelihood is -|e|^2 / 2,
    e = observed - mass terms - slope (theta - center).

    Attributes
    ----------
    reference : MadeUpRecords
    base : array, shape (N,)
        Minus the log density of the mixture that the records are from.
    terms : array, shape (N, p)
        n S G psi, with the slope of more records at theta^ (`stretched_mean`).
    observed : array, shape (p,)
        G z, less what more records add to the mean at theta^.
    slope : array, shape (p, p)
        What S leaves of their slope; mostly 0.
    center, covariance : array, shapes (p,) and (p, p)
        theta^ and a normal approximation there.
    expected : array, shape (p,)
        e at theta^, by the moments of many records.
    """

    reference: MadeUpRecords
    base: np.ndarray
    terms: np.ndarray
    observed: np.ndarray
    slope: np.ndarray
    center: np.ndarray
    covariance: np.ndarray
    expected: np.ndarray

    def mass(self, density: WholeRecordDensity, theta: np.ndarray) -> np.ndarray:
        """Weights of the reference at vectors (S, p), shape (S, N); equal where none has any."""
        reference = self.reference
        logs = density.log_density(theta, reference.outcomes, reference.kinds) + self.base
        logs = np.where(np.isnan(logs), -np.inf, logs)
        with np.errstate(all="ignore"):
            mass = np.exp(logs - logs.max(axis=1, keepdims=True))
            return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def log_likelihood(self, density: WholeRecordDensity, theta: np.ndarray) -> np.ndarray:
        """Log-likelihood up to a constant at vectors (S, p), shape (S,)."""
        theta = np.atleast_2d(np.asarray(theta, dtype=float))
        away = theta - self.center
        with np.errstate(all="ignore"):
            rest = self.observed - self.mass(density, theta) @ self.terms - away @ self.slope.T
            found = -0.5 * (rest**2).sum(axis=1)
        return np.where(np.isfinite(found), found, -np.inf)

    def __call__(
        self, logs: np.ndarray, theta: np.ndarray
    ) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
        """Value and derivatives in log densities of the reference (N,) and parameters (p,)."""
        with np.errstate(all="ignore"):
            mass = logs + self.base
            mass = np.exp(mass - mass.max())
            mass /= mass.sum()
            rest = self.observed - mass @ self.terms - self.slope @ (theta - self.center)
            weight = self.terms @ rest
            slopes = mass * (weight - mass @ weight), rest @ self.slope
            return -0.5 * float(rest @ rest), slopes

    def symbolic(self, logs: Variable, theta: Variable) -> Variable:
        """The value as a graph."""
        mass = pt.special.softmax(logs + self.base)
        rest = self.observed - pt.dot(mass, self.terms)
        rest = rest - pt.dot(self.slope, theta - self.center)
        return -0.5 * (rest**2).sum()

    def arrays(self) -> dict[str, np.ndarray]:
        """All constants, for storage."""
        found = {f"{OUTCOME}{name}": v for name, v in self.reference.outcomes.items()}
        found["kinds"] = self.reference.kinds
        names = [f.name for f in fields(self) if f.name != "reference"]
        return found | {name: getattr(self, name) for name in names}

    @classmethod
    def stored(cls, released: Mapping[str, np.ndarray]) -> PooledRecordLikelihood:
        """The likelihood that `arrays` stored."""
        outcomes = {
            name.removeprefix(OUTCOME): np.asarray(v)
            for name, v in released.items()
            if name.startswith(OUTCOME)
        }
        reference = MadeUpRecords(outcomes, np.asarray(released["kinds"]).astype(int))
        names = [f.name for f in fields(cls) if f.name != "reference"]
        return cls(reference, **{name: np.asarray(released[name], float) for name in names})


@dataclass(frozen=True)
class Quality:
    """How far the constants of a likelihood may be trusted.

    Attributes
    ----------
    distance : float
        |W^-1 (theta^ - theta_T)|: from the last release to the mode, in units of one record.
    effective : float
        Share of the reference that carries the weight at posterior draws, its lowest decile.
    misfit, freedom : float
        Chi^2 of what G leaves of z, and its degrees of freedom.
    """

    distance: float
    effective: float
    misfit: float
    freedom: float


def pooled_record_likelihood(
    model: PooledModel,
    releases: Sequence[NoisySum],
    start: np.ndarray,
    root: np.ndarray,
    count: RecordCount,
    seed: int,
) -> tuple[PooledRecordLikelihood, Quality]:
    """Constants of the likelihood of all releases.

    Parameters
    ----------
    start : array, shape (p,)
        Where the last release was taken.
    root : array, shape (p, p)
        W^-1 there.
    """
    n, terms = count.value, [r.terms for r in releases]
    center, covariance = pooled_mode(
        model, start, releases, count, seed, records=MODE_RECORDS, steps=MODE_STEPS, joint=True
    )
    many = max(FEWEST_RECORDS, int(RECORDS_FOR_EACH * n))
    sample = model.simulator.draw(center, many, seed + 1)
    found = simulated_moments(model.density, center, terms, sample)
    noise = np.concatenate([np.full(len(r.value), r.sd**2) for r in releases])
    sigma = sum_covariance(found, noise, count) + n**2 / len(sample) * found.left
    white = matrix_power(sigma, -0.5)
    basis = np.linalg.qr(n * white @ found.slope)[0]
    projection = basis.T @ white
    value = np.concatenate([r.value for r in releases])
    expected = value - n * found.mean
    likelihood = _corrected(
        model, terms, found, n, (center, covariance), (projection, expected), seed + 2
    )
    rest = white @ expected
    misfit = float(rest @ rest - (basis.T @ rest) @ (basis.T @ rest))
    quality = Quality(
        float(np.linalg.norm(root @ (center - start))),
        _effective_share(likelihood, model, seed + 3),
        misfit,
        float(len(value) - len(center)),
    )
    return likelihood, quality


def _corrected(
    model: PooledModel,
    terms: Sequence[PooledTerms],
    found: SimulatedMoments,
    n: float,
    normal: tuple[np.ndarray, np.ndarray],
    projected: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> PooledRecordLikelihood:
    """The likelihood on a small reference, with mean and slope of a large sample at the center.

    `normal`: center and covariance; `projected`: A and what the sums differ from their means by.
    """
    (center, covariance), (projection, expected) = normal, projected
    reference, base = _reference(model, center, covariance, seed)
    psi = np.column_stack([one.made_up(reference) for one in terms])
    trial = PooledRecordLikelihood(
        reference, base, n * psi @ projection.T, *_nothing(len(center)), center, covariance,
        expected=np.zeros(len(center)),
    )  # fmt: skip
    mass = trial.mass(model.density, center[None])[0]
    scores = model.density.at(center).scores(reference.outcomes, reference.kinds)
    known = (psi * mass[:, None]).T @ scores - np.outer(mass @ psi, mass @ scores)
    wide, narrow = n * projection @ found.slope, n * projection @ known
    grown = stretch(wide, narrow)
    grown_terms = trial.terms @ grown.T
    return replace(
        trial,
        terms=grown_terms,
        observed=projection @ expected + mass @ grown_terms,
        slope=wide - grown @ narrow,
        expected=projection @ expected,
    )


def _nothing(p: int) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(p), np.zeros((p, p))


def _reference(
    model: PooledModel, center: np.ndarray, covariance: np.ndarray, seed: int
) -> tuple[MadeUpRecords, np.ndarray]:
    """Records of a mixture around theta^, and minus its log density at them."""
    p, rng = len(center), np.random.default_rng(seed)
    spread = rng.standard_normal((MIXTURE - 1, p)) @ matrix_power(covariance, 0.5)
    points = np.concatenate([center[None], center + spread])
    samples = [
        model.simulator.draw(theta, REFERENCE_RECORDS // MIXTURE, seed + k)
        for k, theta in enumerate(points)
    ]
    size = min(REFERENCE_RECORDS // MIXTURE, *(len(one) for one in samples))
    parts = [one.part(rng.permutation(len(one))[:size]) for one in samples]
    joined = MadeUpRecords.joined(parts)
    logs = model.density.log_density(points, joined.outcomes, joined.kinds)
    return joined, np.log(MIXTURE) - logsumexp(np.where(np.isnan(logs), -np.inf, logs), axis=0)


def _effective_share(likelihood: PooledRecordLikelihood, model: PooledModel, seed: int) -> float:
    """The lowest decile, over draws around theta^, of the effective share of the reference."""
    rng, p = np.random.default_rng(seed), len(likelihood.center)
    away = rng.standard_normal((DRAWS, p)) @ matrix_power(likelihood.covariance, 0.5)
    mass = likelihood.mass(model.density, likelihood.center + away)
    shares = 1.0 / (mass**2).sum(axis=1) / mass.shape[1]
    return float(np.quantile(np.nan_to_num(shares), 0.1))


def pooled_potential(
    likelihood: PooledRecordLikelihood,
    density: WholeRecordDensity,
    parameters: Mapping[str, Variable],
) -> Any:
    """The log-likelihood as a graph of a model's parameters, checked.

    Raises
    ------
    Incompatible
        The model's own density gives other numbers at theta^ than those it was built with, or value
        or gradient differ from those of the NumPy form.
    """
    center = likelihood.center
    mass = likelihood.mass(density, center[None])[0]
    gap = np.abs(likelihood.observed - mass @ likelihood.terms - likelihood.expected).max()
    if not gap <= AGREEMENT * (1.0 + np.abs(likelihood.observed).max()):
        raise Incompatible(
            "the density of this model is not the one that the summary was built with",
            got=f"numbers {gap:.2g} apart at the center",
            allowed="the model as it was summarized",
        )

    def written(natural: Mapping[str, Variable]) -> Variable:
        theta = density.parameters.symbolic_vector(natural)
        reference = likelihood.reference
        logs = density.symbolic_log_density(natural, reference.outcomes, reference.kinds)
        whole = pt.second(pt.constant(np.zeros_like(likelihood.base)), logs)
        value, *_ = NumpyLikelihood(likelihood)(whole, theta)
        return value

    return checked_potential(
        written,
        parameters,
        density.parameters,
        lambda theta: likelihood.log_likelihood(density, theta),
        (center, likelihood.covariance),
    )
