"""Claims as numbers: the epsilon that is promised at a delta."""

from __future__ import annotations

from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from pymc_private.privacy.validation import not_negative

def claimed(claim: float | Guarantee, delta: float) -> float:
    """Epsilon of a claim, nats: the number itself, or that of a guarantee at `delta`.

    Raises
    ------
    DomainError
        A number below zero.
    """
    if isinstance(claim, Guarantee):
        return float(claim.epsilon(delta))
    not_negative(claim=claim)
    return float(claim)


def check_delta(delta: float, name: str) -> None:
    """Refuse what is no probability below 1.

    Raises
    ------
    DomainError
        It is none.
    """
    if not 0.0 <= delta < 1.0:
        raise DomainError(f"{name} is a probability below 1", got=delta, allowed=f"0 <= {name} < 1")
