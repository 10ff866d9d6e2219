"""The charged draw: the one place besides `privatize` where data are read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from pymc_private.errors import PymcPrivateError
from pymc_private.models.plan import Plan
from pymc_private.samplers.boxes import sample_boxes
from pymc_private.samplers.randomness import (
    SeededRandomness,
    SystemRandomness,
    Uniform,
    round_to_grid,
)
from pymc_private.samplers.target import Target

STOPPED = (
    "The draw was stopped. It is charged, nothing is released, and the ledger keeps the charge. "
    "Publishing the fact that it was stopped is not covered by the guarantee."
)


class StoppedDraw(KeyboardInterrupt):
    """Ctrl-C during a draw: charged, nothing released."""


def system() -> Uniform:
    """Randomness for a release."""
    return SystemRandomness()


def seeded(seed: int) -> Uniform:
    """Randomness for a run that is not private."""
    return SeededRandomness.from_seed(seed)


def charged_draw(plan: Plan, randomness: Uniform, progressbar: bool) -> dict[str, np.ndarray]:
    """Draw what a plan says, rounded to the public grid of its box.

    Parameters
    ----------
    plan : Plan
        Already charged.
    randomness : Uniform
    progressbar : bool

    Returns
    -------
    dict of str to array, shape (draws, ...)

    Raises
    ------
    StoppedDraw
        Ctrl-C. The charge stays.
    PymcPrivateError
        The draw failed; the cause is withheld, since it may depend on the data.
    """
    try:
        target = Target(plan.private)
        with _bar(plan.draws, progressbar) as progress:
            points = sample_boxes(target, plan.draws, randomness, progress)
        return target.unpack(round_to_grid(points, target.lower, target.upper))
    except KeyboardInterrupt:
        raise StoppedDraw(STOPPED) from None
    except Exception as error:
        raise PymcPrivateError(
            "the draw failed after it was charged; nothing is released",
            got=type(error).__name__,
            do="the cause may depend on the data and is not shown; publishing the failure is not "
            "covered by the guarantee",
        ) from None


@contextlib.contextmanager
def _bar(total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on the curator's screen."""
    if not show:
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("private draws", total=total)
        yield lambda done: bar.update(task, completed=done)
