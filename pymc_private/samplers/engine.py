"""Independent draws on any executor of `concurrent.futures`: processes, Dask, Ray."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor, as_completed
from typing import Any

import numpy as np

from pymc_private.errors import PymcPrivateError
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness, Uniform

Draws = dict[str, np.ndarray]
Progress = Callable[[int], None]
Work = Callable[[Any, int, Uniform], Draws]
PARTS = 8
"""Most parts a draw is cut into: public, so how many workers there were tells nothing."""


def spread(
    work: Work,
    private: Any,
    draws: int,
    randomness: Uniform,
    progress: Progress,
    executor: Executor | None,
) -> Draws:
    """Make independent draws in parts.

    Parameters
    ----------
    work : callable
        (private model, number of draws, randomness) -> draws; importable where it runs.
    private : PrivateModel
    draws : int
    randomness : Uniform
        Each part takes fresh entropy where it runs; only a seed is handed on.
    progress : callable
    executor : Executor or None
        None: here.

    Returns
    -------
    dict of str to array
        In the order of the parts.

    Raises
    ------
    PymcPrivateError
        A part failed. Its cause may depend on the data and does not travel.
    """
    counts = [len(part) for part in np.array_split(np.arange(draws), min(PARTS, draws))]
    if executor is None:
        return work(private, draws, randomness)
    seeds = [_seed(randomness) for _ in counts]
    futures = {
        executor.submit(_part, work, private, count, seed): k
        for k, (count, seed) in enumerate(zip(counts, seeds, strict=True))
    }
    found: dict[int, Draws] = {}
    try:
        for future in as_completed(futures):
            answer = future.result()
            if isinstance(answer, str):
                raise PymcPrivateError("a worker failed", got=answer)
            found[futures[future]] = answer
            progress(sum(counts[k] for k in found))
    finally:
        for future in futures:
            future.cancel()
    return {name: np.concatenate([found[k][name] for k in range(len(counts))]) for name in found[0]}


def _seed(randomness: Uniform) -> int | None:
    """A seed for a part where everything is seeded, else nothing: parts take their own entropy."""
    return randomness.below(2**63) if isinstance(randomness, SeededRandomness) else None


def _part(work: Work, private: Any, count: int, seed: int | None) -> Draws | str:
    """One part, in a worker. What failed is named and nothing more leaves, not even a log."""
    source = SystemRandomness() if seed is None else SeededRandomness.from_seed(seed)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work(private, count, source)
    except Exception as error:
        return type(error).__name__
