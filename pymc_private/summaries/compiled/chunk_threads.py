"""Chunks of rows in several threads, where loops are compiled and so leave other threads alone.

What is done with a chunk is a function of the chunk, and what is made of the results are sums of
integers: neither threads nor the order in which they finish change a bit.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from pymc_private.summaries.compiled.compiler import COMPILER

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")
MOST_THREADS = 4
"""One thread reads the table: more would wait for it."""


def available_threads() -> int:
    """Threads that are worth it: 1 without compiled loops."""
    if COMPILER.loops is None:
        return 1
    usable = getattr(os, "sched_getaffinity", None)  # not everywhere
    return min(MOST_THREADS, len(usable(0)) if usable else os.cpu_count() or 1)


def each_chunk(
    function: Callable[[Chunk], Result], chunks: Iterable[Chunk], threads: int | None = None
) -> Iterator[Result]:
    """A function of each chunk, in any order; no more than a few chunks wait at a time.

    The first chunk is done alone: what is built at the first call is built by one thread.
    """
    left = iter(chunks)
    for chunk in left:
        yield function(chunk)
        break
    count = available_threads() if threads is None else threads
    if count < 2:
        yield from map(function, left)
        return
    # Programs silence warnings by settings that threads share: no thread may find them restored.
    with warnings.catch_warnings(), ThreadPoolExecutor(count) as pool:
        warnings.simplefilter("ignore")
        waiting: set[Future[Any]] = set()
        for chunk in left:
            waiting.add(pool.submit(function, chunk))
            if len(waiting) > 2 * count:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (one.result() for one in done)
        yield from (one.result() for one in waiting)
