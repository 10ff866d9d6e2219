"""Second derivatives by terms and by pairs: right at points, above every Hessian on a box."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_private.samplers import hessian_bounds
from tests.samplers.targets import target_of

X = np.random.default_rng(0).normal(size=(7, 2))
Y = np.random.default_rng(1).normal(size=7)


def logistic(t):
    eta = pt.dot(pt.constant(X), t)
    return (pt.constant(Y > 0) * eta - pt.softplus(eta)).sum() - (t**2).sum() / 2


def location_scale(t):
    z = (pt.constant(Y) - t[0]) / t[1]
    return (-(z**2) / 2 - pt.log(t[1])).sum()


def log_of_sum(t):
    return -pt.log(pt.exp(pt.dot(pt.constant(X), t)).sum())


BOX = {"logistic": ((-2.0, -1.0), (1.0, 2.0)), "location_scale": ((-1.0, 0.5), (1.0, 2.0))}
CASES = [logistic, location_scale, log_of_sum]


def made(case):
    return target_of(case, *BOX.get(case.__name__, ((-1.0, -1.0), (1.0, 1.0))))


def points(target, count=40):
    return np.random.default_rng(2).uniform(target.lower, target.upper, (count, 2))


def test_few_predictors_are_recognized_and_other_graphs_are_not():
    assert [made(case).terms[0].graphs.terms is not None for case in CASES] == [True, True, False]


LONG = pytest.param(location_scale, marks=pytest.mark.audit)


@pytest.mark.parametrize("case", [logistic, LONG, log_of_sum])
def test_hessians_are_differences_of_slopes(case):
    target = made(case)
    at, step = points(target), 1e-5
    found = target.hessians_at(at)
    for j in range(2):
        move = step * np.eye(2)[j]
        slope = (target.slopes_at(at + move) - target.slopes_at(at - move)) / (2 * step)
        assert found[:, j] == pytest.approx(slope, abs=1e-5)


def least_excess(target) -> float:
    """Least eigenvalue of M - H over points of random boxes: negative where M is not above."""
    rng, worst = np.random.default_rng(3), np.inf
    ends = np.sort(rng.uniform(target.lower, target.upper, (2, 30, 2)), axis=0)
    root = rng.normal(size=(30, 2, 2)) + 2 * np.eye(2)
    above = target.hessian_upper_bound(ends[0], ends[1], root, np.linalg.inv(root))
    assert above.finite.all()
    for share in rng.random((40, 30, 2)):
        inside = ends[0] + share * (ends[1] - ends[0])
        worst = min(worst, np.linalg.eigvalsh(above.matrix - target.hessians_at(inside)).min())
    return worst


@pytest.mark.thin(2)
@pytest.mark.parametrize("case", CASES)
def test_the_matrix_is_above_every_hessian_of_its_box(case):
    assert least_excess(made(case)) > -1e-9


def test_a_forgotten_radius_is_caught(monkeypatch):
    monkeypatch.setattr(hessian_bounds.np, "ptp", lambda ends, axis: np.zeros_like(ends[0]))
    assert least_excess(made(logistic)) < -1e-3
