"""Older ways to send one number in the local model: to compare with, and nothing more."""

from __future__ import annotations

import numpy as np
from pymc_private.errors import DomainError
from pymc_private.mollifiers.window import check_width
from pymc_private.privacy.validation import whole
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors__neighbors import ANY
from pymc_private.samplers.randomness import Uniform

def randomized_response(
    held: np.ndarray, categories: int, epsilon: float, randomness: Uniform
) -> np.ndarray:
    """Tell the category with odds e^epsilon against any other one (Warner 1965; k-ary).

    Parameters
    ----------
    held : array of int, shape (n,)
    categories : int
    epsilon : float, nats
    randomness : Uniform

    Returns
    -------
    array of int, shape (n,)
    """
    k, odds = whole(categories, "the number of categories"), np.exp(check_width(epsilon))
    held = np.asarray(held, dtype=np.int64)
    lie = randomness.uniform(len(held)) >= odds / (odds + k - 1.0)
    shift = 1 + np.floor(randomness.uniform(len(held)) * (k - 1)).astype(np.int64)
    return np.where(lie, (held + shift) % k, held)


def undo_response(told: np.ndarray, categories: int, epsilon: float) -> np.ndarray:
    """Estimate the frequencies behind `randomized_response`: unbiased, then clipped to a law."""
    odds, k = np.exp(epsilon), categories
    p, q = odds / (odds + k - 1.0), 1.0 / (odds + k - 1.0)
    share = np.bincount(told, minlength=k) / len(told)
    found = np.maximum((share - q) / (p - q), 0.0)
    return found / found.sum()


def clipped_laplace(
    held: np.ndarray, lower: float, upper: float, epsilon: float, randomness: Uniform
) -> np.ndarray:
    """Clip to public ends, and add Laplace noise of scale (upper - lower) / epsilon.

    Ideal real numbers are assumed: the low bits of the noise tell more than epsilon says.
    """
    if not lower < upper:
        raise DomainError("lower is below upper", got=f"[{lower}, {upper}]")
    u = randomness.uniform(len(held)) - 0.5
    noise = -np.sign(u) * np.log1p(-2.0 * np.abs(u)) * (upper - lower) / check_width(epsilon)
    return np.clip(held, lower, upper) + noise


def price(epsilon: float) -> Guarantee:
    """What one message of either costs its sender."""
    return Guarantee.pure(epsilon, neighbors=ANY, assumptions=("arithmetic on real numbers",))
