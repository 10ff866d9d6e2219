"""mollify: the nearest law to a target that stays near a public one."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.mollifiers.window__budget import Total, settle
from pymc_private.mollifiers.mollified_distributions__clip import best_level, clip_to_window
from pymc_private.mollifiers.density_estimates import check_ratio, check_rows, default_estimate, estimate_ratio
from pymc_private.mollifiers.mollified_distributions__hull import Hull, Mixture, project
from pymc_private.mollifiers.mollified_distributions import Categories, Cells, Table, Tilted, bounded, half_range, table_of
from pymc_private.mollifiers.mollified import Mollified
from pymc_private.mollifiers.references__reading import as_reference
from pymc_private.mollifiers.references import Finite, Marginals, Reference, pool_size
from pymc_private.mollifiers.mollify__targets import finite_ratio
from pymc_private.mollifiers.window import Window, window_of

LogRatio = Callable[[np.ndarray], np.ndarray]


def mollify(
    target: Any,
    reference: Any,
    epsilon: float | None = None,
    *,
    total: Total | None = None,
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
    epsilon, kind, planned, delta = settle(epsilon, total, kind, window=window, hull=hull)
    if isinstance(reference, Hull):
        return _projected(target, reference, epsilon, planned, delta)
    base = as_reference(reference)
    if isinstance(base, Finite):
        ratio = finite_ratio(target, base)
        law: Table = Categories(base)
        function = None
    else:
        function = _ratio(target, base, estimate)
        direct = kind == "tilt" and _is_ours(target, estimate)
        law = table_of(base, pool_size(base, pool), rough=direct and isinstance(base, Marginals))
        with np.errstate(all="ignore"):
            ratio = _one_each(function, _places(law))
        if direct and isinstance(base, Marginals):
            return _tilted(base, ratio, law.mass, function, (epsilon, planned, delta))
    if kind == "tilt":
        return _tilted_table(law, base, ratio, function, (epsilon, planned, delta))
    chosen = window_of(epsilon, window)
    return _clipped(law, base, ratio, function, (chosen, planned, delta))


def _ratio(target: Any, base: Reference, estimate: Any) -> LogRatio:
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
        return lambda x: _one_each(target, x) - base.logpdf(x)
    rows = check_rows(target, base.dimension)
    return estimate_ratio(rows, base, default_estimate(base) if estimate is None else estimate)


def _one_each(function: LogRatio, x: np.ndarray) -> np.ndarray:
    """What a function says of rows: a number for each. It gets a copy, to do with as it likes."""
    found = np.asarray(function(np.array(x)), float)
    check_ratio(found, len(x))
    return found


def _is_ours(target: Any, estimate: Any) -> bool:
    """Whether log P/Q0 is known to be a function of one row at a time.

    What users bring may look at the whole batch, keep a counter or draw numbers. It is evaluated
    once, at fixed points: then it is some function of them, and the law is one law.
    """
    if any(hasattr(target, name) for name in ("logpdf", "score_samples")):
        return isinstance(as_reference(target), Marginals)
    return not callable(target) and (estimate is None or isinstance(estimate, str))


def _places(law: Table) -> np.ndarray:
    return law.centers() if isinstance(law, Cells) else law.points  # type: ignore[attr-defined]


def _clipped(
    law: Table, base: Any, ratio: np.ndarray, function: LogRatio | None, numbers: tuple
) -> Mollified:
    window, planned, delta = numbers
    weights, level = clip_to_window(ratio, law.mass, window)
    law.weigh(weights, window.upper, math.exp(window.upper))
    found: LogRatio | None = None
    if isinstance(law, Cells):
        found = law.weights_at
    elif function is not None:
        found = _at_level(function, level, float(weights.min()), float(weights.max()))
    return Mollified(law, base, window.epsilon, window, "clip", found, planned, delta)


def _at_level(function: LogRatio, level: float, least: float, most: float) -> LogRatio:
    def clipped(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            ratio = function(np.array(x))
            return np.clip(np.where(np.isfinite(ratio), ratio - level, -np.inf), least, most)

    return clipped


def _tilted(
    base: Marginals, ratio: np.ndarray, mass: np.ndarray, function: LogRatio, numbers: tuple
) -> Mollified:
    """A tilt that is evaluated where it is drawn."""
    epsilon, planned, delta = numbers
    half = half_range(epsilon)
    shifted = _shifted(function, best_level(ratio, mass, 2.0 * half), half)
    window = Window(-epsilon / 4.0, epsilon / 4.0, epsilon)
    law = Tilted(base, shifted, half)
    return Mollified(law, base, epsilon, window, "tilt", shifted, planned, delta)


def _tilted_table(
    law: Table, base: Any, ratio: np.ndarray, function: LogRatio | None, numbers: tuple
) -> Mollified:
    """A tilt that was evaluated on categories, cells or a pool."""
    epsilon, planned, delta = numbers
    half = half_range(epsilon)
    level = best_level(ratio, law.mass, 2.0 * half)
    law.weigh(bounded(ratio - level, half), half, math.exp(2.0 * half))
    found: LogRatio | None = None
    if isinstance(law, Cells):
        found = law.weights_at
    elif function is not None:
        found = _shifted(function, level, half)
    window = Window(-epsilon / 4.0, epsilon / 4.0, epsilon)
    return Mollified(law, base, epsilon, window, "tilt", found, planned, delta)


def _shifted(function: LogRatio, level: float, half: float) -> LogRatio:
    def shifted(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return bounded(function(np.array(x)) - level, half)

    return shifted


def _projected(
    target: Any, hull: Hull, epsilon: float, planned: int | None, delta: float
) -> Mollified:
    if hull.epsilon > epsilon:
        raise DomainError(
            "two laws in this hull differ by more than epsilon",
            got=f"{hull.epsilon:.4g} nats",
            allowed=f"at most {epsilon:g}",
            do=f"hull.shrunk({epsilon:g}) mixes its laws with their mean until it fits",
        )
    mean = Finite(hull.laws.mean(axis=0), hull.labels)
    cells = hull.cells
    base: Finite | Marginals = mean if cells is None else cells.reference
    if cells is None:
        mass = mean.mass * np.exp(finite_ratio(target, mean))
    else:
        rows = check_rows(target, base.dimension)
        mass = np.bincount(cells.find(rows), minlength=len(mean.mass)) / len(rows)
    law = Mixture(hull, project(mass, hull))
    found = None if cells is None else (lambda x: law.weights[cells.find(x)])
    window = Window(-epsilon, epsilon, 2.0 * epsilon)
    return Mollified(law, base, epsilon, window, "hull", found, planned, delta)
