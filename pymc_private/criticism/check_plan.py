"""Plans of a check: what it will see, and what it costs, before any record is read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pymc_private.criticism.alternative_model import alternative_direction, is_model
from pymc_private.criticism.covariate_columns import CovariateColumns
from pymc_private.criticism.directions import (
    Direction,
    OutcomesAtRows,
    named_direction,
)
from pymc_private.criticism.fitted_summary import (
    FittedSummary,
    fitted_summary,
    refuse_other_summaries,
)
from pymc_private.criticism.group_slopes import PlannedGroups, planned_groups
from pymc_private.criticism.planned_cells import CELLS, PlannedCells, planned_cells
from pymc_private.criticism.planned_test import (
    LEVEL,
    POWER,
    Forecast,
    PlannedTest,
    planned_test,
)
from pymc_private.errors import DomainError, PointsElsewhere
from pymc_private.models.compat import pickle_state, unpickle
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import Guarantee
from pymc_private.privacy.cards import html_card
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.privacy.validation import check_flags
from pymc_private.release.allowed import dump_json
from pymc_private.release.display import format_estimate
from pymc_private.summaries.noise import NoiseScale, largest_mu, split_mu
from pymc_private.summaries.protocol import Mechanism
from pymc_private.summaries.summary import BETTER_SUMMARY, Summary, refuse_unusable

ELSEWHERE = {
    **dict.fromkeys(("release", "run", "test", "p", "z"), "result = pmp.check(plan, ledger=...)"),
    "model": "plan.summary_released.model()",
}
"""What to write in place of attributes that a plan has not."""
CheckPart = PlannedTest | PlannedCells | PlannedGroups
"""What is released at once: a noisy sum, noisy counts, or noisy sums of groups."""


@dataclass(frozen=True, eq=False)
class CheckPlan(PointsElsewhere):
    """A check of a model against its records: what it will see, at which price.

    Attributes
    ----------
    summary_released : Summary
        The summary that the model was fitted to.
    private : PrivateModel
        Holds the data; they must be the records of the summary.
    epsilon, delta : float
        The budget of the check alone.
    parts : tuple of PlannedTest, PlannedCells or PlannedGroups
        What is released, each with its share of the budget.
    """

    _elsewhere = ELSEWHERE

    summary_released: Summary
    private: PrivateModel
    mechanism: Mechanism = field(repr=False)
    epsilon: float
    delta: float
    parts: tuple[CheckPart, ...]

    @property
    def tests(self) -> tuple[Forecast, ...]:
        """What will be told: one number for each departure."""
        return tuple(forecast for part in self.parts for forecast in part.forecasts)

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the check alone reveals at most."""
        mu = float(largest_mu(self.epsilon, self.delta))
        proved = Guarantee.gdp_of(
            mu,
            neighbors=self.private.neighbors,
            theorem="T30 (noisy sums), T31 (sensitivities), T38 (score tests)",
        )
        return replace(proved, assumptions=(*self.private.claims, *proved.assumptions))

    @property
    def total(self) -> Guarantee:
        """What the summary and the check reveal together."""
        return self.summary_released.guarantee + self.guarantee

    @property
    def level(self) -> float:
        """The level of each departure that keeps all of them at `LEVEL` (Holm's first step)."""
        return LEVEL / len(self.tests)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of summary, departures and budget; not of private values."""
        facts = [part.constants for part in self.parts]
        text = f"{self.summary_released.fingerprint}|{self.epsilon!r}|{self.delta!r}|"
        return hashlib.sha256((text + dump_json(facts)).encode()).hexdigest()

    def summary(self) -> str:
        """The plan in plain text."""
        return "\n".join(plan_lines(self))

    def to_frame(self) -> pd.DataFrame:
        """One row for each departure: the smallest one seen, its unit, and the price of noise."""
        rows = [
            {
                "smallest seen": test.smallest(self.level),
                "unit": test.unit,
                "noise adds": test.price_of_noise,
                "refused": test.drowned,
            }
            for test in self.tests
        ]
        return pd.DataFrame(rows, index=[test.name for test in self.tests])

    def __repr__(self) -> str:
        return "CheckPlan\n  " + self.summary().replace("\n", "\n  ")

    def _repr_html_(self) -> str:
        first, *rest = plan_lines(self)
        names = ", ".join(test.name for test in self.tests)
        return html_card(f"Check plan: {names}", [("", first), *(("", line) for line in rest)])

    def __reduce__(self) -> tuple:
        # PyMC models hold local functions, which only cloudpickle can carry.
        return unpickle, (pickle_state((type(self), self.__dict__)),)


def plan_lines(plan: CheckPlan) -> Iterator[str]:
    """The lines of `CheckPlan.summary`: what each departure needs to be seen, and the cost."""
    for caution in plan.summary_released.warnings:
        if caution.refuse:
            yield f"WARNING: {caution.text}; a check at this posterior may mean nothing"
    for test in plan.tests:
        if test.drowned:
            ratio = test.noise_sd / np.sqrt(test.null.whole)
            yield (
                f"REFUSED: {test.name}: noise of {ratio:.2g} standard deviations of the statistic "
                "would drown it; a larger epsilon or fewer departures at once help"
            )
            continue
        seen = format_estimate(test.smallest(plan.level), 2)
        yield (
            f"{test.name}: sees {seen} with probability {POWER:g} ({test.unit}); noise adds "
            f"{test.price_of_noise:.0%} to the standard deviation"
        )
    at = f"delta = {format_number(plan.delta, 6)}"
    cost = format_number(plan.guarantee.epsilon(plan.delta), 6)
    count = format_count(len(plan.tests), "departure")
    yield f"one check of {count} for epsilon = {cost} of {format_number(plan.epsilon, 6)}, {at}"
    if plan.summary_released.private:
        whole = format_number(plan.total.epsilon(plan.delta), 4)
        yield f"with the summary, and nothing else, epsilon = {whole}, {at}"
    else:
        yield "NOT PRIVATE: the noise of the summary came from a known seed"
    sides = " and ".join(dict.fromkeys(test.sides for test in plan.tests))
    yield f"level {LEVEL:g}, {sides}{', all together (Holm)' if len(plan.tests) > 1 else ''}"


def check_plan(
    summary: Summary,
    what: Any,
    *,
    epsilon: float,
    delta: float,
    private: PrivateModel | None = None,
    at: dict[str, float] | None = None,
    accept: bool = False,
) -> CheckPlan:
    """Plan a check of a summarized model against its records; reads no data.

    Parameters
    ----------
    summary : Summary
        By scores.
    what : str, PrivateModel, pymc.Model, or a list of them
        A named departure: ``"link"``, ``"dispersion"``, ``"tails"``, ``"skewness"``,
        ``"quadratic(x)"``, ``"interaction(x, z)"``, ``"heteroscedasticity(x)"``; of a hierarchy
        ``"slopes(x, g)"``, a slope that varies among groups; an alternative model that contains the
        fitted one at a value of one parameter more, or where effects of groups that it has more
        have no spread; or ``"cells"``, counts by linear predictor and
        probability integral transform, where nothing is named.
    epsilon, delta : float
        Budget of the check (epsilon in nats), divided equally among departures.
    private : PrivateModel, optional
        Needed after `load`: the model that was summarized, with the same records.
    at : dict of str to float, optional
        For alternative models: the value of the additional parameter at which the fitted model is
        contained; default: 0.
    accept : bool
        Plan it although a warning of the summary says that its posterior cannot be used; the plan
        says so first.

    Returns
    -------
    CheckPlan

    Raises
    ------
    Unsupported
        The departure means nothing for the model, the model contains it, or the summary is of
        another kind.
    Incompatible
        The alternative does not contain the fitted model.
    DomainError
        No such departure or covariate, or impossible numbers.
    NotInformative
        A warning of the summary refuses its posterior, and ``accept=True`` was not given.
    """
    _refuse_no_summary(summary)
    check_flags(accept=accept)
    declared, mechanism = summary.of_model(private)
    refuse_other_summaries(mechanism)
    if not accept:
        refuse_unusable(
            summary,
            "this summary says too little for a check of its model; nothing was charged",
            f"{BETTER_SUMMARY}; or pmp.check_plan(..., accept=True), whose check says as little",
        )
    requests = _requests(what)
    _refuse_value_of_no_model(requests, at)
    mu = split_mu(largest_mu(epsilon, delta), (1.0,) * len(requests))
    fit = fitted_summary(mechanism, summary.released)
    scale = NoiseScale(declared.neighbors, declared.records_per_unit)
    parts = [
        _part(one, declared, mechanism, fit, at, scale, part)
        for one, part in zip(requests, mu, strict=True)
    ]
    plan = CheckPlan(summary, declared, mechanism, float(epsilon), float(delta), tuple(parts))
    _refuse_repeated([test.name for test in plan.tests])
    return plan


def _part(
    request: Any,
    private: PrivateModel,
    mechanism: Any,
    fit: FittedSummary,
    at: dict[str, float] | None,
    scale: NoiseScale,
    mu: float,
) -> CheckPart:
    """What is released for one request."""
    if isinstance(request, str) and request.strip() == CELLS:
        model = mechanism.model
        continuous = model.support.kind == "continuous"
        return planned_cells(fit, model.density, continuous, scale, mu)
    direction = _direction(request, private, mechanism, fit, at)
    if direction.groups is not None and direction.label is not None:
        return planned_groups(fit, direction, direction.label, direction.groups, scale, mu)
    return planned_test(fit, direction, scale, mu)


def _direction(
    request: Any,
    private: PrivateModel,
    mechanism: Any,
    fit: FittedSummary,
    at: dict[str, float] | None,
) -> Direction:
    """The score of a named departure or of an alternative model."""
    density = mechanism.model.density
    if is_model(request):
        return alternative_direction(request, private, density, fit, at or {})
    columns = CovariateColumns(private, density)
    public = OutcomesAtRows(fit.scored.predictors, fit.rows, fit.scored.values)
    return named_direction(request, density, columns, public)


def _requests(what: Any) -> list[Any]:
    found = list(what) if isinstance(what, list | tuple) else [what]
    if not found or not all(isinstance(one, str) or is_model(one) for one in found):
        raise DomainError(
            "a check is of named departures or of alternative models; nothing was charged",
            got=", ".join(type(one).__name__ for one in found) or "an empty list",
            allowed="text such as 'link' or 'quadratic(x)', a model, or a list of them",
        )
    return found


def _refuse_value_of_no_model(requests: list[Any], at: Any) -> None:
    """Refuse `at` where no alternative model would read it, or where it is no dict."""
    if at is None or (isinstance(at, dict) and any(map(is_model, requests))):
        return
    raise DomainError(
        "at= is where an alternative model is the fitted one; nothing was charged",
        got=f"{type(at).__name__} for {', '.join(map(_shown_request, requests))}",
        allowed="a dict of one name to a number, beside a model",
        do="at={'gamma': 0.0}; leave it out for named departures",
    )


def _shown_request(request: Any) -> str:
    return request if isinstance(request, str) else "a model"


def _refuse_repeated(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise DomainError(
            "each departure is checked once; nothing was charged",
            got=", ".join(names),
            do="leave out what is there twice",
        )


def _refuse_no_summary(summary: Any) -> None:
    if not isinstance(summary, Summary):
        raise DomainError(
            "a check is of a model that was fitted to a summary; nothing was charged",
            got=type(summary).__name__,
            allowed="what pmp.summarize returns",
            do="summary = pmp.summarize(plan, ledger=...); pmp.check_plan(summary, ...)",
        )
