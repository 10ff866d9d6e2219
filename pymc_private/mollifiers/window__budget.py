"""What one draw may cost, from what all of them may: public numbers only."""

from __future__ import annotations

from typing import Any
from pymc_private.errors import DomainError
from pymc_private.mollifiers.window import Window, check_width, window_of
from pymc_private.privacy.validation import probability, whole
from pymc_private.privacy.bounded_range import br_zcdp_tight
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.inverse import mollifier_affordable, range_affordable, rho_affordable
from pymc_private.privacy.rounding__printing import counted

KINDS = ("clip", "tilt")
WIDER = 1.5
"""A clip must be so much wider than a tilt to be preferred.

For narrow windows a symmetric clip of width w gains w (P(A) - 1/2), A of reference mass 1/2, and a
tilt of range w gains w (P(A) - Q0(A)) for the best A: up to twice as much, and never less.
"""

Total = tuple[float, float, int]
"""(epsilon, delta, draws)."""


def settle(
    epsilon: float | None,
    total: Total | None,
    kind: str | None,
    *,
    window: Window | float | str = "symmetric",
    hull: bool = False,
) -> tuple[float, str, int | None, float]:
    """Fix epsilon per draw, the kind of law, the draws planned and delta, from public numbers.

    Parameters
    ----------
    epsilon, total, kind, window
        As in `mollify`.
    hull : bool
        Whether nothing but pure epsilon is proved of one draw.

    Raises
    ------
    DomainError
        Neither or both of epsilon and total, a kind that is none or does not fit, or a window of
        which so many draws cost more.
    """
    if kind is not None and kind not in KINDS:
        raise DomainError("kind=", got=repr(kind), allowed=", ".join(map(repr, KINDS)))
    plain = not hull and isinstance(window, str) and window == "symmetric"
    if not plain and kind == "tilt":
        raise DomainError(
            "a tilt has no window of its own and goes with no hull", do="leave out window= or kind="
        )
    if (epsilon is None) == (total is None):
        raise DomainError(
            "say what one draw may cost, or what all of them may",
            got=f"epsilon={epsilon}, total={total}",
            allowed="epsilon=, or total=(epsilon, delta, draws)",
        )
    if total is None:
        return check_width(epsilon), kind or "clip", None, 0.0  # type: ignore[arg-type]
    budget, delta, draws = total
    check_width(budget)
    count = whole(draws, "the number of draws")
    probability(delta)
    if not plain:
        width = _pure_affordable(budget, delta, count) if hull else _wide(window, total)
        return check_width(width), "clip", count, float(delta)
    clip = mollifier_affordable(budget, delta, count)
    tilt = range_affordable(budget * (1 - 1e-11), delta, count)  # a ledger rounds up: leave it room
    kind = kind or ("clip" if clip >= WIDER * tilt / 2.0 else "tilt")
    return check_width(clip if kind == "clip" else tilt), kind, count, float(delta)


def _wide(window: Window | float | str, total: Total) -> float:
    """The width of a window that is not symmetric, of which so many draws fit."""
    budget, delta, draws = total
    if not isinstance(window, Window):
        window_of(1.0, window)
        return mollifier_affordable(budget, delta, draws, float(window))
    spent = promise(window, draws).epsilon(delta)
    if spent > budget:
        raise DomainError(
            f"this window costs more than its total for {counted(draws, 'draw')}",
            got=f"{spent:.4g} nats",
            allowed=f"{budget:g}",
            do="give the share of the reference instead, window=s: its width is then found",
        )
    return window.epsilon


def promise(window: Window, draws: int, **words: Any) -> Guarantee:
    """What so many draws of one clip reveal (T15b)."""
    top = None if window.is_symmetric else window.upper
    return Guarantee.mollifier_of(window.epsilon, draws, top=top, theorem="T15b", **words)


def _pure_affordable(epsilon: float, delta: float, draws: int) -> float:
    """Epsilon of one draw of which so many fit: it is a range of 2 epsilon, whose rhos add (T2)."""
    pure = epsilon if draws == 1 else epsilon / draws * (1 - 1e-12)
    if draws == 1 or not delta > 0.0:
        return pure
    rho = rho_affordable(epsilon, delta) / draws * (1 - 1e-12)
    low, high = 0.0, epsilon
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if br_zcdp_tight(2.0 * middle) <= rho else (low, middle)
    return max(pure, low)
