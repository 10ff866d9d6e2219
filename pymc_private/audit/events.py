"""Distinguishing events: thresholds on scores learned from training draws.

A score only proposes an event; what the event proves is decided by draws it never saw, so no
score needs to be right, and a better one only finds more. Here are the scores (frequencies, a
logistic regression, any classifier), the choice of the threshold and direction that promise
the largest bound, the bounds from counts, and the repeated runs of a mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol, TypeAlias

import cloudpickle
import numpy as np

from pymc_private.audit.statistical_tests import clopper_pearson_lower, clopper_pearson_upper
from pymc_private.errors import DomainError
from pymc_private.privacy.argument_kinds import EXECUTOR, FUNCTION, SEED, takes
from pymc_private.privacy.validation import check_count

Score = Callable[[np.ndarray], np.ndarray]
"""From draws, shape (n, d), to numbers, shape (n,); high where P is likelier than Q."""
BoundFromCounts = Callable[[Any, Any, Any, Any, float], Any]
"""A bound from (in event, tested) of the likelier and of the other distribution, and its
probability to fail; vectorized."""
Mechanism: TypeAlias = Callable[[Any, int, int], Any]
"""``mechanism(data, draws, seed)`` gives as many independent outputs, shape (draws, ...)."""
MAX_THRESHOLDS = 200
"""Thresholds tried of one score."""
FEW_VALUES, MIN_REPEATS = 200, 5
"""Frequencies of outputs are used up to so many values, seen so often on average."""
BINS = 32
CLIP_AT = 4.0
"""Quartile ranges from the median."""
MAX_PRODUCT_COLUMNS = 15
"""With more columns the logistic regression has squares but no products."""
NEWTON_STEPS, RIDGE = 30, 1e-3


@dataclass(frozen=True)
class Event:
    """A set of outputs that one of two distributions P and Q gives more often.

    Parameters
    ----------
    name : str
        Of the score.
    score : callable
        From draws, shape (n, d), to numbers, shape (n,).
    threshold : float
    above : bool
        Whether the event is a score of `threshold` or more, or one below it.
    likelier : str
        The distribution that gives it more often: "P" or "Q".
    """

    name: str
    score: Score = field(repr=False)
    threshold: float
    above: bool
    likelier: str

    def contains(self, draws: np.ndarray) -> np.ndarray:
        """Whether each draw lies in the event.

        Parameters
        ----------
        draws : array, shape (n, d)

        Returns
        -------
        array of bool, shape (n,)

        Raises
        ------
        DomainError
            The score gives no number, or not one for each draw.
        """
        return self.holds(evaluate_score(self.score, draws))

    def holds(self, found: np.ndarray) -> np.ndarray:
        """Whether each score lies in the event."""
        return (found >= self.threshold) == self.above

    def counted(self, inside: tuple[int, int], tested: tuple[int, int]) -> str:
        """Counts of the draws of P and of Q in the event, in words."""
        shares = " and ".join(
            f"{k:,} of {n:,} draws of {side}"
            for k, n, side in zip(inside, tested, "PQ", strict=True)
        )
        return f"{self} holds {shares}"

    def __str__(self) -> str:
        return f"{{{self.name} {'>=' if self.above else '<'} {self.threshold:.6g}}}"


def choose_event(
    candidates: Sequence[tuple[str, Score]],
    p: np.ndarray,
    q: np.ndarray,
    tested: tuple[int, int],
    bound_of: BoundFromCounts,
    false_alarm: float,
) -> Event:
    """Find the event that promises the largest bound, in both directions.

    Of hundreds of rare events some look good by chance, and then prove nothing. So each is judged
    by limits that hold for all of them together (Bonferroni's, which cost rare events the most);
    only if none shows anything by these is it judged by the limits of the final bound.

    `p` and `q` are training draws, `tested` the numbers of draws of P and Q that will test the
    event (few of them make rare events useless), `bound_of` is `epsilon_from_counts` or
    `delta_from_counts`, and `false_alarm` that of the final bound.

    Raises
    ------
    DomainError
        No candidates.
    """
    families = [
        family
        for (name, score), above in product(candidates, (True, False))
        for family in _event_families(name, score, above, p, q, tested)
    ]
    if not families:
        raise DomainError(
            "an event needs a score",
            got="score=None and no other kind of event",
            allowed="a function of a draw that returns a number",
            do="leave score= out, and scores are tried in turn",
        )
    many = sum(len(family.thresholds) for family in families)
    for error in (false_alarm / many, false_alarm):
        found = [bound_of(*family.counts, error) for family in families]
        best = int(np.argmax([np.max(values) for values in found]))
        if np.max(found[best]) > 0.0:
            break
    return families[best].event(int(np.argmax(found[best])))


@dataclass(frozen=True)
class _EventFamily:
    """Events of one score and one direction, with the counts that the bound takes."""

    name: str
    score: Score
    above: bool
    likelier: str
    thresholds: np.ndarray
    counts: tuple[np.ndarray, int, np.ndarray, int]

    def event(self, k: int) -> Event:
        return Event(self.name, self.score, float(self.thresholds[k]), self.above, self.likelier)


def _event_families(
    name: str,
    score: Score,
    above: bool,
    p: np.ndarray,
    q: np.ndarray,
    tested: tuple[int, int],
) -> list[_EventFamily]:
    """Training draws in each event, as counts expected among the tested draws."""
    of_p, of_q = np.sort(evaluate_score(score, p)), np.sort(evaluate_score(score, q))
    thresholds = _thresholds(np.concatenate([of_p, of_q]))
    shares = [np.searchsorted(s, thresholds, side="left") / len(s) for s in (of_p, of_q)]
    if above:
        shares = [1.0 - share for share in shares]
    x, y = (share * n for share, n in zip(shares, tested, strict=True))
    m, n = tested
    return [
        _EventFamily(name, score, above, "P", thresholds, (x, m, y, n)),
        _EventFamily(name, score, above, "Q", thresholds, (y, n, x, m)),
    ]


def _thresholds(pooled: np.ndarray) -> np.ndarray:
    """Distinct values to cut at, denser towards both extremes, where rare events lie."""
    values = np.unique(pooled)
    if len(values) <= MAX_THRESHOLDS:
        return values
    last, many = len(values) - 1, MAX_THRESHOLDS // 4
    tail = np.geomspace(1, last, many)
    ranks = np.concatenate([np.linspace(0, last, 2 * many), tail, last - tail])
    return values[np.unique(ranks.astype(int))]


def evaluate_score(score: Score, draws: np.ndarray) -> np.ndarray:
    """Evaluate a score on draws.

    Raises
    ------
    DomainError
        It gives no number, or not one for each draw.
    """
    found = np.asarray(score(draws), float)
    if found.shape != (len(draws),) or np.isnan(found).any():
        raise DomainError(
            "a score gives one number per draw",
            got="NaN" if found.shape == (len(draws),) else f"shape {found.shape}",
            allowed=f"shape ({len(draws)},); infinite values may stand in it",
        )
    return found


def joint_scores(
    score: Score, p: np.ndarray, q: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate a score on draws of P and Q together, in a random order.

    Raises
    ------
    DomainError
        It gives no numbers, or other numbers for the halves of the same draws: then it is no
        function of one draw, and its events prove nothing.
    """
    pooled = np.concatenate([p, q])
    order = rng.permutation(len(pooled))
    found = np.empty(len(pooled))
    found[order] = evaluate_score(score, pooled[order])
    order = rng.permutation(len(pooled))
    again = np.empty(len(pooled))
    for half in np.array_split(order, 2):
        again[half] = evaluate_score(score, pooled[half])
    finite = found[np.isfinite(found)]
    largest = float(np.max(np.abs(finite), initial=0.0))
    # The last bits of a matrix product depend on its shape.
    with np.errstate(over="ignore", invalid="ignore"):
        differ = (found != again) & ~(np.abs(found - again) <= 1e-9 * largest)
    if differ.any():
        raise DomainError(
            "a score is a function of one draw at a time",
            got=f"{int(differ.sum()):,} of {len(found):,} draws had another score among others",
            do="take out what depends on the batch (its mean or order, a batch normalization, a "
            "counter, a random number)",
        )
    return found[: len(p)], found[len(p) :]


def epsilon_from_counts(
    inside: Any, tested: Any, other: Any, others: Any, delta: float, error: float
) -> Any:
    """Lower bound of ln((p - delta) / q) from two counts, in nats; below 0 it shows nothing.

    `inside` of `tested` draws of the likelier distribution lie in the event, `other` of `others` of
    the other one. Each of the two limits fails with probability `error` / 2 at most, so the bound
    fails with probability `error` at most.
    """
    excess = np.maximum(clopper_pearson_lower(inside, tested, error / 2.0) - delta, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(excess) - np.log(clopper_pearson_upper(other, others, error / 2.0))


def delta_from_counts(
    inside: Any, tested: Any, other: Any, others: Any, epsilon: float, error: float
) -> Any:
    """Lower bound of p - e^epsilon q from two counts; below 0 it shows nothing.

    Fails with probability `error` at most, as `epsilon_from_counts`.
    """
    scale = float(np.exp(epsilon))
    return clopper_pearson_lower(inside, tested, error / 2.0) - scale * clopper_pearson_upper(
        other, others, error / 2.0
    )


class Classifier(Protocol):
    """Classifier of two classes with the interface of scikit-learn; draws of P have the label 1."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Learn from draws, shape (n, d), and labels 0 and 1, shape (n,)."""

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities of the labels 0 and 1, shape (n, 2)."""


def classifier_score(classifier: Classifier, p: np.ndarray, q: np.ndarray) -> Score:
    """Fit a classifier; its probability of P is the score."""
    labels = np.repeat([1, 0], [len(p), len(q)])
    classifier.fit(np.concatenate([p, q]), labels)
    return lambda x: np.asarray(classifier.predict_proba(x))[:, 1]


def default_scores(p: np.ndarray, q: np.ndarray) -> list[tuple[str, Score]]:
    """Built-in scores by name, learned from draws of shape (n, d).

    With few distinct outputs: the frequency of each. Else the frequencies in bins of each
    coordinate, added up, and a logistic regression on squares and products.
    """
    rows = np.unique(np.concatenate([p, q]), axis=0)
    # Frequencies of outputs that hardly repeat would be noise.
    if len(rows) <= min(FEW_VALUES, (len(p) + len(q)) / MIN_REPEATS):
        return [("frequency", row_frequencies(p, q))]
    return [("bins", bin_frequencies(p, q)), ("logistic", logistic_score(p, q))]


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
    # Equal quantiles are a point mass; its bin starts there and ends at the double above it.
    cuts = [np.unique(np.quantile(c, np.linspace(0, 1, BINS + 1)[1:-1], method="lower"))
            for c in pooled.T]  # fmt: skip
    with np.errstate(over="ignore"):
        edges = [np.unique([cut, np.nextafter(cut, np.inf)]) for cut in cuts]

    def bins(x: np.ndarray) -> np.ndarray:
        found = [np.searchsorted(e, x[:, k], side="right") for k, e in enumerate(edges)]
        return np.stack(found, axis=1)

    total = column_frequencies(bins(p), bins(q))[0]
    return lambda x: total(bins(x))


def _log_ratios(p: Sequence[Any], q: Sequence[Any]) -> dict[Any, float]:
    counts: dict[Any, list[float]] = {}
    for side, values in enumerate((p, q)):
        for value in values:
            counts.setdefault(value, [0.5, 0.5])[side] += 1.0
    shift = np.log((len(q) + 1.0) / (len(p) + 1.0))
    return {value: float(np.log(a / b) + shift) for value, (a, b) in counts.items()}


def logistic_score(p: np.ndarray, q: np.ndarray) -> Score:
    """Log odds of a logistic regression on clipped coordinates, their squares and products.

    Newton's method with a small ridge. Coordinates are centered by their median and scaled by
    their quartiles, then clipped: the log ratio of a private mechanism is bounded as well.
    """
    pooled = np.concatenate([p, q])
    # Halves, since a difference of large doubles may overflow.
    low, center, high = np.quantile(pooled / 2.0, [0.25, 0.5, 0.75], axis=0)
    scale = np.where(high > low, high - low, 0.5)
    products = np.triu_indices(p.shape[1]) if p.shape[1] <= MAX_PRODUCT_COLUMNS else None

    def features(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            z = np.clip((x / 2.0 - center) / scale, -CLIP_AT, CLIP_AT)
        squares = z * z if products is None else z[:, products[0]] * z[:, products[1]]
        return np.column_stack([np.ones(len(x)), z, squares])

    weights = _fit_logistic(features(pooled), np.repeat([1.0, 0.0], [len(p), len(q)]))
    return lambda x: features(x) @ weights


def _fit_logistic(design: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Weights of a ridge logistic regression; each Newton step is halved until the loss falls."""
    count, size = design.shape
    ridge = RIDGE * np.eye(size)

    def loss(weights: np.ndarray) -> float:
        odds = design @ weights
        fit = np.mean(np.logaddexp(0.0, odds) - labels * odds)
        return float(fit + 0.5 * weights @ ridge @ weights)

    weights = np.zeros(size)
    for _ in range(NEWTON_STEPS):
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


@takes(mechanism=FUNCTION, executor=EXECUTOR.optional, random_seed=SEED)
def outputs(
    mechanism: Mechanism,
    data: Any,
    draws: int,
    *,
    executor: Executor | None = None,
    chunks: int | None = None,
    random_seed: int = 0,
) -> np.ndarray:
    """Run a mechanism many times on one data set.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, draws, seed)``, anybody's; returns independent outputs, shape
        (draws, ...). The seed is for tests: a mechanism with randomness of its own ignores it.
    data : object
        Passed on.
    draws : int
    executor : concurrent.futures.Executor, optional
        Runs the chunks: processes, Dask, ... Default: this process.
    chunks : int, optional
        Pieces of work, each with a seed of its own; default one for each worker, where that is
        known, else 8.
    random_seed : int

    Returns
    -------
    array, shape (draws, d)

    Raises
    ------
    DomainError
        The mechanism gave another number of outputs.
    """
    count = check_count(draws, "draws")
    wanted = (
        getattr(executor, "_max_workers", 8) if chunks is None else check_count(chunks, "chunks")
    )
    pieces = min(wanted, count) if executor is not None else 1
    sizes = [count // pieces + (k < count % pieces) for k in range(pieces)]
    children = np.random.SeedSequence(random_seed).spawn(pieces)
    seeds = [int(child.generate_state(1)[0]) for child in children]
    if executor is None:
        parts = [np.asarray(mechanism(data, sizes[0], seeds[0]))]
    else:
        work = cloudpickle.dumps((mechanism, data))
        parts = list(executor.map(_run_chunk, [work] * pieces, sizes, seeds))
    found = np.concatenate(parts)
    if len(found) != count:
        raise DomainError(
            "the mechanism gave another number of outputs", got=len(found), allowed=count
        )
    return found.reshape(count, -1)


def _run_chunk(work: bytes, draws: int, seed: int) -> np.ndarray:
    mechanism, data = cloudpickle.loads(work)
    return np.asarray(mechanism(data, draws, seed))
