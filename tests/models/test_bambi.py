"""Bambi models: domains by the names of the formula, every family, and the same likelihood."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytensor
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models import bambi
from tests.models.brute_force import own_logp, random_points

bmb = pytest.importorskip("bambi")
pytestmark = [
    # The name of a row of counts differs between the two generations of Bambi.
    pytest.mark.filterwarnings("ignore:Using 'c:FutureWarning"),
    # PyMC says so of its own hurdles.
    pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning"),
]
N = 37
X, Y = (-1, 1), (-2, 2)
NARROW = {"x": (-0.5, 0.5), "Intercept": (-0.5, 0.5)}


@cache
def table() -> pd.DataFrame:
    """Columns of every kind of response, and predictors."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 3, N), rng.integers(0, 3, N)
    letters, levels = rng.choice(list("abc"), N), rng.choice([1, 2, 3], N)
    return pd.DataFrame(
        {
            "x": rng.uniform(-1, 1, N),
            "z": rng.uniform(-1, 1, N),
            "g": pd.Categorical(rng.choice(["g0", "g1", "g2", "g3"], N)),
            "h": pd.Categorical(rng.choice(["h0", "h1", "h2"], N)),
            "real": rng.uniform(-2, 2, N),
            "unit": rng.uniform(0.1, 0.9, N),
            "pos": rng.uniform(0.2, 4, N),
            "bin": rng.integers(0, 2, N),
            "count": rng.integers(0, 6, N),
            "k": rng.integers(0, 9, N),
            "trials": np.full(N, 8),
            "above": rng.integers(1, 6, N),
            "angle": rng.uniform(-3, 3, N),
            "cat": pd.Categorical(letters),
            "ord": pd.Categorical(levels, categories=[1, 2, 3], ordered=True),
            "a": a,
            "b": b,
            "c": 4 - a - b,
            "off": rng.uniform(0, 1, N),
        }
    )


def build(formula: Any, family: str, **words: Any):
    model = bmb.Model(
        formula, table(), family=family, auto_scale=False, center_predictors=False, **words
    )
    model.build()
    return model


LOG = {"link": "log"}
FAMILIES = {
    "gaussian": ("real ~ x", {"real": Y}, {"sigma": (0.8, 2)}, {}),
    "bernoulli": ("bin ~ x", {}, {}, {}),
    "binomial": ("p(k, trials) ~ x", {"p(k, trials)": (0, 8)}, {}, {}),
    "beta": ("unit ~ x", {"unit": (0.1, 0.9)}, {"kappa": (2, 4)}, {}),
    "beta_binomial": ("p(k, trials) ~ x", {"p(k, trials)": (0, 8)}, {"kappa": (2, 4)}, {}),
    "gamma": ("pos ~ x", {"pos": (0.2, 4)}, {"alpha": (1, 2)}, LOG),
    "exponential": ("pos ~ x", {"pos": (0.2, 4)}, {}, LOG),
    "poisson": ("count ~ x", {"count": (0, 6)}, {}, {}),
    "negativebinomial": ("count ~ x", {"count": (0, 6)}, {"alpha": (1, 3)}, {}),
    "t": ("real ~ x", {"real": Y}, {"sigma": (0.8, 2), "nu": (3, 10)}, {}),
    "laplace": ("real ~ x", {"real": Y}, {"b": (0.8, 2)}, {}),
    "asymmetriclaplace": ("real ~ x", {"real": Y}, {"b": (0.8, 2), "kappa": (0.8, 1.2)}, {}),
    "vonmises": ("angle ~ x", {"angle": (-3, 3)}, {"kappa": (0.5, 2)}, {}),
    "wald": ("pos ~ x", {"pos": (0.2, 4)}, {"lam": (0.8, 2)}, LOG),
    "weibull": ("pos ~ x", {"pos": (0.2, 4)}, {"alpha": (1, 2)}, LOG),
    "categorical": ("cat ~ x", {"cat": {0, 1, 2}}, {}, {}),
    "cumulative": ("ord ~ 0 + x", {"ord": {0, 1, 2}}, {"threshold": ([-1, 0.2], [-0.2, 1])}, {}),
    "sratio": ("ord ~ 0 + x", {"ord": {0, 1, 2}}, {"threshold": (-1, 1)}, {}),
    "multinomial": (
        "c(a, b, c) ~ x",
        {"c(a, b, c)": pmp.Counts(4), "constant_0": {4}},
        {},
        {},
    ),
    "dirichlet_multinomial": (
        "c(a, b, c) ~ x",
        {"c(a, b, c)": pmp.Counts(4), "constant_0": {4}},
        {"kappa": (2, 4)},
        {},
    ),
    "zero_inflated_poisson": ("count ~ x", {"count": (0, 6)}, {"psi": (0.3, 0.8)}, {}),
    "zero_inflated_binomial": (
        "p(k, trials) ~ x",
        {"p(k, trials)": (0, 8)},
        {"psi": (0.3, 0.8)},
        {},
    ),
    "zero_inflated_negativebinomial": (
        "count ~ x",
        {"count": (0, 6)},
        {"psi": (0.3, 0.8), "alpha": (1, 3)},
        {},
    ),
    "hurdle_poisson": ("above ~ x", {"above": (0, 6)}, {"psi": (0.3, 0.8)}, {}),
    "hurdle_negativebinomial": (
        "above ~ x",
        {"above": (0, 6)},
        {"psi": (0.3, 0.8), "alpha": (1, 3)},
        {},
    ),
    "hurdle_gamma": ("pos ~ x", {"pos": (0.2, 4)}, {"psi": (0.3, 0.8), "alpha": (1, 2)}, LOG),
    "hurdle_lognormal": (
        "pos ~ x",
        {"pos": (0.2, 4)},
        {"psi": (0.3, 0.8), "sigma": (0.8, 2)},
        {},
    ),
}
FAST = ("binomial", "weibull", "categorical", "cumulative", "sratio")


def private_of(family: str):
    formula, domain, box, words = FAMILIES[family]
    model = build(formula, family, **words)
    public = [name for name in pmp.constants(model)["name"] if name == "trials"]
    private = pmp.privatize(model, records="__obs__", domain={"x": X} | dict(domain), public=public)
    box = {name: box.get(name, (-0.5, 0.5)) for name in private.shapes}
    return model, pmp.trim(private, box=box)


UNPROVED = pytest.mark.xfail(
    pytensor.__version__.startswith("2."), raises=pmp.errors.NotCertified,
    reason="PyTensor 2 writes a Betainc of which no bound is proved",
)  # fmt: skip
SLOW = {f: [pytest.mark.audit] for f in FAMILIES if f not in FAST}
SLOW["hurdle_negativebinomial"].append(UNPROVED)


@pytest.mark.audit
@pytest.mark.parametrize("family", [pytest.param(f, marks=SLOW.get(f, ())) for f in FAMILIES])
def test_a_family_is_certified_and_keeps_its_likelihood(family):
    model, private = private_of(family)
    found = pmp.certify(private, tolerance=1e9, seconds=0.1, progressbar=False)
    assert 0 < found.range < np.inf
    agree(private, model)


@pytest.mark.audit
def test_a_stick_broken_by_a_threshold_is_bounded_closely():
    """All pairs of records at random points, by PyMC itself; the size of the stick is Bambi's."""
    _, private = private_of("sratio")
    found = pmp.certify(private, progressbar=False)
    points = random_points(private, np.random.default_rng(4), 40)
    logp = np.array([*map(own_logp(private), points)])
    pairs = logp[:, :, None] - logp[:, None, :]
    variation = (pairs.max(axis=0) - pairs.min(axis=0)).max()
    assert 0.8 * found.range < variation <= found.range
    assert found.tightness < 1.02


def agree(private, model) -> None:
    """The likelihood, with data inside the domain, is Bambi's own."""
    ours, theirs = private.base, model.backend.model
    point = ours.initial_point()
    mine, own = ours.point_logps(point), theirs.point_logps(theirs.initial_point())
    assert mine.keys() == own.keys()
    for name, value in own.items():
        assert mine[name] == pytest.approx(value, rel=1e-9, abs=1e-7)


FORMULA = "bin ~ x + z*g + g:h + (z|h) + offset(off)"


def test_domains_are_declared_by_the_names_of_the_formula():
    model = build(FORMULA, "bernoulli")
    listed = pmp.constants(model)
    assert set(listed["name"]) == {"x", "z", "g", "h", "offset(off)"}
    assert set(listed["shape"]) == {(N,)}
    private = pmp.privatize(
        model, records="__obs__", domain={"x": X, "z": X}, public=["offset(off)"]
    )
    agree(private, model)
    domains = {s.name: s.domain for s in private.sources}
    assert domains["data[g]"] == pmp.Categories(range(4))
    assert domains["data[h]"] == pmp.Categories(range(3))
    assert domains["data[z]"] == pmp.Interval(*X)
    assert "data[offset(off)]" not in domains
    claims = " ".join(private.claims)
    assert "the levels of 'g' are public" in claims
    assert "offset(off)" in claims


@pytest.mark.audit
def test_what_is_missing_is_named_as_in_the_formula():
    model = build("bin ~ x + z + g + offset(off)", "bernoulli")
    with pytest.raises(DomainError) as refused:
        pmp.privatize(model, records="__obs__", domain={"x": X}, public=["offset(off)"])
    assert "data[" not in str(refused.value)
    call = re.search(r"pmp\.privatize\(.*\)", str(refused.value)).group()
    filled = call.replace("pmp.Interval(..., ...)", "(-1, 1)")
    private = eval(filled, {"pmp": pmp, "model": model})
    domains = {s.name: s.domain for s in private.sources}
    assert domains["data[x]"] == domains["data[z]"] == pmp.Interval(*X)
    assert domains["data[g]"] == pmp.Categories(range(4))
    with pytest.raises(DomainError, match="allowed: bin, g, offset\\(off\\), x, z") as refused:
        pmp.privatize(model, records="__obs__", domain={"xx": X}, public=["offset(off)"])
    assert "did you mean 'x'" in str(refused.value)


def test_a_variable_in_several_terms_is_one_variable():
    """Its copies would vary by themselves otherwise, and the bound would be larger."""
    box = {"x": (-1, 1), "x:x2": (-1, 1), "Intercept": (0, 0.1)}
    data = table().assign(x2=table()["z"])
    model = bmb.Model(
        "bin ~ x + x:x2", data, family="bernoulli", auto_scale=False, center_predictors=False
    )
    private = pmp.privatize(model, records="__obs__", domain={"x": X, "x2": X})
    assert {s.name for s in private.sources} == {"bin", "data[x]", "data[x2]"}
    found = pmp.certify(pmp.trim(private, box=box), progressbar=False)
    # |x b + x x2 c| <= 2 at either sign of b + x2 c, and the intercept is nearly nothing.
    assert 3.9 < found.searched <= found.range < 1.05 * 4.2


def test_values_outside_a_declared_domain_are_clipped_in_every_term():
    model = build("bin ~ x + z:x", "bernoulli")
    private = pmp.privatize(model, records="__obs__", domain={"x": (-0.1, 0.1), "z": X})
    x = next(s for s in private.sources if s.name == "data[x]").values()
    assert np.abs(x).max() <= 0.1
    assert not np.array_equal(x, table()["x"])


def test_columns_that_bambi_centered_are_refused_with_the_cure():
    model = bmb.Model("bin ~ x", table(), family="bernoulli", auto_scale=False)
    with pytest.raises(Unsupported, match="center_predictors=False"):
        pmp.privatize(model, records="__obs__", domain={"x": X})


def with_weights(given, **words):
    """Weighted normal outcomes; the box keeps their scale known but for a little."""
    domain = {"weighted(real, w)": Y, "x": X}
    private = pmp.privatize(
        given, records="__obs__", domain=domain | words.pop("domain", {}), **words
    )
    return pmp.trim(private, box={"x": (-1, 1), "Intercept": (-1, 1), "sigma": (1, 1.001)})


def test_weights_inside_the_likelihood_are_a_column_of_the_record():
    """-w (y - mu)^2 / 2 at y = 2 and -2, mu = 2 and -2, w = 3 (data stay below 1): 8 w twice."""
    data = table().assign(w=np.random.default_rng(8).uniform(0, 1, N))
    given = bmb.Model("weighted(real, w) ~ x", data, auto_scale=False, center_predictors=False)
    given.build()
    assert set(pmp.constants(given)["name"]) == {"x", "w"}
    with pytest.raises(DomainError, match=r"not declared|no declared domain"):
        with_weights(given)
    private = with_weights(given, domain={"w": (0, 3)})
    agree(private, given)
    assert {s.name for s in private.sources} == {"weighted(real, w)", "data[w]", "data[x]"}
    found = pmp.certify(private, progressbar=False)
    assert 48.0 * (1 - 1e-9) <= found.searched <= found.range < 48 * 1.01


def test_weights_may_be_public_or_claimed_with_all_constants():
    model = build("weighted(real, off) ~ x", "gaussian")
    domain = {"weighted(real, off)": Y}
    named = pmp.privatize(model, records="__obs__", domain=domain | {"x": X}, public=["off"])
    assert "'data[off]' is public" in named.claims
    agree(named, model)
    private = pmp.privatize(model, records="__obs__", domain=domain, constants="public")
    assert any("public" in claim for claim in private.claims)


def test_a_weight_that_stayed_in_the_code_would_be_refused(monkeypatch):
    """A planted fault: the column is not found in the density."""
    monkeypatch.setattr(bambi, "_density_of_weights", lambda *_: None)
    model = build("weighted(real, off) ~ x", "gaussian")
    domain = {"weighted(real, off)": Y, "x": X}
    with pytest.raises(DomainError, match="not declared"):
        pmp.privatize(model, records="__obs__", domain=domain)


def test_a_name_that_is_not_in_the_formula_is_refused():
    with pytest.raises(DomainError, match="no data variable"):
        pmp.privatize(build("bin ~ x", "bernoulli"), records="__obs__", domain={"w": X})


def test_an_offset_may_be_declared_by_what_stands_in_its_brackets():
    """Unless a term has that name: then the offset is declared by its own."""
    model = build("bin ~ x + offset(off)", "bernoulli")
    private = pmp.privatize(model, records="__obs__", domain={"x": X, "off": (0, 2)})
    domains = {s.name: s.domain for s in private.sources}
    assert domains["data[offset(off)]"] == pmp.Interval(0, 2)
    both = {"off": (0, 2), "offset(off)": (0, 1)}
    with pytest.raises(DomainError, match="two domains"):
        pmp.privatize(model, records="__obs__", domain={"x": X} | both)
    model = build("bin ~ off + offset(off)", "bernoulli")
    with pytest.raises(DomainError, match="no declared domain") as missing:
        pmp.privatize(model, records="__obs__", domain={"off": (0, 2)})
    assert missing.value.got == "offset(off)"


def test_the_users_model_is_left_as_it_was():
    model = build("bin ~ x + g", "bernoulli")
    before = set(model.backend.model.named_vars)
    pmp.privatize(model, records="__obs__", domain={"x": X})
    assert set(model.backend.model.named_vars) == before


def test_a_term_of_several_columns_makes_a_model_that_pymc_copies():
    model = build("bin ~ poly(x, 2)", "bernoulli")
    private = pmp.privatize(model, records="__obs__", domain={"poly(x, 2)": X})
    assert {s.name: s.shape for s in private.sources}["data[poly(x, 2)]"] == (N, 2)
    trimmed = pmp.trim(private, box={"Intercept": (-1, 1), "poly(x, 2)": (-1, 1)})
    assert trimmed.model.named_vars_to_dims["data[poly(x, 2)]"][0] == "__obs__"


@pytest.mark.parametrize("constants", ["private", "public"])
def test_a_transform_that_reads_all_records_is_a_claim(constants):
    """One outlier changes every row of scale(x), which the bound of one record does not count."""
    domain = {"scale(x)": (-2, 2)} if constants == "private" else {}
    words = {"records": "__obs__", "domain": domain, "constants": constants}
    fitted = pmp.privatize(build("bin ~ scale(x)", "bernoulli"), **words)
    assert any("'scale(x)'" in c and "without looking" in c for c in fitted.claims)
    words["domain"] = {"x": X} if constants == "private" else {}
    plain = pmp.privatize(build("bin ~ x", "bernoulli"), **words)
    assert not any("without looking" in claim for claim in plain.claims)


@pytest.mark.parametrize("constants", ["private", "public"])
def test_priors_that_bambi_scaled_by_the_data_are_a_claim(constants):
    """They are part of the model, so that what they tell of the records is in no guarantee."""
    words = {"records": "__obs__", "domain": {"x": X} if constants == "private" else {}}
    words["constants"] = constants
    scaled = bmb.Model("bin ~ x", table(), family="bernoulli", center_predictors=False)
    claims = pmp.privatize(scaled, **words).claims
    assert any("'x'" in claim and "scaled by the data" in claim for claim in claims)
    own = pmp.privatize(build("bin ~ x", "bernoulli"), **words)  # `auto_scale=False`
    assert not any("scaled" in claim for claim in own.claims)


def test_what_bambi_built_is_no_model_of_bambi():
    backend = build("bin ~ x + g", "bernoulli").backend
    with pytest.raises(DomainError, match="not a model") as refusal:
        pmp.privatize(backend, records="__obs__", domain={"x": X})
    assert "its attribute .model" in str(refusal.value.do)
