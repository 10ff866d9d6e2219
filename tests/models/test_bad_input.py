"""Input that cannot be right: a clear error or a refusal with a cure, and never a wrong number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError, NotCertified
from pymc_private.models import refine

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
        for effort in ("REFINE", "REFINE_ROWS", "SEARCH"):
            patch.setattr(refine, effort, 60.0)
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


@pytest.mark.parametrize("name", SOUND)
def test_unusual_but_right_declarations_have_the_right_range(name):
    *model, exact = SOUND[name]
    assert exact * (1 - 1e-9) <= certified(*model).range <= exact * 1.05
