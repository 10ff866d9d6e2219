r"""The likelihood of released scores: all rounds pooled, projected to p numbers (T36).

Released are z_s = sum psi_s + N(0, s_s^2 I) of the pilots, the same of the final score (s = T), and
H~, a noisy sum of w B of the final one. With m_s(theta) = n E_ref E_y[psi_s | x, theta],
A_s = n E_ref[w B_s], H_pub = A_T and D = H_pub^-1/2 H H_pub^-1/2,

    E z_s = A_s^1/2 D A_s^-1/2 m_s(theta):

the reference gives the shape of the mean, the data its size through H, so that n and the
distribution of the covariates matter little. Around it z varies by

- L V L': outcomes. V is the joint second moment of all psi at theta^ less m m' / n, and
  L = blockdiag(A_s^1/2 D^1/2 A_s^-1/2);
- s_s^2 I: the noise of the sums;
- tau^2/2 K_s [(e_s . e_t) I + e_t e_s'] K_t' for every pair of rounds: the noise of H, common to
  all, K_s = A_s^1/2 H_pub^-1/2, e_s = H_pub^-1/2 A_s^-1/2 m_s;
- r^2/2 A_s^1/2 (|d|^2 I + d d') A_s^1/2, d = A_s^-1/2 m_s, of each pilot by itself: what the
  reference gets wrong about the distribution of the covariates. Common to all pilots it would
  cancel in differences of them, which would then be trusted too much.

Generalized least squares at theta^, the mode of all releases, projects z to p numbers: with Sigma
the covariance averaged over the posterior, B the derivatives of the means, F = B' Sigma^-1 B and
G = F^-1/2 B' Sigma^-1,

    G z ~ N(G m(theta), v(theta)/v(theta^) G L V L' G' + G diag(s^2) G' + the two others),

m on a small reference whose terms are stretched, with value and derivatives of a large one at
theta^ (`stretched_mean`); v the second moment of the projected terms, whose ratio is held within
1/20 and 20. Nothing but released numbers and the model enters.

The two others grow with the means, that is, away from theta^, so that what scores say against a
parameter is bounded. With many groups posteriors then strayed to larger scales of the outcomes, and
the two are held at their average around the mode of what was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pymc_private.summaries.scores.clipped_scores import ClippedRows, RecordModel, Rows
from pymc_private.summaries.scores.independent_numbers import IndependentNumbers
from pymc_private.summaries.scores.pilot import (
    ModelAtPoint,
    NoisyScore,
    NormalPrior,
    model_at_point,
    score_mean,
)
from pymc_private.summaries.scores.pilot_part import RecordKinds
from pymc_private.summaries.scores.quadratic_noise import (
    NoiseOfRounds,
    RoundNoise,
    StructuredNoise,
    between,
)
from pymc_private.summaries.scores.row_products import RowBlocks, without_zeros
from pymc_private.summaries.scores.symmetric import matrix_power, symmetric_part
from pymc_private.summaries.stretched_mean import stretch

LEAST_VARIANCE_RATIO, MOST_VARIANCE_RATIO = 0.05, 20.0
"""Between these the variance of outcomes may move away from theta^."""
MOST_NUMBERS = 150_000
"""Numbers of one batch: parameter vectors times nodes."""
PILOT_ERROR = 0.01
"""Share of the variance of outcomes that is added to each pilot by itself."""
MANY_GROUPS = 25
"""Coefficients of groups from which on noise that depends on parameters is averaged: with 10 groups
intervals of slopes would be too short by it, with 30 scales are too large without it (measured).
Their terms are not stretched, either, and keep their zeros: each group has rows of its own, so that
little is to be stretched."""
MODE_STEPS, LONGEST_STEP = 4, 3.0
"""Steps to the mode around which noise is averaged, and the longest, in standard deviations."""
NO_MASS = -1000.0
"""Log base of a node that has no mass at theta^."""


@dataclass(frozen=True, eq=False)
class PooledLikelihood:
    """The likelihood of released scores as named constants: p normal numbers of nonlinear mean.

    At theta, node masses are w = softmax_q(log p(y_q | x, theta) + base), the means of all rounds
    m = (w . node_terms)[:-1] + correction + slope (theta - center), the ratio of variances
    v = clip((w . node_terms)[-1]), and the residual r = observed - projection m is normal with
    covariance v outcome_covariance + noise_covariance + curvature_noise(m) + reference_noise(m).

    Attributes
    ----------
    rows : dict of str to array
        Covariates of N pseudo-records.
    values, base : array, shape (N, Q)
        Outcomes of the pseudo-records in the support of the density, and log of their mass at
        theta^ over their density there.
    node_terms : array, shape (N Q, T p + 1)
        n times the weight of the row times S psi of every round; last the squares for v. Behind the
        rounds there may be other sums over the records (see `criticism.extended_likelihood`), whose
        means have no noise that is quadratic in them.
    correction : array, shape (T p,)
    slope : array, shape (T p, p)
        What a larger reference adds to the means at theta^, in value and first order; S leaves
        mostly nothing of the latter, but for sums and parameters of an extended model.
    center : array, shape (p,)
        theta^.
    projection, outcome_projection : array, shape (p, T p)
        The second one, G L, takes psi of all rounds to its part of the projected numbers.
    observed : array, shape (p,)
    outcome_covariance, noise_covariance, precision : array, shape (p, p)
        `precision` is F.
    curvature_noise : RoundNoise or StructuredNoise
    reference_noise : RoundNoise
    """

    rows: Rows
    values: np.ndarray
    base: np.ndarray
    node_terms: np.ndarray
    correction: np.ndarray
    slope: np.ndarray
    center: np.ndarray
    projection: np.ndarray
    outcome_projection: np.ndarray
    observed: np.ndarray
    outcome_covariance: np.ndarray
    noise_covariance: np.ndarray
    precision: np.ndarray
    curvature_noise: RoundNoise | StructuredNoise
    reference_noise: RoundNoise

    @cached_property
    def quick_terms(self) -> Any:
        """`node_terms` for products: without their zeros where most are, as those of groups."""
        return without_zeros(self.node_terms)

    @cached_property
    def independent(self) -> IndependentNumbers | None:
        """The density of many numbers whose noise does not depend on parameters, in fewer steps."""
        noises = self.curvature_noise, self.reference_noise
        moving = any(noise.sd != 0.0 and len(noise.projection) for noise in noises)
        many = len(self.observed) >= MANY_GROUPS
        return IndependentNumbers.of(self) if many and not moving else None

    def by_round(self, means: Any) -> Any:
        """Means (..., T p) of the rounds as (..., T, p), without other sums."""
        rounds, p, _ = self.curvature_noise.scaling.shape
        return means[..., : rounds * p].reshape((*means.shape[:-1], rounds, p))

    def log_likelihood(self, model: RecordModel, theta: np.ndarray) -> np.ndarray:
        """Log-likelihood up to a constant at parameter vectors (S, p), shape (S,)."""
        theta = np.atleast_2d(np.asarray(theta, dtype=float))
        size = max(1, MOST_NUMBERS // self.values.size)
        parts = [self._batch(model, theta[k : k + size]) for k in range(0, len(theta), size)]
        return np.concatenate(parts)

    def _batch(self, model: RecordModel, theta: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            mass = self.node_mass(model, theta)
            if self.independent is not None:
                sums, ratio = self.sums(mass)
                value = self.independent.log_density(sums, ratio, theta)
                return np.where(np.isfinite(value), value, -np.inf)
            means, ratio = self.moments(mass, theta)
            residual = self.observed - means @ self.projection.T
            covariance = self.covariance(means, ratio)
        usable = np.isfinite(covariance).all(axis=(1, 2)) & np.isfinite(residual).all(axis=1)
        found = np.full(len(theta), -np.inf)
        if usable.any():
            found[usable] = normal_log_density(residual[usable], covariance[usable])
        return found

    def node_mass(self, model: RecordModel, theta: np.ndarray) -> np.ndarray:
        """Mass of all nodes at parameter vectors (S, p), shape (S, N Q)."""
        logs = model.log_density(theta, self.rows, self.values) + self.base
        logs -= logs.max(axis=2, keepdims=True)
        mass = np.exp(logs)
        mass /= mass.sum(axis=2, keepdims=True)
        return mass.reshape(len(theta), -1)

    def moments(self, mass: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means of all rounds (S, T p) and the ratio of variances (S,) at node masses (S, N Q)."""
        sums, ratio = self.sums(mass)
        return sums + self.correction + (theta - self.center) @ self.slope.T, ratio

    def sums(self, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The sums over the nodes alone (S, T p), and the ratio of variances (S,)."""
        found = mass @ self.quick_terms
        return found[:, :-1], np.clip(found[:, -1], LEAST_VARIANCE_RATIO, MOST_VARIANCE_RATIO)

    def covariance(self, means: np.ndarray, ratio: np.ndarray) -> np.ndarray:
        """The covariance of the projected numbers, shape (S, p, p)."""
        by_round = self.by_round(means)
        return (
            ratio[:, None, None] * self.outcome_covariance
            + self.noise_covariance
            + self.curvature_noise.covariance(by_round)
            + self.reference_noise.covariance(by_round)
        )


def normal_log_density(residual: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Log density of N(0, covariance) up to a constant: (S, p) and (S, p, p) to (S,)."""
    try:
        factor = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, 1e-12 * values[:, -1:])
        turned = np.einsum("sij,si->sj", vectors, residual)
        return -0.5 * (turned**2 / values + np.log(values)).sum(axis=1)
    white = np.linalg.solve(factor, residual[..., None])[..., 0]
    diagonal = np.diagonal(factor, axis1=1, axis2=2)
    return -0.5 * (white**2).sum(axis=1) - np.log(diagonal).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Curvature:
    """The final H: what was released of it, after shrinkage, and its noise.

    Attributes
    ----------
    value : array, shape (p, p)
        H, positive definite.
    public : array, shape (p, p)
        H_pub.
    sd : float
        tau of what noise is left; 0 if H is public.
    pairs : bool array, shape (p, p), optional
        Entries that may differ from 0, with noise if there is any. Default: all.
    """

    value: np.ndarray
    public: np.ndarray
    sd: float
    pairs: np.ndarray | None = None

    @property
    def groups(self) -> int:
        """Parameters that do not meet all others in some record: coefficients of groups."""
        return 0 if self.pairs is None else int((~self.pairs.all(axis=1)).sum())


@dataclass(frozen=True, eq=False)
class _RoundMeans:
    """Means of all rounds at theta^ (T p,), their derivatives (T p, p), and the outcomes there."""

    mean: np.ndarray
    slope: np.ndarray
    at: ModelAtPoint

    @classmethod
    def of(
        cls, model: RecordModel, center: np.ndarray, rows: Rows, weights: np.ndarray,
        prepared: Sequence[ClippedRows], shares: np.ndarray,
    ) -> _RoundMeans:  # fmt: skip
        """Means on the rows of a reference, which the scores are prepared for.

        `shares`: the mean weight of a record in each round.
        """
        at = model_at_point(model, center, rows)
        found = [score_mean(clipped, at, weights) for clipped in prepared]
        pairs = list(zip(found, shares, strict=True))
        return cls(
            np.concatenate([share * m.mean for m, share in pairs]),
            np.concatenate([share * m.slope for m, share in pairs]),
            at,
        )

    def stretched(self, stretches: np.ndarray) -> _RoundMeans:
        """Means and derivatives times one matrix for each round, (T, p, p)."""
        mean, slope = _times(stretches, self.mean[:, None])[:, 0], _times(stretches, self.slope)
        return replace(self, mean=mean, slope=slope)


def pooled_likelihood(
    model: RecordModel, releases: Sequence[NoisyScore], curvature: Curvature,
    center: np.ndarray, covariance: np.ndarray,
    large: tuple[Rows, np.ndarray], small: tuple[Rows, np.ndarray], reference_error: float,
    pilots: int | None = None, kinds: RecordKinds | None = None, prior: NormalPrior | None = None,
) -> PooledLikelihood:  # fmt: skip
    """Constants of the likelihood of all releases; the last one is the final score.

    Parameters
    ----------
    releases : sequence of NoisyScore
        Prepared on the rows of the large reference.
    center, covariance : array, shapes (p,) and (p, p)
        theta^, and the posterior covariance there, approximately.
    large, small : tuple of rows and n times their weights
        The references of the pilots and of the likelihood.
    reference_error : float
        r; 0 where there are no covariates.
    pilots : int, optional
        The first releases, which have no curvature of their own; default: all but the last.
    kinds : RecordKinds, optional
        Weights of records in the rounds (T37); default: all records in all of them.
    prior : NormalPrior, optional
        That of the parameters, for models of many groups.
    """
    kinds = kinds or RecordKinds.alike(len(releases))
    wide = _RoundMeans.of(model, center, *large, [r.clipped for r in releases], kinds.means)
    narrow, terms, mass = _at_nodes(model, center, releases, small, kinds)
    geometry = _Geometry.of(releases, large[1], curvature, pilots, kinds)
    spread = geometry.outcome_covariance(terms, mass, float(small[1].sum()), kinds)
    noise = np.diag(np.repeat([r.sd**2 for r in releases], len(center)))
    sds = curvature.sd, reference_error
    added = _average_noise(geometry.noises_of_rounds(*sds), wide, covariance)
    if prior is not None and curvature.groups >= MANY_GROUPS:
        mode = _NoiseAtMode(model, releases, large, kinds, geometry, sds, prior)
        added = mode.average(center, wide, spread + noise, added)
        noise, added, sds = noise + added, np.zeros_like(added), (0.0, 0.0)
    derivative = _times(geometry.scaling, wide.slope)
    projection, precision = _least_squares(spread + noise + added, derivative)
    curvature_noise, reference_noise = geometry.noises(projection, *sds)
    outcomes = _times(np.swapaxes(geometry.spread, 1, 2), projection.T).T
    values, base = _node_base(model, center, small[0], narrow.at.mass)
    node_terms = _node_terms(terms, outcomes, mass, kinds, small[1])
    return PooledLikelihood(
        rows=small[0],
        values=values,
        base=base,
        **_stretched_means(node_terms, wide, narrow, curvature.groups),
        center=center,
        projection=_times(np.swapaxes(geometry.scaling, 1, 2), projection.T).T,
        outcome_projection=outcomes,
        observed=projection @ np.concatenate([r.value for r in releases]),
        outcome_covariance=projection @ spread @ projection.T,
        noise_covariance=projection @ noise @ projection.T,
        precision=precision,
        curvature_noise=curvature_noise,
        reference_noise=reference_noise,
    )


def _stretched_means(
    node_terms: np.ndarray, wide: _RoundMeans, narrow: _RoundMeans, groups: int
) -> dict[str, np.ndarray]:
    """Terms of the small reference, stretched in place, and what the large one adds to means."""
    p = wide.slope.shape[1]
    if groups < MANY_GROUPS:
        pairs = zip(wide.slope.reshape(-1, p, p), narrow.slope.reshape(-1, p, p), strict=True)
        stretches = np.stack([stretch(*pair) for pair in pairs])
        for k, one in enumerate(stretches):
            mine = slice(k * p, (k + 1) * p)
            node_terms[:, mine] = node_terms[:, mine] @ one.T
        narrow = narrow.stretched(stretches)
    return {
        "node_terms": node_terms,
        "correction": wide.mean - narrow.mean,
        "slope": wide.slope - narrow.slope,
    }


@dataclass(frozen=True, eq=False)
class _NoiseAtMode:
    """Noise that depends on parameters, averaged around the mode of all that was released."""

    model: RecordModel
    releases: Sequence[NoisyScore]
    large: tuple[Rows, np.ndarray]
    kinds: RecordKinds
    geometry: _Geometry
    sds: tuple[float, float]
    prior: NormalPrior

    def average(
        self, theta: np.ndarray, at: _RoundMeans, fixed: np.ndarray, added: np.ndarray
    ) -> np.ndarray:
        """That average, shape (T p, T p), by steps to the mode from theta^.

        `at` are the means at theta^, `fixed` is the covariance that does not depend on parameters,
        and `added` a first average of the noise that does, which is what is left where a precision
        is not positive to the digits of doubles.
        """
        prior, scaling = self.prior, self.geometry.scaling
        parts = self.geometry.noises_of_rounds(*self.sds)
        prepared = [r.clipped for r in self.releases]
        observed = np.concatenate([r.value for r in self.releases])
        for _ in range(MODE_STEPS):
            slope = _times(scaling, at.slope)
            solved = np.linalg.solve(fixed + added, slope)
            precision = symmetric_part(slope.T @ solved + prior.precision)
            if not np.linalg.eigvalsh(precision)[0] > 0.0:  # priors so wide that digits run out
                return added
            covariance = symmetric_part(np.linalg.inv(precision))
            climb = solved.T @ (observed - _times(scaling, at.mean[:, None])[:, 0])
            step = covariance @ (climb + prior.precision @ (prior.mean - theta))
            size = max(np.sqrt(step @ precision @ step / len(step)), LONGEST_STEP)
            theta = theta + step * (LONGEST_STEP / size)
            at = _RoundMeans.of(self.model, theta, *self.large, prepared, self.kinds.means)
            added = _average_noise(parts, at, covariance)
        return added


def _at_nodes(
    model: RecordModel,
    center: np.ndarray,
    releases: Sequence[NoisyScore],
    small: tuple[Rows, np.ndarray],
    kinds: RecordKinds,
) -> tuple[_RoundMeans, np.ndarray, np.ndarray]:
    """Means on the small reference, psi of all rounds at its nodes (NQ, T p) and the mass there."""
    prepared = [r.score.at(small[0]) for r in releases]
    narrow = _RoundMeans.of(model, center, *small, prepared, kinds.means)
    terms = _node_vectors(prepared, narrow.at.values)
    return narrow, terms, (narrow.at.mass * small[1][:, None]).ravel()


@dataclass(frozen=True, eq=False)
class _Geometry:
    """Matrices of all rounds, (T, p, p): A_s^1/2 D A_s^-1/2, with D^1/2 for D, and A_s^(+-1/2)."""

    scaling: np.ndarray
    spread: np.ndarray
    roots: np.ndarray
    inverses: np.ndarray
    public_inverse: np.ndarray
    pilots: int
    pairs: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        releases: Sequence[NoisyScore],
        weights: np.ndarray,
        curvature: Curvature,
        pilots: int | None,
        kinds: RecordKinds,
    ) -> _Geometry:
        """The geometry of some releases; pilots are all but the last one, unless it is said."""
        shares = zip(releases, kinds.means, strict=True)
        sizes = [share * release.clipped.moments(weights)[0] for release, share in shares]
        roots = np.stack([matrix_power(size, 0.5) for size in sizes])
        inverses = np.stack([matrix_power(size, -0.5) for size in sizes])
        public_inverse = matrix_power(curvature.public, -0.5)
        ratio = public_inverse @ curvature.value @ public_inverse
        return cls(
            roots @ ratio @ inverses,
            roots @ matrix_power(ratio, 0.5) @ inverses,
            roots,
            inverses,
            public_inverse,
            len(releases) - 1 if pilots is None else pilots,
            curvature.pairs,
        )

    def outcome_covariance(
        self, terms: np.ndarray, mass: np.ndarray, n: float, kinds: RecordKinds
    ) -> np.ndarray:
        """L V L' from psi of all rounds at nodes (NQ, T p) and the mass there, of sum n."""
        p = self.roots.shape[1]
        mean = mass @ terms
        rows = RowBlocks(terms[:, None])
        joint = rows.products(mass[:, None, None], rows) - np.outer(mean, mean) / n
        joint = joint * np.kron(kinds.products, np.ones((p, p)))
        blocks = (joint + _pilot_error(joint, p)).reshape(-1, p, len(self.roots), p)
        return between(blocks, self.spread).reshape(joint.shape)

    def noises_of_rounds(
        self, curvature_sd: float, reference_error: float
    ) -> tuple[NoiseOfRounds, NoiseOfRounds]:
        """Noise of H, common to all rounds, and of the reference, one a pilot, in all numbers."""
        of_curvature = NoiseOfRounds(
            curvature_sd,
            self.public_inverse @ self.inverses,
            self.roots @ self.public_inverse,
            self.pairs,
        )
        pilots = slice(self.pilots)
        errors = reference_error, self.inverses[pilots], self.roots[pilots]
        return of_curvature, NoiseOfRounds(*errors, common=False)

    def noises(
        self, projection: np.ndarray, curvature_sd: float, reference_error: float
    ) -> tuple[RoundNoise | StructuredNoise, RoundNoise]:
        """Noise of H, common to all rounds, and of the reference, one a pilot, in k rows."""
        rounds, p, _ = self.roots.shape
        blocks = np.moveaxis(projection.reshape(-1, rounds, p), 0, 1)
        of_curvature = self._noise_of_curvature(
            curvature_sd,
            self.public_inverse @ self.inverses,
            blocks @ (self.roots @ self.public_inverse),
        )
        rows = (blocks @ self.roots)[: self.pilots]
        inverses = self.inverses[: self.pilots]
        of_reference = RoundNoise(reference_error, inverses, rows, common=False)
        return of_curvature, of_reference

    def _noise_of_curvature(
        self, sd: float, scaling: np.ndarray, projection: np.ndarray
    ) -> RoundNoise | StructuredNoise:
        if self.pairs is None or self.pairs.all() or sd == 0.0:
            return RoundNoise(sd, scaling, projection, common=True)
        return StructuredNoise(sd, scaling, projection, self.pairs)


def _node_terms(
    terms: np.ndarray,
    projection: np.ndarray,
    mass: np.ndarray,
    kinds: RecordKinds,
    weights: np.ndarray,
) -> np.ndarray:
    """Terms in their mean weights, and squares for the variance, times n weights of the rows."""
    columns = np.empty((len(terms), terms.shape[1] + 1))  # of many groups by far the largest array
    columns[:, :-1], columns[:, -1] = terms, _squares(terms, projection, mass, kinds)
    columns[:, :-1] *= np.repeat(kinds.means, len(projection))
    columns *= np.repeat(weights, len(terms) // len(weights))[:, None]
    return columns


def _squares(
    terms: np.ndarray, projection: np.ndarray, mass: np.ndarray, kinds: RecordKinds
) -> np.ndarray:
    """Squared norms of projected terms, averaged over kinds, in units of their mean."""
    p, found = len(projection), np.zeros(len(terms))
    for share, weights in zip(kinds.shares, kinds.weights, strict=True):
        found += share * ((terms @ (projection * np.repeat(weights, p)).T) ** 2).sum(axis=1)
    return found / max(float(mass @ found), 1e-300)


def _average_noise(
    parts: Sequence[NoiseOfRounds], at: _RoundMeans, covariance: np.ndarray
) -> np.ndarray:
    """Noise averaged over a normal posterior: quadratic in means, a sum over its directions."""
    around = np.column_stack([at.mean, at.slope @ np.linalg.cholesky(covariance)])
    p = len(covariance)
    means = around.T.reshape(p + 1, -1, p)
    return np.sum([part.total(means) for part in parts], axis=0)


def _least_squares(sigma: np.ndarray, derivative: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """G = F^-1/2 B' Sigma^-1 and F = B' Sigma^-1 B."""
    solved = np.linalg.solve(sigma, derivative)
    precision = derivative.T @ solved
    return matrix_power(precision, -0.5) @ solved.T, precision


def _times(blocks: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """A block-diagonal matrix of blocks (T, p, p) times another (T p, k)."""
    rounds, p, _ = blocks.shape
    return np.asarray(blocks @ matrix.reshape(rounds, p, -1)).reshape(rounds * p, -1)


def _node_vectors(prepared: Sequence[ClippedRows], values: np.ndarray) -> np.ndarray:
    """psi of every round at every node, shape (N Q, T p)."""
    p = prepared[0].frame.basis.shape[2]
    found = np.empty((values.shape[0] * values.shape[1], len(prepared) * p))
    for k, clipped in enumerate(prepared):
        found[:, k * p : (k + 1) * p] = clipped.vectors(values).reshape(-1, p)
    return found


def _pilot_error(joint: np.ndarray, p: int) -> np.ndarray:
    """`PILOT_ERROR` times the diagonal blocks of all rounds but the last.

    With little noise all rounds say the same, and differences between them would be weighed by
    what rounding and the reference get wrong.
    """
    block = np.arange(len(joint)) // p
    kept = (block[:, None] == block) & (block < block[-1])
    return PILOT_ERROR * np.where(kept, joint, 0.0)


def _node_base(
    model: RecordModel, center: np.ndarray, rows: Rows, mass: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Unclipped outcomes of the nodes at theta^ and log mass - log density.

    A node without mass takes the value of its row's heaviest node, where every density is finite.
    """
    nodes = model.nodes(model.predictors(center, rows), rows)
    heaviest = nodes.values[np.arange(len(mass)), mass.argmax(axis=1)][:, None]
    with np.errstate(all="ignore"):
        base = np.log(mass) - model.log_density(center[None], rows, nodes.values)[0]
    usable = np.isfinite(base)
    wide = usable.reshape(*usable.shape, *[1] * (nodes.values.ndim - 2))
    return np.where(wide, nodes.values, heaviest), np.where(usable, base, NO_MASS)
