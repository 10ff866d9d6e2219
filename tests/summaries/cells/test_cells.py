"""Noisy cells: partitions, probabilities, privacy of the counts, refusals."""

import math
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import pymc_private as pmp
from pymc_private.errors import DomainError, Incompatible, PymcPrivateError, Unsupported
from pymc_private.samplers.randomness import SystemRandomness
from pymc_private.summaries.cells import cell_design
from pymc_private.summaries.cells.cell_mechanism import CellMechanism, cell_mechanism
from pymc_private.summaries.cells.cell_probabilities import CellProbabilities
from pymc_private.summaries.density import batched
from pymc_private.summaries.noise import LatticeNoise, SimulatedNoise
from pymc_private.summaries.prior_model import prior_model

RNG = np.random.default_rng(33)
N = 200


def mixture_data(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.4, -1.5, 1.5) + rng.standard_normal(n)


def private_mixture(y=None, **declaration):
    with pm.Model() as model:
        w = pm.Beta("w", 2, 2)
        means = pm.math.stack([pm.Normal("c1", -1.5, 1), pm.Normal("c2", 1.5, 1)])
        data = mixture_data() if y is None else y
        pm.NormalMixture("y", w=pm.math.stack([w, 1 - w]), mu=means, sigma=1.0, observed=data)
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-3, 3)}, **declaration)


def private_weibull():
    x = RNG.integers(0, 2, N)
    with pm.Model(coords={"i": range(N)}) as model:
        covariate = pm.Data("x", x, dims="i")
        scale = pm.math.exp(pm.Normal("b0") + pm.Normal("b1") * covariate)
        free = pm.Weibull.dist(pm.LogNormal("k", 0, 0.5), scale)
        t = np.minimum(RNG.weibull(1.0, N), 5.0)
        pm.Censored("t", free, lower=None, upper=5.0, observed=t, dims="i")
    return pmp.privatize(model, records="i", domain={"x": {0, 1}, "t": (0, 5)})


def private_line(columns=1, n=N, **declaration):
    x = RNG.uniform(-1, 1, (n, columns))
    with pm.Model(coords={"i": range(n)}) as model:
        rows = pm.Data("X", x, dims=("i", "column"))
        mean = rows @ pm.Normal("b", 0, 1, shape=columns)
        pm.Normal("y", mean, 1.0, observed=RNG.normal(size=n), dims="i")
    return pmp.privatize(model, records="i", **declaration)


def private_groups(groups=6):
    g = RNG.integers(0, groups, N)
    with pm.Model(coords={"i": range(N), "group": range(groups)}) as model:
        index = pm.Data("g", g, dims="i")
        level = pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", dims="group")
        pm.Bernoulli("y", logit_p=level[index], observed=RNG.integers(0, 2, N), dims="i")
    return pmp.privatize(model, records="i", domain={"g": set(range(groups))})


def private_count(distribution, upper=30):
    with pm.Model() as model:
        observed = RNG.poisson(3.0, N)
        if distribution == "zero inflated":
            pm.ZeroInflatedPoisson(
                "y", pm.Beta("p", 2, 2), pm.Gamma("m", 2, 0.5), observed=observed
            )
        else:
            pm.NegativeBinomial("y", pm.Gamma("m", 4, 0.02), 3.0, observed=observed)
    return pmp.privatize(model, records={"y": 0}, domain={"y": (0, upper)})


def private_hurdle():
    with pm.Model() as model:
        y = np.where(RNG.random(N) < 0.3, 0.0, RNG.gamma(2, 1, N))
        pm.HurdleGamma("y", pm.Beta("p", 2, 2), pm.LogNormal("a", 0, 0.5), 1.0, observed=y)
    return pmp.privatize(model, records={"y": 0}, domain={"y": (0, 20)})


@cache
def model_of(make, *given):
    return make(*given)


@cache
def mechanism(make, *given):
    return CellMechanism(model_of(make, *given), 0.5)


def records_of(private):
    return {s.name: np.moveaxis(s.values(), s.axis, 0) for s in private.sources}


# ---- cells and their probabilities ---------------------------------------------------------------
def test_every_record_is_in_one_cell_however_extreme():
    cells = mechanism(private_mixture)
    y = np.array([-np.inf, -1e300, -3.0, 0.0, 3.0, 1e300, np.inf, np.nan])
    found = cells.partition.cells({"y": y})
    last = cells.partition.shape[1] - 1
    assert found[[0, 1, 2]].tolist() == [0, 0, 0]
    assert found[[4, 5, 6, 7]].tolist() == [last] * 4
    edge = cells.partition.edges[0]
    sides = cells.partition.cells({"y": np.array([np.nextafter(edge, -9), edge])})
    assert sides.tolist() == [0, 1]


def test_probabilities_of_a_mixture_are_its_cdf_and_clipping_costs_no_bias():
    cells = mechanism(private_mixture)
    theta = cells.parameters.draws(50, 1)
    at = {name: value[:, None] for name, value in cells.parameters.natural(theta).items()}
    ends = np.r_[-np.inf, cells.partition.edges, np.inf]  # beyond the domain too
    cdf = at["w"] * stats.norm.cdf(ends - at["c1"])
    cdf = cdf + (1 - at["w"]) * stats.norm.cdf(ends - at["c2"])
    found, mass = cells.probabilities(cells.parameters.natural(theta))
    assert found[:, 0] == pytest.approx(np.diff(cdf, axis=1), abs=1e-4)
    assert abs(mass).max() < 1e-4


def test_a_censored_outcome_has_its_bound_as_a_cell():
    cells = mechanism(private_weibull)
    theta = cells.parameters.draws(50, 1)
    at = {name: value[:, None] for name, value in cells.parameters.natural(theta).items()}
    ends = np.r_[0.0, cells.partition.edges, 5.0]
    found = cells.probabilities(cells.parameters.natural(theta))[0]
    for x in (0, 1):
        law = stats.weibull_min(at["k"], scale=np.exp(at["b0"] + at["b1"] * x))
        expected = np.column_stack([np.diff(law.cdf(ends), axis=1), law.sf(5.0)])
        assert found[:, x] == pytest.approx(expected, abs=2e-3)
    assert cells.partition.shape[0] == 2
    assert cells.partition.atoms == (5.0,)


@pytest.mark.thin(2)
@pytest.mark.parametrize("law", ["zero inflated", "negative binomial"])
def test_counts_are_summed_and_the_last_cell_is_the_rest(law):
    cells = mechanism(private_count, law, 30 if law == "zero inflated" else 1000)
    theta = cells.parameters.draws(30, 1)
    at = {name: value[:, None] for name, value in cells.parameters.natural(theta).items()}
    ends = np.r_[-1.0, cells.partition.edges, np.inf]
    if law == "zero inflated":
        cdf = (1 - at["p"]) * (ends >= 0) + at["p"] * stats.poisson.cdf(ends, at["m"])
    else:
        cdf = stats.nbinom.cdf(ends, 3.0, 3.0 / (3.0 + at["m"]))
    found = cells.probabilities(cells.parameters.natural(theta))[0][:, 0]
    assert found == pytest.approx(np.diff(cdf, axis=1), abs=1e-3)


def test_zeros_of_a_hurdle_are_a_cell():
    cells = mechanism(private_hurdle)
    theta = cells.parameters.draws(30, 1)
    natural = cells.parameters.natural(theta)
    found = cells.probabilities(natural)[0][:, 0]
    assert found[:, -1] == pytest.approx(1.0 - natural["p"], abs=1e-3)
    ends = np.r_[0.0, cells.partition.edges, np.inf]
    cdf = natural["p"][:, None] * stats.gamma.cdf(ends, natural["a"][:, None])
    assert found[:, :-1] == pytest.approx(np.diff(cdf, axis=1), abs=2e-3)


def test_mass_on_values_that_were_not_declared_is_evidence():
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("m", 2, 1), observed=RNG.integers(0, 3, N))
    cells = CellMechanism(pmp.privatize(model, records={"y": 0}, domain={"y": {0, 1, 2}}), 0.5)
    at = {"m": np.array([0.5, 8.0])}
    _, mass = cells.probabilities(at)
    assert mass[:, 0] == pytest.approx(stats.poisson.logcdf(2, at["m"]), rel=1e-9)
    assert cells.probabilities.quadrature.correction(np, mass, np.array([N])) == pytest.approx(
        N * mass[:, 0]
    )


def test_continuous_covariates_are_cut_and_the_law_within_cells_is_named():
    cells = CellMechanism(private_line(domain={"X": (-1, 1), "y": (-5, 5)}), 0.5)
    groups = cells.partition.shape[0]
    assert groups in (2, 3, 4, 6)
    assert cells.facts["assumed_uniform"] == ["X"]
    released = cells.release(records_of(cells.private), SimulatedNoise(np.random.default_rng(1)))
    assert any("uniform" in caution.text for caution in cells.warnings(released))
    slope = np.array([[0.7]])
    q = cells.probabilities({"b": slope})[0][0]
    x = np.linspace(-1, 1, 6 * 4000)[:, None]
    ends = np.r_[-np.inf, cells.partition.edges, np.inf]
    exact = np.diff(stats.norm.cdf(ends - 0.7 * x), axis=1).reshape(groups, -1, len(ends) - 1)
    assert q == pytest.approx(exact.mean(axis=1), abs=2e-3)


def test_cells_are_chosen_without_the_data():
    first, second = mechanism(private_mixture), CellMechanism(private_mixture(np.full(N, 3.0)), 0.5)
    assert first.facts == second.facts
    assert first.guarantee == second.guarantee
    best = max(first.facts["compared"].values())
    assert first.information >= 0.95 * best > 0.0


def test_costly_cells_are_judged_at_fewer_prior_draws(monkeypatch):
    designer, weighed = (
        mechanism(private_weibull)._designer,
        [mechanism(private_weibull).probabilities],
    )
    assert len(designer._affordable_points(weighed)) == cell_design.POINTS
    moves = 2 * designer.parameters.size + 1
    each = moves * int(np.prod(weighed[0].quadrature.split))
    for densities, points in ((20 * each, 20), (1, cell_design.FEWEST_POINTS)):
        monkeypatch.setattr(cell_design, "DENSITIES", densities)
        assert len(designer._affordable_points(weighed)) == points


# ---- privacy -------------------------------------------------------------------------------------
def test_one_record_moves_one_unit_between_two_cells():
    cells = mechanism(private_weibull)
    records = records_of(cells.private)
    other = {name: values.copy() for name, values in records.items()}
    other["x"][0], other["t"][0] = 1 - other["x"][0], 5.0 - other["t"][0] / 2
    size = int(np.prod(cells.partition.shape))
    both = [np.bincount(cells.partition.cells(r), minlength=size) for r in (records, other)]
    change = both[0] - both[1]
    assert sorted(change[change != 0].tolist()) == [-1, 1]
    assert both[0].sum() == both[1].sum() == N


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("declaration", "sd"),
    [
        ({}, math.sqrt(2.0)),
        ({"neighbors": "add_remove"}, 1.0),
        ({"records_per_unit": 3}, 3.0 * math.sqrt(2.0)),
    ],
)
def test_noise_follows_the_relation_and_the_unit(declaration, sd):
    cells = CellMechanism(private_mixture(**declaration), 0.4, edges=[-1.0, 0.0, 1.0])
    assert cells.sd == pytest.approx(sd / 0.4)
    assert cells.guarantee.gdp == pytest.approx(0.4)
    private = cells.private
    noise = LatticeNoise(SystemRandomness(), private.neighbors, private.records_per_unit)
    records = {"y": mixture_data(n=N)}
    exact = np.bincount(cells.partition.cells(records), minlength=4)
    found = np.array([cells.release(records, noise)["counts"][0] - exact for _ in range(40)])
    assert 0.7 < found.std() / cells.sd < 1.3  # 160 numbers: beyond five standard errors


def test_delta_zero_has_whole_noise_and_a_pure_promise():
    cells = CellMechanism(model_of(private_mixture), epsilon=0.3, edges=[-1.0, 0.0, 1.0])
    assert cells.guarantee.pure_epsilon <= 0.3
    assert cells.guarantee.pure_epsilon == pytest.approx(0.3)
    records = {"y": mixture_data()}
    for noise in (LatticeNoise(SystemRandomness()), SimulatedNoise(np.random.default_rng(1))):
        counts = cells.release(records, noise)["counts"]
        assert (counts == np.round(counts)).all()
    exact = np.bincount(cells.partition.cells(records), minlength=4)
    noise = SimulatedNoise(np.random.default_rng(2))
    found = np.array([cells.release(records, noise)["counts"][0] - exact for _ in range(500)])
    assert found.std() == pytest.approx(cells.sd, rel=0.2)
    assert cells.noisy_cells(cells.release(records, noise)).variance == cells.sd**2


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("epsilon", "delta", "pure"), [(1.0, 1e-6, True), (1.0, 0, True), (0.1, 0.02, False)]
)
def test_a_budget_takes_whichever_noise_is_less(epsilon, delta, pure):
    cells = cell_mechanism(model_of(private_mixture), epsilon, delta, edges=[-1.0, 0.0, 1.0])
    other = CellMechanism(model_of(private_mixture), epsilon=epsilon, edges=[0.0])
    assert cells.guarantee.epsilon(delta) <= epsilon
    assert math.isfinite(cells.guarantee.pure_epsilon) == pure
    assert (cells.sd >= other.sd) == pure  # planted fault: the noise that is more


# ---- likelihood and model ------------------------------------------------------------------------
@pytest.mark.thin(4)
@pytest.mark.parametrize("make", [private_mixture, private_groups])
def test_the_center_lies_near_the_records_own_and_both_likelihoods_agree(make):
    private = model_of(make)
    cells = CellMechanism(private, 20.0)  # hardly any noise
    released = cells.release(records_of(private), SimulatedNoise(np.random.default_rng(1)))
    center, covariance = cells.start(released)
    assert np.linalg.eigvalsh(covariance).min() > 0.0
    model = prior_model(private)
    with model:
        pm.Potential("cells", cells.potential(released, {rv.name: rv for rv in model.free_RVs}))
    assert np.isfinite(model.point_logps(model.initial_point())["cells"])
    expected = (
        cells.noisy_cells(released).totals[:, None]
        * cells.probabilities(cells.parameters.natural(center[None]))[0][0]
    )
    away = (released["counts"] - expected) / np.sqrt(expected + 1.0)
    assert np.sqrt((away**2).mean()) < 2.0


def test_a_potential_that_differs_from_the_likelihood_is_refused(monkeypatch):
    cells = mechanism(private_mixture)
    released = cells.release(records_of(cells.private), SimulatedNoise(np.random.default_rng(1)))
    symbolic = CellProbabilities.symbolic

    def lost(self, parameters):
        return 0.999 * symbolic(self, parameters)

    monkeypatch.setattr(CellProbabilities, "symbolic", lost)
    with pytest.raises(Incompatible, match="disagree"):
        cells.potential(released, cells._designer.record.single.parameters)


def test_tables_of_parameters_are_looked_up_at_all_points_at_once(monkeypatch):
    def refused(op, _):
        raise AssertionError(f"{op} at one point after another")

    cells = mechanism(private_groups)
    theta = cells.parameters.draws(20, 1)
    natural = cells.parameters.natural(theta)
    levels = natural["mu"][:, None] + natural["tau"][:, None] * natural["z"]
    monkeypatch.setattr(batched, "_same_batch", refused)
    densities = type(cells.probabilities.densities)(
        cells._designer.record.single, cells._designer.record.outcome,
        cells._designer.record.covariates,
    )  # fmt: skip
    partition, nodes = cells.partition, cells.probabilities.quadrature.nodes
    found = CellProbabilities(densities, partition, nodes)(natural)[0]
    assert found[..., 1] == pytest.approx(special.expit(levels))


@pytest.mark.parametrize("rest", [(), (3,)])
def test_entries_of_stacked_tables_are_those_of_each(rest):
    tables, places = RNG.normal(size=(4, 1, 7, *rest)), RNG.integers(-7, 7, (1, 5, 2))
    found = batched._entries(tables, places)
    for s, k in np.ndindex(4, 5):
        assert np.array_equal(found[s, k], tables[s, 0][places[0, k]])
    with pytest.raises(IndexError):
        batched._entries(tables, places + 7)


def test_counts_that_the_model_cannot_explain_are_told():
    cells = mechanism(private_mixture)
    counts = np.zeros(cells.partition.shape)
    counts[0, [0, -1]] = N / 2
    cautions = cells.warnings({"counts": 20 * counts, "noise_sd": np.array(cells.sd)})
    assert any("does not fit" in c.text and c.refuse for c in cautions)
    fine = cells.release(records_of(cells.private), SimulatedNoise(np.random.default_rng(1)))
    assert cells.warnings(fine) == []


# ---- refusals ------------------------------------------------------------------------------------
def test_what_cells_cannot_do_is_refused_with_its_cure():
    domain = {"X": (-1, 1), "y": (-5, 5)}
    with pytest.raises(Unsupported, match="4 at most"):
        CellMechanism(private_line(4, domain=domain), 0.5)
    with pytest.raises(Unsupported, match="own probabilities of cells") as caught:
        CellMechanism(private_line(public="X", domain={"y": (-5, 5)}), 0.5)
    assert 'method="scores"' in str(caught.value)
    assert "X" in str(caught.value)
    with pytest.raises(DomainError, match="n >= 30"):
        CellMechanism(private_mixture(mixture_data(n=29)), 0.5)
    with pytest.raises(Unsupported, match="nothing need be tempered"):
        CellMechanism(pmp.temper(model_of(private_mixture), 0.5), 0.5)
    with pytest.raises(Unsupported, match="guarantee covers every distance"):
        CellMechanism(private_mixture(neighbors=pmp.Metric({"y": "absolute"})), 0.5)


def test_a_model_without_a_private_outcome_is_refused():
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", RNG.uniform(-1, 1, N), dims="i")
        y = pm.Data("known", RNG.normal(size=N), dims="i")
        pm.Normal("y", pm.Normal("b") * x, 1.0, observed=y, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": (-1, 1)}, public="known")
    with pytest.raises(Unsupported, match="values of an observed variable"):
        CellMechanism(private, 0.5)


@pytest.mark.parametrize(
    "edges",
    [mixture_data(), pm.math.stack([0.0, 1.0]), "quantiles", [1.0, 0.0], [-3.0], [0.0, np.inf], []],
)
def test_edges_are_a_few_public_numbers(edges):
    with pytest.raises(DomainError, match="edges"):
        CellMechanism(model_of(private_mixture), 0.5, edges=edges)


@pytest.mark.parametrize(
    "given", [{}, {"mu": 0.5, "epsilon": 1.0}, {"mu": 0.0}, {"mu": math.nan}, {"epsilon": -1.0}]
)
def test_a_budget_is_one_positive_number(given):
    with pytest.raises(PymcPrivateError):
        CellMechanism(model_of(private_mixture), **given)


def test_densities_narrower_than_the_cells_are_refused():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("m"), pm.LogNormal("s", -12, 3), observed=mixture_data())
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-3, 3)})
    with pytest.raises(Unsupported, match="narrower than the cells"):
        CellMechanism(private, 0.5)
