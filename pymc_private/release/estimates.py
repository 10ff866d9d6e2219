"""Posterior means, quantiles and probabilities from released draws, with error bounds.

The bounds (Hoeffding, Dvoretzky-Kiefer-Wolfowitz, Clopper-Pearson) hold for independent exact
draws, a single one included. They concern the *private* posterior, not the world, and cost no
privacy (post-processing). An `Estimate` holds the value, its bounds, a standard error and the
words that go with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import xarray as xr
from scipy.special import ndtri

from pymc_private.errors import DomainError
from pymc_private.privacy import cards, dkw_halfwidth
from pymc_private.privacy.validation import is_number
from pymc_private.release import display
from pymc_private.release.allowed import SAMPLE_DIMS, ReleaseContents
from pymc_private.release.expressions import draws_of_variable, public_box
from pymc_private.release.utilities import (
    FunctionOfDraws,
    evaluate_event,
    monte_carlo_errors_of,
)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """An estimate from released draws and how far off it may be.

    Attributes
    ----------
    value : xarray.DataArray or float
        The estimate.
    error : xarray.DataArray or float
        No element is further from the truth under the private posterior, with probability
        ``confidence`` for all elements at once. Infinite where nothing is known (see ``note``).
    lower, upper : xarray.DataArray or float
        The same statement as an interval, which may be shorter on one side.
    mcse : xarray.DataArray or float
        Monte Carlo standard error, the usual estimate; no bound.
    what, method, note : str
        What is estimated, which inequality bounds it, and remarks.
    draws : int
        Number of independent draws.
    confidence : float
        Probability that all bounds hold.
    """

    what: str
    value: Any
    error: Any
    lower: Any
    upper: Any
    mcse: Any
    draws: int
    confidence: float
    method: str
    note: str = ""

    def __float__(self) -> float:
        return float(self.value)

    @property
    def element_names(self) -> list[str]:
        """A name for each element."""
        if not isinstance(self.value, xr.DataArray):
            return [self.what]
        from pymc_private.models.compat import element_labels

        return list(element_labels(self.value))

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate with the interval that holds the truth, element by element."""
        from pymc_private.release.plots import plot_estimate

        return plot_estimate(self, ax)

    def _rows(self) -> list[cards.Row]:
        rows = [("bound", self.method), ("draws", str(self.draws)), ("note", self.note)]
        if not isinstance(self.value, xr.DataArray):
            rows.insert(0, ("value", _value_text(self)))
        return [(title, text) for title, text in rows if text]

    def _table(self) -> str:
        if not isinstance(self.value, xr.DataArray):
            return ""
        columns = [
            np.ravel(np.asarray(part))
            for part in (self.value, self.error, self.lower, self.upper, self.mcse)
        ]
        rows = display.element_rows(self.element_names, *columns)
        return cards.text_table(("", "estimate", "error", "lower", "upper", "mcse"), rows)

    def __repr__(self) -> str:
        return "\n".join(filter(None, (cards.text_card(self.what, self._rows()), self._table())))

    def _repr_html_(self) -> str:
        rows = self._rows()
        if isinstance(self.value, xr.DataArray):
            rows.insert(0, ("values", self._table()))
        return cards.html_card(self.what, rows, alarm=display.NOT_PRIVATE in self.what)


ROUNDING_SLACK = 1e-9
"""Ranks and probabilities move outward by this, so that rounding cannot shrink a bound."""


def mean(release: ReleaseContents, name: str, *, delta: float = 0.05) -> Estimate:
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
    array, values = draws_of_variable(release, name)
    return _hoeffding_mean(
        release, f"mean of {name}", array, values, public_box(release, array, values), delta
    )


def mean_of_array(
    release: ReleaseContents,
    what: str,
    array: xr.DataArray,
    bounds: tuple[Any, Any] | None,
    delta: float,
) -> Estimate:
    """Bound the mean of an array computed from each draw, as `mean` does.

    The array has the dims ``chain`` (size 1), ``draw``, ... and one independent value per released
    draw; `bounds` are public. A value outside them is refused.
    """
    values = array.values[0].reshape(array.sizes["draw"], -1).astype(float)
    if (errors := monte_carlo_errors_of(release)) is not None:
        return normal_estimate(release, what, array, (values.mean(axis=0), errors(values)), delta)
    low, high = (
        np.broadcast_to(np.asarray(end, float), array.shape[2:]).ravel()
        for end in (bounds if bounds is not None else (-math.inf, math.inf))
    )
    if np.any(values < low) or np.any(values > high) or np.isnan(values).any():
        raise DomainError(
            f"The {what} leaves its bounds, or is not a number.",
            got=f"values from {values.min():g} to {values.max():g}",
            do="pass the true bounds=(lower, upper)",
        )
    note = "" if np.isfinite(high - low).all() else "no public range is stated: pass bounds="
    return _hoeffding_mean(release, what, array, values, (low, high, note), delta)


def _hoeffding_mean(
    release: ReleaseContents,
    what: str,
    array: xr.DataArray,
    values: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray, str],
    delta: float,
) -> Estimate:
    """The mean of each element, bounded by Hoeffding; `bounds`: lower, upper, and a note."""
    low, high, note = bounds
    count, elements = values.shape
    center = values.mean(axis=0)
    half = _half_width(count, elements, delta) * (high - low)
    lower, upper = np.maximum(center - half, low), np.minimum(center + half, high)
    spread = values.std(axis=0, ddof=1) if count > 1 else (high - low) / 2
    return make_estimate(
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
    release: ReleaseContents, name: str, q: float | Sequence[float], *, delta: float = 0.05
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
        ``lower`` and ``upper`` are order statistics, or the bounds of the public box where
        the draws are too few; a sequence of q adds a leading dim ``quantile``.

    Raises
    ------
    DomainError
        No such variable; q or ``delta`` outside (0, 1).

    References
    ----------
    Dvoretzky, Kiefer, Wolfowitz (1956); constant of Massart (1990).
    """
    levels = checked_levels(q)
    array, values = draws_of_variable(release, name)
    low, high, note = public_box(release, array, values)
    half = _half_width(len(values), values.shape[1], delta)
    ordered = np.sort(values, axis=0)
    parts = [_quantile_with_bounds(ordered, level, half, low, high) for level in levels]
    columns = tuple(np.stack(column) for column in zip(*parts, strict=True))
    label = "quantiles" if np.ndim(q) else f"{display.format_estimate(levels[0])}-quantile"
    if not np.ndim(q):
        columns = tuple(column[0] for column in columns)
    return make_estimate(
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


def checked_levels(q: Any) -> np.ndarray:
    """Levels of quantiles as an array; refuses what does not lie inside (0, 1)."""
    try:
        levels = np.atleast_1d(np.asarray(q, dtype=float))
    except (TypeError, ValueError, OverflowError):
        levels = np.empty(0)
    if levels.ndim != 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
        raise DomainError("A quantile level lies inside (0, 1).", got=q, do="for example q=0.5")
    return levels


def interval(
    release: ReleaseContents, name: str, prob: float = 0.9, *, delta: float = 0.05
) -> Estimate:
    """Endpoints of the central posterior interval of mass ``prob``: two quantiles.

    From the first ``lower`` to the last ``upper`` the private posterior holds at least ``prob``,
    with the stated confidence.

    Raises
    ------
    DomainError
        As :func:`quantile`; ``prob`` outside (0, 1).
    """
    if not (is_number(prob) and 0 < prob < 1):
        raise DomainError(
            "The mass of an interval lies inside (0, 1).", got=prob, allowed="0 < prob < 1"
        )
    levels = [round((1 - prob) / 2, 12), round((1 + prob) / 2, 12)]  # 0.05, not 0.0499999999999999
    return quantile(release, name, levels, delta=delta)


def _quantile_with_bounds(
    ordered: np.ndarray, level: float, half: float, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Value, lower, upper and mcse of one quantile; ``ordered`` has shape (draws, elements).

    With F and F_N within ``half`` everywhere: F(x) < q wherever F_N(x) < q - half, and F(x) >= q
    wherever F_N(x) >= q + half, so the quantile lies between these two order statistics.
    """
    count = len(ordered)
    first = math.ceil(count * (level - half) - ROUNDING_SLACK)
    last = math.ceil(count * (level + half) + ROUNDING_SLACK)
    lower = ordered[first - 1] if first >= 1 else low
    upper = ordered[last - 1] if last <= count else high
    value = np.quantile(ordered, level, axis=0)
    if count == 1:
        return value, lower, upper, (high - low) / 2
    ranks = scipy.stats.beta.ppf(
        scipy.stats.norm.cdf([-1, 1]), count * level + 1, count * (1 - level) + 1
    )
    left, right = np.quantile(ordered, ranks, axis=0)
    return value, lower, upper, (right - left) / 2


def prob(release: ReleaseContents, event: FunctionOfDraws, *, delta: float = 0.05) -> Estimate:
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
        The event does not give one boolean per draw; ``delta`` outside (0, 1).

    References
    ----------
    Clopper and Pearson (1934).
    """
    count = release.posterior.sizes["draw"]
    answer = checked_events(np.asarray(evaluate_event(release, event)), count)
    hits = answer.reshape(count, -1).sum(axis=0)
    tail = check_failure(delta) / (2 * max(hits.size, 1))
    with np.errstate(invalid="ignore"):
        lower = np.where(hits == 0, 0.0, scipy.stats.beta.ppf(tail, hits, count - hits + 1))
        upper = np.where(hits == count, 1.0, scipy.stats.beta.ppf(1 - tail, hits + 1, count - hits))
    smooth = (hits + 1) / (count + 2)  # hits / count gives a standard error of 0 at 0 or N hits
    columns = (
        hits / count,
        np.maximum(lower - ROUNDING_SLACK, 0),
        np.minimum(upper + ROUNDING_SLACK, 1),
        np.sqrt(smooth * (1 - smooth) / count),
    )
    return make_estimate(
        release,
        "probability",
        labeled_like(release, answer),
        columns,
        delta=delta,
        elements=hits.size,
        inequality="Clopper-Pearson",
        note="",
    )


def checked_events(answer: np.ndarray, count: int) -> np.ndarray:
    """Booleans, one or more for each draw; refuses anything else."""
    if answer.dtype != bool or answer.ndim == 0 or answer.shape[0] != count:
        raise DomainError(
            "An event answers true or false for every draw.",
            got=f"{answer.dtype} of shape {answer.shape}",
            allowed=f"bool of shape ({count},) or ({count}, ...)",
            do='for example lambda d: d["beta"] > 0',
        )
    return answer


def labeled_like(release: ReleaseContents, answer: np.ndarray) -> xr.DataArray:
    """Label several events like a variable of the same shape, if its dims are unambiguous."""
    matches = [
        array
        for array in release.posterior.data_vars.values()
        if array.shape[2:] == answer.shape[1:]
    ]
    if matches and all(array.dims == matches[0].dims for array in matches):
        return matches[0].copy(data=answer[None]).rename("probability")
    inner = tuple(f"dim_{i}" for i in range(answer.ndim - 1))
    return xr.DataArray(answer[None], dims=(*SAMPLE_DIMS, *inner), name="probability")


def _half_width(draws: int, elements: int, delta: float) -> float:
    """sqrt(log(2 k / delta) / (2 N)): two-sided DKW, and Hoeffding on a box of width one."""
    return float(dkw_halfwidth(draws, check_failure(delta) / (2 * max(elements, 1))))


def check_failure(delta: Any) -> float:
    """A failure probability as a double; refuses one outside (0, 1)."""
    if not (is_number(delta) and 0 < delta < 1):
        raise DomainError(
            "A bound fails with a probability inside (0, 1).", got=delta, allowed="0 < delta < 1"
        )
    return float(delta)


def normal_estimate(
    release: ReleaseContents,
    what: str,
    array: xr.DataArray,
    columns: tuple[np.ndarray, np.ndarray],
    delta: float,
    levels: np.ndarray | None = None,
    ends: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """An estimate (value, mcse) of dependent draws, whose bounds are normal ones around the value.

    `ends` are bounds that hold for any value, such as 0 and 1 of a probability.
    """
    tail = check_failure(delta) / 2
    value, mcse = columns
    elements = max(value.shape[-1] if value.ndim else 1, 1)
    half = float(-ndtri(tail / elements)) * mcse
    parts = value, np.maximum(value - half, ends[0]), np.minimum(value + half, ends[1]), mcse
    return make_estimate(
        release,
        what,
        array,
        parts,
        delta=delta,
        elements=elements,
        inequality="normal approximation with effective numbers of draws",
        note=getattr(release, "privacy_note", ""),
        levels=levels,
    )


def make_estimate(
    release: ReleaseContents,
    what: str,
    array: xr.DataArray,
    columns: tuple[np.ndarray, ...],
    *,
    delta: float,
    elements: int,
    inequality: str,
    note: str,
    levels: np.ndarray | None = None,
) -> Estimate:
    """Give flat columns (value, lower, upper, mcse) the shape and labels of the variable."""
    value, lower, upper, mcse = columns
    with np.errstate(invalid="ignore"):
        error = np.maximum(value - lower, upper - value)
    shape = array.shape[2:]
    dims, coords = array.dims[2:], array.drop_vars(SAMPLE_DIMS, errors="ignore").coords
    if levels is not None:
        shape, dims = (len(levels), *shape), ("quantile", *dims)
        coords = {**coords, "quantile": levels}  # type: ignore[assignment]

    def label(part: np.ndarray) -> xr.DataArray | float:
        if shape == ():
            return float(part.item())
        return xr.DataArray(part.reshape(shape), dims=dims, coords=coords, name=array.name)

    mark = "" if release.private else f" ({display.NOT_PRIVATE})"
    return Estimate(
        what=what + mark,
        value=label(value),
        error=label(error),
        lower=label(lower),
        upper=label(upper),
        mcse=label(mcse),
        draws=release.posterior.sizes["draw"],
        confidence=1 - float(delta),
        method=_method_text(release, inequality, 1 - float(delta), elements),
        note=note,
    )


def _method_text(
    release: ReleaseContents, inequality: str, confidence: float, elements: int
) -> str:
    together = f" for all {elements} elements together" if elements > 1 else ""
    draws = "independent draws" if monte_carlo_errors_of(release) is None else "draws"
    return (
        f"{inequality}, confidence {display.format_estimate(confidence)}{together}, "
        f"for {draws} of {display.sampled_distribution(release)}"
    )


def _value_text(estimate: Estimate) -> str:
    write = display.format_estimate
    return (
        f"{write(estimate.value)}, error at most {write(estimate.error)} "
        f"[{write(estimate.lower)}, {write(estimate.upper)}], mcse {write(estimate.mcse)}"
    )
