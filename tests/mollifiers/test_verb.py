"""mollify: what is planned fits, a name is one law's, and what is no estimate is refused."""

from __future__ import annotations

import copy
import functools
import pickle

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture as Mixture

from pymc_private import Ledger, MollifiedBoosting, mollify
from pymc_private.errors import DomainError, Incompatible
from pymc_private.mollifiers.mollified_distributions import Tilted, tilt_half_range
from pymc_private.mollifiers.references import Box, QuantileReference, as_reference
from pymc_private.samplers.randomness import SeededRandomness

ROWS = np.random.default_rng(0).normal(0.4, 0.5, size=(300, 1))
PUBLIC = np.random.default_rng(1).normal(size=(50, 2))


class Hidden:
    """A law of one's own that keeps its mean where nobody looks."""

    def __init__(self, mean: float) -> None:
        self._law = functools.partial(stats.multivariate_normal, [mean, 0.0], np.eye(2))

    def __deepcopy__(self, memo: dict) -> Hidden:
        return Hidden(self._law.args[0][0])

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        return self._law().logpdf(x)

    def sample(self, n: int) -> np.ndarray:
        return self._law().rvs(n)


def a_prior(*given: object) -> pm.Model:
    with pm.Model() as model:
        *wrap, mean = given or (0.0,)
        pm.Normal("x", wrap[0]("m", mean) if wrap else mean, 1, shape=2)
    return model


def ledger(epsilon: float = 10, **words: object) -> Ledger:
    return Ledger(epsilon=epsilon, **{"neighbors": "any"} | words)


@pytest.mark.parametrize("total", [(0.3, 0.01, 2), (1.0, 0.01, 17), (20.0, 0.01, 1)])
def test_a_planned_tilt_fits_the_ledger_it_was_planned_for(total):
    epsilon, delta, draws = total
    law = mollify([0.9, 0.1], [0.5, 0.5], total=total, kind="tilt")
    assert law.guarantee(draws).epsilon(delta) <= epsilon
    budget = ledger(epsilon, delta=delta, shares={"approximate": delta})
    assert len(law.sample(ledger=budget, progressbar=False).posterior.draw) == draws


@pytest.mark.thin(8)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            stats.multivariate_normal([0, 0], np.eye(2)),
            stats.multivariate_normal([9, 0], np.eye(2)),
        ),
        ([stats.norm(), stats.norm()], [stats.norm(), stats.norm(1e-9)]),
        (Box([0, 0], [1, 1]), Box([0, 0], [1, 1 + 1e-9])),
        (stats.gaussian_kde(PUBLIC.T), stats.gaussian_kde(PUBLIC.T + np.array([[0.0], [1e-9]]))),
        (Mixture(1, random_state=0).fit(PUBLIC), Mixture(2, random_state=0).fit(PUBLIC)),
        (Hidden(0.0), Hidden(1e-6)),
        (a_prior(0.0), a_prior(1e-9)),
        (a_prior(pm.Data, 0.0), a_prior(pm.Data, 1e-9)),
    ],
)
def test_a_name_belongs_to_one_reference_to_the_last_digit(one, other):
    rows = np.random.default_rng(4).random((100, 2))
    budget = ledger()
    words = {"ledger": budget, "name": "pair", "progressbar": False}
    for again in (one, copy.deepcopy(one)):
        mollify(rows, again, 1.0, estimate=LogisticRegression(), pool=512).sample(2, **words)
    assert len(budget.entries) == 1
    with pytest.raises(Incompatible, match="belongs to another charge"):
        mollify(rows, other, 1.0, estimate=LogisticRegression(), pool=512).sample(2, **words)


def test_a_prior_is_known_by_what_it_is_and_not_by_where_it_lies_in_memory():
    one, other = (as_reference(a_prior()) for _ in range(2))
    assert one.fingerprint == other.fingerprint != as_reference(a_prior(0.5)).fingerprint


def test_a_target_function_gives_one_number_for_each_row():
    with pytest.raises(DomainError, match="one number for each row"):
        mollify(lambda x: x**2, stats.norm(), 1.0)


def test_trees_too_need_a_reference_with_support_at_the_data():
    with pytest.raises(DomainError, match="no support"):
        mollify(ROWS - 10.0, stats.gamma(2), 1.0, estimate="trees")


def a_half_normal() -> pm.Model:
    with pm.Model() as model:
        pm.HalfNormal("x", 1, shape=2)
    return model


class Quadrant:
    """A law of one's own on positive numbers."""

    def logpdf(self, x: np.ndarray) -> np.ndarray:
        return np.where((x > 0).all(axis=1), -x.sum(axis=1), -np.inf)

    def sample(self, n: int) -> np.ndarray:
        return np.random.default_rng().exponential(size=(n, 2))


@pytest.mark.parametrize("reference", [a_half_normal, Quadrant])
def test_any_reference_with_a_density_needs_support_at_the_data(reference):
    rows = np.random.default_rng(3).normal(-1.0, 0.5, size=(60, 2))
    law, learner = reference(), LogisticRegression()
    with pytest.raises(DomainError, match="no support"):
        mollify(rows, law, 1.0, estimate=learner, pool=256)
    with pytest.raises(DomainError, match="no support"):
        MollifiedBoosting(1.0, 1, learner, law, progressbar=False).fit(rows)
    assert mollify(np.abs(rows), law, 1.0, estimate=learner, pool=256).epsilon == 1.0


@pytest.mark.parametrize("delta", [-1.0, float("nan")])
def test_a_total_for_any_window_has_a_delta_that_is_a_probability(delta):
    with pytest.raises(DomainError, match="delta"):
        mollify([0.5, 0.5], [0.5, 0.5], total=(1.0, delta, 3), window=0.3)


def test_a_column_of_text_counts_as_rows_whatever_holds_it():
    held = np.array(["a", "b", "a"], dtype=object)
    laws = [mollify(rows, {"a": 0.5, "b": 0.5}, 1.0) for rows in (held, held.tolist())]
    np.testing.assert_array_equal(laws[0].probabilities, laws[1].probabilities)


def test_whole_numbers_that_are_no_probabilities_are_rows():
    rows = np.random.default_rng(5).poisson(4, size=500)
    shares = np.bincount(rows, minlength=5)
    law = mollify(rows, stats.poisson(3), 1.0)
    counted = mollify(dict(enumerate(shares.tolist())), stats.poisson(3), 1.0)
    np.testing.assert_array_equal(law.probabilities, counted.probabilities)
    floats = mollify(rows.astype(float)[:, None], stats.poisson(3), 1.0)
    np.testing.assert_array_equal(law.probabilities, floats.probabilities)
    point = mollify([0, 1, 0], [0.2, 0.3, 0.5], 1.0).probabilities
    np.testing.assert_array_equal(point, mollify({1: 1.0}, [0.2, 0.3, 0.5], 1.0).probabilities)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([3, 7], "counts or rows"),
        ([3, 1, 1], "no such category"),
        ({0: 0, 1: 0}, "probabilities or counts"),
        ({0: -1, 1: 2}, "probabilities or counts"),
        ({0: np.nan, 1: 2}, "probabilities or counts"),
        ([0.5, 0.6], "holds probabilities"),
        ([], "holds probabilities|no distribution"),
    ],
)
def test_a_target_that_may_mean_two_things_or_nothing_is_refused(target, message, recwarn):
    with pytest.raises(DomainError, match=message):
        mollify(target, [0.5, 0.5], 1.0)
    assert not recwarn.list


def centered(x: np.ndarray) -> np.ndarray:
    """An estimate that looks at its whole batch, as no function of a row does."""
    return 5.0 * (x[:, 0] - x[:, 0].mean())


class Whitened(LogisticRegression):
    """A learner that does the same."""

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return super().predict_proba(5.0 * (x - x.mean(axis=0)))


BATCHED = {
    "a function": lambda: mollify(ROWS, stats.norm(), 2.0, kind="tilt", estimate=centered),
    "a target": lambda: mollify(
        lambda x: centered(x) + stats.norm().logpdf(x[:, 0]), stats.norm(), 2.0, kind="tilt"
    ),
    "a classifier": lambda: mollify(ROWS, stats.norm(), 2.0, kind="tilt", estimate=Whitened()),
    "boosting": lambda: MollifiedBoosting(
        2.0, 1, Whitened(), [stats.norm()], progressbar=False, random_state=0
    ).fit(ROWS).mollified_,
}  # fmt: skip


@pytest.mark.parametrize("what", BATCHED)
def test_what_looks_at_its_batch_is_evaluated_once_so_that_k_draws_have_one_law(what):
    law = BATCHED[what]()._distribution
    places = law.propose(1000, SeededRandomness.from_seed(0))
    together = law.log_weight(places)
    alone = np.concatenate([law.log_weight(place) for place in np.array_split(places, 7)])
    np.testing.assert_array_equal(together, alone)
    assert np.ptp(together) > 0.5  # it is a tilt all the same, as wide as it may be


def test_the_planted_fault_a_tilt_evaluated_on_its_batch_has_no_law_of_its_own():
    law = Tilted(QuantileReference([stats.norm()]), centered, tilt_half_range(2.0))
    places = law.propose(100, SeededRandomness.from_seed(0))
    alone = np.concatenate([law.log_weight(place) for place in np.array_split(places, 50)])
    assert np.abs(law.log_weight(places) - alone).max() > 0.5


@pytest.mark.parametrize("estimate", ["kde", "histogram", "network", "trees"])
def test_estimates_of_this_package_look_at_one_row_at_a_time(estimate):
    law = mollify(ROWS[:60], stats.norm(), 2.0, kind="tilt", estimate=estimate)._distribution
    assert isinstance(law, Tilted)
    places = law.propose(100, SeededRandomness.from_seed(0))
    alone = np.concatenate([law.log_weight(place) for place in np.array_split(places, 50)])
    np.testing.assert_allclose(law.log_weight(places), alone, rtol=0, atol=1e-13)


@pytest.mark.thin(4)
@pytest.mark.parametrize("words", [{}, {"kind": "tilt"}, {"estimate": lambda x: -(x[:, 0] ** 2)}])
@pytest.mark.parametrize("reference", [stats.norm, pm.Normal.dist])
def test_a_law_is_stored_and_copied_for_the_curator(reference, words):
    law = mollify(ROWS, reference(), 1.0, **words)
    expected = law.sample(3, random_seed=1, progressbar=False)
    for again in (pickle.loads(pickle.dumps(law)), copy.deepcopy(law)):
        assert again.sample(3, random_seed=1, progressbar=False) == expected
        np.testing.assert_array_equal(again.log_ratio([0.1, 2.0]), law.log_ratio([0.1, 2.0]))
