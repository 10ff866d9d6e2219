"""The tail of ell(theta) under the prior, proved by a lemma or else estimated (T6, T17).

Assumption 2 of Dimitrakakis et al. (2017): P(ell > L) <= e^(-c (L - L0)) for every L >= L0. A
lemma proves it and T6 prices it. An estimate from prior draws says nothing beyond the largest
draw: it is a diagnostic, never a privacy claim. Restricting the prior to Theta_L is one: see
`trim`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.certificates import range_bound
from pymc_private.certificates.lipschitz.lemmas import LemmaModel, recognize_lemma
from pymc_private.certificates.lipschitz.variation import variation
from pymc_private.certificates.terms import ASSUMPTIONS, REAL_ARITHMETIC
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.placeholder_rows import require_own_records
from pymc_private.models.prior import PRIOR_DRAWS, in_region, prior_draws
from pymc_private.models.private_model import PrivateModel, require_private_model
from pymc_private.privacy import Guarantee, cards, dkw_halfwidth, sl_eps
from pymc_private.privacy.argument_kinds import DOUBLE
from pymc_private.privacy.plots import axes_or_new
from pymc_private.privacy.rounding import format_count, format_number

MOST_LOG_CONSTANT = 690.0
"""Logarithm of the largest C that is priced."""

AGREEMENT = 1e-6
"""Relative distance at which a lemma's formula and the graph of ell still agree."""

PROVED_COLOR, FITTED_COLOR = "#2b6298", "#b3462b"


@dataclass(frozen=True, eq=False)
class LipschitzTail:
    """How fast P(ell(theta) > L) falls under the prior, on the region of the model.

    Attributes
    ----------
    lemma : str
        Which lemma proves (L0, c); empty where they are estimated.
    L0 : float, nats
    c : float, 1 / nats
        P(ell > L) <= e^(-c (L - L0)) for L >= L0. Estimated ones hold with probability
        1 - beta up to the largest draw only; NaN without draws.
    values : array, shape (draws,)
        ell at prior draws, sorted; upper bounds, infinite where nothing is proved.
    beta : float
        Probability that the envelope fails somewhere.
    records : int
    log_constant : float
        log C of T6 for all records; inf where no formula gives it.
    formula : str
        ell(theta) in words, where a lemma gives it.
    units : int
        Records a unit may own.
    power : float
    """

    lemma: str
    L0: float
    c: float
    values: np.ndarray
    beta: float
    records: int
    log_constant: float = math.inf
    formula: str = ""
    units: int = 1
    power: float = 1.0

    @property
    def is_proved(self) -> bool:
        """Whether a lemma proves (L0, c)."""
        return bool(self.lemma)

    @property
    def description(self) -> str:
        """The exponential bound of the tail."""
        L0, c = format_number(self.L0, 5), format_number(self.c, 5, up=False)
        proved = f"proved by {self.lemma}" if self.is_proved else "fitted, a diagnostic"
        if self.is_proved and math.isinf(self.c):
            return f"ell <= L0 = {L0} nats everywhere: {proved}"
        return f"P(ell > L) <= exp(-c (L - L0)), L0 = {L0} nats, c = {c}: {proved}"

    def survival(self, L: Any) -> np.ndarray:
        """Bound of P(ell > L): a lemma's, or the upper DKW envelope of the draws (T17)."""
        at = np.asarray(L, dtype=float)
        if self.is_proved and math.isinf(self.c):
            return np.where(at < self.L0, 1.0, 0.0)
        if self.is_proved:
            return self._exponential(at)
        above = 1.0 - np.searchsorted(self.values, at, side="right") / len(self.values)
        return np.minimum(1.0, above + dkw_halfwidth(len(self.values), self.beta))

    def _exponential(self, at: np.ndarray) -> np.ndarray:
        return np.minimum(1.0, np.exp(-self.c * (at - self.L0)))

    def guarantee(self, delta: float) -> Guarantee:
        """What one draw from the untrimmed posterior costs, by T6(iii): only where a lemma holds.

        Raises
        ------
        Unsupported
            The tail is estimated, or C is not known or beyond the doubles.
        """
        if not self.is_proved:
            raise _no_claim("the tail is estimated from prior draws, which proves no privacy (T17)")
        if math.isinf(self.c):  # T6(iii) with nothing beyond L0
            epsilon = 2.0 * self.L0 * self.power * self.units * (1.0 + 1e-12)
            return Guarantee.pure(
                epsilon, theorem="T6", assumptions=(REAL_ARITHMETIC, *ASSUMPTIONS)
            )
        if not self.log_constant <= MOST_LOG_CONSTANT:
            raise _no_claim("the constant C of this many records is unknown or too large")
        C = math.nextafter(math.exp(self.log_constant) * (1.0 + 1e-12), math.inf)
        distance = float(self.units)
        # A power w <= 1 makes ell w times as large, and C no larger: (p / sup p)^w >= p / sup p.
        epsilon = sl_eps(self.L0 * self.power, self.c / self.power, C, distance, delta)
        words: dict[str, Any] = {"theorem": "T6", "assumptions": (REAL_ARITHMETIC, *ASSUMPTIONS)}
        return Guarantee.approximate(float(epsilon), delta, **words)

    def plot(self, ax: Any = None) -> Any:
        """Draw P(ell > L) of the prior draws, their envelope, and the exponential bound.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_or_new(ax, 5.6, 3.5)
        finite = self.values[np.isfinite(self.values)]
        last = float(finite[-1]) if len(finite) else self.L0 + 5.0 / self.c
        grid = np.linspace(0.0, last * 1.35, 400)
        if len(self.values):
            half = dkw_halfwidth(len(self.values), self.beta)
            above = 1.0 - np.searchsorted(self.values, grid, side="right") / len(self.values)
            seen = grid <= last
            ax.step(grid[seen], above[seen], color="0.25", lw=1.4, label="prior draws")
            top = np.minimum(1.0, above + half)
            label = f"holds with probability {1.0 - self.beta:g}"
            ax.fill_between(grid, above, top, color="0.85", lw=0, label=label)
        if self.is_proved or math.isfinite(self.c):
            bound = self.survival(grid) if self.is_proved else self._exponential(grid)
            style = (
                {"color": PROVED_COLOR} if self.is_proved else {"color": FITTED_COLOR, "ls": "--"}
            )
            words = f"{self.lemma}, proved" if self.is_proved else "fitted: a diagnostic"
            shown = grid <= last if not self.is_proved else grid >= 0
            ax.plot(grid[shown], bound[shown], lw=1.8, label=words, **style)
        ax.set(xlabel="L, nats", ylabel="P(ell > L) under the prior", yscale="log")
        ax.set_ylim(max(1e-5, 0.3 / max(len(self.values), 1)), 1.4)
        ax.set_xlim(0.0, last * 1.35)
        ax.legend(frameon=False, fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def __repr__(self) -> str:
        lines = ["LipschitzTail: how much one record can change the log-likelihood, over the prior"]
        if self.is_proved:
            lines += [
                f"  ell(theta) is {self.formula}; {self.lemma}, corrected",
                f"  {self.description}",
            ]
        elif len(self.values):
            median = format_number(float(np.median(self.values)), 4)
            most = format_number(float(self.values[-1]), 4)
            lines += [
                f"  median {median}, largest {most} nats in "
                f"{format_count(len(self.values), 'prior draw')}",
                f"  {self.description}; it holds up to the largest draw with probability "
                f"{1.0 - self.beta:g}",
                "  a diagnostic, not a privacy claim: pmp.trim(private, lipschitz=L) makes one",
            ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return cards.html_text(repr(self))


def lipschitz_tail(
    private: PrivateModel, *, draws: int = PRIOR_DRAWS, beta: float = 0.05
) -> LipschitzTail:
    """Describe the tail of ell(theta) under the prior. Reads no data.

    Parameters
    ----------
    private : PrivateModel
        Trimmed or not: the prior is that of its region.
    draws : int
        Prior draws, at least 1.
    beta : float
        Probability, in (0, 1/2], that the envelope of the draws fails somewhere.

    Returns
    -------
    LipschitzTail
        L0 and c by Lemmas 19-24 where the model is one of theirs, for one replaced record.

    Raises
    ------
    DomainError
        The prior is improper, its region holds no draw, or draws or beta are out of range.
    Unsupported
        ell(theta) is not known as a graph, or the prior cannot be drawn from.

    References
    ----------
    Theory T6, T17 and the errata of Dimitrakakis et al. (2017), Lemmas 19-24; Massart (1990).
    """
    private = require_private_model(private)
    require_own_records(private, "a stochastic-Lipschitz bound")
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
        raise DomainError("draws is a whole number >= 1", got=repr(draws), allowed="1, 2, ...")
    beta = DOUBLE.of(beta, "beta", "a stochastic-Lipschitz bound")
    dkw_halfwidth(int(draws), beta)  # refuses what is out of range
    points = prior_draws(private, int(draws))
    inside = in_region(private, points)
    if not inside.any():
        raise DomainError(
            "no prior draw lies in the region",
            got=format_count(draws, "draw"),
            allowed="regions that keep more of the prior",
            do="trim less, or take more draws",
        )
    kept = {name: values[inside] for name, values in points.items()}
    values = np.sort(variation(private).at(kept))
    if (proved := proved_tail(private, values, beta, kept)) is not None:
        return proved
    L0, c = _fit_exponential(values, dkw_halfwidth(len(values), beta))
    return LipschitzTail(
        "", L0, c, values, beta, private.n, units=private.records_per_unit,
        power=float(private.power),
    )  # fmt: skip


def proved_tail(
    private: PrivateModel,
    values: np.ndarray | None = None,
    beta: float = 0.05,
    points: dict[str, np.ndarray] | None = None,
) -> LipschitzTail | None:
    """The tail by a lemma; None where no lemma is recognized or its formula is not the graph's."""
    family = recognize_lemma(private) if private.table_rows is None else None
    if family is None or not _formula_agrees(private, family, points):
        return None
    return LipschitzTail(
        lemma=family.lemma,
        L0=family.L0,
        c=family.c,
        values=np.empty(0) if values is None else values,
        beta=beta,
        records=private.n,
        log_constant=family.log_constant,
        formula=family.formula,
        units=private.records_per_unit,
        power=float(private.power),
    )


def _formula_agrees(
    private: PrivateModel, family: LemmaModel, points: dict[str, np.ndarray] | None
) -> bool:
    """Whether the formula is what intervals prove of the graph, or above it, at a few points."""
    tried = _interior_points(private) if points is None else {k: v[:64] for k, v in points.items()}
    try:
        proved = variation(private).at(tried)
    except Unsupported:
        return False
    stated = family.ell(tried)
    finite = np.abs(proved[np.isfinite(proved)])  # if nothing is proved, nothing agrees with it
    rest = 1e-9 * float(finite.max(initial=0.0))  # of a likelihood of any weight
    is_below = finite.size > 0 and np.all(proved <= stated * (1.0 + AGREEMENT) + rest)
    return bool(is_below and (not family.is_exact or np.allclose(proved, stated, AGREEMENT, rest)))


def _interior_points(private: PrivateModel) -> dict[str, np.ndarray]:
    """Points inside the box."""
    rows = [
        range_bound.point_at_share(private.box, share) for share in np.linspace(0.0, 1.0, 7)[1:-1]
    ]
    return {name: np.stack([row[name].lower for row in rows]) for name in rows[0]}


def _fit_exponential(values: np.ndarray, half: float) -> tuple[float, float]:
    """(L0, c) above the upper envelope up to the largest draw, with the least L0 + 1 / c."""
    finite = values[np.isfinite(values)]
    if not len(finite) or finite[-1] <= 0.0:
        return (0.0 if len(finite) else math.inf), math.inf if len(finite) else math.nan
    # Just below each draw the envelope is highest.
    above = np.minimum(1.0, 1.0 - np.arange(len(finite)) / len(values) + half)
    rates = np.geomspace(0.02, 50.0, 200) / max(float(np.median(finite)), 1e-12)
    starts = np.array([np.max(finite + np.log(above) / c) for c in rates])
    best = int(np.argmin(np.maximum(starts, 0.0) + 1.0 / rates))
    return max(float(starts[best]), 0.0), float(rates[best])


def _no_claim(problem: str) -> Unsupported:
    return Unsupported(
        problem,
        allowed="models of Lemmas 19-24 with a prior that makes C finite",
        do="restrict the prior: pmp.trim(private, lipschitz=L) has R <= 2 L",
    )
