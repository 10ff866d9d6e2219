"""Threads are as many as linear algebra was given, and give it back."""

from __future__ import annotations

import numpy as np  # noqa: F401  (its BLAS is what is asked about)
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pymc_private.samplers import proximal as room
from pymc_private.samplers.proximal import thread_map


def blas():
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_one_thread_needs_no_pool():
    with threadpool_limits(1, user_api="blas"), thread_map() as over:
        assert over is map


def test_blas_has_one_of_its_own_meanwhile(monkeypatch):
    monkeypatch.setattr(room, "blas_threads", lambda: 2)
    before = blas()
    with thread_map() as over:
        assert over is not map
        assert list(over(lambda k: k * k, range(5))) == [0, 1, 4, 9, 16]
        assert set(blas()) <= {1}
    assert blas() == before


def test_a_fault_inside_gives_it_back_too(monkeypatch):
    monkeypatch.setattr(room, "blas_threads", lambda: 2)
    before = blas()
    with pytest.raises(ZeroDivisionError), thread_map() as over:
        list(over(lambda k: 1 // k, range(2)))
    assert blas() == before


def test_no_blas_that_is_known_has_one_thread(monkeypatch):
    monkeypatch.setattr(room, "threadpool_info", list)
    assert room.blas_threads() == 1
