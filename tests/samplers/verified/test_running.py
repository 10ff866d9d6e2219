"""Running bounds of likelihoods against balls, where floats are at their worst too."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx

from pymc_private.samplers.verified import arithmetic
from pymc_private.samplers.verified.arithmetic import (
    FUNCTION_ERROR,
    PREDICTOR_RADIUS,
    TangentRemainder,
    VerifiedExponential,
    VerifiedLogistic,
    VerifiedQuadratic,
)

WEIGHT = 0.37
SIZES = [
    0.0,
    1e-300,
    1e-17,
    1e-9,
    1e-3,
    0.3,
    0.69,
    0.7,
    1.0,
    5.0,
    36.0,
    40.0,
    700.0,
    750.0,
    1e5,
    1e8,
]
FEW = [1e-9, 0.3, 0.7, 5.0, 40.0, 750.0]
SIDES = np.array([s * v for v in SIZES for s in (1.0, -1.0)])
U, DU = (a.ravel() for a in np.meshgrid(SIDES, SIDES))
FEW_U, FEW_DU = (
    a.ravel() for a in np.meshgrid(*[np.array([s * v for v in FEW for s in (1.0, -1.0)])] * 2)
)
NAMES = ["logistic", "linear", "Poisson"]
CURVES = [
    VerifiedLogistic(np.array([1.0]), WEIGHT),
    VerifiedQuadratic(np.array([0.3]), WEIGHT),
    VerifiedExponential(np.array([2.0]), WEIGHT),
]
SLACK = 1e-280


def rest_of(curve, u, du):
    with ctx.workprec(4000):
        u, du = arb(float(u)), arb(float(du))
        return curve.value_ball(0, u) + curve.slope_ball(0, u) * du - curve.value_ball(0, u + du)


def used(curve, u, du, moved=0.0):
    """The worst error over its bound: arguments are off by `moved`, each way."""
    rest = curve.remainder(u[None, :], du[None, :])
    size, steep = (np.broadcast_to(a, (1, len(u)))[0] for a in (rest.size, rest.slope_bound))
    worst = 0.0
    for one, two in [(1, 1), (1, -1), (-1, 1), (-1, -1)] if moved else [(0, 0)]:
        a, b = u + one * moved, du + two * moved
        bound = FUNCTION_ERROR * size + steep * (np.abs(a - u) + np.abs(b - du))
        bound += 2.0**-50 * np.abs(rest.value[0]) + SLACK
        far = [abs(float(rest_of(curve, *at) - float(v)))
               for at, v in zip(zip(a, b, strict=True), rest.value[0], strict=True)]  # fmt: skip
        worst = max(worst, float(np.max(np.array(far) / bound)))
    return worst


@pytest.mark.thin(8)
@pytest.mark.parametrize("curve", CURVES, ids=NAMES)
@pytest.mark.parametrize("moved", [0.0, 1e-12, PREDICTOR_RADIUS / 2])
def test_rests_are_within_their_bounds(curve, moved):
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        at = (FEW_U, FEW_DU) if moved else (U, DU)
        if isinstance(curve, VerifiedExponential):  # beyond, e^u is no double, and bounds infinite
            at = tuple(a[np.abs(at[0]) + np.abs(at[1]) < 600] for a in at)
        assert used(curve, *at, moved) <= 1.0


class _Naive(VerifiedLogistic):
    """By the logarithm of 1 + p (e^x - 1) everywhere."""

    def remainder(self, u, du):
        found = super().remainder(u, du)
        v = np.where(du > 0.0, -u, u)
        p, x = arithmetic.expit(v), -np.abs(du)
        with np.errstate(divide="ignore"):
            value = WEIGHT * (np.log1p(p * np.expm1(x)) - p * x)
        return TangentRemainder(np.nan_to_num(value), found.slope_bound, found.size)


class _Difference(VerifiedLogistic):
    """As a difference of three numbers."""

    def remainder(self, u, du):
        found = super().remainder(u, du)
        h = self.y * u - np.logaddexp(0, u), self.y * (u + du) - np.logaddexp(0, u + du)
        return TangentRemainder(
            h[0] * WEIGHT + self.slope(u).value * du - h[1] * WEIGHT, found.slope_bound, found.size
        )


class _Flat(VerifiedLogistic):
    """With a hundredth of its slopes."""

    def remainder(self, u, du):
        found = super().remainder(u, du)
        return TangentRemainder(found.value, found.slope_bound / 100, found.size)


class _Single(VerifiedLogistic):
    """In single precision."""

    def remainder(self, u, du):
        found = super().remainder(u, du)
        return TangentRemainder(
            found.value.astype(np.float32).astype(float), found.slope_bound, found.size
        )


@pytest.mark.parametrize("fault", [_Naive, _Difference, _Flat, _Single])
def test_rests_with_a_fault_are_caught(fault):
    with np.errstate(all="ignore"):
        moved = PREDICTOR_RADIUS / 2 if fault is _Flat else 0.0
        assert used(fault(np.array([1.0]), WEIGHT), FEW_U, FEW_DU, moved) > 1.0


@pytest.mark.parametrize("curve", CURVES, ids=NAMES)
def test_slopes_are_within_their_bounds(curve):
    sides = SIDES[np.abs(SIDES) < 700] if isinstance(curve, VerifiedExponential) else SIDES
    with np.errstate(all="ignore"):
        found = curve.slope(sides[None, :])
    size, bend = (np.broadcast_to(a, (1, len(sides)))[0] for a in (found.size, found.curvature))
    for moved in (0.0, PREDICTOR_RADIUS, -PREDICTOR_RADIUS):
        at = sides + moved
        with ctx.workprec(2000):
            real = [curve.slope_ball(0, arb(float(u))) for u in at]
            far = [abs(float(r - float(v))) for r, v in zip(real, found.value[0], strict=True)]
        assert np.all(far <= FUNCTION_ERROR * size + bend * np.abs(at - sides) + SLACK)


def test_functions_of_numpy_are_far_better_than_is_supposed():
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.normal(size=400), -np.exp(rng.uniform(-30, 6, 400))])
    cases = {
        "expit": (arithmetic.expit, lambda b: 1 / (1 + (-b).exp())),
        "expm1": (np.expm1, lambda b: b.expm1()),
        "log_expit": (arithmetic.log_expit, lambda b: -((-b).exp().log1p())),
    }
    for name, (of, ball) in cases.items():
        values = of(x)
        with ctx.workprec(1500):
            for at, value in zip(x, values, strict=True):
                real = ball(arb(float(at)))
                assert float(abs(real - float(value)) / abs(real)) < FUNCTION_ERROR / 4, (name, at)
    for at in rng.uniform(-0.5, 1, 400):
        with ctx.workprec(200):
            real = arb(float(at)).log1p()
            assert float(abs(real - float(np.log1p(at))) / abs(real)) < FUNCTION_ERROR / 4
