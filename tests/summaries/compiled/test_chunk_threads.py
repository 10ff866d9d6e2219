"""Chunks in threads: each of them once, a few at a time, and errors and warnings as in one."""

import threading
import warnings

import numpy as np
import pytest

from pymc_private.summaries import weighted_sums
from pymc_private.summaries.compiled.chunk_threads import available_threads, each_chunk
from pymc_private.summaries.compiled.compiler import COMPILER
from pymc_private.summaries.weighted_sums import BoundedSum, WeightedSums


def test_sums_count_each_row_once_in_any_number_of_threads(monkeypatch):
    rng, sums = np.random.default_rng(0), (BoundedSum(1.0, False, 0.5), BoundedSum(0.3, True, 0.8))
    chunks = [
        (rng.random(40) < 0.4, [rng.normal(size=(40, 3)), 0.4 * rng.normal(size=(40, 1, 3))])
        for _ in range(60)
    ]
    expected = WeightedSums(sums, 229).added(chunks).totals
    for threads in (2, 4):
        monkeypatch.setattr(
            weighted_sums,
            "each_chunk",
            lambda function, given, count=threads: each_chunk(function, given, count),
        )
        assert WeightedSums(sums, 229).added(chunks).totals == expected


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_chunk_is_taken_once_and_few_of_them_wait(threads):
    taken, finished, most = 0, 0, 0

    def chunks():
        nonlocal taken, most
        for k in range(50):
            taken += 1
            most = max(most, taken - finished)
            yield k

    first, seen = threading.get_ident(), []
    for result in each_chunk(lambda k: (k, threading.get_ident()), chunks(), threads):
        finished += 1
        seen.append(result)
    assert sorted(k for k, _ in seen) == list(range(50))
    assert seen[0] == (0, first)  # alone, in the caller's thread
    assert most <= 2 * threads + 2
    assert all(ident == first for _, ident in seen) == (threads == 1)
    assert list(each_chunk(str, [], threads)) == []


def test_errors_of_chunks_and_of_what_gives_them_are_raised():
    def broken():
        yield from range(9)
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        list(each_chunk(str, broken(), 2))
    with pytest.raises(ZeroDivisionError):
        list(each_chunk(lambda k: 1 / (5 - k), range(9), 2))


def test_threads_leave_the_filters_of_warnings_as_they_were():
    def silenced(k):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("never seen", stacklevel=1)
        if k:
            warnings.warn("nor this one", stacklevel=1)  # another thread may restore the filters
        return k

    before = list(warnings.filters)
    with warnings.catch_warnings(record=True) as seen:
        assert len(list(each_chunk(silenced, range(200), 4))) == 200
    assert not seen
    assert list(warnings.filters) == before


def test_there_is_one_thread_without_compiled_loops(monkeypatch):
    monkeypatch.setattr(COMPILER, "agreeing", None)
    assert available_threads() == 1
