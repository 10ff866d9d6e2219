"""`refine`: a second, charged round of a summary, planned from what the first one released (T30).

As in `summarize`: everything that can fail is checked from public facts and rehearsed on made-up
records, the ledger is charged, and only then are the records read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from pymc_private.errors import DomainError, Incompatible, NotInformative, Unsupported
from pymc_private.ledger import Ledger
from pymc_private.models.compat import pickle_state, unpickle
from pymc_private.models.private_model import (
    PrivateModel,
    has_declared_factors,
    moved_sources,
    what_changed,
)
from pymc_private.models.verdict import variance_removed, verdict_of
from pymc_private.privacy import Guarantee
from pymc_private.privacy.cards import html_card
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import check_flags, check_positive, is_number
from pymc_private.release import charge
from pymc_private.release.allowed import as_float
from pymc_private.release.charge import ReleaseOptions, suppress_warnings
from pymc_private.release.draws_job import promised_guarantee, publication_facts
from pymc_private.summaries.noise import largest_mu
from pymc_private.summaries.parameters import coordinate_names
from pymc_private.summaries.protocol import Mechanism, Released
from pymc_private.summaries.rehearse import Rehearsal
from pymc_private.summaries.second_round import SecondRound, repeated_round
from pymc_private.summaries.summary import BETTER_SUMMARY, Summary, refuse_unusable
from pymc_private.summaries.summary_contents import other_shapes, shapes_of
from pymc_private.summaries.summary_job import (
    clipped_records_of,
    private_noise,
    rehearse_release,
    seeded_noise,
    warn_of_another_ledger,
)
from pymc_private.summaries.summary_plan import structure_of
from pymc_private.summaries.tables.read_table import key_with_columns, records_of_table
from pymc_private.summaries.tables.table_progress import check_table, reading_bars
from pymc_private.summaries.tables.table_records import TableRecords

ROUNDS_PLANNED = (
    "that there is a second round, and its budget, did not depend on what the first one released; "
    "the account of a ledger that was charged for both holds without this"
)
"""Condition of the total of both rounds (T23, T30)."""
LEAST_GAIN = 0.02
"""Expected nats per parameter below which a round is not worth its charge."""


@dataclass(frozen=True, eq=False)
class RefinementPlan:
    """A second round of a summary: what it costs, and how much narrower the posterior will be.

    Attributes
    ----------
    first : Summary
        The summary to refine.
    private : PrivateModel
        Holds the data; they must be the records of the summary.
    epsilon, delta : float
        The budget of the round alone.
    round : SecondRound
        What is released: a function of the summary alone.
    """

    first: Summary
    private: PrivateModel = field(repr=False)
    epsilon: float
    delta: float
    round: SecondRound = field(repr=False)

    @property
    def mechanism(self) -> Mechanism:
        """That of the refined summary."""
        return self.round.refined

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the round alone reveals at most: what a ledger is charged."""
        proved = self.round.guarantee
        return replace(proved, assumptions=(*self.private.claims, *proved.assumptions))

    @property
    def total(self) -> Guarantee:
        """What the summary and the round reveal together, by adaptive composition (T30).

        The second mechanism may depend on what the first one released, its budget may not.
        """
        both = self.first.guarantee + self.guarantee
        return replace(both, assumptions=(*both.assumptions, ROUNDS_PLANNED))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of summary and budget, which fix the round; not of private values."""
        text = f"refine|{self.first.fingerprint}|{self.epsilon!r}|{self.delta!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    def to_frame(self) -> pd.DataFrame:
        """Posterior standard deviations of unconstrained parameters: now, expected, their ratio."""
        before, after = (np.sqrt(np.diag(c)) for c in (self.round.before, self.round.after))
        columns = {"sd": before, "expected sd": after, "ratio": after / before}
        return pd.DataFrame(columns, index=list(coordinate_names(self.round.coordinates)))

    def summary(self) -> str:
        """The plan in plain text."""
        return "\n".join(_plan_lines(self))

    def __repr__(self) -> str:
        return "RefinementPlan\n  " + self.summary().replace("\n", "\n  ")

    def _repr_html_(self) -> str:
        first, *rest = _plan_lines(self)
        return html_card("Refinement plan", [("", first), *(("", line) for line in rest)])

    def __reduce__(self) -> tuple:
        # PyMC models hold local functions, which only cloudpickle can carry.
        return unpickle, (pickle_state((type(self), self.__dict__)),)


def _plan_lines(plan: RefinementPlan) -> Iterator[str]:
    """What the round will tell, and what it costs."""
    ratios = plan.round.shrinkage
    yield (
        f"expected: posterior standard deviations {np.median(ratios):.2f} times what they are "
        f"(median; {ratios.min():.2f} to {ratios.max():.2f})"
    )
    yield (
        f"one more round for epsilon = {format_number(plan.guarantee.epsilon(plan.delta), 6)}, "
        f"delta = {format_number(plan.delta, 6)}"
    )
    total = plan.total.epsilon(plan.delta)
    if np.isfinite(total):
        yield (
            f"with the first one together epsilon = {format_number(total, 6)} at the same delta "
            f"(T30, adaptive composition): {plan.round.how}"
        )


def refinement_plan(
    summary: Summary,
    *,
    epsilon: float,
    private: PrivateModel | None = None,
) -> RefinementPlan:
    """Plan a second round of a summary from what it released; free, reads no data.

    Parameters
    ----------
    summary : Summary
        By any method.
    epsilon : float, nats
        Budget of the round alone, at the delta of the summary.
    private : PrivateModel, optional
        The model with the records of the summary. Needed after `pmp.load`; default: the model that
        the summary was made of in this session.

    Raises
    ------
    DomainError
        No summary, no model at hand, impossible numbers.
    Incompatible
        The model has another structure than the one that was summarized.
    NotInformative
        The summary is refused by its own warnings, or the round would hardly tell anything.
    Unsupported
        A summary by a method that this version does not know.

    Notes
    -----
    By "scores" and "records": one more score, at the mode of what was released and with the bounds
    that are best there. By "sums" and "cells": the same sums once more, and the mean of both
    copies; with Gaussian noise that is what one summary at sqrt(mu_1^2 + mu_2^2) would be, with
    discrete Laplace noise one at the sum of both epsilons would have had less.

    References
    ----------
    Dong, Roth and Su (2022); theory T30, T31, T33-T36.
    """
    _refuse_no_summary(summary)
    refuse_unusable(
        summary,
        "this summary says too little to plan a round from; nothing was charged",
        BETTER_SUMMARY,
    )
    delta = as_float(summary.facts["delta"])
    check_positive(epsilon=epsilon)
    declared, mechanism = _model_of(summary, private)
    if mechanism.method not in ROUNDS:
        raise Unsupported(
            "no second round is known of this method",
            got=mechanism.method,
            allowed=", ".join(ROUNDS),
            do="pmp.summarize makes another summary, which costs its own epsilon",
        )
    found = ROUNDS[mechanism.method](mechanism, summary.released, float(epsilon), delta)
    plan = RefinementPlan(summary, declared, float(epsilon), delta, found)
    _refuse_little_gain(plan)
    return plan


def refine(
    what: Summary | RefinementPlan,
    *,
    epsilon: float | None = None,
    private: PrivateModel | None = None,
    ledger: Ledger | None = None,
    name: str | None = None,
    save: str | os.PathLike[str] | None = None,
    again: bool = False,
    data_version: str = "",
    random_seed: int | None = None,
    progressbar: bool = True,
    accept: bool = False,
    data: Any = None,
    columns: Mapping[str, Any] | None = None,
    id: str | None = None,
) -> Summary:
    """Refine a summary by a second round, planned from the first: charge, then noise.

    The round is planned from what the summary released and pooled with it: one summary that holds
    both, with one likelihood. The ledger is charged for the round alone, as an entry of its own;
    the guarantee of the refined summary is that of both rounds together. The summary stays as it
    is, and a refined one may be refined again.

    Parameters
    ----------
    what : Summary or RefinementPlan
        A summary needs `epsilon`; a plan of `pmp.summaries.refinement_plan` is released as it is.
    epsilon : float, optional
        Budget of the round alone (nats), at the delta of the summary.
    private : PrivateModel, optional
        The model with the records of the summary. Needed after `pmp.load`; default: the model that
        the summary was made of in this session.
    ledger : Ledger, optional
        Default: the ledger of the context, else one in memory, with a warning.
    name : str, optional
        Running again with the same name, plan and `data_version` returns the stored summary, free.
    save : path, optional
        Where to save the refined summary (netCDF).
    again : bool
        Charge and release anew although the name is taken.
    data_version : str
        A word for the state of the data; belongs to the name.
    random_seed : int, optional
        Makes a reproducible summary that is marked NOT PRIVATE and charges nothing. A summary that
        was seeded needs one.
    progressbar : bool
        Show progress on this screen.
    accept : bool
        Let ``summary.model()`` be built although its warnings refuse.
    data, columns, id
        The table that was summarized: as of `summarize`.

    Returns
    -------
    Summary

    Raises
    ------
    BudgetExceeded
        The ledger cannot pay; nothing was charged.
    Incompatible
        The model has another structure than the one that was summarized, or the name is taken.
    NotInformative
        The summary is refused by its own warnings, or the round would hardly tell anything.
    PymcPrivateError
        The release failed after the charge, and the error says so.
    DomainError, Unsupported
        As `refinement_plan`; a seeded summary without a seed. Nothing was charged.

    Warns
    -----
    PrivacyWarning
        The ledger was not charged for the summary: what it says was spent lacks the first round.

    Notes
    -----
    The records must be those of the summary, as they were: the likelihood knows that both rounds
    read the same ones. Of a table nothing was kept that would tell another one.

    References
    ----------
    Dong, Roth and Su (2022); theory T30, T31, T33-T36.
    """
    options = ReleaseOptions(ledger, name, data_version, save, again, random_seed)
    check_flags(accept=accept, progressbar=progressbar)
    plan = _resolve_plan(what, epsilon, private)
    _refuse_changed_model(plan)
    if not plan.first.private and random_seed is None:
        raise DomainError(
            "a seeded summary has no guarantee that a private round could add to; nothing was "
            "charged",
            got="a summary that is NOT PRIVATE",
            allowed="a private summary; or random_seed=, for a refined one that is not private",
        )
    table = records_of_table(plan.private, data, columns, id, None, random_seed, "refine")
    if random_seed is None:
        warn_of_another_ledger(plan.first, ledger, "round")
    found = charge.publish(_refinement_job(plan, table, name, progressbar), options)
    return found.with_origin(plan.private, plan.mechanism, accept)


# ---- the job -----------------------------------------------------------------------------------
def _refinement_job(
    plan: RefinementPlan, table: TableRecords | None, name: str | None, progressbar: bool
) -> charge.ReleaseJob[Summary]:
    """The job for `charge.publish`."""
    rehearsed: list[Rehearsal] = []

    def drawn(seed: int | None) -> Released:
        model = plan.private
        noise = private_noise(model) if seed is None else seeded_noise(model, seed)
        stages = len(plan.round.stages)
        bars = reading_bars([table], progressbar, stages, "second round")
        with suppress_warnings(), bars as progress:
            records = clipped_records_of(model, table, "refine")
            released = plan.round.release(plan.first.released, records, noise, progress)
        if rehearsed and shapes_of(released) != rehearsed[0].shapes:
            raise other_shapes()
        return released

    def built(released: Any, ledger_facts: Mapping[str, Any] | None) -> Summary:
        return refined_summary(plan, released, name, ledger_facts)

    def rehearse() -> None:
        release = partial(plan.round.release, plan.first.released)
        rehearsed.append(rehearse_release(plan, release, lambda found: built(found, {})))
        check_table(table, progressbar, plan.round.work)

    return charge.ReleaseJob(
        guarantee=plan.guarantee,
        delta=plan.delta,
        exact_delta=Fraction(plan.delta),
        key=key_with_columns(plan.fingerprint, [table]),
        label=f"second round of a noisy summary ({plan.mechanism.method})",
        another="another summary or budget",
        rehearse=rehearse,
        draw=drawn,
        build=built,
        restore=Summary.from_bytes,
        verb="refine",
        kind="Summary",
    )


def refined_summary(
    plan: RefinementPlan,
    released: Mapping[str, np.ndarray],
    name: str | None,
    ledger_facts: Mapping[str, Any] | None,
) -> Summary:
    """The refined summary with public facts; without those of a ledger it is a seeded one."""
    mechanism, delta = plan.mechanism, plan.delta
    guarantee = promised_guarantee(plan.total, ledger_facts)
    cautions = [{"text": c.text, "refuse": c.refuse} for c in mechanism.warnings(released)]
    nats = plan.round.nats_in_all
    share = variance_removed(nats, len(plan.round.after))
    own = {
        "mechanism": dict(mechanism.facts),
        "information": nats,
        "share": share,
        "verdict": verdict_of(share),
        "coverage": None,
        "cautions": cautions,
    }
    facts = plan.first.facts | own
    facts.pop("ledger_head", None)  # that of the first charge
    facts |= publication_facts(guarantee, delta, name, ledger_facts)
    return Summary(released, guarantee, facts, private=ledger_facts is not None)


# ---- the round of each method --------------------------------------------------------------------
def _scores_round(mechanism: Any, released: Any, epsilon: float, delta: float) -> SecondRound:
    from pymc_private.summaries.scores.refinement import planned_round

    return planned_round(mechanism, released, largest_mu(epsilon, delta))


def _records_round(mechanism: Any, released: Any, epsilon: float, delta: float) -> SecondRound:
    from pymc_private.summaries.records.record_refinement import planned_record_round

    return planned_record_round(mechanism, released, largest_mu(epsilon, delta))


def _sums_round(mechanism: Any, released: Any, epsilon: float, delta: float) -> SecondRound:
    return repeated_round(mechanism, released, largest_mu(epsilon, delta))


def _cells_round(mechanism: Any, released: Any, epsilon: float, delta: float) -> SecondRound:
    pure = mechanism.scale is not None  # discrete Laplace noise
    return repeated_round(mechanism, released, epsilon if pure else largest_mu(epsilon, delta))


ROUNDS: dict[str, Callable[[Any, Any, float, float], SecondRound]] = {
    "scores": _scores_round,
    "records": _records_round,
    "sums": _sums_round,
    "cells": _cells_round,
}
"""What plans a round of a mechanism from what was released, at (epsilon, delta)."""


# ---- before the charge -------------------------------------------------------------------------
def _resolve_plan(what: Any, epsilon: float | None, private: PrivateModel | None) -> RefinementPlan:
    """The plan that is given, or one made of a summary."""
    if isinstance(what, RefinementPlan):
        if epsilon is not None and not (is_number(epsilon) and epsilon == what.epsilon):
            raise DomainError(
                "a plan fixes its numbers; nothing was charged",
                got=f"epsilon={epsilon!r}",
                allowed=f"{what.epsilon:g}, or nothing",
                do="plan again",
            )
        return what if private is None else replace(what, private=_model_of(what.first, private)[0])
    _refuse_no_summary(what)
    if epsilon is None:
        raise DomainError(
            "a round needs a budget of its own; nothing was charged",
            got="epsilon=None",
            allowed="epsilon > 0, in nats",
            do="pmp.refine(summary, epsilon=0.5, ledger=...)",
        )
    return refinement_plan(what, epsilon=epsilon, private=private)


def _refuse_no_summary(what: Any) -> None:
    if not isinstance(what, Summary):
        raise DomainError(
            "what is refined is a summary; nothing was charged",
            got=type(what).__name__,
            allowed="what pmp.summarize or pmp.load returns",
            do="summary = pmp.summarize(plan, ledger=...); pmp.refine(summary, epsilon=0.5)",
        )


def _model_of(summary: Summary, private: PrivateModel | None) -> tuple[PrivateModel, Any]:
    """The model and the mechanism of a summary; another structure is refused as by `model`."""
    declared, mechanism = summary.of_model(private)
    if structure_of(declared) != summary.facts["model"]:
        raise Incompatible(
            "this model has another structure than the one that was summarized; nothing was "
            "charged",
            got="another likelihood, prior, domain, number of records or declaration",
            allowed="the same model with the records of the summary",
            do="declare it as for the summary",
        )
    return declared, mechanism


def _refuse_changed_model(plan: RefinementPlan) -> None:
    """Refuse a model that was changed since the plan was made; public facts only are compared."""
    private = plan.private
    if not has_declared_factors(private) or structure_of(private) != plan.first.facts["model"]:
        raise Incompatible(
            "the model of this plan was changed since; nothing was charged",
            got=what_changed(
                private, "public data, a prior or a potential that the first round did not have"
            ),
            allowed="the model that was summarized",
            do="undo the change; or calibrate and summarize the changed model",
        )
    if moved := moved_sources(plan.private):
        raise Incompatible(
            "the data of this model have another shape than those that were summarized; nothing "
            "was charged",
            got=f"another shape of {', '.join(moved)}",
            allowed="the records of the summary",
        )


def _refuse_little_gain(plan: RefinementPlan) -> None:
    """Refuse a round after which the posterior would be what it is."""
    each = plan.round.nats / len(plan.round.before)
    if not each >= LEAST_GAIN:
        raise NotInformative(
            "a round at this budget would hardly tell anything more; nothing was charged",
            got=f"posterior standard deviations {np.median(plan.round.shrinkage):.3f} times what "
            "they are (expected, median)",
            allowed=f"{LEAST_GAIN:g} nats per parameter or more",
            do="a larger epsilon",
        )
