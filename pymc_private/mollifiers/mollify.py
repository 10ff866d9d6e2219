"""`mollify`: the distribution nearest to a target within a window around a public reference.

The target (probabilities, rows, or an object with a log density) becomes log P/Q0; that is
clipped to the window and normalized (T15d), turned into an exponential tilt of bounded range
(T15a), or projected to a hull. The estimate may be as bad as it likes: it costs closeness and
never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.mollifiers.density_estimates import (
    LogRatio,
    check_ratio,
    check_rows,
    default_estimate,
    fit_log_ratio,
)
from pymc_private.mollifiers.mollified import Mollified
from pymc_private.mollifiers.mollified_distributions import (
    Hull,
    HullMixture,
    QuantileCells,
    Tilted,
    WeightedCategories,
    WeightedPoints,
    best_tilt_level,
    clip_symmetric,
    clip_to_window,
    project_to_hull,
    support_points,
    tilt_half_range,
    weighted_points,
)
from pymc_private.mollifiers.references import (
    FiniteReference,
    QuantileReference,
    Reference,
    as_reference,
    normalized_probabilities,
    pool_size,
)
from pymc_private.mollifiers.window import TotalBudget, Window, as_window, resolve_budget
from pymc_private.privacy.validation import refuse_mask


def mollify(
    target: Any,
    reference: Any,
    epsilon: float | None = None,
    *,
    total: TotalBudget | None = None,
    kind: str | None = None,
    window: Window | float | str = "symmetric",
    estimate: Any = None,
    pool: int | None = None,
) -> Mollified:
    """Give the distribution nearest to a target within a window around a public reference.

    Of all distributions Q with log Q/Q0 in a window of width epsilon it is the one with the least
    KL(P, Q): clip(P / C, ...) with C such that Q has total mass one. P is the target, or an
    estimate of it from data; C is solved for the estimate, so that a bad one costs closeness and
    never privacy.

    Reads the data and charges nothing: the result is for the curator, and its `sample` charges.

    Parameters
    ----------
    target : object
        On finitely many categories: probabilities (array, or dict by label, which may hold counts),
        or rows, each a label: text, or whole numbers. Else data, shape (n,) or (n, d), or a
        distribution with ``logpdf``.
    reference : object
        Q0, fixed without the data: probabilities, a frozen SciPy distribution or a list of
        independent ones, `Box`, a PyMC model (its prior), anything with ``logpdf`` and
        ``sample``, such as a density fitted to public data; or a `Hull`. It matters more than
        anything else here: no draw is more than e^(epsilon/2) times as likely as under it.
    epsilon : float, nats
        Of one draw.
    total : tuple of (epsilon, delta, draws), optional
        Instead of `epsilon`: what so many draws may cost together.
    kind : {"clip", "tilt"}, optional
        Default: a clip for few draws, where its width is at least `CLIP_WIDTH_RATIO`
        times the range of a tilt, and a tilt for many. See `Mollified`.
    window : {"symmetric"}, float or Window
        Of a clip. A float in (0, 1) is the public share s of the reference where the target is
        thought to live: [a, a e^epsilon], a = 1 / (1 + s (e^epsilon - 1)).
    estimate : str, classifier or callable, optional
        Of log P/Q0 from data: "kde", "histogram", "network", "trees", a scikit-learn classifier,
        or a function. Default: "kde" up to two dimensions, then "trees". Classifiers and functions
        of one's own are evaluated once, on cells or a pool, whatever they do with their batch.
    pool : int
        The number of public draws that stand for a reference that is not cut into cells. Default:
        2^17, of a PyMC distribution 2^14.

    Returns
    -------
    Mollified

    Raises
    ------
    DomainError
        epsilon <= 0; empty, constant or infinite data; another dimension; a reference without
        support where the target has mass; a learner without probabilities.

    References
    ----------
    Theory T15d; Husain, Balle, Cranko and Nock (2020), Local differential privacy for sampling.

    Examples
    --------
    >>> mollified = mollify([0.7, 0.2, 0.1], [0.25, 0.25, 0.5], epsilon=1.0)
    >>> mollified.probabilities.round(4)
    array([0.4122, 0.2846, 0.3033])
    >>> mollified.guarantee(draws=1).pure_epsilon
    1.0
    """
    hull = isinstance(reference, Hull)
    epsilon, kind, draws_planned, delta = resolve_budget(
        epsilon, total, kind, window=window, hull=hull
    )
    if isinstance(reference, Hull):
        return _make_hull_projection(target, reference, epsilon, draws_planned, delta)
    base = as_reference(reference)
    if isinstance(base, FiniteReference):
        ratio = finite_log_ratio(target, base)
        points: WeightedPoints = WeightedCategories(base)
        function = None
    else:
        function = _log_ratio_function(target, base, estimate)
        direct = kind == "tilt" and _is_rowwise(target, estimate)
        points = weighted_points(
            base, pool_size(base, pool), rough=direct and isinstance(base, QuantileReference)
        )
        with np.errstate(all="ignore"):
            ratio = _evaluate_rows(function, support_points(points))
        if direct and isinstance(base, QuantileReference):
            return _make_tilt(base, ratio, points.mass, function, (epsilon, draws_planned, delta))
    if kind == "tilt":
        return _make_tabulated_tilt(points, base, ratio, function, (epsilon, draws_planned, delta))
    chosen = as_window(epsilon, window)
    return _make_clip(points, base, ratio, function, (chosen, draws_planned, delta))


def _log_ratio_function(target: Any, base: Reference, estimate: Any) -> LogRatio:
    """log P/Q0 as a function of rows."""
    if any(hasattr(target, name) for name in ("logpdf", "score_samples")):
        given = as_reference(target)
        if given.dimension != base.dimension:
            raise DomainError(
                "target and reference differ in dimension",
                got=f"{given.dimension} and {base.dimension}",
                do="a reference with one distribution for each column, such as a list of them",
            )
        return lambda x: given.logpdf(x) - base.logpdf(x)  # type: ignore[union-attr]
    if callable(target):
        return lambda x: _evaluate_rows(target, x) - base.logpdf(x)
    rows = check_rows(target, base.dimension)
    return fit_log_ratio(rows, base, default_estimate(base) if estimate is None else estimate)


def _evaluate_rows(function: LogRatio, x: np.ndarray) -> np.ndarray:
    """The value of a function for each row. It gets a copy, which it may change."""
    found = np.asarray(function(np.array(x)), float)
    check_ratio(found, len(x))
    return found


def _is_rowwise(target: Any, estimate: Any) -> bool:
    """Whether log P/Q0 is known to be computed row by row.

    What users bring may look at the whole batch, keep a counter or draw numbers. It is evaluated
    once, at fixed points: then it is some function of them, and the distribution is fixed.
    """
    if any(hasattr(target, name) for name in ("logpdf", "score_samples")):
        return isinstance(as_reference(target), QuantileReference)
    return not callable(target) and (estimate is None or isinstance(estimate, str))


def _make_clip(
    points: WeightedPoints, base: Any, ratio: np.ndarray, function: LogRatio | None, numbers: tuple
) -> Mollified:
    """A clip that was evaluated on categories, cells or a pool, and normalized there."""
    window, draws_planned, delta = numbers
    weights, level = clip_to_window(ratio, points.mass, window)
    points.weigh(weights, window.upper, math.exp(window.upper))
    found: LogRatio | None = None
    if isinstance(points, QuantileCells):
        found = points.weights_at
    elif function is not None:
        found = _clipped_log_ratio(function, level, float(weights.min()), float(weights.max()))
    return Mollified(points, base, window.epsilon, window, "clip", found, draws_planned, delta)


def _clipped_log_ratio(function: LogRatio, level: float, least: float, most: float) -> LogRatio:
    """log Q/Q0 of a clip as a function of rows."""

    def clipped(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            ratio = function(np.array(x))
            return np.clip(np.where(np.isfinite(ratio), ratio - level, -np.inf), least, most)

    return clipped


def _make_tilt(
    base: QuantileReference, ratio: np.ndarray, mass: np.ndarray, function: LogRatio, numbers: tuple
) -> Mollified:
    """A tilt whose weight is evaluated at every proposal."""
    epsilon, draws_planned, delta = numbers
    half = tilt_half_range(epsilon)
    shifted = _bounded_log_ratio(function, best_tilt_level(ratio, mass, 2.0 * half), half)
    window = Window(-epsilon / 4.0, epsilon / 4.0, epsilon)
    tilted = Tilted(base, shifted, half)
    return Mollified(tilted, base, epsilon, window, "tilt", shifted, draws_planned, delta)


def _make_tabulated_tilt(
    points: WeightedPoints, base: Any, ratio: np.ndarray, function: LogRatio | None, numbers: tuple
) -> Mollified:
    """A tilt that was evaluated on categories, cells or a pool."""
    epsilon, draws_planned, delta = numbers
    half = tilt_half_range(epsilon)
    level = best_tilt_level(ratio, points.mass, 2.0 * half)
    points.weigh(clip_symmetric(ratio - level, half), half, math.exp(2.0 * half))
    found: LogRatio | None = None
    if isinstance(points, QuantileCells):
        found = points.weights_at
    elif function is not None:
        found = _bounded_log_ratio(function, level, half)
    window = Window(-epsilon / 4.0, epsilon / 4.0, epsilon)
    return Mollified(points, base, epsilon, window, "tilt", found, draws_planned, delta)


def _bounded_log_ratio(function: LogRatio, level: float, half: float) -> LogRatio:
    """The log weight of a tilt as a function of rows."""

    def shifted(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return clip_symmetric(function(np.array(x)) - level, half)

    return shifted


def _make_hull_projection(
    target: Any, hull: Hull, epsilon: float, draws_planned: int | None, delta: float
) -> Mollified:
    """The mixture of a hull that is nearest to the target."""
    if hull.epsilon > epsilon:
        raise DomainError(
            "two distributions in this hull differ by more than epsilon",
            got=f"{hull.epsilon:.4g} nats",
            allowed=f"at most {epsilon:g}",
            do=f"hull.shrunk({epsilon:g}) mixes them with their mean until it fits",
        )
    mean = FiniteReference(hull.distributions.mean(axis=0), hull.labels)
    cells = hull.cells
    base: FiniteReference | QuantileReference = mean if cells is None else cells.reference
    if cells is None:
        mass = mean.mass * np.exp(finite_log_ratio(target, mean))
    else:
        rows = check_rows(target, base.dimension)
        mass = np.bincount(cells.find(rows), minlength=len(mean.mass)) / len(rows)
    mixture = HullMixture(hull, project_to_hull(mass, hull))
    found = None if cells is None else (lambda x: mixture.weights[cells.find(x)])
    window = Window(-epsilon, epsilon, 2.0 * epsilon)
    return Mollified(mixture, base, epsilon, window, "hull", found, draws_planned, delta)


def finite_log_ratio(target: Any, base: FiniteReference) -> np.ndarray:
    """log P/Q0 on the categories of a reference, shape (k,); -inf where the target has no mass.

    The target holds probabilities, counts or probabilities by label, a distribution with ``pmf``,
    or rows, each a label: text, or whole numbers that are no vector of probabilities. It may not
    have mass where the reference has none.
    """
    mass = normalized_probabilities(_target_mass(target, base), "the target")
    if mass.shape != base.mass.shape:
        raise DomainError(
            "target and reference have different numbers of categories",
            got=f"{len(mass)} and {len(base.mass)}",
            allowed="the same categories in both",
            do="give the target the probability 0 where it lacks a category, and the reference a "
            "positive one",
        )
    if ((mass > 0.0) & (base.mass == 0.0)).any():
        raise DomainError(
            "the reference has no support where the target has mass",
            do="give every category that may occur a positive reference probability",
        )
    with np.errstate(divide="ignore"):
        return np.log(mass) - np.log(np.where(base.mass > 0.0, base.mass, 1.0))


def _target_mass(target: Any, base: FiniteReference) -> Any:
    if isinstance(target, Mapping):
        return probabilities_by_label(target, base)
    if hasattr(target, "pmf") and base.numbers is not None:
        return np.asarray(target.pmf(base.numbers), float)
    refuse_mask(target, "data")
    try:
        values = np.asarray(target)
    except Exception:  # of whatever library it comes from
        raise DomainError(
            "a target is probabilities, or rows of data",
            got=type(target).__name__,
            allowed="an array, or a dict of probabilities or counts by label",
        ) from None
    if values.size and all(isinstance(value, str) for value in values.flat):
        return _label_frequencies(values, base)
    if base.numbers is not None and _are_integers(values):
        if values.ndim == 2 and values.shape[1] == 1:
            return _label_frequencies(values, base)
        if values.shape != base.mass.shape:
            return _label_frequencies(values, base)
        if values.sum() != 1:
            raise DomainError(
                "whole numbers, as many as there are categories, could be counts or rows of data",
                got=f"{len(values)} numbers for {len(base.mass)} categories",
                allowed="probabilities, counts by label, or rows",
                do="give counts as a dict, {label: count}, or rows as one column, shape (n, 1)",
            )
    return target


def probabilities_by_label(target: Mapping, base: FiniteReference) -> np.ndarray:
    """Probabilities or counts by label, as probabilities of all categories."""
    values = np.asarray(list(target.values()), float)
    if not (np.isfinite(values).all() and (values >= 0.0).all() and values.sum() > 0.0):
        raise DomainError(
            "a target by label holds probabilities or counts",
            got="numbers that are negative, not finite, or all zero",
            allowed=">= 0, and one of them above 0",
        )
    mass = np.zeros(len(base.mass))
    mass[base.positions(list(target.keys()))] = values / values.sum()
    return mass


def _label_frequencies(rows: np.ndarray, base: FiniteReference) -> np.ndarray:
    positions = base.positions(rows.ravel())
    return np.bincount(positions, minlength=len(base.mass)) / len(positions)


def _are_integers(values: np.ndarray) -> bool:
    """Whether these are numbers without fractions, and so may be labels."""
    if values.dtype.kind in "iu":
        return bool(values.size)
    return values.dtype.kind == "f" and bool(values.size) and bool((values % 1 == 0.0).all())
