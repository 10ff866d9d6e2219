"""Whether a noisy curvature determines all directions: after the release, and expected before it.

A summary whose curvature has an eigenvalue hidden by noise is refused, and that shows only after
the charge. How often it will happen is known before: the expected curvature is public, and so is
the distribution of the noise.

In a hierarchy the noisy curvature counts the records of each group, in units of its bound K, and
noise of standard deviation tau hides a group of fewer than some tau / K records. The likelihood
knows that noise: it leaves such a group's coefficient to the hierarchy, that is, to the
coefficients of the other groups and their spread, and tells all else as before. So the group tells
nothing, not the summary; refused is a summary in which some other direction is hidden, or more than
half of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy

from pymc_private.errors import NotInformative
from pymc_private.summaries.protocol import Caution
from pymc_private.summaries.scores.structure import Structure
from pymc_private.summaries.scores.symmetric import shrink

WARN_EIGENVALUE, REFUSE_EIGENVALUE = 4.0, 1.0
"""Least eigenvalue of the noisy curvature in units of its noise."""
MOST_SHRINKAGE, PUBLIC_ERROR = 0.6, 0.15
"""H~ is pulled towards its public shape by at most the larger of the first and of what a relative
error of the second in H_pub would justify."""
OWN_PART = 0.5
"""Share of a direction that lies along one coefficient, from which it is that coefficient's."""
MOST_HIDDEN = 0.5
"""Largest share of the coefficients of groups that may be hidden."""
SHOWN = 5
"""Most hidden coefficients that are listed."""
FEW_USABLE, RISKY = 0.2, 0.99
"""Expected shares of usable summaries below which none is made, and below which a plan warns.

Against whole simulated releases, 100 each, of a logistic regression of 200 to 1,000 records it was
right within their error (8%, 14%, 11%, 4%, 3%, 0.2% expected; 8, 15, 9, 4, 0, 0 found); of 100
persons with up to 3 rows it is rough (58% expected, 32 found).
"""
NOISES, SEED = 40, 20260104


def most_shrinkage(public: np.ndarray, sd: float) -> float:
    """The largest weight of the public shape: what a relative error of it would justify."""
    mean = float(np.trace(public)) / len(public)
    return max(MOST_SHRINKAGE, sd**2 / (sd**2 + (PUBLIC_ERROR * mean) ** 2))


def shrunken(
    noisy: np.ndarray, public: np.ndarray, sd: float, structure: Structure
) -> tuple[np.ndarray, float]:
    """A noisy curvature with its known zeros pulled towards H_pub, and the weight of the latter."""
    most = most_shrinkage(public, sd)
    return shrink(structure.known(noisy), public, sd, most, structure.entries)


def least_eigenvalue(
    noisy: np.ndarray, public: np.ndarray, sd: float, structure: Structure
) -> float:
    """The least eigenvalue of a noisy curvature in units of the noise of an entry.

    With known zeros it is that of the shrunken one in units of the noise that is left: many
    parameters of groups add up to noise whose extreme eigenvalues say little of each.
    """
    if structure.is_full:
        return float(np.linalg.eigvalsh(noisy)[0]) / sd
    value, weight = shrunken(noisy, public, sd, structure)
    return float(np.linalg.eigvalsh(value)[0]) / (sd * (1.0 - weight))


def told_directions(
    noisy: np.ndarray, public: np.ndarray, sd: float, structure: Structure
) -> tuple[float, tuple[int, ...]]:
    """The least eigenvalue without hidden groups, in units of its noise, and their coordinates.

    Parameters
    ----------
    noisy, public : array, shape (p, p)
        The noisy curvature and its public shape.
    sd : float
        Noise of an entry.
    structure : Structure
        `structure.partly` are the coordinates that only part of the records read.
    """
    if structure.is_full:
        return least_eigenvalue(noisy, public, sd, structure), ()
    value, weight = shrunken(noisy, public, sd, structure)
    value = value / (sd * (1.0 - weight))
    kept, hidden = np.arange(len(value)), list[int]()
    most = int(MOST_HIDDEN * structure.partly.sum())
    while True:
        values, vectors = scipy.linalg.eigh(value[np.ix_(kept, kept)], subset_by_index=[0, 0])
        parts = np.where(structure.partly[kept], vectors[:, 0] ** 2, 0.0)
        k = int(parts.argmax())
        if values[0] >= REFUSE_EIGENVALUE or parts[k] < OWN_PART or len(hidden) == most:
            return float(values[0]), tuple(sorted(hidden))
        hidden.append(int(kept[k]))
        kept = np.delete(kept, k)


def usable_share(expected: np.ndarray, sd: float, structure: Structure) -> float:
    """The probability that a noisy curvature of this expectation is not refused, about.

    Parameters
    ----------
    expected : array, shape (p, p)
    sd : float
        Noise of a diagonal entry; 0 if the curvature is public.
    structure : Structure
    """
    if sd == 0.0:
        return 1.0
    rng = np.random.default_rng(SEED)
    noise = rng.standard_normal((NOISES, *expected.shape)) / np.sqrt(2.0)
    noise = (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2.0)
    found = [told_directions(expected + sd * one, expected, sd, structure)[0] for one in noise]
    return float(np.mean(np.array(found) >= REFUSE_EIGENVALUE))


def refuse_unusable(
    share: float, parameters: int, reasons: Callable[[], Sequence[str]] = tuple
) -> None:
    """Refuse a plan most of whose summaries could not be used; `reasons` that may explain it."""
    if share < FEW_USABLE:
        raise NotInformative(
            f"noise would hide the curvature of {parameters} parameters: most summaries of this "
            "plan could not be used, which would show only after the charge",
            got="; ".join([f"{share:.0%} of simulated summaries usable", *reasons()]),
            allowed=f"at least {FEW_USABLE:.0%}",
            do="a larger epsilon, more records, or fewer parameters: fewer groups, and none that "
            "records tell only in sums with others (an intercept beside effects of all groups)",
        )


def expected_caution(share: float) -> list[Caution]:
    """What a plan says where part of its summaries could not be used."""
    if share >= RISKY:
        return []
    return [
        Caution(
            f"about {1.0 - share:.0%} of such summaries are refused when they are read, since "
            "noise hides part of their curvature: a rough figure, of simulated curvatures; that "
            "shows only after the charge, which stays. A larger epsilon, more records or fewer "
            "parameters make it rarer"
        )
    ]


def weak_curvature(least: float) -> Caution:
    """What is said of a curvature with a small eigenvalue."""
    return Caution(
        f"the noisy curvature has an eigenvalue of {least:.3g} noise standard deviations "
        f"({WARN_EIGENVALUE:g} or more is well determined): some direction of the parameters is "
        "hardly measured. More records, a larger epsilon or fewer parameters help: leave out a "
        "column that hardly varies or is a sum of others",
        refuse=least < REFUSE_EIGENVALUE,
    )


def hidden_caution(names: Sequence[str]) -> list[Caution]:
    """What is said of groups that noise hides."""
    if not names:
        return []
    shown = ", ".join(names[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return [
        Caution(
            f"noise hides how many records tell of {shown}{more}, as of groups of few records; "
            "what the posterior says of it comes from its prior (in a hierarchy, from the other "
            "groups), hardly from records"
        )
    ]
