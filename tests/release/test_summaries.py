"""Bounds on means, quantiles and probabilities hold as often as they say, at any size."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from pymc_private.errors import DomainError
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.release.release import Release

# A bound that fails with probability 0.05 or less fails more than LIMIT times in REPEATS
# independent trials with probability below ALARM, whatever the seed.
REPEATS, ALARM = 400, 1e-9
LIMIT = int(stats.binom.isf(ALARM, REPEATS, 0.05))


def released(variables: Mapping[str, np.ndarray], **facts: object) -> Release:
    """Release arrays of shape (draws, ...), each with dims of its own."""
    posterior = xr.Dataset({
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(values.ndim - 1))), values[None])
        for name, values in variables.items()
    })  # fmt: skip
    return Release(posterior, Guarantee.pure(1.0), facts)


def test_hoeffding_bounds_the_mean_by_its_formula() -> None:
    values = np.linspace(0, 3, 50)
    mean = released({"x": values}, ranges={"x": [-1, 4]}).mean("x")
    assert mean.value == pytest.approx(values.mean())
    assert mean.error == pytest.approx(5 * math.sqrt(math.log(2 / 0.05) / 100))
    assert (mean.lower, mean.upper) == pytest.approx((1.5 - mean.error, 1.5 + mean.error))
    assert mean.mcse == pytest.approx(values.std(ddof=1) / math.sqrt(50))
    assert mean.confidence == pytest.approx(0.95)
    assert "Hoeffding" in repr(mean)
    assert float(mean) == mean.value


def test_several_elements_share_the_confidence() -> None:
    values = np.tile(np.linspace(0, 1, 200)[:, None], (1, 4))
    mean = released({"x": values}, ranges={"x": [0, 1]}).mean("x")
    expected = math.sqrt(math.log(2 * 4 / 0.05) / 400)
    assert mean.error.values == pytest.approx(np.full(4, expected))
    assert mean.error.dims == ("x_0",)
    assert "all 4 elements" in repr(mean)
    looser = released({"x": values}, ranges={"x": [0, 1]}).mean("x", delta=0.5)
    assert (looser.error < mean.error).all()


def test_a_range_may_differ_by_element_and_bounds_stay_inside_it() -> None:
    values = np.tile([0.1, 1.9], (3, 1))
    mean = released({"x": values}, ranges={"x": [[0, -2], [1, 2]]}).mean("x")
    half = math.sqrt(math.log(2 * 2 / 0.05) / 6)
    assert mean.lower.values == pytest.approx([0, 1.9 - 4 * half])
    assert mean.upper.values == pytest.approx([0.1 + half, 2])
    assert mean.error.values == pytest.approx([half, 4 * half])
    with pytest.raises(DomainError, match="does not fit"):
        released({"x": values}, ranges={"x": [[0, 1, 2], 3]}).mean("x")


@pytest.mark.parametrize("ranges", [None, {}, {"x": None}, {"x": [0, None]}, {"y": [0, 1]}])
def test_without_a_public_range_the_error_is_infinite_and_says_why(ranges) -> None:
    mean = released({"x": np.linspace(0, 1, 9)}, ranges=ranges).mean("x")
    assert mean.error == math.inf
    assert mean.value == pytest.approx(0.5)
    assert "no public range" in mean.note
    assert "no public range" in repr(mean)
    assert "infinite" in repr(mean)


def test_a_range_that_the_draws_contradict_bounds_nothing() -> None:
    mean = released({"x": np.array([0.5, 1.5])}, ranges={"x": [0, 1]}).mean("x")
    assert mean.error == math.inf
    assert "outside" in mean.note


def test_one_draw_gives_wide_finite_bounds_and_no_nan() -> None:
    one = released(
        {"x": np.array([0.25]), "flag": np.array([True])}, ranges={"x": [0, 1], "flag": None}
    )
    for estimate in (
        one.mean("x"), one.quantile("x", 0.5), one.interval("x"), one.prob(lambda d: d["x"] > 0),
        one.mean("flag"),
    ):  # fmt: skip
        for part in (estimate.value, estimate.error, estimate.lower, estimate.upper, estimate.mcse):
            assert np.all(np.isfinite(part))
        assert "nan" not in repr(estimate)
        assert estimate._repr_html_()
    assert (one.mean("x").lower, one.mean("x").upper) == (0, 1)
    assert one.mean("x").error == 0.75
    bare = released({"x": np.array([0.25])})
    for estimate in (bare.mean("x"), bare.quantile("x", 0.5)):
        assert (estimate.error, estimate.mcse) == (math.inf, math.inf)


def test_clopper_pearson_matches_the_binomial_tails() -> None:
    flags = np.arange(20) < 6
    estimate = released({"x": flags}).prob(lambda d: d["x"])
    assert estimate.value == 0.3
    assert stats.binom.sf(5, 20, estimate.lower) == pytest.approx(0.025, rel=1e-5)
    assert stats.binom.cdf(6, 20, estimate.upper) == pytest.approx(0.025, rel=1e-5)
    never = released({"x": flags & False}).prob(lambda d: d["x"])
    assert (never.value, never.lower) == (0, 0)
    assert never.upper == pytest.approx(1 - 0.025 ** (1 / 20), rel=1e-6)
    assert never.mcse > 0


@pytest.mark.parametrize("draws", [1, 2, 10, 60])
def test_clopper_pearson_covers_every_probability_by_exact_calculation(draws) -> None:
    bounds = []
    for hits in range(draws + 1):
        estimate = released({"x": np.arange(draws) < hits}).prob(lambda d: d["x"])
        bounds.append((estimate.lower, estimate.upper))
    lower, upper = np.array(bounds).T
    for p in np.linspace(0, 1, 201):
        mass = stats.binom.pmf(np.arange(draws + 1), draws, p)
        assert mass[(lower <= p) & (p <= upper)].sum() >= 0.95 - 1e-12


@pytest.mark.parametrize("draws", [1, 5, 40])
def test_the_mean_of_the_worst_law_is_covered_by_exact_calculation(draws) -> None:
    bounds = []
    for hits in range(draws + 1):
        mean = released({"x": np.arange(draws) < hits}, ranges={"x": [0, 1]}).mean("x")
        bounds.append((mean.lower, mean.upper))
    lower, upper = np.array(bounds).T
    for p in np.linspace(0, 1, 201):
        mass = stats.binom.pmf(np.arange(draws + 1), draws, p)
        assert mass[(lower <= p) & (p <= upper)].sum() >= 0.95


def _failures(kind: str, draws: int, shrink: float = 1.0) -> int:
    """Count trials where a bound misses the truth; ``shrink`` plants a fault in the bound."""
    law = stats.beta(0.5, 2.0)
    rng = np.random.default_rng(20)
    failed = 0
    for _ in range(REPEATS):
        one = released({"x": law.rvs((draws, 2), random_state=rng)}, ranges={"x": [0, 1]})
        estimate = one.mean("x") if kind == "mean" else one.quantile("x", [0.1, 0.5, 0.9])
        truth = np.array([law.mean()]) if kind == "mean" else law.ppf([[0.1], [0.5], [0.9]])
        center = estimate.value.values
        low = center - shrink * (center - estimate.lower.values)
        high = center + shrink * (estimate.upper.values - center)
        failed += not np.all((low <= truth) & (truth <= high))
    return failed


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["mean", "quantile"])
@pytest.mark.parametrize("draws", [3, pytest.param(30, marks=pytest.mark.audit)])
def test_all_elements_and_levels_are_covered_together(kind, draws) -> None:
    assert _failures(kind, draws) <= LIMIT


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", ["mean", "quantile"])
def test_a_bound_of_a_fifth_the_width_is_caught(kind) -> None:
    assert _failures(kind, 30, shrink=0.2) > LIMIT


def test_quantile_bands_are_order_statistics_of_the_dkw_band() -> None:
    ordered = np.sort(np.random.default_rng(3).uniform(size=100))
    half = math.sqrt(math.log(2 / 0.05) / 200)
    median = released({"x": ordered[::-1]}, ranges={"x": [0, 1]}).quantile("x", 0.5)
    assert median.value == pytest.approx(np.median(ordered))
    assert median.lower == ordered[math.ceil(100 * (0.5 - half)) - 1]
    assert median.upper == ordered[math.ceil(100 * (0.5 + half)) - 1]
    tail = released({"x": ordered}, ranges={"x": [0, 1]}).quantile("x", 0.99)
    assert tail.upper == 1  # no order statistic bounds it, the public box does
    assert released({"x": ordered}).quantile("x", 0.99).upper == math.inf


def test_several_levels_and_intervals_add_a_leading_dim() -> None:
    one = released({"x": np.random.default_rng(4).uniform(size=(50, 3))}, ranges={"x": [0, 1]})
    levels = one.quantile("x", [0.25, 0.75])
    assert levels.value.dims == ("quantile", "x_0")
    assert list(levels.value["quantile"].values) == [0.25, 0.75]
    interval = one.interval("x", 0.9)
    assert list(interval.value["quantile"].values) == [0.05, 0.95]
    assert (interval.lower <= interval.value).all()
    assert (interval.value <= interval.upper).all()
    assert np.array_equal(interval.value.sel(quantile=0.05), one.quantile("x", 0.05).value)


def test_prob_takes_several_events_and_joint_events() -> None:
    values = np.random.default_rng(5).normal(size=(40, 3))
    one = released({"x": values, "s": values[:, 0]})
    several = one.prob(lambda d: d["x"] > 0)
    assert several.value.dims == ("x_0",)
    assert several.value.values == pytest.approx((values > 0).mean(axis=0))
    joint = one.prob(lambda d: (d["x"][:, 1] > d["s"]) & (d["x"][:, 2] < 1))
    assert isinstance(joint.value, float)
    odd = one.prob(lambda d: d["x"][:, :2] > 0)
    assert odd.value.shape == (2,)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: r.mean("gamma"), "No such variable"),
        (lambda r: r.quantile("secret", 0.5), "withheld"),
        (lambda r: r.quantile("x", 0), "level"),
        (lambda r: r.quantile("x", [0.5, 1.0]), "level"),
        (lambda r: r.quantile("x", []), "level"),
        (lambda r: r.quantile("x", float("nan")), "level"),
        (lambda r: r.interval("x", 1), "mass"),
        (lambda r: r.mean("x", delta=0), "probability"),
        (lambda r: r.prob(lambda d: d["x"] > 0, delta=1), "probability"),
        (lambda r: r.prob(lambda d: True), "true or false"),
        (lambda r: r.prob(lambda d: d["x"]), "true or false"),
        (lambda r: r.prob(lambda d: d["x"][1:] > 0), "true or false"),
    ],
)
def test_wrong_questions_are_refused(ask, message) -> None:
    one = released({"x": np.arange(4.0)}, withheld=["secret"])
    with pytest.raises(DomainError, match=message):
        ask(one)


def test_an_unknown_name_lists_what_there_is_and_what_is_withheld() -> None:
    one = released({"x": np.arange(4.0), "y": np.arange(4.0)}, withheld=["secret"])
    with pytest.raises(DomainError, match=r"x, y \(withheld: secret\)"):
        one.mean("z")
