"""Estimates of log P/Q0 from rows of data.

They may be as bad as they like: privacy never rests on them. They never leave the curator.
"""

from __future__ import annotations

import warnings
import numpy as np
from collections.abc import Callable
from typing import Any
from scipy import sparse
from pymc_private.errors import DomainError, Unsupported
from pymc_private.mollifiers.density_estimates__kernel import kernel_density
from pymc_private.mollifiers.references import Marginals, Reference
from pymc_private.mollifiers.boosting_rounds import log_odds
from pymc_private.privacy.validation import refuse_mask

LogRatio = Callable[[np.ndarray], np.ndarray]
NAMES = ("kde", "histogram", "network", "trees")
HISTOGRAM = {1: 64, 2: 16, 3: 6}
"""Cells of equal reference mass along each axis."""


def network(seed: int | None = None) -> Any:
    """Give the classifier of Husain, Cranko and Nock: tanh layers of 25, 25 and 25 units."""
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


def trees(seed: int | None = None) -> Any:
    """Boosted trees, stopped where held-out rows stop gaining."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=300,
        max_leaf_nodes=15,
        l2_regularization=1.0,
        early_stopping=True,
        random_state=seed,
    )


def check_rows(data: Any, dimension: int | None = None) -> np.ndarray:
    """Give data as rows, shape (n, d).

    Raises
    ------
    DomainError
        No rows, not numbers, NaN or infinite, or another dimension than the reference's.
    """
    refuse_mask(data, "data")
    if sparse.issparse(data) or np.iscomplexobj(data):
        raise DomainError(
            "sparse and complex data are not supported",
            got=type(data).__name__,
            allowed="an array of real numbers",
        )
    try:
        rows = np.asarray(data, float)
    except (TypeError, ValueError):
        raise DomainError("the data are numbers", got=type(data).__name__) from None
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
    """Refuse a reference that gives the data no density.

    A prior predictive has none at hand; its data are predictions of the same model.

    Raises
    ------
    DomainError
        Somewhere it gives none. What lies there could never be drawn.
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
    """Refuse data that are one point.

    Raises
    ------
    DomainError
        No column has two values.
    """
    if not (np.ptp(rows, axis=0) > 0.0).any():
        raise DomainError(
            "constant data have no density",
            got="one value only",
            do="use a finite reference, whose categories may be as few as wanted",
        )


def check_ratio(ratio: np.ndarray, count: int) -> None:
    """Refuse what is not one number for each row.

    Raises
    ------
    DomainError
        It has another shape.
    """
    if ratio.shape != (count,):
        raise DomainError(
            "an estimate gives one number for each row",
            got=f"shape {ratio.shape} for {count} rows",
            allowed=f"({count},)",
        )


def estimate_ratio(rows: np.ndarray, reference: Reference, how: Any) -> LogRatio:
    """Fit log P/Q0.

    Parameters
    ----------
    rows : array, shape (n, d)
    reference : Reference
    how : str, classifier or callable
        One of `NAMES`; an unfitted scikit-learn classifier; or a function of rows, shape (m, d),
        that gives log P/Q0 up to a constant.

    Returns
    -------
    callable
        Rows, shape (m, d), to (m,).

    Raises
    ------
    DomainError
        There is no such estimate, or it does not fit the dimension.
    """
    if how == "kde":
        return _kernel(rows, reference)
    if how == "histogram":
        return _histogram(rows, reference)
    if how in ("network", "trees") or hasattr(how, "fit"):
        learner = {"network": network, "trees": trees}[how]() if isinstance(how, str) else how
        check_support(rows, reference)
        drawn = reference.pool(len(rows))
        return classifier_ratio(learner, rows, drawn)
    if callable(how):
        return how
    raise DomainError(
        "estimate=",
        got=repr(how)[:80],
        allowed=f"{', '.join(map(repr, NAMES))}, a classifier, or a function of rows",
    )


def default_estimate(reference: Reference) -> str:
    """Choose by the reference alone: a kernel estimate up to two dimensions, trees beyond."""
    return "kde" if reference.dimension <= 2 else "trees"


def classifier_ratio(learner: Any, rows: np.ndarray, drawn: np.ndarray) -> LogRatio:
    """Learn to tell data from draws of a law; log odds of the classifier estimate log P/Q.

    Raises
    ------
    DomainError
        The classifier has no `predict_proba`, or gives NaN on what it was trained on.
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
        warnings.simplefilter("ignore")  # that it has not converged is no one else's business
        _fit(learner, both.copy(), labels)
    ratio = _log_odds(learner, np.log(len(drawn) / len(rows)))
    if np.isnan(ratio(both)).any():
        raise DomainError(
            "the learner gives NaN for rows it was trained on",
            got=type(learner).__name__,
            do="scale the features, or choose another learner",
        )
    return ratio


def _fit(learner: Any, rows: np.ndarray, labels: np.ndarray) -> None:
    """Fit a classifier; of a failure only the kind is told, for its words may quote data."""
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


def _log_odds(learner: Any, shift: float) -> LogRatio:
    def ratio(points: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return log_odds(learner, points) + shift

    return ratio


def _kernel(rows: np.ndarray, reference: Reference) -> LogRatio:
    if reference.dimension > 3:
        raise DomainError(
            "a kernel estimate is for one to three dimensions",
            got=reference.dimension,
            do="estimate='trees' or 'network'",
        )
    check_support(rows, reference)
    log_density = kernel_density(rows)
    return lambda points: log_density(points) - reference.logpdf(points)


def _histogram(rows: np.ndarray, reference: Reference) -> LogRatio:
    """Counts in cells of equal reference mass."""
    if not isinstance(reference, Marginals) or reference.dimension not in HISTOGRAM:
        raise DomainError(
            "a histogram needs a reference with known quantiles in one to three dimensions",
            got=f"{reference.text}, dimension {reference.dimension}",
            do="estimate='trees' or 'network'",
        )
    check_support(rows, reference)
    check_spread(rows)
    size = HISTOGRAM[reference.dimension]

    def cell(points: np.ndarray) -> np.ndarray:
        along = np.clip((reference.uniforms(points) * size).astype(np.int64), 0, size - 1)
        return np.ravel_multi_index(tuple(along.T), (size,) * reference.dimension)

    share = np.bincount(cell(rows), minlength=size**reference.dimension) / len(rows)
    with np.errstate(divide="ignore"):
        log_ratio = np.log(share * len(share))
    return lambda points: log_ratio[cell(points)]
