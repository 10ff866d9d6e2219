"""Method and parameters of a release of counts, chosen from public numbers alone (T12, T26).

A plan is made before the counts are looked at: from the budget, the shapes of the tables, the
neighboring relation and a public profile, by which the expected Kullback-Leibler divergence of
each method is judged.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from pymc_private.counts.denoise.cell_distributions import CountNoise, cell_distributions
from pymc_private.counts.denoise.posterior import MIN_SD
from pymc_private.counts.denoise.saddlepoint import match_total
from pymc_private.counts.tables import CountFamily, max_families_affected
from pymc_private.errors import DomainError, Unsupported
from pymc_private.privacy import Guarantee
from pymc_private.privacy.argument_kinds import NUMBERS
from pymc_private.privacy.dirichlet_tables import (
    JointPlan,
    TableSensitivity,
    algorithm1_plan,
    joint_plan,
    largest_posterior_power,
    vector_plan,
)
from pymc_private.privacy.neighbors import ADD_REMOVE, ATTRIBUTE
from pymc_private.privacy.noisy_counts import (
    DISCRETE_LAPLACE,
    CountBudget,
    CountProfile,
    NoisePlan,
    noise_plan,
    plan_within_range,
)
from pymc_private.privacy.validation import refuse_mask
from pymc_private.release.allowed import dump_json

METHODS = ("auto", "exact", "algorithm1", "noisy")
FREE_DRAWS = 500
"""Default number of draws from the posterior given noisy counts, which cost nothing."""
PROFILE_TABLES = 24
"""Tables of the profile by which noise is judged, at most."""
JOINT_GAIN = 0.9
"""Noise is judged table by table; tables of the same records correct each other by this factor."""

# Cached: plans depend on public numbers alone, so the next fit of the same tables finds its plan.
_cached_joint_plan: Callable[..., JointPlan] = lru_cache(64)(joint_plan)
_cached_algorithm1_plan: Callable[..., JointPlan] = lru_cache(64)(algorithm1_plan)
_cached_noise_plan: Callable[..., NoisePlan] = lru_cache(64)(noise_plan)


@dataclass(frozen=True)
class CountDesign:
    """The public description of a release of counts, but for the budget.

    Attributes
    ----------
    families : tuple of Family
    neighbors, unit : str
    minimum : float
    draws : int or None
    total : float or None
        Public number of records.
    profiles : tuple of CountProfile
    prior : tuple of array or None
        Stated prior parameters, one array per family.
    sensitivity : tuple of float or None
        Squared Euclidean and largest change of a vector statistic.
    records_per_unit : int
        Most records of a unit.
    """

    families: tuple[CountFamily, ...]
    neighbors: str
    unit: str
    minimum: float
    draws: int | None
    total: float | None
    profiles: tuple[CountProfile, ...]
    prior: tuple[np.ndarray, ...] | None = None
    sensitivity: tuple[float, float] | None = None
    records_per_unit: int = 1

    @property
    def touched(self) -> TableSensitivity:
        """Families that one change of the data affects, draws, and the least count."""
        most = max_families_affected(self.families, self.unit)
        return TableSensitivity(most, self.draws or 1, self.neighbors, self.minimum)


@dataclass(frozen=True)
class CountPlan:
    """How counts will be released.

    Attributes
    ----------
    design : Design
    budget : CountBudget
    method : {"exact", "algorithm1", "noisy"}
    guarantee : Guarantee
    r : tuple of float
        Per family; empty for noise.
    alpha : tuple of float or array
        Prior parameters per family.
    noise : NoisePlan or None
    expected_kl : dict of str to float
        Cost in accuracy, at the public profile, of each method that was compared: expected
        Kullback-Leibler divergence from the shares of the data, nats, summed over families.
    """

    design: CountDesign
    budget: CountBudget
    method: str
    guarantee: Guarantee
    r: tuple[float, ...] = ()
    alpha: tuple[Any, ...] = ()
    noise: NoisePlan | None = None
    expected_kl: dict[str, float] = field(default_factory=dict)

    @property
    def draws(self) -> int:
        """Draws that are released."""
        return self.design.draws or (FREE_DRAWS if self.method == "noisy" else 1)

    def facts(self) -> dict[str, Any]:
        """Public facts, in plain types."""
        shared: dict[str, Any] = {
            "method": self.method,
            "budget": str(self.budget),
            "unit": self.design.unit,
            "minimum": self.design.minimum,
            "families": {f.name: list(f.shape) for f in self.design.families},
            "expected_kl": dict(self.expected_kl),
        }
        if self.design.records_per_unit > 1:
            shared["records_per_unit"] = self.design.records_per_unit
        if self.noise is not None:
            return shared | {"noise": self.noise.distribution, "scale": self.noise.scale}
        names = [f.name for f in self.design.families]
        alphas = [np.asarray(a).tolist() for a in self.alpha]
        return shared | {
            "r": dict(zip(names, self.r, strict=True)),
            "alpha": dict(zip(names, alphas, strict=True)),
        }

    @property
    def fingerprint(self) -> str:
        """Hash of everything public that a draw depends on."""
        shown = self.facts() | {"guarantee": self.guarantee.to_dict(), "draws": self.draws}
        labels = {f.name: [f.dims, f.labels] for f in self.design.families}
        text = dump_json(shown) + repr(labels) + repr(self.design.total)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def plan_counts(budget: CountBudget, design: CountDesign, method: str = "auto") -> CountPlan:
    """Choose the method and parameters of the least expected divergence at the public profile."""
    if not isinstance(method, str) or method not in METHODS:
        raise DomainError("method= is not known", got=repr(method), allowed=", ".join(METHODS))
    if design.records_per_unit > 1:
        return _noisy_plan_of_units(budget, design, method)
    if design.sensitivity is not None:
        return _vector_statistic_plan(budget, design, method)
    if design.prior is not None:
        return _posterior_plan(budget, design, method)
    if method == "noisy":
        return _noisy_plan(budget, design)
    if method == "auto":
        noisy = _noisy_plan(budget, design)
        if budget.pure or budget.zcdp is not None:
            return noisy
        try:
            exact = _dirichlet_plan(budget, design, "exact")
        except DomainError:  # no power and prior parameter fit the budget
            return noisy
        expected = exact.expected_kl | noisy.expected_kl
        share = JOINT_GAIN if len(design.families) > 1 else 1.0
        closer = share * noisy.expected_kl["noisy"] <= exact.expected_kl["exact"]
        return _with_expected_kl(noisy if closer else exact, expected)
    return _dirichlet_plan(budget, design, method)


def _noisy_plan_of_units(budget: CountBudget, design: CountDesign, method: str) -> CountPlan:
    """Noise for units of several records, which Dirichlet draws have no price for."""
    if method not in ("auto", "noisy") or (design.prior, design.sensitivity) != (None, None):
        stated = {"prior=": design.prior, "sensitivity=": design.sensitivity}
        given = [word for word, value in stated.items() if value is not None]
        raise Unsupported(
            "Dirichlet draws have a price for one record only; nothing was charged",
            got=", ".join([f"records_per_unit={design.records_per_unit}", *given]),
            allowed='method="noisy", without prior= and sensitivity=',
            do='method="noisy"; or count one row of each unit',
        )
    if design.unit == "attribute":
        raise Unsupported(
            "an attribute is one of a single record; nothing was charged",
            got=f"records_per_unit={design.records_per_unit} with unit='attribute'",
            do='unit="row", which protects all that the rows of a unit say',
        )
    return _noisy_plan(budget, design)


def _with_expected_kl(plan: CountPlan, expected: dict[str, float]) -> CountPlan:
    return CountPlan(
        plan.design, plan.budget, plan.method, plan.guarantee, plan.r, plan.alpha, plan.noise,
        expected,
    )  # fmt: skip


def _noisy_plan(budget: CountBudget, design: CountDesign) -> CountPlan:
    records = design.records_per_unit
    found = _cached_noise_plan(budget, design.touched.families, design.neighbors, records)
    cost = sum(
        _expected_noisy_kl(p, found.distribution, found.scale, design.minimum)
        for p in design.profiles
    )
    guarantee = _with_assumptions(found.guarantee, design)
    return CountPlan(design, budget, "noisy", guarantee, (), (), found, {"noisy": cost})


@lru_cache(maxsize=1024)
def _expected_noisy_kl(
    profile: CountProfile, distribution: str, scale: float, minimum: float
) -> float:
    """Expected divergence of noisy counts: public tables of the profile, noise of a fixed seed."""
    rows = profile.sample()[:PROFILE_TABLES]
    rows = rows[rows.sum(axis=1) > 0]
    generator = np.random.default_rng(7)
    draw = generator.laplace if distribution == DISCRETE_LAPLACE else generator.normal
    noisy = np.round(rows + draw(0.0, scale, rows.shape)).astype(np.int64)
    cells = cell_distributions(noisy, CountNoise(distribution, scale, minimum), 0.5)
    sums = rows.sum(axis=1)
    sd = max(MIN_SD, scale * math.sqrt(2.0 if distribution == DISCRETE_LAPLACE else 1.0))
    tilt = match_total(cells, sums, np.full(len(rows), sd**2), None)
    mean = cells.moments(tilt)[0] + 0.5
    shares, guess = rows / sums[:, None], mean / mean.sum(axis=1, keepdims=True)
    terms = np.where(shares > 0, shares * np.log(np.where(shares > 0, shares, 1.0) / guess), 0.0)
    return float(terms.sum(axis=1) @ sums / sums.sum())


def _dirichlet_plan(budget: CountBudget, design: CountDesign, method: str) -> CountPlan:
    make = _cached_joint_plan if method == "exact" else _cached_algorithm1_plan
    found = plan_within_range(make, budget, design.profiles, design.touched)
    expected = {method: float(sum(found.expected_kl))}
    guarantee = _with_assumptions(found.guarantee, design)
    return CountPlan(design, budget, method, guarantee, found.r, found.alpha, None, expected)


def _posterior_plan(budget: CountBudget, design: CountDesign, method: str) -> CountPlan:
    if method not in ("auto", "exact") or design.prior is None:
        raise Unsupported(
            "a stated prior belongs to draws from its posterior",
            got=f"method={method!r} with prior=",
            do='leave prior= out, or take method="exact"',
        )
    least, second = np.sort(np.concatenate([a.ravel() for a in design.prior]))[:2].tolist()
    r, guarantee = plan_within_range(largest_posterior_power, budget, least, design.touched, second)
    powers = (r,) * len(design.families)
    return CountPlan(
        design, budget, "exact", _with_assumptions(guarantee, design), powers, tuple(design.prior)
    )


def _vector_statistic_plan(budget: CountBudget, design: CountDesign, method: str) -> CountPlan:
    if method not in ("auto", "exact") or design.sensitivity is None or design.prior is not None:
        raise Unsupported(
            "a vector statistic known by its sensitivity is drawn from with method='exact'",
            got=f"method={method!r}" + (" with prior=" if design.prior is not None else ""),
            allowed="method='exact' or 'auto', without prior=",
            do="leave method= and prior= out; or sensitivity=, where these are counts",
        )
    found = plan_within_range(
        vector_plan, budget, design.profiles, *design.sensitivity, design.touched
    )
    expected = {"exact": float(sum(found.expected_kl))}
    guarantee = _with_assumptions(found.guarantee, design)
    return CountPlan(design, budget, "exact", guarantee, found.r, found.alpha, None, expected)


def _with_assumptions(guarantee: Guarantee, design: CountDesign) -> Guarantee:
    each = "one cell of every table family" if len(design.families) > 1 else "one cell"
    fixed = "categories, tables and profile"
    if design.prior is not None:
        fixed = "prior, categories, tables, profile and number of draws"
    assumptions = [f"a record is counted once, in {each}", f"{fixed} were fixed without the data"]
    if design.sensitivity is not None:
        assumptions[0] = "the statistic changes by no more than its declared sensitivity"
    if design.records_per_unit > 1:
        assumptions.append(f"a unit owns at most {design.records_per_unit} records")
    neighbors = guarantee.neighbors
    if design.unit == "attribute":  # a ledger that protects records must not accept it
        neighbors = ATTRIBUTE
        assumptions.append("what is protected is one attribute of one record")
    if design.minimum:
        assumptions.append(
            f"every count is at least {design.minimum:g} in every data set of the domain"
        )
    return Guarantee(guarantee.events, neighbors, guarantee.theorem, tuple(assumptions),
                     guarantee.planned)  # fmt: skip


def as_profiles(
    families: Sequence[CountFamily], profile: Any, total: float | None, neighbors: str
) -> tuple[CountProfile, ...]:
    """Read a public profile as a user passes it: a number of records, counts, or nothing."""
    if profile is None and neighbors == ADD_REMOVE:
        raise DomainError(
            "the number of records is protected, so accuracy is judged by a public guess",
            got="profile=None",
            do="profile=1000 for about 1000 records, or public counts of the same shape",
        )
    size: Any = total if profile is None else profile
    if not isinstance(size, dict):
        size = NUMBERS.of(size, "profile", "a plan of noise")
    if np.ndim(size) == 0 and not isinstance(size, dict):
        if not (np.isreal(size) and 0.0 < size <= sys.float_info.max):  # type: ignore[arg-type]
            raise DomainError("profile= is a number of records", got=repr(size), allowed="> 0")
        return tuple(
            CountProfile(f.cells, f.tables, float(size) / f.tables)  # type: ignore[arg-type]
            for f in families
        )
    named = size if isinstance(size, dict) else {families[0].name: size}
    found = []
    for family in families:
        refuse_mask(named.get(family.name), "the counts of a profile")
        rows = np.asarray(named.get(family.name, np.empty(0)), float)
        if rows.shape != family.shape:
            raise DomainError(
                f"the public profile of {family.name!r} has another shape",
                got=str(rows.shape), allowed=str(family.shape),
            )  # fmt: skip
        found.append(CountProfile(family.cells, family.tables, counts=tuple(
            map(tuple, rows.reshape(-1, family.cells).tolist()))))  # fmt: skip
    return tuple(found)
