"""dirichlet, noisy_counts, count_posterior: what they charge, refuse, and release."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import pymc_private as pmp
from pymc_private.privacy import beta_pair_delta

COUNTS = [119, 74, 618, 272, 13, 187]


def ledger(epsilon=1.0, delta="1e-5", **words):
    return pmp.Ledger(epsilon=epsilon, delta=delta, shares={"approximate": delta}, **words)


def naive_bayes_tables():
    ages = xr.DataArray(
        [[10.0, 20, 5], [30, 5, 9]], dims=("class", "age"),
        coords={"class": ["ill", "well"], "age": ["young", "middle", "old"]},
    )  # fmt: skip
    return {"class": ages.sum("age"), "age": ages}


@pytest.mark.thin(8)
@pytest.mark.parametrize(
    "words",
    [
        {"method": "exact"}, {"method": "algorithm1"}, {"method": "noisy"}, {},
        {"method": "exact", "prior": 1.0}, {"method": "exact", "minimum": 5.0},
        {"method": "exact", "draws": 3}, {"method": "noisy", "draws": 7, "minimum": 1.0},
    ],
)  # fmt: skip
def test_a_release_holds_probabilities_and_what_they_cost(words):
    account = ledger()
    release = pmp.dirichlet(COUNTS, epsilon=1, delta=1e-5, ledger=account, **words)
    drawn = release.posterior["p"].values[0]
    assert drawn.shape[1:] == (6,)
    assert len(drawn) == words.get(
        "draws", 1 if release.facts["counts"]["method"] != "noisy" else 500
    )
    assert (drawn > 0).all()
    assert (drawn < 1).all()
    assert drawn.sum(axis=1) == pytest.approx(1.0, abs=1e-9)
    assert release.guarantee.epsilon(1e-5) <= 1.0
    assert len(account.entries) == 1
    assert account.spent.epsilon <= 1
    again = pmp.Release.from_bytes(release.to_bytes())
    assert again == release
    assert release.to_arviz() is not None
    assert "@" in release.cite()
    assert release.mean("p").lower.min() >= 0.0
    assert "counts" in release.facts
    assert release.facts["counts"]["total"] == sum(COUNTS)


def test_it_is_drawn_with_the_numbers_it_states():
    """Draws of a seeded release have the mean of Dir(r f + alpha), and are not private."""
    release = pmp.dirichlet(COUNTS, epsilon=1, delta=1e-5, method="exact", draws=20, random_seed=1)
    told = release.facts["counts"]
    shape = told["r"]["p"] * np.array(COUNTS) + told["alpha"]["p"]
    mean = release.posterior["p"].values[0].mean(axis=0)
    sd = np.sqrt(shape * (shape.sum() - shape) / shape.sum() ** 2 / (shape.sum() + 1) / 20)
    assert np.abs(mean - shape / shape.sum()).max() < (6 * sd).max()
    assert not release.private
    assert "NOT PRIVATE" in repr(release)
    one = release.facts["counts"]
    delta = beta_pair_delta(1.0, one["r"]["p"], one["alpha"]["p"])
    assert 20 * float(delta) <= 1e-2  # each draw alone costs far less than the whole


def test_what_auto_takes_is_expected_to_cost_less():
    for n, epsilon in ((60, 0.02), (1200, 1.0)):
        counts = np.round(np.array(COUNTS) / sum(COUNTS) * n)
        release = pmp.dirichlet(counts, epsilon=epsilon, delta=1e-5, ledger=ledger(epsilon, "1e-5"))
        told = release.facts["counts"]
        assert told["expected_kl"][told["method"]] == min(told["expected_kl"].values())


@pytest.mark.audit
def test_tables_that_correct_each_other_lean_towards_noise():
    """What noise costs is reckoned table by table, and is a tenth less where there are more."""
    few = np.round(np.array(COUNTS) / sum(COUNTS) * 60)
    for families, taken in ((1, "exact"), (4, "noisy")):
        design = {f"t{i}": few for i in range(families)}
        release = pmp.dirichlet(design, epsilon=0.1, delta=1e-5, ledger=ledger(0.1, "1e-5"))
        told = release.facts["counts"]
        ratio = told["expected_kl"]["noisy"] / told["expected_kl"]["exact"]
        assert 1.0 < ratio < 1.1
        assert told["method"] == taken


def test_the_private_counts_do_not_move_the_plan():
    """Neighbors, and any other counts of the same total, are drawn with the same numbers."""
    one = pmp.dirichlet(COUNTS, epsilon=1, delta=1e-5, ledger=ledger())
    other = pmp.dirichlet([1283, 0, 0, 0, 0, 0], epsilon=1, delta=1e-5, ledger=ledger())
    assert one.facts["counts"] == other.facts["counts"]
    assert one.facts["model"] == other.facts["model"]


def test_several_tables_cost_one_pair_for_each_family():
    for unit, relation in (("row", "substitute"), ("attribute", "attribute")):
        account = pmp.Ledger(epsilon=1, neighbors=relation)
        release = pmp.dirichlet(naive_bayes_tables(), epsilon=1, delta=0, unit=unit, ledger=account)
        assert release.facts["counts"]["scale"] == 4.0
        assert dict(release.posterior.sizes) == {"chain": 1, "draw": 500, "class": 2, "age": 3}
        assert list(release.posterior["age"].values) == ["young", "middle", "old"]
    three = naive_bayes_tables() | {"region": xr.DataArray([50.0, 29], dims=("region",))}
    attribute = pmp.dirichlet(
        three, epsilon=1, delta=0, unit="attribute",
        ledger=pmp.Ledger(epsilon=1, neighbors="attribute"),
    )  # fmt: skip
    assert attribute.facts["counts"]["scale"] == 4.0  # the class is in two families of three


def test_under_add_remove_nothing_tells_the_number_of_records():
    words = {"epsilon": 1, "delta": 1e-5, "neighbors": "add_remove", "profile": 1000}
    for method in ("exact", "noisy"):
        account = ledger(neighbors="add_remove")
        release = pmp.dirichlet(COUNTS, method=method, ledger=account, **words)
        other = pmp.dirichlet(
            [1, 2, 3, 4, 5, 6], method=method, ledger=ledger(neighbors="add_remove"), **words
        )
        assert release.facts["counts"] == other.facts["counts"]
        random = {"ledger_head"}  # a hash: any four digits occur in it now and then
        assert "1283" not in repr({k: v for k, v in release.facts.items() if k not in random})
    with pytest.raises(pmp.errors.DomainError, match="profile"):
        pmp.dirichlet(COUNTS, epsilon=1, delta=1e-5, neighbors="add_remove")
    zero = pmp.dirichlet([0, 0, 0], method="exact", ledger=ledger(neighbors="add_remove"), **words)
    assert np.isfinite(zero.posterior["p"].values).all()


def test_noisy_counts_leave_with_their_law_and_answer_for_free():
    account = ledger()
    release = pmp.counts.noisy_counts(naive_bayes_tables(), epsilon=1, delta=1e-5, ledger=account)
    assert release.posterior["p_age"].dtype.kind == "i"
    assert release.facts["counts"]["noise"] in ("laplace", "discrete_gaussian")
    draws = pmp.counts.count_posterior(release, draws=50)
    assert draws["p_age"].shape == (50, 2, 3)
    assert draws["p_age"].sum(axis=-1) == pytest.approx(1.0, abs=1e-9)
    assert len(account.entries) == 1
    with pytest.raises(pmp.errors.Incompatible):
        pmp.counts.count_posterior(pmp.dirichlet(COUNTS, epsilon=1, ledger=pmp.Ledger(epsilon=1)))


def test_the_same_name_is_paid_for_once():
    account = ledger()
    words = {"epsilon": 0.5, "delta": 1e-5, "ledger": account, "name": "main"}
    first = pmp.dirichlet(COUNTS, **words)
    assert pmp.dirichlet(COUNTS, **words) == first
    assert len(account.entries) == 1
    with pytest.raises(pmp.errors.Incompatible):
        pmp.dirichlet(COUNTS, **(words | {"epsilon": 0.4}))


BAD = [
    ([1.0, -1.0], {}), ([1.0, np.nan], {}), ([np.inf, 1.0], {}), ([5.0], {}), ([], {}),
    ([[1.0], [2.0]], {}), ({}, {}), ([0.0, 0.0], {}), (["a", "b"], {}),
    ({"x": [1, 2], "y": [1, 1]}, {}), ([1, 2], {"method": "best"}), ([1, 2], {"unit": "person"}),
    ([1, 2], {"neighbors": "none"}), ([1, 2], {"draws": 0}), ([1, 2], {"minimum": -1}),
    ([1, 2], {"prior": 0.0}), ([1, 2], {"prior": [1.0, 2.0, 3.0]}), ([1, 2], {"profile": -5}),
    ([1, 2], {"profile": [1.0, 2.0, 3.0]}), ([1.5, 2.5], {"method": "noisy"}),
    ([[1, 2], [3, 4]], {"unit": "attribute"}), ([1, 2], {"sensitivity": (1, 1)}),
    ([[1, 2], [3, 4]], {"sensitivity": (1, 1), "profile": 10}),
    ([1, 2], {"unit": "attribute", "neighbors": "add_remove", "profile": 5}),
    ([1, 2], {"method": "algorithm1", "prior": 1.0}), ([1, 2], {"epsilon": None}),
    ([1, 2], {"epsilon": None, "rdp": (5, 1.0), "zcdp": 1.0}),
    ([1, 2], {"delta": 0, "method": "exact"}),
    ({"x": xr.DataArray([1, 2], dims=("draw",))}, {}),
    ({"a": xr.DataArray([1, 2], dims=("b",)), "b": xr.DataArray([[1, 2]], dims=("c", "d"))}, {}),
    ({"a": xr.DataArray([1, 2], dims=("k",)), "b": xr.DataArray([1, 1, 1], dims=("k",))}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("counts", "words"), BAD)
def test_bad_input_is_told_and_charges_nothing(counts, words):
    account = ledger()
    given = {"epsilon": 1, "delta": 1e-5, "ledger": account} | words
    with pytest.raises(pmp.errors.PymcPrivateError) as caught:
        pmp.dirichlet(counts, **given)
    assert account.entries == ()
    assert "\n" in str(caught.value) or len(str(caught.value)) > 20


def test_a_budget_for_which_nothing_fits_charges_nothing():
    account = ledger(0.1)
    with pytest.raises(pmp.errors.BudgetExceeded):
        pmp.dirichlet(COUNTS, epsilon=1, delta=1e-5, ledger=account)
    assert account.entries == ()


def halved(epsilon, delta):
    """A ledger with half of delta for each accounting method."""
    half = Fraction(str(delta)) / 2
    return pmp.Ledger(epsilon=epsilon, delta=delta, shares={"zcdp": half, "approximate": half})


def test_a_ledger_that_splits_delta_says_what_to_do():
    account = halved(1, "1e-5")
    with pytest.raises(pmp.errors.BudgetExceeded, match="Calibrate at delta"):
        pmp.dirichlet(COUNTS, epsilon=1, delta=1e-5, method="exact", ledger=account)


@pytest.mark.parametrize(
    ("budget", "delta", "there", "not_there"),
    [
        ((2, 0.9999), 0.999, "Calibrate at delta = 0.4999; or make", "1.998"),
        ((2, "1e-5"), 1e-5, "or make a ledger, if the study is yet to begin, without", "smaller"),
        (
            (0.5, "1e-5"),
            1e-5,
            "a smaller epsilon (left: 0.5 nats) and a smaller delta",
            "Calibrate",
        ),
    ],
)
def test_shares_of_delta_are_spoken_of_where_epsilon_would_fit(budget, delta, there, not_there):
    account = halved(*budget)
    with pytest.raises(pmp.errors.BudgetExceeded) as caught:
        pmp.dirichlet(COUNTS, epsilon=1, delta=delta, method="exact", ledger=account)
    assert there in str(caught.value)
    assert not_there not in str(caught.value)


def test_what_is_left_of_a_share_is_what_a_plan_may_ask():
    account = halved(2, "1e-5")
    words = {"epsilon": 0.5, "method": "exact", "ledger": account}
    pmp.dirichlet(COUNTS, delta=2e-6, **words)
    with pytest.raises(pmp.errors.BudgetExceeded, match=r"Calibrate at delta = 3e-6$"):
        pmp.dirichlet(COUNTS, delta=6e-6, **words)
    assert pmp.dirichlet(COUNTS, delta=3e-6, **words).private


def test_pandas_gives_its_labels_and_no_ledger_warns():
    series = pd.Series([10, 20, 70], index=pd.Index(["a", "b", "c"], name="kind"))
    with pytest.warns(pmp.errors.PrivacyWarning, match="no ledger"):
        release = pmp.dirichlet(series, epsilon=2)
    assert list(release.posterior["kind"].values) == ["a", "b", "c"]


def test_vector_statistics_and_other_budgets():
    scores = [3.5, 10.2, 0.0, 7.7]
    vector = pmp.dirichlet(
        scores, epsilon=1, delta=1e-5, sensitivity=(0.5, 0.5), profile=20, ledger=ledger()
    )
    assert vector.posterior["p"].shape == (1, 1, 4)
    rdp = pmp.dirichlet(COUNTS, rdp=(5, 0.01), delta=1e-5, method="exact", ledger=ledger(3))
    assert rdp.guarantee.rdp(5) <= 0.01
    rho = pmp.dirichlet(COUNTS, zcdp=0.01, delta=1e-5, ledger=ledger(3))
    assert rho.guarantee.zcdp <= 0.01
    assert rho.facts["counts"]["noise"] == "discrete_gaussian"


@pytest.mark.audit
def test_the_report_reads_it():
    release = pmp.dirichlet(
        naive_bayes_tables(), epsilon=1, delta=0, draws=20, ledger=pmp.Ledger(epsilon=1)
    )
    text = repr(pmp.report(release))
    assert "T26" in text
    assert "p_age" in text


@pytest.mark.parametrize("call", [pmp.dirichlet, pmp.counts.noisy_counts])
def test_the_path_of_a_ledger_is_no_ledger(call):
    with pytest.raises(pmp.errors.DomainError, match=r"pmp.Ledger\('study.sqlite', epsilon"):
        call(COUNTS, epsilon=1, delta=1e-5, ledger="study.sqlite")


MASKED = np.ma.array(COUNTS, mask=[True, *[False] * 5])


@pytest.mark.parametrize("verb", [pmp.dirichlet, pmp.counts.noisy_counts])
@pytest.mark.parametrize("counts", [MASKED, {"a": [MASKED, MASKED]}])
def test_masked_counts_are_refused_and_not_counted(verb, counts):
    account = ledger()
    with pytest.raises(pmp.errors.DomainError, match="without a mask"):
        verb(counts, epsilon=1, delta=1e-5, ledger=account)
    assert account.entries == ()


def test_a_masked_prior_and_a_masked_profile_are_refused():
    for words in ({"prior": MASKED}, {"profile": MASKED}):
        with pytest.raises(pmp.errors.DomainError, match="without a mask"):
            pmp.dirichlet(COUNTS, epsilon=1, delta=1e-5, ledger=ledger(), **words)


@pytest.mark.parametrize("method", ["auto", "noisy"])
def test_more_draws_than_the_memory_holds_are_refused_before_the_charge(method):
    account = ledger()
    with pytest.raises(pmp.errors.DomainError, match="do not fit the memory"):
        pmp.dirichlet(COUNTS, epsilon=1, delta=1e-5, method=method, draws=10**9, ledger=account)
    assert account.entries == ()
    with pytest.raises(pmp.errors.DomainError, match="do not fit the memory"):
        pmp.counts.count_posterior(
            pmp.counts.noisy_counts(COUNTS, epsilon=1, ledger=account), draws=10**9
        )


def test_weighted_counts_are_drawn_without_noise():
    release = pmp.dirichlet([3.5, 40.5, 500], epsilon=1, delta=1e-5, ledger=ledger())
    assert release.facts["counts"]["method"] == "exact"


@pytest.mark.parametrize("verb", [pmp.dirichlet, pmp.counts.noisy_counts])
@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([[1, 2], [3]], {}),
        ({"a": [[1, 2], [3]]}, {}),
        *[({name: [1, 2, 3]}, {}) for name in ("", "a\0b", "\ud800")],
        *[(xr.DataArray([1, 2, 3], dims=(dim,)), {}) for dim in ("", "\ud800")],
        *[(xr.DataArray([1, 2], coords={"d": [at, "x"]}), {}) for at in ("a\0b", "\ud800")],
        *[([1, 2, 3], {"name": name}) for name in (3, "a\0b", "\ud800")],
        ([1, 2, 3], {"data_version": "\ud800"}),
    ],
)
def test_tables_and_names_that_nothing_can_hold_are_refused_in_words(verb, counts, words):
    account = ledger()
    with pytest.raises(pmp.errors.DomainError, match="got") as caught:
        verb(counts, epsilon=1, delta=1e-5, ledger=account, **words)
    assert str(caught.value).encode()
    assert account.entries == ()


def test_a_posterior_is_made_of_a_release():
    with pytest.raises(pmp.errors.DomainError, match="computed from a release"):
        pmp.counts.count_posterior(None)
    release = pmp.counts.noisy_counts(COUNTS, epsilon=1, ledger=ledger())
    with pytest.raises(pmp.errors.DomainError, match="minimum"):
        pmp.counts.count_posterior(release, minimum="a")
