"""The choice of a summary mechanism for a model, from public facts alone.

Every mechanism that accepts the model is built and asked for its expected information; the one
that promises most is taken. One that assumes the distribution of private covariates (cells that
cut an interval take it as uniform inside them) is built only where no other accepts the model. The
others, and the reasons of those that refuse the model, stand in the plan. No data are read.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pymc_private.errors import DomainError, PymcPrivateError, Unsupported
from pymc_private.models.compat import say_stage
from pymc_private.models.information import ASSUMED_N, simulated_information
from pymc_private.models.private_model import PrivateModel, require_private_model
from pymc_private.models.reference_rows import KnownCovariates, checked_reference, nearest_entries
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import MAX_COUNT, is_number, short_repr
from pymc_private.release.allowed import as_float
from pymc_private.release.arguments import equals
from pymc_private.summaries.protocol import Mechanism
from pymc_private.summaries.summary_plan import SummaryPlan, at_most

AUTO = "auto"
FEWEST_RECORDS = 30
"""The likelihood of a summary rests on the central limit."""
MOST_OUTSIDE = 0.5
"""Share of a reference outside the domain above which it is taken for one in other units."""
ROUNDING = 1e-6
"""Relative distance from the domain that is taken for rounding."""
COUNT_CLAIM = "the n= by which the summary was planned was not computed from the data"
REFERENCE_CLAIM = "the reference= by which the summary was planned is public"


@dataclass(frozen=True)
class SummaryRequest:
    """What a summary may cost, and what is public of its records.

    Attributes
    ----------
    epsilon, delta : float
    n : int or None
        A public guess of the number of records, where that is protected.
    reference : mapping or table, optional
        Public values of private covariates.
    """

    epsilon: float
    delta: float
    n: int | None = None
    reference: Any = None


def _scores(private: PrivateModel, request: SummaryRequest) -> Mechanism:
    """Noisy scores (T36)."""
    from pymc_private.summaries.noise import largest_mu
    from pymc_private.summaries.scores.curvature_check import refuse_unusable
    from pymc_private.summaries.scores.model_scores import score_mechanism
    from pymc_private.summaries.scores.structure import refuse_collinear

    _refuse_pure("noisy scores", request)
    mu = largest_mu(request.epsilon, request.delta)
    found = score_mechanism(private, mu, reference=request.reference, n=request.n)
    if found.design.budget.curvature is None and not found.labels:  # crossed groups add up
        refuse_collinear(found.design.structure)
    reasons = partial(_beyond_domain, private, found, request.reference)
    refuse_unusable(found.usable, found.read.size, reasons)
    return found


def _beyond_domain(private: PrivateModel, mechanism: Mechanism, reference: Any) -> list[str]:
    """Which outcomes the prior puts beyond their domain, if many are."""
    from pymc_private.summaries.simulated_summaries import outside_sentences, simulated_outside

    return outside_sentences(simulated_outside(private, mechanism.parameters, reference))


def _records(private: PrivateModel, request: SummaryRequest) -> Mechanism:
    """Pooled scores of whole records (T34)."""
    from pymc_private.summaries.noise import largest_mu
    from pymc_private.summaries.records.pooled_records import record_mechanism

    _refuse_pure("pooled scores", request)
    mu = largest_mu(request.epsilon, request.delta)
    return record_mechanism(private, mu, n=request.n)


def _cells(private: PrivateModel, request: SummaryRequest) -> Mechanism:
    """Noisy counts of public cells (T33), by whichever noise is less; pure where delta is zero."""
    from pymc_private.summaries.cells.cell_mechanism import cell_mechanism

    return cell_mechanism(private, request.epsilon, request.delta, n=request.n)


def _sums(private: PrivateModel, request: SummaryRequest) -> Mechanism:
    """Noisy sums of conjugate families (T35)."""
    from pymc_private.summaries.noise import largest_mu
    from pymc_private.summaries.sums.sum_mechanism import SumMechanism

    _refuse_pure("noisy sums", request)
    return SumMechanism(private, largest_mu(request.epsilon, request.delta), n=request.n)


MECHANISMS: dict[str, Callable[[PrivateModel, SummaryRequest], Mechanism]] = {
    "scores": _scores,
    "records": _records,
    "sums": _sums,
    "cells": _cells,
}
"""What builds each mechanism, cells last; each refuses a model that it does not fit."""
METHODS = ("scores", "records", "cells", "sums")


def make_summary_plan(
    private: Any,
    *,
    epsilon: float,
    delta: float,
    method: str = AUTO,
    reference: Any = None,
    n: int | None = None,
) -> SummaryPlan:
    """The plan of one noisy summary within (epsilon, delta); reads no data.

    Parameters
    ----------
    private : PrivateModel
    epsilon : float, nats
    delta : float
        In [0, 1); at 0 only cells with discrete Laplace noise remain.
    method : {"auto", "scores", "records", "cells", "sums"}
    reference : mapping of str to array, or pandas.DataFrame, optional
        *Public* values of private covariates; default: their domain.
    n : int, optional
        Under add/remove: a public guess of the number of records.

    Raises
    ------
    DomainError, Unsupported
        Impossible numbers; a `Metric`; fewer than 30 records; a model that no mechanism accepts.
    """
    private = require_private_model(private)
    if private.neighbors == ADD_REMOVE and n is None:
        n = private.table_rows
    request = _checked_request(private, epsilon, delta, method, reference, n)
    built, refused = _built_mechanisms(private, request, method)
    if not built:
        raise _refusal(refused)
    public = n if private.neighbors == ADD_REMOVE else private.record_count
    whole, spread = _whole_information(private, public, reference)
    chosen = max(built, key=lambda mechanism: _known(mechanism.information))
    return SummaryPlan(
        private=private,
        mechanism=chosen,
        epsilon=request.epsilon,
        delta=request.delta,
        n=None if private.neighbors == ADD_REMOVE else private.record_count,
        weighed=tuple((m.method, at_most(float(m.information), whole)) for m in built),
        refused=tuple((name, _reason(error)) for name, error in refused.items()),
        whole=whole,
        spread=spread,
        guess=n,
        reference=reference,
        claims=_claims(private, n, reference),
        outside=outside_domain(private, reference),
        mechanism_at=partial(_mechanism_at, private, chosen.method, request),
    )


def _claims(private: PrivateModel, n: int | None, reference: Any) -> tuple[str, ...]:
    """What is taken on trust of the numbers by which a summary is planned."""
    guessed = private.neighbors == ADD_REMOVE and n is not None
    return (COUNT_CLAIM,) * guessed + (REFERENCE_CLAIM,) * (reference is not None)


def _mechanism_at(
    private: PrivateModel, method: str, request: SummaryRequest, epsilon: float
) -> Mechanism:
    """The same kind of mechanism at another epsilon, for comparisons."""
    return MECHANISMS[method](private, replace(request, epsilon=epsilon))


def _built_mechanisms(
    private: PrivateModel, request: SummaryRequest, method: str
) -> tuple[list[Mechanism], dict[str, PymcPrivateError]]:
    """The mechanisms that accept the model, and why the others do not.

    Cells that would cut a covariate are not built where another method accepts the model: they
    would not be chosen, and take longest.
    """
    built: list[Mechanism] = []
    refused: dict[str, PymcPrivateError] = {}
    for name in MECHANISMS if method == AUTO else (method,):
        if name == "records" and built:
            continue  # one outcome a record, which scores read with less simulation
        cut = cut_covariates(private) if built and name == "cells" else ()
        if cut:
            refused[name] = _cut_refusal(cut, built[0].method)
            continue
        say_stage(f"a summary by {name}")
        try:
            built.append(MECHANISMS[name](private, request))
        except PymcPrivateError as error:
            refused[name] = error
        except IndexError:
            if not any(source.is_whole for source in private.sources):
                raise
            refused[name] = _index_refusal(private)
    return built, refused


def _index_refusal(private: PrivateModel) -> DomainError:
    """Why a model cannot be planned whose private index may point outside of its array."""
    whole = ", ".join(f"'{s.name}' in {s.domain}" for s in private.sources if s.is_whole)
    return DomainError(
        "an array has no entry for some value of a private index",
        got=whole,
        allowed="a domain of the positions that the array has, such as range(5) of 5 groups",
        do='declare the positions: privatize(..., domain={"index": range(5)})',
    )


def cut_covariates(private: PrivateModel) -> tuple[str, ...]:
    """Private covariates of which a cell would hold several values; none if there are no cells."""
    from pymc_private.summaries.cells.cell_partition import covariate_axes
    from pymc_private.summaries.cells.cell_records import private_outcome

    try:
        outcome = private_outcome(private)
        axes = covariate_axes([s for s in private.sources if s is not outcome], 2)
    except PymcPrivateError:
        return ()
    return tuple(dict.fromkeys(axis.source for axis in axes if axis.is_cut))


def _cut_refusal(cut: tuple[str, ...], other: str) -> Unsupported:
    """Why cells are not weighed against a method that cuts no covariate."""
    names = ", ".join(f"'{name}'" for name in cut)
    return Unsupported(
        f"cells would take {names} as uniform within a cell, an error that neither the noise "
        f"accounts for nor the expected information; {other} need no such approximation",
        do="method='cells' for their expected information",
    )


def rebuilt_mechanism(private: PrivateModel, method: str, request: SummaryRequest) -> Mechanism:
    """The mechanism of a stored summary, for a model of the same structure."""
    if method not in MECHANISMS:
        raise Unsupported(
            "this summary was made by a method that this version does not know",
            got=method,
            allowed=", ".join(MECHANISMS),
            do="upgrade pymc_private",
        )
    return MECHANISMS[method](private, request)


def stored_request(
    private: PrivateModel, facts: Mapping[str, Any], released: Mapping[str, np.ndarray]
) -> SummaryRequest:
    """What a stored summary was asked for, for a model of the same structure."""
    from pymc_private.summaries.scores.reference import stored_rows

    reference = stored_rows(private, released)
    if (facts["mechanism"] or {}).get("known covariates"):
        reference = KnownCovariates(reference)
    epsilon, delta = float(facts["asked"]), as_float(facts["delta"])
    return SummaryRequest(epsilon, delta, facts["guess"], reference)


def _checked_request(
    private: PrivateModel, epsilon: Any, delta: Any, method: Any, reference: Any, n: Any
) -> SummaryRequest:
    """The arguments, checked."""
    if not (is_number(epsilon) and 0 < epsilon <= sys.float_info.max):
        raise DomainError(
            "epsilon must be positive and finite", got=repr(epsilon), allowed="epsilon > 0"
        )
    if not (is_number(delta) and 0.0 <= delta < 1.0):
        raise DomainError(
            "delta is a probability in [0, 1)",
            got=repr(delta),
            allowed="0 <= delta < 1",
        )
    if not isinstance(method, str) or method not in (AUTO, *MECHANISMS):
        raise DomainError(
            "there is no such kind of summary",
            got=repr(method)[:60],
            allowed=", ".join((AUTO, *MECHANISMS)),
        )
    if private.metric is not None or private.neighbors not in (SUBSTITUTE, ADD_REMOVE):
        raise Unsupported(
            "a summary protects whole records, not data sets at a distance",
            got=f"neighbors={private.metric or private.neighbors}",
            allowed='neighbors="substitute" or "add_remove"',
            do="privatize the model with one of these; or calibrate draws (release='draws')",
        )
    _refuse_other_likelihoods(private)
    _check_count(private, n)
    _refuse_other_units(private, reference)
    return SummaryRequest(float(epsilon), float(delta), n, reference)


def outside_domain(private: PrivateModel, reference: Any) -> tuple[tuple[str, int, int], ...]:
    """Names of covariates whose reference leaves their domain; rows outside, and all rows."""
    found, outcomes = [], {rv.name for rv in private.base.observed_RVs}
    for source, values in checked_reference(private, reference).items():
        if outcomes & {source.name, *source.aliases}:
            continue  # not used
        rows = np.moveaxis(np.asarray(values, float), source.axis, 0)
        clipped = np.moveaxis(np.asarray(nearest_entries(source, values), float), source.axis, 0)
        moved = np.abs(rows - clipped) > ROUNDING * (1.0 + np.abs(rows))
        outside = int(moved.reshape(len(rows), -1).any(axis=1).sum())
        if outside:
            found.append((source.name, outside, len(rows)))
    return tuple(found)


def _refuse_other_units(private: PrivateModel, reference: Any) -> None:
    """Refuse a reference most of which lies outside the domain."""
    for name, outside, rows in outside_domain(private, reference):
        if outside > MOST_OUTSIDE * rows:
            raise DomainError(
                f"most of the reference of '{name}' lies outside its declared domain",
                got=f"{outside} of {rows} rows",
                allowed="values of similar records in the units of the model, few of them outside",
                do="scale it as the model's data are scaled; or declare a domain that holds for "
                "every record",
            )


def _refuse_other_likelihoods(private: PrivateModel) -> None:
    """Refuse a tempered, clipped or scored likelihood: a summary has noise in its place."""
    if not private.changed_likelihood:
        return
    raise Unsupported(
        "a summary keeps the likelihood as the model states it",
        got=private.changed_likelihood,
        do="give the model as privatize returned it: noise takes the place of temper and clip",
    )


def _check_count(private: PrivateModel, n: Any) -> None:
    """Refuse few records, and a guess of their number where that is public."""
    if private.neighbors == ADD_REMOVE:
        inside = n is None or (is_number(n) and FEWEST_RECORDS <= n <= MAX_COUNT)
        if not inside or (n is not None and n != int(n)):
            raise DomainError(
                "n= is a public guess of the number of records, a whole number",
                got=f"n={short_repr(n)}",
                allowed=f"{FEWEST_RECORDS}, {FEWEST_RECORDS + 1}, ..., {MAX_COUNT}",
                do=f"leave n= out, and {ASSUMED_N} is taken",
            )
        return
    if n is not None and not equals(n, private.record_count):
        raise DomainError(
            "n= is for add/remove neighbors; here the number of records is public",
            got=f"n={short_repr(n)}",
            allowed=f"{private.record_count}, or nothing",
            do="leave n= out",
        )
    if private.record_count < FEWEST_RECORDS:
        raise DomainError(
            "too few records: the likelihood of a summary is normal by the central limit theorem",
            got=f"{private.record_count} records",
            allowed=f"{FEWEST_RECORDS} or more",
            do="release draws: calibrate(..., release='draws'); if these rows stand for those of a "
            "table, privatize(..., n=rows of the table)",
        )


def _refuse_pure(what: str, request: SummaryRequest) -> None:
    """Refuse delta = 0, which no Gaussian noise reaches."""
    if request.delta == 0:
        raise DomainError(
            f"{what} are released with Gaussian noise, which has no pure epsilon",
            got="delta=0",
            allowed="delta > 0, such as 1e-6",
            do="a small delta; or method='cells', whose discrete Laplace noise is pure",
        )


def _known(information: float) -> float:
    return -math.inf if math.isnan(information) else information


def _whole_information(
    private: PrivateModel, n: int | None, reference: Any
) -> tuple[float, tuple[float, float]]:
    """Information expected without a budget, and its spread; NaN where nothing is simulated."""
    try:
        found = simulated_information(private, n, reference)
    except Unsupported:
        return math.nan, (math.nan, math.nan)
    return found.gain(private, 1.0), found.spread(private)


def _reason(error: PymcPrivateError) -> str:
    """The problem of a refusal and what was got, in a line."""
    return error.problem if error.got is None else f"{error.problem} ({error.got})"


def _refusal(refused: dict[str, PymcPrivateError]) -> PymcPrivateError:
    """The error where no mechanism accepts the model: the common one, or all reasons."""
    first, *others = refused.values()
    if all(_reason(error) == _reason(first) for error in others):
        return first
    return Unsupported(
        "no summary fits this model; nothing was charged",
        got="; ".join(f"{name}: {_reason(error)}" for name, error in refused.items()),
        allowed="one scalar outcome in each record (scores), several and no private covariate "
        "(records), or up to 4 dimensions (cells)",
        do="; ".join((*_cures(refused), "or draws: calibrate(..., release='draws')")),
    )


def _cures(refused: dict[str, PymcPrivateError]) -> list[str]:
    """What each refusal advises, once, without the methods that were refused as well."""
    found: dict[str, list[str]] = {}
    for name, error in refused.items():
        advice = str(error.do or "")
        if advice.startswith("method="):
            advice = advice.partition(", or ")[2]
        if advice:
            found.setdefault(advice, []).append(name)
    return [f"{', '.join(names)}: {advice}" for advice, names in found.items()]


def weigh(draws: float, summary: SummaryPlan) -> tuple[bool, str]:
    """Whether a summary promises more than draws that are expected to give so many nats, and why.

    Unknown information of either side decides for the side that is known.
    """
    found = summary.nats
    known = [f"{format_number(v, 3, up=False)} nats" if v == v else "not known" for v in
             (found, draws)]  # fmt: skip
    better = _known(found) >= _known(draws)
    what = f"a summary ({summary.mechanism.method})"
    learned = f"{what} {known[0]}, draws {known[1]} (less their own noise)"
    taken = "the summary is taken" if better else "draws are taken"
    both = found == found and draws == draws
    why = "it should learn more" if both and better else "they should learn more" if both else ""
    return better, f"expected information: {learned}; {taken}" + (f", as {why}" if why else "")
