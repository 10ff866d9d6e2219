"""Means, quantiles and probabilities from released draws, each with a bound on its error.

The bounds hold for independent exact draws, one included. They speak of the *private* posterior,
not of the world, and cost no privacy (post-processing).
"""

from __future__ import annotations

import math
import numpy as np
import xarray as xr
from collections.abc import Sequence
from typing import Any, TYPE_CHECKING
from scipy import stats
from pymc_private.errors import DomainError
from pymc_private.release import display
from pymc_private.release.estimates__estimates import Estimate, SAMPLE_DIMS, shaped
from pymc_private.release.expressions__reading import box_of, draws_of
from pymc_private.release.utilities__utilities import Function, event_of
from pymc_private.privacy import dkw_halfwidth
from pymc_private.privacy.validation import is_number

if TYPE_CHECKING:
    from pymc_private.release.release import Release

SLACK = 1e-9  # ranks move outward by this, so that rounding cannot shrink a band


def mean(release: Release, name: str, *, delta: float = 0.05) -> Estimate:
    """Posterior mean of each element of a variable, bounded by Hoeffding's inequality.

    Parameters
    ----------
    release : Release
    name : str
        A released variable.
    delta : float
        The bounds fail with at most this probability, all elements together (Bonferroni).

    Returns
    -------
    Estimate
        ``error`` <= width * sqrt(log(2 k / delta) / (2 N)) for k elements and N draws, width that
        of the variable's public box; infinite without a box.

    Raises
    ------
    DomainError
        No such variable, or ``delta`` outside (0, 1).

    References
    ----------
    Hoeffding (1963), theorem 2.
    """
    array, values = draws_of(release, name)
    return _mean(release, f"mean of {name}", array, values, box_of(release, array, values), delta)


def mean_of(
    release: Release,
    what: str,
    array: xr.DataArray,
    ends: tuple[Any, Any] | None,
    delta: float,
) -> Estimate:
    """Bound the mean of something computed from each draw, as `mean` does.

    Parameters
    ----------
    release : Release
    what : str
        In words.
    array : xarray.DataArray
        Dims ``chain`` (size 1), ``draw``, ...; one independent value per released draw.
    ends : tuple, or None
        Public lower and upper end of it.
    delta : float

    Raises
    ------
    DomainError
        A value outside the ends; an impossible `delta`.
    """
    values = array.values[0].reshape(array.sizes["draw"], -1).astype(float)
    low, high = (
        np.broadcast_to(np.asarray(end, float), array.shape[2:]).ravel()
        for end in (ends if ends is not None else (-math.inf, math.inf))
    )
    if np.any(values < low) or np.any(values > high) or np.isnan(values).any():
        raise DomainError(
            f"The {what} leaves its bounds, or is not a number.",
            got=f"values from {values.min():g} to {values.max():g}",
            do="pass the true bounds=(lower, upper)",
        )
    note = "" if np.isfinite(high - low).all() else "no public range is stated: pass bounds="
    return _mean(release, what, array, values, (low, high, note), delta)


def _mean(
    release: Release,
    what: str,
    array: xr.DataArray,
    values: np.ndarray,
    ends: tuple[np.ndarray, np.ndarray, str],
    delta: float,
) -> Estimate:
    low, high, note = ends
    count, elements = values.shape
    center = values.mean(axis=0)
    half = _half_width(count, elements, delta) * (high - low)
    lower, upper = np.maximum(center - half, low), np.minimum(center + half, high)
    spread = values.std(axis=0, ddof=1) if count > 1 else (high - low) / 2
    return shaped(
        release,
        what,
        array,
        (center, lower, upper, spread / math.sqrt(count)),
        delta=delta,
        elements=elements,
        inequality="Hoeffding",
        note=note,
    )


def quantile(
    release: Release, name: str, q: float | Sequence[float], *, delta: float = 0.05
) -> Estimate:
    """Posterior quantiles of each element, bounded by the Dvoretzky-Kiefer-Wolfowitz band.

    Parameters
    ----------
    release : Release
    name : str
        A released variable.
    q : float or sequence of float
        Each in (0, 1). Several cost no confidence: the band holds for all quantiles at once.
    delta : float
        The bounds fail with at most this probability, all elements together (Bonferroni).

    Returns
    -------
    Estimate
        ``lower`` and ``upper`` are order statistics, or the ends of the public box where the
        draws are too few; a sequence of q adds a leading dim ``quantile``.

    Raises
    ------
    DomainError
        No such variable; q or ``delta`` outside (0, 1).

    References
    ----------
    Dvoretzky, Kiefer, Wolfowitz (1956); constant of Massart (1990).
    """
    try:
        levels = np.atleast_1d(np.asarray(q, dtype=float))
    except (TypeError, ValueError):
        levels = np.empty(0)
    if levels.ndim != 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
        raise DomainError("A quantile level lies inside (0, 1).", got=q, do="for example q=0.5")
    array, values = draws_of(release, name)
    low, high, note = box_of(release, array, values)
    half = _half_width(len(values), values.shape[1], delta)
    ordered = np.sort(values, axis=0)
    parts = [_one_quantile(ordered, level, half, low, high) for level in levels]
    columns = tuple(np.stack(column) for column in zip(*parts, strict=True))
    label = "quantiles" if np.ndim(q) else f"{display.estimate_number(levels[0])}-quantile"
    if not np.ndim(q):
        columns = tuple(column[0] for column in columns)
    return shaped(
        release,
        f"{label} of {name}",
        array,
        columns,
        delta=delta,
        elements=values.shape[1],
        inequality="Dvoretzky-Kiefer-Wolfowitz",
        note=note,
        levels=levels if np.ndim(q) else None,
    )


def interval(release: Release, name: str, prob: float = 0.9, *, delta: float = 0.05) -> Estimate:
    """Give the ends of the central posterior interval of mass ``prob``: two quantiles.

    From the first ``lower`` to the last ``upper`` the private posterior holds at least ``prob``,
    with the stated confidence.

    Raises
    ------
    DomainError
        As :func:`quantile`; ``prob`` outside (0, 1).
    """
    if not (is_number(prob) and 0 < prob < 1):
        raise DomainError("The mass of an interval lies inside (0, 1).", got=prob)
    ends = [round((1 - prob) / 2, 12), round((1 + prob) / 2, 12)]  # 0.05, not 0.04999999999999999
    return quantile(release, name, ends, delta=delta)


def prob(release: Release, event: Function, *, delta: float = 0.05) -> Estimate:
    """Posterior probability of an event, with exact binomial (Clopper-Pearson) bounds.

    Parameters
    ----------
    release : Release
    event : callable or str
        Takes a dict of arrays, shape (draws, ...), and returns booleans, shape (draws,) or, for
        several events at once, (draws, ...); or an expression such as ``"beta['age'] > 0"``.
    delta : float
        The bounds fail with at most this probability, all events together (Bonferroni).

    Returns
    -------
    Estimate
        Floats for one event; arrays for several.

    Raises
    ------
    DomainError
        The event does not answer with one boolean per draw; ``delta`` outside (0, 1).

    References
    ----------
    Clopper and Pearson (1934).
    """
    count = release.posterior.sizes["draw"]
    answer = np.asarray(event_of(release, event))
    if answer.dtype != bool or answer.ndim == 0 or answer.shape[0] != count:
        raise DomainError(
            "An event answers true or false for every draw.",
            got=f"{answer.dtype} of shape {answer.shape}",
            allowed=f"bool of shape ({count},) or ({count}, ...)",
            do='for example lambda d: d["beta"] > 0',
        )
    hits = answer.reshape(count, -1).sum(axis=0)
    _check_delta(delta)
    tail = float(delta) / (2 * max(hits.size, 1))
    with np.errstate(invalid="ignore"):
        lower = np.where(hits == 0, 0.0, stats.beta.ppf(tail, hits, count - hits + 1))
        upper = np.where(hits == count, 1.0, stats.beta.ppf(1 - tail, hits + 1, count - hits))
    smooth = (hits + 1) / (count + 2)  # never 0 at 0 or N hits, where the plain formula is
    columns = (
        hits / count,
        np.maximum(lower - SLACK, 0),
        np.minimum(upper + SLACK, 1),
        np.sqrt(smooth * (1 - smooth) / count),
    )
    return shaped(
        release,
        "probability",
        _like(release, answer),
        columns,
        delta=delta,
        elements=hits.size,
        inequality="Clopper-Pearson",
        note="",
    )


def _half_width(draws: int, elements: int, delta: float) -> float:
    """sqrt(log(2 k / delta) / (2 N)): two-sided DKW, and Hoeffding on a box of width one."""
    _check_delta(delta)
    return float(dkw_halfwidth(draws, delta / (2 * max(elements, 1))))


def _check_delta(delta: float) -> None:
    if not (is_number(delta) and 0 < delta < 1):
        raise DomainError("A bound fails with a probability inside (0, 1).", got=delta)


def _one_quantile(
    ordered: np.ndarray, level: float, half: float, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Value, lower, upper and mcse of one quantile; ``ordered`` has shape (draws, elements).

    With F and F_N within ``half`` everywhere: F(x) < q wherever F_N(x) < q - half, and F(x) >= q
    wherever F_N(x) >= q + half, so the quantile lies between these two order statistics.
    """
    count = len(ordered)
    first = math.ceil(count * (level - half) - SLACK)
    last = math.ceil(count * (level + half) + SLACK)
    lower = ordered[first - 1] if first >= 1 else low
    upper = ordered[last - 1] if last <= count else high
    value = np.quantile(ordered, level, axis=0)
    if count == 1:
        return value, lower, upper, (high - low) / 2
    ranks = stats.beta.ppf(stats.norm.cdf([-1, 1]), count * level + 1, count * (1 - level) + 1)
    left, right = np.quantile(ordered, ranks, axis=0)
    return value, lower, upper, (right - left) / 2


def _like(release: Release, answer: np.ndarray) -> xr.DataArray:
    """Label several events like the one variable they have the shape of, if there is one."""
    kin = [
        array
        for array in release.posterior.data_vars.values()
        if array.shape[2:] == answer.shape[1:]
    ]
    if kin and all(array.dims == kin[0].dims for array in kin):
        return kin[0].copy(data=answer[None]).rename("probability")
    inner = tuple(f"dim_{i}" for i in range(answer.ndim - 1))
    return xr.DataArray(answer[None], dims=(*SAMPLE_DIMS, *inner), name="probability")
