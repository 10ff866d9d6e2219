"""A certified lower bound on delta: the hockey-stick divergence of two laws, by an event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from pymc_private.audit.statistical_tests__allowance import FALSE_ALARM, pay
from pymc_private.audit.events__classifiers import Classifier, Score
from pymc_private.audit.epsilon import prepared, tested_event
from pymc_private.audit.events import Event, delta_of
from pymc_private.audit.statistical_tests__samples import Sample
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from pymc_private.privacy.validation import not_negative
from pymc_private.privacy.rounding__printing import number

LARGEST_EPSILON = 700.0


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
        not_negative(claim=claim)
        return self.delta > float(claim)

    def __repr__(self) -> str:
        return (
            f"DeltaBound(delta >= {number(self.delta, up=False)} at epsilon "
            f"{number(self.epsilon)}, but for a probability of {number(self.false_alarm)}: "
            f"{self.event.counted(self.inside, self.tested)})"
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
    not_negative(epsilon=epsilon)
    if epsilon > LARGEST_EPSILON:
        raise DomainError("epsilon is too large", got=epsilon, allowed=f"<= {LARGEST_EPSILON:g}")
    samples, candidates = prepared(p, q, draws, score, classifier)
    pay(false_alarm)

    def value(inside: Any, tested: Any, other: Any, others: Any, error: float) -> Any:
        return delta_of(inside, tested, other, others, epsilon, error)

    found, event, inside, tested = tested_event(
        candidates, samples, value, false_alarm, random_seed
    )
    return DeltaBound(max(0.0, found), float(epsilon), event, inside, tested, false_alarm)
