"""Whether released doubles leak through their low-order bits.

Noise made from doubles reaches other doubles on one input than on another, so the last bits of an
output may name its input although its leading digits are private (Mironov 2012). Rounding to a
public grid ends it, if the grid is public and every output is on it.
"""

from __future__ import annotations

import numpy as np
from dataclasses import dataclass
from typing import Any
from pymc_private.audit.statistical_tests__allowance import FALSE_ALARM, pay
from pymc_private.audit.epsilon__claims import check_delta, claimed
from pymc_private.audit.events__classifiers import column_frequencies
from pymc_private.audit.epsilon import Candidates, EpsilonBound, bound_over
from pymc_private.audit.statistical_tests__samples import Sample, take, take_both
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from pymc_private.privacy.validation import whole

SLACK = 1e-6
MOST_BITS = 16


@dataclass(frozen=True)
class LatticeLeak:
    """What the low-order bits of a mechanism's outputs tell.

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
        What the place of each number's last nonzero bit proves. It goes with the size of the number
        too, so it is a leak only above the claim.
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


def lattice_leak(
    p: Sample,
    q: Sample | None = None,
    *,
    width: Any = None,
    claim: float | Guarantee | None = None,
    delta: float = 0.0,
    bits: int = 8,
    slack: float = SLACK,
    draws: int | None = None,
    false_alarm: float = FALSE_ALARM,
    random_seed: int = 0,
) -> LatticeLeak:
    """Look for leaks in the low-order bits of outputs on one input, or on two neighbors.

    Three questions, of which the first needs `width` and the others `q`. Is every number on the
    public grid? No chance is involved. Do the last `bits` bits follow one law on both inputs? They
    do, but for `slack`, for a smooth law on a fine grid, and for one that is rounded to doubles. Do
    the reachable numbers differ: does the place of the last nonzero bit prove more than the claim?
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
        How far the laws of the last bits may lie apart in total variation, for innocent reasons: at
        most 2^(bits + 1) width f for densities with one mode that nowhere exceed f.
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
        claimed(claim, delta)
    if whole(bits, "bits") > MOST_BITS:
        raise DomainError("too many bits to count", got=bits, allowed=f"1 ... {MOST_BITS}")
    check_delta(slack, "slack")
    check_delta(delta, "delta")
    samples = (take(p, draws, "p"),) if q is None else take_both(p, q, draws)
    if not all(np.isfinite(sample).all() for sample in samples):
        raise DomainError("a released number is finite", do="leave out, or repair, what is not")
    off_grid = None if width is None else sum(_off_grid(x, width) for x in samples)
    low = lowest = None
    if len(samples) == 2:
        pay(false_alarm)
        error = false_alarm / 2.0
        last = _both(samples, lambda x: _last_bits(x, width, bits))
        low = bound_over(_learn, last, slack, error, random_seed)
        lowest = bound_over(_learn, _both(samples, _lowest_bit), delta, error, random_seed)
    return LatticeLeak(off_grid, sum(x.size for x in samples), low, lowest, claim)


def _both(samples: tuple[np.ndarray, ...], feature: Any) -> tuple[np.ndarray, np.ndarray]:
    p, q = samples
    return feature(p), feature(q)


def _learn(p: np.ndarray, q: np.ndarray) -> Candidates:
    """Scores from how often each pattern occurs: of all columns together, and of each."""
    return [("bit pattern", score) for score in column_frequencies(p, q)]


def _steps(values: np.ndarray, width: Any) -> np.ndarray:
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


def _off_grid(values: np.ndarray, width: Any) -> int:
    with np.errstate(invalid="ignore"):
        # A quotient of 2^51 and more may round to the step next to it.
        steps = _steps(values, width)
        on_grid = np.any([(steps + near) * width == values for near in (-1.0, 0.0, 1.0)], axis=0)
    # The sign of a zero is one bit finer than any grid; a Release drops it.
    return int(np.sum(~on_grid | ((values == 0.0) & np.signbit(values))))


def _last_bits(values: np.ndarray, width: Any, bits: int) -> np.ndarray:
    """The last bits of the step number; without a grid, of the double's 52 stored ones."""
    if width is None:
        return np.ascontiguousarray(values).view(np.uint64) & np.uint64(2**bits - 1)
    with np.errstate(invalid="ignore"):
        return np.mod(_steps(values, width), 2.0**bits)


def _lowest_bit(values: np.ndarray) -> np.ndarray:
    """Exponent of the last nonzero bit: value = odd 2^exponent; 9999 for zero."""
    mantissa, exponent = np.frexp(values)
    odd = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    trailing = np.log2((odd & -odd).clip(1).astype(float)).astype(np.int64)
    return np.where(odd == 0, 9999, exponent - 53 + trailing)
