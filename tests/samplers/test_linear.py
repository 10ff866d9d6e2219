"""From a PyMC model to the proximal sampler: the right density, a public number of steps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pymc as pm
import pytensor
import pytest

import pymc_private as pmp
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.samplers.proximal import KINK_COST
from pymc_private.samplers.proximal_likelihoods import GeneralCurve, LogisticCurve, QuadraticCurve
from pymc_private.samplers.proximal_target import make_posterior, plan_schedule, whiten
from pymc_private.samplers.randomness import SeededRandomness
from tests.statistics import cdf_envelope

N = 12
RNG = np.random.default_rng(6)
X = RNG.normal(size=(N, 2))
X /= np.linalg.norm(X, axis=1)[:, None]
BINARY = (RNG.random(N) < 0.6).astype(int)
COORDS = {"i": range(N), "f": ["one", "two"]}


def predictor(intercept=True):
    x = pm.Data("x", X, dims=("i", "f"))
    beta = pm.Normal("beta", 0.5, [1.0, 2.0], dims="f")
    return x @ beta + (pm.Normal("a", -0.3, 1.5) if intercept else 0.0)


def logistic():
    pm.Bernoulli("y", logit_p=predictor(), observed=BINARY, dims="i")


def poisson():
    pm.Poisson("y", pm.math.exp(predictor()), observed=RNG.poisson(1.5, N), dims="i")


def linear():
    pm.Normal("y", predictor(), 0.7, observed=RNG.uniform(-1, 1, N), dims="i")


def laplace_errors():
    pm.Laplace("y", predictor(), 0.7, observed=RNG.uniform(-1, 1, N), dims="i")


def quantile():
    pm.AsymmetricLaplace(
        "y", mu=predictor(), b=1.2, q=0.8, observed=RNG.uniform(-1, 1, N), dims="i"
    )


def probit():
    p = pm.math.invprobit(predictor())
    pm.Bernoulli("y", p, observed=BINARY, dims="i")


def doubled():
    """A logit that is twice a predictor: the stable form must not be mistaken for it."""
    pm.Bernoulli("y", logit_p=2 * predictor(), observed=BINARY, dims="i")


def half_normal():
    x = pm.Data("x", X, dims=("i", "f"))
    slope = pm.HalfNormal("slope", 2.0)
    pm.Bernoulli("y", logit_p=slope * x[:, 0] - 0.2, observed=BINARY, dims="i")


BOX = {"beta": (-1, 2), "a": (-1, 1)}
CASES = {
    "logistic": (logistic, {}, None, LogisticCurve),
    "logistic in a box": (logistic, {}, BOX, LogisticCurve),
    "Poisson in a box": (poisson, {"y": (0, 8)}, BOX, None),
    "linear in a box": (linear, {"y": (-1, 1)}, BOX, QuadraticCurve),
    "Laplace errors": (laplace_errors, {"y": (-1, 1)}, None, GeneralCurve),
    "quantile regression": (quantile, {"y": (-1, 1)}, None, GeneralCurve),
    "probit": (probit, {}, None, GeneralCurve),
    "twice a predictor": (doubled, {}, None, None),
    "half normal prior": (half_normal, {}, None, None),
}


def private_of(name, power=Fraction(1, 3)):
    build, domain, box, _ = CASES[name]
    with pm.Model(coords=COORDS) as model:
        build()
    declared = pmp.privatize(model, records="i", domain=domain | {"x": pmp.Ball(1.0)})
    declared = pmp.temper(declared, power)
    return pmp.trim(declared, box=box) if box else declared


def graph_slope(private, theta):
    """Gradient of the log posterior by the graph itself."""
    graph, at, start = private.graph, {}, 0
    for name, shape in private.shapes.items():
        size = int(np.prod(shape))
        at[graph.parameters[name]] = theta[start : start + size].reshape(shape)
        start += size
    total = graph.record.sum() * float(private.power) + graph.prior
    slopes = pytensor.grad(total, [graph.parameters[name] for name in private.shapes])
    concrete = ConcreteValues(at | {graph.data[s.name]: s.values() for s in private.sources})
    return np.concatenate([np.ravel(concrete(g)) for g in slopes])


@pytest.mark.thin(16)
@pytest.mark.parametrize("name", CASES)
def test_the_structure_has_the_slope_of_the_graph(name):
    private = private_of(name)
    structure, white = make_posterior(private)
    kind = CASES[name][3]
    assert kind is None or isinstance(structure.curve, kind)
    for _ in range(3):
        z = RNG.uniform(np.maximum(structure.lower, -1), np.minimum(structure.upper, 1))
        u = structure.rows @ z[:, None] + structure.offset[:, None]
        found = -z + (structure.curve.slope(u).T @ structure.rows)[0]
        exact = white.matrix @ graph_slope(private, white.to_parameters(z[None])[0])
        assert np.allclose(found, exact, rtol=1e-6, atol=1e-6)


def test_the_stable_form_is_not_taken_for_another_predictor():
    structure, _ = make_posterior(private_of("twice a predictor"))
    u, step = np.array([[0.3]] * N), np.full((N, 1), 1e-4)
    second = structure.curve.remainder(u, step).sum() / step[0, 0] ** 2
    rest = (structure.curve.slope(u) - structure.curve.slope(u + step)).sum() / step[0, 0] / 2
    assert second == pytest.approx(rest, rel=1e-2)


def test_the_number_of_steps_reads_no_data():
    one, other = private_of("logistic"), private_of("logistic")
    for source in other.sources:
        values = source.values()
        garbage = np.nan if values.dtype.kind == "f" else 99
        source.variable.set_value(np.full_like(values, garbage))
    assert plan_schedule(one, 1e-8) == plan_schedule(other, 1e-8)
    assert np.array_equal(whiten(one).matrix, whiten(other).matrix)


def marginal_cdfs(private, ends, points=81):
    """CDFs of each coordinate by quadrature on a product grid."""
    axes = [np.linspace(low, high, points) for low, high in ends]
    a, b = private.base["a"].name, private.base["beta"].name
    names = list(private.shapes)
    grids = list(np.meshgrid(*axes, indexing="ij"))
    theta = {}
    for name in names:
        theta[name] = [grids.pop(0) for _ in range(int(np.prod(private.shapes[name])))]
    eta = theta[a][0][..., None] + sum(t[..., None] * X[:, k] for k, t in enumerate(theta[b]))
    log = float(private.power) * (BINARY * eta - np.logaddexp(0, eta)).sum(axis=-1)
    for name, mean, sd in (("a", -0.3, [1.5]), ("beta", 0.5, [1.0, 2.0])):
        for value, s in zip(theta[name], sd, strict=True):
            log = log - (value - mean) ** 2 / (2 * s**2)
    weight = np.exp(log - log.max())
    found = []
    for k, axis in enumerate(axes):
        mass = weight.sum(axis=tuple(j for j in range(len(axes)) if j != k))
        cdf = np.concatenate([[0.0], np.cumsum((mass[1:] + mass[:-1]) / 2)])
        found.append(lambda x, axis=axis, cdf=cdf: np.interp(x, axis, cdf / cdf[-1]))
    return found


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ["logistic", "logistic in a box"])
def test_draws_follow_the_posterior(name):
    private = private_of(name, Fraction(1))
    found = pmp.samplers.Proximal(tv=1e-4).sample(
        private, 500, SeededRandomness.from_seed(2), lambda done: None
    )
    columns = np.hstack([found[n].reshape(500, -1) for n in private.shapes])
    box = {"beta": [(-1, 2)] * 2, "a": [(-1, 1)]}
    wide = {"beta": [(-5, 6), (-9, 10)], "a": [(-8, 8)]}
    ends = [e for n in private.shapes for e in (box if "box" in name else wide)[n]]
    for column, cdf in zip(columns.T, marginal_cdfs(private, ends), strict=True):
        assert cdf_envelope(column, cdf).passes


@pytest.mark.audit
def test_calibrate_takes_it_where_boxes_do_not_reach():
    plan = pmp.calibrate(private_of("logistic", Fraction(1)), epsilon=1, delta=1e-6, draws=3)
    assert plan.method == pmp.samplers.Proximal()
    assert plan.guarantee.epsilon(1e-6) <= 1
    assert plan.guarantee.pure_epsilon == np.inf
    release = pmp.sample(plan, ledger=pmp.Ledger(epsilon=2, delta=1e-5), progressbar=False)
    assert "within t = 1e-10" in release.facts["claim"]
    assert any("steps of the proximal sampler" in a for a in release.guarantee.assumptions)


def laplace():
    x = pm.Data("x", X, dims=("i", "f"))
    beta = pm.Laplace("beta", 0, 1, dims="f")
    pm.Bernoulli("y", logit_p=x @ beta, observed=BINARY, dims="i")


def unknown_scale():
    pm.Normal("y", predictor(), pm.HalfNormal("s", 1), observed=RNG.uniform(-1, 1, N), dims="i")


def test_what_is_not_log_concave_is_refused_before_the_charge():
    for build, domain in ((laplace, {}), (unknown_scale, {"y": (-1, 1)})):
        with pm.Model(coords=COORDS) as model:
            build()
        private = pmp.privatize(model, records="i", domain=domain | {"x": pmp.Ball(1.0)})
        with pytest.raises(pmp.errors.Unsupported, match="log-concave"):
            pmp.samplers.Proximal().check(private)


def test_steps_without_end_are_refused():
    with pm.Model(coords=COORDS) as model:
        poisson()
    private = pmp.privatize(model, records="i", domain={"y": (0, 8), "x": pmp.Ball(1.0)})
    with pytest.raises(pmp.errors.Unsupported, match="no public bound"):
        pmp.samplers.Proximal().check(private)
    with pytest.raises(pmp.errors.DomainError, match="total variation"):
        pmp.samplers.Proximal(tv=0.0).check(private)
    huge = pmp.trim(private, box={"beta": (-12, 12), "a": (-12, 12)})
    with pytest.raises(pmp.errors.Unsupported, match="too many steps"):
        pmp.samplers.Proximal().terms(huge)
    pmp.samplers.Proximal().check(huge)  # with a smaller power it may well do


def test_kinks_of_the_likelihood_set_the_step_size():
    # |W a| <= |(1, 2)| for the slopes in the ball, 1.5 for the intercept; each slope changes by
    # 2 / 0.7, in n records at the power: a trial then costs some 0.4 * KINKED nats.
    private = private_of("Laplace errors", Fraction(1, 3))
    jumps = N / 3 * (2 / 0.7) * np.hypot(2.0, 1.5)
    eta = plan_schedule(private, 1e-6).eta
    assert eta == pytest.approx((KINK_COST / jumps) ** 2, rel=1e-6)


def test_add_remove_is_refused_because_steps_depend_on_n():
    with pm.Model(coords=COORDS) as model:
        logistic()
    private = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0)}, neighbors="add_remove")
    with pytest.raises(pmp.errors.Unsupported, match="number of records"):
        pmp.samplers.Proximal().check(private)
