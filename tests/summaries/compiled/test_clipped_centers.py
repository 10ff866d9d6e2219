"""Compiled centers of clipped scores are those of NumPy, to the bit, and used where they pay."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_private.summaries import compiled_agreement
from pymc_private.summaries.compiled import clipped_centers as loop
from pymc_private.summaries.compiled import compiler
from pymc_private.summaries.compiled.compiler import CENTERS, COMPILED_FROM, COMPILER, LoopCompiler
from pymc_private.summaries.compiled_agreement import compiled, differing, rows_of_nodes
from pymc_private.summaries.scores.clipped_scores import (
    center_limits,
    centers_and_moments,
    clip_rows,
)
from pymc_private.summaries.scores.compiled_centers import compiled_centers, has_compiled_centers

SLOW = pytest.mark.audit
IN_PYTHON = SimpleNamespace(clipped_centers=loop.clipped_centers.py_func)
"""The same loop without its compiler."""


@pytest.fixture(scope="module")
def loops():
    return compiled()


def same_bits(loops, scores, mass, bound, start=None):
    with np.errstate(all="ignore"):
        expected = centers_and_moments(scores, mass, bound, start)
        found = compiled_centers(loops, scores, mass, center_limits(bound), start)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(("m", "nodes"), [(1, 3), (2, 9)])
def test_the_loop_does_what_numpy_does(m, nodes):
    scores, mass = rows_of_nodes(np.random.default_rng(nodes), m, 15, nodes)
    assert same_bits(IN_PYTHON, scores, mass, 0.5)
    assert same_bits(IN_PYTHON, scores, mass, 0.5, scores[:, :, 1])


@pytest.mark.parametrize("size", [1, 7, 8, 9, 63, 64, 127, 128, 129, 136, 257, 1000])
def test_sums_are_in_numpys_order(size):
    rng = np.random.default_rng(size)
    rows = rng.normal(size=(20, size)) * 10.0 ** rng.integers(-9, 9, (20, size))
    assert [loop.long_total(row) for row in rows] == rows.sum(axis=1).tolist()


def test_another_order_of_a_sum_is_caught(monkeypatch):
    monkeypatch.setattr(loop, "long_total", lambda part: sum(part.tolist()))
    scores, mass = rows_of_nodes(np.random.default_rng(9), 2, 15, 9)
    assert not same_bits(IN_PYTHON, scores, mass, 0.5)


@SLOW
def test_compiled_centers_agree_and_depend_on_their_row_alone(loops):
    assert differing(loops, CENTERS) == []
    for m, nodes in ((1, 131), (2, 8), (2, 66)):
        scores, mass = rows_of_nodes(np.random.default_rng(nodes), m, 700, nodes)
        assert same_bits(loops, scores, mass, 0.7)
        whole = compiled_centers(loops, scores, mass, center_limits(0.7), None)
        order = np.random.default_rng(0).permutation(700)
        for some in (order[:1], order[1:512], order):
            found = compiled_centers(loops, scores[:, some], mass[some], center_limits(0.7), None)
            np.testing.assert_array_equal(found[0], whole[0][:, some])
            np.testing.assert_array_equal(found[2], whole[2][some])


def one_bit(loops, arguments):
    loops.clipped_centers(*arguments)
    arguments[4][7] = np.nextafter(arguments[4][7], np.inf)


def few_steps(loops, arguments):
    bound, _, *others = arguments[2]
    loops.clipped_centers(*arguments[:2], (bound, 6, *others), *arguments[3:])


def no_start(loops, arguments):
    loops.clipped_centers(*arguments[:3], False, *arguments[4:])


def one_moment(loops, arguments):
    loops.clipped_centers(*arguments)
    arguments[6][:] = arguments[5]


@SLOW
@pytest.mark.parametrize("fault", [one_bit, few_steps, no_start, one_moment])
def test_wrong_centers_are_caught_before_they_are_used(loops, fault):
    wrong = SimpleNamespace(clipped_centers=lambda *arguments: fault(loops, arguments))
    assert differing(wrong, CENTERS) == ["centers"]


@SLOW
def test_clipped_rows_are_the_same_either_way(loops, monkeypatch):
    rng = np.random.default_rng(1)
    for m in (1, 2, 3):
        scores, mass = rng.normal(size=(m, 30, 66)), rng.dirichlet(np.ones(66), 30)
        frame = SimpleNamespace(scores=scores, mass=mass, valid=rng.random(30) < 0.9)
        found = []
        for used in (None, loops):
            monkeypatch.setattr(COMPILER, "agreeing", compiled_agreement.agreeing_loops)
            monkeypatch.setattr(COMPILER, "_found", {CENTERS: used})
            found.append(clip_rows(frame, 0.6, 0.2, near=clip_rows(frame, 1.0)))
        for name in ("center", "curvature", "second", "weight"):
            np.testing.assert_array_equal(getattr(found[0], name), getattr(found[1], name))


def test_other_shapes_are_left_to_numpy():
    shapes = {(1, 5, 3): True, (2, 5, 64): True, (3, 5, 64): False, (1, 5, 2): False}
    assert {shape: has_compiled_centers(np.zeros(shape)) for shape in shapes} == shapes


def test_centers_are_compiled_once_numpy_has_worked_as_long(monkeypatch):
    monkeypatch.setattr(compiler, "ENOUGH_WORK", 1000)
    made, asked = LoopCompiler(), []

    def agreeing(kind):
        asked.append(kind)
        return "loops", []

    assert made.once_worthwhile(CENTERS, 5000) is None  # nobody has brought a compiler
    assert made.once_worthwhile(CENTERS, 1) is None
    made = LoopCompiler()
    made.expect(10, agreeing)
    assert [made.once_worthwhile(CENTERS, 400) for _ in range(5)] == [None] * 3 + ["loops"] * 2
    assert asked == [CENTERS]
    assert made.loops is None  # other kinds wait for many rows
    made = LoopCompiler()
    made.expect(COMPILED_FROM, agreeing)
    assert made.once_worthwhile(CENTERS, 1) == "loops"
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert made.once_worthwhile(CENTERS, 5000) is None
