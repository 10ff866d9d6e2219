"""Floating-point and seed leaks: low-order bits and replayable randomness.

Noise made from doubles reaches other doubles on one input than on another, so the last bits of
an output may identify its input although its leading digits are private (Mironov 2012).
Rounding to a public grid ends it, if the grid is public and every output is on it. A
published, guessable or reused seed lets anyone recompute the draws for any data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.audit.epsilon import (
    EpsilonBound,
    NamedScores,
    bound_from_samples,
    check_delta,
    claimed_epsilon,
)
from pymc_private.audit.events import column_frequencies
from pymc_private.audit.statistical_tests import (
    FALSE_ALARM,
    Sample,
    spend_false_alarm,
    take_sample,
    take_two_samples,
)
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from pymc_private.privacy.argument_kinds import (
    ARRAY,
    CLAIM,
    DOUBLE,
    DOUBLES,
    FUNCTION,
    SEED,
    SEEDS,
    SEQUENCE,
    takes,
)
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import check_count, refuse_mask

LOW_BITS_SLACK = 1e-6
MAX_BITS = 16


@dataclass(frozen=True)
class LatticeLeak:
    """Evidence on the low-order bits of a mechanism's outputs.

    Parameters
    ----------
    off_grid : int or None
        Outputs that are no multiple of the public width, or a zero with a sign; None without one.
    looked_at : int
        Numbers looked at.
    low_bits : EpsilonBound or None
        What the last bits alone prove; above 0 they differ between the inputs. None without a
        second input.
    lowest_bit : EpsilonBound or None
        What the position of each number's last nonzero bit proves. It depends on the size of the
        number too, so it is a leak only above the claim.
    claim : float, nats, or Guarantee, or None
        What the mechanism claims.
    """

    off_grid: int | None
    looked_at: int
    low_bits: EpsilonBound | None
    lowest_bit: EpsilonBound | None
    claim: float | Guarantee | None

    @property
    def reasons(self) -> tuple[str, ...]:
        """What is wrong, in words; empty if nothing was found."""
        found = []
        if self.off_grid:
            found.append(f"{self.off_grid:,} of {self.looked_at:,} numbers are off the grid")
        if self.low_bits is not None and self.low_bits.epsilon > 0.0:
            found.append(f"the last bits differ between the inputs: {self.low_bits}")
        refuted = self.claim is not None and self.lowest_bit is not None
        if refuted and self.lowest_bit.refutes(self.claim):  # type: ignore[union-attr, arg-type]
            found.append(f"the last nonzero bit breaks the claim: {self.lowest_bit}")
        return tuple(found)

    @property
    def leaks(self) -> bool:
        """Whether a leak is proved, but for the false alarms of the two bounds together."""
        return bool(self.reasons)

    def __bool__(self) -> bool:
        raise TypeError("ask .leaks")

    def __repr__(self) -> str:
        return f"LatticeLeak({'; '.join(self.reasons) or 'no leak found'})"


@takes(
    width=DOUBLES.optional,
    claim=CLAIM.optional,
    delta=DOUBLE,
    slack=DOUBLE,
    false_alarm=DOUBLE,
    random_seed=SEED,
)
def lattice_leak(
    p: Sample,
    q: Sample | None = None,
    *,
    width: Any = None,
    claim: float | Guarantee | None = None,
    delta: float = 0.0,
    bits: int = 8,
    slack: float = LOW_BITS_SLACK,
    draws: int | None = None,
    false_alarm: float = FALSE_ALARM,
    random_seed: int = 0,
) -> LatticeLeak:
    """Look for leaks in the low-order bits of outputs on one input, or on two neighbors.

    Three questions, of which the first needs `width` and the others `q`. Is every number on the
    public grid? No chance is involved. Do the last `bits` bits have one distribution on both
    inputs? They do, but for `slack`, for a smooth distribution on a fine grid, and for one that is
    rounded to doubles. Do the reachable numbers differ: does the position of the last nonzero bit
    prove more than the claim?
    The last two are bounds as of `epsilon_lower_bound`, and share `false_alarm`. Unrounded noise on
    two large values shows in neither; give the width, and it does.

    Parameters
    ----------
    p, q : array, shape (n,) or (n, d), or callable
        Outputs on two neighboring inputs, or samplers as for `epsilon_lower_bound`.
    width : float or array, shape (d,), optional
        Public grid: every number is computed as a whole number times it. Without it the bits are
        those of the double.
    claim : float, nats, or Guarantee, optional
        What the mechanism promises.
    delta : float
        At which it does, in [0, 1).
    bits : int
        From 1 to 16.
    slack : float
        Total variation by which the distributions of the last bits may differ for innocent reasons:
        at most 2^(bits + 1) width f for densities with one mode that nowhere exceed f.
    draws : int, optional
        How many to draw of each, where `p` and `q` are samplers.
    false_alarm : float
        Probability with which a mechanism without these leaks is accused, at most.
    random_seed : int
        As for `epsilon_lower_bound`.

    Returns
    -------
    LatticeLeak

    Raises
    ------
    DomainError
        Neither `width` nor `q`; samples of other shapes, too small or not finite; impossible
        numbers.

    References
    ----------
    Mironov (2012), sections 4 and 5. For the slack: neighboring sums of a monotone sequence taken
    with a stride differ by at most its largest term.

    Examples
    --------
    >>> noise = np.random.default_rng(1).laplace(size=(2, 20_000))
    >>> lattice_leak(noise[0], 1 + noise[1]).leaks
    True
    >>> rounded = np.round(noise * 2.0**40) / 2.0**40 + 0.0
    >>> lattice_leak(rounded[0], 1 + rounded[1], width=2.0**-40)
    LatticeLeak(no leak found)
    """
    if width is None and q is None:
        raise DomainError("nothing to look at", do="give the grid's width, a second input, or both")
    if claim is not None:
        claimed_epsilon(claim, delta)
    if check_count(bits, "bits") > MAX_BITS:
        raise DomainError("too many bits to count", got=bits, allowed=f"1 ... {MAX_BITS}")
    check_delta(slack, "slack")
    check_delta(delta, "delta")
    samples = (take_sample(p, draws, "p"),) if q is None else take_two_samples(p, q, draws)
    if not all(np.isfinite(sample).all() for sample in samples):
        raise DomainError("a released number is finite", do="leave out, or repair, what is not")
    off_grid = None if width is None else sum(_count_off_grid(x, width) for x in samples)
    low = lowest = None
    if len(samples) == 2:
        spend_false_alarm(false_alarm)
        error = false_alarm / 2.0
        last = _map_both(samples, lambda x: _last_bits(x, width, bits))
        low = bound_from_samples(_pattern_scores, last, slack, error, random_seed)
        lowest = bound_from_samples(
            _pattern_scores, _map_both(samples, _lowest_bit_exponent), delta, error, random_seed
        )
    return LatticeLeak(off_grid, sum(x.size for x in samples), low, lowest, claim)


def _map_both(samples: tuple[np.ndarray, ...], feature: Any) -> tuple[np.ndarray, np.ndarray]:
    p, q = samples
    return feature(p), feature(q)


def _pattern_scores(p: np.ndarray, q: np.ndarray) -> NamedScores:
    """Scores from how often each pattern occurs: of all columns together, and of each."""
    return [("bit pattern", score) for score in column_frequencies(p, q)]


def _grid_steps(values: np.ndarray, width: Any) -> np.ndarray:
    """Nearest multiples of the width, as doubles.

    Raises
    ------
    DomainError
        `width` is not positive, or does not fit the coordinates.
    """
    size = np.asarray(width, float)
    if size.shape not in ((), (values.shape[1],)) or not np.all((size > 0.0) & np.isfinite(size)):
        raise DomainError(
            "a grid has a positive width, one for all coordinates or one for each",
            got=f"shape {size.shape}" if size.ndim else width,
            allowed=f"a number, or shape ({values.shape[1]},)",
        )
    with np.errstate(over="ignore"):
        return np.round(values / size)


def _count_off_grid(values: np.ndarray, width: Any) -> int:
    with np.errstate(invalid="ignore"):
        # A quotient of 2^51 and more may round to the step next to it.
        steps = _grid_steps(values, width)
        on_grid = np.any([(steps + near) * width == values for near in (-1.0, 0.0, 1.0)], axis=0)
    # The sign of a zero is one bit finer than any grid; a Release drops it.
    return int(np.sum(~on_grid | ((values == 0.0) & np.signbit(values))))


def _last_bits(values: np.ndarray, width: Any, bits: int) -> np.ndarray:
    """Last bits of the step number; without a grid, of the double's 52 stored ones."""
    if width is None:
        return np.ascontiguousarray(values).view(np.uint64) & np.uint64(2**bits - 1)
    with np.errstate(invalid="ignore"):
        return np.mod(_grid_steps(values, width), 2.0**bits)


def _lowest_bit_exponent(values: np.ndarray) -> np.ndarray:
    """Exponent of the last nonzero bit: value = odd 2^exponent; 9999 for zero."""
    mantissa, exponent = np.frexp(values)
    odd = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    trailing = np.log2((odd & -odd).clip(1).astype(float)).astype(np.int64)
    return np.where(odd == 0, 9999, exponent - 53 + trailing)


@dataclass(frozen=True)
class SeedReuse:
    """Guesses of the data and of the seed that reproduce what was released.

    Parameters
    ----------
    matches : tuple of (int, int)
        Index of the data set among the candidates, and the seed.
    tried : int
        Pairs tried.
    false_alarm : float
        Probability with which draws of fresh randomness would have matched, at most.
    """

    matches: tuple[tuple[int, int], ...]
    tried: int
    false_alarm: float

    @property
    def leaks(self) -> bool:
        """Whether the seed was found: then the draws are no draws."""
        return bool(self.matches)

    @property
    def data(self) -> int | None:
        """The candidate that the draws were made from, if only one matches."""
        found = {index for index, _ in self.matches}
        return found.pop() if len(found) == 1 else None

    def __repr__(self) -> str:
        if not self.leaks:
            return f"SeedReuse(no match among {self.tried:,} tried)"
        indices = sorted({index for index, _ in self.matches})
        return (
            f"SeedReuse(candidate {' or '.join(map(str, indices))}, seed {self.matches[0][1]}, "
            f"but for a probability of {format_number(self.false_alarm)})"
        )


@takes(released=ARRAY, seeds=SEEDS, replay=FUNCTION, candidates=SEQUENCE, coincidence=DOUBLE)
def seed_reuse(
    released: Any,
    replay: Callable[[Any, int], Any],
    candidates: Sequence[Any],
    seeds: Iterable[int],
    *,
    coincidence: float = 0.0,
) -> SeedReuse:
    """Recompute a release for each candidate data set and seed, and compare.

    Parameters
    ----------
    released : array
        The numbers that were published.
    replay : callable
        ``replay(data, seed)``: what the mechanism would publish; public code run by the adversary.
    candidates : sequence
        Data sets that the adversary thinks possible.
    seeds : iterable of int
        The one that was printed, or all that are likely: 0, 42, 1234, dates.
    coincidence : float
        Largest probability of any one output under fresh randomness: 0 of real numbers, 1/2 of a
        fair coin. Outputs that are whole numbers, or the same for two seeds, are not taken to
        have none.

    Returns
    -------
    SeedReuse

    Raises
    ------
    DomainError
        Nothing to try; `coincidence` is no probability, or 0 of outputs that do coincide.

    Examples
    --------
    >>> def draw(data, seed):
    ...     return np.random.default_rng(seed).normal(np.mean(data), size=3)
    >>> seed_reuse(draw([0, 1], seed=42), draw, [[0, 0], [0, 1]], seeds=range(100)).data
    1
    """
    guesses = list(dict.fromkeys(seeds))
    if not guesses or not len(candidates):
        raise DomainError("there is nothing to try", allowed="one data set and one seed, or more")
    if not 0.0 <= coincidence <= 1.0:
        raise DomainError(
            "coincidence is a probability", got=coincidence, allowed="0 <= coincidence <= 1"
        )
    refuse_mask(released, "released numbers")
    truth = np.asarray(released)
    whole = truth.dtype.kind in "iub" or (truth.dtype.kind == "f" and np.all(truth == truth // 1))
    matches, again = [], bool(whole)
    for index, data in enumerate(candidates):
        seen: set[bytes] = set()
        for seed in guesses:
            replayed = np.asarray(replay(data, seed))
            again |= replayed.tobytes() in seen
            seen.add(replayed.tobytes())
            if np.array_equal(replayed, truth):
                matches.append((index, seed))
    if again and coincidence == 0.0:
        raise DomainError(
            "these outputs coincide by chance",
            got="coincidence=0 of " + ("whole numbers" if whole else "outputs seen twice"),
            allowed="0 < coincidence <= 1",
            do="state the largest probability of any one output, such as 0.5 of a fair coin",
        )
    tried = len(candidates) * len(guesses)
    return SeedReuse(tuple(matches), tried, min(1.0, tried * coincidence))
