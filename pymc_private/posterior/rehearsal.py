"""Rehearsal of a charged draw: all of it, on records that stand in for the private ones.

Before the charge the plan's sampler makes one draw from the posterior of made-up records of the
domain, and the release is built and serialized. Whatever fails there fails free of charge. The
rehearsal depends on plan, domain and number of records alone: the model is copied without its
data, and a public seed makes the records and the draw. It is short: after `MOST_SECONDS` of
drawing, or a few steps of NUTS, it counts as passed. Whether a draw fails can depend on what the
records are, so it is refused only if it fails on every kind of them: uniform on the domain, all at
one corner, simulated from the prior.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import numpy as np
from pymc.exceptions import SamplingError

from pymc_private.errors import PymcPrivateError, Unsupported
from pymc_private.models.made_up_records import REHEARSAL_SEED, stand_in_models
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import temporary_records
from pymc_private.posterior.assemble import assemble
from pymc_private.posterior.plan import Plan
from pymc_private.release.charge import suppress_warnings
from pymc_private.release.draws_job import check_storable
from pymc_private.samplers.executors import try_executor
from pymc_private.samplers.method import Boxes, Nuts, Proximal
from pymc_private.samplers.randomness import SeededRandomness

MOST_SECONDS = 1.0
"""Seconds of drawing, counted from the first random number; what comes before is not cut short."""
NUTS_STEPS = 2
"""Steps that adapt, in a rehearsed run of NUTS."""


def rehearse_draw(
    plan: Plan, name: str | None, executor: Executor | None, clip: Callable[[PrivateModel], None]
) -> None:
    """Draw once from made-up records and build the release, to fail before the charge.

    `clip` is the first part of a charged draw: it moves the data of a model into their domain.
    Reads no data.

    Raises
    ------
    Unsupported
        It fails, whatever the records are.
    PymcPrivateError
        The workers of the executor cannot receive the model.
    """
    failures: list[BaseException] = []
    with temporary_records(plan.private.graph):
        for private in stand_in_models(plan.private):
            if isinstance(plan.method, Boxes | Proximal | Nuts):  # the others draw in this process
                try_executor(executor, private)
            try:
                with suppress_warnings():
                    clip(private)
                    _draw_and_build(plan, private, name)
                return
            except (KeyboardInterrupt, MemoryError):
                raise
            except BaseException as failure:  # also SystemExit and panics of Rust, as in the draw
                failures.append(failure)
    if failures and not any(_depends_on_start(failure) for failure in failures):
        raise _refusal(failures[0]) from failures[0]


def _draw_and_build(plan: Plan, private: PrivateModel, name: str | None) -> None:
    """Draw once, build a release of as many copies as the plan has draws, and serialize it."""
    method = plan.method
    if isinstance(method, Nuts):
        method = replace(method, tune=min(method.tune, NUTS_STEPS))
    randomness = RehearsalRandomness(np.random.default_rng(REHEARSAL_SEED))
    try:
        drawn = method.sample(private, 1, randomness, randomness.progress)
    except LongEnough:
        return
    values = {key: np.repeat(drawn[key], plan.draws, axis=0) for key in private.shapes}
    check_storable(assemble(plan, values, name, {}))


def _depends_on_start(failure: BaseException) -> bool:
    """Whether the density was zero where NUTS started, which other records may change."""
    text = str(failure).lower()
    return isinstance(failure, SamplingError) or (
        isinstance(failure, RuntimeError) and "initialization points failed" in text  # of nutpie
    )


def _refusal(failure: BaseException) -> Unsupported:
    """The error of a draw that fails; its text is about made-up records, so it may be shown."""
    problem = failure.problem if isinstance(failure, PymcPrivateError) else str(failure)
    lines = problem.strip().splitlines()
    return Unsupported(
        "the draw fails, and would fail after the charge; nothing was charged",
        got=f"{type(failure).__name__}: {lines[0] if lines else ''}",
        allowed="a draw that succeeds in a rehearsal on made-up records of the domain",
        do="another sampler: plan.alternatives() lists them; or write the model in another way",
    )


class LongEnough(BaseException):
    """The rehearsal has drawn for as long as it may."""


@dataclass(frozen=True)
class RehearsalRandomness(SeededRandomness):
    """Seeded uniform numbers that end the rehearsal after `MOST_SECONDS`."""

    started: list[float] = field(default_factory=list)

    def progress(self, done: int) -> None:
        """Raise `LongEnough` if the first call was too long ago."""
        now = time.perf_counter()
        if not self.started:
            self.started.append(now)
        if now - self.started[0] > MOST_SECONDS:
            raise LongEnough

    def uniform(self, size: int) -> np.ndarray:
        """As `SeededRandomness`."""
        self.progress(0)
        return super().uniform(size)

    def words(self, size: int) -> np.ndarray:
        """As `SeededRandomness`."""
        self.progress(0)
        return super().words(size)

    def below(self, end: int) -> int:
        """As `SeededRandomness`."""
        self.progress(0)
        return super().below(end)
