"""Estimates of log P/Q0 from rows of data: kernel densities, histograms and classifiers.

They may be as bad as they like: privacy never rests on them, and they never leave the curator.
The kernel density is Gaussian, on a grid: linear binning, FFT convolution, and the bandwidth
under which held-out rows are most likely.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy

from pymc_private.errors import DomainError, Unsupported
from pymc_private.mollifiers.references import QuantileReference, Reference
from pymc_private.privacy.validation import refuse_mask

LogRatio = Callable[[np.ndarray], np.ndarray]
ESTIMATE_NAMES = ("kde", "histogram", "network", "trees")
HISTOGRAM_CELLS = {1: 64, 2: 16, 3: 6}
"""Cells of equal reference mass along each axis."""


def fit_log_ratio(rows: np.ndarray, reference: Reference, how: Any) -> LogRatio:
    """Fit log P/Q0.

    Parameters
    ----------
    rows : array, shape (n, d)
    reference : Reference
    how : str, classifier or callable
        One of `ESTIMATE_NAMES`; an unfitted scikit-learn classifier; or a function of rows, shape
        (m, d), that gives log P/Q0 up to a constant.

    Returns
    -------
    callable
        Rows, shape (m, d), to (m,).

    Raises
    ------
    DomainError
        There is no such estimate, or it does not fit the dimension.
    """
    name = (
        how if isinstance(how, str) else ""
    )  # an array is equal to no text, but says so at length
    if name == "kde":
        return _kernel_ratio(rows, reference)
    if name == "histogram":
        return _histogram_ratio(rows, reference)
    if name in ("network", "trees") or hasattr(how, "fit"):
        learner = (
            {"network": network_classifier, "trees": tree_classifier}[how]()
            if isinstance(how, str)
            else how
        )
        check_support(rows, reference)
        drawn = reference.pool(len(rows))
        return fit_classifier_ratio(learner, rows, drawn)
    if callable(how):
        return how
    raise DomainError(
        "estimate= is not known",
        got=repr(how)[:80],
        allowed=f"{', '.join(map(repr, ESTIMATE_NAMES))}, a classifier, or a function of rows",
    )


def default_estimate(reference: Reference) -> str:
    """The default, by the reference alone: a kernel density up to two dimensions, else trees."""
    return "kde" if reference.dimension <= 2 else "trees"


def fit_classifier_ratio(learner: Any, rows: np.ndarray, drawn: np.ndarray) -> LogRatio:
    """Train a classifier to tell data from draws of Q; its log odds estimate log P/Q.

    Refuses one without `predict_proba`, or that gives NaN for rows it was trained on.
    """
    if not hasattr(learner, "predict_proba"):
        raise DomainError(
            "a learner gives probabilities",
            got=f"{type(learner).__name__}, which has no predict_proba",
            do="wrap it in sklearn.calibration.CalibratedClassifierCV",
        )
    check_spread(rows)
    both = np.concatenate([rows, drawn])
    labels = np.repeat([1, 0], [len(rows), len(drawn)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whether it converged depends on the data
        _fit_classifier(learner, both.copy(), labels)
    ratio = _log_odds_function(learner, np.log(len(drawn) / len(rows)))
    if np.isnan(ratio(both)).any():
        raise DomainError(
            "the learner gives NaN for rows it was trained on",
            got=type(learner).__name__,
            do="scale the features, or choose another learner",
        )
    return ratio


def _fit_classifier(learner: Any, rows: np.ndarray, labels: np.ndarray) -> None:
    """Fit a classifier; an error shows the type of a failure alone: its text may quote data."""
    try:
        learner.fit(rows, labels)
        return
    except Exception as error:
        cause = type(error).__name__
    raise DomainError(
        "the learner cannot be fitted",
        got=f"{cause} of {type(learner).__name__}",
        do="try it on public rows of the same shape and two classes",
    )


def classifier_log_odds(learner: Any, x: np.ndarray) -> np.ndarray:
    """Log odds that a classifier gives rows, shape (m,).

    It gets a copy: a learner that writes into its rows (an in-place scaler) would move the public
    points of a distribution to where the data are. An error shows the type alone of a failure of
    the learner, since its text may quote data.
    """
    try:
        p = np.asarray(learner.predict_proba(np.array(x)), float)
    except Exception as error:
        p, cause = np.empty(0), type(error).__name__
    else:
        cause = f"shape {p.shape}"
    if p.shape != (len(x), 2):
        raise DomainError(
            "the learner does not give two probabilities for each row",
            got=f"{cause} of {type(learner).__name__}",
            allowed="predict_proba(rows) of shape (rows, 2), for two classes",
            do="choose another learner, or more rows",
        ) from None
    with np.errstate(all="ignore"):
        return np.log(p[:, 1]) - np.log1p(-p[:, 1])


def _log_odds_function(learner: Any, shift: float) -> LogRatio:
    """The log odds plus a constant, as a function of rows."""

    def ratio(points: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return classifier_log_odds(learner, points) + shift

    return ratio


def network_classifier(seed: int | None = None) -> Any:
    """The classifier of Husain, Cranko and Nock: tanh layers of 25, 25 and 25 units."""
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        (25, 25, 25),
        activation="tanh",
        alpha=0.0,
        batch_size=500,
        learning_rate_init=0.005,
        max_iter=30,
        tol=0.0,
        random_state=seed,
    )


def tree_classifier(seed: int | None = None) -> Any:
    """Boosted trees, stopped when the score of held-out rows stops improving."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=300,
        max_leaf_nodes=15,
        l2_regularization=1.0,
        early_stopping=True,
        random_state=seed,
    )


def _kernel_ratio(rows: np.ndarray, reference: Reference) -> LogRatio:
    """log P/Q0 by a kernel density."""
    if reference.dimension > 3:
        raise DomainError(
            "a kernel estimate is for one to three dimensions",
            got=reference.dimension,
            do="estimate='trees' or 'network'",
        )
    check_support(rows, reference)
    log_density = kernel_density(rows)
    return lambda points: log_density(points) - reference.logpdf(points)


def _histogram_ratio(rows: np.ndarray, reference: Reference) -> LogRatio:
    """log P/Q0 by counts in cells of equal reference mass."""
    if not isinstance(reference, QuantileReference) or reference.dimension not in HISTOGRAM_CELLS:
        raise DomainError(
            "a histogram needs a reference with known quantiles in one to three dimensions",
            got=f"{reference.text}, dimension {reference.dimension}",
            do="estimate='trees' or 'network'",
        )
    check_support(rows, reference)
    check_spread(rows)
    size = HISTOGRAM_CELLS[reference.dimension]

    def cell(points: np.ndarray) -> np.ndarray:
        along = np.clip((reference.uniforms(points) * size).astype(np.int64), 0, size - 1)
        return np.ravel_multi_index(tuple(along.T), (size,) * reference.dimension)

    share = np.bincount(cell(rows), minlength=size**reference.dimension) / len(rows)
    with np.errstate(divide="ignore"):
        log_ratio = np.log(share * len(share))
    return lambda points: log_ratio[cell(points)]


def check_rows(data: Any, dimension: int | None = None) -> np.ndarray:
    """Data as rows, shape (n, d).

    Raises
    ------
    DomainError
        No rows, not numbers, NaN or infinite, or another dimension than the reference's.
    """
    refuse_mask(data, "data")
    try:
        is_other = scipy.sparse.issparse(data) or np.iscomplexobj(data)
    except Exception:  # of whatever library they come from
        is_other = False  # refused below
    if is_other:
        raise DomainError(
            "sparse and complex data are not supported",
            got=type(data).__name__,
            allowed="an array of real numbers",
        )
    try:
        rows = np.asarray(data, float)
    except (TypeError, ValueError, OverflowError):
        raise DomainError(
            "the data are numbers", got=type(data).__name__, allowed="an array of real numbers"
        ) from None
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not rows.size:
        raise DomainError(
            "the data are rows", got=f"shape {rows.shape}", allowed="(n,) or (n, d), n >= 1"
        )
    if not np.isfinite(rows).all():
        raise DomainError(
            "the data hold NaN or infinite numbers", do="drop or impute these rows first"
        )
    if dimension is not None and rows.shape[1] != dimension:
        raise DomainError(
            "data and reference differ in dimension",
            got=f"{rows.shape[1]} columns",
            allowed=f"{dimension}, as the reference has",
        )
    return rows


def check_support(rows: np.ndarray, reference: Reference) -> None:
    """Refuse a reference without support at some of the data, which could never be drawn.

    A prior predictive has no density; its data are predictions of the same model.
    """
    try:
        with np.errstate(divide="ignore"):
            inside = reference.logpdf(rows) > -np.inf
    except Unsupported:
        return
    if not inside.all():
        raise DomainError(
            "the reference has no support where the target has mass",
            allowed="a reference that covers all that a record could be",
            do="widen the reference, or clip the data to its support first",
        )


def check_spread(rows: np.ndarray) -> None:
    """Refuse data in which no column has two values."""
    if not (np.ptp(rows, axis=0) > 0.0).any():
        raise DomainError(
            "constant data have no density",
            got="one value only",
            do="use a finite reference, whose categories may be as few as wanted",
        )


def check_ratio(ratio: np.ndarray, count: int) -> None:
    """Refuse an estimate that is not one number for each row."""
    if ratio.shape != (count,):
        raise DomainError(
            "an estimate gives one number for each row",
            got=f"shape {ratio.shape} for {count} rows",
            allowed=f"({count},)",
        )


GRID_POINTS = {1: 8192, 2: 512, 3: 96}
"""Grid points along each axis by dimension."""
BANDWIDTH_FACTORS = tuple(2.0 ** (-k / 2.0) for k in range(-1, 11))
"""Bandwidths tried, as multiples of Scott's: from sqrt(2) down to a thirty-second."""
HELD_OUT_EVERY = 4
"""Every fourth row judges the bandwidth."""
FFT_NOISE = 1e-13
"""Densities below this share of the peak are rounding of the Fourier transform: zero."""
LogDensity = Callable[[np.ndarray], np.ndarray]


def kernel_density(
    rows: np.ndarray, bandwidth: float | Sequence[float] | None = None
) -> LogDensity:
    """Estimate a density in one to three dimensions.

    The estimate is for the curator: it depends on single rows.

    Parameters
    ----------
    rows : array, shape (n, d)
    bandwidth : float or sequence of float, optional
        Standard deviation of the kernel along each axis. Default: that among `BANDWIDTH_FACTORS`
        times Scott's under which held-out rows are most likely.

    Returns
    -------
    callable
        Points, shape (m, d), to log densities; -inf beyond the grid.

    Raises
    ------
    DomainError
        A column is constant: it has no density.
    """
    n, d = rows.shape
    if not (np.ptp(rows, axis=0) > 0.0).all():
        raise DomainError(
            "a constant has no density",
            got="a column with one value only",
            do="drop the column, use a finite reference, or give a distribution around it, such as "
            "scipy.stats.norm(value, width) with a public width",
        )
    width = np.broadcast_to(np.asarray(bandwidth or 0.0, float), (d,))
    scott = rows.std(axis=0) * n ** (-1.0 / (d + 4))
    reach = 6.0 * np.maximum(scott, width)
    axes = [
        np.linspace(low - pad, high + pad, GRID_POINTS[d])
        for low, high, pad in zip(rows.min(axis=0), rows.max(axis=0), reach, strict=True)
    ]
    if bandwidth is None:
        width = scott * _best_factor(rows, axes, scott)
    return _log_interpolant(
        axes, _gaussian_smooth(scipy.fft.rfftn(_linear_binning(rows, axes)), axes, width)
    )


def _best_factor(rows: np.ndarray, axes: list[np.ndarray], scott: np.ndarray) -> float:
    """The factor on Scott's bandwidth under which held-out rows are most likely."""
    judge = np.arange(len(rows)) % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    if judge.sum() < 2:
        return 1.0
    binned = scipy.fft.rfftn(_linear_binning(rows[~judge], axes))

    def fit(factor: float) -> float:
        found = _log_interpolant(axes, _gaussian_smooth(binned, axes, factor * scott))(rows[judge])
        return float(np.maximum(found, -50.0).mean())

    scores: list[float] = []
    for factor in BANDWIDTH_FACTORS:  # from wide to narrow, until it gets worse twice
        scores.append(fit(factor))
        if len(scores) > 2 and scores[-1] < scores[-2] < scores[-3]:
            break
    return BANDWIDTH_FACTORS[int(np.argmax(scores))]


def _linear_binning(rows: np.ndarray, axes: list[np.ndarray]) -> np.ndarray:
    """Linear binning: spread each row over the corners of its cell, which preserves the mean."""
    shape = tuple(len(axis) for axis in axes)
    grid = np.zeros(int(np.prod(shape)))
    scaled = [(rows[:, j] - axis[0]) / (axis[1] - axis[0]) for j, axis in enumerate(axes)]
    floor = [
        np.clip(p.astype(np.int64), 0, size - 2) for p, size in zip(scaled, shape, strict=True)
    ]
    for corner in np.ndindex((2,) * len(axes)):
        weight = np.ones(len(rows))
        for p, f, up in zip(scaled, floor, corner, strict=True):
            weight *= (p - f) if up else (1.0 - (p - f))
        index = np.ravel_multi_index(
            tuple(f + up for f, up in zip(floor, corner, strict=True)), shape
        )
        grid += np.bincount(index, weight, minlength=grid.size)
    return grid.reshape(shape) / len(rows)


def _gaussian_smooth(spectrum: np.ndarray, axes: list[np.ndarray], width: np.ndarray) -> np.ndarray:
    """Convolve with a Gaussian; the grid extends far enough for the periodic convolution."""
    shape = [len(axis) for axis in axes]
    steps = np.array([axis[1] - axis[0] for axis in axes])
    damped = spectrum
    for j, (size, sigma) in enumerate(zip(shape, np.maximum(width / steps, 0.5), strict=True)):
        waves = scipy.fft.rfftfreq(size) if j == len(shape) - 1 else scipy.fft.fftfreq(size)
        along = np.exp(-2.0 * (np.pi * sigma * waves) ** 2)
        damped = damped * along.reshape([-1 if i == j else 1 for i in range(len(shape))])
    smooth = scipy.fft.irfftn(damped, shape)
    return np.where(smooth > FFT_NOISE * smooth.max(), smooth, 0.0) / np.prod(steps)


def _log_interpolant(axes: list[np.ndarray], density: np.ndarray) -> LogDensity:
    """The log of a density on a grid, interpolated linearly."""
    between = scipy.interpolate.RegularGridInterpolator(
        axes, density, bounds_error=False, fill_value=0.0
    )

    def log_density(points: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(between(points), 0.0))

    return log_density
