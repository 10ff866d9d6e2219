"""Independent draws on executors of `concurrent.futures`: processes, Dask, Ray.

Draws are made in a public number of parts, each with fresh entropy where it runs. Of a part
that fails only the type of the error returns, since its message may depend on the data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor, Future, as_completed
from typing import Any

import numpy as np

from pymc_private.errors import DomainError, PymcPrivateError
from pymc_private.samplers.randomness import (
    Draws,
    Progress,
    Randomness,
    SeededRandomness,
    SystemRandomness,
)

DrawFunction = Callable[[Any, int, Randomness], Draws]
MOST_PARTS = 8
"""Most parts a request is split into. Public, so the number of workers reveals nothing."""
EXECUTOR_HINT = (
    "a ProcessPoolExecutor in its 'with' block, client.get_executor() of Dask, or no executor="
)


def check_executor(executor: Any) -> None:
    """Refuse an object that is no executor, before any work is submitted.

    Raises
    ------
    DomainError
        It has no `submit`, or is a class.
    """
    if executor is None or (
        not isinstance(executor, type) and callable(getattr(executor, "submit", None))
    ):
        return
    got = executor.__name__ if isinstance(executor, type) else type(executor).__name__
    raise DomainError(
        "this is no executor; nothing was charged",
        got=f"the class {got}" if isinstance(executor, type) else got,
        allowed="an executor of concurrent.futures",
        do=EXECUTOR_HINT,
    )


def try_executor(executor: Executor | None, sent: Any = None) -> None:
    """Run a public task on a worker, so that a broken executor fails before the charge.

    The worker receives what is `sent`, a model without its data.

    Raises
    ------
    PymcPrivateError
        It accepts no work, the work fails, or its result is no `concurrent.futures.Future`.
    """
    if executor is None:
        return
    try:
        future: Any = executor.submit(_worker_ready, sent)
        answer = future.result()
        works = isinstance(future, Future) and answer is True
        problem = f"{type(future).__name__}, and no Future of concurrent.futures"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a worker that leaves raises SystemExit here
        works, problem = False, type(error).__name__
    if not works:
        raise PymcPrivateError(
            "the executor does no work; nothing was charged",
            got=problem,
            allowed="an executor that is open, whose workers can import pymc_private "
            "and receive the model",
            do=EXECUTOR_HINT,
        )


def _worker_ready(sent: Any) -> bool:
    """Run a task that succeeds only where this module can be imported, and what is sent arrives."""
    return True


def draw_in_parts(
    work: DrawFunction,
    private: Any,
    draws: int,
    randomness: Randomness,
    progress: Progress,
    executor: Executor | None,
) -> Draws:
    """Make independent draws in parts, concatenated in the order of the parts.

    `work` makes draws of a private model from their number and a source of randomness, and must be
    importable on workers. Each part takes fresh entropy where it runs; only a seed is passed on.
    With no executor all draws are made in this process, in one part.

    Raises
    ------
    PymcPrivateError
        A part failed. The cause may depend on the data, so only the type of the error is given.
    """
    counts = [len(part) for part in np.array_split(np.arange(draws), min(MOST_PARTS, draws))]
    if executor is None:
        return work(private, draws, randomness)
    seeds = [_part_seed(randomness) for _ in counts]
    futures = {
        executor.submit(_draw_part, work, private, count, seed): k
        for k, (count, seed) in enumerate(zip(counts, seeds, strict=True))
    }
    found: dict[int, Draws] = {}
    try:
        for future in as_completed(futures):
            answer = future.result()
            if isinstance(answer, str):
                raise PymcPrivateError(
                    "a worker failed",
                    got=answer,
                    allowed="workers with the packages and the memory that the draws need",
                    do="draw from the model on made-up records, without executor=: of private ones "
                    "no more than the type of an error is shown",
                )
            found[futures[future]] = answer
            progress(sum(counts[k] for k in found))
    finally:
        for future in futures:
            future.cancel()
    return {name: np.concatenate([found[k][name] for k in range(len(counts))]) for name in found[0]}


def _part_seed(randomness: Randomness) -> int | None:
    """A seed for a part if the request is seeded, else None: parts take their own entropy."""
    return randomness.below(2**63) if isinstance(randomness, SeededRandomness) else None


def _draw_part(work: DrawFunction, private: Any, count: int, seed: int | None) -> Draws | str:
    """Draw one part in a worker; of an error only the name of its type returns, not even a log."""
    source = SystemRandomness() if seed is None else SeededRandomness.from_seed(seed)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work(private, count, source)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit and Rust panics, whose messages may show data
        return type(error).__name__
