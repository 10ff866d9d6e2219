"""The third statistical test: a certified lower bound on the epsilon of a mechanism."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from scipy import stats
from pymc_private.audit.statistical_tests__allowance import FALSE_ALARM, POWER, pay
from pymc_private.audit.epsilon__claims import check_delta, claimed
from pymc_private.audit.events__classifiers import Classifier, Score, own_scores, probability_score
from pymc_private.audit.events import Event, Value, choose_event, epsilon_of, joint_scores
from pymc_private.audit.statistical_tests__samples import Sample, halves, take_both
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from pymc_private.privacy.validation import inside_unit
from pymc_private.privacy.rounding__printing import number

Candidates = Sequence[tuple[str, Score]]
Learner = Callable[[np.ndarray, np.ndarray], Candidates]


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
        return self.epsilon > claimed(claim, self.delta)

    def detects(self, claim: float | Guarantee, *, power: float = POWER) -> float:
        """Smallest epsilon of a mechanism that would have been found to break a claim.

        Of mechanisms for which the less likely law gives the event the share seen here (one draw,
        if none was seen), those with this epsilon or more at the event are refuted with
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
        inside_unit(power=power)
        promise, one = claimed(claim, self.delta), 0 if self.event.likelier == "P" else 1
        n, others = self.tested[one], self.tested[1 - one]
        share = max(self.inside[1 - one], 1) / others
        miss = (1.0 - power) / 2.0
        most = stats.binom.isf(miss, others, share)

        def refuted(excess: float) -> bool:
            least = stats.binom.ppf(miss, n, min(1.0, share * math.exp(excess) + self.delta))
            found = epsilon_of(least, n, most, others, self.delta, self.false_alarm)
            return bool(found > promise)

        largest = math.log((1.0 - self.delta) / share)
        if promise >= largest or not refuted(largest):
            return math.inf
        low, high = promise, largest
        while high - low > 1e-6 * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if refuted(middle) else (middle, high)
        return high

    def __repr__(self) -> str:
        return (
            f"EpsilonBound(epsilon >= {number(self.epsilon, up=False)} at delta "
            f"{number(self.delta)}, but for a probability of {number(self.false_alarm)}: "
            f"{self.event.counted(self.inside, self.tested)})"
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
    The truth of the bound rests on independent draws, and on a score that is a function of one draw
    at a time; how good the score or the classifier is does not matter. A score that looks at its
    whole batch (a batch mean, a batch normalization, a counter) would break the bound, so the
    draws of both laws are scored together in a random order, and each half of them once more.

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
    samples, candidates = prepared(p, q, draws, score, classifier)
    pay(false_alarm)
    return bound_over(candidates, samples, delta, false_alarm, random_seed)


def prepared(
    p: Sample, q: Sample, draws: int | None, score: Score | None, classifier: Classifier | None
) -> tuple[tuple[np.ndarray, np.ndarray], Candidates | Learner]:
    """Take two samples, and what chooses an event on them.

    Raises
    ------
    DomainError
        As `epsilon_lower_bound`.
    """
    if score is not None and classifier is not None:
        raise DomainError("two ways to choose an event", do="give a score or a classifier")
    samples = take_both(p, q, draws)
    if score is not None:
        return samples, [("score", score)]
    if not all(np.isfinite(sample).all() for sample in samples):
        raise DomainError(
            "an output is not finite, and a classifier wants numbers",
            do="give a score, or map such outputs to a number of their own",
        )
    return samples, own_scores if classifier is None else _learner(classifier)


def bound_over(
    candidates: Candidates | Learner,
    samples: tuple[np.ndarray, np.ndarray],
    delta: float,
    false_alarm: float,
    random_seed: int,
) -> EpsilonBound:
    """Choose an event on one half of the draws, test it on the other; the caller pays.

    Parameters
    ----------
    candidates : sequence of tuple of str and callable, or callable
        Scores by name; or a function that learns them from half of the training draws, the rest
        of which chooses among them.
    samples : tuple of array, shape (n, d)
    delta, false_alarm : float
    random_seed : int

    Raises
    ------
    DomainError
        As `epsilon_lower_bound`.
    """

    def value(inside: Any, tested: Any, other: Any, others: Any, error: float) -> Any:
        return epsilon_of(inside, tested, other, others, delta, error)

    found, event, inside, tested = tested_event(
        candidates, samples, value, false_alarm, random_seed
    )
    return EpsilonBound(max(0.0, found), delta, event, inside, tested, false_alarm)


def tested_event(
    candidates: Candidates | Learner,
    samples: tuple[np.ndarray, np.ndarray],
    value: Value,
    false_alarm: float,
    random_seed: int,
) -> tuple[float, Event, tuple[int, int], tuple[int, int]]:
    """Choose an event on one half of the draws, and evaluate it on the other.

    Parameters
    ----------
    candidates, samples, false_alarm, random_seed
        As of `bound_over`.
    value : callable
        The bound, from counts and its probability to fail.

    Returns
    -------
    tuple
        The bound, the event, and for P and Q the draws in it and the draws looked at.
    """
    rng = np.random.default_rng(random_seed)
    # Shuffled, since draws that come sorted would make the halves two different laws.
    (p, test_p), (q, test_q) = (halves(rng.permutation(sample)) for sample in samples)
    if callable(candidates):
        (learn_p, p), (learn_q, q) = halves(p), halves(q)
        candidates = candidates(learn_p, learn_q)
    tested = len(test_p), len(test_q)
    event = choose_event(candidates, p, q, tested, value, false_alarm)
    of_p, of_q = joint_scores(event.score, test_p, test_q, rng)
    inside = int(event.holds(of_p).sum()), int(event.holds(of_q).sum())
    one, two = (0, 1) if event.likelier == "P" else (1, 0)
    found = value(inside[one], tested[one], inside[two], tested[two], false_alarm)
    return float(found), event, inside, tested


def _learner(classifier: Classifier) -> Learner:
    return lambda p, q: [("probability", probability_score(classifier, p, q))]
