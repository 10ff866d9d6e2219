"""mollify and Mollified: charge then draw, one kind of promise, an allow-list, clear refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity

import pymc_private as pmp
from pymc_private import Guarantee, Ledger, mollify
from pymc_private.errors import DomainError, Incompatible
from pymc_private.mollifiers import references
from pymc_private.mollifiers.references import Box

ROWS = np.random.default_rng(0).normal(0.4, 0.5, size=(300, 1))


def ledger(epsilon: float = 10, **words: object) -> Ledger:
    return Ledger(epsilon=epsilon, **{"neighbors": "any"} | words)


def test_a_promise_about_any_two_data_sets_never_adds_to_one_about_a_record():
    law = mollify(ROWS, stats.norm(), 1.0)
    whole, record = law.guarantee(), Guarantee.pure(1.0)
    with pytest.raises(Incompatible, match="different neighbors"):
        whole + record
    added = law.guarantee(1, "substitute") + record
    assert added.pure_epsilon == 2.0
    assert added.neighbors == "substitute"
    for count in (1, 3):
        assert whole.restated("add_remove").epsilon() == whole.group(count).epsilon() == 1.0


def test_a_ledger_for_records_refuses_it_until_it_is_told():
    law, budget = mollify(ROWS, stats.norm(), 1.0), ledger(3, neighbors="substitute")
    with pytest.raises(Incompatible, match="different neighbors"):
        law.sample(ledger=budget, progressbar=False)
    assert budget.entries == ()
    release = law.sample(ledger=budget, neighbors="substitute", progressbar=False)
    assert release.guarantee.neighbors == "substitute"
    assert budget.spent.epsilon == 1


def test_a_release_holds_draws_and_public_facts_and_nothing_else():
    for target in (ROWS, ROWS[::-1] * 0.1 + 3.0):
        release = mollify(target, stats.norm(), 1.0).sample(5, ledger=ledger(), progressbar=False)
        assert list(release.posterior.data_vars) == ["x"]
        said = release.facts
        said.pop("ledger_head")
        if target is ROWS:
            before = said
    assert said == before  # two data sets, the same facts
    assert release.facts["draws"] == 5
    assert pmp.Release.from_bytes(release.to_bytes()) == release
    assert "the whole data set is replaced by any other" in str(pmp.report(release))
    assert "husain2020local" in release.cite()


def test_the_ledger_is_charged_before_the_law_is_drawn_from(monkeypatch):
    law, budget = mollify([0.9, 0.1], [0.5, 0.5], 1.0), ledger()
    seen = []
    inner = law._distribution.propose
    monkeypatch.setattr(
        law._distribution, "propose", lambda *a: (seen.append(len(budget.entries)), inner(*a))[1]
    )
    law.sample(2, ledger=budget, progressbar=False)
    assert set(seen) == {1}


def test_what_fails_after_the_charge_tells_no_cause(monkeypatch):
    law, budget = mollify([0.9, 0.1], [0.5, 0.5], 1.0), ledger()

    def fail(*args: object) -> None:
        raise ValueError("secret 42")

    monkeypatch.setattr(law._distribution, "propose", fail)
    with pytest.raises(pmp.errors.PymcPrivateError, match="after it was charged") as caught:
        law.sample(ledger=budget, progressbar=False)
    assert "42" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert len(budget.entries) == 1


def test_too_little_budget_is_refused_whole():
    budget = ledger(1)
    with pytest.raises(pmp.errors.BudgetExceeded):
        mollify(ROWS, stats.norm(), 1.0).sample(2, ledger=budget, progressbar=False)
    assert budget.entries == ()


def test_the_same_name_returns_the_same_release_free():
    law, budget = mollify(ROWS, stats.norm(), 1.0), ledger()
    first = law.sample(2, ledger=budget, name="a", progressbar=False)
    assert law.sample(2, ledger=budget, name="a", progressbar=False) == first
    assert len(budget.entries) == 1
    others = (
        lambda: law.sample(3, ledger=budget, name="a", progressbar=False),
        lambda: mollify(ROWS, stats.norm(0, 2), 1.0).sample(2, ledger=budget, name="a"),
        lambda: mollify(ROWS, stats.norm(), 1.0, window=0.1).sample(2, ledger=budget, name="a"),
        lambda: law.sample(2, ledger=budget, name="a", delta=0.1),
    )
    for other in others:
        with pytest.raises(Incompatible, match="belongs to another charge"):
            other()


def test_a_seed_makes_what_is_marked_not_private_and_charges_nothing():
    law, budget = mollify(ROWS, stats.norm(), 1.0), ledger()
    one, two = (law.sample(4, ledger=budget, random_seed=3, progressbar=False) for _ in "ab")
    assert one == two
    assert not one.private
    assert budget.entries == ()


@pytest.mark.parametrize("draws", [1, 60])
def test_a_total_is_met_by_either_kind_and_few_draws_are_clipped(draws):
    delta = 1e-6
    laws = {
        kind: mollify(ROWS, stats.norm(), total=(1.0, delta, draws), kind=kind)
        for kind in ("clip", "tilt", None)
    }
    for law in laws.values():
        spent = law.guarantee(draws).epsilon(delta)
        assert 0.99 <= spent <= 1.0
    chosen = laws[None]
    assert chosen.kind == ("clip" if draws == 1 else "tilt")
    with pytest.raises(DomainError, match="planned for fewer draws"):
        chosen.sample(draws + 1, ledger=ledger(), progressbar=False)


def test_public_ends_of_a_reference_bound_what_is_read_from_its_draws():
    for law, name in (
        (mollify([0.9, 0.1], [0.5, 0.5], 1.0), "x"),
        (mollify({"a": 1.0}, {"a": 0.5, "b": 0.5}, 1.0), "category"),
        (mollify(np.random.default_rng(0).random((50, 2)), Box([0, 0], [1, 1]), 1.0), "x"),
    ):
        found = law.sample(50, random_seed=1, progressbar=False).mean(name)
        assert np.isfinite(found.error).all()


def test_a_promise_may_be_stated_at_a_delta():
    law = mollify([0.9, 0.1], [0.5, 0.5], 0.1)
    release = law.sample(100, ledger=ledger(20), delta=1e-6, progressbar=False)
    assert release.facts["epsilon"] == pytest.approx(4.712, abs=1e-3)
    with pytest.raises(DomainError, match="delta"):
        law.sample(ledger=ledger(), delta=2.0)


def test_a_planned_total_is_charged_at_its_delta():
    budget = Ledger(epsilon=1, delta="1e-6", neighbors="any", shares={"approximate": "1e-6"})
    law = mollify(ROWS, stats.norm(), total=(1.0, 1e-6, 50))
    release = law.sample(ledger=budget, progressbar=False)
    assert release.posterior.sizes["draw"] == 50
    assert release.facts["epsilon"] <= 1.0


def test_the_table_of_many_draws():
    """T15: epsilon at delta 1e-6 of 100 draws, mollifier and tilt."""
    for width, clip, tilt in ((0.1, 4.71, 2.25), (0.5, 31.3, 14.3), (1.0, 74.9, 34.8)):
        assert Guarantee.mollifier_of(width, 100).epsilon(1e-6) == pytest.approx(clip, rel=2e-3)
        assert Guarantee.bounded_range_of(width, 100).epsilon(1e-6) == pytest.approx(tilt, rel=3e-3)


REFERENCES = {
    "scipy": stats.norm(0, 2),
    "product": [stats.norm(), stats.expon()],
    "normal": stats.multivariate_normal([0, 1], [[1, 0.5], [0.5, 2]]),
    "box": Box([-1, -1], [1, 1]),
    "public kernel estimate": stats.gaussian_kde(np.random.default_rng(1).normal(size=(2, 50))),
}


def test_laws_of_other_libraries_are_references_too():
    rows = np.random.default_rng(1).normal(size=(60, 2))
    given = [
        KernelDensity(bandwidth=0.5).fit(rows),
        GaussianMixture(2, random_state=0).fit(rows),
        stats.gaussian_kde(rows.T),
    ]
    for law in given:
        made = mollify(rows * 0.5, law, 1.0, pool=512)
        drawn = made.sample(3, random_seed=1, progressbar=False).posterior.x.values[0]
        assert all((made._distribution.points == row).all(axis=1).any() for row in drawn)
        assert np.isfinite(made.logpdf(rows[:3])).all()
    if hasattr(stats, "Normal"):  # SciPy 1.15 and later
        new, old = stats.Normal(mu=1.0, sigma=2.0), stats.norm(1.0, 2.0)
        laws = [mollify(stats.norm(), base, 1.0) for base in (new, old)]
        np.testing.assert_allclose(*(law.log_ratio([0.0, 3.0]) for law in laws), atol=1e-6)


@pytest.mark.parametrize("name", REFERENCES)
def test_any_reference_keeps_the_window_whatever_the_estimate_says(name, monkeypatch):
    monkeypatch.setitem(references.CELLS_PER_AXIS, 1, 500)
    monkeypatch.setitem(references.CELLS_PER_AXIS, 2, 50)
    base = REFERENCES[name]
    rng = np.random.default_rng(len(name))

    def adversarial(x: np.ndarray) -> np.ndarray:
        wild = rng.normal(size=len(x)) * 100
        return np.where(rng.random(len(x)) < 0.2, np.nan, wild)

    rows = np.abs(rng.normal(size=(20, 1 if name == "scipy" else 2))) % 1
    law = mollify(rows, base, 1.0, estimate=adversarial, pool=1024)
    weights, mass = law._distribution.weights, law._distribution.mass
    total = math.log(math.fsum(mass * np.exp(weights)))
    assert abs(total) < 1e-12
    assert np.abs(weights - total).max() <= 0.5
    tilt = mollify(rows, base, 1.0, estimate=adversarial, pool=1024, kind="tilt")
    points = law.reference.pool(50)
    assert np.ptp(tilt.log_ratio(points)) <= 0.5


def test_densities_integrate_to_one_and_agree_with_the_closed_form():
    law = mollify(stats.norm(1, 0.5), stats.norm(), 1.0)
    x = np.linspace(-8, 8, 40_001)
    density, step = np.exp(law.logpdf(x)), x[1] - x[0]
    assert density.sum() * step == pytest.approx(1.0, abs=1e-4)
    target = stats.norm(1, 0.5)
    gain = (target.pdf(x) * law.log_ratio(x)).sum() * step
    assert gain == pytest.approx(0.4234, abs=5e-4)  # T15d's table


def test_categories_keep_their_labels():
    law = mollify({"no": 3, "yes": 7}, {"yes": 0.5, "no": 0.5}, 2.0)
    assert law.probabilities == pytest.approx([0.7, 0.3])
    rows = mollify(["yes"] * 7 + ["no"] * 3, {"yes": 0.5, "no": 0.5}, 2.0)
    assert rows.probabilities == pytest.approx([0.7, 0.3])
    release = law.sample(3, ledger=ledger(), progressbar=False)
    assert release.facts["domain"] == {"category": ["yes", "no"]}
    numbers = mollify(stats.binom(4, 0.3), stats.randint(0, 5), 1.0)
    assert set(numbers.sample(9, random_seed=1, progressbar=False).posterior.x.values.ravel()) <= {
        0,
        1,
        2,
        3,
        4,
    }


BAD = {
    "no rows": ((np.empty(0), stats.norm(), 1.0), "the data are rows"),
    "constant": ((np.ones(9), stats.norm(), 1.0), "constant"),
    "NaN": (([0.1, np.nan], stats.norm(), 1.0), "NaN"),
    "infinite": (([0.1, np.inf], stats.norm(), 1.0), "NaN or infinite"),
    "dimension": ((np.ones((3, 2)), stats.norm(), 1.0), "differ in dimension"),
    "no support": (([0.5, 2.0, 0.7], Box(0, 1), 1.0), "no support where the target"),
    "no finite support": (([0.5, 0.5], [1.0, 0.0], 1.0), "no support where the target"),
    "epsilon zero": ((ROWS, stats.norm(), 0.0), "epsilon"),
    "epsilon negative": ((ROWS, stats.norm(), -1.0), "epsilon"),
    "no epsilon": ((ROWS, stats.norm()), "say what one draw may cost"),
    "no law": ((ROWS, object(), 1.0), "no distribution that is known here"),
    "not probabilities": (([0.5, 0.6], [0.5, 0.5], 1.0), "the target holds probabilities"),
    "other length": (([0.5, 0.5], [0.5, 0.25, 0.25], 1.0), "numbers of categories"),
    "text": ((["a"], stats.norm(), 1.0), "the data are numbers"),
    "an unknown label": (({"maybe": 1}, {"yes": 0.5, "no": 0.5}, 1.0), "no such category"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_clear_error(case):
    arguments, message = BAD[case]
    with pytest.raises(DomainError, match=message):
        mollify(*arguments)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"kind": "mean"}, "kind="),
        ({"estimate": "magic"}, "estimate="),
        ({"window": "wide"}, "window="),
        ({"estimate": lambda x: x**2}, "one number for each row"),
        ({"estimate": lambda x: x**2, "kind": "tilt"}, "one number for each row"),
        ({"estimate": lambda x: 0.0}, "one number for each row"),
        ({"estimate": type("Learner", (), {"fit": lambda self, x, y: self})()}, "predict_proba"),
    ],
)
def test_words_that_mean_nothing_are_refused(words, message):
    with pytest.raises(DomainError, match=message):
        mollify(ROWS, stats.norm(), 1.0, **words)


@pytest.mark.parametrize("estimate", ["kde", "histogram", "network", "trees"])
def test_constant_data_have_no_density_whatever_estimates_it(estimate):
    with pytest.raises(DomainError, match="constant"):
        mollify(np.ones(9), stats.norm(), 1.0, estimate=estimate)


def test_what_is_printed_shows_no_data():
    one, two = (mollify(rows, stats.norm(), 1.0) for rows in (ROWS, ROWS + 1))
    assert repr(one) == repr(two)
    assert "reference: norm(" in repr(one) or "reference: norm" in repr(one)
    assert "reference" in one._repr_html_()


def test_the_plot_of_a_tilt_of_a_very_heavy_tail_has_mass_one():
    rows = np.random.default_rng(4).standard_cauchy(500)
    made = mollify(rows, stats.cauchy(), epsilon=1.0, kind="tilt")
    x, density = made.plot().lines[1].get_data()
    assert 0.9 < np.trapezoid(density, x) < 1.1


@pytest.mark.parametrize("kind", ["clip", "tilt"])
def test_the_plot_shows_densities_where_nearly_all_mass_lies(kind):
    """Of a reference with a heavy tail, too: neither is hidden beside 1e-5 of its mass."""
    rows = np.random.default_rng(4).lognormal(10.2, 0.8, 500)
    made = mollify(rows, stats.lognorm(1.0, scale=30_000), epsilon=1.0, kind=kind)
    for line in made.plot().lines:
        x, density = line.get_data()
        assert 0.98 < np.trapezoid(density, x) < 1.0
        assert x[-1] < 20 * 30_000
