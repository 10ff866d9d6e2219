"""The charged draw: the one place besides `privatize` where data are read."""

from __future__ import annotations

import contextlib
import warnings
import numpy as np
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, TypeVar
from pymc_private.errors import PymcPrivateError
from pymc_private.posterior.assemble__guards import clip_again
from pymc_private.posterior.plan import Plan
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness, Uniform

STOPPED = (
    "The draw was stopped. It is charged, nothing is released, and the ledger keeps the charge. "
    "Publishing the fact that it was stopped is not covered by the guarantee."
)
STOPPED_LATE = (
    "Stopped after the draw was finished and charged, while its release was being stored. The "
    "ledger keeps the charge, and the release too if it came to that: sample() with the same name "
    "and plan then returns it free; without a name it is Release.from_bytes(ledger.fetch(entry)) "
    "for the last of ledger.entries."
)
KEPT = (
    "the ledger keeps the release: save it elsewhere. It is `release` of this error; sample() with "
    "the same name and plan returns it free; without a name it is "
    "Release.from_bytes(ledger.fetch(entry)) for the last of ledger.entries"
)
UNKEPT = (
    "the charge stands, and the ledger does not keep the release: save it, it is `release` of this "
    "error; drawing again would be charged again"
)
Result = TypeVar("Result")


class StoppedDraw(KeyboardInterrupt):
    """Ctrl-C after a charge; the message says what became of the release."""


class UnsavedRelease(PymcPrivateError):
    """A release that was made and could not be stored.

    Attributes
    ----------
    release : Release
    """

    def __init__(self, problem: str, *, release: Any, **rows: object) -> None:
        self.release = release
        super().__init__(problem, **rows)


def unsaved(release: Any, error: Exception, problem: str, do: str) -> UnsavedRelease:
    """What went wrong with a release that was made; `do` says what became of the charge."""
    words = error.problem if isinstance(error, PymcPrivateError) else str(error)
    got = f"{type(error).__name__}: {words}"
    return UnsavedRelease(problem, release=release, got=got, do=do)


def stoppable(work: Callable[[], Result], message: str = STOPPED) -> Result:
    """Do what was paid for; Ctrl-C says what it means for the charge.

    Raises
    ------
    StoppedDraw
        Ctrl-C. The charge stays.
    """
    with contextlib.suppress(KeyboardInterrupt):
        return work()
    # Raised out here, the error has no context, whose traceback could show data.
    raise StoppedDraw(message) from None


def private_draw(
    plan: Plan, progressbar: bool, executor: Executor | None = None
) -> dict[str, np.ndarray]:
    """Draw what a plan says, by randomness that nobody can repeat.

    Parameters
    ----------
    plan : Plan
        Already charged.
    progressbar : bool
    executor : Executor, optional
        Where independent chains may run.

    Returns
    -------
    dict of str to array, shape (draws, ...)
        On the public grid of its box.
    """
    return _draw(plan, SystemRandomness(), progressbar, executor)


def withheld(work: Callable[[], Result]) -> Result:
    """Do what was paid for; of a failure only the kind is told.

    Raises
    ------
    PymcPrivateError
        It failed; the cause may depend on the data.
    """
    try:
        with silence():
            return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, a panic of Rust: with words of their own
        cause = type(error).__name__
    raise PymcPrivateError(
        "the draw failed after it was charged; nothing is released",
        got=cause,
        do="the cause may depend on the data and is not shown; publishing the failure is not "
        "covered by the guarantee",
    ) from None


def seeded_draw(plan: Plan, seed: int, progressbar: bool) -> dict[str, np.ndarray]:
    """Draw reproducibly: not private, charges nothing."""
    return _draw(plan, SeededRandomness.from_seed(seed), progressbar)


def _draw(
    plan: Plan, randomness: Uniform, progressbar: bool, executor: Executor | None = None
) -> dict[str, np.ndarray]:
    with silence(), bar(plan.draws, progressbar) as progress:
        clip_again(plan.private)
        return plan.method.sample(plan.private, plan.draws, randomness, progress, executor)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """No warning, of NumPy's or of anybody's, may tell what the data made overflow."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def bar(total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on the curator's screen."""
    if not show:
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("private draws", total=total)
        yield lambda done: bar.update(task, completed=done)
