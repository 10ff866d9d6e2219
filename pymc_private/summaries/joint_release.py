"""Several summaries of the same records, charged at once and kept as one record (T30)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from pymc_private.errors import DomainError
from pymc_private.models.private_model import PrivateModel
from pymc_private.release import charge
from pymc_private.release.charge import ReleaseOptions, suppress_warnings
from pymc_private.summaries.choose_mechanism import AUTO
from pymc_private.summaries.joint_plan import JointSummaryPlan, plan_together, refuse_no_plans
from pymc_private.summaries.protocol import Progress, Records, Released, SummaryNoise
from pymc_private.summaries.summary import Summary, SummarySet
from pymc_private.summaries.summary_contents import other_shapes, shapes_of
from pymc_private.summaries.summary_job import (
    Together,
    build_summary,
    clipped_records_of,
    private_noise,
    refuse_uninformative,
    rehearse_release,
    seeded_noise,
)
from pymc_private.summaries.summary_plan import check_plan_unchanged
from pymc_private.summaries.tables.read_table import key_with_columns, records_of_plans
from pymc_private.summaries.tables.table_progress import reading_bars
from pymc_private.summaries.tables.table_records import TableRecords, check_together


def summarize_together(
    what: Sequence[Any],
    options: ReleaseOptions,
    *,
    epsilon: float | None,
    delta: float,
    request: Mapping[str, Any],
    progressbar: bool,
    accept_prior: bool,
    accept: bool,
    table: tuple[Any, Mapping[str, Any] | None, str | None] = (None, None, None),
) -> list[Summary]:
    """Release several summaries at once: see `summarize`.

    Parameters
    ----------
    what : sequence of SummaryPlan, or of PrivateModel
        Plans as they stand, or models with one budget for all.
    options : ReleaseOptions
    epsilon, delta : float
        Budget of private models.
    request : mapping
        ``method``, ``reference`` and ``n`` of private models.
    progressbar, accept_prior, accept : bool
    table : tuple
        ``data``, ``columns`` and ``id``.

    Raises
    ------
    DomainError, Incompatible, BudgetExceeded, NotInformative, PymcPrivateError
        As `summarize`; plans of different records.
    """
    joint = _resolve_joint_plan(what, epsilon, delta, request)
    for plan in joint.plans:
        check_plan_unchanged(plan)
    records = records_of_plans(joint.plans, *table, options.random_seed)
    job = _JointJob(joint, options.name, progressbar, accept_prior, records).job
    found = charge.publish(job, options)
    return [
        summary.with_origin(plan.private, plan.mechanism, accept)
        for summary, plan in zip(found.summaries, joint.plans, strict=True)
    ]


def _resolve_joint_plan(
    what: Sequence[Any], epsilon: float | None, delta: float, request: Mapping[str, Any]
) -> JointSummaryPlan:
    """The plans as they stand, or plans of private models with one budget."""
    if len(what) > 1 and all(isinstance(one, PrivateModel) for one in what):
        if epsilon is None:
            raise DomainError(
                "summaries of private models need a budget for all of them",
                got="epsilon=None",
                allowed="epsilon > 0, in nats",
                do="pass epsilon= and delta=, or plans of calibrate(..., release='summary')",
            )
        return plan_together(what, epsilon, delta, **request)
    refuse_no_plans(what)
    given = {"epsilon": epsilon, "delta": delta or None}
    given |= {k: v for k, v in request.items() if not (isinstance(v, str) and v == AUTO)}
    if extra := [k for k, v in given.items() if v is not None]:
        raise DomainError(
            "plans fix their numbers; nothing was charged",
            got=", ".join(f"{name}=" for name in extra),
            do="leave them out; or give private models with one budget",
        )
    return JointSummaryPlan(tuple(what))


class _JointJob:
    """The job for `charge.publish`: all summaries in the order of their release."""

    def __init__(
        self,
        joint: JointSummaryPlan,
        name: str | None,
        progressbar: bool,
        accept_prior: bool,
        records: Sequence[TableRecords | None] | None = None,
    ) -> None:
        self.joint, self.name = joint, name
        self.records = records if records is not None else [None for _ in joint.plans]
        self.progressbar, self.accept_prior = progressbar, accept_prior
        self.shapes: dict[int, Any] = {}

    @property
    def job(self) -> charge.ReleaseJob[SummarySet]:
        """What the charge buys."""
        joint = self.joint
        return charge.ReleaseJob(
            guarantee=joint.guarantee,
            delta=joint.delta,
            exact_delta=Fraction(joint.delta),
            key=key_with_columns(joint.fingerprint, self.records),
            label=f"{len(joint.plans)} noisy summaries "
            f"({', '.join(plan.method for plan in joint.plans)})",
            another="other plans",
            rehearse=self.rehearse,
            draw=self.draw,
            build=self.build,
            restore=SummarySet.from_bytes,
            depth=2,
            verb="summarize",
            kind="SummarySet",
        )

    def rehearse(self) -> None:
        """Do all of it on made-up records."""
        made: dict[int, Released] = {}
        for k in self.joint.order:
            plan = self.joint.plans[k]
            if not self.accept_prior:
                refuse_uninformative(plan)

            def release(records: Records, noise: SummaryNoise, k: int = k) -> Released:
                made[k] = self._release(k, records, noise, None, made)
                return made[k]

            build = partial(self._summary, k, ledger_facts={})
            self.shapes[k] = rehearse_release(plan, release, build).shapes
        SummarySet.from_bytes(self.build(made, {}).to_bytes())
        if tables := [one for one in self.records if one is not None]:
            with reading_bars(tables, self.progressbar):
                check_together(tables)

    def draw(self, seed: int | None) -> dict[int, Released]:
        """Read the records: all noisy sums, by the number of the plan."""
        found: dict[int, Released] = {}
        stages = sum(len(plan.mechanism.stages) for plan in self.joint.plans)
        bars = reading_bars(self.records, self.progressbar, stages, "noisy summaries")
        with suppress_warnings(), bars as progress:
            for k, told in zip(self.joint.order, self._progress(progress), strict=True):
                plan, seeds = self.joint.plans[k], None if seed is None else [seed, k]
                model, part = plan.private, getattr(plan.mechanism, "part", None)
                noise = private_noise(model) if seeds is None else seeded_noise(model, seeds)
                records = clipped_records_of(model, self.records[k], "summarize", part, seeds)
                found[k] = self._release(k, records, noise, told, found)
        if self.shapes and {k: shapes_of(one) for k, one in found.items()} != self.shapes:
            raise other_shapes()
        return found

    def _progress(self, progress: Progress) -> Iterator[Progress]:
        """For each release what tells its stages behind those of the earlier ones."""
        before = 0
        for k in self.joint.order:
            yield partial(_told_after, progress, before)
            before += len(self.joint.plans[k].mechanism.stages)

    def _release(
        self,
        k: int,
        records: Records,
        noise: SummaryNoise,
        progress: Progress | None,
        earlier: Mapping[int, Released],
    ) -> Released:
        """One summary, with what it reads of those before it."""
        mechanism: Any = self.joint.plans[k].mechanism
        shared = self.joint.shared_reference(k, earlier)
        words = {} if shared is None else {"shared": shared}
        return dict(mechanism.release(records, noise, progress, **words))

    def build(
        self, released: Mapping[int, Released], ledger_facts: Mapping[str, Any] | None
    ) -> SummarySet:
        """All summaries with public facts; without those of a ledger they are seeded ones."""
        every = range(len(self.joint.plans))
        return SummarySet([self._summary(k, released[k], ledger_facts) for k in every])

    def _summary(
        self, k: int, released: Released, ledger_facts: Mapping[str, Any] | None
    ) -> Summary:
        joint = self.joint
        together = Together(joint.guarantee, joint.delta, joint.facts(k))
        return build_summary(joint.plans[k], released, self.name, ledger_facts, together)


def _told_after(progress: Progress, before: int, done: int) -> None:
    progress(before + done)
