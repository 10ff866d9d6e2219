"""Windows for log Q/Q0 around a reference, and the epsilon per draw that a budget affords.

Two distributions in one window differ by at most its width (T15d). For total=(epsilon, delta,
draws) the width of a clip (T15b), the range of a tilt (T15a, T3) or the pure epsilon of a hull
(T2) is found from public numbers alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pymc_private.errors import DomainError
from pymc_private.privacy.argument_kinds import DOUBLE
from pymc_private.privacy.bounded_range import br_zcdp_tight
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.inverse import mollifier_affordable, range_affordable, rho_affordable
from pymc_private.privacy.rounding import format_count
from pymc_private.privacy.validation import (
    check_count,
    check_delta,
    check_open_unit,
    check_positive,
)

LARGEST_EPSILON = 50.0
"""The largest epsilon, nats: beyond it rejection never ends and nothing is private."""


@dataclass(frozen=True)
class Window:
    """lower <= log Q/Q0 <= upper: two distributions in it differ by at most `epsilon` (T15d).

    Parameters
    ----------
    lower, upper : float, nats
        lower < 0 < upper; public, and fixed without the data.
    epsilon : float, nats
        The guarantee of one draw: at least upper - lower.
    """

    lower: float
    upper: float
    epsilon: float

    def __post_init__(self) -> None:
        check_width(self.epsilon)
        for name in ("lower", "upper", "epsilon"):
            value = DOUBLE.of(getattr(self, name), name, "Window")
            object.__setattr__(self, name, float(value))
        if not self.lower < 0.0 < self.upper:
            raise DomainError(
                "a window of log ratios contains 0, the log ratio of the reference itself",
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
        check_open_unit(share=share)
        lower = -math.log1p(float(share) * math.expm1(epsilon))
        return cls(lower, lower + float(epsilon), float(epsilon))

    @classmethod
    def minimax(cls, epsilon: float, least: float, most: float) -> Window:
        """Give the window that is best for the worst target with least <= P/Q0 <= most.

        It is the asymmetric one with s = (1 - least) / (most - least), the reference mass on which
        an extreme target has its high value. For k categories, a uniform reference and any target
        (least = 0, most = k) its bounds are those of k-ary randomized response.

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
    """Epsilon as a float; refused unless it is above 0 and at most `LARGEST_EPSILON`."""
    check_positive(epsilon=epsilon)
    if epsilon > LARGEST_EPSILON:
        raise DomainError(
            "an epsilon this large protects nobody, and no draw would be accepted",
            got=epsilon,
            allowed=f"0 < epsilon <= {LARGEST_EPSILON:g} nats",
        )
    return float(epsilon)


def as_window(epsilon: float, window: Window | float | str) -> Window:
    """The window that a user gives: "symmetric", the share of an asymmetric window, or a Window."""
    if isinstance(window, Window):
        if window.epsilon > epsilon * (1 + 1e-12):
            raise DomainError(
                "the window costs more than epsilon", got=window.epsilon, allowed=f"<= {epsilon}"
            )
        return window
    if isinstance(window, str):
        if window != "symmetric":
            raise DomainError(
                "window= is not known",
                got=repr(window),
                allowed="'symmetric', a share in (0, 1), or a Window",
            )
        return Window.symmetric(epsilon)
    return Window.asymmetric(epsilon, window)


TotalBudget = tuple[float, float, int]
"""(epsilon, delta, draws)."""
MOLLIFIER_KINDS = ("clip", "tilt")
CLIP_WIDTH_RATIO = 1.5
"""A clip must be so much wider than a tilt to be preferred.

For narrow windows a symmetric clip of width w gains w (P(A) - 1/2), A of reference mass 1/2, and a
tilt of range w gains w (P(A) - Q0(A)) for the best A: up to twice as much, and never less.
"""


def resolve_budget(
    epsilon: float | None,
    total: TotalBudget | None,
    kind: str | None,
    *,
    window: Window | float | str = "symmetric",
    hull: bool = False,
) -> tuple[float, str, int | None, float]:
    """Epsilon per draw, the kind of mollifier, the planned draws and delta, from public numbers.

    The arguments are those of `mollify`; for a `hull` nothing but pure epsilon is proved of one
    draw. Refuses contradictory arguments, and a window whose draws cost more than `total`.
    """
    if kind is not None and not (isinstance(kind, str) and kind in MOLLIFIER_KINDS):
        raise DomainError(
            "kind= is not known", got=repr(kind), allowed=", ".join(map(repr, MOLLIFIER_KINDS))
        )
    plain = not hull and isinstance(window, str) and window == "symmetric"
    if not plain and kind == "tilt":
        raise DomainError(
            "kind='tilt' takes neither window= nor a hull", do="leave out window= or kind="
        )
    if (epsilon is None) == (total is None):
        raise DomainError(
            "say what one draw may cost, or what all of them may",
            got=f"epsilon={epsilon}, total={total}",
            allowed="epsilon=, or total=(epsilon, delta, draws)",
        )
    if total is None:
        return check_width(epsilon), kind or "clip", None, 0.0  # type: ignore[arg-type]
    budget, delta, draws = _three_numbers(total)
    check_width(budget)
    count = check_count(draws, "the number of draws")
    check_delta(delta)
    if not plain:
        width = (
            _pure_epsilon_affordable(budget, delta, count)
            if hull
            else _asymmetric_width(window, total)
        )
        return check_width(width), "clip", count, float(delta)
    clip = mollifier_affordable(budget, delta, count)
    tilt = range_affordable(budget * (1 - 1e-11), delta, count)  # a ledger rounds up: leave it room
    kind = kind or ("clip" if clip >= CLIP_WIDTH_RATIO * tilt / 2.0 else "tilt")
    return check_width(clip if kind == "clip" else tilt), kind, count, float(delta)


def _three_numbers(total: Any) -> Any:
    """A total budget, which is a tuple."""
    if not isinstance(total, tuple | list) or len(total) != 3:
        raise DomainError(
            "a total budget is a tuple of three numbers",
            got=type(total).__name__,
            allowed="total=(epsilon, delta, draws)",
        )
    return total


def _asymmetric_width(window: Window | float | str, total: TotalBudget) -> float:
    """The width of an asymmetric window of which that number of draws fits the total."""
    budget, delta, draws = _three_numbers(total)
    if not isinstance(window, Window):
        as_window(1.0, window)
        return mollifier_affordable(budget, delta, draws, float(window))
    spent = clip_guarantee(window, draws).epsilon(delta)
    if spent > budget:
        raise DomainError(
            f"this window costs more than its total for {format_count(draws, 'draw')}",
            got=f"{spent:.4g} nats",
            allowed=f"{budget:g}",
            do="give the share of the reference instead, window=s: its width is then found",
        )
    return window.epsilon


def _pure_epsilon_affordable(epsilon: float, delta: float, draws: int) -> float:
    """The epsilon per draw that fits: a draw has a range of 2 epsilon, and their rhos add (T2)."""
    pure = epsilon if draws == 1 else epsilon / draws * (1 - 1e-12)
    if draws == 1 or not delta > 0.0:
        return pure
    rho = rho_affordable(epsilon, delta) / draws * (1 - 1e-12)
    low, high = 0.0, epsilon
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if br_zcdp_tight(2.0 * middle) <= rho else (low, middle)
    return max(pure, low)


def clip_guarantee(window: Window, draws: int, **keywords: Any) -> Guarantee:
    """The guarantee of that number of draws of one clip (T15b)."""
    top = None if window.is_symmetric else window.upper
    return Guarantee.mollifier_of(window.epsilon, draws, top=top, theorem="T15b", **keywords)
