"""Windows around a reference law: how far log Q/Q0 may go in either direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import inside_unit, positive

WIDEST = 50.0
"""nats. Beyond it a rejection sampler would never end, and nothing would be private."""


@dataclass(frozen=True)
class Window:
    """lower <= log Q/Q0 <= upper: any two laws in it differ by at most `epsilon` (T15d).

    Parameters
    ----------
    lower, upper : float, nats
        lower < 0 < upper; public, and fixed without the data.
    epsilon : float, nats
        What is promised of one draw: at least upper - lower.
    """

    lower: float
    upper: float
    epsilon: float

    def __post_init__(self) -> None:
        check_width(self.epsilon)
        if not self.lower < 0.0 < self.upper:
            raise DomainError(
                "a window has the reference strictly inside",
                got=f"log ratios from {self.lower} to {self.upper}",
                allowed="lower < 0 < upper",
            )
        if self.upper - self.lower > self.epsilon * (1 + 1e-14):
            raise DomainError(
                "the window is wider than its epsilon",
                got=f"{self.upper - self.lower}",
                allowed=f"at most {self.epsilon}",
            )

    @classmethod
    def symmetric(cls, epsilon: float) -> Window:
        """[e^(-epsilon/2), e^(epsilon/2)], the relative mollifier M_epsilon."""
        check_width(epsilon)
        return cls(-epsilon / 2.0, epsilon / 2.0, float(epsilon))

    @classmethod
    def asymmetric(cls, epsilon: float, share: float) -> Window:
        """[a, a e^epsilon] with a = 1 / (1 + s (e^epsilon - 1)).

        It lets a target that lives on a part of reference mass s be followed as far as epsilon
        allows.

        Parameters
        ----------
        epsilon : float, nats
        share : float
            s in (0, 1), public. 1/2 is close to the symmetric window.
        """
        check_width(epsilon)
        inside_unit(share=share)
        lower = -math.log1p(share * math.expm1(epsilon))
        return cls(lower, lower + float(epsilon), float(epsilon))

    @classmethod
    def minimax(cls, epsilon: float, least: float, most: float) -> Window:
        """Give the window that is best for the worst target with least <= P/Q0 <= most.

        It is the asymmetric one with s = (1 - least) / (most - least), the reference mass on which
        an extreme target has its high value. For k categories, a uniform reference and any target
        (least = 0, most = k) its ends are those of k-ary randomized response.

        References
        ----------
        Park, Asoodeh and Lee (2024), Exactly minimax-optimal locally differentially private
        sampling.
        """
        if not 0.0 <= least < 1.0 < most < math.inf:
            raise DomainError(
                "density ratios of targets lie around one",
                got=f"from {least} to {most}",
                allowed="0 <= least < 1 < most < inf",
            )
        return cls.asymmetric(epsilon, (1.0 - least) / (most - least))

    @property
    def is_symmetric(self) -> bool:
        """Whether the sharper accounting of symmetric windows holds (T15b)."""
        return -self.lower == self.upper

    def __str__(self) -> str:
        return f"[{self.lower:.4g}, {self.upper:.4g}] nats"


def check_width(epsilon: float) -> float:
    """Return epsilon if it is the width of a window.

    Raises
    ------
    DomainError
        Not above 0, or too large to be private or drawn from.
    """
    positive(epsilon=epsilon)
    if epsilon > WIDEST:
        raise DomainError(
            "an epsilon this large protects nobody, and no draw would be accepted",
            got=epsilon,
            allowed=f"0 < epsilon <= {WIDEST:g} nats",
        )
    return float(epsilon)


def window_of(epsilon: float, window: Window | float | str) -> Window:
    """Read what a user may say: "symmetric", the share of an asymmetric window, or a Window.

    Raises
    ------
    DomainError
        None of these, or a Window of another epsilon.
    """
    if isinstance(window, Window):
        if window.epsilon > epsilon * (1 + 1e-12):
            raise DomainError(
                "the window costs more than epsilon", got=window.epsilon, allowed=f"<= {epsilon}"
            )
        return window
    if isinstance(window, str):
        if window != "symmetric":
            raise DomainError(
                "window=", got=repr(window), allowed="'symmetric', a share in (0, 1), or a Window"
            )
        return Window.symmetric(epsilon)
    return Window.asymmetric(epsilon, window)
