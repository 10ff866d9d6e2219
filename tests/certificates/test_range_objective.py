"""R by branch and bound: never below a variation that is found, and near it."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors

import pymc_private as pmp
from benchmarks.zoo import BY_NAME, ZOO, N
from pymc_private.analysis import Bounds, batched_bounds
from pymc_private.analysis.branch_and_bound import Effort, maximize
from pymc_private.analysis.rewrites import specialize
from pymc_private.certificates import range_objective, record_bounds
from pymc_private.models.record_likelihood import ADDITION, single_record
from tests.certificates.objectives import objectives

# Every other model at every run, the rest with the audits.
HALF = [
    entry.name if place % 2 else pytest.param(entry.name, marks=pytest.mark.audit)
    for place, entry in enumerate(ZOO)
]


def private_of(name):
    """A model of its own, which a planted fault may touch."""
    one = BY_NAME[name]
    return one.privatize(one.data(np.random.default_rng(1), N))


def solved(objective, goal=0.02, units=3000.0):
    return maximize(
        objective, *objective.roots(), goal=lambda e: goal, effort=Effort(units), known=np.inf
    )


def random_points(objective, rng, count=3000):
    """Allowed quadruples of a problem without cuts: ends, levels and the inside."""
    lower, upper = objective.roots()
    which = rng.integers(0, len(lower), count)
    lower, upper = lower[which], upper[which]
    points = rng.uniform(lower, upper)
    ends = rng.random(points.shape) < 0.5
    points = np.where(ends, np.where(rng.random(points.shape) < 0.5, lower, upper), points)
    return np.where(objective.whole, np.round(points), points)


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", HALF)
def test_no_quadruple_varies_by_more_than_the_bound(name, private):
    objective = next(objectives(private(name)))
    bracket = solved(objective)
    assert np.isfinite(bracket.upper)
    if not objective.is_relaxed:
        found = objective.attained(random_points(objective, np.random.default_rng(2)))
        assert found.max() <= bracket.upper * (1 + 1e-12)
        assert bracket.lower >= found.max() * 0.97  # the search inside is no worse than chance


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", ["normal", "poisson regression", "gamma", "hierarchical"])
def test_random_boxes_are_enclosed(name):
    objective = next(objectives(private_of(name)))
    rng = np.random.default_rng(3)
    low, high = objective.roots()
    for _ in range(30):
        a, b = np.sort([rng.uniform(low[0], high[0]) for _ in range(2)], axis=0)
        a = np.where(objective.whole, np.round(a), a)
        b = np.where(objective.whole, np.maximum(np.round(b), a), b)
        found = objective.enclose(a[None], b[None])
        points = rng.uniform(a, b, (200, len(a)))
        points = np.where(objective.whole, np.round(points), points)
        values = objective.attained(points)
        assert values.max() <= found.upper[0] + 1e-9
        _slopes_hold(objective, points, found)


def _slopes_hold(objective, points, found):
    """Difference quotients along each smooth coordinate lie within the slopes."""
    for j in np.flatnonzero(objective.smooth):
        if not np.isfinite(found.low[0, j] + found.high[0, j]):
            continue
        ordered = points.copy()
        ordered[:, j] = np.roll(points[:, j], 1)
        rise = objective.attained(ordered) - objective.attained(points)
        run = ordered[:, j] - points[:, j]
        slack = 1e-7 * (1 + abs(run))
        assert np.all(rise <= np.maximum(found.high[0, j] * run, found.low[0, j] * run) + slack)


def planted(monkeypatch, name):
    """How much a quadruple exceeds the bound that a broken objective proves."""
    objective = next(objectives(private_of(name)))
    bracket = solved(objective)
    honest = next(objectives(private_of(name)))
    monkeypatch.undo()
    found = solved(honest).lower
    return found - bracket.upper


def test_a_slope_with_the_wrong_sign_is_caught(monkeypatch):
    true = range_objective.RangeObjective._slopes

    def flipped(self, slopes, count):
        low, high = true(self, slopes, count)
        return -high, -low

    monkeypatch.setattr(range_objective.RangeObjective, "_slopes", flipped)
    assert planted(monkeypatch, "normal") > 1.0


def test_slopes_across_a_jump_are_caught(monkeypatch):
    def guarded():
        with pm.Model() as model:
            cut = pm.Uniform("cut", -1, 1)
            y = pm.Data("y", np.linspace(-1, 1, N))
            pm.Potential("loss", pt.switch(y > cut, 0.0, -3.0) + 0.0 * y * cut)
        return pmp.privatize(model, records={"y": 0}, domain={"y": (-1, 1)})

    found = solved(next(objectives(guarded())))
    assert found.upper == pytest.approx(6.0, rel=0.05)
    everywhere = lambda *_: np.asarray(True)  # noqa: E731
    monkeypatch.setattr(batched_bounds, "continuous_on_boxes", everywhere)
    assert solved(next(objectives(guarded()))).upper < 5.0


def test_a_switch_is_left_out_only_where_both_branches_agree():
    u, v = pt.dscalar("u"), pt.dscalar("v")
    box = {u: Bounds(np.array(0.5), np.array(2.0)), v: Bounds(np.array(1.0), np.array(2.0))}
    agrees = specialize.specialize(pt.switch(pt.eq(u, 1.0), 0.0, (u - 1.0) * pt.log(v)), box)
    differs = [
        pt.switch(pt.eq(u, 1.0), 0.0, u * pt.log(v)),
        pt.switch(pt.eq(u, 1.0), 1.0, (u - 1.0) * pt.log(v)),
        pt.switch(pt.eq(u, 1.0), 0.0, (u - 2.0) * pt.log(v)),
    ]

    def switches(graph):
        names = [str(v.owner.op) for v in ancestors([graph]) if v.owner is not None]
        return any("witch" in name for name in names)

    assert not switches(agrees)
    assert all(switches(specialize.specialize(graph, box)) for graph in differs)


def test_terms_of_records_alone_and_of_parameters_alone_do_not_count():
    x, t = pt.dscalar("x"), pt.dscalar("t")
    value = specialize.interaction_terms(
        pt.exp(x) - (t**3 + (2.0 * x * t - pt.log(x))) + pt.sum(pt.stack([t, t])), [x], [t]
    )
    points = [(0.3, 1.7), (2.0, -0.4)]
    left = [float(value.eval({x: a, t: b}, mode="FAST_COMPILE")) for a, b in points]
    wanted = [-2.0 * a * b for a, b in points]
    assert np.subtract(left, left[0]) == pytest.approx(np.subtract(wanted, wanted[0]))


def test_the_bound_does_not_move_with_the_number_of_records():
    one = BY_NAME["negative binomial"]
    few = one.privatize(one.data(np.random.default_rng(1), 8))
    many = one.privatize(one.data(np.random.default_rng(1), 501))
    assert pmp.certify(few).range == pmp.certify(many).range


def test_public_numbers_without_a_records_axis_are_constants():
    with pm.Model(coords={"i": range(4)}) as model:
        w = pm.Data("w", np.array([1.0, 2.0]))
        y, t = pm.Data("y", np.zeros(4), dims="i"), pm.Uniform("t", 0, 1)
        pm.Potential("f", -w[1] * y * t, dims="i")
    found = pmp.certify(pmp.privatize(model, records="i", domain={"y": (0, 1)}, public=["w"]))
    assert found.range == pytest.approx(2.0)


def test_the_worst_case_is_where_the_range_is_attained():
    found = pmp.certify(private_of("normal"))
    by_name = {place.name: place for place in found.where}
    assert sorted(by_name["y"].values) == [-2.0, 2.0]
    assert by_name["s"].values == (0.5, 0.5)
    assert not found.is_relaxed
    labels = [label.get_text() for label in found.plot().get_yticklabels()]
    assert labels == ["y", "mu", "s"]
    assert pmp.certify(private_of("logistic")).is_relaxed


def test_terms_that_all_cancel_have_range_zero():
    with pm.Model(coords={"i": range(4)}) as model:
        u = pm.Uniform("u", 1, 2)
        pm.Uniform("y", 0, u, observed=np.full(4, 0.5), dims="i")
    found = pmp.certify(pmp.privatize(model, records="i", domain={"y": (0.1, 0.9)}))
    assert (found.range, found.tightness) == (0.0, 1.0)


def test_a_discrete_uniform_parameter_has_the_support_it_states():
    with pm.Model(coords={"i": range(5)}) as model:
        y, d = pm.Data("y", np.zeros(5), dims="i"), pm.DiscreteUniform("d", 0, 2)
        pm.Potential("f", y * d, dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    assert pmp.certify(private).range == pytest.approx(4.0, rel=0.011)


def test_more_public_rows_than_boxes_are_bounded_all_the_same(monkeypatch):
    def private():
        rng = np.random.default_rng(6)
        with pm.Model(coords={"i": range(60)}) as model:
            x = pm.Data("x", rng.uniform(-1, 1, 60), dims="i")
            b = pm.Normal("b", 0, 1)
            pm.Normal("y", b * x, 1.0, observed=rng.normal(size=60).clip(-2, 2), dims="i")
        made = pmp.privatize(model, records="i", domain={"y": (-2, 2)}, public=["x"])
        return pmp.trim(made, box={"b": (-1, 1)})

    exact = pmp.certify(private())
    monkeypatch.setattr(record_bounds, "MOST_PUBLIC_ROWS", 4)
    monkeypatch.setattr(range_objective, "MOST_PUBLIC_ROWS", 4)
    boxed = pmp.certify(private())
    assert boxed.is_relaxed
    assert not exact.is_relaxed
    assert exact.searched <= exact.range * 1.0 + 1e-9 <= boxed.range * 1.011


@pytest.mark.audit
def test_a_power_that_jumps_at_zero_has_no_slopes():
    # y^t is 0 at y = 0 for t > 0, and 1 at t = 0.
    with pm.Model(coords={"i": range(3)}) as model:
        y, t = pm.Data("y", np.zeros(3), dims="i"), pm.Uniform("t", 0, 1)
        pm.Potential("f", y**t, dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (0, 1)})
    with pytest.raises(pmp.errors.NotCertified):
        pmp.certify(private)


def test_of_two_mirror_images_one_is_left():
    """Exchanging both records and both points changes nothing: half of the boxes are enough."""
    objective = next(objectives(private_of("normal")))
    lower, upper = objective.roots()
    first, second = objective._mirror
    low, high = lower.repeat(2, axis=0), upper.repeat(2, axis=0)
    middle = lower[0, first] / 2 + upper[0, first] / 2
    low[0, second], high[0, first] = middle + 0.1, middle - 0.1
    low[1, first], high[1, second] = middle + 0.1, middle - 0.1
    kept = objective.tighten(low, high)[2]
    assert list(kept) == [True, False]
    assert solved(objective).upper >= 32.0  # the range of this model


def test_a_mirror_that_drops_both_images_is_caught(monkeypatch):
    """Planted: both copies of a number kept apart, in order and out of order."""
    true = range_objective.RangeObjective.tighten

    def both(self, lower, upper):
        lower, upper, left = true(self, lower, upper)
        first, second = self._mirror
        return lower, upper, left & (upper[:, second] <= lower[:, first])

    monkeypatch.setattr(range_objective.RangeObjective, "tighten", both)
    assert planted(monkeypatch, "normal") > 1.0


def test_no_maximum_is_moved_out_of_order_on_both_boxes_of_its_images():
    """At x = 1, z = 1 the loss is flat in u, so the slopes of a box that also holds k = 1 tell
    which way to move u; at z = 0 it is least at u = 0.3, between the ends."""
    with pm.Model() as model:
        u, z = pm.Uniform("u", 0, 1), pm.DiscreteUniform("z", 0, 1)
        x, k = (pm.Data(name, np.arange(N) % 2) for name in "xk")
        sign, w = 2 * x - 1, pt.switch(pt.eq(z, 1), 1.0, (u - 0.3) ** 2 - 1)
        pm.Potential("loss", pt.switch(pt.eq(k, 0), sign * w, sign * 0.1 * w - 0.1 * u))
    private = pmp.privatize(model, records={"x": 0, "k": 0}, domain={"x": (0, 1), "k": (0, 31)})
    assert solved(next(objectives(private)), goal=1e-3).upper >= 4.0


def test_a_mean_that_is_reduced_is_still_at_least_what_is_found():
    """min(u, v) and u as numbers of their own: a mean between them would fit no u and v."""
    with pm.Model() as model:
        u, v = pm.Uniform("u", 0, 1), pm.Uniform("v", -1, 1)
        x = pm.Data("x", np.linspace(0, 1, N))
        pm.Potential("loss", pt.tanh(pt.abs(v * (1 - x) + u * x)))
    private = pmp.privatize(model, records={"x": 0}, domain={"x": (0, 1)}, neighbors="add_remove")
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    objective = range_objective.RangeObjective(
        record, private.sources, private.box, ADDITION, together=True
    )
    assert solved(objective).upper >= np.tanh(1.0)
