"""Scores that tell two samples apart, learned from a training part.

A score only proposes an event; what the event proves is decided by draws it never saw, so nothing
here needs to be right, and a better score only finds more.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Score = Callable[[np.ndarray], np.ndarray]
"""From draws, shape (n, d), to numbers, shape (n,); high where P is likelier than Q."""

FEW_VALUES, REPEATS = 200, 5
BINS = 32
CLIPPED = 4.0
PRODUCTS = 15
STEPS, RIDGE = 30, 1e-3


class Classifier(Protocol):
    """What scikit-learn calls a classifier of two classes; draws of P have the label 1."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Learn from draws, shape (n, d), and labels 0 and 1, shape (n,)."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities of the labels 0 and 1, shape (n, 2)."""


def probability_score(classifier: Classifier, p: np.ndarray, q: np.ndarray) -> Score:
    """Fit a classifier; its probability of P is the score."""
    labels = np.repeat([1, 0], [len(p), len(q)])
    classifier.fit(np.concatenate([p, q]), labels)
    return lambda x: np.asarray(classifier.predict_proba(x))[:, 1]


def own_scores(p: np.ndarray, q: np.ndarray) -> list[tuple[str, Score]]:
    """Scores of this package's own, by name: frequencies, and a logistic regression.

    Parameters
    ----------
    p, q : array, shape (n, d)
        To learn from.

    Returns
    -------
    list of tuple of str and callable
        Few distinct outputs: the frequency of each. Else the frequencies in bins of each
        coordinate, added up, and a logistic regression on squares and products.
    """
    rows = np.unique(np.concatenate([p, q]), axis=0)
    # Frequencies of outputs that hardly repeat would be noise.
    if len(rows) <= min(FEW_VALUES, (len(p) + len(q)) / REPEATS):
        return [("frequency", row_frequencies(p, q))]
    return [("bins", bin_frequencies(p, q)), ("logistic", logistic(p, q))]


def row_frequencies(p: np.ndarray, q: np.ndarray) -> Score:
    """Log ratio of how often each output occurred; 0 for one never seen."""
    table = _log_ratios([row.tobytes() for row in p + 0.0], [row.tobytes() for row in q + 0.0])
    return lambda x: np.array(
        [table.get(row.tobytes(), 0.0) for row in np.ascontiguousarray(x + 0.0)]
    )


def column_frequencies(p: np.ndarray, q: np.ndarray) -> list[Score]:
    """Log ratios of the values of each column, and their sum over the columns."""
    tables = [_log_ratios(p[:, k].tolist(), q[:, k].tolist()) for k in range(p.shape[1])]

    def of_column(k: int) -> Score:
        return lambda x: np.array([tables[k].get(value, 0.0) for value in x[:, k].tolist()])

    columns = [of_column(k) for k in range(len(tables))]
    if len(columns) == 1:
        return columns
    return [lambda x: np.sum([column(x) for column in columns], axis=0), *columns]


def bin_frequencies(p: np.ndarray, q: np.ndarray) -> Score:
    """Log ratios of the quantile bins of each column, added up over the columns."""
    pooled = np.concatenate([p, q])
    # Equal quantiles are an atom; its bin starts there and ends at the double above it.
    cuts = [np.unique(np.quantile(c, np.linspace(0, 1, BINS + 1)[1:-1], method="lower"))
            for c in pooled.T]  # fmt: skip
    with np.errstate(over="ignore"):
        edges = [np.unique([cut, np.nextafter(cut, np.inf)]) for cut in cuts]

    def bins(x: np.ndarray) -> np.ndarray:
        places = [np.searchsorted(e, x[:, k], side="right") for k, e in enumerate(edges)]
        return np.stack(places, axis=1)

    total = column_frequencies(bins(p), bins(q))[0]
    return lambda x: total(bins(x))


def _log_ratios(p: Sequence[Any], q: Sequence[Any]) -> dict[Any, float]:
    counts: dict[Any, list[float]] = {}
    for side, values in enumerate((p, q)):
        for value in values:
            counts.setdefault(value, [0.5, 0.5])[side] += 1.0
    shift = np.log((len(q) + 1.0) / (len(p) + 1.0))
    return {value: float(np.log(a / b) + shift) for value, (a, b) in counts.items()}


def logistic(p: np.ndarray, q: np.ndarray) -> Score:
    """Log odds of a logistic regression on clipped coordinates, their squares and products.

    Newton's method with a small ridge. Coordinates are centered by their median and scaled by
    their quartiles, then clipped: the log ratio of a private mechanism is bounded as well.
    """
    pooled = np.concatenate([p, q])
    # Halves, since a difference of large doubles may overflow.
    low, center, high = np.quantile(pooled / 2.0, [0.25, 0.5, 0.75], axis=0)
    scale = np.where(high > low, high - low, 0.5)
    products = np.triu_indices(p.shape[1]) if p.shape[1] <= PRODUCTS else None

    def features(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            z = np.clip((x / 2.0 - center) / scale, -CLIPPED, CLIPPED)
        squares = z * z if products is None else z[:, products[0]] * z[:, products[1]]
        return np.column_stack([np.ones(len(x)), z, squares])

    weights = _newton(features(pooled), np.repeat([1.0, 0.0], [len(p), len(q)]))
    return lambda x: features(x) @ weights


def _newton(design: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Weights of a ridge logistic regression; each step is halved until the loss falls."""
    count, size = design.shape
    ridge = RIDGE * np.eye(size)

    def loss(weights: np.ndarray) -> float:
        odds = design @ weights
        fit = np.mean(np.logaddexp(0.0, odds) - labels * odds)
        return float(fit + 0.5 * weights @ ridge @ weights)

    weights = np.zeros(size)
    for _ in range(STEPS):
        probability = 0.5 * (1.0 + np.tanh(0.5 * (design @ weights)))
        gradient = design.T @ (probability - labels) / count + ridge @ weights
        curvature = (design * (probability * (1.0 - probability))[:, None]).T @ design / count
        step = np.linalg.solve(curvature + ridge, gradient)
        length = 1.0
        while loss(weights - length * step) > loss(weights) and length > 1e-6:
            length /= 2.0
        weights = weights - length * step
        if np.max(np.abs(length * step)) < 1e-6:
            break
    return weights
