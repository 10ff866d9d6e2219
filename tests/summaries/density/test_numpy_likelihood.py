"""Likelihoods that NumPy evaluates inside a compiled graph."""

import pickle

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_private.summaries.density.numpy_likelihood import NumpyLikelihood

MODE = "NUMBA" if hasattr(pytensor.graph.Op, "pullback") else None
"""What models are sampled with where PyTensor has numba by default."""


class Bowl:
    """-|x|^2 / 2."""

    def __call__(self, x):
        """Value and slope."""
        return -0.5 * float(x @ x), [-x]

    def symbolic(self, x):
        """The value as a graph."""
        return -0.5 * pt.dot(x, x)


class Counted(Bowl):
    """The same, with the number of times that any was made."""

    made = 0

    def __init__(self):
        """One more."""
        Counted.made += 1

    def __reduce__(self):
        """Made anew."""
        return Counted, ()


def compiled(function):
    x = pt.dvector("x")
    value, *_ = NumpyLikelihood(function)(x)
    return pytensor.function([x], [value, pytensor.grad(value, x)], mode=MODE)


def test_a_call_pickles_nothing_of_the_likelihood():
    run, made = compiled(Counted()), Counted.made
    for x in (np.arange(3.0), np.ones(2), np.zeros(4)):
        value, slope = run(x)
        assert value == -0.5 * (x @ x)
        np.testing.assert_array_equal(slope, -x)
    assert Counted.made == made


def test_a_compiled_function_is_made_anew_elsewhere():
    text = pickle.dumps(compiled(Bowl()))
    run, x = pickle.loads(text), np.array([1.0, 2.0])
    assert run(x)[0] == -2.5


def test_likelihoods_of_one_process_are_told_apart():
    runs = [compiled(Bowl()) for _ in range(2)]
    x = np.array([3.0])
    assert [float(run(x)[0]) for run in runs] == [-4.5, -4.5]
    del runs[0]
    assert runs[0](x)[0] == -4.5
