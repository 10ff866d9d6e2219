"""Certified lower bounds on epsilon and delta from outputs on two neighbors.

If a mechanism is (epsilon, delta)-private, P(B) <= e^epsilon Q(B) + delta for every event B,
and with P and Q exchanged. One half of the draws chooses the event; the other half bounds its
two probabilities by exact binomial limits (Clopper and Pearson). The hockey-stick divergence,
the largest P(B) - e^epsilon Q(B), gives the lower bound on delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from pymc_private.audit.events import (
    BoundFromCounts,
    Classifier,
    Event,
    Score,
    choose_event,
    classifier_score,
    default_scores,
    delta_from_counts,
    epsilon_from_counts,
    joint_scores,
)
from pymc_private.audit.statistical_tests import (
    FALSE_ALARM,
    POWER,
    Sample,
    spend_false_alarm,
    split_in_halves,
    take_two_samples,
)
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from pymc_private.privacy.argument_kinds import CLASSIFIER, DOUBLE, FUNCTION, SEED, takes
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import check_nonnegative, check_open_unit

NamedScores = Sequence[tuple[str, Score]]
"""Scores with their names."""
ScoreLearner = Callable[[np.ndarray, np.ndarray], NamedScores]
"""From training draws of P and of Q to scores."""
LARGEST_EPSILON = 700.0


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound on epsilon, and the counts that prove it.

    Parameters
    ----------
    epsilon : float, nats
        The mechanism is not (e, delta)-private for any e below it, but for `false_alarm`.
    delta : float
    event : Event
        Chosen on training draws; the counts are of others.
    inside : tuple of int
        Draws of P and of Q in the event.
    tested : tuple of int
        Draws of P and of Q that were looked at.
    false_alarm : float
        Probability with which the bound exceeds the truth, at most.
    """

    epsilon: float
    delta: float
    event: Event
    inside: tuple[int, int]
    tested: tuple[int, int]
    false_alarm: float

    @property
    def confidence(self) -> float:
        """Probability with which the bound holds, at least."""
        return 1.0 - self.false_alarm

    def refutes(self, claim: float | Guarantee) -> bool:
        """Whether a claimed epsilon, in nats, or a guarantee at this delta, is false.

        Parameters
        ----------
        claim : float or Guarantee

        Raises
        ------
        DomainError
            A claim below zero.
        """
        return self.epsilon > claimed_epsilon(claim, self.delta)

    def detects(self, claim: float | Guarantee, *, power: float = POWER) -> float:
        """Smallest epsilon of a mechanism that would have been found to break a claim.

        Consider mechanisms whose less likely distribution gives the event the share seen here (one
        draw, if none was seen). Those with this epsilon or more at the event are refuted with
        probability `power`.

        Parameters
        ----------
        claim : float, nats, or Guarantee
        power : float

        Returns
        -------
        float, nats
            Infinite if the draws are too few to refute the claim by such an event.

        Raises
        ------
        DomainError
            A claim below zero, or an impossible power.
        """
        check_open_unit(power=power)
        promised, one = claimed_epsilon(claim, self.delta), 0 if self.event.likelier == "P" else 1
        n, others = self.tested[one], self.tested[1 - one]
        share = max(self.inside[1 - one], 1) / others
        miss = (1.0 - power) / 2.0
        most = stats.binom.isf(miss, others, share)

        def refuted(excess: float) -> bool:
            least = stats.binom.ppf(miss, n, min(1.0, share * math.exp(excess) + self.delta))
            found = epsilon_from_counts(least, n, most, others, self.delta, self.false_alarm)
            return bool(found > promised)

        largest = math.log((1.0 - self.delta) / share)
        if promised >= largest or not refuted(largest):
            return math.inf
        low, high = promised, largest
        while high - low > 1e-6 * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if refuted(middle) else (middle, high)
        return high

    def __repr__(self) -> str:
        return (
            f"EpsilonBound(epsilon >= {format_number(self.epsilon, up=False)} at delta "
            f"{format_number(self.delta)}, but for a probability of "
            f"{format_number(self.false_alarm)}: "
            f"{self.event.counted(self.inside, self.tested)})"
        )


@takes(
    delta=DOUBLE,
    score=FUNCTION.optional,
    classifier=CLASSIFIER.optional,
    false_alarm=DOUBLE,
    random_seed=SEED,
)
def epsilon_lower_bound(
    p: Sample,
    q: Sample,
    *,
    delta: float = 0.0,
    score: Score | None = None,
    classifier: Classifier | None = None,
    draws: int | None = None,
    false_alarm: float = FALSE_ALARM,
    random_seed: int = 0,
) -> EpsilonBound:
    """Prove that a mechanism's epsilon is at least this large, from its outputs on two neighbors.

    If a mechanism is (epsilon, delta)-private, P(B) <= e^epsilon Q(B) + delta for every event B,
    and with P and Q exchanged. Half of the draws choose B and the direction; the other half give
    exact binomial limits of P(B) and Q(B), each wrong with probability `false_alarm` / 2 at most.
    The bound is valid for independent draws, and for a score that is a function of one draw at a
    time; how good the score or the classifier is does not matter. A score that looks at its
    whole batch (a batch mean, a batch normalization, a counter) would break the bound, so the
    draws of both distributions are scored together in a random order, and each half once more.

    Parameters
    ----------
    p, q : array, shape (n,) or (n, d), or callable
        Independent outputs on two neighboring inputs, or samplers: called with `draws`, they
        return as many outputs. The numbers of outputs may differ.
    delta : float
        In [0, 1).
    score : callable, optional
        From draws, shape (n, d), to numbers, shape (n,): the log likelihood ratio where it is
        known. The event is a threshold on it.
    classifier : object, optional
        With ``fit(X, y)`` and ``predict_proba(X)``, as in scikit-learn; y is 1 for draws of P. By
        default frequencies and a logistic regression of this package's own compete.
    draws : int, optional
        How many to draw of each, where `p` and `q` are samplers.
    false_alarm : float
        Probability with which the bound exceeds the truth, at most.
    random_seed : int
        Decides which draws train and which test; any will do.

    Returns
    -------
    EpsilonBound
        `.refutes(claim)` compares it with a number or a Guarantee.

    Raises
    ------
    DomainError
        Samples of other shapes, too small or holding NaN; a score that gives no numbers, or other
        numbers for the same draws among others; delta or `false_alarm` impossible; both a score and
        a classifier.

    References
    ----------
    Clopper and Pearson (1934); Ding, Wang, Wang, Zhang and Kifer (2018) for the division of labor.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> noise = rng.laplace(size=(2, 20_000))
    >>> bound = epsilon_lower_bound(noise[0], 1 + noise[1], score=lambda x: -x[:, 0])
    >>> round(bound.epsilon, 1), bound.refutes(1.0), bound.refutes(0.5)
    (0.8, False, True)
    """
    check_delta(delta, "delta")
    samples, candidates = prepare_samples(p, q, draws, score, classifier)
    spend_false_alarm(false_alarm)
    return bound_from_samples(candidates, samples, delta, false_alarm, random_seed)


@dataclass(frozen=True)
class DeltaBound:
    """A lower bound on delta at one epsilon, and the counts that prove it.

    Parameters
    ----------
    delta : float
        The mechanism is not (epsilon, d)-private for any d below it, but for `false_alarm`. At
        epsilon = 0 it is a lower bound of the total variation: the advantage of an adversary.
    epsilon : float, nats
    event : Event
        Chosen on training draws; the counts are of others.
    inside, tested : tuple of int
        Draws of P and of Q in the event, and all that were looked at.
    false_alarm : float
        Probability with which the bound exceeds the truth, at most.
    """

    delta: float
    epsilon: float
    event: Event
    inside: tuple[int, int]
    tested: tuple[int, int]
    false_alarm: float

    def refutes(self, claim: float | Guarantee) -> bool:
        """Whether a claimed delta, or a guarantee at this epsilon, is false."""
        if isinstance(claim, Guarantee):
            return self.delta > float(claim.delta(self.epsilon))
        check_nonnegative(claim=claim)
        return self.delta > float(claim)

    def __repr__(self) -> str:
        return (
            f"DeltaBound(delta >= {format_number(self.delta, up=False)} at epsilon "
            f"{format_number(self.epsilon)}, but for a probability of "
            f"{format_number(self.false_alarm)}: "
            f"{self.event.counted(self.inside, self.tested)})"
        )


@takes(
    epsilon=DOUBLE,
    score=FUNCTION.optional,
    classifier=CLASSIFIER.optional,
    false_alarm=DOUBLE,
    random_seed=SEED,
)
def delta_lower_bound(
    p: Sample,
    q: Sample,
    *,
    epsilon: float = 0.0,
    score: Score | None = None,
    classifier: Classifier | None = None,
    draws: int | None = None,
    false_alarm: float = FALSE_ALARM,
    random_seed: int = 0,
) -> DeltaBound:
    """Prove that delta is at least this large at some epsilon, from outputs on two neighbors.

    The hockey-stick divergence of P and Q is the largest P(B) - e^epsilon Q(B). A classifier, or a
    score of the user's, chooses B on half of the draws; the other half bound it.

    Parameters
    ----------
    p, q, score, classifier, draws, random_seed
        As of `epsilon_lower_bound`.
    epsilon : float, nats
        At 0 the bound is one of the total variation.
    false_alarm : float
        Probability with which the bound exceeds the truth, at most.

    Returns
    -------
    DeltaBound

    Raises
    ------
    DomainError
        As `epsilon_lower_bound`; epsilon negative or above 700.

    References
    ----------
    Clopper and Pearson (1934).

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(1).laplace(size=(2, 20_000))
    >>> bound = delta_lower_bound(noise[0], 1 + noise[1])
    >>> round(bound.delta, 1), bound.refutes(Guarantee.pure(1.0)), bound.refutes(0.2)
    (0.3, False, True)
    """
    check_nonnegative(epsilon=epsilon)
    if epsilon > LARGEST_EPSILON:
        raise DomainError("epsilon is too large", got=epsilon, allowed=f"<= {LARGEST_EPSILON:g}")
    samples, candidates = prepare_samples(p, q, draws, score, classifier)
    spend_false_alarm(false_alarm)

    def bound(inside: Any, tested: Any, other: Any, others: Any, error: float) -> Any:
        return delta_from_counts(inside, tested, other, others, epsilon, error)

    found, event, inside, tested = choose_and_test_event(
        candidates, samples, bound, false_alarm, random_seed
    )
    return DeltaBound(max(0.0, found), float(epsilon), event, inside, tested, false_alarm)


def prepare_samples(
    p: Sample, q: Sample, draws: int | None, score: Score | None, classifier: Classifier | None
) -> tuple[tuple[np.ndarray, np.ndarray], NamedScores | ScoreLearner]:
    """Two samples as arrays, and the scores (or what learns them) that choose an event on them.

    Raises
    ------
    DomainError
        As `epsilon_lower_bound`.
    """
    if score is not None and classifier is not None:
        raise DomainError("two ways to choose an event", do="give a score or a classifier")
    samples = take_two_samples(p, q, draws)
    if score is not None:
        return samples, [("score", score)]
    if not all(np.isfinite(sample).all() for sample in samples):
        raise DomainError(
            "an output is not finite, and a classifier wants numbers",
            do="give a score, or map such outputs to a number of their own",
        )
    return samples, default_scores if classifier is None else _classifier_learner(classifier)


def bound_from_samples(
    candidates: NamedScores | ScoreLearner,
    samples: tuple[np.ndarray, np.ndarray],
    delta: float,
    false_alarm: float,
    random_seed: int,
) -> EpsilonBound:
    """Choose an event on one half of the draws, test it on the other.

    `candidates` are scores by name, or a function that learns them from half of the training draws,
    the rest of which chooses among them. The caller charges `false_alarm` to the allowance.

    Raises
    ------
    DomainError
        As `epsilon_lower_bound`.
    """

    def bound(inside: Any, tested: Any, other: Any, others: Any, error: float) -> Any:
        return epsilon_from_counts(inside, tested, other, others, delta, error)

    found, event, inside, tested = choose_and_test_event(
        candidates, samples, bound, false_alarm, random_seed
    )
    return EpsilonBound(max(0.0, found), delta, event, inside, tested, false_alarm)


def choose_and_test_event(
    candidates: NamedScores | ScoreLearner,
    samples: tuple[np.ndarray, np.ndarray],
    bound_of: BoundFromCounts,
    false_alarm: float,
    random_seed: int,
) -> tuple[float, Event, tuple[int, int], tuple[int, int]]:
    """Choose an event on one half of the draws, and evaluate it on the other.

    `bound_of` gives the bound, from counts and its probability to fail. Returned are the bound, the
    event, and for P and Q the draws in it and the draws tested.
    """
    rng = np.random.default_rng(random_seed)
    # Shuffled, since sorted draws would make the halves differ in distribution.
    (p, test_p), (q, test_q) = (split_in_halves(rng.permutation(sample)) for sample in samples)
    if callable(candidates):
        (learn_p, p), (learn_q, q) = split_in_halves(p), split_in_halves(q)
        candidates = candidates(learn_p, learn_q)
    tested = len(test_p), len(test_q)
    event = choose_event(candidates, p, q, tested, bound_of, false_alarm)
    of_p, of_q = joint_scores(event.score, test_p, test_q, rng)
    inside = int(event.holds(of_p).sum()), int(event.holds(of_q).sum())
    likelier, less_likely = (0, 1) if event.likelier == "P" else (1, 0)
    found = bound_of(
        inside[likelier], tested[likelier], inside[less_likely], tested[less_likely], false_alarm
    )
    return float(found), event, inside, tested


def _classifier_learner(classifier: Classifier) -> ScoreLearner:
    return lambda p, q: [("probability", classifier_score(classifier, p, q))]


def claimed_epsilon(claim: float | Guarantee, delta: float) -> float:
    """Epsilon of a claim, nats: the number itself, or that of a guarantee at `delta`.

    Raises
    ------
    DomainError
        A number below zero.
    """
    if isinstance(claim, Guarantee):
        return float(claim.epsilon(delta))
    check_nonnegative(claim=claim)
    return float(claim)


def check_delta(delta: float, name: str) -> None:
    """Check that a number is a probability below 1.

    Raises
    ------
    DomainError
        It is none.
    """
    if not 0.0 <= delta < 1.0:
        raise DomainError(f"{name} is a probability below 1", got=delta, allowed=f"0 <= {name} < 1")
