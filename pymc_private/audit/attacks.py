"""Attacks with a failure probability: who was in the data, and what their record was."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from pymc_private.audit.statistical_tests__allowance import FALSE_ALARM, pay
from pymc_private.audit.statistical_tests__binomial import lower_limit, upper_limit
from pymc_private.audit.events__classifiers import Classifier, Score
from pymc_private.audit.epsilon__delta import delta_lower_bound
from pymc_private.audit.statistical_tests__samples import Sample
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from pymc_private.privacy.validation import inside_unit
from pymc_private.privacy.rounding__printing import number

@dataclass(frozen=True)
class Attack:
    """How well an adversary told two worlds apart.

    Parameters
    ----------
    right, wrong : tuple of (int, int)
        Accusations, and trials, in the world where they are right and where they are wrong.
    claimed : float or None
        Largest advantage that the guarantee leaves: its delta(0). None without a claim.
    false_alarm : float
        Probability with which the true advantage lies outside of the two limits, at most.
    """

    right: tuple[int, int]
    wrong: tuple[int, int]
    claimed: float | None
    false_alarm: float

    @property
    def advantage(self) -> float:
        """Share of right accusations less that of wrong ones, as seen."""
        return self.right[0] / self.right[1] - self.wrong[0] / self.wrong[1]

    @property
    def at_least(self) -> float:
        """Lower limit of this adversary's advantage."""
        error = self.false_alarm / 4.0
        return float(lower_limit(*self.right, error) - upper_limit(*self.wrong, error))

    @property
    def at_most(self) -> float:
        """Upper limit of this adversary's advantage; another one may do better."""
        error = self.false_alarm / 4.0
        return float(upper_limit(*self.right, error) - lower_limit(*self.wrong, error))

    @property
    def breaks(self) -> bool:
        """Whether the claim is false."""
        return self.claimed is not None and self.at_least > self.claimed

    def __repr__(self) -> str:
        claim = "" if self.claimed is None else f", claimed at most {number(self.claimed)}"
        verdict = "; THE CLAIM IS FALSE" if self.breaks else ""
        return (
            f"Attack(advantage {self.advantage:.4g}, in [{self.at_least:.4g}, {self.at_most:.4g}] "
            f"but for a probability of {number(self.false_alarm)}{claim}{verdict})"
        )


def attack(
    accuses: Callable[[Any], bool],
    members: Sequence[Any],
    others: Sequence[Any],
    *,
    claim: float | Guarantee | None = None,
    false_alarm: float = FALSE_ALARM,
) -> Attack:
    """Try an adversary of the user's own on outputs of any kind.

    Parameters
    ----------
    accuses : callable
        Takes what was published, and tells whether the record was in the data.
    members, others : sequence
        Independent outputs on the data with the record, and with another in its place; none of
        them was used to build the adversary.
    claim : float or Guarantee, optional
        What is promised: a bound of the advantage, or a guarantee whose delta(0) is one.
    false_alarm : float

    Returns
    -------
    Attack

    Raises
    ------
    DomainError
        No outputs, or an impossible claim.

    References
    ----------
    Yeom, Giacomelli, Fredrikson and Jha (2018), Definition 4; Clopper and Pearson (1934).

    Examples
    --------
    >>> found = attack(lambda output: "secret" in output, ["a secret"] * 50, ["nothing"] * 50,
    ...                claim=0.1)
    >>> found.advantage, found.breaks
    (1.0, True)
    """
    if not len(members) or not len(others):
        raise DomainError("an attack is tried on outputs of both worlds", got="none of one")
    promised = _claimed(claim)
    pay(false_alarm)
    right = sum(bool(accuses(output)) for output in members)
    wrong = sum(bool(accuses(output)) for output in others)
    return Attack((right, len(members)), (wrong, len(others)), promised, false_alarm)


def membership(
    p: Sample,
    q: Sample,
    *,
    claim: float | Guarantee | None = None,
    score: Score | None = None,
    classifier: Classifier | None = None,
    draws: int | None = None,
    false_alarm: float = FALSE_ALARM,
    random_seed: int = 0,
) -> Attack:
    """Let a learned adversary guess from a release whether a record was in the data.

    He sees half of the outputs with their labels, chooses his event, and is tried on the rest.

    Parameters
    ----------
    p, q : array, shape (n, d), or callable
        Outputs with the record, and with another in its place: one row is all that one release
        holds (of N draws: the N draws side by side).
    claim : float or Guarantee, optional
        As of `attack`.
    score, classifier, draws, random_seed
        As of `epsilon_lower_bound`.
    false_alarm : float

    Returns
    -------
    Attack

    Raises
    ------
    DomainError
        As `epsilon_lower_bound`; an impossible claim.

    Examples
    --------
    >>> noise = np.random.default_rng(1).laplace(size=(2, 20_000))
    >>> membership(noise[0], 1 + noise[1], claim=Guarantee.pure(1.0)).breaks
    False
    """
    promised = _claimed(claim)
    found = delta_lower_bound(
        p, q, score=score, classifier=classifier, draws=draws,
        false_alarm=false_alarm, random_seed=random_seed,
    )  # fmt: skip
    inside, tested = found.inside, found.tested
    one, two = (0, 1) if found.event.likelier == "P" else (1, 0)
    return Attack((inside[one], tested[one]), (inside[two], tested[two]), promised, false_alarm)


@dataclass(frozen=True)
class Reconstruction:
    """How far an adversary's guesses were from the truth, for each truth.

    Parameters
    ----------
    errors : tuple of (hashable, float)
        Mean error where this was the truth.
    half_width : float
        All means are within it of their expectations, but for `false_alarm`.
    floor : float or None
        Error that no adversary can beat at the worst truth, by the claim.
    largest : float
        Largest error there can be.
    false_alarm : float
    """

    errors: tuple[tuple[Hashable, float], ...]
    half_width: float
    floor: float | None
    largest: float
    false_alarm: float

    @property
    def worst(self) -> float:
        """Mean error at the truth that is guessed worst, as seen."""
        return max(error for _, error in self.errors)

    @property
    def at_most(self) -> float:
        """Upper limit of the expected error at the worst truth."""
        return self.worst + self.half_width

    @property
    def breaks(self) -> bool:
        """Whether the claim is false: the adversary is better than anybody could be."""
        return self.floor is not None and self.at_most < self.floor

    def __repr__(self) -> str:
        claim = "" if self.floor is None else f", by the claim at least {self.floor:.4g}"
        verdict = "; THE CLAIM IS FALSE" if self.breaks else ""
        return (
            f"Reconstruction(error {self.worst:.4g} +- {self.half_width:.3g} at the worst of "
            f"{len(self.errors)} truths{claim}, but for a probability of "
            f"{number(self.false_alarm)}{verdict})"
        )


def reconstruction(
    guess: Callable[[Any], Hashable],
    worlds: Mapping[Hashable, Sequence[Any]],
    *,
    distance: Callable[[Any, Any], float] | None = None,
    largest: float = 1.0,
    floor: float | None = None,
    false_alarm: float = FALSE_ALARM,
) -> Reconstruction:
    """Let an adversary guess the data set from what was published.

    Parameters
    ----------
    guess : callable
        From an output to a data set, named as in `worlds` (or anything that `distance` takes).
    worlds : mapping
        Data sets, by a name, and independent outputs on each.
    distance : callable, optional
        Error of a guess: ``distance(guess, truth)`` in [0, largest]. Default: 1 if they differ.
    largest : float
    floor : float, optional
        What is claimed: ``planning.reconstruction_floor(guarantee, distance of two of them)``.
    false_alarm : float

    Returns
    -------
    Reconstruction

    Raises
    ------
    DomainError
        Fewer than two worlds, one without outputs, or an error out of bounds.

    References
    ----------
    Le Cam; Dimitrakakis et al. (2017), Lemma 18; Hoeffding (1963).
    """
    inside_unit(false_alarm=false_alarm)
    if len(worlds) < 2 or not all(len(outputs) for outputs in worlds.values()):
        raise DomainError("reconstruction needs two data sets, with outputs of each")
    apart = distance if distance is not None else (lambda a, b: float(a != b))
    pay(false_alarm)
    errors, fewest = [], min(len(outputs) for outputs in worlds.values())
    for truth, published in worlds.items():
        lost = np.array([apart(guess(output), truth) for output in published], float)
        if not np.all((lost >= 0.0) & (lost <= largest)):
            raise DomainError("an error lies within its bounds", allowed=f"[0, {largest:g}]")
        errors.append((truth, float(lost.mean())))
    half = largest * math.sqrt(math.log(2.0 * len(worlds) / false_alarm) / (2.0 * fewest))
    return Reconstruction(tuple(errors), half, floor, largest, false_alarm)


def _claimed(claim: float | Guarantee | None) -> float | None:
    if claim is None:
        return None
    promised = float(claim.delta(0.0)) if isinstance(claim, Guarantee) else float(claim)
    if not promised >= 0.0:
        raise DomainError("a claimed advantage is not negative", got=claim)
    return min(1.0, promised)
