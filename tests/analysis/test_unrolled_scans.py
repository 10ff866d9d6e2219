"""Loops written out: the same numbers, and what cannot be known is left alone."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import apply_ancestors
from pytensor.scan.op import Scan
from pytensor.tensor.basic import AllocEmpty

from pymc_private.analysis.rewrites import unrolled_scans as rewrite
from pymc_private.analysis.rewrites.unrolled_scans import unrolled_scans

# PyTensor 3 wants to be told how updates are returned; PyTensor 2 does not know the word.
pytestmark = pytest.mark.filterwarnings("ignore:.*return_updates.*")

X, A, M = pt.matrix("x"), pt.vector("a"), pt.matrix("m")
VALUES = {
    X: np.random.default_rng(1).normal(size=(5, 3)),
    A: np.random.default_rng(2).normal(size=3),
    M: np.random.default_rng(3).normal(size=(3, 3)),
}
STEPS = 5


def loop(*words, **options):
    found = pytensor.scan(*words, **options)
    return found[0] if isinstance(found, tuple) else found


def forward():
    """One state of one step before, a sequence, and an array that all steps read."""
    return loop(lambda x, s, m: pt.tanh(x + s * m[0]), [X], [A], [M], n_steps=STEPS)


def second_order():
    """States of two steps before, and what is collected beside them."""
    start = pt.stack([A, 2.0 * A])
    return pt.concatenate(
        loop(
            lambda x, two, one, m: (one + 0.5 * two * x, pt.exp(-one) * m[1]),
            [X],
            [{"initial": start, "taps": [-2, -1]}, None],
            [M],
            n_steps=STEPS,
        )
    )


def collected():
    return loop(lambda x, a: x * a, [X], None, [A], n_steps=STEPS)


def backwards():
    return loop(lambda x, s: s * x + 1.0, [X], [A], n_steps=STEPS, go_backwards=True)


def shifted():
    """A sequence of the present and the step before."""
    given = [{"input": X, "taps": [-1, 0]}]
    return loop(lambda old, x, s: s + x * old, given, [A], n_steps=STEPS - 1)


def nested():
    def step(x, s):
        return s + loop(lambda k, t: t * k, [x], [pt.ones(())], n_steps=3)[-1]

    return loop(step, [X], [A], n_steps=STEPS)


def thrice_nested():
    """How long the innermost loop is, its sequence tells."""

    def inner(y, t):
        return t + loop(lambda z, u: u * z, [pt.stack([y, y])], [pt.ones(())])[-1]

    def step(x, s):
        return s + loop(inner, [x], [pt.zeros(())], n_steps=3)[-1]

    return loop(step, [X], [A], n_steps=STEPS)


def of_scalars():
    """The size of the state is known from its type alone."""
    return loop(lambda x, s: x[0] * s, [X], [A[0]], n_steps=STEPS)


def one_after_another():
    return loop(lambda x, s: s - x, [forward()], [A], n_steps=STEPS)


LOOPS = {
    f.__name__: f
    for f in (
        forward,
        second_order,
        collected,
        backwards,
        shifted,
        nested,
        of_scalars,
        one_after_another,
    )
}


def scans(outputs):
    return [n for n in apply_ancestors(outputs) if isinstance(n.op, Scan)]


def numbers(graph):
    return pytensor.function([X, A, M], graph, on_unused_input="ignore")(*VALUES.values())


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("part", ["all", "last"])
def test_the_same_numbers_without_a_loop(name, part):
    graph = LOOPS[name]() if part == "all" else LOOPS[name]()[-1]
    (found,) = unrolled_scans([graph])
    assert scans([graph])
    assert not scans([found])
    np.testing.assert_allclose(numbers(found), numbers(graph), rtol=1e-12)


def test_the_first_states_are_taken_from_where_they_were():
    """The empty array into which the loop puts them would hold the number of records."""
    (found,) = unrolled_scans([forward()[-1]])
    assert not [n for n in apply_ancestors([found]) if "AllocEmpty" in str(n.op)]


def test_first_states_that_are_stretched_are_left_in_their_array():
    """One row beside three: their own shape is not that of the other states."""
    buffer = pt.set_subtensor(AllocEmpty("float64")(STEPS + 1, 3)[:1], pt.ones((1, 1)))
    assert rewrite._put_into_empty(buffer, 1) is None
    plain = pt.set_subtensor(AllocEmpty("float64")(STEPS + 1, 3)[:1], pt.ones((1, 3)))
    assert rewrite._put_into_empty(plain, 1) is not None
    assert rewrite._put_into_empty(plain, 2) is None


def stopped():
    from pytensor.scan.utils import until

    return loop(lambda x, s: (s + x, until((s > 2.0).any())), [X], [A], n_steps=STEPS)


def of_any_length():
    return loop(lambda x, s: s + x, [X], [A])


def of_fewer_steps_than_none():
    return loop(lambda s: s + 1.0, None, [A], n_steps=-1)


def stretched():
    """A step of one number where the state has three: the loop repeats it."""
    return loop(lambda s: 2.0 * s[0][None], None, [A], n_steps=STEPS)


@pytest.mark.parametrize("graph", [stopped, of_any_length, of_fewer_steps_than_none, stretched])
def test_other_loops_stay(graph):
    (given,) = [graph()]
    assert unrolled_scans([given]) == [given]


@pytest.mark.parametrize("graph", [forward, nested])
def test_a_loop_of_very_many_steps_stays(graph, monkeypatch):
    given = graph()
    monkeypatch.setattr(rewrite, "MOST_NODES", 12)
    assert unrolled_scans([given]) == [given]


def test_steps_are_written_out_once_each():
    """No step holds a copy of those before."""
    steps = 50
    graph = loop(lambda s: pt.tanh(s) + 1.0, None, [A], n_steps=steps)[-1]
    (found,) = unrolled_scans([graph])
    assert not scans([found])
    assert len(list(apply_ancestors([found]))) < 5 * steps


def test_a_loop_that_keeps_its_last_states_alone_stays(monkeypatch):
    """As PyTensor makes it for running: its array is shorter than its steps are many."""
    given = forward()
    monkeypatch.setattr(rewrite, "_length", lambda _: pt.constant(2))
    assert unrolled_scans([given]) == [given]


def test_graphs_without_loops_are_left_alone():
    given = [pt.exp(X), A]
    assert unrolled_scans(given) == given
