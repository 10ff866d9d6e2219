"""Promises per unit of distance: formulas, brute force, and metrics that are refused."""

from __future__ import annotations

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import pymc_private as pmp
from pymc_private import Metric
from pymc_private.models.fingerprint import model_fingerprint
from pymc_private.models.metric import level_distances

N = 5
LOW, HIGH = 0.5, 3.0


def build(kind: str, metric, box=(LOW, HIGH), **keywords):
    zeros = np.zeros(N)
    with pm.Model(coords={"p": range(N), "k": range(2)}) as model:
        if kind == "logistic":
            x = pm.Data("X", np.zeros((N, 2)), dims=("p", "k"))
            theta = pm.Normal("theta", 0, 1, dims="k")
            pm.Bernoulli("y", logit_p=x @ theta, observed=zeros.astype(int), dims="p")
        else:
            theta = pm.Exponential("theta", 2.0)
            {
                "exponential": lambda: pm.Exponential("y", theta, observed=zeros, dims="p"),
                "laplace": lambda: pm.Laplace("y", 0.2, 1 / theta, observed=zeros, dims="p"),
                "normal": lambda: pm.Normal("y", 0.2, tau=theta, observed=zeros, dims="p"),
                "mean": lambda: pm.Normal("y", theta, 1, observed=zeros, dims="p"),
                "poisson": lambda: pm.Poisson("y", theta, observed=zeros.astype(int), dims="p"),
            }[kind]()
    domain = {
        "exponential": {"y": (0, 1)},
        "poisson": {"y": (0, 4)},
        "logistic": {"X": pmp.Ball(1.0)},
    }.get(kind, {"y": (-1, 1)})
    private = pmp.privatize(model, records="p", domain=domain, neighbors=metric, **keywords)
    return pmp.trim(private, box={"theta": box})


def square(y):
    return (y - 0.2) ** 2


ABSOLUTE = Metric({"y": "absolute"})
FORMULAS = {
    "exponential: (c2 - c1) |x - y| of T5": ("exponential", ABSOLUTE, HIGH - LOW),
    "laplace, with a kink": ("laplace", ABSOLUTE, HIGH - LOW),
    "normal precision": ("normal", ABSOLUTE, (HIGH - LOW) * 1.2),
    "normal precision by its statistic": ("normal", Metric({"y": square}), (HIGH - LOW) / 2),
    "normal mean": ("mean", ABSOLUTE, HIGH - LOW),
    "normal mean by a monotone statistic": (
        "mean",
        Metric({"y": lambda y: pt.exp(y)}),
        (HIGH - LOW) * np.e,
    ),
    "counts, step by step": ("poisson", ABSOLUTE, np.log(HIGH / LOW)),
    "counts, any change": ("poisson", Metric({"y": "hamming"}), 4 * np.log(HIGH / LOW)),
    "a weight": ("exponential", Metric({"y": "absolute"}, {"y": 4.0}), (HIGH - LOW) / 4),
}


SLOW = {
    "normal mean by a monotone statistic",
    "normal precision",
    "normal mean",
    "counts, any change",
    "a weight",
}


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.audit] if n in SLOW else []) for n in FORMULAS],
)
def test_the_range_per_unit_is_the_formula(name):
    kind, metric, exact = FORMULAS[name]
    found = pmp.certify(build(kind, metric))
    assert exact * (1 - 1e-9) <= found.range <= exact * 1.011
    assert found.searched <= exact * (1 + 1e-9)
    assert found.searched >= 0.55 * exact


LOG_DENSITIES = {
    "exponential": lambda y, t: stats.expon.logpdf(y, scale=1 / t),
    "normal": lambda y, t: stats.norm.logpdf(y, 0.2, t**-0.5),
    "poisson": lambda y, t: stats.poisson.logpmf(y, t),
}


@pytest.mark.parametrize(
    "kind",
    ["poisson", *(pytest.param(k, marks=pytest.mark.audit) for k in ("exponential", "normal"))],
)
def test_no_pair_of_records_is_steeper_than_the_certificate(kind):
    metric = {"poisson": Metric({"y": "absolute"})}.get(kind, ABSOLUTE)
    found = pmp.certify(build(kind, metric))
    ys = (
        np.arange(5) if kind == "poisson" else np.linspace(*((0, 1), (-1, 1))[kind == "normal"], 33)
    )
    rates = np.linspace(LOW, HIGH, 60)
    table = LOG_DENSITIES[kind](ys[:, None], rates)
    steepest = 0.0
    for i, j in itertools.combinations(range(len(ys)), 2):
        gap = table[i] - table[j]
        steepest = max(steepest, (gap.max() - gap.min()) / abs(ys[i] - ys[j]))
    assert steepest <= found.range
    assert steepest >= 0.9 * found.range  # a range a tenth smaller would be caught


def test_several_variables_add_their_distances():
    """||X - X'||_2 + 3 [y differs] of logistic regression, by random pairs of whole records."""
    metric = Metric({"X": "l2", "y": "hamming"}, {"y": 3.0})
    found = pmp.certify(build("logistic", metric, (-1, 1)))
    rng = np.random.default_rng(0)
    thetas = np.array([*itertools.product((-1.0, 0.0, 1.0), repeat=2)])

    def logs(x, y):
        eta = thetas @ x
        return y * eta - np.logaddexp(0, eta)

    steepest = 0.0
    for _ in range(400):
        x = rng.normal(size=(2, 2))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        x[1] = x[0] + rng.random() * (x[1] - x[0])
        y = rng.integers(0, 2, 2)
        gap = logs(x[0], y[0]) - logs(x[1], y[1])
        records = [{"X": x[k], "y": y[k]} for k in (0, 1)]
        steepest = max(steepest, np.ptp(gap) / metric.between(*records))
    assert 0.4 * found.range < steepest <= found.range


def test_a_promise_by_distance_is_priced_and_converted_but_charged_apart():
    private = build("exponential", ABSOLUTE)
    plan = pmp.calibrate(private, epsilon=1.0, draws=2)
    assert "a change of distance 1" in plan.summary()
    assert plan.guarantee.neighbors == "distance <= 1 in |y - y'|"
    assert plan.guarantee.pure_epsilon <= 1.0
    assert plan.guarantee.at(0.1).pure_epsilon <= 0.1 * (1 + 1e-9)
    ledger = pmp.Ledger(epsilon=10)
    with pytest.raises(pmp.errors.Incompatible):
        pmp.sample(plan, ledger=ledger, progressbar=False)
    assert not ledger.entries
    own = pmp.Ledger(epsilon=10, neighbors=ABSOLUTE.relation)
    release = pmp.sample(plan, ledger=own, progressbar=False)
    assert len(own.entries) == 1
    assert "1 apart" in str(pmp.report(release))


def test_one_formula_is_one_relation_and_two_are_two():
    one, other = Metric({"y": square}), Metric({"y": lambda y: (y - 0.2) ** 2})
    assert one.relation == other.relation
    assert one.relation != Metric({"y": lambda y: (y - 0.25) ** 2}).relation
    assert ABSOLUTE.relation != Metric({"y": "absolute"}, {"y": 2.0}).relation
    prints = {model_fingerprint(build("normal", m)) for m in (one, ABSOLUTE, "substitute")}
    assert len(prints) == 3


@pytest.mark.audit
def test_a_private_model_with_a_metric_survives_pickling():
    private = build("normal", Metric({"y": square}))
    copy = pickle.loads(pickle.dumps(private))
    assert pmp.certify(copy).range == pmp.certify(private).range


def test_nothing_reads_the_data():
    private = build("exponential", ABSOLUTE)
    before = pmp.certify(private).range
    for source in private.sources:
        source.variable.set_value(np.full(N, np.nan))
    assert pmp.certify(private).range == before


@pytest.mark.parametrize(
    ("kind", "metric", "match"),
    [
        ("exponential", Metric({"z": "absolute"}), "private variables"),
        ("logistic", Metric({"y": "hamming"}), "no distance of X"),
        ("logistic", Metric({"X": "absolute", "y": "hamming"}), "single numbers"),
        ("logistic", Metric({"X": lambda x: x.sum(), "y": "hamming"}), "single numbers"),
    ],
)
def test_a_metric_that_does_not_fit_is_refused(kind, metric, match):
    with pytest.raises(pmp.errors.DomainError, match=match):
        build(kind, metric)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Metric({}),
        lambda: Metric("y"),
        lambda: Metric({"y": "l3"}),
        lambda: Metric({"y": "l1"}, {"y": 0.0}),
        lambda: Metric({"y": "l1"}, {"x": 1.0}),
        lambda: Metric({"y": lambda y: pt.stack([y, y])}).description,
    ],
)
def test_an_impossible_metric_is_refused(make):
    with pytest.raises(pmp.errors.DomainError):
        make()


def test_a_statistic_that_hides_what_the_likelihood_reads_is_refused():
    """(y - 0.3)^2 is 0 where likelihoods with center 0.2 differ: brute force shows it."""
    private = build("normal", Metric({"y": lambda y: (y - 0.3) ** 2}))
    with pytest.raises(pmp.errors.NotCertified, match="through the statistic"):
        pmp.certify(private)
    y, same = -0.1, 0.7
    assert (y - 0.3) ** 2 == pytest.approx((same - 0.3) ** 2)
    scales = np.array([LOW, HIGH])
    gap = LOG_DENSITIES["normal"](y, scales) - LOG_DENSITIES["normal"](same, scales)
    assert abs(gap[0] - gap[1]) > 0.1


def test_a_likelihood_that_jumps_has_no_slope():
    with pm.Model(coords={"p": range(N)}) as model:
        theta = pm.Uniform("theta", 0, 1)
        pm.Potential("jump", pm.math.switch(pm.Data("y", np.zeros(N), dims="p") > 0.5, theta, 0.0))
    private = pmp.privatize(model, records="p", domain={"y": (0, 1)}, neighbors=ABSOLUTE)
    with pytest.raises(pmp.errors.NotCertified, match="not proved continuous"):
        pmp.certify(private)


def test_units_and_theta_l_are_not_of_a_metric():
    with pytest.raises(pmp.errors.DomainError, match="records_per_unit"):
        build("exponential", ABSOLUTE, records_per_unit=2)
    with pytest.raises(pmp.errors.Unsupported, match="at a distance"):
        pmp.trim(build("exponential", ABSOLUTE), lipschitz=1.0)


def test_the_grid_whose_rounding_is_priced_per_record_takes_no_metric():
    """Two records however near may be rounded apart: that is no price per unit of distance."""
    with pm.Model(coords={"i": range(9)}) as model:
        rate = pm.Gamma("rate", 2, 2)
        pm.Exponential("y", rate, observed=np.full(9, 0.5), dims="i")
    private = pmp.privatize(
        model, records="i", domain={"y": (0.1, 3)}, neighbors=pmp.Metric({"y": "absolute"})
    )
    private = pmp.trim(private, box={"rate": (0.5, 2)})
    with pytest.raises(pmp.errors.Unsupported, match="grid"):
        pmp.calibrate(private, epsilon=1, sampler="grid")


@pytest.mark.parametrize(
    "jump",
    [
        lambda y: pt.mod(y, 1.0),
        lambda y: y - pt.floor(y),
        lambda y: y - pt.round(y),
        lambda y: y - 2.0 * pt.switch(y > 0, 1.0, 0.0),
    ],
)
def test_a_statistic_that_jumps_is_no_distance(jump):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("t", 0, 1), 1.0, observed=np.zeros(5))
    metric = pmp.Metric({"y": jump})
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-1, 1)}, neighbors=metric)
    with pytest.raises(pmp.errors.NotCertified, match="statistic is not proved continuous"):
        pmp.certify(pmp.trim(private, box={"t": (0.5, 3.0)}))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, bool])
@pytest.mark.parametrize("kind", ["absolute", "l1", "l2", "linf"])
def test_short_integers_do_not_wrap_around(dtype, kind):
    info = (False, True) if dtype is bool else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    low, high = (np.array(end, dtype) for end in info)
    if kind != "absolute":
        low, high = np.stack([low, low]), np.stack([high, high])
    metric = pmp.Metric({"y": kind})
    each = int(info[1]) - int(info[0])
    exact = each * {"l1": 2, "l2": 2**0.5}.get(kind, 1)
    assert metric.between({"y": low}, {"y": high}) == pytest.approx(exact, rel=1e-12)
    assert metric.between({"y": high}, {"y": low}) >= exact * (1 - 2**-52)
    assert metric.between({"y": low}, {"y": low}) == 0


@pytest.mark.audit
def test_a_softmax_has_a_distance_or_is_refused_by_name():
    n = 6
    with pm.Model(coords={"i": range(n)}) as model:
        x = pm.Data("x", np.zeros((n, 2)), dims=("i", None))
        t = pm.Normal("t", shape=(2, 3))
        pm.Categorical("y", logit_p=x @ t, observed=np.zeros(n, int), dims="i")
    metric = pmp.Metric({"x": "l2", "y": "hamming"})
    domain = {"x": pmp.Ball(1.0), "y": [0, 1, 2]}
    private = pmp.privatize(model, records="i", domain=domain, neighbors=metric)
    try:
        found = pmp.certify(pmp.trim(private, box={"t": (-1, 1)}), tolerance=1)
    except pmp.errors.NotCertified:
        return
    assert found.searched <= found.range


@pytest.mark.parametrize("read", ["private data", "public data", "generator"])
def test_a_statistic_that_reads_what_can_change_is_refused(read):
    with pm.Model(coords={"p": range(N)}) as model:
        shared = {
            "private data": lambda: pm.Data("X", np.arange(float(N)), dims="p").mean(),
            "public data": lambda: pm.Data("scale", 2.0),
            "generator": lambda: pm.Normal.dist(),
        }[read]()
        theta = pm.Exponential("theta", 2.0)
        pm.Exponential("y", theta, observed=np.zeros(N), dims="p")
    domain = {"y": (0, 1)} | ({"X": (0, 9)} if read == "private data" else {})
    metric = Metric({"y": lambda y: y * shared})
    with pytest.raises(pmp.errors.DomainError, match="reads one number of a record, and nothing"):
        pmp.privatize(model, records="p", domain=domain, neighbors=metric)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6, unique=True))
def test_distances_of_levels_are_rounded_down(levels):
    ordered = sorted(levels)
    gaps = level_distances(ordered, "absolute", pt.scalar("y"))
    exact = [Fraction(b) - Fraction(a) for a, b in itertools.pairwise(ordered)]
    assert all(Fraction(gap) <= step for gap, step in zip(gaps, exact, strict=True))
    assert gaps == pytest.approx([float(step) for step in exact], rel=1e-15)


def test_plain_differences_would_not_be():
    # The planted fault: subtraction of doubles rounds to nearest, half of the time upward.
    pairs = [(k / 10, 1 + k / 7) for k in range(1, 20)]
    assert any(Fraction(b - a) > Fraction(b) - Fraction(a) for a, b in pairs)
