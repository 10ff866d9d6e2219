"""Plans: what will be drawn and what it will cost, fixed before the data are read.

A `Plan` holds the restricted model, its certificate, the sampler, the number of draws and the
guarantee, and the frontier of alternatives that were weighed. Its parts must agree: the certificate
has to cover the model and give the guarantee.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import pandas as pd

from pymc_private.certificates.certificate import Certificate
from pymc_private.errors import DomainError, Incompatible
from pymc_private.models.domains import Categories
from pymc_private.models.fingerprint import describe_structure
from pymc_private.models.private_model import PrivateModel, describe_clip
from pymc_private.models.verdict import (
    free_coordinates,
    prior_quantiles,
    relative_width,
    share_text,
    variance_removed,
    verdict_of,
)
from pymc_private.privacy import Guarantee, cards
from pymc_private.privacy.neighbors import describe_change
from pymc_private.privacy.plots import axes_or_new
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.privacy.validation import check_count, large_delta
from pymc_private.release.allowed import PRIOR_SCORES
from pymc_private.release.learned import CLIPPED_MODEL_TEXT, FEWEST_DRAWS, scored_model_text
from pymc_private.samplers.choose import sampling_time
from pymc_private.summaries.scores.expected import expected_score_information


@dataclass(frozen=True, eq=False)
class FrontierRow:
    """One candidate that meets the budget.

    Attributes
    ----------
    private : PrivateModel
        The model restricted to its region, before tempering.
    certificate : Certificate
    power : Fraction
        The power that the budget affords, relative to the likelihood as given.
    mass : float or None
        Prior mass of the box; None if the region is as given.
    records_kept : float
        Power times the number of records.
    chosen : bool
    information : float
        Expected information in nats (see `calibrate`); NaN if it was not computed.
    draws : int
    clipped : bool
        Whether calibrate clipped the log-likelihoods.
    """

    private: PrivateModel
    certificate: Certificate
    power: Fraction
    mass: float | None
    records_kept: float
    chosen: bool
    information: float = math.nan
    draws: int = 1
    clipped: bool = False

    @property
    def words(self) -> str:
        """The region in a word or two."""
        box = "as given" if self.mass is None else f"{self.mass:g}"
        return f"{box}, clipped" if self.clipped else box


@dataclass(frozen=True, eq=False)
class Plan:
    """A calibrated model: region, power, sampler, draws and guarantee.

    Attributes
    ----------
    private : PrivateModel
        Trimmed and tempered; holds the data.
    certificate : Certificate
    guarantee : Guarantee
        Of all draws together.
    sampler : str
    draws : int
    epsilon, delta : float
        The budget asked for.
    n : int or None
        Number of records, where it is public.
    method : Method
        The sampler with its options.
    alternatives : callable
        ``plan.alternatives()`` lists every sampler with its claim and a rough time, or why it does
        not apply.
    frontier : tuple of FrontierRow
        All candidates that were compared, for each number of draws asked for.
    whole : float
        Information expected without a budget, in nats.
    judged : str
        What the expected information was computed from.
    simulated : bool
        Whether that were records of the model; else each record was supposed to tell something.
    strict : bool
        Whether a guarantee in floating point was asked for.
    original : PrivateModel or None
        The model that was given to `calibrate`, before it was trimmed, tempered or clipped.
    reason : str
        Why draws were chosen, where a summary was weighed against them.
    draws_chosen : bool
        Whether calibrate chose the number of draws.
    of_clip : float
        Share of the prior variance that a clip would remove; NaN if unknown, 0 if not allowed.
    """

    private: PrivateModel
    certificate: Certificate
    guarantee: Guarantee
    sampler: str
    draws: int
    epsilon: float
    delta: float
    frontier: tuple[FrontierRow, ...] = ()
    n: int | None = None
    method: Any = None
    alternatives: Callable[[], tuple[Any, ...]] = tuple
    whole: float = math.nan
    judged: str = ""
    simulated: bool = False
    others: Callable[[int], Plan] | None = field(default=None, repr=False)
    strict: bool = False
    original: PrivateModel | None = field(default=None, repr=False)
    reason: str = ""
    draws_chosen: bool = False
    of_clip: float = math.nan

    def __post_init__(self) -> None:
        priced = self.certificate.guarantee(self.draws)
        drawn = self.method is None or self.method.terms(self.private) == self.certificate.terms
        if not self.certificate.covers(self.private) or priced != self.guarantee or not drawn:
            raise Incompatible(
                "the parts of this plan do not belong together",
                got="a model, a number of draws or a price that the certificate does not speak of",
                allowed="plans as calibrate makes them",
                do="calibrate again instead of replacing parts of a plan",
            )

    @property
    def records_kept(self) -> float:
        """Records' worth of information: power * n; NaN where n is protected."""
        return float(self.private.power) * (self.n if self.n is not None else math.nan)

    @cached_property
    def information(self) -> float:
        """Share of the prior variance of a parameter that the draws are expected to remove.

        The geometric mean over parameters, in [0, 1]; see `models.verdict`. NaN where it is not
        known: records could not be simulated, or their number is protected and no ``n=`` was given
        to `calibrate`, or draws are charged at cost.
        """
        if _has_single_point(self):
            return 0.0
        if not (self.simulated and self.whole > 0.0 and self.n is not None):
            return math.nan
        return variance_removed(self.chosen.information, free_coordinates(self.private))

    @cached_property
    def of_summary(self) -> float:
        """Share of the prior variance that a summary of the same budget would remove, about.

        NaN where it is not known. Computed when it is first asked for, from records that were
        simulated already; `calibrate(..., release="summary")` makes a plan with its own figure.
        """
        if self.original is None:
            return math.nan
        found = expected_score_information(self.original, self.epsilon, self.delta, self.n)
        nats = math.nan if found is None else found
        return variance_removed(nats, free_coordinates(self.private))

    @property
    def is_summary_better(self) -> bool:
        """Whether a summary of the same budget, of the model as given, is expected to tell more."""
        return self.of_summary > (0.0 if math.isnan(self.information) else self.information)

    @property
    def verdict(self) -> str:
        """Whether the plan is worth its budget: "informative", "weak" or "prior"; "" if unknown.

        A plan of verdict "prior" is refused by `sample` before anything is charged.
        """
        return verdict_of(self.information)

    @cached_property
    def prior_quantiles(self) -> dict[str, list]:
        """Quantiles of the prior on the region, by which a release tells what was learned."""
        return prior_quantiles(self.private, PRIOR_SCORES)

    @property
    def chosen(self) -> FrontierRow:
        """The row of the frontier that this plan takes."""
        return next(row for row in self.frontier if row.chosen and row.draws == self.draws)

    def at(self, draws: int) -> Plan:
        """Give the plan for another of the numbers of draws that calibrate was asked for."""
        draws = check_count(draws, "draws")
        if draws == self.draws or self.others is None:
            return self if draws == self.draws else _refuse_draws(self.draws, draws)
        return self.others(draws)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of structure, priors, domain, region, power and draws; not of private values."""
        numbers = (self.sampler, self.draws, self.epsilon, self.delta, self.method)
        text = f"{describe_structure(self.private)}|{numbers!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def fallen(self) -> tuple[str, ...]:
        """The samplers that cannot draw it, each with the reason."""
        return tuple(str(found) for found in self.alternatives() if found.why_not)

    def summary(self) -> str:
        """The plan in plain text."""
        return "\n".join(plan_summary(self))

    def to_frame(self) -> pd.DataFrame:
        """The frontier as a table: draws, prior mass, range, power, records kept, information."""
        return pd.DataFrame(
            [
                {
                    "draws": row.draws,
                    "prior_mass": row.mass,
                    "clipped": row.clipped,
                    "range": row.certificate.range,
                    "mu": row.certificate.charged_mu,
                    "power": float(row.power * row.private.power),
                    "records_kept": row.records_kept,
                    "information": row.information,
                    "chosen": row.chosen,
                }
                for row in self.frontier
            ]
        )

    def plot(self, ax: Any = None) -> Any:
        """Plot the candidates: information against prior mass, or records kept against draws.

        The second for plans of several numbers of draws.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        return plot_plan(self, ax)

    def __repr__(self) -> str:
        return "Plan\n  " + self.summary().replace("\n", "\n  ")

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        rows = [list(map(_cell_text, frame, row)) for row in frame.to_numpy(object)]
        return cards.html_text(repr(self), below=cards.html_table(list(frame), rows))


def _cell_text(column: str, cell: Any) -> str:
    """A cell of the table of candidates; a dash for what is not known or not bounded."""
    if isinstance(cell, bool):
        return "yes" if cell else ""
    if cell is None or not math.isfinite(cell):
        return "–"
    return format_number(cell, 4) if column in ("range", "mu") else f"{cell:.4g}"


def _refuse_draws(fixed: int, asked: int) -> Plan:
    """Refuse a number of draws that the plan was not made for."""
    raise DomainError(
        "this plan is for one number of draws",
        got=asked,
        allowed=fixed,
        do="calibrate(..., draws=[...]) with all the numbers you want to weigh",
    )


def plan_summary(plan: Plan) -> Iterator[str]:
    """The lines of `Plan.summary`: cost, information kept, proved bound, region, and warnings."""
    spent = plan.guarantee.epsilon(plan.delta)
    kind = "conditional" if plan.certificate.terms.claimed else "proved"
    yield (
        f"{format_count(plan.draws, f'{kind} draw')} ({plan.sampler}) for epsilon = "
        f"{format_number(spent, 6)} of {format_number(plan.epsilon, 6)}, "
        f"delta = {format_number(plan.delta, 6)}; {plan.guarantee.accounting_method(plan.delta)}"
    )
    if large := large_delta(plan.delta, plan.n):
        yield f"WARNING: {large}"
    yield from _describe_verdict(plan)
    yield f"keeps {_describe_kept(plan)}"
    if plan.chosen.clipped:
        yield from _describe_clip(plan)
    if plan.private.score is not None:
        yield f"WARNING: {scored_model_text(plan.private.score.beta)}"
    yield _describe_bound(plan)
    terms = plan.certificate.terms
    if str(terms) != "exact":
        yield f"sampler: {replace(terms, slack=terms.slack * plan.private.power)}"
    if _has_single_point(plan):
        yield "WARNING: a grid of a single point: every draw is that point, whatever the data"
    elif terms.is_coarse:
        yield (
            f"WARNING: a coarse grid, {format_count(terms.points, 'point')} along each continuous "
            f"coordinate: a draw tells a parameter to 1/{terms.points} of its box at best"
        )
    if plan.strict:
        yield f"in floating point; not taken: {'; '.join(plan.fallen)}"
    yield from _describe_region(plan)
    if math.isfinite(plan.chosen.information) and not _has_single_point(plan):
        yield from _describe_judgment(plan)
    yield from _describe_time(plan)
    yield from _describe_summary(plan)


def _describe_clip(plan: Plan) -> Iterator[str]:
    """That a clip makes another model, and first what would tell more without one."""
    if plan.is_summary_better:
        yield (
            "BEFORE YOU CLIP: one noisy summary of the model as you wrote it "
            f"(release='summary') would remove about {share_text(plan.of_summary)}"
        )
    others = [row for row in plan.frontier if row.draws == plan.draws and not row.clipped]
    why = ""
    if others and not math.isnan(plan.information):
        nats = max(row.information for row in others)
        share = variance_removed(nats, free_coordinates(plan.private))
        why = f". Without a clip {share_text(share)} would be removed (clip=False)"
    yield f"WARNING: {CLIPPED_MODEL_TEXT}. The ends were chosen on simulated records{why}"


def _describe_time(plan: Plan) -> Iterator[str]:
    """How long sampling takes, and what a single draw does not show."""
    time = "" if plan.method is None else sampling_time(plan.private, plan.method, plan.draws)
    if time:
        yield f"expected time of sampling: {time}"
    if plan.draws == 1:
        yield (
            f"one draw keeps most information and shows no width: draws={FEWEST_DRAWS} or more do"
        )
    elif plan.draws_chosen:
        yield f"{plan.draws} draws, the number from which a reader is expected to learn most"


def _describe_summary(plan: Plan) -> Iterator[str]:
    """What a summary of the same budget would tell, and why draws were chosen if it was weighed."""
    if plan.is_summary_better and not plan.chosen.clipped:
        removed = f"about {share_text(plan.of_summary)} of the prior variance"
        yield (
            f"one noisy summary instead (release='summary') would remove {removed}, and its model "
            "is sampled for free"
        )
    if plan.reason:
        yield plan.reason


WEIGHTED_ON_DOMAIN = "records of the domain, each in proportion to its likelihood"
"""What judged a plan whose records no model generates: see `Plan.judged`."""
LITTLE_POWER = 0.05
"""Below this power of the likelihood a plan without a verdict warns."""


def _describe_verdict(plan: Plan) -> Iterator[str]:
    """What the draws are expected to tell, in one sentence, and what would make them tell more."""
    if math.isnan(plan.information):
        if plan.judged:
            reason = "n= is not given" if plan.n is None else "no records could be simulated"
            yield f"no verdict: what the draws will tell is not known, since {reason}"
        if float(plan.private.power) < LITTLE_POWER:
            yield (
                "WARNING: the likelihood is tempered to a power of "
                f"{format_number(plan.private.power, 3)}: draws may hardly differ from the prior's"
            )
        return
    removed = f"{plan.information:.0%} of the prior variance of a parameter"
    left = f"its posterior is {relative_width(plan.information):.2f} times as wide as its prior"
    full = variance_removed(plan.whole, free_coordinates(plan.private))
    if full > 0:
        whose = " by the same scores" if plan.private.score is not None else ""
        left += f", and {relative_width(full):.2f} times without privacy{whose}"
    if plan.judged == WEIGHTED_ON_DOMAIN:
        left += (
            ", if the likelihood is a density of records on their domain (another may tell less)"
        )
    if plan.verdict == "informative":
        yield f"INFORMATIVE: expected to remove {removed}: {left}"
        return
    title = "WEAK" if plan.verdict == "weak" else "PRIOR: draws will hardly differ from the prior's"
    yield f"WARNING: {title}: expected to remove {removed}: {left}"
    yield f"what may tell more: {', '.join(improvements(plan))}"


def improvements(plan: Plan) -> list[str]:
    """What may make draws of this model tell more, the most likely first; reads no data."""
    found = []
    if plan.of_summary > plan.information:
        found.append("one noisy summary instead of draws (release='summary' in calibrate)")
    if plan.draws > 1:
        found.append("fewer draws (draws=1)")
    as_written = plan.private.graph.clip is None and plan.private.score is None
    if as_written and not plan.of_clip <= max(plan.information, 0.0):
        about = "" if math.isnan(plan.of_clip) else f", {share_text(plan.of_clip)}"
        found.append(f"clip=True in calibrate (another model{about})")
    if all(isinstance(source.domain, Categories) for source in plan.private.sources):
        found.append("pmp.counts.noisy_counts, since records take finitely many values")
    count = free_coordinates(plan.private)
    return [
        *found,
        "a narrower domain, as far as it is true of every record",
        "a larger epsilon",
        *([f"fewer parameters than {count}"] if count > 3 else []),
        "more records",
    ]


def _has_single_point(plan: Plan) -> bool:
    """Whether draws can take one value only."""
    kinds = [str(v.type.dtype) for v in plan.private.graph.parameters.values()]
    return plan.certificate.terms.points == 1 and all(kind.startswith("float") for kind in kinds)


def _describe_kept(plan: Plan) -> str:
    """The information kept, as a number of records where that is public."""
    power = format_number(plan.private.power, 6)
    if _has_single_point(plan):
        return f"no information of any record: there is nothing to draw (power {power})"
    if plan.n is None:
        share = float(plan.private.power)
        return f"{share:.3g} of the information of each record (power {power})"
    kept = plan.records_kept
    worth = f"{kept:.0f}" if kept >= 1 else f"{kept:.2g}"
    of_what = "information" if plan.private.score is None else "scores"
    return f"the {of_what} of {worth} of {format_count(plan.n, 'record')} (power {power})"


def _describe_bound(plan: Plan) -> str:
    """The proved bound on the influence of one record."""
    pair = plan.certificate.charged_pair
    if pair is not None:
        return f"the worst pair of posteriors: {pair.words(plan.certificate.power)}"
    if math.isinf(plan.certificate.range):
        mu = format_number(plan.certificate.mu, 6)
        return (
            "one exact draw tells neighbors apart no better than one observation tells N(0, 1) "
            f"from N({mu}, 1): {mu}-GDP (T7)"
        )
    tempered = "log-likelihood" if plan.private.score is None else "sum of scores"
    return (
        f"{describe_change(plan.private.neighbors)} the tempered {tempered} by a range of at "
        f"most {format_number(plan.certificate.range, 6)} nats"
    )


def _describe_region(plan: Plan) -> Iterator[str]:
    """The region of the parameters, and the bounds that log-likelihoods are clipped to."""
    private = plan.private
    if private.region:
        mass = plan.chosen.mass
        held = f"; prior mass about {mass:g}" if mass else ""
        yield f"prior restricted to {', '.join(_region_bounds(private))}{held}"
    if private.theta_l is not None:
        counted = private.__dict__.get("prior_mass")  # when it was trimmed
        keeps = f"; keeps {counted}" if counted is not None else ""
        yield f"and to {private.theta_l.words}{keeps}"
    if private.graph.clip is not None:
        yield f"clipped: {describe_clip(private.graph)}"


def _region_bounds(private: PrivateModel) -> list[str]:
    """The bounds of each restricted variable, as text."""
    return [
        f"{name} in [{float(b.lower.min()):.4g}, {float(b.upper.max()):.4g}]"
        for name, b in private.region.items()
    ]


def _describe_judgment(plan: Plan) -> Iterator[str]:
    """The basis of the choice, and the information that other numbers of draws would keep."""
    chosen, candidates = plan.chosen, sum(row.draws == plan.draws for row in plan.frontier)
    best = f", the most of {candidates} candidates" if candidates > 1 else ""
    if plan.whole > 0:
        learned = f"{chosen.information:.3g} of {plan.whole:.3g} nats{best}"
        yield f"expected to learn {learned} ({plan.judged})"
    else:  # all simulated scores are zero, which proves nothing about the whole box
        yield (
            "what draws teach could not be judged: near no prior draw does the log-likelihood of "
            f"the records vary ({plan.judged})"
        )
    others = [row for row in plan.frontier if row.chosen and row.draws != plan.draws]
    if others:
        kept = ", ".join(
            f"{format_count(row.draws, 'draw')}: {_describe_left(row, plan.n)}" for row in others
        )
        yield f"with other numbers of draws (plan.at): {kept}"


def _describe_left(row: object, n: int | None) -> str:
    """The information that a row keeps, as a number of records where that is public."""
    power = float(row.power * row.private.power)  # type: ignore[attr-defined]
    return f"{power:.3g} of each record" if n is None else format_count(round(power * n), "record")


CHOSEN_COLOR, OTHER_COLOR, LINE_COLOR = "#b3462b", "0.35", "0.7"


def plot_plan(plan: Plan, ax: Any = None) -> Any:
    """Plot information by region or, for several numbers of draws, records kept by draws."""
    ax = axes_or_new(ax, 5.5, 3.6)
    counts = dict.fromkeys(row.draws for row in plan.frontier)
    if len(counts) > 1:
        _plot_draws(plan, list(counts), ax)
    else:
        _plot_regions(plan, ax)
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _plot_regions(plan: Plan, ax: Any) -> None:
    """Plot one point for each candidate, labeled with the records' worth it keeps."""
    judged = all(math.isfinite(row.information) for row in plan.frontier)
    rows = sorted(plan.frontier, key=lambda r: (r.clipped, 1.0 if r.mass is None else r.mass))
    heights = [row.information if judged else _records_kept(row, plan.n) for row in rows]
    positions = list(range(len(rows)))
    trims = sum(not row.clipped for row in rows)
    ax.plot(positions[:trims], heights[:trims], color=LINE_COLOR, zorder=1)
    ax.scatter(
        positions,
        heights,
        color=[CHOSEN_COLOR if r.chosen else OTHER_COLOR for r in rows],
        zorder=2,
    )
    for x, y, row in zip(positions, heights, rows, strict=True):
        text = (
            f"{_records_kept(row, plan.n):.3g}"
            if plan.n is None
            else f"{_records_kept(row, plan.n):.0f}"
        )
        ax.annotate(text, (x, y), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    ax.set_xticks(positions, [row.words for row in rows])
    ax.set_xlim(-0.6, len(rows) - 0.4)
    ax.set_xlabel("prior mass kept by the trim")
    kept = "records' worth kept" if plan.n is not None else "share kept of each record"
    ax.set_ylabel(f"expected information (nats)\nnumbers: {kept}" if judged else kept)
    top = max(heights)
    ax.set_ylim(top=1.18 * top if top > 0 else 1.0)
    ax.set_title(f"{format_count(plan.draws, 'draw')} at {_format_budget(plan)}", fontsize=10)


def _plot_draws(plan: Plan, counts: list[int], ax: Any) -> None:
    """Plot each candidate as a thin line, and a dot on the one that is chosen for each number."""
    counts = sorted(counts)
    for words in dict.fromkeys(row.words for row in plan.frontier):
        some = sorted((row for row in plan.frontier if row.words == words), key=lambda r: r.draws)
        ax.plot(
            [r.draws for r in some],
            [_records_kept(r, plan.n) for r in some],
            color=LINE_COLOR,
            linewidth=1,
            marker=".",
            zorder=1,
        )
    best = sorted((row for row in plan.frontier if row.chosen), key=lambda row: row.draws)
    heights = [_records_kept(row, plan.n) for row in best]
    ax.plot(counts, heights, "o", color=CHOSEN_COLOR, zorder=2)  # of several: no line joins them
    for row, y in zip(best, heights, strict=True):
        ax.annotate(
            row.words,
            (row.draws, y),
            (4, 5),
            textcoords="offset points",
            fontsize=8,
            color=CHOSEN_COLOR,
        )
    ax.set_xscale("log")
    ax.set_xticks(counts, [str(count) for count in counts])
    ax.minorticks_off()
    ax.set_xlabel("number of draws (labels: prior mass kept by the trim)")
    ax.set_ylabel("records' worth kept" if plan.n is not None else "share kept of each record")
    ax.set_title(f"What draws cost at {_format_budget(plan)}", fontsize=10)


def _records_kept(row: FrontierRow, n: int | None) -> float:
    return float(row.power * row.private.power) * (1 if n is None else n)


def _format_budget(plan: Plan) -> str:
    return f"epsilon = {format_number(plan.epsilon, 6)}, delta = {format_number(plan.delta, 6)}"
