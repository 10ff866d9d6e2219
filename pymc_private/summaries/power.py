"""Power of a summary plan: whether an effect would be seen in the posterior, noise included. Free.

At parameters in which one has the value that is hoped for, records are simulated, their summary is
released with simulated noise, and its posterior found. Its standard deviation varies little from
one data set to the next, so that a few simulations predict the power by a normal formula; whether
each interval excluded the null value is counted beside it. No data are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.errors import DomainError, NotInformative, did_you_mean
from pymc_private.models.private_model import PrivateModel
from pymc_private.planning import SummaryTradeOff, detection_power, summary_trade_off
from pymc_private.planning.summary_trade_off import EPSILONS
from pymc_private.privacy.argument_kinds import DOUBLE, MAPPING, SEED, TEXT, takes
from pymc_private.privacy.cards import html_card, text_card
from pymc_private.privacy.rounding import format_count
from pymc_private.privacy.validation import check_count, check_flags, check_open_unit
from pymc_private.release.charge import progress_bar, suppress_warnings
from pymc_private.release.display import format_estimate
from pymc_private.summaries.importance import WeightedDraws
from pymc_private.summaries.simulated_summaries import (
    LEAST_EFFECTIVE,
    NOT_FOUND,
    SimulatedSummaries,
)

DRAWS = 1500
PRECISE_EPSILON = 50.0
"""A budget whose noise is negligible beside the sampling error of the records."""
POWER = 0.8


@dataclass(frozen=True, eq=False, repr=False)
class EffectPower:
    """How often the interval of a parameter would exclude a value, if an effect is true.

    Attributes
    ----------
    parameter : str
    effect, null : float
        The true value, and that to exclude.
    level : float
        Mass of the central interval.
    sd : array, shape (simulations,)
        Posterior standard deviations.
    seen : array of bool, shape (simulations,)
        Whether the simulated interval excluded the null.
    prior_mean, prior_sd : float
    refused : int
        Simulated summaries that could not be read; the effect counts as not seen there.
    not_found : int
        Those whose posterior neither importance sampling nor NUTS found. They are left out.
    """

    parameter: str
    effect: float
    null: float
    level: float
    sd: np.ndarray
    seen: np.ndarray
    prior_mean: float
    prior_sd: float
    refused: int = 0
    not_found: int = 0

    @property
    def simulations(self) -> int:
        """How many summaries were simulated."""
        return len(self.sd) + self.refused

    @property
    def power(self) -> float:
        """The predicted probability to see the effect."""
        return float(self.at(self.effect))

    @property
    def found(self) -> float:
        """The share of simulations in which it was seen."""
        return float(self.seen.sum() / self.simulations)

    @property
    def error(self) -> float:
        """Standard error of `found`, of one half where all or none saw it."""
        share = self.found if 0.0 < self.found < 1.0 else 0.5 / self.simulations
        return math.sqrt(share * (1.0 - share) / self.simulations)

    def at(self, effect: Any) -> Any:
        """Predicted power at other effects, a number or an array."""
        values = np.asarray(effect, dtype=float)
        each = detection_power(values[..., None], self.sd, level=self.level, null=self.null,
                               prior_mean=self.prior_mean, prior_sd=self.prior_sd)  # fmt: skip
        found = np.mean(each, axis=-1) * len(self.sd) / self.simulations
        return float(found) if found.ndim == 0 else found

    @property
    def smallest(self) -> float:
        """The smallest effect, on the side of this one, seen with probability .8; inf if none."""
        side = 1.0 if self.effect >= self.null else -1.0
        sizes = float(np.median(self.sd)) * np.linspace(0.0, 20.0, 2001)
        enough = self.at(self.null + side * sizes) >= POWER
        return self.null + side * float(sizes[enough.argmax()]) if enough.any() else math.inf

    def plot(self, ax: Any = None) -> Any:
        """Plot the power against the effect.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        from pymc_private.summaries.plots import plot_power

        return plot_power(self, ax)

    def _rows(self) -> list[tuple[str, str]]:
        write = format_estimate
        rows = [
            ("power", f"{self.power:.2f} that the {self.level:.0%} interval excludes "
                      f"{write(self.null)} if {self.parameter} = {write(self.effect)}"),
            ("simulated", f"seen in {int(self.seen.sum())} of {self.simulations}"),
            ("posterior sd", f"{write(float(np.median(self.sd)), 3)} (median; prior "
                             f"{write(self.prior_sd, 3)})"),
            ("smallest", f"{write(self.smallest, 2)} is seen with probability {POWER:g}"),
        ]  # fmt: skip
        if self.refused:
            rows.append(("refused", format_count(self.refused, "simulation")))
        if self.not_found:
            rows.append(("left out", f"{format_count(self.not_found, 'simulation')}: {NOT_FOUND}"))
        return rows

    def __repr__(self) -> str:
        return text_card("Power", self._rows())

    def _repr_html_(self) -> str:
        return html_card("Power", self._rows())


@takes(effect=DOUBLE, null=DOUBLE, parameter=TEXT, given=MAPPING.optional, random_seed=SEED)
def effect_power(
    plan: Any,
    effect: float,
    parameter: str,
    *,
    null: float = 0.0,
    level: float = 0.95,
    given: Mapping[str, Any] | None = None,
    simulations: int = 20,
    random_seed: int = 0,
    progressbar: bool = True,
    reference: Any = None,
    mechanism: Any = None,
) -> EffectPower:
    """Power of a plan; see `SummaryPlan.power`. `mechanism`: one of another budget."""
    check_flags(progressbar=progressbar)
    check_open_unit(level=level)
    count = check_count(simulations, "simulations")
    entry = entry_of(plan.private, parameter)
    rng = np.random.default_rng(random_seed)
    summaries = SimulatedSummaries(plan, DRAWS, rng, reference, mechanism)
    parameters = summaries.mechanism.parameters
    prior = entry.of(parameters.natural(parameters.pool))
    sds, seen = list[float](), list[bool]()
    with progress_bar(count, progressbar, "simulations") as progress:
        for done in range(count):
            theta = _with_effect(parameters, entry, effect, given, rng)
            with suppress_warnings():
                found = summaries.posterior_at(theta)
            if found is not None and found.effective >= LEAST_EFFECTIVE:
                drawn = _of_entry(found, entry.of(parameters.natural(found.points)))
                low, high = drawn.quantiles([(1.0 - level) / 2.0, (1.0 + level) / 2.0])[:, 0]
                sds.append(float(drawn.sd[0]))
                seen.append(not low <= null <= high)
            progress(done + 1)
    refused = summaries.refused + summaries.failed
    _refuse_none(sds, count, count - refused)
    return EffectPower(
        entry.label, float(effect), float(null), float(level), np.array(sds), np.array(seen),
        float(prior.mean()), float(prior.std()), refused, count - refused - len(sds),
    )  # fmt: skip


def effect_trade_off(
    plan: Any,
    parameter: str,
    *,
    effect: float,
    records: Sequence[int] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    simulations: int = 6,
    **words: Any,
) -> SummaryTradeOff:
    """Power by records and epsilon; see `SummaryPlan.trade_off`.

    The law of two constants is fitted to posterior variances at the budget of the plan and at one
    without noise, both simulated with the same seed.
    """
    count = plan.n if plan.n is not None else plan.guess
    _refuse_no_law(plan, count)
    precise, delta = plan.mechanism_at(PRECISE_EPSILON), plan.charged_delta
    found, exact = (
        effect_power(plan, effect, parameter, simulations=simulations, mechanism=mechanism, **words)
        for mechanism in (None, precise)
    )
    whole, sampled = (_estimate_variance(one) for one in (found, exact))
    return summary_trade_off(
        math.sqrt(min(sampled, whole)),
        math.sqrt(max(whole - sampled, 0.0)),
        n=count,
        epsilon=plan.epsilon,
        delta=delta,
        records=records,
        epsilons=epsilons,
        parameter=found.parameter,
        effect=effect,
        level=found.level,
        null=found.null,
        prior_mean=found.prior_mean,
        prior_sd=found.prior_sd,
    )


def _estimate_variance(found: EffectPower) -> float:
    """Variance of the estimate alone, the prior taken out of the median posterior variance."""
    precision = 1.0 / float(np.median(found.sd)) ** 2 - 1.0 / found.prior_sd**2
    if precision <= 0.0:
        raise NotInformative(
            "these summaries tell nothing of the parameter",
            got=f"a posterior of {found.parameter} as wide as its prior",
            do="more records, fewer parameters or a larger epsilon",
        )
    return 1.0 / precision


# ---- one entry of a parameter --------------------------------------------------------------------
@dataclass(frozen=True)
class ParameterEntry:
    """One number among the free variables of a model.

    Attributes
    ----------
    label : str
        As it is printed.
    name : str
        Of the free variable.
    index : tuple of int
        Its place in it.
    """

    label: str
    name: str
    index: tuple[int, ...] = ()

    def of(self, natural: Mapping[str, np.ndarray]) -> np.ndarray:
        """Its values in draws of natural values, shape (S,)."""
        values = np.moveaxis(np.asarray(natural[self.name], dtype=float), 0, -1)
        return np.asarray(values[self.index])


def entry_of(private: PrivateModel, text: str) -> ParameterEntry:
    """The entry that a text names: ``"sigma"``, ``"beta[0]"``, ``"beta['age']"``.

    Raises
    ------
    DomainError
        There is none.
    """
    known: dict[str, ParameterEntry] = {}
    for name, shape in private.shapes.items():
        labels = _labels(private, name, shape)
        for index in np.ndindex(*shape):
            names = [each[k] for each, k in zip(labels, index, strict=True)]
            whole = f"{name}[{', '.join(names)}]" if index else name
            entry = ParameterEntry(whole, name, tuple(map(int, index)))
            known[whole] = entry
    for label, entry in list(known.items()):
        place = ", ".join(map(str, entry.index))
        known.setdefault(f"{entry.name}[{place}]" if entry.index else label, entry)
    plain = str(text).replace("'", "").replace('"', "").replace(" ", "")
    for label, entry in known.items():
        if label.replace(" ", "") == plain:
            return entry
    raise DomainError(
        f"no parameter is called so{did_you_mean(str(text), known)}",
        got=repr(text)[:60],
        allowed=", ".join(dict.fromkeys(entry.label for entry in known.values())),
    )


def _labels(private: PrivateModel, name: str, shape: tuple[int, ...]) -> list[tuple[str, ...]]:
    """Labels along each axis: coordinates, else numbers."""
    base = private.base
    dims = base.named_vars_to_dims.get(name) or (None,) * len(shape)
    found = [base.coords.get(dim) for dim in dims]
    return [
        tuple(map(str, range(size) if labels is None else labels))
        for labels, size in zip(found, shape, strict=True)
    ]


def _with_effect(
    parameters: Any,
    entry: ParameterEntry,
    effect: float,
    given: Mapping[str, Any] | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """A prior draw with some values as they are given, and the effect, shape (1, p)."""
    drawn = parameters.natural(parameters.draws(1, int(rng.integers(2**32))))
    values = {name: np.array(value, dtype=float) for name, value in drawn.items()}
    for name, value in (given or {}).items():
        if name not in values:
            raise DomainError(
                "values are given of free variables", got=name, allowed=", ".join(values)
            )
        values[name][:] = value
    np.moveaxis(values[entry.name], 0, -1)[entry.index] = effect
    with np.errstate(all="ignore"):
        theta = np.asarray(parameters.unconstrained(values))
    back = parameters.natural(np.nan_to_num(theta))
    if not np.isfinite(theta).all() or not np.isclose(entry.of(back)[0], effect):
        raise DomainError(
            "these values are impossible under the prior",
            got=f"{entry.label} = {effect:g}",
            allowed="values inside of its support",
        )
    return theta


def _of_entry(found: WeightedDraws, values: np.ndarray) -> WeightedDraws:
    """The weighted draws of one number."""
    return WeightedDraws(values[:, None], found.weights)


def _refuse_none(found: Sequence[float], count: int, lost: int) -> None:
    if not found:
        raise NotInformative(
            "no simulated summary could be read",
            got=f"0 of {count}" + (f", the posterior of {lost} was not found" if lost else ""),
            do="this plan is not worth its budget: a larger epsilon, fewer parameters or more "
            "records",
        )


def _refuse_no_law(plan: Any, count: int | None) -> None:
    if count is None or plan.mechanism_at is None:
        raise DomainError(
            "a trade-off starts from a plan of calibrate, and from a number of records",
            got="n=None" if count is None else "a plan that was put together otherwise",
            do="calibrate(..., release='summary', n=) with a public guess",
        )
