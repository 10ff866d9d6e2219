"""How many records a Dirichlet draw needs to be accurate: T12's tail bound, solved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import inside_unit, positive, vectorized, whole

@vectorized
def dirichlet_sample_size(eta: float, beta: float, cells: int, r: float, alpha: float) -> int:
    """Give a number of records N at which Pr[KL(f / N || y) > eta] <= beta, y ~ Dir(r f + alpha).

    The least N with exp(-r N eta^2 / (2 (2 + eta) (4 + 3 eta))) <= beta and
    r N >= d alpha / (e^(eta/2) - 1), whatever the counts f are.

    Parameters
    ----------
    eta : float, nats
        Divergence that is good enough, > 0.
    beta : float
        Probability of more, in (0, 1).
    cells : int
        d, categories.
    r, alpha : float
        Of the mechanism; alpha >= 1/2.

    Returns
    -------
    int

    Raises
    ------
    DomainError
        An argument is out of its range; for alpha < 1/2 the bound is false.

    References
    ----------
    Ponnoprat (2023), Theorem 2, corrected.

    Examples
    --------
    >>> int(dirichlet_sample_size(0.1, 0.05, 6, 0.318, 3.96))
    17014
    """
    positive(eta=eta, r=r, alpha=alpha)
    inside_unit(beta=beta)
    d = whole(cells, "the number of cells")
    if alpha < 0.5:
        raise DomainError("the bound is false for alpha < 1/2", got=alpha, allowed="alpha >= 1/2")
    tail = -math.log(beta) * 2.0 * (2.0 + eta) * (4.0 + 3.0 * eta) / eta**2
    smoothing = d * alpha / math.expm1(0.5 * eta)
    return math.ceil(max(tail, smoothing) / r * (1.0 + 1e-12))


@vectorized
def dirichlet_population_tv(n: float, beta: float, cells: int, r: float, alpha: float) -> float:
    """Bound the total variation between a draw and the law that n records came from.

    With probability 1 - beta / 2 the shares of the data are within
    sqrt(2 (ln(2^d - 2) + ln(2 / beta)) / n) / 2 of the population (Weissman et al.); with the same
    probability the draw is within sqrt(eta / 2) of the shares (Pinsker), eta from
    `dirichlet_sample_size`. Their sum, at most 1.

    Parameters
    ----------
    n : float
        Records, independent draws from the population.
    beta : float
        Probability that the bound fails, in (0, 1).
    cells, r, alpha
        As in `dirichlet_sample_size`.

    Returns
    -------
    float
        In (0, 1].

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Weissman, Ordentlich, Seroussi, Verdu and Weinberger (2003); Ponnoprat (2023), Theorem 2.
    """
    positive(n=n)
    inside_unit(beta=beta)
    d = whole(cells, "the number of cells")
    corners = d * math.log(2.0) + math.log1p(-(2.0 ** (1.0 - d))) if d > 1 else 0.0
    sampling = 0.5 * math.sqrt(2.0 * (corners + math.log(2.0 / beta)) / n)

    def enough(eta: float) -> bool:
        return bool(dirichlet_sample_size(eta, 0.5 * beta, d, r, alpha) <= n)

    low, high = 1e-9, 1.0
    while not enough(high):
        low, high = high, 2.0 * high
        if high > 4.0:  # sqrt(eta / 2) is beyond 1 there
            return 1.0
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return min(1.0, (sampling + math.sqrt(0.5 * high)) * (1.0 + 1e-12))


def plot_sample_size(
    cells: int, r: float, alpha: float, ax: Any = None, *, betas: Sequence[float] = (0.05, 0.001)
) -> Any:
    """Draw the number of records against the divergence that is good enough.

    Parameters
    ----------
    cells, r, alpha
        As in `dirichlet_sample_size`.
    ax : matplotlib Axes, optional
    betas : sequence of float
        Probabilities that a draw is worse.

    Returns
    -------
    matplotlib Axes
    """
    from pymc_private.privacy.plots import sizes

    return sizes(cells, r, alpha, ax, betas=betas)
