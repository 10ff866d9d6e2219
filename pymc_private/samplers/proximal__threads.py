"""Threads over the pieces of a sum, as many as linear algebra was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from threadpoolctl import threadpool_info, threadpool_limits

Map = Callable[..., Any]
"""What `map` does, on threads or without."""


def allowed() -> int:
    """How many threads BLAS has; 1 where none is known."""
    known = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
    return max(known, default=1)


@contextmanager
def threads() -> Iterator[Map]:
    """Give `map` on as many threads as BLAS has, which does with one of its own meanwhile.

    `OMP_NUM_THREADS` and its kind, and Dask, so set how many. Inside, BLAS of the whole process has
    one thread.
    """
    count = allowed()
    if count < 2:
        yield map
        return
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(count) as pool:
        yield pool.map
