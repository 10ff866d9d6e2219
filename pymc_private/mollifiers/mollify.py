"""`mollify`: the distribution nearest to a target within a window around a public reference.

The target (probabilities, rows, or an object with a log density) becomes log P/Q0; that is
clipped to the window and normalized (T15d), turned into an exponential tilt of bounded range
(T15a), or projected to a hull. The estimate may be as bad as it likes: it costs closeness and
never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.mollifiers.density_estimates import (
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


def finite_log_ratio(target: Any, base: FiniteReference) -> np.ndarray:
    """Give log P/Q0 on the categories of a reference.

    Parameters
    ----------
    target : object
        Probabilities; counts or probabilities by label; a law with ``pmf``; or rows, each a label:
        text, or whole numbers that are no vector of probabilities.
    base : Finite

    Returns
    -------
    array, shape (k,)
        -inf where the target has no mass.

    Raises
    ------
    DomainError
        It is none of these, or has mass where the reference has none.
    """
    mass = normalized_probabilities(_target_mass(target, base), "the target")
    if mass.shape != base.mass.shape:
        raise DomainError(
            "target and reference have as many categories",
            got=f"{len(mass)} and {len(base.mass)}",
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
    values = np.asarray(target)
    if values.size and all(isinstance(value, str) for value in values.flat):
        return _label_frequencies(values, base)
    if base.numbers is not None and _are_integers(values):
        if values.ndim == 2 and values.shape[1] == 1:
            return _label_frequencies(values, base)
        if values.shape != base.mass.shape:
            return _label_frequencies(values, base)
        if values.sum() != 1:
            raise DomainError(
                "as many whole numbers as categories may be counts or rows",
                got=f"{len(values)} numbers for {len(base.mass)} categories",
                allowed="probabilities, counts by label, or rows",
                do="give counts as a dict, {label: count}, or rows as one column, shape (n, 1)",
            )
    return target


def probabilities_by_label(target: Mapping, base: FiniteReference) -> np.ndarray:
    """Probabilities or counts by label, as probabilities of all categories.

    Raises
    ------
    DomainError
        Negative or infinite numbers, NaN, or zeros alone.
    """
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
    places = base.positions(rows.ravel())
    return np.bincount(places, minlength=len(base.mass)) / len(places)


def _are_integers(values: np.ndarray) -> bool:
    """Whether these are numbers without fractions, and so may be labels."""
    if values.dtype.kind in "iu":
        return bool(values.size)
    return values.dtype.kind == "f" and bool(values.size) and bool((values % 1 == 0.0).all())


LogRatio = Callable[[np.ndarray], np.ndarray]


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
    """Give the law nearest to a target among those that any data set could nearly have had.

    Of all laws Q with log Q/Q0 in a window of width epsilon it is the one with the least KL(P, Q):
    clip(P / C, ...) with C such that Q has unit mass. P is the target, or an estimate of it from
    data; C is solved for the estimate, so that a bad one costs closeness and never privacy.

    Reads the data and charges nothing: what comes back is the curator's, and its `sample` charges.

    Parameters
    ----------
    target : object
        On finitely many categories: probabilities (array, or dict by label, which may hold counts),
        or rows, each a label: text, or whole numbers. Else data, shape (n,) or (n, d), or a law
        with ``logpdf``.
    reference : object
        Q0, fixed without the data: probabilities, a frozen SciPy law or a list of independent ones,
        `Box`, a PyMC model (its prior), anything with ``logpdf`` and ``sample``, such as a density
        fitted to public data; or a `Hull`. It matters more than anything else here: no draw is
        more than e^(epsilon/2) times as likely as under it.
    epsilon : float, nats
        Of one draw.
    total : tuple of (epsilon, delta, draws), optional
        Instead of `epsilon`: what so many draws may cost together.
    kind : {"clip", "tilt"}, optional
        Default: a clip for few draws, where it is at least `WIDER` than what a tilt may range over,
        and a tilt for many. See `Mollified`.
    window : {"symmetric"}, float or Window
        Of a clip. A float in (0, 1) is the public share s of the reference where the target is
        thought to live: [a, a e^epsilon], a = 1 / (1 + s (e^epsilon - 1)).
    estimate : str, classifier or callable, optional
        Of log P/Q0 from data: "kde", "histogram", "network", "trees", a scikit-learn classifier,
        or a function. Default: "kde" up to two dimensions, then "trees". Classifiers and functions
        of one's own are evaluated once, on cells or a pool, whatever they do with their batch.
    pool : int
        How many public draws stand for a reference that is not normalized on cells. Default:
        2^17, of a PyMC law 2^14.

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
    >>> law = mollify([0.7, 0.2, 0.1], [0.25, 0.25, 0.5], epsilon=1.0)
    >>> law.probabilities.round(4)
    array([0.4122, 0.2846, 0.3033])
    >>> law.guarantee(draws=1).pure_epsilon
    1.0
    """
    hull = isinstance(reference, Hull)
    epsilon, kind, planned, delta = resolve_budget(epsilon, total, kind, window=window, hull=hull)
    if isinstance(reference, Hull):
        return _make_hull_projection(target, reference, epsilon, planned, delta)
    base = as_reference(reference)
    if isinstance(base, FiniteReference):
        ratio = finite_log_ratio(target, base)
        law: WeightedPoints = WeightedCategories(base)
        function = None
    else:
        function = _log_ratio_function(target, base, estimate)
        direct = kind == "tilt" and _is_rowwise(target, estimate)
        law = weighted_points(
            base, pool_size(base, pool), rough=direct and isinstance(base, QuantileReference)
        )
        with np.errstate(all="ignore"):
            ratio = _evaluate_rows(function, _support_points(law))
        if direct and isinstance(base, QuantileReference):
            return _make_tilt(base, ratio, law.mass, function, (epsilon, planned, delta))
    if kind == "tilt":
        return _make_tabulated_tilt(law, base, ratio, function, (epsilon, planned, delta))
    chosen = as_window(epsilon, window)
    return _make_clip(law, base, ratio, function, (chosen, planned, delta))


def _log_ratio_function(target: Any, base: Reference, estimate: Any) -> LogRatio:
    """log P/Q0 as a function of rows."""
    if any(hasattr(target, name) for name in ("logpdf", "score_samples")):
        law = as_reference(target)
        if law.dimension != base.dimension:
            raise DomainError(
                "target and reference differ in dimension",
                got=f"{law.dimension} and {base.dimension}",
            )
        return lambda x: law.logpdf(x) - base.logpdf(x)  # type: ignore[union-attr]
    if callable(target):
        return lambda x: _evaluate_rows(target, x) - base.logpdf(x)
    rows = check_rows(target, base.dimension)
    return fit_log_ratio(rows, base, default_estimate(base) if estimate is None else estimate)


def _evaluate_rows(function: LogRatio, x: np.ndarray) -> np.ndarray:
    """What a function says of rows: a number for each. It gets a copy, to do with as it likes."""
    found = np.asarray(function(np.array(x)), float)
    check_ratio(found, len(x))
    return found


def _is_rowwise(target: Any, estimate: Any) -> bool:
    """Whether log P/Q0 is known to be a function of one row at a time.

    What users bring may look at the whole batch, keep a counter or draw numbers. It is evaluated
    once, at fixed points: then it is some function of them, and the law is one law.
    """
    if any(hasattr(target, name) for name in ("logpdf", "score_samples")):
        return isinstance(as_reference(target), QuantileReference)
    return not callable(target) and (estimate is None or isinstance(estimate, str))


def _support_points(law: WeightedPoints) -> np.ndarray:
    return law.centers() if isinstance(law, QuantileCells) else law.points  # type: ignore[attr-defined]


def _make_clip(
    law: WeightedPoints, base: Any, ratio: np.ndarray, function: LogRatio | None, numbers: tuple
) -> Mollified:
    window, planned, delta = numbers
    weights, level = clip_to_window(ratio, law.mass, window)
    law.weigh(weights, window.upper, math.exp(window.upper))
    found: LogRatio | None = None
    if isinstance(law, QuantileCells):
        found = law.weights_at
    elif function is not None:
        found = _clipped_log_ratio(function, level, float(weights.min()), float(weights.max()))
    return Mollified(law, base, window.epsilon, window, "clip", found, planned, delta)


def _clipped_log_ratio(function: LogRatio, level: float, least: float, most: float) -> LogRatio:
    def clipped(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            ratio = function(np.array(x))
            return np.clip(np.where(np.isfinite(ratio), ratio - level, -np.inf), least, most)

    return clipped


def _make_tilt(
    base: QuantileReference, ratio: np.ndarray, mass: np.ndarray, function: LogRatio, numbers: tuple
) -> Mollified:
    """A tilt that is evaluated where it is drawn."""
    epsilon, planned, delta = numbers
    half = tilt_half_range(epsilon)
    shifted = _bounded_log_ratio(function, best_tilt_level(ratio, mass, 2.0 * half), half)
    window = Window(-epsilon / 4.0, epsilon / 4.0, epsilon)
    law = Tilted(base, shifted, half)
    return Mollified(law, base, epsilon, window, "tilt", shifted, planned, delta)


def _make_tabulated_tilt(
    law: WeightedPoints, base: Any, ratio: np.ndarray, function: LogRatio | None, numbers: tuple
) -> Mollified:
    """A tilt that was evaluated on categories, cells or a pool."""
    epsilon, planned, delta = numbers
    half = tilt_half_range(epsilon)
    level = best_tilt_level(ratio, law.mass, 2.0 * half)
    law.weigh(clip_symmetric(ratio - level, half), half, math.exp(2.0 * half))
    found: LogRatio | None = None
    if isinstance(law, QuantileCells):
        found = law.weights_at
    elif function is not None:
        found = _bounded_log_ratio(function, level, half)
    window = Window(-epsilon / 4.0, epsilon / 4.0, epsilon)
    return Mollified(law, base, epsilon, window, "tilt", found, planned, delta)


def _bounded_log_ratio(function: LogRatio, level: float, half: float) -> LogRatio:
    def shifted(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return clip_symmetric(function(np.array(x)) - level, half)

    return shifted


def _make_hull_projection(
    target: Any, hull: Hull, epsilon: float, planned: int | None, delta: float
) -> Mollified:
    if hull.epsilon > epsilon:
        raise DomainError(
            "two laws in this hull differ by more than epsilon",
            got=f"{hull.epsilon:.4g} nats",
            allowed=f"at most {epsilon:g}",
            do=f"hull.shrunk({epsilon:g}) mixes its laws with their mean until it fits",
        )
    mean = FiniteReference(hull.laws.mean(axis=0), hull.labels)
    cells = hull.cells
    base: FiniteReference | QuantileReference = mean if cells is None else cells.reference
    if cells is None:
        mass = mean.mass * np.exp(finite_log_ratio(target, mean))
    else:
        rows = check_rows(target, base.dimension)
        mass = np.bincount(cells.find(rows), minlength=len(mean.mass)) / len(rows)
    law = HullMixture(hull, project_to_hull(mass, hull))
    found = None if cells is None else (lambda x: law.weights[cells.find(x)])
    window = Window(-epsilon, epsilon, 2.0 * epsilon)
    return Mollified(law, base, epsilon, window, "hull", found, planned, delta)
