"""The trimmed and tempered model is a plain PyMC model with the density it should have."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.certificates import range_bound
from pymc_private.models.domains import project_onto_simplex
from tests.models.brute_force import natural_logp, stripped

N = 20
COORDS = {"i": range(N), "group": ["a", "b", "c"], "column": ["x", "z"]}


@pytest.fixture(scope="module")
def private():
    """Give a hierarchy with a simplex, a private index and a row-wise potential."""
    rng = np.random.default_rng(0)
    with pm.Model(coords=COORDS) as model:
        mu, tau = pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 1)
        group = pm.Normal("group_mean", mu, tau, dims="group")
        slope = pm.Normal("slope", 0, 2, dims="column", initval=[0.1, 0.2])
        share = pm.Dirichlet("share", np.array([2.0, 3.0, 4.0]), dims="group")
        g = pm.Data("g", rng.integers(0, 3, N), dims="i")
        x = pm.Data("x", rng.uniform(-1, 1, (N, 2)), dims=("i", "column"))
        mean = pm.Deterministic("mean", group[g] + x @ slope)
        pm.Normal("y", mean, 1.0, observed=rng.uniform(-2, 2, N), dims="i")
        pm.Potential("weight", pm.math.log(share)[g])
        pm.Potential("public", -(mu**2))
    domain = {"g": range(3), "x": pmp.Ball(1.5), "y": (-2, 2)}
    return pmp.privatize(model, records="i", domain=domain)


BOX = {
    "tau": (0.2, 3),
    "group_mean": (-1, [1, 1.5, 2]),
    "slope": (-2, 2),
    "share": (0.1, 0.7),
}


@pytest.fixture(scope="module")
def trimmed(private):
    """Give it in a box, its likelihood to the power of a quarter."""
    return pmp.temper(pmp.trim(private, box=BOX), 0.25)


def points(private, count, inside=True):
    """Random points of the box, or points with one coordinate outside."""
    rng = np.random.default_rng(5)
    for _ in range(count):
        point = {}
        for name, box in private.box.items():
            low, high = np.clip(box.lower, -3, 3), np.clip(box.upper, -3, 3)
            value = low + rng.random(low.shape) * (high - low)
            point[name] = value if box.within is None else project_onto_simplex(value, low, high)
        if not inside:
            point["share"] = np.array([0.05, 0.45, 0.5])
        yield point


def test_names_dims_and_coords_are_kept(private, trimmed):
    model, base = trimmed.model, private.base
    assert type(model) is pm.Model
    assert set(model.named_vars) - set(base.named_vars) == {
        "likelihood_power",
        "region",
        "region_share",
    }
    assert set(base.named_vars) <= set(model.named_vars)
    assert {rv.name for rv in model.free_RVs} == {rv.name for rv in base.free_RVs}
    for kept in ("named_vars_to_dims", "coords"):
        old, new = getattr(base, kept), getattr(model, kept)
        assert {k: list(v) for k, v in new.items()} == {k: list(v) for k, v in old.items()}
    assert [d.name for d in model.deterministics] == ["mean"]


def test_the_density_is_the_prior_times_a_power_of_the_likelihood(private, trimmed):
    whole = natural_logp(private.base)
    prior = natural_logp(private.base, without=("y", "weight"))
    restricted = natural_logp(stripped(pmp.temper(trimmed, 1).model))
    for point in points(trimmed, 5):
        likelihood = whole(point) - prior(point)
        assert restricted(point) == pytest.approx(prior(point) + 0.25 * likelihood, rel=1e-10)


def test_the_record_graph_and_the_model_agree_on_the_factors(private):
    assert private.graph.factors == ("y", "weight")


def test_outside_the_box_there_is_no_density(trimmed):
    restricted = natural_logp(stripped(pmp.temper(trimmed, 1).model))
    for point in points(trimmed, 3, inside=False):
        assert restricted(point) == -np.inf


def test_an_interval_transform_cannot_leave_the_box(trimmed):
    model = trimmed.model
    names = ["tau", "group_mean", "slope"]
    natural = pytensor.function(
        model.value_vars,
        model.replace_rvs_by_values([model[name] for name in names]),
        mode="FAST_COMPILE",
        on_unused_input="ignore",
    )
    for far in (-30.0, 30.0):
        start = model.initial_point()
        values = natural(*(start[v.name] + far for v in model.value_vars))
        for name, value in zip(names, values, strict=True):
            box = trimmed.box[name]
            assert np.all((box.lower - 1e-9 <= value) & (value <= box.upper + 1e-9))


def test_the_start_lies_inside_and_has_a_density(trimmed):
    model = trimmed.model
    start = model.initial_point()
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(start))
    assert start["group_mean_interval__"] == pytest.approx(np.zeros(3))
    assert set(start) >= {"tau_interval__", "slope_interval__", "share_simplex__", "mu"}


def test_the_untrimmed_model_keeps_its_starts_and_its_density(private):
    model = pmp.temper(private, 1).model
    assert model.initial_point()["slope"].tolist() == [0.1, 0.2]
    whole, same = natural_logp(private.base), natural_logp(stripped(model))
    for point in points(private, 3):
        assert same(point) == pytest.approx(whole(point), rel=1e-12)


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_pm_sample_runs_on_the_trimmed_model(trimmed):
    with trimmed.model:
        drawn = pm.sample(
            draws=15,
            tune=15,
            chains=1,
            cores=1,
            progressbar=False,
            compute_convergence_checks=False,
            compile_kwargs={"mode": "FAST_COMPILE"},
            random_seed=1,
        )
    for name in BOX:
        values, box = drawn.posterior[name].values, trimmed.box[name]
        assert np.all((box.lower <= values) & (values <= box.upper))


@pytest.mark.parametrize(
    ("first", "second", "lower", "upper"),
    [((-1, 2), (0, 3), 0, 2), ((0, 1), (-5, 5), 0, 1), ((-np.inf, 1), (-1, np.inf), -1, 1)],
)
def test_nested_trims_intersect(private, first, second, lower, upper):
    twice = pmp.trim(pmp.trim(private, box={"slope": first}), box={"slope": second})
    assert np.all(twice.box["slope"].lower == lower)
    assert np.all(twice.box["slope"].upper == upper)
    assert private.region == {}
    apart = pmp.trim(private, box={"slope": (0, 1)})
    with pytest.raises(pmp.errors.DomainError, match="empty"):
        pmp.trim(apart, box={"slope": (1.5, 2)})


def test_a_trim_meets_the_support_of_the_prior(private):
    assert pmp.trim(private, box={"tau": (-1, 2)}).box["tau"].lower == 0
    assert pmp.trim(private, box={"share": (-1, 0.6)}).box["share"].lower.tolist() == [0] * 3


def test_a_smaller_box_never_has_a_larger_range(private):
    ranges = []
    for reach in (0.5, 1.0, 2.0):
        ends = (-reach, reach)
        box = {"group_mean": ends, "slope": ends, "share": (0.2, 0.6)}
        ranges.append(pmp.certify(pmp.trim(private, box=box), tolerance=3, seconds=0).range)
    assert ranges == sorted(ranges)
    assert ranges[0] < ranges[-1]


def test_one_sided_boxes_work(private):
    model = pmp.trim(private, box={"tau": (0.5, np.inf), "slope": (-np.inf, 1)}).model
    start = model.initial_point()
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(start))


def test_powers_multiply(private):
    assert pmp.temper(pmp.temper(private, 0.5), Fraction(1, 3)).power == Fraction(1, 6)


ALARM = 1e-9
"""Probability that a correct box fails one of the two tests below."""


def prior_share(private, region, draws=4000):
    """How many of fresh prior draws lie in a region."""
    names = list(region)
    drawn = pm.draw([private.base[k] for k in names], draws, random_seed=99, mode="FAST_COMPILE")
    inside = np.ones(draws, dtype=bool)
    for name, values in zip(names, drawn, strict=True):
        box = region[name]
        within = (box.lower <= values) & (values <= box.upper)
        inside &= within.reshape(draws, -1).all(axis=1)
    return inside.sum()


def test_a_mass_box_holds_at_least_about_that_prior_mass(private):
    """The union bound makes the true mass at least that stated, but for the quantiles' own error.

    Quantiles of 4000 draws at a tail of 0.05 / 14 leave out at most twice that tail each with
    probability 1 - ALARM (binomial); the fresh draws err by a binomial as well.
    """
    mass, draws = 0.95, 4000
    region = pmp.trim(private, mass=mass).region
    assert set(region) == {"mu", "tau", "group_mean", "slope"}  # a simplex is no box
    size = sum(box.lower.size for box in region.values())
    tail = (1 - mass) / size / 2
    worst = stats.binom.isf(ALARM / size / 4, draws, tail) / draws  # of a tail seen as `tail`
    least = 1 - 2 * size * max(worst, 2 * tail)
    assert prior_share(private, region) >= stats.binom.ppf(ALARM / 2, draws, least)


def test_a_mass_box_of_one_normal_is_its_central_interval():
    with pm.Model(coords={"i": range(3)}) as model:
        pm.Normal("y", pm.Normal("mu", 1, 2), 1, observed=np.zeros(3), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    for mass in (0.5, 0.9, 0.999):
        box = pmp.trim(private, mass=mass).box["mu"]
        ends = stats.norm(1, 2).interval(mass)
        assert (float(box.lower), float(box.upper)) == pytest.approx(ends, rel=1e-6)


@pytest.mark.audit
def test_a_larger_mass_has_a_larger_box(private):
    regions = [pmp.trim(private, mass=mass).region for mass in (0.8, 0.9, 0.99)]
    for small, large in itertools.pairwise(regions):
        for name in small:
            assert np.all(large[name].lower <= small[name].lower)
            assert np.all(small[name].upper <= large[name].upper)


@pytest.mark.audit
def test_the_mass_box_is_the_same_each_time(private):
    first, second = (pmp.trim(private, mass=0.9).region for _ in range(2))
    for name in first:
        assert np.array_equal(first[name].lower, second[name].lower)
        assert np.array_equal(first[name].upper, second[name].upper)


@pytest.mark.parametrize("target", [[0.9, 0.05, 0.05], [0, 0, 1], [5.0, -3, 0.1]])
def test_points_are_moved_onto_the_simplex_inside_a_box(target):
    lower, upper = np.array([0.1, 0.2, 0.1]), np.array([0.7, 0.5, 0.6])
    moved = project_onto_simplex(np.array(target), lower, upper)
    assert moved.sum() == pytest.approx(1.0)
    assert np.all((lower <= moved) & (moved <= upper))


def ordinal():
    with pm.Model(coords={"i": range(6)}) as model:
        x = pm.Data("x", np.linspace(-1, 1, 6), dims="i")
        cut = pm.Normal(
            "cut", [-1.0, 1.0], 1, transform=pm.distributions.transforms.ordered, initval=[-1, 1]
        )
        pm.OrderedLogistic(
            "y", eta=pm.Normal("b", 0, 1) * x, cutpoints=cut, observed=[0, 1, 2, 0, 1, 2], dims="i"
        )
    return pmp.privatize(model, records="i", domain={"x": (-1, 1), "y": {0, 1, 2}})


@pytest.mark.audit
def test_ordered_cutpoints_are_trimmed_to_boxes_that_keep_their_order():
    box = {"b": (-1, 1), "cut": ([-2.0, 0.5], [-0.5, 2.0])}
    private = pmp.trim(ordinal(), box=box)
    assert np.isfinite(pmp.certify(private).range)
    plain = private.model
    start = plain.initial_point()
    assert np.isfinite(plain.compile_logp(mode="FAST_COMPILE")(start))
    with pytest.raises(pmp.errors.DomainError, match="overlap"):
        pmp.trim(ordinal(), box={"cut": (-2, 2)})


@pytest.mark.audit
def test_a_packed_cholesky_factor_is_trimmed_where_it_is_packed(monkeypatch):
    for effort in ("BOX_EFFORT", "ROW_EFFORT", "SEARCH_EFFORT"):
        monkeypatch.setattr(range_bound, effort, 100.0)
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("c", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1, size=2))
        pm.MvNormal("y", pm.Normal("mu", 0, 1, shape=2), chol=chol, observed=np.zeros((5, 2)))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-2, 2)})
    assert private.box["c"].lower.tolist() == [0.0, -np.inf, 0.0]
    box = {"mu": (-1, 1), "c": ([0.5, -0.5, 0.5], [1.5, 0.5, 1.5])}
    trimmed = pmp.trim(private, box=box)
    assert np.isfinite(pmp.certify(trimmed).range)
    logp = trimmed.model.compile_logp(mode="FAST_COMPILE")
    inside = trimmed.model.initial_point()
    assert np.isfinite(logp(inside))
    outside = dict(inside) | {"c_cholesky-cov-packed__": np.array([3.0, 0.0, 0.0])}
    assert logp(outside) == -np.inf


def test_a_flat_prior_has_no_central_box():
    with pm.Model(coords={"t": range(3)}) as model:
        pm.Bernoulli("y", logit_p=pm.Flat("mu"), observed=[0, 1, 1], dims="t")
    private = pmp.privatize(model, records="t")
    with pytest.raises(pmp.errors.DomainError, match="box="):
        pmp.trim(private, mass=0.9)


def test_the_cure_of_a_refusal_is_one_that_cures():
    """`mass=` leaves out ordered entries, which have no quantiles one by one."""
    ordered = pm.distributions.transforms.ordered
    with pm.Model(coords={"i": range(4)}) as model:
        cuts = pm.Normal("cuts", 0, 1, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))
        eta = pm.Normal("eta", 0, 1)
        pm.OrderedLogistic("y", eta=eta, cutpoints=cuts, observed=np.zeros(4, int), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": {0, 1, 2}})
    for each in (private, pmp.trim(private, mass=0.99)):
        with pytest.raises(pmp.errors.NotCertified) as refusal:
            pmp.certify(each)
        assert "mass= does not trim cuts" in str(refusal.value)
        assert "mass=0.99" not in str(refusal.value)
    box = {"eta": (-1, 1), "cuts": (np.array([-2, 0.5]), np.array([0.0, 2.0]))}
    assert np.isfinite(pmp.certify(pmp.trim(private, box=box)).range)
