"""Input that cannot be right: a clear error or a refusal with a cure, and never a wrong number."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.certificates import range_bound
from pymc_private.certificates.certify import domains_beyond_support
from pymc_private.errors import DomainError, NotCertified, Unsupported
from pymc_private.models.domains import as_domain

N = 11
RNG = np.random.default_rng(0)
POSITIVE, BINARY = RNG.uniform(0.5, 2, N), RNG.integers(0, 2, N)


def rate():
    return pm.Gamma("rate", 2, 2)


def slope(**words: Any):
    return pm.Normal("slope", 0, 1, **words)


def normal(mu: Any, sigma: Any = 1.0, data: Any = POSITIVE) -> None:
    pm.Normal("y", mu, sigma, observed=data, dims="i")


def logit() -> None:
    x = pm.Data("x", POSITIVE, dims="i")
    pm.Bernoulli("y", logit_p=x * slope(), observed=BINARY, dims="i")


def poisson(mu: Any) -> None:
    pm.Poisson("y", mu, observed=BINARY, dims="i")


@pytest.fixture(autouse=True, scope="module")
def _quick():
    """Refine bounds only a little: how far is not what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        for effort in ("BOX_EFFORT", "ROW_EFFORT", "SEARCH_EFFORT"):
            patch.setattr(range_bound, effort, 60.0)
        yield


def certified(build: Callable[[], object], domain: dict, box: dict, **words: Any):
    with pm.Model(coords={"i": range(N)}) as model:
        build()
    private = pmp.privatize(model, records="i", domain=domain, **words)
    return pmp.certify(pmp.trim(private, box=box), progressbar=False)


RATE, SLOPE = {"rate": (0.5, 2)}, {"slope": (-1, 1)}
REFUSED: dict[str, tuple[Callable, dict, dict]] = {
    "a domain beyond the support": (
        lambda: pm.Exponential("y", rate(), observed=POSITIVE, dims="i"),
        {"y": (-1, 5)},
        RATE,
    ),
    "a category the likelihood does not have": (
        lambda: pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=BINARY, dims="i"),
        {"y": {0, 1, 2}},
        {"p": (0.2, 0.8)},
    ),
    "more successes than trials": (
        lambda: pm.Binomial("y", 3, pm.Beta("p", 2, 2), observed=BINARY, dims="i"),
        {"y": (0, 5)},
        {"p": (0.2, 0.8)},
    ),
    "a domain that touches the edge of the support": (
        lambda: pm.Gamma("y", rate(), 2, observed=POSITIVE, dims="i"),
        {"y": (0, 5)},
        RATE,
    ),
    "a scale that may be negative": (lambda: normal(0, slope()), {"y": (0, 5)}, SLOPE),
    "a root of what may be negative": (
        lambda: normal(pm.math.sqrt(slope())),
        {"y": (0, 5)},
        SLOPE,
    ),
    "a box that overflows": (
        lambda: normal(slope() ** 2),
        {"y": (0, 1)},
        {"slope": (-1e308, 1e308)},
    ),
    "a domain that overflows": (lambda: normal(slope()), {"y": (-1e308, 1e308)}, SLOPE),
    "a product that overflows": (logit, {"x": (-1e200, 1e200)}, {"slope": (-1e200, 1e200)}),
    "an exponential that overflows": (
        lambda: poisson(pm.math.exp(slope() * pm.Data("x", POSITIVE, dims="i"))),
        {"x": (-1e3, 1e3), "y": (0, 5)},
        {"slope": (-3, 3)},
    ),
}


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", REFUSED)
def test_no_number_is_printed_where_the_likelihood_has_none(name):
    with pytest.raises(NotCertified) as refusal:
        certified(*REFUSED[name])
    assert refusal.value.blame
    assert refusal.value.cure


def test_a_box_as_good_as_none_leaves_the_gaussian_road():
    certificate = certified(lambda: normal(slope()), {"y": (0, 1)}, {"slope": (-1e308, 1e308)})
    assert certificate.range == np.inf
    assert certificate.mu <= 1.0 + 1e-6  # what one record adds to the gradient, sd 1


MISTAKES: dict[str, tuple[Callable, dict, dict, str]] = {
    "an empty box": (lambda: normal(slope()), {"y": (0, 1)}, {"slope": (1, -1)}, "empty"),
    "a box outside the support": (
        lambda: normal(0, pm.HalfNormal("s")),
        {"y": (0, 1)},
        {"s": (-2, -1)},
        "empty",
    ),
    "whole numbers in an interval that holds none": (
        lambda: poisson(rate()),
        {"y": (0.2, 0.8)},
        RATE,
        "no number",
    ),
    "a category that is no whole number": (
        lambda: poisson(rate()),
        {"y": {0, 1, 1.5}},
        RATE,
        "cannot take",
    ),
    "continuous data declared as categories": (logit, {"x": {0, 1}}, SLOPE, "categories"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_what_is_allowed(name):
    *model, word = MISTAKES[name]
    with pytest.raises(DomainError, match=word):
        certified(*model)


def test_a_domain_for_what_is_claimed_public_contradicts_the_claim():
    with pytest.raises(DomainError, match="public"):
        certified(logit, {"x": (-1, 1)}, SLOPE, public=["x"])


def test_a_model_without_private_data_is_refused():
    with pytest.raises(NotCertified, match="no factor"):
        certified(logit, {}, SLOPE, public=["x", "y"])


SOUND: dict[str, tuple[Callable, dict, dict, float]] = {
    "a binary outcome declared as an interval": (
        lambda: pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=BINARY, dims="i"),
        {"y": (0, 1)},
        {"p": (0.2, 0.8)},
        2 * np.log(4),
    ),
    "counts between ends that are no counts": (
        lambda: poisson(rate()),
        {"y": (0.5, 3.5)},
        RATE,
        2 * np.log(4),
    ),
    "whole numbers as a normal outcome": (
        lambda: normal(slope(), data=BINARY),
        {"y": (0, 1)},
        SLOPE,
        2.0,
    ),
    "single precision": (
        lambda: normal(slope(), data=POSITIVE.astype("float32")),
        {"y": (0, 1)},
        SLOPE,
        2.0,
    ),
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", SOUND)
def test_unusual_but_right_declarations_have_the_right_range(name):
    *model, exact = SOUND[name]
    assert exact * (1 - 1e-9) <= certified(*model).range <= exact * 1.05


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("likelihood", "domain", "possible"),
    [
        (pm.Bernoulli, {0, 1, 2}, "(0.0, 1.0)"),
        (pm.Bernoulli, (0, 5), "(0.0, 1.0)"),
        (pm.Bernoulli, (-1, 1), "(0.0, 1.0)"),
        (lambda *a, **k: pm.Binomial(a[0], 3, *a[1:], **k), {0, 1, 4}, "(0.0, 1.0, 2.0, 3.0)"),
    ],
)
def test_a_domain_beyond_the_outcomes_is_blamed_and_not_the_parameters(
    likelihood, domain, possible
):
    def build() -> None:
        likelihood("y", pm.Beta("p", 2, 2), observed=BINARY, dims="i")

    with pytest.raises(NotCertified, match="probability 0") as refusal:
        certified(build, {"y": domain}, {"p": (0.2, 0.8)})
    (blame,) = refusal.value.blame
    assert blame.startswith("y in ")
    assert possible in blame
    assert refusal.value.cure.startswith("leave the domain of y out")
    assert "trim" not in refusal.value.cure


def test_a_domain_beyond_the_outcomes_is_certified_where_nothing_is_infinite():
    """So it is no mistake yet when it is declared."""
    with pm.Model(coords={"i": range(N)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=BINARY, dims="i")
    private = pmp.privatize(model, records="i", domain={"y": {0, 1, 2}})
    clipped = pmp.clip(pmp.trim(private, box={"p": (0.2, 0.8)}), -3, 0)
    assert pmp.certify(clipped, progressbar=False).range <= 6.0 + 1e-9


def test_a_fraction_is_cut_off_before_it_is_an_outcome():
    with pm.Model(coords={"i": range(N)}) as model:
        seen = pm.Data("seen", BINARY.astype(float), dims="i")
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=seen, dims="i")
    for domain in ((-0.5, 1.5), {0, 1, 0.5}):
        private = pmp.privatize(model, records="i", domain={"seen": domain})
        assert domains_beyond_support(private) == []
    wide = pmp.privatize(model, records="i", domain={"seen": (0, 2)})
    assert [source.name for source, _ in domains_beyond_support(wide)] == ["seen"]


def test_a_dim_of_no_data_is_not_offered():
    with pm.Model(coords={"woman": range(N), "feature": ["a", "b"]}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=BINARY)
    with pytest.raises(DomainError, match="a dim of the model, but of no data") as refusal:
        pmp.privatize(model, records="woman")
    assert "allowed: no data variable has dims" in str(refusal.value)


@pytest.mark.parametrize("public", ["age", ["age"], ("age",), {"age"}])
def test_one_name_is_read_as_a_word(public):
    with pm.Model(coords={"i": range(N)}) as model:
        for name in ("age", "a", "g", "e"):  # letters are names too, and stay private
            pm.Data(name, POSITIVE, dims="i")
        pm.Normal("y", slope() * model["age"] + model["a"], 1, observed=POSITIVE, dims="i")
    domain = dict.fromkeys("aegy", (0, 2))
    private = pmp.privatize(model, records="i", domain=domain, public=public)
    assert {source.name for source in private.sources} == set("aegy")


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        ({"domain": pmp.Ball(1.0)}, "a mapping"),
        ({"domain": (0, 1)}, "a mapping"),
        ({"domain": {"y": (0, 1)}, "public": 3}, "public="),
        ({"domain": {"y": (0, 1)}, "public": b"x"}, "public="),
        ({"domain": {"y": (0, 1)}, "public": [3]}, "public="),
    ],
)
def test_words_of_another_kind_are_told(words, cure):
    with pm.Model(coords={"i": range(N)}) as model:
        normal(slope())
    with pytest.raises(DomainError, match=cure):
        pmp.privatize(model, records="i", **words)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pmp.Ball("a"),
        lambda: pmp.Ball(None),
        lambda: pmp.Ball((1, 2)),
        lambda: pmp.Ball(1.0, center="middle"),
        lambda: pmp.Ball(1.0, scale=None),
        lambda: pmp.Interval("a", "b"),
        lambda: pmp.Interval(None, 1),
        lambda: pmp.Interval([0, [1]], 1),
        lambda: pmp.Counts("a"),
        lambda: pmp.Counts(None),
        lambda: pmp.Counts(2.5),
        lambda: pmp.Counts(np.inf),
        lambda: pmp.Scale("a", "b"),
    ],
)
def test_domains_are_made_of_numbers(make):
    with pytest.raises(DomainError):
        make()


@pytest.mark.parametrize(
    "words",
    [
        {"dist": lambda mu, size: pt.sin(pm.Normal.dist(mu, 1, size=size)) + pm.Normal.dist(0, 1)},
        {"random": lambda mu, rng=None, size=None: rng.normal(mu, 1, size=size)},
    ],
)
def test_a_distribution_without_a_log_density_is_refused_in_words(words):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.CustomDist("y", mu, **words, observed=np.array([0.1, 0.2, 0.3]))
    with pytest.raises(Unsupported, match="derives no log-density"):
        pmp.privatize(model, records={"y": 0}, domain={"y": (-1, 1)})


def test_a_number_that_sums_all_records_and_its_many_values_are_named():
    with pm.Model() as model:
        pm.Binomial("sum", n=1400, p=pm.Beta("p", 1, 1), observed=155)
    with pytest.raises(DomainError, match="1401 values from 0 to 1400") as refused:
        pmp.privatize(model)
    assert len(str(refused.value)) < 1000
    with pytest.raises(DomainError, match="one row for each"):
        pmp.privatize(model, records={"sum": 0})


def test_samples_of_different_sizes_are_told_to_be_one_outcome():
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1, shape=2)
        pm.Bernoulli("A", p[0], observed=np.zeros(20, dtype=int))
        pm.Bernoulli("B", p[1], observed=np.zeros(30, dtype=int))
    with pytest.raises(DomainError, match="one below the other"):
        pmp.privatize(model, records={"A": 0, "B": 0})


@pytest.mark.parametrize(
    ("value", "cure"),
    [((0, 1, 2), r"a set, \{0, 1, 2\}"), (np.arange(5), "An array may be one of data")],
    ids=["tuple of three", "array"],
)
def test_what_looks_like_categories_is_told_how_to_write_them(value, cure):
    with pytest.raises(DomainError, match="not a domain") as refusal:
        as_domain(value)
    assert re.search(cure, str(refusal.value.do))


def test_what_holds_a_model_is_told_to_give_it():
    class Wrapped:
        model = pm.Model()

    with pytest.raises(DomainError, match="not a model") as refusal:
        pmp.privatize(Wrapped(), records="person")
    assert "its attribute .model" in str(refusal.value.do)
