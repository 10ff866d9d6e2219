"""Ways round the price of a fit that an attack found; each was open once."""

from __future__ import annotations

import pickle
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer

import pymc_private as pmp
from pymc_private.counts.counting import count_tables
from pymc_private.counts.declared_columns import declare_column
from pymc_private.errors import BudgetExceeded, DomainError, Incompatible
from pymc_private.estimators import Bins, DirichletBayesianNetwork, DirichletNaiveBayes

SEEDED = pytest.mark.filterwarnings("ignore:NOT PRIVATE:pymc_private.errors.PrivacyWarning")
DECLARED = {"a": (0, 1), "b": (0, 1, 2)}


def records(n=100, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.integers(0, 2, n), "b": rng.integers(0, 3, n)})
    return frame, rng.integers(0, 2, n)


def naive_bayes(**words):
    given = {"epsilon": 1, "delta": 0, "categories": DECLARED, "classes": (0, 1)}
    return DirichletNaiveBayes(**(given | words))


@SEEDED
def test_new_records_are_not_free_where_no_earlier_fit_was_paid_for():
    """A seeded fit charges nothing, so it covers nobody."""
    account = pmp.Ledger(epsilon=5)
    nb = naive_bayes(ledger=account, random_state=1).fit(*records())
    nb.set_params(random_state=None).update(*records(seed=1), records="new")
    assert account.spent.epsilon == 1
    nb.update(*records(seed=2), records="new")  # now one was paid for
    assert account.spent.epsilon == 1


def test_new_records_cost_no_delta_either():
    account = pmp.Ledger(epsilon=5, delta="1e-4", shares={"approximate": "1e-4"})
    nb = naive_bayes(ledger=account, delta=1e-5).fit(*records())
    before = account.spent
    nb.update(*records(seed=1), records="new")
    assert account.spent == before
    assert len(account.entries) == 2


@SEEDED
def test_new_records_are_charged_in_full_in_another_ledger():
    first, second = pmp.Ledger(epsilon=5), pmp.Ledger(epsilon=5)
    nb = naive_bayes(ledger=first).fit(*records())
    nb.set_params(ledger=second).update(*records(seed=1), records="new")
    assert first.spent.epsilon == second.spent.epsilon == 1
    copy = pickle.loads(pickle.dumps(naive_bayes(ledger=None, random_state=3).fit(*records())))
    assert not copy.private_


def test_a_smaller_promise_covers_no_larger_one():
    account = pmp.Ledger(epsilon=9, delta=0.1)
    nb = naive_bayes(ledger=account, epsilon=0.5).fit(*records())
    nb.set_params(epsilon=2).update(*records(), records="same")
    assert account.spent.epsilon == 2.5
    nb.update(*records(seed=1), records="new")  # at the numbers of the last one, which was paid
    assert nb.guarantee_.pure_epsilon == account.spent.epsilon == 2.5


@pytest.mark.parametrize("words", [{"method": "noisy"}, {"draws": 3}])
def test_an_update_that_does_not_fit_is_refused_before_it_is_charged(words):
    account = pmp.Ledger(epsilon=9, delta="1e-3", shares={"approximate": "1e-3"})
    nb = naive_bayes(ledger=account, delta=1e-5, method="exact", draws=2).fit(*records())
    for whose in ("same", "new"):
        other = words if whose == "same" else {}
        if other:
            with pytest.raises(Incompatible, match="nothing was charged"):
                nb.set_params(**other).update(*records(), records=whose)
    assert len(account.entries) == 1


def test_an_update_under_other_neighbors_is_refused_before_it_is_charged():
    nb = naive_bayes(ledger=pmp.Ledger(epsilon=9, delta=0.1)).fit(*records())
    account = pmp.Ledger(epsilon=9, neighbors="attribute")
    nb.set_params(unit="attribute", ledger=account)
    with pytest.raises(Incompatible, match="different neighbors"):
        nb.update(*records(), records="same")
    assert account.entries == ()


def test_what_is_taken_on_trust_is_told():
    account = pmp.Ledger(epsilon=9, delta=0.1)
    nb = naive_bayes(ledger=account, classes="public").fit(*records())
    assert "which classes occur is public" in nb.guarantee_.assumptions
    nb.update(*records(seed=1), records="new")
    assert any("earlier fit" in said for said in nb.release_.guarantee.assumptions)


@pytest.mark.parametrize(
    "many",
    [
        lambda nb: cross_val_predict(nb, *records(), cv=2),
        lambda nb: CalibratedClassifierCV(nb, cv=2).fit(*records()),
    ],
)
def test_every_way_of_fitting_again_wants_a_ledger(many):
    with pytest.raises(Incompatible, match="cross-validation"):
        many(naive_bayes())
    account = pmp.Ledger(epsilon=9, delta=0.1)
    with pytest.warns(pmp.errors.PrivacyWarning, match="each fit is charged"):
        many(naive_bayes(ledger=account))
    assert len(account.entries) >= 2


def test_a_seeded_fit_passes_where_fits_are_made_again_and_says_what_it_is():
    """It tells of itself; so `docs/dirichlet.md` says that it is not refused."""
    X, y = records()
    with pytest.warns(pmp.errors.PrivacyWarning, match="NOT PRIVATE"):
        cross_val_predict(naive_bayes(random_state=1), X, y, cv=2)


def test_an_ensemble_that_seeds_its_members_is_refused():
    """Its fits would be repeatable by anybody, and charged to nobody."""
    X, y = records()
    member = naive_bayes(categories=[(0, 1), (0, 1, 2)], ledger=pmp.Ledger(epsilon=9, delta=0.1))
    with pytest.raises(Incompatible, match="not private"):
        BaggingClassifier(member, 2).fit(X.to_numpy(), y)


def test_steps_that_learn_and_edges_that_were_learned_are_told():
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame({"income": rng.lognormal(10, 1, 300)}), rng.integers(0, 2, 300)
    account = pmp.Ledger(epsilon=50)
    words = {"classes": (0, 1), "ledger": account}
    binned = DirichletNaiveBayes(1, 0, [range(4)], **words)
    cut = KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf")
    with pytest.warns(pmp.errors.PrivacyWarning, match="KBinsDiscretizer learned"):
        make_pipeline(cut, binned).fit(X, y)
    for edges in (
        np.quantile(X["income"], [0.25, 0.5, 0.75]),
        np.linspace(X["income"].min(), X["income"].max(), 6),
    ):
        with pytest.warns(pmp.errors.PrivacyWarning, match="the edges of income"):
            DirichletNaiveBayes(1, 0, {"income": Bins(edges)}, **words).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pmp.errors.PrivacyWarning)
        declared = DirichletNaiveBayes(1, 0, [Bins([1e4, 2e4, 5e4])], **words)
        make_pipeline(FunctionTransformer(), declared).fit(X, y)


def test_a_fit_holds_nothing_of_the_records_under_add_remove():
    """Not their number either: the same noise would make equal estimators."""
    account = pmp.Ledger(epsilon=9, neighbors="add_remove")
    words = {"neighbors": "add_remove", "profile": 500, "ledger": account}
    small, large = (naive_bayes(**words).fit(*records(n)) for n in (137, 1234))
    told = [nb.release_.facts for nb in (small, large)]
    assert told[0]["counts"] == told[1]["counts"]
    assert told[0]["model"] == told[1]["model"]
    state = pickle.dumps({k: v for k, v in vars(small).items() if k != "ledger"})
    assert len(state) < 40_000
    assert "137" not in repr([p.plan for p in small.parts_])


@SEEDED
def test_a_seeded_update_leaves_no_guarantee():
    """Noise that anybody can draw again, of whichever records."""
    nb = naive_bayes(ledger=pmp.Ledger(epsilon=5)).fit(*records())
    assert nb.guarantee_.pure_epsilon == 1
    for kind in ("new", "same"):
        size = 100 if kind == "new" else 200
        nb.set_params(random_state=1).update(*records(size, seed=1), records=kind)
        assert nb.guarantee_.pure_epsilon == float("inf")
        assert not nb.private_


def test_what_new_records_assume_is_said_of_all_fits():
    nb = naive_bayes(ledger=pmp.Ledger(epsilon=5)).fit(*records())
    nb.update(*records(seed=1), records="new")
    assert nb.guarantee_.pure_epsilon == 1
    assert set(nb.release_.guarantee.assumptions) <= set(nb.guarantee_.assumptions)
    assert any("no record of an update" in each for each in nb.guarantee_.assumptions)


def test_an_update_comes_after_a_fit():
    with pytest.raises(NotFittedError, match="call fit first"):
        naive_bayes(ledger=pmp.Ledger(epsilon=5)).update(*records(), records="new")


def test_one_name_does_not_stand_for_every_fold():
    """The first fold's release would answer for folds of the same size."""
    account = pmp.Ledger(epsilon=50)
    with pytest.raises(Incompatible, match="a name stands for one release"):
        cross_val_predict(naive_bayes(ledger=account, name="nb"), *records(), cv=2)
    assert not account.entries


def test_a_declared_class_that_is_no_whole_number_is_no_reason_to_refuse():
    """Whether a record has it must not be told by a refusal."""
    X, y = records()
    for last in (1.0, 2.5):
        account = pmp.Ledger(epsilon=5)
        words = {"categories": [(0, 1), (0, 1, 2)], "classes": (0.0, 1.0, 2.5), "ledger": account}
        naive_bayes(**words).fit(X.to_numpy(), np.append(y[:-1], last))
        assert len(account.entries) == 1


@pytest.mark.parametrize("engine", ["polars", "duckdb", "pyarrow", "pandas"])
def test_an_engine_that_stumbles_over_a_value_does_not_quote_it(engine):
    frame = pd.DataFrame({"x": ["1.5", "secret-77", "3"], "y": [0, 1, 0]})
    given = frame
    if engine != "pandas":
        library = pytest.importorskip(engine)
        make = {"polars": "from_pandas", "duckdb": "from_df", "pyarrow": "table"}[engine]
        given = getattr(library, make)(frame)
    account = pmp.Ledger(epsilon=5)
    with pytest.raises(DomainError) as caught:
        DirichletNaiveBayes(1, 0, {"x": Bins([2])}, classes=(0, 1), ledger=account).fit(given, "y")
    told = "".join(traceback.format_exception(caught.value))
    assert "secret-77" not in told
    assert not account.entries


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_a_number_that_is_none_is_missing_on_every_engine(engine):
    library = pytest.importorskip(engine)
    if engine == "polars":
        frame = library.DataFrame({"x": [1.5, float("nan"), 3.0]})
    else:
        frame = library.sql("select unnest([1.5::double, 'nan'::double, 3.0::double]) as x")
    with pytest.raises(DomainError, match="not declared"):
        count_tables(frame, {"x": ("x",)}, {"x": declare_column("x", Bins([2]))})


def test_the_path_of_a_ledger_is_no_ledger():
    with pytest.raises(pmp.errors.DomainError, match=r"pmp.Ledger\('study.sqlite', epsilon"):
        naive_bayes(ledger="study.sqlite").fit(*records())


def test_mistakes_are_told_by_their_names():
    X, y = records()
    mistakes = [
        (lambda: naive_bayes().fit(X, "foo"), "the target is no column of the frame\n.*'foo'"),
        (lambda: naive_bayes(categories={"a": (0, 1, 0), "b": (0, 1, 2)}).fit(X, y), "named once"),
        (lambda: naive_bayes(categories={"a": (0,), "b": (0, 1, 2)}).fit(X, y), "got: 1 value"),
        (lambda: DirichletBayesianNetwork(None, 1, 0, {}).fit(X), "got: NoneType"),
        (lambda: DirichletBayesianNetwork({}, 1, 0, {}).fit(X), "got: no nodes"),
    ]
    for make, words in mistakes:
        with pytest.raises(DomainError, match=words):
            make()
    with pytest.raises(DomainError, match="duplicates"):
        declare_column("sex", ["f", "m", "f"])


def _several(n=40, k=4):
    rng = np.random.default_rng(0)
    return pd.DataFrame({f"a{i}": rng.integers(0, 2, n) for i in range(k)})


def _network(nodes, **keywords):
    declared = dict.fromkeys(nodes, ()), 1.0, 1e-3, dict.fromkeys(nodes, (0, 1))
    return DirichletBayesianNetwork(*declared, **keywords)


@pytest.mark.parametrize("method", ["noisy", "exact"])
@pytest.mark.parametrize("records", ["new", "same"])
def test_after_a_refused_fit_an_update_counts_what_was_priced(method, records):
    # All tables at the price of one, while declarations did not wait for a release.
    frame, ledger = _several(), pmp.Ledger(epsilon=2.5, delta=0.1)
    network = _network(["a0"], ledger=ledger, method=method, draws=None if method == "noisy" else 1)
    network.fit(frame)
    more = dict.fromkeys(frame, ()), dict.fromkeys(frame, (0, 1))
    network.set_params(network=more[0], categories=more[1], epsilon=2.0)
    with pytest.raises(BudgetExceeded):
        network.fit(frame)
    assert list(network.network_) == list(network.columns_) == ["a0"]
    network.set_params(epsilon=1.0)
    once = ledger.spent.epsilon
    network.update(frame, records=records)
    assert list(network.tables_) == ["a0"]
    assert ledger.spent.epsilon == once * (1 if records == "new" else 2)


def test_naive_bayes_is_what_it_was_after_a_refused_fit():
    frame, ledger = _several(), pmp.Ledger(epsilon=1)
    y = frame.pop("a0")
    declared = {"categories": {"a1": (0, 1)}, "classes": (0, 1)}
    bayes = DirichletNaiveBayes(epsilon=1, delta=0, ledger=ledger, method="noisy", **declared)
    bayes.fit(frame[["a1"]], y)
    before = {k: v for k, v in vars(bayes).items() if k.endswith("_")}
    bayes.set_params(categories=dict.fromkeys(frame, (0, 1)))
    with pytest.raises(BudgetExceeded):
        bayes.fit(frame, y)
    after = {k: v for k, v in vars(bayes).items() if k.endswith("_")}
    assert after.keys() == before.keys()
    assert all(after[k] is before[k] for k in after)


@pytest.mark.parametrize("records", ["new", "same"])
def test_other_tables_are_refused_before_they_are_charged(records):
    frame, ledger = _several(), pmp.Ledger(epsilon=9, delta=0.1)
    network = _network(["a0"], ledger=ledger, method="noisy").fit(frame)
    once = ledger.spent
    network.network_ = {"a0": (), "a1": ()}
    network.columns_ |= {"a1": declare_column("a1", (0, 1))}
    with pytest.raises(Incompatible, match="nothing was charged"):
        network.update(frame, records=records)
    assert ledger.spent == once


@pytest.mark.parametrize("method", ["noisy", "exact"])
def test_the_same_records_are_as_many_as_before(method):
    # Averages of tables of other totals are those of no records.
    frame, ledger = _several(), pmp.Ledger(epsilon=9, delta=0.1)
    draws = None if method == "noisy" else 1
    network = _network(["a0"], ledger=ledger, method=method, draws=draws).fit(frame)
    once = ledger.spent
    with pytest.raises(Incompatible, match="40"):
        network.update(frame[:20], records="same")
    network.update(frame[:20], records="new")
    with pytest.raises(Incompatible, match="60"):
        network.update(frame, records="same")
    assert ledger.spent == once
    network.update(pd.concat([frame, frame[:20]]), records="same")
    assert ledger.spent.delta == 2 * once.delta
    assert ledger.spent.epsilon == pytest.approx(2 * float(once.epsilon), rel=1e-6)


def test_masked_records_are_refused():
    frame, classes = records()
    array = frame.to_numpy()
    masked = np.ma.array(array, mask=array > 0)
    account = pmp.Ledger(epsilon=1)
    for given in ((masked, classes), (array, np.ma.array(classes, mask=classes > 0))):
        with pytest.raises(DomainError, match="without a mask"), account:
            naive_bayes(categories=[(0, 1), (0, 1, 2)]).fit(*given)
    assert account.entries == ()
