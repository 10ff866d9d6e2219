"""`check`: one charged check of a summarized model against its records (T38).

As in `summarize`: everything that can fail is checked from public facts and rehearsed on made-up
records, the ledger is charged, and only then are the records read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pymc_private.criticism.check_plan import CheckPart, CheckPlan
from pymc_private.criticism.check_result import Check
from pymc_private.criticism.planned_test import MOST_NOISE
from pymc_private.errors import DomainError, Incompatible, NotInformative, Unsupported
from pymc_private.ledger import Ledger
from pymc_private.models.data_clipping import clip_to_domain
from pymc_private.models.made_up_records import (
    corner_records,
    simulated_records,
    stand_in_models,
    uniform_records,
)
from pymc_private.models.private_model import PrivateModel, moved_sources
from pymc_private.models.record_likelihood import temporary_records
from pymc_private.privacy.validation import check_flags
from pymc_private.release import charge
from pymc_private.release.charge import ReleaseOptions, suppress_warnings
from pymc_private.release.draws_job import promised_guarantee, publication_facts
from pymc_private.summaries.exact_totals import ExactTotals, GivenTotals, Totals
from pymc_private.summaries.noise import LatticeNoise
from pymc_private.summaries.protocol import Progress, Records, SummaryNoise, SumNoise
from pymc_private.summaries.record_table import as_record_table
from pymc_private.summaries.scores.clipped_scores import Rows
from pymc_private.summaries.scores.score_terms import parted
from pymc_private.summaries.summary_job import (
    clipped_records_of,
    made_up_noise,
    private_noise,
    repeated_records,
    seeded_noise,
    warn_of_another_ledger,
)
from pymc_private.summaries.summary_plan import structure_of
from pymc_private.summaries.tables.read_table import key_with_columns, records_of_table
from pymc_private.summaries.tables.table_progress import check_table, reading_bars
from pymc_private.summaries.tables.table_records import TableRecords


def check(
    plan: CheckPlan,
    private: PrivateModel | None = None,
    *,
    ledger: Ledger | None = None,
    name: str | None = None,
    save: str | os.PathLike[str] | None = None,
    again: bool = False,
    data_version: str = "",
    random_seed: int | None = None,
    progressbar: bool = True,
    data: Any = None,
    columns: Mapping[str, Any] | None = None,
    id: str | None = None,
) -> Check:
    """Check a summarized model against its records: charge, then noise.

    Parameters
    ----------
    plan : CheckPlan
        Of `check_plan`.
    private : PrivateModel, optional
        The model with the records of the summary; default: that of the plan.
    ledger : Ledger, optional
        Default: the ledger of the context, else one in memory, with a warning.
    name : str, optional
        Running again with the same name, plan and `data_version` returns the stored check, free.
    save : path, optional
        Where to save the check (JSON).
    again : bool
        Charge and check anew although the name is taken.
    data_version : str
        A word for the state of the data; belongs to the name.
    random_seed : int, optional
        Makes a reproducible check that is marked NOT PRIVATE and charges nothing.
    progressbar : bool
        Show progress on this screen.
    data, columns, id
        The table that was summarized: as of `summarize`.

    Returns
    -------
    Check

    Raises
    ------
    NotInformative
        Noise would drown a departure; nothing was charged.
    BudgetExceeded
        The ledger cannot pay; nothing was charged.
    Incompatible
        The model has another structure than the one that was summarized, or the name is taken.
    DomainError
        A table that lacks columns, or that cannot be read; nothing was charged.
    PymcPrivateError
        The check failed after the charge, and the error says so.

    Warns
    -----
    PrivacyWarning
        The ledger was not charged for the summary: what it says was spent lacks it.

    Notes
    -----
    The records must be those of the summary, as they were: the null distribution accounts for what
    both have in common. Of a table nothing was kept that would tell another one.

    References
    ----------
    Dong, Roth and Su (2022); theory T30, T31, T38.
    """
    _refuse_no_plan(plan)
    check_flags(progressbar=progressbar)
    declared = plan.private if private is None else private
    _refuse_other_model(plan, declared)
    options = ReleaseOptions(ledger, name, data_version, save, again, random_seed)
    table = records_of_table(declared, data, columns, id, None, random_seed, "check")
    if random_seed is None:
        warn_of_another_ledger(plan.summary_released, ledger, "check")
    return charge.publish(_job(plan, declared, table, name, progressbar), options)


def _job(
    plan: CheckPlan,
    private: PrivateModel,
    table: TableRecords | None,
    name: str | None,
    progressbar: bool,
) -> charge.ReleaseJob[Check]:
    """The job for `charge.publish`."""

    def drawn(seed: int | None) -> list[np.ndarray]:
        noise = private_noise(private) if seed is None else seeded_noise(private, seed)
        bars = reading_bars([table], progressbar, len(plan.parts), "check")
        with suppress_warnings(), bars as progress:
            records = clipped_records_of(private, table, "check")
            return noisy_sums(plan, records, noise, progress)

    def rehearse() -> None:
        _refuse_drowned(plan)
        _rehearse(plan, private, name)
        check_table(table, progressbar, CheckTotals(plan.parts, _design(plan).outcome))

    def built(sums: Any, ledger_facts: Mapping[str, Any] | None) -> Check:
        return build_check(plan, sums, name, ledger_facts)

    return charge.ReleaseJob(
        guarantee=plan.guarantee,
        delta=plan.delta,
        exact_delta=Fraction(plan.delta),
        key=key_with_columns(plan.fingerprint, [table]),
        label="check of a summarized model",
        another="another plan",
        rehearse=rehearse,
        draw=drawn,
        build=built,
        restore=Check.from_bytes,
        verb="check",
        kind="Check",
    )


def noisy_sums(
    plan: CheckPlan, records: Records, noise: SummaryNoise, progress: Progress | None = None
) -> list[np.ndarray]:
    """What each part of the plan releases of the records (T30, T31)."""
    design = _design(plan)
    table = as_record_table(records).beside(design.public_rows)
    size = table.chunk_size(design.scale.relation, design.large_chunk)  # of one shape (T30)
    found: list[np.ndarray] = []
    given: SumNoise = noise
    if isinstance(noise, LatticeNoise):
        given = GivenTotals(noise, table.sum_up(CheckTotals(plan.parts, design.outcome), size))
    for part in plan.parts:
        read = () if given is not noise else table.chunks(size)
        chunks = ((*parted(chunk, design.outcome), count) for chunk, count in read)
        found.append(part.release(chunks, given))
        if progress is not None:
            progress(len(found))
    return found


def _design(plan: CheckPlan) -> Any:
    return plan.mechanism.design  # type: ignore[attr-defined]  # of a ScoreMechanism


@dataclass(frozen=True, eq=False)
class CheckTotals:
    """What the records of a chunk add to all sums of a check, in integers."""

    parts: tuple[CheckPart, ...]
    outcome: str

    def __call__(self, chunk: Rows, count: int) -> Totals:
        """Sums over the true rows, in the order of their release."""
        exact = ExactTotals()
        for part in self.parts:
            part.release(iter([(*parted(chunk, self.outcome), count)]), exact)
        return exact.found


def build_check(
    plan: CheckPlan,
    sums: list[np.ndarray],
    name: str | None,
    ledger_facts: Mapping[str, Any] | None,
) -> Check:
    """The check with public facts; without those of a ledger it is a seeded one."""
    private = ledger_facts is not None
    guarantee = promised_guarantee(plan.guarantee, ledger_facts)
    tests, cells = [], None
    for part, released in zip(plan.parts, sums, strict=True):
        tests += part.tested_all(released, plan.level)
        cells = part.cells(released) or cells
    counts = private and plan.summary_released.private
    total = plan.total.epsilon(plan.delta) if counts else float("inf")
    facts = {
        "asked": plan.epsilon,
        "records": plan.private.records,
        "domain": plan.private.domain,
        "model": plan.summary_released.facts["model"],
        "summary": plan.summary_released.fingerprint,
        "total": total,
    } | publication_facts(guarantee, plan.delta, name, ledger_facts)
    return Check(tests, guarantee, facts, private=private, cells=cells)


# ---- before the charge -------------------------------------------------------------------------
def _rehearse(plan: CheckPlan, private: PrivateModel, name: str | None) -> None:
    """Do all of it on made-up records, with noise of a public seed."""
    failure: Exception | None = None
    with temporary_records(private.graph):
        kinds = (simulated_records, uniform_records, corner_records)
        for made_up in stand_in_models(private, kinds):
            noise = made_up_noise(private)
            try:
                with suppress_warnings():
                    clip_to_domain(made_up, "check")
                    sums = noisy_sums(plan, repeated_records(made_up), noise)
                    result = build_check(plan, sums, name, {})
                    Check.from_bytes(result.to_bytes())
                return
            except Exception as error:
                failure = error
    raise Unsupported(
        "the check fails, and would fail after the charge; nothing was charged",
        got=type(failure).__name__ if failure else "no records can be made up of the domain",
        allowed="a check that succeeds in a rehearsal on made-up records of the domain",
        do="another departure",
    ) from failure


def _refuse_drowned(plan: CheckPlan) -> None:
    """Refuse to charge for a sum that is hardly more than noise."""
    drowned = [test for test in plan.tests if test.drowned]
    if drowned:
        raise NotInformative(
            "noise would drown this check; nothing was charged",
            got="; ".join(
                f"{test.name}: noise of {test.noise_sd / np.sqrt(test.null.whole):.2g} standard "
                f"deviations of the statistic, so that {test.smallest(plan.level):.2g} is the "
                "smallest departure that would be seen"
                for test in drowned
            ),
            allowed=f"at most {MOST_NOISE:g}",
            do="a larger epsilon, fewer departures at once, or more records",
        )


def _refuse_no_plan(plan: Any) -> None:
    if not isinstance(plan, CheckPlan):
        raise DomainError(
            "a check needs its plan; nothing was charged",
            got=type(plan).__name__,
            allowed="what pmp.check_plan returns",
            do="plan = pmp.check_plan(summary, 'link', epsilon=0.25, delta=1e-6)",
        )


def _refuse_other_model(plan: CheckPlan, private: Any) -> None:
    """Refuse a model that is not the summarized one; public facts only are compared."""
    if not isinstance(private, PrivateModel):
        raise DomainError(
            "a check reads the records of a private model; nothing was charged",
            got=type(private).__name__,
            allowed="what pmp.privatize returns",
            do="leave it out, or pmp.privatize(model, records=..., domain=...)",
        )
    moved = moved_sources(private)
    if moved or structure_of(private) != plan.summary_released.facts["model"]:
        raise Incompatible(
            "this model has another structure than the one that was summarized; nothing was "
            "charged",
            got=f"another shape of {', '.join(moved)}" if moved else
            "another likelihood, prior, domain, number of records or declaration",
            allowed="the same model with the records of the summary",
            do="declare it as for the summary",
        )  # fmt: skip
