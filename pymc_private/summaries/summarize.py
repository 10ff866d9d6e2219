"""`summarize`: one charged, noisy summary of the records of a plan or model (T30).

Resolve the arguments to a plan, check it from public facts alone, rehearse all of it on made-up
records, charge the ledger, and only then read the data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, overload

from pymc_private.errors import DomainError
from pymc_private.ledger import Ledger
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.privacy.validation import check_flags
from pymc_private.release import charge
from pymc_private.release.arguments import (
    equals,
    refuse_keywords,
    refuse_other_numbers,
    refuse_second_declaration,
)
from pymc_private.release.charge import ReleaseOptions, suppress_warnings
from pymc_private.summaries.choose_mechanism import AUTO, make_summary_plan
from pymc_private.summaries.joint_release import summarize_together
from pymc_private.summaries.protocol import Progress, Released, SummaryNoise
from pymc_private.summaries.rehearse import Rehearsal
from pymc_private.summaries.summary import Summary
from pymc_private.summaries.summary_contents import other_shapes, shapes_of
from pymc_private.summaries.summary_job import (
    build_summary,
    clipped_records_of,
    private_noise,
    refuse_uninformative,
    rehearse_release,
    seeded_noise,
)
from pymc_private.summaries.summary_plan import (
    SummaryPlan,
    check_plan_unchanged,
)
from pymc_private.summaries.tables.read_table import key_with_columns, records_of_table
from pymc_private.summaries.tables.table_progress import check_table, reading_bars
from pymc_private.summaries.tables.table_records import TableRecords

DRAW_KEYWORDS = {
    "draws": "a summary is one; draws are those of pm.sample on summary.model(), as many as you "
    "like; pmp.sample releases private draws",
    "sampler": "nothing is sampled before pm.sample on summary.model()",
    "strict": "the noise of a summary is exact in floating point; remove it",
    "executor": "nothing runs in workers; remove it",
    "chains": "say it to pm.sample on summary.model()",
    "tune": "say it to pm.sample on summary.model()",
}


@overload
def summarize(what: list[Any] | tuple[Any, ...], **words: Any) -> list[Summary]: ...


@overload
def summarize(what: Any = None, **words: Any) -> Summary: ...


def summarize(
    what: Any = None,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    ledger: Ledger | None = None,
    name: str | None = None,
    save: str | os.PathLike[str] | None = None,
    again: bool = False,
    data_version: str = "",
    random_seed: int | None = None,
    progressbar: bool = True,
    accept_prior: bool = False,
    accept: bool = False,
    method: str = AUTO,
    reference: Any = None,
    n: int | None = None,
    data: Any = None,
    columns: Mapping[str, Any] | None = None,
    id: str | None = None,
    **declaration: Any,
) -> Summary | list[Summary]:
    """Release one noisy summary of the records, from which an ordinary posterior follows.

    The order is fixed: everything that can fail is checked from the plan alone, and all of it is
    rehearsed on made-up records; the ledger is charged (durably); only then are the data read (a
    table is read once before, to check it).
    What is released are noisy sums and public facts. ``with summary.model(): pm.sample()`` costs
    nothing more, however often.

    A list of plans of the same records is released at once: one charge, one stored record, and
    what plans can share (the number of records, moments of the covariates) is paid once. Of a
    table they read all it has: it is checked once for all of them.

    Parameters
    ----------
    what : SummaryPlan, PrivateModel, pymc.Model or Bambi model, or list; optional
        A plan is released as it stands. A private model needs `epsilon`; a model takes the
        keywords of `privatize`, too. A list holds plans, or private models with one budget for all
        of them, divided equally. Default: the model of the context.
    epsilon, delta : float
        Budget (epsilon in nats). Of a plan: may be left out.
    ledger : Ledger, optional
        Default: the ledger of the context, else one in memory, with a warning.
    name : str, optional
        Running again with the same name, plan and `data_version` returns the stored summary, free.
    save : path, optional
        Where to save the summary (netCDF).
    again : bool
        Charge and release anew although the name is taken.
    data_version : str
        A word for the state of the data; belongs to the name.
    random_seed : int, optional
        Makes a reproducible summary that is marked NOT PRIVATE and charges nothing.
    progressbar : bool
        Show progress on this screen.
    accept_prior : bool
        Charge for a summary that is expected to hardly tell more than the prior.
    accept : bool
        Let ``summary.model()`` be built although its warnings refuse.
    method, reference, n
        As in `calibrate`. Of a plan: may be left out.
    data : table, optional
        The records of a model that holds placeholder rows (``privatize(..., n=)``): a table of
        pandas, Polars (also lazy), PyArrow (also a dataset), DuckDB, Dask or Spark, which is read a
        few batches at a time, once to check it before the charge and once for each stage.
    columns : mapping of str to str or sequence of str, optional
        Columns of `data` by private variable, where they have other names; of a variable with
        several numbers a record as many (default: the coordinates of its dim).
    id : str, optional
        The column of `data` that names units (persons). Before the charge it is checked that none
        owns more rows than `records_per_unit`.
    **declaration
        ``records=``, ``domain=``, ``neighbors=``, ``records_per_unit=``, ``public=``,
        ``constants=``: see `privatize`.

    Returns
    -------
    Summary, or list of Summary
        A list for a list, in its order; each has the guarantee of all of them.

    Raises
    ------
    TypeError
        A keyword that means nothing here, with the equivalent.
    NotInformative
        The expected information is below 1 nat, or the verdict is "prior", and `accept_prior` is
        not set; nothing was charged.
    BudgetExceeded
        The ledger cannot pay; nothing was charged.
    PymcPrivateError
        The release failed after the charge, and the error says so.
    Incompatible
        The name belongs to another plan, `save` names another file, the plan's model was
        changed since, or plans of a list are of different records.
    DomainError, NotCertified, Unsupported
        As `privatize` and `calibrate`; a release that fails on made-up records of the domain, too.
        Nothing was charged.

    Notes
    -----
    Data that were set since `privatize` are clipped once more, in the charged release, which
    refuses no record (see `sample`). A release that was stopped (Ctrl-C) stays charged.

    References
    ----------
    Dong, Roth and Su (2022); theory T30-T33, T35, T36.
    """
    refuse_keywords(summarize, declaration, DRAW_KEYWORDS)
    options = ReleaseOptions(ledger, name, data_version, save, again, random_seed)
    check_flags(accept_prior=accept_prior, accept=accept, progressbar=progressbar)
    if isinstance(what, list | tuple):
        refuse_second_declaration(declaration)
        request = {"method": method, "reference": reference, "n": n}
        told: dict[str, Any] = {"progressbar": progressbar, "table": (data, columns, id)}
        told |= {"accept_prior": accept_prior, "accept": accept, "request": request}
        return summarize_together(what, options, epsilon=epsilon, delta=delta, **told)
    declaration, n = _count_of_a_table(what, data, declaration, n)
    plan = _resolve_plan(what, epsilon, delta, method, reference, n, declaration)
    check_plan_unchanged(plan)
    part = getattr(plan.mechanism, "part", None)
    table = records_of_table(plan.private, data, columns, id, part, random_seed)
    found = charge.publish(_summary_job(plan, table, name, progressbar, accept_prior), options)
    return found.with_origin(plan.private, plan.mechanism, accept)


def _count_of_a_table(
    what: Any, data: Any, declaration: dict[str, Any], n: int | None
) -> tuple[dict[str, Any], int | None]:
    """Of a model that is summarized by a table, n belongs to its declaration."""
    if data is None or isinstance(what, SummaryPlan | PrivateModel):
        return declaration, n
    return declaration | {"n": n}, None


def _resolve_plan(
    what: Any,
    epsilon: float | None,
    delta: float,
    method: str,
    reference: Any,
    n: int | None,
    declaration: Mapping[str, Any],
) -> SummaryPlan:
    """The plan to release: the one given, or one made of a private model or a model."""
    _refuse_draws(what)
    if isinstance(what, SummaryPlan | PrivateModel):
        refuse_second_declaration(declaration)
    if isinstance(what, SummaryPlan):
        _refuse_other_numbers(what, epsilon, delta, method, reference, n)
        return what
    if epsilon is None:
        raise DomainError(
            "a summary needs a budget",
            got="epsilon=None",
            allowed="epsilon > 0, in nats",
            do="pass epsilon= and delta=, or a plan of calibrate(..., release='summary')",
        )
    private = what if isinstance(what, PrivateModel) else privatize(what, **declaration)
    return make_summary_plan(
        private, epsilon=epsilon, delta=delta, method=method, reference=reference, n=n
    )


def _refuse_draws(what: Any) -> None:
    """Refuse a plan for draws, which this room knows by its parts alone."""
    if hasattr(what, "draws") and hasattr(what, "sampler"):
        raise DomainError(
            "this is a plan for draws, not for a summary; nothing was charged",
            got=type(what).__name__,
            allowed="a SummaryPlan, a PrivateModel or a model",
            do="pmp.sample(plan) for its draws; or calibrate(private, ..., release='summary')",
        )


def _refuse_other_numbers(
    plan: SummaryPlan, epsilon: float | None, delta: float, method: str, reference: Any, n: Any
) -> None:
    """Refuse numbers given beside a plan that are not the plan's own."""
    given = {
        "epsilon": epsilon,
        "delta": None if equals(delta, 0.0) else delta,
        "method": None if equals(method, AUTO) else method,
        "n": None if equals(n, plan.n) or equals(n, plan.guess) else n,
        "reference": None if reference is None else "a reference of its own",
    }
    reference_text = "none" if plan.reference is None else "that of the plan"
    public = plan.n if plan.n is not None else plan.guess
    fixed = {"n": public, "reference": reference_text}
    refuse_other_numbers(
        given, {k: getattr(plan, k) for k in ("epsilon", "delta", "method")} | fixed
    )


# ---- the job -----------------------------------------------------------------------------------
def _summary_job(
    plan: SummaryPlan,
    table: TableRecords | None,
    name: str | None,
    progressbar: bool,
    accept_prior: bool,
) -> charge.ReleaseJob[Summary]:
    """The job for `charge.publish`: of the model's records or of those of a table."""
    rehearsed: list[Rehearsal] = []

    def drawn(seed: int | None) -> Released:
        model = plan.private
        noise = private_noise(model) if seed is None else seeded_noise(model, seed)
        released = _charged_release(plan, table, noise, progressbar, seed)
        _refuse_other_shapes(released, rehearsed)
        return released

    def rehearse() -> None:
        if not accept_prior:
            refuse_uninformative(plan)
        rehearsed.append(rehearse_release(plan, plan.mechanism.release, lambda r: built(r, {})))
        check_table(table, progressbar, getattr(plan.mechanism, "trial_work", None))

    def built(released: Any, ledger_facts: Mapping[str, Any] | None) -> Summary:
        return build_summary(plan, released, name, ledger_facts)

    return charge.ReleaseJob(
        guarantee=plan.guarantee,
        delta=plan.charged_delta,
        exact_delta=Fraction(plan.charged_delta),
        key=key_with_columns(plan.fingerprint, [table]),
        label=f"noisy summary ({plan.method})",
        another="another plan, other columns or units",
        rehearse=rehearse,
        draw=drawn,
        build=built,
        restore=Summary.from_bytes,
        verb="summarize",
        kind="Summary",
    )


def _refuse_other_shapes(released: Released, rehearsed: Sequence[Rehearsal]) -> None:
    """Refuse a release that differs in shapes from its rehearsal."""
    if rehearsed and shapes_of(released) != rehearsed[0].shapes:
        raise other_shapes()


def _charged_release(
    plan: SummaryPlan,
    table: TableRecords | None,
    noise: SummaryNoise,
    progressbar: bool,
    seed: int | None,
) -> Released:
    """Clip the data once more and release, without warnings."""
    stages = len(plan.mechanism.stages)
    with suppress_warnings(), reading_bars([table], progressbar, stages) as progress:
        told: Progress = progress
        part = getattr(plan.mechanism, "part", None)
        records = clipped_records_of(plan.private, table, "summarize", part, seed)
        return plan.mechanism.release(records, noise, told)
