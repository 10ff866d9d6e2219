"""sample: everything is checked, then charged, then drawn, then released."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.posterior import sample
from pymc_private.posterior.rehearsal import rehearse_draw
from pymc_private.release import storage
from pymc_private.samplers import method

SECRET = 0.7123456789
DATA = np.array([SECRET, 0.2, 0.4, 0.9, 0.1, 0.6])


def build() -> pm.Model:
    """A model with a public deterministic, a private one, and one per record."""
    with pm.Model(coords={"person": [f"name-{i}" for i in range(6)], "side": ["l", "r"]}) as model:
        x = pm.Data("x", DATA, dims="person")
        mu = pm.Normal("mu", 0, 1, dims="side")
        pm.Deterministic("gap", mu[1] - mu[0])
        pm.Deterministic("shifted", mu[0] + x.mean())
        pm.Deterministic("residual", x - mu[0], dims="person")
        pm.Normal("y", mu.sum() * x, 1.0, observed=DATA, dims="person")
    return model


DOMAIN = {"x": (0, 1), "y": (0, 1)}


@pytest.fixture(scope="module")
def plan():
    """Plan three draws at epsilon 1."""
    return pmp.calibrate(
        pmp.privatize(build(), records="person", domain=DOMAIN), epsilon=1, delta=1e-6, draws=3
    )


@pytest.fixture
def ledger():
    """Keep a budget of two such plans, in memory."""
    return pmp.Ledger(epsilon=2, delta=4e-6)


def draw(plan, ledger, **keywords):
    """Sample without a bar."""
    return pmp.sample(plan, ledger=ledger, progressbar=False, **keywords)


def test_the_charge_is_durable_before_the_data_are_read(plan, tmp_path, monkeypatch):
    book = pmp.Ledger(tmp_path / "book.sqlite", epsilon=2, delta=4e-6)
    seen = []

    class Spy(method.Target):
        def __init__(self, private):
            seen.append(len(pmp.Ledger.open(tmp_path / "book.sqlite").entries))
            super().__init__(private)

    monkeypatch.setattr(method, "Target", Spy)
    monkeypatch.setattr(sample, "rehearse_draw", rehearse_draw)
    draw(plan, book)
    assert seen == [0, 1]  # of made-up records, and of the data


def test_a_charge_that_does_not_fit_reads_nothing_and_spends_nothing(plan, monkeypatch):
    poor = pmp.Ledger(epsilon=0.5, delta=1e-6)
    monkeypatch.setattr(method, "Target", None)  # reading the data would fail
    with pytest.raises(pmp.errors.BudgetExceeded):
        draw(plan, poor)
    assert poor.entries == ()


@pytest.mark.thin(2)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError, SystemExit])
def test_a_draw_that_stops_stays_charged_and_says_nothing_of_the_data(
    plan, ledger, monkeypatch, error
):
    def stop(*arguments):
        raise error(f"the data hold {SECRET}")

    monkeypatch.setattr(method, "sample_by_rejection", stop)
    with pytest.raises((KeyboardInterrupt, pmp.errors.PymcPrivateError)) as caught:
        draw(plan, ledger, name="main")
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "charged" in str(caught.value)
    assert len(ledger.entries) == 1
    assert ledger.find("main", ledger.entries[0].key) is None
    monkeypatch.undo()
    with pytest.raises(pmp.errors.Incompatible, match="release was stopped after the charge"):
        draw(plan, ledger, name="main")
    draw(plan, ledger, name="main", again=True)
    assert len(ledger.entries) == 2


def test_the_same_name_and_plan_give_the_stored_release_free(plan, ledger):
    first = draw(plan, ledger, name="main")
    assert draw(plan, ledger, name="main") == first
    assert len(ledger.entries) == 1
    assert draw(plan, ledger, name="main", again=True) != first
    assert len(ledger.entries) == 2


def test_a_name_belongs_to_one_plan_and_one_version_of_the_data(plan, ledger):
    draw(plan, ledger, name="main", data_version="May")
    with pytest.raises(pmp.errors.Incompatible, match="belongs to another"):
        draw(plan, ledger, name="main", data_version="June")
    assert len(ledger.entries) == 1


def test_draws_are_rounded_to_a_public_grid_inside_the_box(plan, ledger):
    from pymc_private.samplers.randomness import grid_width

    release, box = draw(plan, ledger), plan.private.box["mu"]
    values = release.posterior["mu"].values
    width = grid_width(box.lower, box.upper)
    assert np.all(values / width == np.round(values / width))
    assert np.all((values >= box.lower) & (values <= box.upper))


def test_only_public_deterministics_leave_recomputed_from_the_rounded_draws(plan, ledger):
    posterior = draw(plan, ledger).posterior
    assert set(posterior.data_vars) == {"mu", "gap"}
    mu = posterior["mu"].values
    assert np.array_equal(posterior["gap"].values, mu[..., 1] - mu[..., 0])
    assert list(posterior["side"].values) == ["l", "r"]


def test_nothing_of_the_data_is_in_what_leaves(plan, ledger, tmp_path):
    release = draw(plan, ledger, save=tmp_path / "main.nc")
    assert set(release.facts["withheld"]) >= {"shifted", "residual"}
    for content in (pickle.dumps(release), (tmp_path / "main.nc").read_bytes()):
        assert np.float64(SECRET).tobytes() not in content
        assert b"name-3" not in content
        assert str(SECRET).encode() not in content
    assert pmp.load(tmp_path / "main.nc") == release


def test_a_seeded_release_is_not_private_and_costs_nothing(plan, ledger):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, two = (draw(plan, ledger, random_seed=7) for _ in range(2))
    assert np.array_equal(one.posterior["mu"], two.posterior["mu"])
    assert not one.private
    assert one.guarantee.epsilon(1e-6) == np.inf
    assert "NOT PRIVATE" in repr(one)
    assert ledger.entries == ()


def test_without_a_ledger_there_is_a_warning(plan):
    with pytest.warns(pmp.errors.PrivacyWarning, match="no ledger"):
        pmp.sample(plan, progressbar=False)


def test_the_ledger_of_the_context_is_charged(plan, ledger):
    with ledger:
        pmp.sample(plan, progressbar=False)
    assert len(ledger.entries) == 1


def test_a_place_that_cannot_be_written_is_refused_before_the_charge(plan, ledger, tmp_path):
    (tmp_path / "there.nc").write_text("something else")
    with pytest.raises(pmp.errors.Incompatible, match="there already"):
        draw(plan, ledger, save=tmp_path / "there.nc")
    with pytest.raises(pmp.errors.DomainError):
        draw(plan, ledger, save=tmp_path / "nowhere" / "main.nc")
    assert ledger.entries == ()
    assert (tmp_path / "there.nc").read_text() == "something else"


def no_space(path, content):
    raise OSError(28, "No space left on device")


def test_a_release_that_cannot_be_saved_is_kept_and_says_that_it_is_charged(
    plan, ledger, tmp_path, monkeypatch
):
    monkeypatch.setattr(storage, "write_atomically", no_space)
    with pytest.raises(pmp.errors.PymcPrivateError, match="could not be saved") as caught:
        draw(plan, ledger, name="main", save=tmp_path / "main.nc")
    text = str(caught.value)
    for words in ("No space left", "the charge stands", "ledger keeps the release", "fetch"):
        assert words in text
    assert len(ledger.entries) == 1
    assert caught.value.release == draw(plan, ledger, name="main")
    with pytest.raises(pmp.errors.PymcPrivateError, match="nothing more was charged"):
        draw(plan, ledger, name="main", save=tmp_path / "main.nc")
    with pytest.raises(pmp.errors.PymcPrivateError, match="nothing was charged"):
        draw(plan, ledger, random_seed=1, save=tmp_path / "main.nc")
    assert len(ledger.entries) == 1
    assert pickle.loads(pickle.dumps(caught.value)).release == caught.value.release


def test_a_release_that_the_ledger_cannot_keep_is_not_lost(plan, ledger, monkeypatch):
    def full(*arguments):
        raise pmp.errors.Incompatible("the disk is full")

    monkeypatch.setattr(ledger, "store", full)
    with pytest.raises(pmp.errors.PymcPrivateError, match="the charge stands") as caught:
        draw(plan, ledger, name="main")
    assert "does not keep" in str(caught.value)
    assert caught.value.release.posterior.sizes["draw"] == 3
    assert len(ledger.entries) == 1


def test_a_place_is_tried_before_the_charge(plan, ledger, tmp_path, monkeypatch):
    def refused(path, mode):
        raise FileNotFoundError("as /proc does, of which os.access says yes to root")

    draw(plan, ledger, save=tmp_path / "first.nc")
    assert [file.name for file in tmp_path.iterdir()] == ["first.nc"]
    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(pmp.errors.DomainError, match="nothing was charged"):
        draw(plan, ledger, save=tmp_path / "main.nc")
    monkeypatch.undo()
    for save in (tmp_path / ("x" * 300), "a\0b.nc"):
        with pytest.raises(pmp.errors.DomainError, match="nothing was charged"):
            draw(plan, ledger, save=save)
    assert len(ledger.entries) == 1


@pytest.mark.thin(8)
@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"ledger": "study.sqlite"}, r"pmp.Ledger\('study.sqlite', epsilon"),
        ({"ledger": Path("study.sqlite")}, r"pmp.Ledger\('study.sqlite', epsilon"),
        ({"ledger": 3}, "no ledger"),
        ({"random_seed": "a"}, "random_seed"),
        ({"random_seed": -1}, "random_seed"),
        ({"random_seed": 1.5}, "random_seed"),
        ({"save": 3}, "save="),
        ({"sampler": pmp.samplers.Grid}, "the class Grid"),
        ({"sampler": 3}, "no such sampler"),
    ],
)
def test_arguments_of_another_kind_are_refused_before_any_work(plan, ledger, keywords, words):
    private = pmp.trim(plan.private, box={"mu": (-0.2, 0.2)})
    for what, more in ((plan, {}), (private, {"draws": 2, "epsilon": 1})):
        with pytest.raises(pmp.errors.DomainError, match=words):
            pmp.sample(what, **{"ledger": ledger, "progressbar": False, **more, **keywords})
    assert ledger.entries == ()


def test_a_path_is_refused_before_calibration(monkeypatch):
    monkeypatch.setattr(sample, "resolve_plan", None)  # what comes next
    with pytest.raises(pmp.errors.DomainError, match="no ledger"):
        pmp.sample(build(), draws=2, epsilon=1, ledger="study.sqlite")


@pytest.mark.parametrize("keyword", ["tune", "chains", "cores", "initvals", "nonsense"])
def test_keywords_that_mean_nothing_here_are_refused(plan, ledger, keyword):
    with pytest.raises(TypeError, match=keyword):
        draw(plan, ledger, **{keyword: 4})


def test_the_short_cut_takes_the_model_of_the_context(ledger):
    with build():
        release = pmp.sample(
            records="person",
            domain=DOMAIN,
            epsilon=1,
            delta=1e-6,
            draws=2,
            ledger=ledger,
            progressbar=False,
        )
    assert release.posterior.sizes["draw"] == 2
    assert release.guarantee.epsilon(1e-6) <= 1


def test_a_private_model_without_a_budget_is_charged_at_cost():
    private = pmp.privatize(build(), records="person", domain=DOMAIN)
    private = pmp.trim(private, box={"mu": (-0.2, 0.2)})
    book = pmp.Ledger(epsilon=100)
    release = pmp.sample(private, draws=2, ledger=book, progressbar=False)
    assert release.guarantee == pmp.certify(private).guarantee(2)
    assert float(book.spent.epsilon) == release.guarantee.pure_epsilon


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"draws": 0, "epsilon": 1}, pmp.errors.DomainError),
        ({"draws": 2.5, "epsilon": 1}, pmp.errors.DomainError),
        ({"draws": 2, "epsilon": -1}, pmp.errors.DomainError),
        ({"draws": 2, "epsilon": 1, "delta": 1.0}, pmp.errors.DomainError),
        ({"draws": 2, "epsilon": 1, "delta": -0.1}, pmp.errors.DomainError),
    ],
)
def test_numbers_that_make_no_budget_are_refused(ledger, keywords, error):
    private = pmp.privatize(build(), records="person", domain=DOMAIN)
    with pytest.raises(error):
        pmp.sample(private, ledger=ledger, progressbar=False, **keywords)
    assert ledger.entries == ()


def test_a_plan_fixes_its_numbers(plan, ledger):
    with pytest.raises(pmp.errors.DomainError, match="fixes"):
        draw(plan, ledger, draws=30)


def test_a_release_names_the_head_of_the_ledger_that_paid(plan, tmp_path):
    book = pmp.Ledger(tmp_path / "book.sqlite", epsilon=2, delta=4e-6)
    release = draw(plan, book, name="first", save=tmp_path / "first.nc")
    assert release.facts["ledger_head"] == book.entries[0].head
    draw(plan, book, name="second")
    again = pmp.load(tmp_path / "first.nc")
    assert again.to_arviz().posterior.attrs["ledger_head"] == book.entries[0].head
    assert book.verify(again.facts["ledger_head"])


# ---- neighbors that add or remove a record ------------------------------------------------------
def tosses(**words):
    with pm.Model(coords={"toss": range(4)}) as model:
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("y", p, observed=[0, 1, 1, 1], dims="toss")
    return pmp.trim(pmp.privatize(model, records="toss", **words), box={"p": (0.1, 0.9)})


@pytest.mark.parametrize("seed", [None, 3])
def test_draws_that_protect_the_number_of_records_speak_of_their_own_neighbors(seed):
    """Without a ledger, and seeded: what was promised was substitution, or refused as such."""
    private = tosses(neighbors="add_remove")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pmp.errors.PrivacyWarning)
        release = pmp.sample(private, draws=2, random_seed=seed, progressbar=False)
    assert release.guarantee.neighbors == "add_remove"
    assert release.private == (seed is None)


def test_draws_without_a_finite_epsilon_say_so_and_charge_nothing():
    """A sampler that is near the posterior promises nothing at delta = 0."""
    with pytest.raises(pmp.errors.DomainError, match="no finite epsilon"):
        pmp.sample(tosses(), draws=1, sampler=pmp.samplers.Nuts(tv=1e-4), progressbar=False)
