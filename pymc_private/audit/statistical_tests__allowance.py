"""What a session may spend on false alarms: the suite keeps a ledger too."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from fractions import Fraction
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import inside_unit

ALLOWANCE = 1e-6
"""Probability with which a whole session may reject right code, unless it says otherwise."""
FALSE_ALARM = 1e-9
"""Probability with which one test may reject right code, unless it says otherwise."""
POWER = 0.999
"""Probability with which a defect of the size a test reports is found."""

_OPEN: list[Allowance] = []
_LOCK = threading.Lock()


@dataclass(eq=False)
class Allowance:
    """What a session may spend on false alarms.

    Each test of this room may reject right code with the probability it is given. Inside
    ``with Allowance(1e-6):`` the tests pay for it, and the one that would overdraw the sum refuses
    to run; so the whole session rejects right code with probability at most `limit`, however many
    tests it has and whatever they share (union bound). The innermost allowance pays.

    Parameters
    ----------
    limit : float
        Greatest sum of probabilities; infinite to run tests that are no alarms, as in a simulation
        of their rates.

    Raises
    ------
    DomainError
        `limit` is no positive number, or `spent` is no list of probabilities within it.

    Examples
    --------
    >>> from pymc_private.audit import proportion
    >>> with Allowance(1e-6) as session:
    ...     verdict = proportion(48, 100, 0.5)
    >>> verdict.passes, session.spent
    (True, [1e-09])
    """

    limit: float = ALLOWANCE
    spent: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.limit > 0.0:
            raise DomainError("an allowance is positive", got=self.limit, allowed="limit > 0")
        self._total = Fraction(0)
        spent, self.spent = self.spent, []
        for probability in spent:
            self.spend(probability)

    def spend(self, probability: float) -> None:
        """Pay for one test, or refuse it whole.

        Parameters
        ----------
        probability : float
            That this test rejects right code.

        Raises
        ------
        DomainError
            It is no probability, or the sum would exceed the limit.
        """
        inside_unit(probability=probability)
        with _LOCK:
            # Exact in the decimals the user wrote: a thousand times 1e-9 is 1e-6.
            total = self._total + _decimal(probability)
            if not math.isinf(self.limit) and total > _decimal(self.limit):
                raise DomainError(
                    "the allowance of false alarms is spent",
                    got=f"{len(self.spent) + 1} tests, {float(total):.3g} together",
                    allowed=f"{self.limit:.3g}",
                    do="give each test a smaller false_alarm (and more draws)",
                )
            self.spent.append(probability)
            self._total = total

    def __enter__(self) -> Allowance:
        _OPEN.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _OPEN.remove(self)


def pay(false_alarm: float) -> None:
    """Pay for one test from the innermost open allowance, if there is one.

    Raises
    ------
    DomainError
        `false_alarm` is not in (0, 1), or the allowance does not have it.
    """
    inside_unit(false_alarm=false_alarm)
    if _OPEN:
        _OPEN[-1].spend(false_alarm)


def _decimal(probability: float) -> Fraction:
    return Fraction(repr(float(probability)))
