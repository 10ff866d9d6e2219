"""Effects that sum to zero: a box around them, and a model that stays inside it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.certificates import restrict as trimming
from pymc_private.errors import DomainError, NotCertified, Unsupported
from pymc_private.models.domains import project_onto_simplex

N, GROUPS = 23, 3


@cache
def private():
    """Group effects of a private group index."""
    rng = np.random.default_rng(1)
    with pm.Model(coords={"person": range(N), "group": range(GROUPS)}) as model:
        group = pm.Data("g", rng.integers(0, GROUPS, N), dims="person")
        effects = pm.ZeroSumNormal("z", 1.0, dims="group")
        pm.Normal("y", effects[group], 1.0, observed=rng.uniform(-2, 2, N), dims="person")
    domain = {"y": (-2, 2), "g": set(range(GROUPS))}
    return pmp.privatize(model, records="person", domain=domain)


def box(low, high):
    return pmp.trim(private(), box={"z": (low, high)}).box["z"]


def test_untrimmed_effects_are_refused_and_the_cure_works():
    with pytest.raises(NotCertified, match="trim"):
        pmp.certify(private())
    certificate = pmp.certify(pmp.trim(private(), box={"z": (-1, 1)}))
    # (y - y') z at y = 2, -2 and z = 1, -1, which (1, -1, 0) and (-1, 1, 0) reach
    assert 8.0 - 1e-9 <= certificate.searched <= 8.0 + 1e-9
    assert 8.0 <= certificate.range <= 8.4


def test_a_box_keeps_every_vector_of_it_that_sums_to_zero():
    rng = np.random.default_rng(2)
    low, high = np.array([-1.0, -1.0, 0.5]), np.array([1.0, 1.0, 1.5])
    draws = rng.normal(size=(20_000, GROUPS))
    draws -= draws.mean(axis=1, keepdims=True)
    kept = draws[np.all((draws >= low) & (draws <= high), axis=1)]
    assert len(kept) > 500

    def holds(found):
        return bool(np.all((kept >= found.lower) & (kept <= found.upper)))

    found = box(low, high)
    assert holds(found)
    np.testing.assert_allclose(found.upper[:2], 0.5, atol=1e-9)  # 1 + 0.5 leaves no room
    with pytest.MonkeyPatch.context() as patch:  # a planted fault: a sum of -1/4
        right = trimming._reachable_bounds
        patch.setattr(
            trimming, "_reachable_bounds", lambda low, high, total: right(low, high, total - 0.25)
        )
        assert not holds(box(low, high))


def test_the_trimmed_model_starts_inside_and_has_a_wall():
    model = pmp.trim(private(), box={"z": ([-1, -1, 0.5], [1, 1, 1.5])}).model
    start = model.rvs_to_initial_values[model["z"]]
    assert abs(start.sum()) < 1e-12
    assert np.isfinite(model.compile_logp()(model.initial_point()))
    assert model.compile_logp()({"z_zerosum__": np.array([3.0, -3.0])}) == -np.inf


@pytest.mark.audit
def test_mass_gives_effects_a_box_too():
    region = pmp.trim(private(), mass=0.9)
    assert np.all(np.abs(region.box["z"].upper) < 4)
    assert 0.8 < region.prior_mass.estimate < 1.0


def test_boxes_without_such_vectors_and_sums_over_two_axes_are_refused():
    with pytest.raises(DomainError, match="sum to zero"):
        box(0.1, 1)
    with pm.Model(coords={"person": range(N)}) as model:
        effects = pm.ZeroSumNormal("z", 1.0, shape=(3, 4), n_zerosum_axes=2)
        pm.Normal("y", effects[0, 0], 1.0, observed=np.zeros(N), dims="person")
    table = pmp.privatize(model, records="person", domain={"y": (-2, 2)})
    with pytest.raises(Unsupported, match="over 2 axes"):
        pmp.trim(table, box={"z": (-1, 1)})


@pytest.mark.parametrize("total", [0.0, 1.0, -2.5])
def test_rows_get_their_sum_inside_the_box(total):
    rng = np.random.default_rng(3)
    low, high = np.full((50, 4), -1.5), rng.uniform(0.5, 2.0, (50, 4))
    rows = project_onto_simplex(rng.normal(scale=3.0, size=(50, 4)), low, high, total)
    assert np.all((rows >= low) & (rows <= high))
    np.testing.assert_allclose(rows.sum(axis=1), total, atol=1e-12)
