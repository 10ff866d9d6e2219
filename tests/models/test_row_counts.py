"""Models that write out their own number of records: each row is still one function of a record."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp

N, K = 150, 3
RNG = np.random.default_rng(5)
X, Y = RNG.uniform(-0.5, 0.5, (N, 2)), RNG.integers(0, K, N)


def softmax(first, *, constants="private"):
    """A softmax whose first class is the reference: its scores are zero."""
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", X, dims=("i", None))
        u = x @ pm.Normal("b", 0, 1, shape=(2, K - 1))
        pm.Categorical("y", logit_p=pt.concatenate([first(u), u], axis=1), observed=Y, dims="i")
    domain = {"x": pmp.Ball(1.0), "y": pmp.Categories(range(K))}
    return pmp.privatize(model, records="i", domain=domain, constants=constants)


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "first",
    [
        lambda u: pt.zeros((N, 1)),
        lambda u: (0.0 * u[:, 0]).reshape((N, 1)),
    ],
    ids=["zeros", "reshape"],
)
def test_a_written_number_of_records_does_not_tell_rows_apart(first):
    private, plain = softmax(first), softmax(lambda u: pt.zeros_like(u[:, :1]))
    assert not private.graph.rows_differ
    found, wanted = (pmp.certify(p, progressbar=False).mu for p in (private, plain))
    assert found == pytest.approx(wanted, rel=1e-9)
    data = {private.graph.data[s.name]: s.variable.get_value() for s in private.sources}
    at = {v: np.full(private.shapes[k], 0.3) for k, v in private.graph.parameters.items()}
    rows = private.graph.record.eval(data | at)
    scores = np.hstack([np.zeros((N, 1)), X @ np.full((2, K - 1), 0.3)])
    assert np.allclose(rows, scores[np.arange(N), Y] - np.log(np.exp(scores).sum(axis=1)))


def test_an_array_of_zeros_is_read_row_by_row_when_it_is_public():
    private = softmax(lambda u: np.zeros((N, 1)), constants="public")
    wanted = pmp.certify(softmax(lambda u: pt.zeros_like(u[:, :1])), progressbar=False).mu
    assert pmp.certify(private, progressbar=False).mu == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(
    "slopes",
    [lambda b: b * np.arange(1, N + 1), lambda b: pt.cumsum(pt.alloc(b, N))],
    ids=["array", "sums"],
)
def test_a_position_that_is_read_as_a_number_keeps_every_row(slopes):
    """The last record says N times as much as the first; fewer rows would not show it."""
    with pm.Model(coords={"i": range(N)}) as model:
        u = slopes(pm.Normal("b", 0, 1))
        pm.Bernoulli("y", logit_p=u, observed=np.zeros(N, int), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": {0, 1}}, constants="public")
    private = pmp.trim(private, box={"b": (-0.1, 0.1)})
    assert private.graph.rows_differ
    assert pmp.certify(private, progressbar=False).range >= 2 * 0.1 * N


def test_a_share_of_the_records_is_no_size():
    """1 / N by counting: with two rows in place of N each would weigh 75 times as much."""
    with pm.Model(coords={"i": range(N)}) as model:
        b = pm.Normal("b", 0, 1)
        mean = b / pt.alloc(b**0, N).sum()
        pm.Bernoulli("y", logit_p=mean, observed=Y % 2, dims="i")
    private = pmp.privatize(model, records="i", domain={"y": {0, 1}}, constants="public")
    private = pmp.trim(private, box={"b": (-3.0, 3.0)})
    assert pmp.certify(private, progressbar=False).range == pytest.approx(2 * 3.0 / N, rel=1e-6)


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "places",
    [
        lambda y, n: pt.minimum(pt.arange(y.shape[0]), n - 1),
        lambda y, n: pt.arange(y.shape[0]) % n,
        lambda y, n: pt.switch(y.shape[0] > n, 0, pt.arange(y.shape[0])),
    ],
    ids=["at most", "modulo", "switch"],
)
@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.audit), 5])
@pytest.mark.parametrize("column", [False, True])
def test_rows_that_read_another_record_when_there_are_more_are_never_stacked(places, n, column):
    """Row i reads record i of n, but of 129 it would not: a narrow peak would go unseen."""
    with pm.Model(coords={"i": range(n)}) as model:
        y, mu = pm.Data("y", np.zeros(n), dims="i"), pm.Normal("mu", 0, 1)
        z = y[places(y, n)]
        z = (z[:, None] + pt.zeros((n, 1)))[:, 0] if column else z
        pm.Potential("fit", mu * (z + 30.0 * pt.exp(-(((z - 1.37) / 1e-4) ** 2))))
    private = pmp.privatize(model, records="i", domain={"y": (-2, 2)}, constants="public")
    private = pmp.trim(private, box={"mu": (-1, 1)})
    assert pmp.certify(private, progressbar=False).range >= 2 * (1.37 + 30.0 + 2.0)
