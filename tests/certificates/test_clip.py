"""Clipped log-likelihoods: the bound of T25, the plain model, refusals, and what is said."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.certificates import certify
from pymc_private.models.fingerprint import model_fingerprint
from tests.certificates.scores import BY_NAME, N
from tests.models.brute_force import natural_logp, stripped

pytestmark = pytest.mark.usefixtures("quick")

NAMES = list(BY_NAME)
RECORDS, POINTS = 150, 300


def library_score(private, point, data):
    """What the package takes for the log-likelihood of each record."""
    graph = private.graph
    values = {graph.parameters[k]: np.asarray(v, float) for k, v in point.items()}
    values |= {graph.data[s.name]: data[s.name].astype(s.dtype) for s in private.sources}
    with np.errstate(all="ignore"):
        return ConcreteValues(values)(graph.record)


def tables(score, ends, clipped=None):
    """clip(log p) of random records at random points, by hand or by `clipped`."""
    rng = np.random.default_rng(3)
    data = score.data(rng, RECORDS)
    points = [score.point(rng) for _ in range(POINTS)]
    return np.array([(clipped or score.clipped)(t, data, ends) for t in points])


def variation(table):
    """The greatest variation over points of c(x) - c(y), over all pairs of records."""
    pairs = table[:, :, None] - table[:, None, :]
    return float((pairs.max(axis=0) - pairs.min(axis=0)).max())


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", NAMES)
def test_no_pair_of_records_escapes_the_range(name):
    score = BY_NAME[name]
    low, high = score.ends
    found = pmp.certify(pmp.clip(score.private, low, high))
    assert found.range <= 2 * (high - low)
    assert variation(tables(score, score.ends)) <= found.range * (1 + 1e-12)


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", NAMES)
def test_the_record_is_the_clipped_log_likelihood(name):
    """Also where the log-likelihood is no number, -inf, or fails a condition for some records."""
    score, rng = BY_NAME[name], np.random.default_rng(4)
    private, cut = pmp.clip(score.private, *score.ends), [False, False]
    for _ in range(40):
        point, data = score.point(rng), score.data(rng, 30)
        expected = score.clipped(point, data, score.ends)
        np.testing.assert_allclose(library_score(private, point, data), expected, rtol=1e-6)
        cut = [
            was or bool(np.any(expected == end)) for was, end in zip(cut, score.ends, strict=True)
        ]
    assert cut[0]


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", NAMES)
def test_the_plain_model_is_the_prior_and_the_clipped_terms(name):
    score = BY_NAME[name]
    private = score.private
    prior = natural_logp(private.base, without=private.graph.factors)
    data = {s.name: s.values() for s in private.sources}
    for power in (1, 0.5):
        clipped = pmp.temper(pmp.clip(private, *score.ends), power)
        whole, rng = natural_logp(stripped(clipped.model)), np.random.default_rng(5)
        for _ in range(12):
            point = score.point(rng)
            expected = prior(point) + power * score.clipped(point, data, score.ends).sum()
            assert whole(point) == pytest.approx(expected, rel=1e-6)


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", ["identity link", "uniform", "two outcomes", "elementwise dark"])
def test_the_plain_model_compiles_as_pymc_compiles(name):
    """In the default mode of each stack, at a start and where log-likelihoods are -inf or NaN."""
    score = BY_NAME[name]
    private = score.private
    model = pmp.clip(private, *score.ends).model
    assert type(model) is pm.Model
    assert model.observed_RVs == []
    compiled, start = model.compile_logp(), model.initial_point()
    far = {k: np.asarray(v - 7.0) for k, v in start.items()}
    mapped = natural_logp(stripped(model))
    for values in (start, far):
        natural = dict(values)
        if name == "uniform":
            natural = {"top": np.exp(values["top_log__"])}
        if name == "two outcomes":
            natural = {"mu": values["mu"], "p": 1 / (1 + np.exp(-values["p_logodds__"]))}
        jacobian = sum(float(v) for k, v in values.items() if k.endswith("_log__"))
        if "p" in natural:
            jacobian += float(np.log(natural["p"]) + np.log1p(-natural["p"]))
        assert compiled(values) == pytest.approx(mapped(natural) + jacobian, rel=1e-9)


def test_names_and_dims_are_kept_and_the_data_stay():
    private = BY_NAME["two outcomes"].private
    model = pmp.trim(pmp.clip(private, -3, 0), box={"mu": (-1, 1)}).model
    assert set(model.named_vars) == set(private.base.named_vars) | {"private_likelihood", "region"}
    assert {k: list(v) for k, v in model.named_vars_to_dims.items()} == {"y": ["i"], "z": ["i"]}
    assert set(private.base.named_vars) == {"mu", "p", "y", "z"}
    assert len(private.base.observed_RVs) == 2  # the private model's own copy is left alone
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(model.initial_point()))


# ---- the faults that these tests would catch ---------------------------------------------


def test_a_clip_of_each_factor_is_another_model_with_a_larger_range():
    """With two outcomes only the record's total may be clipped."""
    score = BY_NAME["two outcomes"]
    low, high = score.ends

    def each(point, data, ends):
        with np.errstate(all="ignore"):
            return sum(np.clip(term, *ends) for term in score.terms(point, data))

    assert variation(tables(score, score.ends, each)) > 2 * (high - low)


@pytest.mark.parametrize("name", ["poisson", "two outcomes", "elementwise dark"])
def test_a_range_of_half_the_size_is_caught(name, monkeypatch):
    score = BY_NAME[name]
    low, high = score.ends
    assert variation(tables(score, score.ends)) > 1.5 * (high - low)
    monkeypatch.setattr(
        certify, "clipped_range", lambda private, readers: Fraction(high) - Fraction(low)
    )
    found = pmp.certify(pmp.clip(score.private, low, high))
    assert variation(tables(score, score.ends)) > found.range


def test_the_range_is_that_of_the_clipped_record():
    """What the parameters do to all records alike cancels without a clip, and not with one."""
    with pm.Model(coords={"i": range(4)}) as model:
        mu, y = pm.Uniform("mu", -2, 2), pm.Data("y", np.zeros(4), dims="i")
        pm.Potential("loss", -(y**2) - mu**2)
    private = pmp.privatize(model, records="i", domain={"y": (-2, 2)})
    assert 3 <= pmp.certify(pmp.clip(private, -5, 0)).range <= 10


def test_one_record_never_decides_about_another():
    """The condition of PyMC fails for one record: only that one counts as the lower end."""
    score = BY_NAME["identity link"]
    private = pmp.clip(score.private, -4, -0.5)
    data = {"x": np.linspace(-1, 1, 9), "y": np.full(9, 1)}
    values = library_score(private, {"a": 1.0, "b": 1.5}, data)
    assert values[0] == -4.0
    assert np.all(values[4:] > -4.0)


def test_a_condition_that_ties_records_together_is_refused():
    with pm.Model(coords={"i": range(N)}) as model:
        x, w = pm.Data("x", np.zeros(N), dims="i"), pm.Normal("w", shape=2)
        fine = pm.math.stack([x, -x], axis=0) < 1.0
        check = pm.distributions.dist_math.CheckParameterValue("shape")
        pm.Potential("fit", check(w.sum() * x, pt.all(fine)))
    private = pmp.privatize(model, records="i", domain={"x": (-1, 1)})
    with pytest.raises(pmp.errors.NotCertified, match="cannot be told apart by records"):
        pmp.clip(private, -1, 1)


# ---- the bound ----------------------------------------------------------------------------


def test_a_proved_range_that_is_smaller_counts():
    with pm.Model(coords={"i": range(5)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=[0, 1, 0, 1, 1], dims="i")
    private = pmp.trim(pmp.privatize(model, records="i"), box={"p": (0.4, 0.6)})
    assert pmp.certify(pmp.clip(private, -9)).range == pytest.approx(2 * np.log(1.5), rel=1e-3)
    assert pmp.certify(pmp.clip(private, -0.7)).range <= 1.4


def test_the_bound_is_exact_and_the_power_scales_it():
    clipped = pmp.clip(BY_NAME["poisson"].private, -0.1, 0.2)
    exact = 2 * (Fraction(0.2) + Fraction(0.1))
    assert Fraction(pmp.certify(clipped).range) >= exact
    assert pmp.certify(clipped).range == pytest.approx(float(exact), rel=1e-15)
    third = Fraction(1, 3)
    found = pmp.certify(pmp.temper(clipped, third))
    assert Fraction(found.range) >= exact * third
    assert found.range == pytest.approx(float(exact / 3), rel=1e-14)


def test_the_range_without_a_clip_is_infinite():
    for name in NAMES:
        try:
            certificate = pmp.certify(BY_NAME[name].private)
        except pmp.errors.NotCertified:
            continue
        assert certificate.range == np.inf  # only the Gaussian bound or an exact pair applies
        assert certificate.gdp is not None or certificate.pair is not None


# ---- composition --------------------------------------------------------------------------


def test_clip_temper_and_trim_come_in_any_order():
    private = BY_NAME["student"].private
    box = {"mu": (-1, 1), "s": (0.5, 2)}
    one = pmp.temper(pmp.trim(pmp.clip(private, -4, -1), box=box), 0.5)
    other = pmp.clip(pmp.trim(pmp.temper(private, 0.5), box=box), -4, -1)
    assert model_fingerprint(one) == model_fingerprint(other)
    assert pmp.certify(one).covers(other)


def test_two_clips_meet():
    private = BY_NAME["poisson"].private
    twice = pmp.clip(pmp.clip(private, -5, -0.5), -9, -1)
    assert twice.graph.clip == (-5.0, -1.0)
    assert model_fingerprint(twice) == model_fingerprint(pmp.clip(private, -5, -1))
    assert pmp.clip(twice, -3).graph.clip == (-3.0, -1.0)
    with pytest.raises(pmp.errors.DomainError, match="no room in common"):
        pmp.clip(twice, -0.9, 3)


@pytest.mark.parametrize(
    ("name", "upper"),
    [("poisson", 0.0), ("identity link", 0.0)],
)
def test_discrete_data_need_a_floor_only(name, upper):
    clipped = pmp.clip(BY_NAME[name].private, -6)
    assert clipped.graph.clip == (-6.0, upper)


def test_a_potential_on_discrete_data_needs_an_upper_end():
    with pm.Model(coords={"i": range(4)}) as model:
        pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=[0, 1, 2, 3], dims="i")
        x = pm.Data("x", np.zeros(4), dims="i")
        pm.Potential("bonus", model["rate"] + x)
    private = pmp.privatize(model, records="i", domain={"y": (0, 9), "x": (0, 1)})
    with pytest.raises(pmp.errors.DomainError, match="upper"):
        pmp.clip(private, -3)


def test_intervals_may_prove_the_upper_end():
    trimmed = pmp.trim(BY_NAME["student"].private, box={"s": (0.5, 2), "mu": (-1, 1)})
    top = pmp.clip(trimmed, -6).graph.clip[1]
    score, rng = BY_NAME["student"], np.random.default_rng(8)
    for _ in range(100):
        point = {"mu": rng.uniform(-1, 1), "s": rng.uniform(0.5, 2)}
        assert np.max(score.terms(point, score.data(rng, 50))[0]) <= top
    assert top < 3


# ---- what is refused, and what is said ----------------------------------------------------


@pytest.mark.thin(5)
@pytest.mark.parametrize(
    "ends",
    [
        (0, 0),
        (1, -1),
        (np.nan, 0),
        (-np.inf, 0),
        (-1, np.inf),
        (-1, np.nan),
        ("a", 0),
        (True, 2),
        (None, 0),
        ([-1], 0),
        (1 + 2j, 3),
        (-1e308, 1e308),
        (0.5, None),
    ],
)
def test_ends_that_are_none_are_refused(ends):
    with pytest.raises(pmp.errors.DomainError, match=r"(?s)got.*allowed.*what to do"):
        pmp.clip(BY_NAME["poisson"].private, *ends)


@pytest.mark.parametrize("name", ["student", "elementwise dark", "blockwise dark"])
def test_an_upper_end_that_nothing_proves_is_asked_for(name):
    private = BY_NAME[name].private
    with pytest.raises(pmp.errors.DomainError, match=r"(?s)give `upper`"):
        pmp.clip(private, -5)


@pytest.mark.parametrize("prior", [pm.Flat, pm.HalfFlat])
def test_an_improper_prior_is_refused_unless_it_is_trimmed(prior):
    with pm.Model(coords={"i": range(3)}) as model:
        pm.Normal("y", prior("mu"), 1.0, observed=np.ones(3), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    with pytest.raises(pmp.errors.DomainError, match=r"(?s)proper prior.*mu.*trim"):
        pmp.clip(private, -3, 0)
    clipped = pmp.clip(pmp.trim(private, box={"mu": (0, 5)}), -3, 0)
    assert pmp.certify(clipped).range <= 6


def test_a_coupled_model_is_refused_as_ever():
    with pm.Model(coords={"i": range(N)}) as model:
        y = pm.Data("y", np.zeros(N), dims="i")
        pm.Potential("fit", -((pt.cumsum(y) - pm.Normal("mu")) ** 2))
    with pytest.raises(pmp.errors.NotCertified):
        pmp.clip(pmp.privatize(model, records="i", domain={"y": (-1, 1)}), -1, 0)


def test_the_certificate_names_theorem_and_choice():
    found = pmp.certify(pmp.clip(BY_NAME["two outcomes"].private, -3, 0.5))
    text = repr(found)
    assert "T1-T3, T25" in text
    assert "[-3, 0.5]" in text
    assert "its factors (y, z)" in text
    assert "unit of continuous data" in text
    assert "prior is proper" in text
    guarantee = found.guarantee(3)
    assert guarantee.theorem == "T1-T3, T25"
    assert guarantee.pure_epsilon >= 3 * found.range
    assert any("its factors (y, z)" in claim for claim in guarantee.assumptions)


def test_the_clip_is_shown_and_in_the_fingerprint():
    private = BY_NAME["poisson"].private
    prints = {model_fingerprint(pmp.clip(private, -5, end)) for end in (-1.0, np.nextafter(-1, 0))}
    assert len(prints | {model_fingerprint(private)}) == 3
    assert "log-likelihood in [-5, -1]" in repr(pmp.clip(private, -5, -1))
    assert "clip" not in repr(private)
    certificate = pmp.certify(pmp.clip(private, -5, -1))
    assert not certificate.covers(private)
    assert not certificate.covers(pmp.clip(private, -5, -0.5))
    assert not certificate.covers(replace(private, region={}))


def test_a_clip_reads_no_data():
    kept, swapped = (BY_NAME["student"].privatize() for _ in range(2))
    for source in swapped.sources:
        source.variable.set_value(np.full(source.shape, np.nan))
    first, second = (pmp.clip(p, -4, -1) for p in (kept, swapped))
    assert model_fingerprint(first) == model_fingerprint(second)
    assert repr(pmp.certify(first)) == repr(pmp.certify(second))
