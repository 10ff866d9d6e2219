"""A small generative adversarial network trained with private gradients, in NumPy.

Only the discriminator sees the data. Its gradients are clipped per record and get Gaussian noise
(DP-SGD); batches are Poisson samples of mean size 128, delta = 0.1 as in the papers. Privacy of one
record, added or removed, by Renyi divergences of the sampled Gaussian mechanism at whole orders
(Mironov, Talwar and Zhang 2019) and their conversion (T4).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from scipy.special import gammaln, logsumexp

from pymc_private.privacy import rdp_to_eps

BATCH, HIDDEN, LATENT, CLIP = 128, 32, 4, 1.0
ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)


def epsilon_of(noise: float, rate: float, steps: int, delta: float) -> float:
    """Epsilon of so many steps of the Poisson-sampled Gaussian mechanism."""
    best = math.inf
    for order in ORDERS:
        k = np.arange(order + 1)
        logs = (
            gammaln(order + 1)
            - gammaln(k + 1)
            - gammaln(order - k + 1)
            + k * math.log(rate)
            + (order - k) * math.log1p(-rate)
            + (k * k - k) / (2 * noise**2)
        )
        each = max(float(logsumexp(logs)), 0.0) / (order - 1)
        best = min(best, rdp_to_eps(order, steps * each, delta))
    return best


def noise_for(epsilon: float, rate: float, steps: int, delta: float) -> float:
    """Least noise multiplier that fits, by bisection."""
    low, high = 0.2, 0.4
    while epsilon_of(high, rate, steps, delta) > epsilon:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        fits = epsilon_of(middle, rate, steps, delta) <= epsilon
        low, high = (low, middle) if fits else (middle, high)
    return high


class Net:
    """Two tanh layers and a linear one."""

    def __init__(self, sizes: tuple[int, ...], rng: np.random.Generator) -> None:
        self.weights = [
            np.vstack([rng.normal(size=(a, b)) / math.sqrt(a), np.zeros(b)])
            for a, b in pairwise(sizes)
        ]
        self.moments = [[np.zeros_like(w), np.zeros_like(w)] for w in self.weights]
        self.steps = 0

    def forward(self, x: np.ndarray) -> list[np.ndarray]:
        layers = [x]
        for i, w in enumerate(self.weights):
            z = layers[-1] @ w[:-1] + w[-1]
            layers.append(np.tanh(z) if i + 1 < len(self.weights) else z)
        return layers

    def backward(
        self, layers: list[np.ndarray], slope: np.ndarray
    ) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
        """Per-row gradients as pairs (inputs with a one, slopes), and the slope at the input."""
        pairs = []
        for i in reversed(range(len(self.weights))):
            if i + 1 < len(self.weights):
                slope = slope * (1 - layers[i + 1] ** 2)
            inputs = np.column_stack([layers[i], np.ones(len(slope))])
            pairs.append((inputs, slope))
            slope = slope @ self.weights[i][:-1].T
        return pairs[::-1], slope

    def step(self, gradients: list[np.ndarray], rate: float) -> None:
        """Adam."""
        self.steps += 1
        for w, g, (m, v) in zip(self.weights, gradients, self.moments, strict=True):
            m += 0.5 * (g - m)
            v += 0.01 * (g * g - v)
            w -= rate * (m / (1 - 0.5**self.steps)) / (np.sqrt(v / (1 - 0.99**self.steps)) + 1e-8)


def train(
    rows: np.ndarray,
    epsilon: float,
    rng: np.random.Generator,
    steps: int = 2000,
    delta: float = 0.1,
) -> np.ndarray:
    """Give as many draws of the generator as there are rows."""
    n, d = rows.shape
    noise = noise_for(epsilon, BATCH / n, steps, delta)
    generator = Net((LATENT, HIDDEN, HIDDEN, d), rng)
    critic = Net((d, HIDDEN, HIDDEN, 1), rng)
    for _ in range(steps):
        real = rows[rng.random(n) < BATCH / n]
        false = generator.forward(rng.normal(size=(BATCH, LATENT)))[-1]
        critic.step(_private_gradients(critic, real, false, noise, rng), 2e-3)
        layers = generator.forward(rng.normal(size=(BATCH, LATENT)))
        judged = critic.forward(layers[-1])
        slope = -1 / (1 + np.exp(judged[-1])) / BATCH  # fool the critic
        pairs, _ = generator.backward(layers, critic.backward(judged, slope)[1])
        generator.step([a.T @ s for a, s in pairs], 2e-3)
    return generator.forward(rng.normal(size=(n, LATENT)))[-1]


def _private_gradients(
    critic: Net, real: np.ndarray, false: np.ndarray, noise: float, rng: np.random.Generator
) -> list[np.ndarray]:
    layers = critic.forward(real)
    pairs, _ = critic.backward(layers, -1 / (1 + np.exp(layers[-1])))
    norms = np.sqrt(sum((a**2).sum(1) * (s**2).sum(1) for a, s in pairs))
    shrink = np.minimum(1.0, CLIP / np.maximum(norms, 1e-12))[:, None]
    own = [a.T @ (s * shrink) for a, s in pairs]
    layers = critic.forward(false)
    other, _ = critic.backward(layers, 1 / (1 + np.exp(-layers[-1])))
    return [
        (g + noise * CLIP * rng.normal(size=g.shape) + a.T @ s) / BATCH
        for g, (a, s) in zip(own, other, strict=True)
    ]
