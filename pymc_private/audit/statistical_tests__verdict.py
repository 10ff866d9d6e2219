"""What a statistical test saw, and the smallest defect it could have seen."""

from __future__ import annotations

from dataclasses import dataclass

@dataclass(frozen=True)
class Verdict:
    """What a test saw.

    Parameters
    ----------
    seen : float
        Distance between what was observed and what was expected.
    tolerated : float
        Right code stays within it, but for `false_alarm`.
    detects : float
        Code that is off by this much is rejected with probability `power` at least; infinite if the
        draws are too few for any defect.
    false_alarm : float
        Probability with which right code is rejected, at most.
    power : float
        Probability with which a defect of the size `detects` is found, at least.
    """

    seen: float
    tolerated: float
    detects: float
    false_alarm: float
    power: float

    @property
    def passes(self) -> bool:
        """Whether right code could well have done this."""
        return self.seen <= self.tolerated

    @property
    def fails_on_any_seed(self) -> bool:
        """Whether a planted fault is so large that another seed would show it as well.

        Seen beyond 3 t for a band t: the truth is off by 2 t at least, and a fresh run is seen
        beyond t, each but for `false_alarm`.
        """
        return self.seen > 3.0 * self.tolerated

    def __bool__(self) -> bool:
        # `assert verdict` would read as "it passes" and never fail.
        raise TypeError("a verdict has no truth value; ask .passes or .fails_on_any_seed")
