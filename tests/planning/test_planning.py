"""Planning: every bound against brute force, and against adversaries that do their best."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from pymc_private import planning
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee, br_eps, draws_affordable, psaqr_loss
from tests.statistics import proportion

ranges = st.floats(1e-3, 12)
seeds = st.integers(0, 10**6)


def posterior(prior: np.ndarray, loglik: np.ndarray) -> np.ndarray:
    return special.softmax(prior + loglik)


def grid(seed: int, R: float) -> tuple[np.ndarray, np.ndarray]:
    """Two posteriors whose log ratio has a range of exactly R."""
    rng = np.random.default_rng(seed)
    g = rng.random(rng.integers(2, 8)) ** rng.uniform(0.1, 5)
    g = R * (g - g.min()) / np.ptp(g)
    prior = 3 * rng.normal(size=len(g))
    base = 3 * rng.normal(size=len(g))
    return posterior(prior, base + g), posterior(prior, base)


def tv(p: np.ndarray, q: np.ndarray) -> float:
    return float(np.abs(p - q).sum() / 2)


def two_point(R: float, t: float) -> tuple[float, float]:
    """Probabilities of the first point under P and Q, with losses t and t - R."""
    q = math.expm1(R - t) / math.expm1(R)
    return q * math.exp(t), q


def tv_of_draws(p: float, q: float, n: int) -> float:
    k = np.arange(n + 1)
    return tv(stats.binom.pmf(k, n, p), stats.binom.pmf(k, n, q))


# ---- robustness --------------------------------------------------------------------------------
@given(seeds, ranges)
def test_posteriors_move_no_further_than_their_range_allows(seed, R):
    p, q = grid(seed, R)
    assert np.sum(special.rel_entr(p, q)) <= planning.posterior_kl(R) * (1 + 1e-9)
    assert tv(p, q) <= planning.posterior_tv(R) + 1e-12


@pytest.mark.parametrize("R", [0.1, 1.0, 5.0])
def test_the_bounds_of_robustness_are_attained(R):
    pairs = [two_point(R, t) for t in np.linspace(0.001, 0.999, 999) * R]
    kl = max(special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q) for p, q in pairs)
    assert kl == pytest.approx(planning.posterior_kl(R), rel=1e-4)
    assert max(p - q for p, q in pairs) == pytest.approx(planning.posterior_tv(R), rel=1e-4)
    assert planning.posterior_kl(R) <= min(R, R**2 / 8)


def test_k_records_are_a_range_of_k():
    table = planning.robustness(0.1, [1, 20])
    assert table.rows[1][1] == pytest.approx(planning.posterior_kl(2.0))
    assert table.rows[1][2] == pytest.approx(planning.posterior_tv(2.0))
    assert table.rows[1][3] == pytest.approx(math.e**2)
    assert list(table.to_frame()["records changed"]) == [1, 20]
    assert "<table " in table._repr_html_()
    assert table.plot().get_xlabel() == "records changed"


# ---- distinguishing ----------------------------------------------------------------------------
@given(st.floats(0.01, 3), st.floats(0, 1), st.sampled_from([1, 2, 7, 30]))
def test_no_test_on_draws_has_more_than_the_advantage(R, share, n):
    p, q = two_point(R, share * R)
    assert tv_of_draws(p, q, n) <= planning.advantage(R, n) + 1e-12


@pytest.mark.parametrize(("R", "n"), [(0.5, 1), (0.5, 10), (0.05, 300), (2.0, 5)])
def test_the_advantage_is_attained(R, n):
    best = max(tv_of_draws(*two_point(R, t), n) for t in np.linspace(0, 1, 401) * R)
    assert best == pytest.approx(planning.advantage(R, n), rel=2e-3)
    assert planning.advantage(R, n) <= min(1, math.sqrt(n * R**2 / 16))


def test_theorem_13_is_necessary_and_never_sufficient():
    R, n, target = 0.05, 100, 0.5
    fewest = planning.records_to_distinguish(R, n, target)
    assert planning.advantage(R, n, fewest - 1) < target <= planning.advantage(R, n, fewest)
    fewest = planning.draws_to_distinguish(R, target)
    assert planning.advantage(R, fewest - 1) < target <= planning.advantage(R, fewest)
    # Likelihoods free of theta: the posteriors coincide however many records differ.
    assert tv_of_draws(0.3, 0.3, 10**4) == 0.0
    # The corrected condition asks for no fewer records than the printed one.
    L, failure = R / 2, 0.01
    assert planning.separable_records(R, n, failure) >= 3 * math.log(1 / failure) / (4 * L * n)


def test_the_partition_adversary_is_never_sure_with_fewer_records_but_may_well_be_right():
    R, n, failure = 0.05, 2000, 0.25
    k = planning.separable_records(R, n, failure)
    assert 2 * math.tanh((k - 1) * R / 4) < 2 * planning.partition_radius(n, 2, failure)
    assert 2 * math.tanh(k * R / 4) >= 2 * planning.partition_radius(n, 2, failure)
    # Two points of range k R, half as many records: the nearer shares are right almost always.
    shift = math.tanh(k // 2 * R / 4) / 2
    assert stats.binom.cdf(n // 2, n, 0.5 + shift) < failure
    assert planning.records_to_distinguish(R, n, 1 - 2 * failure) <= k // 2


def test_lemma_12_the_shares_of_a_partition_lie_within_their_radius():
    rng, n, m, failure = np.random.default_rng(3), 200, 4, 0.1
    law = np.array([0.1, 0.2, 0.3, 0.4])
    radius = planning.partition_radius(n, m, failure)
    far = np.abs(rng.multinomial(n, law, size=4000) / n - law).sum(axis=1) > radius
    assert far.mean() < failure
    assert proportion(int(far.sum()), 4000, failure).passes or far.mean() < failure
    # The lemma's radius, for as many cells as it allows, is larger.
    small = 1e-3
    cells = int(math.log2(math.sqrt(1 / small)))
    assert planning.partition_radius(n, cells, small) <= math.sqrt(3 * math.log(1 / small) / n)


# ---- reconstruction ----------------------------------------------------------------------------
@pytest.mark.parametrize(("R", "n"), [(0.5, 1), (0.5, 10), (1.5, 4)])
def test_lemma_18_no_estimator_beats_the_floor_and_the_best_one_nearly_reaches_it(R, n):
    """Two data sets at distance 1; the estimator that is best at worst, by exact probabilities."""
    floor = planning.reconstruction_floor(Guarantee.bounded_range_of(R, n), 1.0)
    risks = []
    for t in np.linspace(0.01, 0.99, 99) * R:
        p, q = two_point(R, t)
        k = np.arange(n + 1)
        of_p, of_q = stats.binom.pmf(k, n, p), stats.binom.pmf(k, n, q)
        # Guess between the two: error = wrong guesses; a mixture of thresholds evens them out.
        guesses = np.arange(n + 2)
        miss = np.array([of_p[:c].sum() for c in guesses])
        false = np.array([of_q[c:].sum() for c in guesses])
        risks.append(_even(miss, false))
    assert floor <= min(risks) + 1e-12
    assert min(risks) < 1.05 * floor + 1e-3
    generous = planning.reconstruction_floor(Guarantee.bounded_range_of(R / 2, n), 1.0)
    assert generous > min(risks)  # a claim of half the range would be refuted


def _even(miss: np.ndarray, false: np.ndarray) -> float:
    """Least achievable max(miss, false) over mixtures of tests."""
    best = 1.0
    for a in range(len(miss)):
        for b in range(len(miss)):
            d = (miss[a] - false[a]) - (miss[b] - false[b])
            w = np.clip(-(miss[b] - false[b]) / d, 0, 1) if d else 1.0
            both = w * miss[a] + (1 - w) * miss[b], w * false[a] + (1 - w) * false[b]
            best = min(best, max(both))
    return best


def test_more_doubtful_records_are_told_apart_better():
    table = planning.adversary(Guarantee.bounded_range_of(0.1, 10), [1, 5, 50])
    advantages = [row[1] for row in table.rows]
    assert advantages == sorted(advantages)
    for k, seen, guesses, floor in table.rows:
        assert guesses == pytest.approx((1 + seen) / 2)
        assert floor == pytest.approx((1 - seen) / 2)
        claim = Guarantee.bounded_range_of(0.1, 10)
        assert planning.reconstruction_floor(claim, 3, k) == pytest.approx(3 * floor)
    assert table.plot().get_xlabel() == "records in doubt"
    assert "Who knows" in repr(table)


# ---- accuracy ----------------------------------------------------------------------------------
def test_theorem_17_trimming_costs_posterior_mass_not_prior_mass():
    """Uniform prior, ell = |logit theta| <= 3, and 500 failures in 500 trials."""
    low, high = special.expit([-3, 3])
    prior = 1 - (high - low)
    law = stats.beta(1, 501)
    after = 1 - (law.cdf(high) - law.cdf(low))
    assert prior == pytest.approx(0.0949, abs=1e-4)
    assert after == pytest.approx(1.0, abs=1e-4)
    assert planning.trimming_loss(prior) == pytest.approx(0.1897, abs=1e-4)
    assert planning.trimming_loss(after) == 1.0
    # On average over what the prior predicts (every count alike), the prior mass it is.
    mean = np.mean(
        [1 - np.diff(stats.beta(1 + k, 501 - k).cdf([low, high]))[0] for k in range(501)]
    )
    assert mean == pytest.approx(prior, abs=1e-6)


@given(seeds, st.floats(0.01, 4))
def test_lemma_15_a_likelihood_that_errs_by_eta_moves_the_posterior_by_tanh(seed, eta):
    rng = np.random.default_rng(seed)
    base, error = 3 * rng.normal(size=6), eta * rng.choice([-1, 1, 0.3], size=6)
    p, q = posterior(base, error), posterior(base, np.zeros(6))
    assert np.sum(special.rel_entr(p, q)) <= planning.misspecification_kl(eta) + 1e-12
    assert tv(p, q) <= planning.misspecification_tv(eta) + 1e-12
    assert planning.misspecification_kl(eta) <= min(2 * eta, eta**2 / 2) * (1 + 1e-9)
    assert planning.misspecification_tv(eta) == pytest.approx(math.tanh(eta / 2))


def test_records_draws_and_epsilon_are_inverses_of_their_prices():
    need = planning.records_needed(100, 2.0, 1.0, 1e-6, 10)
    power = 100 / need
    assert planning.epsilon_needed(2.0, 10, 1e-6, power) <= 1.0
    assert planning.epsilon_needed(2.0, 10, 1e-6, 100 / (need - 1)) > 1.0 - 1e-3
    assert planning.epsilon_needed(2.0, 10, 1e-6) == br_eps(1e-6, 10, 2.0)
    for loss in (0.01, 0.1, 0.7):
        n = planning.draws_needed(loss, 5, 100)
        assert psaqr_loss(n, 0.05, 5, 100) <= loss
        assert n == 1 or psaqr_loss(n - 1, 0.05, 5, 100) > loss


def test_a_study_says_what_each_cell_costs():
    table = planning.study(2.0, 100, epsilons=[0.5, 1.0], draws=[1, 10])
    assert len(table.rows) == 4
    for epsilon, draws, need, power, loss, seen in table.rows:
        assert br_eps(1e-6, draws, power * 2.0) <= epsilon
        assert need == math.ceil(100 / power)
        assert loss == min(1, psaqr_loss(draws, 0.05, 2, 1))
        assert seen <= planning.advantage(power * 2.0, draws) * (1 + 1e-9)
    assert table.plot().get_ylabel() == "records needed"


# ---- the trim against the draws ----------------------------------------------------------------
def test_the_trade_off_is_the_sum_it_says_and_its_best_is_the_least():
    def outside(L):
        return math.exp(-3 * L)

    found = planning.trade_off(outside, epsilon=50.0, trims=[0.02, 0.1, 0.5, 1.0])
    for L, R, draws, cut, few, loss in found.rows:
        assert R == 2 * L
        assert draws == draws_affordable(50.0, 0.0, R)
        assert cut == pytest.approx(min(1, 2 * outside(L)))
        assert few == pytest.approx(min(1, psaqr_loss(draws, 0.05, 2, 1)))
        assert loss == pytest.approx(min(1, cut + few))
    assert found.best[-1] == min(row[-1] for row in found.rows)
    assert found.plot().get_xlabel().startswith("L")


def test_a_sample_of_ell_pays_for_its_own_error():
    ell = np.random.default_rng(1).exponential(1 / 3, size=4000)
    sampled = planning.trade_off(ell, epsilon=200.0, trims=[0.5, 1.0])
    exact = planning.trade_off(lambda L: math.exp(-3 * L), epsilon=200.0, trims=[0.5, 1.0])
    for one, other in zip(sampled.rows, exact.rows, strict=True):
        assert one[3] > other[3]
        assert one[4] > other[4]


def test_an_accuracy_goal_names_its_epsilon():
    found = planning.epsilon_for_accuracy(0.4, lambda L: math.exp(-8 * L), trims=[0.2, 0.4, 0.6])
    assert found.best[-1] <= 0.4
    below = planning.trade_off(
        lambda L: math.exp(-8 * L), epsilon=0.99 * found.epsilon, trims=[0.2, 0.4, 0.6]
    )
    assert below.best[-1] > 0.4
    with pytest.raises(DomainError, match="no epsilon reaches"):
        planning.epsilon_for_accuracy(0.1, lambda L: 0.5, trims=[1.0])


def test_a_trim_for_which_no_draw_fits_says_so():
    found = planning.trade_off(lambda L: 0.0, epsilon=0.1, trims=[1.0])
    assert found.best[2] == 0
    assert "not one draw" in repr(found)


# ---- pairs -------------------------------------------------------------------------------------
def test_the_epsilon_of_a_pair_is_the_largest_log_ratio_of_the_posteriors():
    for seed in range(20):
        p, q = grid(seed, 2.0)
        found = planning.grid_pair(np.zeros(len(p)), np.log(p), np.log(q))
        assert found == pytest.approx(np.max(np.abs(np.log(p / q))))
        assert found <= 2.0 + 1e-9


@pytest.mark.parametrize("ends", [(0.1, 0.9), (0.01, 0.5), (0.5, 0.99)])
@pytest.mark.parametrize("counts", [(0, 1), (7, 8), (20, 19)])
def test_a_pair_of_coins_by_incomplete_beta_functions_and_on_a_fine_grid(ends, counts):
    theta = np.linspace(*ends, 200_001)
    x, y = counts
    logs = [k * np.log(theta) + (20 - k) * np.log1p(-theta) for k in counts]
    prior = np.log(theta) + 2 * np.log1p(-theta)
    prior[[0, -1]] -= math.log(2)  # trapezoids
    assert planning.beta_bernoulli_pair(2, 3, 20, x, y, *ends) == pytest.approx(
        planning.grid_pair(prior, *logs), rel=1e-6
    )
    assert planning.beta_bernoulli_pair(2, 3, 20, x, y) == math.inf
    assert planning.beta_bernoulli_pair(2, 3, 20, x, x) == 0.0


@pytest.mark.parametrize(("x", "y"), [(3.0, 4.0), (0.0, 1.0), (9.0, 8.5)])
def test_a_pair_of_exponential_samples_by_incomplete_gamma_functions_and_by_quadrature(x, y):
    a, b, n, low, high = 2.0, 1.5, 5, 0.2, 2.0
    mass = [
        integrate.quad(lambda t, s=s: t ** (a + n - 1) * math.exp(-(b + s) * t), low, high)[0]
        for s in (x, y)
    ]
    ratio = [(y - x) * t - math.log(mass[0] / mass[1]) for t in (low, high)]
    found = planning.gamma_exponential_pair(a, b, n, x, y, low, high)
    assert found == pytest.approx(max(map(abs, ratio)), rel=1e-9)
    assert found <= (high - low) * abs(x - y)


# ---- refusals ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "call",
    [
        lambda: planning.posterior_kl(-1.0),
        lambda: planning.posterior_tv(1.0, 0),
        lambda: planning.advantage(1.0, 0),
        lambda: planning.advantage(math.nan, 1),
        lambda: planning.draws_to_distinguish(0.0, 0.5),
        lambda: planning.records_to_distinguish(1.0, 1, 1.0),
        lambda: planning.partition_radius(10, 1, 0.1),
        lambda: planning.partition_radius(10, 2, 0.0),
        lambda: planning.reconstruction_floor(Guarantee.pure(1.0), -1.0),
        lambda: planning.records_needed(0, 1.0, 1.0),
        lambda: planning.draws_needed(0.0),
        lambda: planning.draws_needed(1e-9),
        lambda: planning.draws_needed(1e-300),
        lambda: planning.epsilon_needed(1.0, 1, power=0.0),
        lambda: planning.trimming_loss(1.5),
        lambda: planning.misspecification_tv(-1.0),
        lambda: planning.trade_off([], epsilon=1.0),
        lambda: planning.trade_off([1.0, math.nan], epsilon=1.0),
        lambda: planning.trade_off(lambda L: 0.0, epsilon=1.0, trims=[]),
        lambda: planning.trade_off(lambda L: 0.0, epsilon=0.0),
        lambda: planning.grid_pair(np.zeros(2), np.zeros(3), np.zeros(2)),
        lambda: planning.grid_pair(np.full(2, -np.inf), np.zeros(2), np.zeros(2)),
        lambda: planning.beta_bernoulli_pair(1, 1, 5, 6, 1),
        lambda: planning.gamma_exponential_pair(1, 1, 5, 1, 2, 3, 2),
        lambda: planning.beta_bernoulli_pair(1, 1, 1000, 0, 1, 0.9, 0.95),
        lambda: planning.gamma_exponential_pair(1, 1, 5, 1e4, 1e4 + 1, 1.0, 3.0),
    ],
)
def test_impossible_plans_are_refused(call):
    with pytest.raises(DomainError):
        call()


@pytest.mark.parametrize("guarantee", [3, "1", None])
def test_an_adversary_is_told_of_a_guarantee(guarantee):
    for call in (planning.adversary, lambda one: planning.reconstruction_floor(one, 1.0)):
        with pytest.raises(DomainError, match="judged from a guarantee"):
            call(guarantee)
