"""Membership, reconstruction and partition attacks with a failure probability.

An attack's advantage is compared with the largest one that a guarantee leaves, its delta(0).
The partition adversary (Dimitrakakis et al. 2017, Lemma 12) compares the shares of the draws
in a few cells with two posteriors. `worst_neighbors` searches the two data sets that a
mechanism distinguishes best, starting from the records at which a certificate attains its
range.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence, Sized
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.audit.epsilon import check_delta, delta_lower_bound, epsilon_lower_bound
from pymc_private.audit.events import Classifier, Mechanism, Score, outputs
from pymc_private.audit.statistical_tests import (
    FALSE_ALARM,
    Allowance,
    Sample,
    clopper_pearson_lower,
    clopper_pearson_upper,
    spend_false_alarm,
)
from pymc_private.errors import DomainError
from pymc_private.planning import partition_radius
from pymc_private.privacy import Guarantee
from pymc_private.privacy.argument_kinds import (
    CLAIM,
    CLASSIFIER,
    DOUBLE,
    DOUBLES,
    EXECUTOR,
    FUNCTION,
    MAPPING,
    NUMBER,
    NUMBERS,
    SEED,
    SEQUENCE,
    takes,
)
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import check_count, check_open_unit, refuse_mask

MANY_DRAWS = 10**12
"""Where the radius is evaluated, which falls as one over the root of the draws."""
Record = dict[str, np.ndarray]
"""Entries of one record by variable."""
PILOT_FALSE_ALARM = 0.05
"""Of a pilot, which only compares neighbors: it proves nothing and is charged to no allowance."""
_ENTRY_NAME = re.compile(r"(?P<name>.+?)(\[(?P<index>[\d, ]+)\])?")


@dataclass(frozen=True)
class Attack:
    """Advantage of an adversary who decides whether a record was in the data.

    Parameters
    ----------
    right, wrong : tuple of (int, int)
        Accusations and trials: on data with the record, where they are right, and without it.
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
        return float(
            clopper_pearson_lower(*self.right, error) - clopper_pearson_upper(*self.wrong, error)
        )

    @property
    def at_most(self) -> float:
        """Upper limit of this adversary's advantage; another one may do better."""
        error = self.false_alarm / 4.0
        return float(
            clopper_pearson_upper(*self.right, error) - clopper_pearson_lower(*self.wrong, error)
        )

    @property
    def breaks(self) -> bool:
        """Whether the claim is false."""
        return self.claimed is not None and self.at_least > self.claimed

    def __repr__(self) -> str:
        claim = "" if self.claimed is None else f", claimed at most {format_number(self.claimed)}"
        verdict = "; THE CLAIM IS FALSE" if self.breaks else ""
        return (
            f"Attack(advantage {self.advantage:.4g}, in [{self.at_least:.4g}, {self.at_most:.4g}] "
            f"but for a probability of {format_number(self.false_alarm)}{claim}{verdict})"
        )


@takes(
    accuses=FUNCTION, members=SEQUENCE, others=SEQUENCE, claim=CLAIM.optional, false_alarm=DOUBLE
)
def attack(
    accuses: Callable[[Any], bool],
    members: Sequence[Any],
    others: Sequence[Any],
    *,
    claim: float | Guarantee | None = None,
    false_alarm: float = FALSE_ALARM,
) -> Attack:
    """Measure the advantage of a given adversary on outputs of any kind.

    Parameters
    ----------
    accuses : callable
        Takes what was published, and says whether the record was in the data.
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
        raise DomainError(
            "an attack is tried on outputs of both data sets",
            got=f"{len(members)} and {len(others)} outputs",
            allowed="one output or more of each data set",
            do="run the mechanism on both, as audit.outputs(mechanism, data, draws) does",
        )
    promised = _claimed_advantage(claim)
    spend_false_alarm(false_alarm)
    right = sum(bool(accuses(output)) for output in members)
    wrong = sum(bool(accuses(output)) for output in others)
    return Attack((right, len(members)), (wrong, len(others)), promised, false_alarm)


@takes(
    claim=CLAIM.optional,
    score=FUNCTION.optional,
    classifier=CLASSIFIER.optional,
    false_alarm=DOUBLE,
    random_seed=SEED,
)
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
    promised = _claimed_advantage(claim)
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
            f"{format_number(self.false_alarm)}{verdict})"
        )


@takes(
    guess=FUNCTION,
    worlds=MAPPING,
    distance=FUNCTION.optional,
    largest=DOUBLE,
    floor=DOUBLE.optional,
    false_alarm=DOUBLE,
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
    check_open_unit(false_alarm=false_alarm)
    counts = [len(found) if isinstance(found, Sized) else 0 for found in worlds.values()]
    if len(worlds) < 2 or not all(counts):
        raise DomainError(
            "reconstruction needs two data sets, with outputs of each",
            got=f"{len(worlds)} data sets, with {counts} outputs",
            allowed="{secret: outputs, ...} of two secrets or more, none without outputs",
            do="run the mechanism on the data set of each secret",
        )
    apart = distance if distance is not None else (lambda a, b: float(a != b))
    spend_false_alarm(false_alarm)
    errors, fewest = [], min(counts)
    for truth, published in worlds.items():
        lost = np.array([apart(guess(output), truth) for output in published], float)
        if not np.all((lost >= 0.0) & (lost <= largest)):
            raise DomainError("an error lies within its bounds", allowed=f"[0, {largest:g}]")
        errors.append((truth, float(lost.mean())))
    half = largest * math.sqrt(math.log(2.0 * len(worlds) / false_alarm) / (2.0 * fewest))
    return Reconstruction(tuple(errors), half, floor, largest, false_alarm)


def _claimed_advantage(claim: float | Guarantee | None) -> float | None:
    if claim is None:
        return None
    promised = float(claim.delta(0.0)) if isinstance(claim, Guarantee) else float(claim)
    if not promised >= 0.0:
        raise DomainError(
            "a claimed advantage is not negative",
            got=claim,
            allowed="a number >= 0, or a Guarantee",
        )
    return min(1.0, promised)


@dataclass(frozen=True, repr=False)
class PartitionGuess:
    """What the partition adversary says.

    Parameters
    ----------
    says : str
        "x" or "y": whose probabilities are nearer to the shares seen.
    distances : tuple of (float, float)
        Of the shares to those of x and of y, in L1.
    apart : float
        Of the two posteriors' probabilities, in L1: at most twice their total variation.
    radius : float
        Shares lie within it of their probabilities, but for `false_alarm`.
    false_alarm : float
    draws, cells : int
        How many he saw.
    """

    says: str
    distances: tuple[float, float]
    apart: float
    radius: float
    false_alarm: float
    draws: int
    cells: int

    @property
    def is_sure(self) -> bool:
        """Whether what he says is right but for `false_alarm`."""
        return self.apart > 2.0 * self.radius

    @property
    def refutes_both(self) -> bool:
        """Whether the shares are too far from both: then neither data set is the true one."""
        return min(self.distances) > self.radius

    @property
    def draws_needed(self) -> float:
        """How many draws would make him sure; infinite where the posteriors agree on the cells."""
        if not self.apart > 0.0:
            return math.inf
        radius = partition_radius(MANY_DRAWS, self.cells, self.false_alarm)
        return math.floor(MANY_DRAWS * (2.0 * radius / self.apart) ** 2) + 1

    def __repr__(self) -> str:
        sure = "sure" if self.is_sure else f"not sure: that takes {self.draws_needed:,} draws"
        return (
            f"PartitionGuess({self.says!r}, {sure}; shares of {self.draws:,} draws are "
            f"{self.distances[0]:.4g} from x and {self.distances[1]:.4g} from y, which are "
            f"{self.apart:.4g} apart; right but for a probability of {self.false_alarm:g} where "
            f"they are more than {2.0 * self.radius:.4g} apart)"
        )


@takes(cells=NUMBERS, x=DOUBLES, y=DOUBLES, false_alarm=DOUBLE)
def partition_adversary(
    cells: Any,
    x: Sequence[float],
    y: Sequence[float],
    *,
    false_alarm: float = FALSE_ALARM,
) -> PartitionGuess:
    """Decide between two data sets by the shares of N draws in m cells of the parameter space.

    Parameters
    ----------
    cells : array of int, shape (N,)
        In which cell each independent draw lies: 0 .. m - 1.
    x, y : sequence of float, length m
        Probabilities of the cells under the posteriors of the two data sets, which the adversary
        can compute.
    false_alarm : float
        Probability with which a sure answer is wrong, at most; charged to an open `Allowance`.

    Returns
    -------
    PartitionGuess

    Raises
    ------
    DomainError
        No draws, cells out of range, probabilities that are none, or a spent allowance.

    References
    ----------
    Weissman et al. (2003), Theorem 2.1; Dimitrakakis et al. (2017), Lemma 12, whose radius
    sqrt(3 ln(1 / failure) / N) is larger for the numbers of cells it allows.

    Examples
    --------
    >>> draws = np.random.default_rng(1).random(4000) < 0.7
    >>> guess = partition_adversary(draws.astype(int), [0.5, 0.5], [0.3, 0.7])
    >>> guess.says, guess.is_sure
    ('y', True)
    """
    check_open_unit(false_alarm=false_alarm)
    refuse_mask(cells, "cells")
    for probabilities in (x, y):
        refuse_mask(probabilities, "probabilities")
    posteriors = [np.atleast_1d(np.asarray(probabilities, float)) for probabilities in (x, y)]
    m = len(posteriors[0])
    good = all(
        p.shape == (m,) and np.all(p >= 0.0) and abs(p.sum() - 1.0) < 1e-6 for p in posteriors
    )
    if m < 2 or not good:
        raise DomainError(
            "cells have a probability each, which sum to 1, under both posteriors",
            got=f"probabilities of shapes {posteriors[0].shape} and {posteriors[1].shape}",
            allowed="x= and y= of one length, 2 or more, with entries >= 0 that sum to 1",
            do="divide each by its sum",
        )
    labels = np.ravel(np.asarray(cells))
    if not labels.size or labels.dtype.kind not in "iub" or labels.min() < 0 or labels.max() >= m:
        raise DomainError("each draw lies in one cell", allowed=f"whole numbers 0 ... {m - 1}")
    shares = np.bincount(labels.astype(int), minlength=m) / labels.size
    distances = tuple(float(np.abs(shares - p).sum()) for p in posteriors)
    spend_false_alarm(false_alarm)
    radius = partition_radius(labels.size, m, false_alarm)
    apart = float(np.abs(posteriors[0] - posteriors[1]).sum())
    says = "x" if distances[0] <= distances[1] else "y"
    return PartitionGuess(
        says, (distances[0], distances[1]), apart, radius, false_alarm, labels.size, m
    )


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Two data sets that differ in the first record.

    Parameters
    ----------
    x, y : dict of str to array, shape (n, ...)
    pattern : str
        What the other records are.
    pilots : tuple of (str, float)
        Lower bound of epsilon, at 95%, of each pattern tried.
    """

    x: Record
    y: Record
    pattern: str
    pilots: tuple[tuple[str, float], ...]

    def __repr__(self) -> str:
        tried = ", ".join(f"{name}: {found:.3g}" for name, found in self.pilots)
        return f"Neighbors(the others are {self.pattern}; pilots: {tried or 'none'})"


def attaining_records(certificate: Any) -> tuple[Record, Record]:
    """Read the two records at which a certificate's range is attained.

    Parameters
    ----------
    certificate : Certificate
        Its `where` names them.

    Returns
    -------
    tuple of dict of str to array
        Entries of the private variables, by name.

    Raises
    ------
    DomainError
        The range is attained at combinations (a linear predictor), or nowhere in particular.
    """
    if not isinstance(getattr(certificate, "where", None), tuple):
        raise DomainError(
            "records are read from a certificate",
            got=type(certificate).__name__,
            allowed="what pmp.certify returns",
            do="or two records of your own, in a tuple: dicts of arrays by variable",
        )
    attaining = [point for point in certificate.where if point.role == "record"]
    if certificate.is_relaxed or not attaining:
        raise DomainError(
            "this certificate names no two records at which its range is attained",
            got="a bound over combinations of entries" if certificate.where else "no place",
            do="pass two records of your own: dicts of arrays by variable",
        )
    found: tuple[Record, Record] = {}, {}
    for side, record in enumerate(found):
        entries: dict[str, dict[tuple[int, ...], float]] = {}
        for point in attaining:
            match = _ENTRY_NAME.fullmatch(point.name)
            name, index = (match["name"], match["index"]) if match else (point.name, None)
            position = tuple(int(part) for part in index.split(",")) if index else ()
            entries.setdefault(name, {})[position] = point.values[min(side, len(point.values) - 1)]
        for name, cells in entries.items():
            shape = tuple(np.max(list(cells), axis=0).astype(int) + 1) if () not in cells else ()
            array = np.zeros(shape)
            for position, value in cells.items():
                array[position] = value
            record[name] = array
    return found


@takes(
    mechanism=FUNCTION,
    n=NUMBER,
    delta=DOUBLE,
    draws=NUMBER,
    executor=EXECUTOR.optional,
    random_seed=SEED,
)
def worst_neighbors(
    mechanism: Mechanism,
    records: Any,
    n: int,
    *,
    delta: float = 0.0,
    draws: int = 2000,
    executor: Executor | None = None,
    random_seed: int = 0,
) -> Neighbors:
    """Search two neighboring data sets of n records that a mechanism distinguishes best.

    They differ in one record, which is one or the other of the two at which the certificate's range
    is attained. How well they are distinguished depends on the other records: all equal to the one,
    all equal to the other, and half of each are tried, and a small run of the mechanism on each
    picks the best. The search proves nothing; run `epsilon_lower_bound` on fresh outputs of what it
    found.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, draws, seed)``; data is a dict of arrays, shape (n, ...).
    records : Certificate, or two dicts
        What names the two records, or the records themselves.
    n : int
        Number of records, 2 or more.
    delta : float
        At which epsilon is judged.
    draws : int
        Outputs on each data set of a pilot.
    executor : concurrent.futures.Executor, optional
    random_seed : int

    Returns
    -------
    Neighbors

    Raises
    ------
    DomainError
        As `attaining_records`; records with different variables; fewer than two of them.
    """
    check_delta(delta, "delta")
    one, other = _two_records(records)
    if set(one) != set(other):
        raise DomainError(
            "two records have the same variables",
            got=f"{sorted(one)} and {sorted(other)}",
            allowed="two dicts with the same keys",
        )
    if check_count(n, "the number of records") < 2:
        raise DomainError("one record in doubt is alone in its data", got=n, allowed="n >= 2")
    pilots, best = [], None
    for pattern, rest in _neighbor_patterns(one, other, n).items():
        x, y = (_stacked_records([first, *rest]) for first in (one, other))
        samples = [
            outputs(mechanism, data, draws, executor=executor, random_seed=random_seed + side)
            for side, data in enumerate((x, y))
        ]
        with Allowance(1.0):
            found = epsilon_lower_bound(
                *samples, delta=delta, false_alarm=PILOT_FALSE_ALARM
            ).epsilon
        pilots.append((pattern, found))
        if best is None or found > best[0]:
            best = found, x, y, pattern
    if best is None:
        raise DomainError("there are no neighbors to try", allowed="two records that differ")
    return Neighbors(best[1], best[2], best[3], tuple(pilots))


def _two_records(records: Any) -> tuple[Record, Record]:
    """Two records, given as they are or named by a certificate."""
    pair = isinstance(records, tuple) and len(records) == 2
    found: Any = records if pair else attaining_records(records)
    if not all(isinstance(record, Mapping) for record in found):
        raise DomainError(
            "a record is a mapping of variables to entries",
            got=" and ".join(type(record).__name__ for record in found),
            allowed="two dicts of arrays, or a Certificate",
        )
    return dict(found[0]), dict(found[1])


def _neighbor_patterns(one: Record, other: Record, n: int) -> Mapping[str, list[Record]]:
    half = (n - 1) // 2
    patterns = {
        "like the first": [one] * (n - 1),
        "like the second": [other] * (n - 1),
        "half and half": [one] * half + [other] * (n - 1 - half),
    }
    return patterns if n > 2 else dict(list(patterns.items())[:2])


def _stacked_records(rows: list[Record]) -> Record:
    return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
