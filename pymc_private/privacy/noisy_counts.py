"""Budgets and noise of noisy counts, and public profiles of their tables: T26.

`CountBudget` is a budget in one of three currencies: (epsilon, delta), a Renyi divergence or zCDP.
`noise_plan` chooses the integer noise for all cells of some tables within one.

A private table is never looked at to choose r, alpha or the kind of noise: accuracy is judged at a
public `CountProfile`. Where nothing is known, the cells of a table are taken as
Dirichlet(1/2, ..., 1/2), and the tables of a family as equally large; expectations under that
distribution are integrals over one cell, Beta(1/2, (d - 1) / 2).

A budget above the range for which numbers can be formed is planned for as the end of that range:
what is drawn then costs less than was allowed. Below it no numbers can be formed, or only after
hours, and the budget is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from scipy import special

from pymc_private.errors import DomainError, PymcPrivateError
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.inverse import mu_affordable
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import (
    check_delta,
    check_positive,
    check_renyi_order,
    double_down,
)


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
        """Budget in one currency, from the keywords of `dirichlet`.

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
            check_positive(epsilon=epsilon)
            return cls(float(epsilon), check_delta(0.0 if delta is None else delta))
        if delta is None or not check_delta(delta) > 0.0:
            raise DomainError(
                f"{given[0]}= says what a release costs, but not what it guarantees at which delta",
                got=f"delta={delta}",
                allowed="0 < delta < 1",
                do="name the delta at which the ledger takes it and its reader is told epsilon",
            )
        at = check_delta(delta)
        if zcdp is not None:
            check_positive(zcdp=zcdp)
            return cls(delta=at, zcdp=float(zcdp))
        order, divergence = _check_rdp_pair(rdp)
        return cls(delta=at, order=order, rdp=divergence)

    @property
    def pure(self) -> bool:
        """Whether this is pure epsilon, without a delta."""
        return self.epsilon is not None and self.delta == 0.0

    def cost(self, guarantee: Guarantee) -> float:
        """Cost of a guarantee in this currency, as a share of the budget, rounded up."""
        if self.epsilon is not None:
            return float(guarantee.epsilon(self.delta)) / self.epsilon
        if self.zcdp is not None:
            return guarantee.zcdp / self.zcdp
        if self.order is None or self.rdp is None:
            raise DomainError(
                "this budget was not made by CountBudget.of",
                got=repr(self),
                allowed="epsilon, a zCDP, or an order with its Renyi divergence",
                do="CountBudget.of(...)",
            )
        return guarantee.rdp(self.order) / self.rdp

    def fits(self, guarantee: Guarantee) -> bool:
        """Whether a guarantee stays within the budget."""
        if self.epsilon is not None:  # compared as it is: a ratio might round down
            return float(guarantee.epsilon(self.delta)) <= self.epsilon
        if self.zcdp is not None:
            return guarantee.zcdp <= self.zcdp
        return self.order is not None and guarantee.rdp(self.order) <= (self.rdp or 0.0)

    def __str__(self) -> str:
        if self.epsilon is not None:
            return f"epsilon = {format_number(self.epsilon)}, delta = {format_number(self.delta)}"
        if self.zcdp is not None:
            return f"zCDP rho = {format_number(self.zcdp)}"
        return f"Renyi divergence {format_number(self.rdp or 0.0)} at order {self.order:g}"


def _check_rdp_pair(rdp: Any) -> tuple[float, float]:
    try:
        order, divergence = rdp
    except (TypeError, ValueError):
        raise DomainError("rdp= is a pair", got=repr(rdp), allowed="(order, divergence)") from None
    check_renyi_order(order)
    check_positive(order=order, divergence=divergence)
    if not order > 1.0:
        raise DomainError("a Renyi order must exceed 1", got=order, allowed="order > 1")
    return double_down(order), float(divergence)


# ---- noise of all cells --------------------------------------------------------------------
DISCRETE_GAUSSIAN, DISCRETE_LAPLACE = "discrete_gaussian", "laplace"
THEOREM = "T26"
MIN_SCALE = {DISCRETE_GAUSSIAN: 1.0 / 12.0, DISCRETE_LAPLACE: 1.0 / 64.0}
"""Noise of this scale is 0 but once in 10^27 times: a larger budget is of no use."""
MAX_SCALE = 1e12
"""With more noise counts and sums of them could overflow integers of 64 bits."""


@dataclass(frozen=True)
class NoisePlan:
    """Distribution of the noise of every cell, and the guarantee of the noisy counts.

    Attributes
    ----------
    distribution : {"discrete_gaussian", "laplace"}
        Of the noise; the latter is discrete Laplace, with masses proportional to e^(-|z| / scale).
    scale : float
        sigma, or the scale of the discrete Laplace distribution.
    guarantee : Guarantee
    """

    distribution: str
    scale: float
    guarantee: Guarantee

    @property
    def sd(self) -> float:
        """Approximate standard deviation of the noise."""
        return (
            self.scale
            if self.distribution == DISCRETE_GAUSSIAN
            else discrete_laplace_sd(self.scale)
        )


def discrete_laplace_sd(scale: float) -> float:
    """Standard deviation of discrete Laplace noise: sqrt(2 q) / (1 - q) with q = e^(-1/scale)."""
    return math.sqrt(2.0 * math.exp(-1.0 / scale)) / -math.expm1(-1.0 / scale)


def noise_plan(
    budget: CountBudget, families: int, neighbors: str = SUBSTITUTE, records: int = 1
) -> NoisePlan:
    """Noise with the least standard deviation that meets a budget.

    A unit of at most k records, replaced by another of as many, takes a from the cells of a family
    and adds b, both whole numbers >= 0 of sum k at most. So |b - a| is at most 2k in l1, and at
    most |a|^2 + |b|^2 <= 2 k^2 in squared l2 (add/remove: k and k^2), whatever cells they are: k
    times what one record changes. Hence Laplace noise costs k times as much epsilon, and discrete
    Gaussian noise, whose divergence is that of its squared l2, k^2 times as much rho (T24, T26).

    Parameters
    ----------
    budget : CountBudget
    families : int
        Most families of tables that one change of the data touches; in each of them a substituted
        record moves one unit between two cells, an added one changes one cell.
    neighbors : str
    records : int
        k, the most records of a unit.

    Returns
    -------
    NoisePlan
        Its guarantee was evaluated and fits the budget.

    Raises
    ------
    DomainError
        Nothing fits.

    References
    ----------
    Canonne, Kamath and Steinke (2020); theory T26.
    """
    words = {"neighbors": neighbors, "theorem": THEOREM}
    cells = families * (1 if neighbors == ADD_REMOVE else 2)

    def laplace(scale: float) -> Guarantee:
        return Guarantee.noisy_counts_of(families, scale, DISCRETE_LAPLACE, **words).group(records)

    def gaussian(sigma: float) -> Guarantee:
        return Guarantee.noisy_counts_of(families, sigma, **words).group(records)

    found: list[NoisePlan] = []
    if budget.epsilon is not None:
        found += _smallest_noise(
            DISCRETE_LAPLACE, records * cells / budget.epsilon, laplace, budget
        )
    if not budget.pure:
        sigma = records * _initial_sigma(budget, cells)
        if not found or sigma < found[0].sd:  # a search only raises it
            found += _smallest_noise(DISCRETE_GAUSSIAN, sigma, gaussian, budget)
    if not found:
        squared = 1 if budget.epsilon is not None else records
        raise _no_noise_error(budget, cells * records * squared)
    return min(found, key=lambda plan: plan.sd)


def _initial_sigma(budget: CountBudget, cells: int) -> float:
    if budget.zcdp is not None:
        return math.sqrt(0.5 * cells / budget.zcdp)
    if budget.order is not None and budget.rdp is not None:
        return math.sqrt(0.5 * cells * budget.order / budget.rdp)
    mu = mu_affordable(float(budget.epsilon or 0.0), budget.delta)
    return math.sqrt(cells) / mu if mu > 0.0 else math.inf


def _no_noise_error(budget: CountBudget, cells: int) -> DomainError:
    if budget.epsilon is not None:
        least = f"epsilon >= {cells / MAX_SCALE:.1g}"
    elif budget.zcdp is not None:
        least = f"zcdp >= {0.5 * cells / MAX_SCALE**2:.1g}"
    else:
        least = f"a divergence >= {0.5 * cells * (budget.order or 1.0) / MAX_SCALE**2:.1g}"
    return DomainError(
        "no noise fits this budget; nothing was charged",
        got=str(budget),
        allowed=f"{least}, nearly, which is noise of a scale up to {MAX_SCALE:g}",
        do="take a larger budget, or fewer tables",
    )


def _smallest_noise(
    distribution: str, start: float, guarantee_at: Callable[[float], Guarantee], budget: CountBudget
) -> list[NoisePlan]:
    """Noise of a scale that is raised from its theoretical value until the guarantee fits."""
    scale = max(start, MIN_SCALE[distribution])
    for _ in range(60):
        if scale > MAX_SCALE:
            break
        guarantee = guarantee_at(scale)
        if budget.fits(guarantee):
            return [NoisePlan(distribution, scale, guarantee)]
        scale *= 1.0 + max(1e-12, min(budget.cost(guarantee) - 1.0, 0.5) * 1.01)
    return []


# ---- public profiles of tables -------------------------------------------------------------
QUADRATURE_NODES = 48
"""Nodes of the Gauss-Jacobi rule."""
MANY_CELLS = 500
"""Beyond this many cells their dependence hardly matters."""
REFERENCE_TABLES = 64
"""Tables drawn to judge the error by noise, which has no formula; always the same."""


@dataclass(frozen=True)
class CountProfile:
    """Public assumption about the counts of one family of tables.

    Attributes
    ----------
    cells : int
        Categories of each table.
    tables : int
        Tables of the family; each record is in one of them.
    size : float
        Records of each table, where no counts are given.
    counts : tuple of tuple of float
        Public counts, one tuple per table; empty for Dirichlet(1/2, ..., 1/2) cells.
    """

    cells: int
    tables: int = 1
    size: float = 0.0
    counts: tuple[tuple[float, ...], ...] = field(default=())

    def __post_init__(self) -> None:
        if self.counts:
            rows = np.asarray(self.counts, float)
            if not np.isfinite(rows).all() or (rows < 0.0).any() or not rows.sum() > 0.0:
                raise DomainError(
                    "a public profile holds counts >= 0, not all 0",
                    got=f"an array of shape {rows.shape}",
                    allowed="counts >= 0, one of them positive",
                    do="profile=1000 for about 1000 records",
                )
        else:
            check_positive(size=self.size)

    def dirichlet_kl(self, r: float, alpha: float) -> float:
        """Expected KL (nats) of a draw of Dir(r f + alpha), averaged over the records (T12)."""
        if not self.counts:
            p, weight = _cell_quadrature(self.cells)
            inner = np.log(p) - special.digamma(r * self.size * p + alpha)
            total = special.digamma(r * self.size + self.cells * alpha)
            return float(self.cells * (weight @ (p * inner)) + total)
        rows = np.asarray(self.counts, float)
        sizes = rows.sum(axis=1, keepdims=True)
        rows, sizes = rows[sizes[:, 0] > 0], sizes[sizes[:, 0] > 0]
        p = rows / sizes
        inner = np.where(
            p > 0, np.log(np.where(p > 0, p, 1)) - special.digamma(r * rows + alpha), 0
        )
        each = (p * inner).sum(axis=1) + special.digamma(r * sizes[:, 0] + self.cells * alpha)
        return float(each @ sizes[:, 0] / sizes.sum())

    def sample(self) -> np.ndarray:
        """Tables of this profile, the same at every call, of shape (tables, cells)."""
        if self.counts:
            return np.asarray(self.counts, float)
        return self.size * _reference_tables(self.cells)


@lru_cache(maxsize=256)
def _cell_quadrature(cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of E f(p), p ~ Beta(1/2, (cells - 1) / 2)."""
    if cells == 1:
        return np.ones(1), np.ones(1)
    if cells > MANY_CELLS:  # then a cell is Gamma(1/2) over cells / 2, nearly
        x, weights = special.roots_genlaguerre(QUADRATURE_NODES, -0.5)
        return np.asarray(2.0 * x / cells), np.asarray(weights / weights.sum())
    x, weights = special.roots_jacobi(QUADRATURE_NODES, 0.5 * (cells - 1) - 1.0, -0.5)
    return np.maximum(0.5 * (1.0 + x), 1e-300), weights / weights.sum()


@lru_cache(maxsize=256)
def _reference_tables(cells: int) -> np.ndarray:
    """Tables of Dirichlet(1/2) from a fixed seed: public, and no randomness of a release."""
    return np.random.default_rng(2024).dirichlet(np.full(cells, 0.5), size=REFERENCE_TABLES)


# ---- budgets of Dirichlet draws ------------------------------------------------------------
MIN_EPSILON, MAX_EPSILON = 1e-15, 1e3
"""Range of epsilon for Dirichlet draws; at its end a draw hardly differs from the data."""
MIN_DIVERGENCE, MAX_DIVERGENCE = 1e-15, 1e3
"""Range of the divergence, where one Renyi divergence is the budget."""
MAX_ORDER = 1e6
"""Beyond this order the divergence of a draw is finite only if its counts weigh nothing."""
ALLOWED_BUDGETS = (
    f"epsilon >= {MIN_EPSILON:g}, or a divergence >= {MIN_DIVERGENCE:g} of an order up to "
    f"{MAX_ORDER:g}"
)
Planned = TypeVar("Planned")


def clip_budget(budget: CountBudget) -> CountBudget:
    """Budget that Dirichlet draws are planned for: no larger, and cut to the workable range.

    A budget below that range is refused.
    """
    if budget.pure or budget.zcdp is not None:  # refused elsewhere, whatever the number
        return budget
    if budget.epsilon is not None:
        if budget.epsilon < MIN_EPSILON:
            raise _budget_range_error(budget)
        return replace(budget, epsilon=min(budget.epsilon, MAX_EPSILON))
    if not ((budget.rdp or 0.0) >= MIN_DIVERGENCE and (budget.order or 0.0) <= MAX_ORDER):
        raise _budget_range_error(budget)
    return replace(budget, rdp=min(budget.rdp or 0.0, MAX_DIVERGENCE))


def plan_within_range(make: Callable[..., Planned], budget: CountBudget, *given: object) -> Planned:
    """Plan Dirichlet draws for a budget cut to the workable range.

    A search that breaks down is a refusal. Nothing private is read here, and nothing was charged.
    """
    try:
        return make(clip_budget(budget), *given)
    except PymcPrivateError:
        raise
    except (ArithmeticError, ValueError, RuntimeError) as cause:
        raise _budget_range_error(budget) from cause


def _budget_range_error(budget: CountBudget) -> DomainError:
    return DomainError(
        "no Dirichlet draw can be planned for this budget; nothing was charged",
        got=str(budget),
        allowed=ALLOWED_BUDGETS,
        do='take a budget nearer to one, or method="noisy"',
    )
