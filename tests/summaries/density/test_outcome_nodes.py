"""Quadrature nodes of an outcome, against SciPy."""

import numpy as np
import pytest
from scipy import integrate, stats

from pymc_private.errors import Unsupported
from pymc_private.summaries.density import outcome_nodes as module
from pymc_private.summaries.density.outcome_nodes import OutcomeSupport, check_mass, outcome_nodes

INF = np.inf


def on_line(low, high, **options):
    return OutcomeSupport("continuous", domain=(low, high), **options)


def positive(low, high, **options):
    return OutcomeSupport("continuous", domain=(low, high), lower=0.0, ends=(0.0, INF), **options)


def proportion():
    ends = {"lower": 0.0, "upper": 1.0, "ends": (0.0, 1.0)}
    return OutcomeSupport("continuous", domain=(0.0, 1.0), **ends)


def counts(high, **options):
    return OutcomeSupport("integer", domain=(0.0, high), lower=0.0, **{"atoms": (0.0,)} | options)


def trials(n):
    return counts(n, upper=float(n), atoms=(0.0, float(n)))


class Mixture:
    """A mixture of SciPy distributions, some perhaps at one point."""

    def __init__(self, *parts):
        self.parts = parts

    def logpdf(self, y):
        terms = [np.log(w) + d.logpdf(y) for w, d in self.parts]
        return np.logaddexp.reduce(terms, axis=0)

    def logpmf(self, y):
        terms = [np.log(w) + d.logpmf(y) for w, d in self.parts]
        return np.logaddexp.reduce(terms, axis=0)

    def mean(self):
        return sum(w * d.mean() for w, d in self.parts)

    def var(self):
        square = sum(w * (d.var() + d.mean() ** 2) for w, d in self.parts)
        return square - self.mean() ** 2


class Hurdle(Mixture):
    """Zero with a probability, else the second part."""

    def logpdf(self, y):
        (zero, _), (w, d) = self.parts
        inner = np.log(w) + d.logpdf(np.where(y > 0, y, 1.0))
        return np.where(y == 0, np.log(zero), inner)


class Censored:
    """min(y, bound)."""

    def __init__(self, law, bound):
        self.law, self.bound = law, bound

    def logpdf(self, y):
        inner = np.where(y < self.bound, self.law.logpdf(y), -INF)
        return np.where(y == self.bound, self.law.logsf(self.bound), inner)

    def mean(self):
        return integrate.quad(self.law.sf, 0, self.bound, epsabs=1e-12)[0]

    def var(self):
        square = integrate.quad(lambda y: 2 * y * self.law.sf(y), 0, self.bound, epsabs=1e-12)[0]
        return square - self.mean() ** 2


class Zero:
    """All mass at zero."""

    def logpmf(self, y):
        return np.where(y == 0, 0.0, -INF)

    def mean(self):
        return 0.0

    var = mean


ZERO = Zero()
CONTINUOUS = [
    *((stats.norm(2.7 * s, s), on_line(-0.9 * s * w, 1.1 * s * w))
      for s in (1e-3, 1.0, 1e3) for w in (9.0, 1e4)),
    *((stats.t(nu), on_line(-6.0, 7.0)) for nu in (5.0, 10.0, 30.0)),
    *((stats.gamma(a), positive(0.0, top * a)) for a in (0.3, 1.0, 3.0, 100.0)
      for top in (30.0, 1e4)),
    *((stats.beta(a, b), proportion()) for a, b in ((0.5, 0.5), (1, 1), (2, 5), (200, 3))),
    *((stats.lognorm(s), positive(0.0, 40.0)) for s in (0.1, 1.0)),
    *((stats.weibull_min(k), positive(0.0, 200.0)) for k in (0.5, 1.0, 2.0, 20.0)),
    (stats.expon(), positive(0.0, 1e4)),
    (stats.laplace(0.3), on_line(-9.0, 9.0)),
    (stats.truncnorm(3.0, 5.0), on_line(0.0, 9.0, lower=3.0, upper=5.0)),
    *((Mixture((w, stats.norm(-5, 0.3)), (1 - w, stats.norm(6, 2))), on_line(-20, 20, modes=2))
      for w in (0.5, 0.02)),
    (Mixture((0.2, stats.norm(-4, 1)), (0.3, stats.norm(0, 0.3)), (0.5, stats.norm(5, 2))),
     on_line(-20, 20, modes=3)),
    (Mixture((0.5, stats.norm(3, 1)), (0.5, stats.norm(3, 1))), on_line(-9, 20, modes=2)),
    *((Censored(stats.weibull_min(k), c), positive(0.0, c, upper=c, atoms=(c,)))
      for k in (0.5, 2.0) for c in (0.1, 1.0, 5.0)),
    *((Hurdle((0.6, ZERO), (0.4, stats.gamma(a))), positive(0.0, 30.0, atoms=(0.0,)))
      for a in (0.3, 3.0)),
]  # fmt: skip
WHOLE = [
    *((stats.poisson(m), counts(1e4)) for m in (0.01, 0.7, 20.0, 100.0, 5000.0)),
    *((stats.nbinom(1 / a, 1 / (1 + m * a)), counts(1e5))
      for m, a in ((1, 10), (5, 0.5), (100, 1))),
    *((Mixture((0.3, ZERO), (0.7, stats.poisson(m))), counts(1e4)) for m in (0.5, 500.0)),
    (Mixture((0.3, stats.poisson(20)), (0.7, stats.poisson(500))), counts(1e4, modes=2)),
    *((stats.binom(500, p), trials(500)) for p in (1e-3, 0.5, 0.99)),
    (stats.geom(0.001), counts(1e6)),
]  # fmt: skip


def errors(log_density, law, support):
    """Errors of total mass, and of mean and variance in units of the law's own."""
    nodes = outcome_nodes(log_density, support, 1)
    values, mass = nodes.values[0], nodes.mass[0]
    mean, variance = law.mean(), law.var()
    found = nodes.total[0] - 1.0, (mass @ values - mean) / np.sqrt(variance)
    return np.array([*found, mass @ (values - mean) ** 2 / variance - 1.0])


@pytest.mark.parametrize(("law", "support"), CONTINUOUS)
def test_masses_means_and_variances_of_continuous_outcomes(law, support):
    assert np.abs(errors(law.logpdf, law, support)).max() < 1e-6


@pytest.mark.parametrize(("law", "support"), WHOLE)
def test_masses_means_and_variances_of_counts(law, support):
    assert np.abs(errors(law.logpmf, law, support)).max() < 5e-6


def clipped_mean(law, low, high):
    inner = integrate.quad(lambda y: y * law.pdf(y), low, high, epsabs=1e-12)[0]
    return low * law.cdf(low) + high * law.sf(high) + inner


@pytest.mark.parametrize("nu", [1.0, 2.0, 3.0, 30.0])
def test_data_of_heavy_tails_clipped_to_a_domain(nu):
    law, (low, high) = stats.t(nu), (-9.0, 11.0)
    nodes = outcome_nodes(law.logpdf, on_line(low, high), 1)
    assert nodes.total[0] == pytest.approx(1.0, abs=1e-6)
    assert nodes.mass[0] @ nodes.clipped[0] == pytest.approx(clipped_mean(law, low, high), abs=1e-6)
    assert nodes.clipped.min() >= low
    assert nodes.clipped.max() <= high


@pytest.mark.parametrize("law", [stats.norm(0.3, 1), stats.laplace(), stats.t(3.0)])
@pytest.mark.parametrize("domain", [(-1.0, 1.0), (-2.3, 1.9), (-0.2, 6.0), (1e-3, 2e-3)])
def test_data_clipped_to_a_narrow_domain(law, domain):
    """The kink of the clipped value at an end of the domain costs little accuracy."""
    nodes = outcome_nodes(law.logpdf, on_line(*domain), 1)
    assert nodes.total[0] == pytest.approx(1.0, abs=2e-5)
    assert nodes.mass[0] @ nodes.clipped[0] == pytest.approx(clipped_mean(law, *domain), abs=2e-5)


def test_finite_outcomes_are_all_listed():
    shares = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    support = OutcomeSupport("finite", levels=(0.0, 1.0, 2.0), domain=(0.0, 2.0))
    nodes = outcome_nodes(lambda y: np.log(shares), support, 2)
    assert np.allclose(nodes.mass, shares)
    assert np.array_equal(nodes.values, [[0, 1, 2], [0, 1, 2]])


# ---- rows --------------------------------------------------------------------------------------
RNG = np.random.default_rng(3)
LOCATIONS, SCALES = 30.0 * RNG.normal(size=300), np.exp(2.0 * RNG.normal(size=300))


def normal_rows(rows):
    z, s = LOCATIONS[rows, None], SCALES[rows, None]
    return lambda y: -0.5 * ((y - z) / s) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi)


def mixture_rows(rows):
    z, s = LOCATIONS[rows, None], SCALES[rows, None]
    return lambda y: np.logaddexp(stats.norm.logpdf(y, z, s), stats.norm.logpdf(y)) - np.log(2.0)


def poisson_rows(rows):
    return lambda y: stats.poisson.logpmf(y, np.abs(LOCATIONS[rows, None]) * SCALES[rows, None])


LAWS = [
    (normal_rows, on_line(-20.0, 20.0)),
    (mixture_rows, on_line(-20.0, 20.0, modes=2)),
    (poisson_rows, counts(100.0)),
]


def nodes_of_rows(law, support, rows):
    return outcome_nodes(law(rows), support, len(rows))


def rows_stand_alone(law, support):
    """Whether permuted rows, one row and a few rows give the same bits as all."""
    whole = nodes_of_rows(law, support, np.arange(300))
    picks = [np.random.default_rng(0).permutation(300), np.arange(7, 8), np.arange(100, 113)]
    return all(
        np.array_equal(getattr(part, name), getattr(whole, name)[rows])
        for rows in picks
        for part in [nodes_of_rows(law, support, rows)]
        for name in ("values", "mass", "clipped", "total")
    )


@pytest.mark.parametrize(("law", "support"), LAWS)
def test_each_row_depends_on_itself_alone_to_the_bit(law, support):
    assert rows_stand_alone(law, support)


def test_a_scale_shared_by_rows_would_be_noticed(monkeypatch):
    own = module._fall_distance

    def shared(ladder, falls, room):
        found = own(ladder, falls, room)
        return found + 1e-15 * found.mean()

    monkeypatch.setattr(module, "_fall_distance", shared)
    assert not rows_stand_alone(*LAWS[0])


def test_few_passes_of_few_points():
    shapes = []

    def density(y):
        shapes.append(y.shape)
        return stats.norm.logpdf(y)

    outcome_nodes(density, on_line(-5.0, 5.0), 2)
    assert len(shapes) <= 7
    assert max(q for _, q in shapes) <= 65


@pytest.mark.parametrize("bad", [np.nan, INF, -INF])
def test_a_broken_row_has_no_mass_and_leaves_the_others_alone(bad):
    def density(y):
        return np.where(np.arange(3)[:, None] == 1, bad, stats.norm.logpdf(y))

    nodes = outcome_nodes(density, on_line(-5.0, 5.0), 3)
    assert np.array_equal(nodes.mass.sum(axis=1) > 0.5, [True, False, True])
    alone = outcome_nodes(lambda y: stats.norm.logpdf(y), on_line(-5.0, 5.0), 1)
    assert np.array_equal(nodes.values[2], alone.values[0])


def test_a_density_that_is_not_normalized_is_refused_by_name():
    nodes = outcome_nodes(lambda y: stats.norm.logpdf(y) + 0.01, on_line(-5.0, 5.0), 4)
    with pytest.raises(Unsupported, match="'income' do not sum to one"):
        check_mass(nodes, "income", reals_for_whole=False)
    check_mass(
        outcome_nodes(stats.norm.logpdf, on_line(-5.0, 5.0), 4), "income", reals_for_whole=False
    )


def test_a_missed_peak_is_refused():
    law = Mixture((0.5, stats.norm(-8, 1)), (0.5, stats.norm(9, 0.01)))
    nodes = outcome_nodes(law.logpdf, on_line(-20.0, 20.0), 1)
    with pytest.raises(Unsupported, match="do not sum to one"):
        check_mass(nodes, "y", reals_for_whole=False)


# ---- rules on whole numbers --------------------------------------------------------------------
def test_count_rules_are_positive_and_exact_for_polynomials():
    nodes, weights = module._count_rules()
    assert weights.min() >= 0.0
    for n in (1, 5, 8, 9, 13, 64, 1000, 1024):
        every = (np.arange(n) + 0.5) / n
        x = (nodes[n] + 0.5) / n
        for power in range(min(n, 8)):
            assert weights[n] @ x**power == pytest.approx((every**power).sum(), rel=1e-10)
        used = nodes[n][weights[n] > 0.0]
        assert len(set(used)) == len(used) == min(n, 8)
