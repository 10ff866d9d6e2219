"""Outputs of a mechanism on one data set, many times, over processes."""

from __future__ import annotations

import cloudpickle
import numpy as np
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, TypeAlias
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import whole

Data: TypeAlias = Mapping[str, np.ndarray]
"""Arrays by name; the first axis counts the records."""
Mechanism: TypeAlias = Callable[[Any, int, int], Any]
"""``mechanism(data, draws, seed)`` gives as many independent outputs, shape (draws, ...)."""


def outputs(
    mechanism: Mechanism,
    data: Any,
    draws: int,
    *,
    executor: Executor | None = None,
    chunks: int | None = None,
    random_seed: int = 0,
) -> np.ndarray:
    """Run a mechanism many times on one data set.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, draws, seed)``, anybody's; returns independent outputs, shape
        (draws, ...). The seed is for tests: a mechanism with randomness of its own ignores it.
    data : object
        Passed on.
    draws : int
    executor : concurrent.futures.Executor, optional
        Runs the chunks: processes, Dask, ... Default: this process.
    chunks : int, optional
        Pieces of work, each with a seed of its own; default one for each worker, where that is
        known, else 8.
    random_seed : int

    Returns
    -------
    array, shape (draws, d)

    Raises
    ------
    DomainError
        The mechanism gave another number of outputs.
    """
    count = whole(draws, "draws")
    wanted = getattr(executor, "_max_workers", 8) if chunks is None else whole(chunks, "chunks")
    pieces = min(wanted, count) if executor is not None else 1
    sizes = [count // pieces + (k < count % pieces) for k in range(pieces)]
    children = np.random.SeedSequence(random_seed).spawn(pieces)
    seeds = [int(child.generate_state(1)[0]) for child in children]
    if executor is None:
        parts = [np.asarray(mechanism(data, sizes[0], seeds[0]))]
    else:
        work = cloudpickle.dumps((mechanism, data))
        parts = list(executor.map(_run, [work] * pieces, sizes, seeds))
    found = np.concatenate(parts)
    if len(found) != count:
        raise DomainError(
            "the mechanism gave another number of outputs", got=len(found), allowed=count
        )
    return found.reshape(count, -1)


def _run(work: bytes, draws: int, seed: int) -> np.ndarray:
    mechanism, data = cloudpickle.loads(work)
    return np.asarray(mechanism(data, draws, seed))
