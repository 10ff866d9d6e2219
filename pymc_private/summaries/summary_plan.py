"""Plans of a noisy summary: mechanism, guarantee and what it will tell, before data are read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
from pytensor.graph.traversal import ancestors

from pymc_private.errors import Incompatible, PointsElsewhere
from pymc_private.models.bambi import formula_name
from pymc_private.models.compat import pickle_state, unpickle
from pymc_private.models.data_variables import Source, underlying_array
from pymc_private.models.fingerprint import describe_structure
from pymc_private.models.prior import outcome_sources
from pymc_private.models.private_model import (
    PrivateModel,
    has_declared_factors,
    moved_sources,
    what_changed,
)
from pymc_private.models.reference_rows import checked_reference
from pymc_private.models.verdict import (
    WEAK_SHARE,
    relative_width,
    share_text,
    variance_removed,
    verdict_of,
)
from pymc_private.privacy import Guarantee
from pymc_private.privacy.cards import html_card
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.privacy.validation import large_delta
from pymc_private.release.allowed import dump_json
from pymc_private.summaries.parameters import coordinate_names
from pymc_private.summaries.protocol import Caution, Mechanism

if TYPE_CHECKING:
    from pymc_private.planning import SummaryTradeOff
    from pymc_private.summaries.coverage import Coverage
    from pymc_private.summaries.power import EffectPower

LABEL = "privacy proved; posterior approximate: central limit"
LEAST_NATS = 1.0
"""Below this expected information about all parameters nothing is charged."""
UNEVEN = 0.4
"""Spread of the information over prior draws, relative to its mean, that is told."""
SHOWN_PARAMETERS = 6
"""Most parameters named of which hardly anything is learned."""
MANY_COMBINATIONS = 16
"""More combinations of levels are told of: a plan takes them as equally frequent."""
USABLE = 0.9
"""Share of usable summaries from which a plan does not look for reasons."""
FEW_VALUES = 4
"""Values of an outcome that are too few for a density."""
WIDER = 2.0
"""Intervals that are wider by this factor than without privacy are a price worth telling."""
RELEASE = "summary = pmp.summarize(plan, ledger=...)"
SAMPLE = f"{RELEASE}; with summary.model(): idata = pm.sample()"
ELSEWHERE = {
    **dict.fromkeys(("release", "summarize", "run"), RELEASE),
    "alternatives": "plan.to_frame() has the methods that were weighed",
    **dict.fromkeys(("sample", "model", "posterior", "draws", "to_arviz"), SAMPLE),
    **{
        name: f"{SAMPLE}; then pmp.{name}(idata, ...)"
        for name in ("mean", "prob", "quantile", "predict", "answer")
    },
    "save": f"pickle.dumps(plan); what can be saved as a file is {RELEASE}",
    "at": "calibrate another plan with other numbers",
    "frontier": "plan.to_frame() has the methods that were weighed",
}
"""What to write in place of attributes that a plan has not."""

HIERARCHY_CAUTION = (
    "a hierarchy: how well intervals hold was measured for few settings, mostly 10, 30 or 85 "
    "groups of about 100 records each; plan.coverage() simulates yours"
)
"""What a plan says of parameters above those that records read."""


@dataclass(frozen=True, eq=False)
class SummaryPlan(PointsElsewhere):
    """One noisy summary of a model: what will be released, at which price, and what it tells.

    Attributes
    ----------
    private : PrivateModel
        Holds the data.
    mechanism : Mechanism
        What is released, fixed before the data are read.
    epsilon, delta : float
        The budget asked for.
    n : int or None
        Number of records, where it is public.
    weighed : tuple of (str, float)
        Methods that accept the model, with their expected information in nats.
    refused : tuple of (str, str)
        Methods that do not, with the reason.
    whole : float
        Information expected without a budget, in nats; NaN if unknown.
    spread : tuple of float
        Its 0.1 and 0.9 quantiles over prior draws.
    guess : int or None
        A public guess of the number of records, where it is protected.
    reason : str
        Why a summary was chosen, where draws were weighed against it.
    reference : mapping or table, optional
        Public values of private covariates, by which it was planned.
    claims : tuple of str
        Assumptions of the plan itself, beside those of the declaration.
    outside : tuple of (str, int, int)
        Covariates whose reference leaves their domain: name, rows outside, all rows.
    structure : str
        Fingerprint of the model as it was planned.
    mechanism_at : callable or None
        Builds the mechanism of the same kind at another epsilon, for `trade_off`.
    """

    _elsewhere = ELSEWHERE

    private: PrivateModel
    mechanism: Mechanism
    epsilon: float
    delta: float
    n: int | None
    weighed: tuple[tuple[str, float], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    whole: float = math.nan
    spread: tuple[float, float] = (math.nan, math.nan)
    guess: int | None = None
    reason: str = ""
    reference: Any = field(default=None, repr=False)
    claims: tuple[str, ...] = ()
    outside: tuple[tuple[str, int, int], ...] = ()
    structure: str = ""
    mechanism_at: Callable[[float], Mechanism] | None = field(default=None, repr=False)
    _covered: list[Coverage] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if not self.structure:
            object.__setattr__(self, "structure", structure_of(self.private))
        same = self.guarantee.neighbors == self.private.neighbors
        if not same or not self.guarantee.epsilon(self.delta) <= self.epsilon:
            raise Incompatible(
                "the parts of this plan do not belong together",
                got="a mechanism that costs more than the budget, or for other neighbors",
                do="calibrate again instead of replacing parts of a plan",
            )

    @property
    def method(self) -> str:
        """The kind of summary: "scores", "records", "cells" or "sums"."""
        return self.mechanism.method

    @cached_property
    def guarantee(self) -> Guarantee:
        """What releasing the summary reveals at most, with what the declaration claims."""
        proved = self.mechanism.guarantee
        return replace(
            proved, assumptions=(*self.private.claims, *proved.assumptions, *self.claims)
        )

    @cached_property
    def charged_delta(self) -> float:
        """The delta at which a ledger is charged: 0 where a pure epsilon fits the budget."""
        return 0.0 if self.guarantee.pure_epsilon <= self.epsilon else self.delta

    @property
    def nats(self) -> float:
        """Expected information about all parameters: no more than without a budget."""
        return at_most(float(self.mechanism.information), self.whole)

    @cached_property
    def information(self) -> float:
        """Share of the prior variance of a parameter that the summary is expected to remove.

        The geometric mean over parameters, in [0, 1], as of `Plan.information`; NaN if unknown.
        """
        return variance_removed(self.nats, self.mechanism.parameters.size)

    @cached_property
    def by_parameter(self) -> dict[str, float]:
        """Share of the prior variance of each coordinate that the summary is expected to remove.

        Of a normal approximation in unconstrained units, averaged over the prior; empty where that
        is not known, as of the hyperparameters of a hierarchy.
        """
        left = self.mechanism.variance_left
        if not len(left) or has_hyperparameters(self.private):
            return {}
        names = coordinate_names(self.mechanism.parameters)
        return {name: float(1.0 - v) for name, v in zip(names, left, strict=True)}

    @property
    def verdict(self) -> str:
        """Whether it is worth its budget: "informative", "weak" or "prior"; "" if unknown.

        A plan of verdict "prior" is refused by `summarize` before anything is charged.
        """
        return verdict_of(self.information)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Reasons for doubt that are known before the data are read."""
        found = [
            Caution(
                f"{outside} of {rows} rows of reference= lie outside the domain of '{name}' and "
                "were clipped to it, as records would be: is the domain true of every record?"
            )
            for name, outside, rows in self.outside
        ]
        if assumed := self.mechanism.facts.get("assumed_uniform"):
            found.append(
                Caution(
                    f"{', '.join(assumed)}: taken as uniform within a cell; "
                    "plan.coverage(reference=...) shows what another distribution does"
                )
            )
        found += self.mechanism.cautions() if hasattr(self.mechanism, "cautions") else []
        found += [Caution(sentence) for sentence in self._outside_sentences]
        found += [Caution(sentence) for sentence in continuous_for_few_values(self.private)]
        if self.mechanism.facts.get("hierarchy"):
            found.append(Caution(HIERARCHY_CAUTION))
        simulated = self.found_coverage
        if simulated is not None and simulated.falls_short:
            found.append(Caution(f"simulated intervals are too narrow: {simulated.sentence}"))
        return tuple(found)

    @cached_property
    def _outside_sentences(self) -> list[str]:
        """Simulated outcomes beyond their domain, where they may be why little is learned."""
        if self.verdict == "informative" and getattr(self.mechanism, "usable", 1.0) > USABLE:
            return []
        from pymc_private.summaries.simulated_summaries import outside_sentences, simulated_outside

        parameters = self.mechanism.parameters
        return outside_sentences(simulated_outside(self.private, parameters, self.reference))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of structure, mechanism and budget; not of private values."""
        facts = dump_json(self.mechanism.facts)
        text = f"{self.structure}|{self.method}|{self.epsilon!r}|{self.delta!r}|{facts}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def found_coverage(self) -> Coverage | None:
        """The last result of `coverage`."""
        return self._covered[-1] if self._covered else None

    def coverage(
        self,
        simulations: int = 200,
        *,
        levels: tuple[float, ...] = (0.5, 0.9),
        draws: int = 1500,
        random_seed: int = 0,
        progressbar: bool = True,
        reference: Any = None,
    ) -> Coverage:
        """Simulate the whole mechanism: how often its intervals hold the parameters. Free.

        Parameters are drawn from the prior, records from the model, the summary is released with
        simulated noise, and its posterior is found by importance sampling; by NUTS, which takes
        seconds for each, of more than 24 parameters and where too few draws count. No data are
        read, so nothing here is private, and a seed is harmless.

        Parameters
        ----------
        simulations : int
        levels : tuple of float
            Masses of the central intervals.
        draws : int
            Weighted draws of each posterior; half of them where these settle it. NUTS has its own.
        random_seed : int
        progressbar : bool
        reference : mapping of str to array, or pandas.DataFrame, optional
            *Public* covariates of the simulated records; default: those of the plan, or uniform on
            their domain. Others than the plan's show what it does where its own are wrong.

        Returns
        -------
        Coverage
        """
        from pymc_private.summaries.coverage import simulate_coverage

        found = simulate_coverage(
            self,
            simulations,
            levels=levels,
            draws=draws,
            random_seed=random_seed,
            progressbar=progressbar,
            reference=self.reference if reference is None else reference,
        )
        self._covered.append(found)
        return found

    def power(self, effect: float, parameter: str, **options: Any) -> EffectPower:
        """Probability that a posterior interval would exclude a value if an effect is true. Free.

        Simulates records in which the parameter has the value `effect`, others being drawn from
        the prior, and their summaries; the posterior sd, noise included, gives the power.

        Parameters
        ----------
        effect : float
            True value of the parameter, in natural units.
        parameter : str
            ``"sigma"``, ``"beta[0]"`` or ``"beta['age']"``.
        **options
            ``null`` (default 0), the value to exclude; ``level`` (.95) of the central interval;
            ``given``, true values of other free variables by name; ``simulations`` (20),
            ``random_seed``, ``progressbar``; ``reference``, as of `coverage`.

        Returns
        -------
        EffectPower

        Raises
        ------
        DomainError
            No such parameter, or a value outside of its support.
        NotInformative
            No simulated summary could be read.
        """
        from pymc_private.summaries.power import effect_power

        return effect_power(self, effect, parameter, **{"reference": self.reference, **options})

    def trade_off(self, effect: float, parameter: str, **options: Any) -> SummaryTradeOff:
        """Posterior sd and power for other numbers of records and other epsilons. Free.

        By a law of two constants, sampling error and noise, from simulated posteriors at the
        budget of the plan and at one without noise (see `planning.summary_trade_off`).

        Parameters
        ----------
        effect, parameter
            As of `power`.
        **options
            ``records`` and ``epsilons``, sequences; ``simulations`` (6) of each kind; and what
            `power` takes.

        Returns
        -------
        planning.SummaryTradeOff

        Raises
        ------
        DomainError, NotInformative
            As of `power`.
        """
        from pymc_private.summaries.power import effect_trade_off

        words = {"reference": self.reference, **options}
        return effect_trade_off(self, parameter, effect=effect, **words)

    def summary(self) -> str:
        """The plan in plain text."""
        return "\n".join(plan_lines(self))

    def to_frame(self) -> pd.DataFrame:
        """The methods as a table: expected information, whether chosen, and why not."""
        rows = [
            {"method": m, "information": nats, "chosen": m == self.method, "reason": ""}
            for m, nats in self.weighed
        ]
        rows += [
            {"method": m, "information": math.nan, "chosen": False, "reason": why}
            for m, why in self.refused
        ]
        return pd.DataFrame(rows, columns=["method", "information", "chosen", "reason"])

    def plot(self, ax: Any = None) -> Any:
        """Plot the expected information of each method, beside that without a budget.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        from pymc_private.summaries.plots import plot_summary_plan

        return plot_summary_plan(self, ax)

    def __repr__(self) -> str:
        return "SummaryPlan\n  " + self.summary().replace("\n", "\n  ")

    def _repr_html_(self) -> str:
        first, *rest = plan_lines(self)
        title = f"Summary plan: {self.method}"
        return html_card(title, [("", first), *(("", line) for line in rest)])

    def __reduce__(self) -> tuple:
        # PyMC models hold local functions, which only cloudpickle can carry.
        return unpickle, (pickle_state((type(self), self.__dict__)),)


def has_hyperparameters(private: PrivateModel) -> bool:
    """Whether a free variable is a parameter of another one's prior."""
    free = set(private.base.free_RVs)
    return any(not free.isdisjoint(ancestors(rv.owner.inputs)) for rv in free)


def continuous_for_few_values(private: PrivateModel) -> list[str]:
    """What is said of a density of real numbers whose outcomes take a few values."""
    variables = {source.variable: source for source in private.sources}
    found = []
    for rv in private.base.observed_RVs:
        source = variables.get(underlying_array(private.base.rvs_to_values[rv]))
        own = type(rv.owner.op).__name__.startswith("Custom")  # a density as its author has it
        if source is None or own or not str(rv.type.dtype).startswith("float"):
            continue
        count = source.number_of_values
        if count <= FEW_VALUES:
            values = format_count(int(count), "value")
            found.append(
                f"'{rv.name}' takes {values}, and its likelihood is of real numbers: "
                "such a model is wrong, and then a summary estimates other parameters than all "
                "records would, with intervals that do not tell it. pm.Bernoulli, pm.Categorical "
                "or pm.OrderedLogistic are of such outcomes"
            )
    return found


def structure_of(private: PrivateModel) -> str:
    """Fingerprint of the public structure of a model, which its data do not enter."""
    return hashlib.sha256(describe_structure(private).encode()).hexdigest()


def check_plan_unchanged(plan: SummaryPlan) -> None:
    """Refuse a plan whose model was changed since: public facts only are compared."""
    private = plan.private
    moved = moved_sources(private)
    same = has_declared_factors(private) and structure_of(private) == plan.structure
    if not moved and same:
        return
    what = what_changed(private, "public data, a prior, a potential")
    raise Incompatible(
        "the model of this plan was changed after it was planned; nothing was charged",
        got=f"{what}, or another part that the plan does not speak of",
        allowed="the model as privatize and calibrate saw it",
        do="call privatize, and then calibrate, on the changed model",
    )


def sampling_time(size: int, nodes: int = 0, independent: bool = False) -> str:
    """Rough time of `pm.sample` on one core, in words: four chains of 2,000 steps, compilation too.

    It is a range: outcomes at rows of the reference, the nodes, take more where densities are
    longer, and more steps are taken where a posterior is less round. It held of 19 summaries of 3
    to 203 parameters, whose chains of 500 to 800 steps were scaled up: 10 seconds to two minutes.

    Parameters
    ----------
    size, nodes : int
        Of parameters, and of outcomes at rows of the reference.
    independent : bool
        Whether noise does not depend on the parameters (T36, *Many groups*).
    """
    steps = TOTAL_STEPS * (5.0 + size / 27.0)
    fixed = 1.5e-4 + (2e-8 if independent else 5e-7) * size**2
    quick, slow = fixed + 4e-8 * nodes, 2.0 * fixed + 5e-7 * nodes + 5e-4 * (nodes == 0)
    low, high = _duration(5.0 + steps * quick / 1.5), _duration(15.0 + 1.5 * steps * slow)
    return low if low == high else f"{low} to {high}"


def _sampling_time_of(mechanism: Mechanism) -> str:
    """The time of a mechanism's model."""
    sizes = mechanism.parameters.size, getattr(mechanism, "nodes", 0)
    return sampling_time(*sizes, getattr(mechanism, "has_many_groups", False))


TOTAL_STEPS = 8000
"""Steps of four chains, those of tuning included."""


def _duration(seconds: float) -> str:
    """A duration in words, rounded up."""
    if seconds <= 60.0:
        return "under a minute"
    minutes = math.ceil(seconds / 60.0)
    return f"{minutes} minutes" if minutes < 90 else f"{math.ceil(minutes / 60.0)} hours"


def plan_lines(plan: SummaryPlan) -> Iterator[str]:
    """The lines of `SummaryPlan.summary`: verdict, cost, label, what was weighed, cautions."""
    yield from _verdict_lines(plan)
    at = plan.charged_delta
    accounting = plan.guarantee.accounting_method(at)
    price = f"delta = {format_number(at, 6)}; {accounting}" if at else "delta = 0 (pure)"
    yield (
        f"one noisy summary ({plan.method}) for epsilon = "
        f"{format_number(plan.guarantee.epsilon(at), 6)} of {format_number(plan.epsilon, 6)}, "
        f"{price}"
    )
    yield f"{LABEL}{_coverage_words(plan)}"
    if large := large_delta(at, plan.n):
        yield f"WARNING: {large}"
    for caution in plan.cautions:
        yield f"WARNING: {caution.text}"
    least = getattr(plan.mechanism, "least_group", None)
    if least is not None:
        yield (
            f"groups of fewer than about {math.ceil(least)} records, and now and then larger ones, "
            "may hide in the noise; what the posterior says of such a group comes from its prior: "
            "in a hierarchy, from the other groups"
        )
    others = [f"{m}: {nats:.3g} nats" for m, nats in plan.weighed if m != plan.method]
    learned = f"expected to learn {plan.nats:.3g}"
    whole = f" of {plan.whole:.3g}" if plan.whole == plan.whole else ""
    yield f"{learned}{whole} nats" + (f"; {', '.join(others)}" if others else "")
    yield from _assumed_lines(plan)
    yield (
        f"expected time of pm.sample: {_sampling_time_of(plan.mechanism)} on one core, "
        "however many records (its model holds none)"
    )
    if plan.reason:
        yield plan.reason
    for method, why in plan.refused:
        yield f"not by {method}: {why}"


def _assumed_lines(plan: SummaryPlan) -> Iterator[str]:
    """What the expected information supposes of covariates and parameters."""
    if assumed := _spread_sources(plan):
        rare = " or have rare levels" if any(s.number_of_values < math.inf for s in assumed) else ""
        yield (
            f"computed for {', '.join(_names_of(assumed))} spread evenly over the domain: where "
            f"records lie in a small part of it{rare}, noise may hide them and their summary be "
            "refused after the charge, less often if the plan is made with public rows like them "
            "(reference=); plan.coverage(reference=...) simulates public rows of your choice"
        )
    low, high = plan.spread
    if high - low > UNEVEN * plan.whole:
        yield (
            f"these are averages over the prior, under which records tell {low:.3g} to {high:.3g} "
            "nats (8 of 10 prior draws, without privacy): real ones may tell more or less"
        )


def spread_covariates(plan: SummaryPlan) -> list[str]:
    """Private covariates that scores are planned for as if spread evenly over their domain.

    Numbers, and categories that have more than `MANY_COMBINATIONS` of levels between them.
    """
    return _names_of(_spread_sources(plan))


def _spread_sources(plan: SummaryPlan) -> list[Source]:
    if plan.method != "scores":
        return []
    known = [*outcome_sources(plan.private), *checked_reference(plan.private, plan.reference)]
    found = [s for s in plan.private.sources if s not in known]
    finite = [s for s in found if s.number_of_values < math.inf]
    logs = [math.prod(s.row_shape) * math.log(s.number_of_values) for s in finite]
    many = sum(logs) > math.log(MANY_COMBINATIONS)
    return [s for s in found if many or s.number_of_values == math.inf]


def _names_of(sources: list[Source]) -> list[str]:
    return [formula_name(s.name) or s.name for s in sources]


def _coverage_words(plan: SummaryPlan) -> str:
    """The coverage that was simulated, if any."""
    found = plan.found_coverage
    if found is None:
        return "; plan.coverage() simulates how often its intervals hold (free)"
    return f"; {found.sentence}"


def _verdict_lines(plan: SummaryPlan) -> Iterator[str]:
    """What the summary is expected to tell, in one sentence, and what would make it tell more."""
    if not plan.verdict:
        yield "no verdict: what the summary will tell is not known"
        return
    removed = f"{share_text(plan.information)} of the prior variance of a parameter"
    left = f"its posterior is {relative_width(plan.information):.2f} times as wide as its prior"
    if plan.whole == plan.whole and plan.whole > 0:
        full = variance_removed(plan.whole, plan.mechanism.parameters.size)
        left += f", and {relative_width(full):.2f} times without privacy"
    if plan.verdict == "informative":
        yield f"INFORMATIVE: expected to remove {removed}: {left}"
        yield from _price_of_noise(plan)
        yield from _hardly_learned(plan)
        return
    title = "WEAK" if plan.verdict == "weak" else "PRIOR: it will hardly tell more than the prior"
    yield f"WARNING: {title}: expected to remove {removed}: {left}"
    if plan.verdict == "weak":
        yield from _hardly_learned(plan)
    yield f"what may tell more: {', '.join(summary_improvements(plan))}"


def _hardly_learned(plan: SummaryPlan) -> Iterator[str]:
    """The parameters of which an average over all of them says too much."""
    found = [f"{k} ({v:.0%})" for k, v in plan.by_parameter.items() if v < WEAK_SHARE]
    if found:
        more = f" and {len(found) - SHOWN_PARAMETERS} more" if len(found) > SHOWN_PARAMETERS else ""
        yield (
            f"hardly learned: {', '.join(found[:SHOWN_PARAMETERS])}{more}: in brackets the share "
            "of its own prior variance; a posterior will say hardly more of it than the prior"
        )


def _price_of_noise(plan: SummaryPlan) -> Iterator[str]:
    """How much wider noise makes intervals, where that is much."""
    if not plan.whole > plan.nats:
        return
    wider = math.exp((plan.whole - plan.nats) / plan.mechanism.parameters.size)
    if wider >= WIDER:
        yield (
            f"the price of privacy: intervals about {wider:.2g} times as wide as without it; more "
            "records, fewer parameters or a larger epsilon would lower it"
        )


def at_most(nats: float, whole: float) -> float:
    """Expected information, no more than without a budget where that is known."""
    return min(nats, whole) if whole == whole else nats


CELLS_HINT = "method='cells', where covariates may be taken as uniform within a cell"


def summary_improvements(plan: SummaryPlan) -> list[str]:
    """What may make a summary of this model tell more, the most likely first; reads no data."""
    count = plan.mechanism.parameters.size
    return [
        "a larger epsilon",
        "a narrower domain, as far as it is true of every record",
        *(["a public reference= of the covariates"] if plan.method == "scores" else []),
        *([f"fewer parameters than {count}"] if count > 3 else []),
        *([CELLS_HINT] if "cells would take" in dict(plan.refused).get("cells", "") else []),
        "more records",
    ]


def describe_size(arrays: dict[str, Any]) -> str:
    """How many numbers a summary holds."""
    return format_count(sum(int(a.size) for a in arrays.values()), "number")
