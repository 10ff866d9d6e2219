"""The choice of a summary mechanism for a model, from public facts alone.

Every mechanism that accepts the model is built and asked for its expected information; the one
that promises most is taken. One that assumes the distribution of private covariates (cells that
cut an interval take it as uniform inside them) is taken only where no other accepts the model. The
others, and the reasons of those that refuse the model, stand in the plan. No data are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pymc_private.errors import DomainError, PymcPrivateError, Unsupported
from pymc_private.models.information import ASSUMED_N, simulated_information
from pymc_private.models.private_model import PrivateModel, require_private_model
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import is_number
from pymc_private.summaries.protocol import Mechanism
from pymc_private.summaries.summary_plan import SummaryPlan

AUTO = "auto"
FEWEST_RECORDS = 30
"""The likelihood of a summary rests on the central limit."""
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
    from pymc_private.summaries.model_scores import score_mechanism
    from pymc_private.summaries.noise import largest_mu

    _refuse_pure("noisy scores", request)
    mu = largest_mu(request.epsilon, request.delta)
    return score_mechanism(private, mu, reference=request.reference, n=request.n)


def _cells(private: PrivateModel, request: SummaryRequest) -> Mechanism:
    """Noisy counts of public cells (T33), by whichever noise is less; pure where delta is zero."""
    from pymc_private.summaries.cells import cell_mechanism

    return cell_mechanism(private, request.epsilon, request.delta, n=request.n)


def _sums(private: PrivateModel, request: SummaryRequest) -> Mechanism:
    """Noisy sums of conjugate families (T35)."""
    from pymc_private.summaries.noise import largest_mu
    from pymc_private.summaries.sums import SumMechanism

    _refuse_pure("noisy sums", request)
    return SumMechanism(private, largest_mu(request.epsilon, request.delta), n=request.n)


MECHANISMS: dict[str, Callable[[PrivateModel, SummaryRequest], Mechanism]] = {
    "scores": _scores,
    "cells": _cells,
    "sums": _sums,
}
"""What builds each mechanism; each refuses a model that it does not fit."""
METHODS = ("scores", "cells", "sums")


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
    method : {"auto", "scores", "cells", "sums"}
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
    request = _checked_request(private, epsilon, delta, method, reference, n)
    built: list[Mechanism] = []
    refused: dict[str, PymcPrivateError] = {}
    for name in MECHANISMS if method == AUTO else (method,):
        try:
            built.append(MECHANISMS[name](private, request))
        except PymcPrivateError as error:
            refused[name] = error
    if not built:
        raise _refusal(refused)
    public = n if private.neighbors == ADD_REMOVE else private.n
    best = max(built, key=_rank)
    return SummaryPlan(
        private=private,
        mechanism=best,
        epsilon=request.epsilon,
        delta=request.delta,
        n=None if private.neighbors == ADD_REMOVE else private.n,
        weighed=tuple((m.method, float(m.information)) for m in built),
        assuming=tuple(m.method for m in built if assumes_uniform(m)),
        refused=tuple((name, _reason(error)) for name, error in refused.items()),
        whole=_whole_information(private, public, reference),
        guess=n,
        reference=reference,
        claims=() if reference is None else (REFERENCE_CLAIM,),
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


def _checked_request(
    private: PrivateModel, epsilon: Any, delta: Any, method: Any, reference: Any, n: Any
) -> SummaryRequest:
    """The arguments, checked."""
    if not (is_number(epsilon) and math.isfinite(epsilon) and epsilon > 0):
        raise DomainError(
            "epsilon must be positive and finite", got=repr(epsilon), allowed="epsilon > 0"
        )
    if not (is_number(delta) and 0.0 <= delta < 1.0):
        raise DomainError(
            "delta is a probability below 1", got=repr(delta), allowed="0 <= delta < 1"
        )
    if method not in (AUTO, *MECHANISMS):
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
    return SummaryRequest(float(epsilon), float(delta), n, reference)


def _refuse_other_likelihoods(private: PrivateModel) -> None:
    """Refuse a tempered or clipped likelihood: a summary has noise in its place."""
    if private.power == 1 and private.graph.clip is None:
        return
    raise Unsupported(
        "a summary keeps the likelihood as the model states it",
        got="a clipped likelihood" if private.graph.clip is not None else "a tempered likelihood",
        do="give the model as privatize returned it: noise takes the place of temper and clip",
    )


def _check_count(private: PrivateModel, n: Any) -> None:
    """Refuse few records, and a guess of their number where that is public."""
    if private.neighbors == ADD_REMOVE:
        if n is not None and not (is_number(n) and n == int(n) and n >= FEWEST_RECORDS):
            raise DomainError(
                "n= is a public guess of the number of records",
                got=repr(n)[:40],
                allowed=f"{FEWEST_RECORDS}, {FEWEST_RECORDS + 1}, ...",
                do=f"leave it out for {ASSUMED_N}",
            )
        return
    if n is not None and n != private.n:
        raise DomainError(
            "n= is for add/remove neighbors; here the number of records is public",
            got=n,
            allowed=f"{private.n}, or nothing",
        )
    if private.n < FEWEST_RECORDS:
        raise DomainError(
            "a summary of so few records is no summary: its likelihood rests on the central limit",
            got=f"{private.n} records",
            allowed=f"{FEWEST_RECORDS} or more",
            do="release draws: calibrate(..., release='draws')",
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


def assumes_uniform(mechanism: Mechanism) -> bool:
    """Whether a distribution of private covariates is assumed, which simulations cannot judge."""
    return bool(mechanism.facts.get("assumed_uniform"))


def _rank(mechanism: Mechanism) -> tuple[bool, float]:
    """The order of mechanisms: first those that assume no such distribution, then information."""
    return not assumes_uniform(mechanism), _known(mechanism.information)


def _known(information: float) -> float:
    return -math.inf if math.isnan(information) else information


def _whole_information(private: PrivateModel, n: int | None, reference: Any) -> float:
    """Information expected without a budget; NaN where no records can be simulated."""
    try:
        return simulated_information(private, n, reference).gain(private, 1.0)
    except Unsupported:
        return math.nan


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
        allowed="one scalar outcome in each record, or records of up to 4 dimensions (cells)",
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
    return better, f"expected information: {learned}"
