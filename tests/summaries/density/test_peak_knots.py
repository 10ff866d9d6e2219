"""Nodes between knots: as good as those of a search, and functions of their row, to the bit."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from pymc_private.summaries.density import peak_knots as module
from pymc_private.summaries.density.outcome_nodes import OutcomeSupport, outcome_nodes
from pymc_private.summaries.density.peak_knots import PeakKnots, peak_knots

INF = np.inf
LINE = OutcomeSupport("continuous", domain=(-9.0, 9.0))
POSITIVE = OutcomeSupport("continuous", domain=(0.0, 50.0), lower=0.0, ends=(0.0, INF))
CENSORED = OutcomeSupport(
    "continuous", domain=(0.0, 5.0), lower=0.0, upper=5.0, ends=(0.0, INF), atoms=(5.0,)
)
COUNTS = OutcomeSupport("integer", domain=(0.0, 300.0), lower=0.0, atoms=(0.0,))


class Family:
    """Densities of a scale, the first predictor, and a location, the second one."""

    def __init__(self, log_density, support):
        self.log_density, self.support = log_density, support

    def log_density_at(self, predictors, rows, y):
        with np.errstate(all="ignore"):
            return self.log_density(y, predictors[:, 1:], np.exp(predictors[:, :1]))


def weibull(y, eta, k):
    law = stats.weibull_min(k, scale=np.exp(eta))
    return np.where(y < 5.0, law.logpdf(y), np.where(y == 5.0, law.logsf(5.0), -INF))


def poisson(y, eta, scale):
    return y * eta - np.exp(eta) - special.gammaln(y + 1.0)


FAMILIES = {
    "normal": Family(lambda y, eta, s: stats.norm.logpdf(y, eta, s), LINE),
    "t": Family(lambda y, eta, s: stats.t.logpdf(y, 5.0, eta, s), LINE),
    "laplace": Family(lambda y, eta, s: stats.laplace.logpdf(y, eta, s), LINE),
    "gamma": Family(lambda y, eta, k: stats.gamma.logpdf(y, k, scale=np.exp(eta) / k), POSITIVE),
    "log-normal": Family(lambda y, eta, s: stats.lognorm.logpdf(y, s, 0, np.exp(eta)), POSITIVE),
    "weibull": Family(weibull, CENSORED),
    "poisson": Family(poisson, COUNTS),
}
ETA = np.random.default_rng(3).uniform(-1.0, 3.0, 90)


def predictors_of(eta):
    return np.stack([np.full(len(eta), -0.3), eta], axis=1)


def nodes_of(family, eta, knots):
    return knots.nodes(family, family.support, predictors_of(eta), {"x": eta})


def searched(family, eta):
    predictors = predictors_of(eta)
    return outcome_nodes(
        lambda y: family.log_density_at(predictors, {}, y), family.support, len(eta)
    )


def moments(nodes):
    mean = (nodes.mass * nodes.values).sum(axis=1)
    return mean, (nodes.mass * (nodes.values - mean[:, None]) ** 2).sum(axis=1)


@pytest.mark.parametrize("name", FAMILIES)
def test_nodes_between_knots_are_as_good_as_searched_ones(name):
    family = FAMILIES[name]
    found, expected = nodes_of(family, ETA, PeakKnots(1, 0.25)), searched(family, ETA)
    assert np.abs(found.total - 1.0).max() < 1e-6
    (mean, variance), (own_mean, own_variance) = moments(found), moments(expected)
    assert np.abs((mean - own_mean) / np.sqrt(own_variance)).max() < 5e-6
    np.testing.assert_allclose(variance, own_variance, rtol=2e-5)


def test_nodes_of_a_location_family_are_moved():
    family, knots = FAMILIES["normal"], PeakKnots(1, 0.25)
    found = nodes_of(family, ETA, knots)
    assert np.abs(np.diff(found.values - ETA[:, None], axis=0)).max() < 1e-3
    assert knots._kept[1].size < len(ETA) / 4


def rows_stand_alone(family, make):
    """Whether rows among others, alone, and after others have the same bits."""
    whole = nodes_of(family, ETA, make())
    kept = make()
    order = np.random.default_rng(0).permutation(len(ETA))
    return all(
        np.array_equal(getattr(part, name), getattr(whole, name)[rows])
        for knots in (kept, make(), kept)
        for rows in (order, order[:1], order[10:30])
        for part in [nodes_of(family, ETA[rows], knots)]
        for name in ("values", "mass", "clipped", "total")
    )


@pytest.mark.parametrize("name", ["t", "weibull", "poisson"])
def test_each_row_depends_on_itself_alone_to_the_bit(name):
    assert rows_stand_alone(FAMILIES[name], lambda: PeakKnots(1, 0.25))


class KnotsOfTheBatch(PeakKnots):
    """Knots that begin at the least predictor of a batch."""

    def _knots(self, density, support, others, ends, rows):
        knots, peaks = super()._knots(density, support, others, ends, rows)
        peaks.scale[:] *= 1.0 + 1e-15 * ends.min()
        return knots, peaks


def test_knots_that_depend_on_the_batch_are_caught():
    assert not rows_stand_alone(FAMILIES["t"], lambda: KnotsOfTheBatch(1, 0.25))


@pytest.mark.parametrize("bad", [np.nan, INF, -INF, 1e300, -1e300])
@pytest.mark.parametrize("name", ["normal", "weibull", "poisson"])
def test_a_row_without_a_number_is_searched_and_leaves_others_alone(name, bad):
    family, eta = FAMILIES[name], ETA[:8].copy()
    whole = nodes_of(family, eta, PeakKnots(1, 0.25))
    eta[3] = bad
    found, own = nodes_of(family, eta, PeakKnots(1, 0.25)), searched(family, eta)
    for name in ("values", "mass", "total"):
        here, before = getattr(found, name), getattr(whole, name)
        np.testing.assert_array_equal(np.delete(here, 3, axis=0), np.delete(before, 3, axis=0))
        if np.abs(found.total[3] - 1.0) > 1e-6:
            np.testing.assert_array_equal(here[3], getattr(own, name)[3])


@pytest.mark.parametrize("name", FAMILIES)
def test_no_row_makes_nodes_fail(name):
    wild = np.array([0.0, -0.0, 5e-324, 1.0, 60.0, 300.0, 709.0, 1e4, 1e16, 1e200, 1e308, np.nan])
    eta = np.concatenate([wild, -wild])
    for step in (1e-300, 0.25, 1e300):
        for rows in (eta, eta[5:6], eta[-1:]):
            nodes = nodes_of(FAMILIES[name], rows, PeakKnots(1, step))
            assert np.isfinite(nodes.mass).all()
            assert (nodes.mass >= 0.0).all()


def test_rows_far_from_what_is_between_the_knots_are_searched():
    """A narrow peak that jumps between two knots that are far apart."""

    def jump(y, eta, s):
        return stats.norm.logpdf(y, np.where(eta > 1.0, 5.0, -5.0), 0.01)

    family = Family(jump, LINE)
    found, own = nodes_of(family, ETA, PeakKnots(1, 8.0)), searched(family, ETA)
    np.testing.assert_array_equal(found.values, own.values)
    np.testing.assert_array_equal(found.total, own.total)


def test_a_small_total_is_noticed_by_nobody_without_the_limit(monkeypatch):
    monkeypatch.setattr(module, "NEAR_ONE", INF)
    found = nodes_of(FAMILIES["weibull"], ETA, PeakKnots(1, 1.7))
    assert np.abs(found.total - 1.0).max() > 1e-6


def made_up(**changes):
    given = {
        "reads_rows": (False, True),
        "reads_row_by_predictors": True,
        "parameters": SimpleNamespace(mean=np.zeros(1), covariance=np.eye(1)),
        "predictors": lambda theta, rows: np.outer(rows["x"], [1.0, abs(theta[0])]),
    }
    return SimpleNamespace(**given | changes)


def test_which_densities_have_knots():
    rows = {"x": np.linspace(-1.0, 1.0, 9)}
    found = peak_knots(made_up(), LINE, rows)
    assert found.place == 1
    assert 0.02 < found.step < 0.5
    assert peak_knots(made_up(reads_rows=(True, True)), LINE, rows) is None
    assert peak_knots(made_up(reads_rows=(False, False)), LINE, rows) is None
    assert peak_knots(made_up(reads_row_by_predictors=False), LINE, rows) is None
    assert peak_knots(made_up(), LINE, {"x": np.zeros(9)}) is None
    two = OutcomeSupport("continuous", domain=(-9.0, 9.0), modes=2)
    assert peak_knots(made_up(), two, rows) is None
    assert peak_knots(made_up(), OutcomeSupport("finite", levels=(0.0, 1.0)), rows) is None


def test_scattered_rows_leave_few_knots_behind_and_change_no_bit(monkeypatch):
    monkeypatch.setattr(module, "MOST_KNOTS", 100)
    family, knots = FAMILIES["normal"], PeakKnots(1, 0.25)
    rng = np.random.default_rng(5)
    for _ in range(6):
        nodes_of(family, rng.uniform(-1e5, 1e5, 40), knots)
        assert len(knots._kept[1]) <= 100
    fresh = nodes_of(family, ETA, PeakKnots(1, 0.25))
    assert np.array_equal(nodes_of(family, ETA, knots).mass, fresh.mass)
