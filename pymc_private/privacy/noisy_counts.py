"""What a release of counts may cost: one of (epsilon, delta), a Renyi divergence, or zCDP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import number_down, order_of, positive, probability
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding__printing import number

@dataclass(frozen=True)
class CountBudget:
    """A budget in one of three currencies, and the delta at which the ledger takes it.

    Build one with :meth:`of`.

    Attributes
    ----------
    epsilon : float or None
        nats, at `delta`.
    delta : float
        In [0, 1).
    order, rdp : float or None
        A Renyi order > 1 and the divergence allowed there, nats.
    zcdp : float or None
        The rho allowed.
    """

    epsilon: float | None = None
    delta: float = 0.0
    order: float | None = None
    rdp: float | None = None
    zcdp: float | None = None

    @classmethod
    def of(
        cls,
        epsilon: float | None = None,
        delta: float | None = None,
        rdp: tuple[float, float] | None = None,
        zcdp: float | None = None,
    ) -> CountBudget:
        """Take one budget in the words of `dirichlet`.

        Raises
        ------
        DomainError
            None or several were given, a number is out of its range, or a delta is missing.
        """
        named = {"epsilon": epsilon, "rdp": rdp, "zcdp": zcdp}
        given = [name for name, value in named.items() if value is not None]
        if len(given) != 1:
            raise DomainError(
                "one budget is needed",
                got=", ".join(f"{name}=" for name in given) or "none",
                allowed="epsilon= (with delta=), rdp=(order, divergence) or zcdp=",
            )
        if epsilon is not None:
            positive(epsilon=epsilon)
            return cls(float(epsilon), probability(0.0 if delta is None else delta))
        if delta is None or not probability(delta) > 0.0:
            raise DomainError(
                f"{given[0]}= says what a release costs, but not what it promises at which delta",
                got=f"delta={delta}",
                allowed="0 < delta < 1",
                do="name the delta at which the ledger takes it and its reader is told epsilon",
            )
        at = probability(delta)
        if zcdp is not None:
            positive(zcdp=zcdp)
            return cls(delta=at, zcdp=float(zcdp))
        order, divergence = _pair(rdp)
        return cls(delta=at, order=order, rdp=divergence)

    @property
    def pure(self) -> bool:
        """Whether no delta is left for a mechanism that needs some."""
        return self.epsilon is not None and self.delta == 0.0

    def cost(self, guarantee: Guarantee) -> float:
        """Give what a guarantee costs in this currency, as a share of the budget; rounded up."""
        if self.epsilon is not None:
            return float(guarantee.epsilon(self.delta)) / self.epsilon
        if self.zcdp is not None:
            return guarantee.zcdp / self.zcdp
        if self.order is None or self.rdp is None:
            raise DomainError("this budget was not made by CountBudget.of", got=repr(self))
        return guarantee.rdp(self.order) / self.rdp

    def fits(self, guarantee: Guarantee) -> bool:
        """Whether a guarantee stays within the budget."""
        if self.epsilon is not None:  # compared as it is: a ratio might round down
            return float(guarantee.epsilon(self.delta)) <= self.epsilon
        if self.zcdp is not None:
            return guarantee.zcdp <= self.zcdp
        return self.order is not None and guarantee.rdp(self.order) <= (self.rdp or 0.0)

    def least(self, promise: Callable[[float], Guarantee], start: float) -> float:
        """Give an argument of a promise that grows stronger in it, where it fits; evaluated.

        The search goes by what the promise costs; only steps of one part in 10^9 are lost.

        Raises
        ------
        DomainError
            No argument up to 1e15 fits.
        """
        low, high = 0.0, start
        while not self.fits(promise(high)):
            low, high = high, 2.0 * high
            if high > 1e15:
                raise DomainError(
                    "nothing fits this budget; nothing was charged",
                    got=str(self),
                    do="take a larger budget, or fewer tables or draws",
                )
        while high - low > 1e-9 * high:
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.fits(promise(middle)) else (middle, high)
        return high

    def __str__(self) -> str:
        if self.epsilon is not None:
            return f"epsilon = {number(self.epsilon)}, delta = {number(self.delta)}"
        if self.zcdp is not None:
            return f"zCDP rho = {number(self.zcdp)}"
        return f"Renyi divergence {number(self.rdp or 0.0)} at order {self.order:g}"


def _pair(rdp: Any) -> tuple[float, float]:
    try:
        order, divergence = rdp
    except (TypeError, ValueError):
        raise DomainError("rdp= is a pair", got=repr(rdp), allowed="(order, divergence)") from None
    order_of(order)
    positive(order=order, divergence=divergence)
    if not order > 1.0:
        raise DomainError("a Renyi order must exceed 1", got=order, allowed="order > 1")
    return number_down(order), float(divergence)
