"""Coupled chains: their bound is above the truth where that is known; it stays with the curator."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.samplers import diagnostics
from pymc_private.samplers.diagnostics import CouplingEvidence, coupling_evidence

Y = np.array([0.3, -0.2, 1.1, 0.6])


def normal_mean():
    with pm.Model(coords={"i": range(4)}) as model:
        pm.Normal("y", pm.Normal("mu", 3, 1), 2.0, observed=Y, dims="i")
    return pmp.privatize(model, records="i", domain={"y": (-1, 2)})


def truth(private, root, steps):
    """Total variation of a Metropolis chain from the posterior after each step, on a grid."""
    variance = 1 / (1 + 4 / 4)
    law = stats.norm(variance * (3 + Y.sum() / 4), np.sqrt(variance))
    at = np.linspace(-3, 7, 401)
    target = law.pdf(at) * (at[1] - at[0])
    start = private.model.initial_point()["mu"]
    now = (np.abs(at - start) <= 1).astype(float)
    now /= now.sum()
    move = stats.norm.pdf(at, at[:, None], root) * (at[1] - at[0])
    move *= np.minimum(1.0, target / target[:, None])
    np.fill_diagonal(move, 0.0)
    np.fill_diagonal(move, 1.0 - move.sum(axis=1))
    found = {}
    for k in range(1, max(steps) + 1):
        now = now @ move
        found[k] = 0.5 * np.abs(now - target).sum()
    return [found[k] for k in steps]


@pytest.mark.parametrize("fault", [False, True])
def test_the_bound_is_above_the_truth_and_a_false_coupling_is_caught(fault, monkeypatch):
    private, steps = normal_mean(), (1, 2, 4, 8)
    chains = diagnostics._CoupledChains(private.model, np.random.default_rng(1))
    if fault:  # the second chain jumps to the first whenever that one moves
        monkeypatch.setattr(diagnostics.np.linalg, "solve", lambda root, gap: np.zeros_like(gap))
        monkeypatch.setattr(diagnostics.np.linalg, "norm", lambda gap: 1.0)
    met = np.array([chains.meeting(5, 2000) for _ in range(250)])
    evidence = CouplingEvidence(met, 5, 2000)
    limits = [evidence.bound(k)[1] for k in steps]
    above = [b >= t for b, t in zip(limits, truth(private, chains.root[0, 0], steps), strict=True)]
    assert all(above) != fault
    assert fault or evidence.bound(40)[1] == pytest.approx(3 / 250)


def test_pairs_that_never_met_leave_the_bound_at_one():
    evidence = CouplingEvidence(np.array([20.0, np.inf]), 10, 100)
    assert evidence.bound(50) == (1.0, 1.0)
    assert "1 of 2 pairs never met" in repr(evidence)


def test_a_run_of_it_is_for_the_curator(tmp_path):
    private = normal_mean()
    words = {"pairs": 10, "lag": 20, "random_seed": 1, "progressbar": False}
    one, two = (coupling_evidence(private, **words) for _ in range(2))
    assert np.array_equal(one.meetings, two.meetings)
    assert "Not to be published" in repr(one)
    assert "NUTS is another chain" in repr(one)
    assert (one.table["estimate"] <= one.table["upper limit"]).all()
    ax = one.plot()
    assert "Confidential" in ax.get_title()
    plt.close(ax.figure)
    for bad in ({"pairs": 1}, {"lag": 0}, {"most": 20}):
        with pytest.raises(pmp.errors.DomainError):
            coupling_evidence(private, **words | bad)
