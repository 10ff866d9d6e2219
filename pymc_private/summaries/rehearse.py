"""Rehearsal of a charged summary: all of it, on records that stand in for the private ones.

The mechanism releases a summary of made-up records of the domain, which is built, written and read
as the true one will be; then its PyMC model is built and its likelihood evaluated. Whatever fails
there fails free of charge. What fails can depend on the records, so that a rehearsal is refused
only if it fails on every kind of them: simulated from the prior, uniform on the domain, all at one
corner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pymc_private.errors import PymcPrivateError, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.release.charge import suppress_warnings
from pymc_private.summaries.protocol import Released
from pymc_private.summaries.summary import Summary
from pymc_private.summaries.summary_contents import shapes_of
from pymc_private.summaries.summary_plan import SummaryPlan


@dataclass(frozen=True)
class Rehearsal:
    """What a rehearsal learned: names, types and shapes of all that will leave."""

    shapes: dict[str, tuple[str, tuple[int, ...]]]


def rehearse_summary(
    plan: SummaryPlan,
    stand_ins: Iterable[PrivateModel],
    release: Callable[[PrivateModel], Released],
    build: Callable[[Released], Summary],
) -> Rehearsal:
    """Release, build, write, read and model a summary of made-up records; reads no data.

    Parameters
    ----------
    plan : SummaryPlan
    stand_ins : iterable of PrivateModel
        The model with made-up records of several kinds; one that passes is enough.
    release, build : callable
        The parts of the charged release.

    Raises
    ------
    Unsupported
        It fails, whatever the records are.
    """
    failures: list[BaseException] = []
    for private in stand_ins:
        try:
            with suppress_warnings():
                released = release(private)
                summary = build(released)
                Summary.from_bytes(summary.to_bytes())
                _try_likelihood(plan, summary)
                try_model(plan, summary)
            return Rehearsal(shapes_of(released))
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as failure:  # also SystemExit and panics of Rust, as in the release
            failures.append(failure)
    if not failures:
        raise Unsupported(
            "a summary of this model cannot be rehearsed; nothing was charged",
            got="no records can be made up of its domain",
            do="declare Interval, Categories, Ball, Simplex or Counts",
        )
    raise _refusal(failures[0]) from failures[0]


def _try_likelihood(plan: SummaryPlan, summary: Summary) -> None:
    """Evaluate the likelihood of the summary at its center."""
    mechanism, released = plan.mechanism, summary.released
    center, covariance = mechanism.start(released)
    value = mechanism.log_likelihood(released)(np.asarray(center)[None])
    if not (np.isfinite(value).all() and np.isfinite(covariance).all()):
        raise ArithmeticError("the likelihood of the summary is not finite at its center")


def try_model(plan: SummaryPlan, summary: Summary) -> None:
    """Build the model of the summary, once for each plan."""
    if plan.__dict__.get("_model_builds"):
        return
    summary.with_origin(plan.private, plan.mechanism).model(accept=True)
    plan.__dict__["_model_builds"] = True


def _refusal(failure: BaseException) -> PymcPrivateError:
    """The error of a release that fails; its text is about made-up records, so it may be shown."""
    problem = failure.problem if isinstance(failure, PymcPrivateError) else str(failure)
    lines = problem.strip().splitlines()
    return Unsupported(
        "the summary fails, and would fail after the charge; nothing was charged",
        got=f"{type(failure).__name__}: {lines[0] if lines else ''}",
        allowed="a summary that succeeds in a rehearsal on made-up records of the domain",
        do="another method= of calibrate(..., release='summary'), or draws (release='draws')",
    )
