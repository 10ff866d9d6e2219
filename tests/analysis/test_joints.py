"""Slices at leaves and blocks between joints: the same numbers, and no move that is not proved."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.subtensor import Subtensor

from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.analysis.rewrites import slicing
from pymc_private.analysis.rewrites.slicing import Slicer

N = 7
Y, A, P = pt.dvector("y"), pt.dscalar("a"), pt.dvector("p")
S = pt.vector("s", dtype="int8")
PLAIN = pytensor.compile.mode.Mode(linker="py", optimizer=None)


def lag(y, *first):
    return pt.concatenate([list(first), y[: -len(first)]])


def checked(value, condition):
    return CheckAndRaise(ValueError, "outside")(value, pt.all(condition))


def moving(y):
    d = y[1:] - y[:-1]
    return d[1:] * A - d[:-1]


CASES = {
    "a padded lag": lambda: (Y - A * lag(Y, 0.0)) ** 2,
    "two orders": lambda: Y - A * lag(Y, 0.5) * lag(Y, 0.0, 1.0),
    "from the end": lambda: Y * pt.concatenate([Y[2:], [0.0, 1.0]]),
    "joined thrice": lambda: pt.concatenate([Y[:2], [A], Y[4:6], [0.0]]) - pt.exp(Y[1:]),
    "put into zeros": lambda: Y - pt.set_subtensor(pt.zeros_like(Y)[2:], Y[:-2]),
    "put between": lambda: Y - pt.set_subtensor((Y * A)[1:4], Y[:3]),
    "differences": lambda: moving(Y),
    "third differences": lambda: pt.diff(Y, n=3),
    "lagged errors": lambda: Y - A * lag(Y - A * lag(Y, 0.0), 0.0),
    "states": lambda: pt.log(P[pt.concatenate([[2], S[:-1]])]) * Y,
    "columns": lambda: (pt.stack([Y, lag(Y, 0.0)], axis=1) * A).sum(axis=1),
    "small integers": lambda: pt.concatenate([[300.0], S[:-1]]) * S,
    "one position": lambda: (Y - lag(Y, 0.0))[3] + moving(Y),
}


def given():
    values = {Y: np.full(N, 0.5), A: np.float64(0.5), P: np.full(3, 0.5), S: np.ones(N, "int8")}
    return slicing.SliceProver(ConcreteValues(values), values)


def reads(variable):
    return not {Y, S}.isdisjoint(ancestors([variable]))


def numbers(graphs, seed):
    rng = np.random.default_rng(seed)
    function = pytensor.function([Y, A, P, S], graphs, mode=PLAIN, on_unused_input="ignore")
    states = rng.integers(0, 3, N).astype("int8")
    return function(rng.normal(size=N), rng.normal(), rng.uniform(0.1, 0.9, 3), states)


@pytest.mark.parametrize("name", CASES)
def test_every_form_has_the_same_numbers(name):
    out = CASES[name]()
    plain = slicing.slices_of_leaves(out, reads, given())
    plain = out if plain is None else plain
    parts = slicing.split_at_joins(plain, reads, given()) or [plain]
    for seed in range(3):
        before, *after = numbers([out, *parts], seed)
        np.testing.assert_allclose(np.concatenate(after), before, rtol=1e-12)
    assert parts != [out]
    for slice_ in (v for v in ancestors(parts) if v.owner and isinstance(v.owner.op, Subtensor)):
        if name not in ("columns", "one position"):
            assert slice_.owner.inputs[0] in (Y, S, P)


def test_blocks_end_at_the_joints():
    parts = slicing.split_at_joins(CASES["two orders"](), reads, given())
    assert [len(x) for x in numbers(parts, 0)] == [1, 1, N - 2]
    assert slicing.split_at_joins(Y * A, reads, given()) is None


def test_each_block_asks_its_own_rows_and_together_they_ask_all():
    out = checked(Y - lag(Y, 0.0), Y > 0.0) * A
    parts = slicing.split_at_joins(out, reads, given())
    function = [pytensor.function([Y, A], part, mode=PLAIN) for part in parts]
    for place in range(N):
        y = np.ones(N)
        y[place] = -1.0
        failed = []
        for k, block in enumerate(function):
            try:
                block(y, 1.0)
            except ValueError:
                failed.append(k)
        assert failed == [0 if place == 0 else 1]


def test_a_slice_keeps_the_conditions_on_rows_that_it_leaves_out():
    out = checked(Y * A, Y > 0.0)[1:]
    plain = slicing.slices_of_leaves(out, reads, given())
    with pytest.raises(ValueError, match="outside"):
        pytensor.function([Y, A], plain, mode=PLAIN)(np.array([-1.0, *np.ones(N - 1)]), 1.0)


def test_a_condition_that_compares_rows_is_not_parted():
    out = checked(Y - lag(Y, 0.0), Y[1:] > Y[:-1])
    assert slicing.split_at_joins(out, reads, given()) is None


@pytest.mark.parametrize("fault", ["join", "put", "within"])
def test_a_wrong_move_is_not_proved(fault, monkeypatch):
    """Planted: an element too far; without the proof the numbers would differ."""
    name = {"join": "a padded lag", "put": "put into zeros", "within": "differences"}[fault]
    right = Slicer._inner

    def wrong(self, v, ranges):
        (a, b), *rest = ranges or ((0, 0),)
        moved = ranges and v is Y and b < N
        return right(self, v, ((a + 1, b + 1), *rest) if moved else ranges)

    out = CASES[name]()
    monkeypatch.setattr(Slicer, "_inner", wrong)
    find = slicing.slices_of_leaves if fault == "within" else slicing.split_at_joins
    assert find(out, reads, given()) is None
    monkeypatch.setattr(slicing, "_slices_agree", lambda *_: True)
    found = find(out, reads, given())
    before, *after = numbers([out, *(found if isinstance(found, list) else [found])], 0)
    assert not np.allclose(np.concatenate(after), before)
