"""Small posteriors of every kind and scale, and what their steps are in 200 bits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import ctx

from pymc_private.samplers.proximal import WhitenedPosterior
from pymc_private.samplers.proximal_likelihoods import (
    ExponentialCurve,
    LogisticCurve,
    QuadraticCurve,
)
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.samplers.verified.arithmetic import (
    VerifiedExponential,
    VerifiedLogistic,
    VerifiedPosterior,
    VerifiedQuadratic,
)
from pymc_private.samplers.verified.kernel import ChainState, VerifiedKernel

BITS = 200
KINDS = {
    "logistic": (LogisticCurve, VerifiedLogistic, 0.25),
    "linear": (QuadraticCurve, VerifiedQuadratic, 1.0),
    "Poisson": (ExponentialCurve, VerifiedExponential, 3.0),
}
SHAPES = {
    "plain": (30, 4, 1.0),
    "tiny": (30, 4, 1e-8),
    "huge": (20, 3, 1e8),
    "one record": (1, 1, 1.0),
    "one parameter": (12, 1, 0.7),
    "none": (0, 3, 1.0),
}


WALLS = {
    "line": (-math.inf, math.inf),
    "box": (-0.6, 0.3),
    "half": (0.2, math.inf),
    "far": (3.0, 4.5),
    "narrow": (1.0, 1.0 + 1e-7),
}


def posterior(kind, n, d, size, *, wall="line", seed=0, separable=False, weight=0.13, plain=False):
    """Records, their floats, and a step size; a column is constant where there are several."""
    rng = np.random.default_rng(seed)
    x = size * rng.normal(size=(n, d))
    if d > 1:
        x[:, 1] = size
    y = rng.normal(size=n) * size
    if kind == "logistic":
        y = (x[:, 0] > 0 if separable else rng.random(n) < 0.5).astype(float)
    curve, strict, beta = KINDS[kind]
    center, scale = (
        (np.zeros(d), np.ones(d)) if plain else (rng.normal(size=d), rng.uniform(0.2, 3, d))
    )
    offset = np.zeros(n) if plain else rng.normal(size=n) * size
    if kind == "Poisson":
        x = 0.2 * x
        y = rng.poisson(1.0, n).astype(float)
    ends = [np.full(d, end) for end in WALLS[wall]]
    records = VerifiedPosterior(x, offset, center, scale, strict(y, weight), *ends)
    walls = records.whitened_box[:2]
    structure = WhitenedPosterior(
        records.rows, records.whitened_offset, curve(y, weight), weight * beta, *walls
    )
    trace = weight * beta * float((records.rows**2).sum())
    return records, structure, 4.0 / trace if trace else 1.0


@dataclass
class Ratios:
    """Errors of what floats say, each over its bound."""

    slope: float
    delta: float
    gap: float

    @property
    def worst(self):
        return max(self.slope, self.delta, self.gap)


def ratios(kind, shape, *, wall="line", chains=4, low=0.0, seed=0, separable=False, tamper=None):
    """How much of each bound is used in one step from a random state, the worst of some chains."""
    records, structure, eta = posterior(
        kind, *SHAPES[shape], wall=wall, seed=seed, separable=separable
    )
    kernel, randomness = VerifiedKernel(records, structure, eta), SeededRandomness.from_seed(seed)
    if tamper:
        tamper(kernel)
    rng = np.random.default_rng(seed + 1)
    d = records.dimension
    state = ChainState(rng.normal(size=(chains, d)), low * rng.normal(size=(chains, d)))
    with np.errstate(all="ignore"):
        now = kernel._prepare(state, randomness)
        words = randomness.words(chains * d).reshape(chains, d)
        coins = randomness.words(chains)
        delta, moved = kernel._propose(now, np.arange(chains), words)
        gap, margin = kernel._gap(now, np.arange(chains), delta, moved, coins)
    found = []
    for c in range(chains):
        proposal = kernel._exactly(now, c, randomness).proposal(words[c], coins[c])
        with ctx.workprec(BITS):
            slope, exact = proposal.step.slope(BITS), proposal.delta(BITS)
            real = -proposal.step.remainder(exact) - proposal.uniform.log_uniform(BITS)
            found.append([
                _used(slope, now.slope.value[c], now.slope.error[c]),
                _used(exact, delta[c], moved[c]),
                _used([real], gap[c : c + 1], margin[c]),
            ])  # fmt: skip
    return Ratios(*np.max(found, axis=0))


def _used(balls, floats, bound):
    """The share of a bound that is used; none where floats say that they know nothing."""
    if not math.isfinite(bound):
        return 0.0
    far = [float(b - float(f)) for b, f in zip(balls, floats, strict=True)]
    return math.hypot(*far) / bound if all(map(math.isfinite, far)) else math.inf
