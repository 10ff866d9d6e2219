"""What one draw may cost, from what all of them may: public numbers only."""

from __future__ import annotations

from pymc_private.errors import DomainError
from pymc_private.mechanisms.mollifiers.window import check_width
from pymc_private.privacy.arguments import probability, whole
from pymc_private.privacy.bounded_range import br_zcdp_tight
from pymc_private.privacy.planning import mollifier_affordable, range_affordable, rho_affordable

KINDS = ("clip", "tilt")
WIDER = 1.5
"""A clip must be so much wider than a tilt to be preferred.

For narrow windows a symmetric clip of width w gains w (P(A) - 1/2), A of reference mass 1/2, and a
tilt of range w gains w (P(A) - Q0(A)) for the best A: up to twice as much, and never less.
"""

Total = tuple[float, float, int]
"""(epsilon, delta, draws)."""


def settle(
    epsilon: float | None, total: Total | None, kind: str | None, *, plain: bool = False
) -> tuple[float, str, int | None, float]:
    """Fix epsilon per draw, the kind of law, the draws planned and delta, from public numbers.

    Parameters
    ----------
    epsilon, total, kind
        As in `mollify`.
    plain : bool
        Whether nothing but pure epsilon is proved of one draw: of hulls and other windows.

    Raises
    ------
    DomainError
        Neither or both of epsilon and total, or a kind that is none or does not fit.
    """
    if kind is not None and kind not in KINDS:
        raise DomainError("kind=", got=repr(kind), allowed=", ".join(map(repr, KINDS)))
    if plain and kind == "tilt":
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
    if plain:
        return check_width(_pure_affordable(budget, delta, count)), "clip", count, float(delta)
    clip = mollifier_affordable(budget, delta, count)
    tilt = range_affordable(budget * (1 - 1e-11), delta, count)  # a ledger rounds up: leave it room
    kind = kind or ("clip" if clip >= WIDER * tilt / 2.0 else "tilt")
    return check_width(clip if kind == "clip" else tilt), kind, count, float(delta)


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
