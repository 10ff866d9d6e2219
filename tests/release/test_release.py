"""A release carries draws, a promise and public facts, and nothing else."""

from __future__ import annotations

import copy
import pickle

import arviz as az
import numpy as np
import pytest
import xarray as xr

from pymc_private.errors import DomainError, Incompatible
from pymc_private.models import compat
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.release import citations
from pymc_private.release.allowed import ALLOWED_FACTS, check_facts
from pymc_private.release.release import Release, load

DRAWS = 12
PRIVATE_WORDS = (
    "created_at", "sampling_time", "observed_data", "constant_data", "sample_stats", "lp",
    "energy", "step_size", "acceptance_rate", "log_likelihood", "inference_library",
)  # fmt: skip


def draws(seed: int = 1) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    return xr.Dataset(
        {
            "beta": (("chain", "draw", "feature"), np.round(rng.normal(size=(1, DRAWS, 2)), 4)),
            "sigma": (("chain", "draw"), np.round(rng.uniform(size=(1, DRAWS)), 4)),
            "k": (("chain", "draw"), rng.integers(0, 3, (1, DRAWS)).astype("int8")),
            "flag": (("chain", "draw"), rng.uniform(size=(1, DRAWS)) > 0.5),
        },
        coords={"feature": ["äge", "income"]},
    )


def promise(theorem: str = "T1, T3") -> Guarantee:
    return Guarantee.bounded_range_of(0.1, draws=DRAWS, theorem=theorem, assumptions=("exact",))


def facts(**more: object) -> dict:
    return {
        "name": "main", "sampler": "boxes", "claim": "proved (real arithmetic)", "draws": DRAWS,
        "delta": 1e-6, "neighbors": "substitute", "records": "woman", "withheld": ["p"],
        "ranges": {"beta": [-9, 9], "sigma": [0, 1]}, "versions": {"pymc": "6"},
    } | more  # fmt: skip


def release(**more: object) -> Release:
    return Release(draws(), promise(), facts(**more))


def test_a_release_restores_from_bytes_file_pickle_and_deepcopy(tmp_path) -> None:
    original = release()
    path = original.save(tmp_path / "main.nc")
    copies = [
        load(path), Release.from_bytes(original.to_bytes()), copy.deepcopy(original),
        pickle.loads(pickle.dumps(original)),
    ]  # fmt: skip
    for again in copies:
        assert again == original
        assert hash(again) == hash(original)
        assert again.posterior.identical(original.posterior)
        assert again.facts == original.facts
        assert again.private
        assert again.guarantee.epsilon(1e-6) == original.guarantee.epsilon(1e-6)
        assert repr(again) == repr(original)
    assert load(path).posterior["k"].dtype == np.int8
    assert load(path).posterior["flag"].dtype == bool


def test_equal_draws_from_neighboring_data_give_equal_releases_and_equal_bytes(tmp_path) -> None:
    mine, theirs = draws(), draws()
    # What a sampler leaves on its arrays when it runs on one dataset or its neighbor.
    mine["beta"].attrs["log_likelihood"] = -12.5
    theirs["beta"].attrs["log_likelihood"] = -13.1
    mine["sigma"].encoding["source"] = "/home/curator/one"
    theirs["sigma"].encoding["source"] = "/home/curator/two"
    one, two = (Release(data, promise(), facts()) for data in (mine, theirs))
    assert one == two
    assert one.to_bytes() == two.to_bytes()
    first, second = one.save(tmp_path / "a.nc"), two.save(tmp_path / "b.nc")
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.assign(sigma=d["sigma"] + 1e-12),
        lambda d: d.assign_coords(feature=["äge", "incomes"]),
        lambda d: d[["sigma", "beta", "k", "flag"]],
        lambda d: d.assign(k=d["k"].astype("int16")),
    ],
)
def test_releases_that_differ_in_content_are_not_equal(change) -> None:
    assert Release(change(draws()), promise(), facts()) != release()


def test_facts_guarantee_and_privacy_are_part_of_equality() -> None:
    assert release(name="other") != release()
    assert Release(draws(), promise("T1"), facts()) != release()
    assert release(versions={"a": "1", "b": "2"}) == release(versions={"b": "2", "a": "1"})
    assert release() != "a release"


def test_the_sign_of_zero_does_not_leave() -> None:
    data = draws()
    data["sigma"][:] = -0.0
    released = Release(data, promise(), facts()).posterior["sigma"].values
    assert not np.signbit(released).any()


def test_what_is_handed_out_cannot_change_the_release() -> None:
    one = release()
    with pytest.raises(ValueError, match="read-only"):
        one.posterior["beta"][0] = 7
    one.posterior["extra"] = one.posterior["sigma"]
    one.posterior.attrs["x"] = 1
    one.facts["versions"]["pymc"] = "7"
    one.to_arviz().posterior["sigma"][:] = 7  # a writable copy, for the user
    with pytest.raises(AttributeError, match="frozen"):
        one.private = False
    with pytest.raises(AttributeError, match="frozen"):
        del one.private
    assert one == release()
    assert one.facts == release().facts


def test_the_sampler_cannot_change_a_release_through_its_arrays() -> None:
    data = draws()
    one = Release(data, promise(), facts())
    data["sigma"][:] = 99.0
    assert one == release()


def _posterior(change) -> Release:
    return Release(change(draws()), promise(), facts())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.assign_attrs(created_at="now"), "attributes"),
        (lambda d: d.assign_coords(z=("feature", [1, 2])), "does not label"),
        (lambda d: d.assign_coords(step=3), "does not label"),
        (lambda d: d.assign_coords(woman=("woman", [1, 2])), "does not label"),
        (lambda d: d.assign_coords(draw=np.arange(DRAWS) * 7), "how the sampler ran"),
        (lambda d: d.assign_coords(chain=[3]), "how the sampler ran"),
        (lambda d: d.rename(feature="woman"), "records"),
        (lambda d: d.isel(draw=[]), "one chain"),
        (lambda d: xr.concat([d, d], dim="chain"), "one chain"),
        (lambda d: d.isel(chain=0), "one chain"),
        (lambda d: d.assign(x=("feature", [1.0, 2.0])), "not drawn"),
        (lambda d: d.assign(sigma=d["sigma"].astype(complex)), "type"),
        (lambda d: d.assign(sigma=d["sigma"].astype(object)), "type"),
        (lambda d: d.assign(sigma=d["sigma"].astype("float16")), "type"),
        (lambda d: d.assign(p=d["sigma"]), "withheld"),
        (lambda d: d[[]], "variables"),
        (lambda d: d["beta"], "Dataset"),
    ],
)
def test_luggage_is_refused(change, message) -> None:
    with pytest.raises(DomainError, match=message):
        _posterior(change)


def test_labels_that_are_not_text_or_numbers_become_text() -> None:
    data = draws().assign_coords(feature=np.array(["2020-01-01", "2021-01-01"], "M8[D]"))
    labels = Release(data, promise(), facts()).posterior["feature"]
    assert labels.dtype.kind == "U"
    assert labels.values[0].startswith("2020-01-01")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seed": 3}, "not on its list"),
        ({"lp": -1.0}, "not on its list"),
        ({"domain": np.arange(3)}, "not plain"),
        ({"domain": {"X": {"values": np.arange(3)}}}, "not plain"),
        ({"trim": object()}, "not plain"),
        ({"draws": "many"}, "wrong kind"),
        ({"draws": True}, "wrong kind"),
        ({"withheld": "p"}, "wrong kind"),
        ({"versions": {"pymc": 6}}, "wrong kind"),
        ({"ranges": {"beta": [1, 2, 3]}}, "wrong kind"),
        ({"charges": [{"label": "a"}]}, "wrong kind"),
        ({"budget": {"epsilon": "1"}}, "wrong kind"),
        ({"epsilon": "much"}, "wrong kind"),
        ({"epsilon": float("nan")}, "NaN"),
        ({"epsilon": -1}, "wrong kind"),
        ({"draws": DRAWS + 1}, "other draws"),
        ({"epsilon": 0.01}, "claim more privacy"),
    ],
)
def test_facts_off_the_list_or_false_are_refused(more, message) -> None:
    with pytest.raises(DomainError, match=message):
        release(**more)


def test_a_refusal_does_not_quote_what_it_refused() -> None:
    with pytest.raises(DomainError) as caught:
        release(domain=np.array([31415.926]))
    assert "31415" not in str(caught.value)


def test_facts_and_guarantee_must_mean_the_same_neighbors() -> None:
    with pytest.raises(Incompatible, match="different neighbors"):
        release(neighbors="add_remove")


def test_facts_can_be_checked_before_a_charge_and_come_back_plain() -> None:
    plain = check_facts({"draws": np.int64(3), "ranges": {"b": (np.float64(0), 1)}})
    assert plain == {"draws": 3, "ranges": {"b": [0.0, 1]}}
    assert type(plain["draws"]) is int
    assert set(facts()) <= set(ALLOWED_FACTS)


def test_a_private_release_needs_a_finite_epsilon_at_its_delta() -> None:
    with pytest.raises(DomainError, match="finite epsilon"):
        Release(draws(), Guarantee.zcdp_of(0.1), facts(delta=0))
    assert Release(draws(), Guarantee.zcdp_of(0.1), facts(delta=1e-6)).private


def test_a_seeded_release_says_not_private_everywhere(tmp_path) -> None:
    with pytest.raises(DomainError, match="carries no privacy guarantee"):
        Release(draws(), promise(), facts(), private=False)
    with pytest.raises(DomainError, match="finite epsilon"):
        Release(draws(), Guarantee.none("seeded"), facts())
    seeded = Release(draws(), Guarantee.none("seeded"), facts(), private=False)
    assert "NOT PRIVATE: seeded" in repr(seeded)
    assert "NOT PRIVATE" in seeded._repr_html_()
    assert "NOT PRIVATE" in repr(seeded.mean("beta"))
    attrs = seeded.to_arviz().posterior.attrs
    assert attrs["private"].startswith("NOT PRIVATE")
    assert attrs["claim"] == "NOT PRIVATE"
    assert attrs["epsilon"] == "inf"
    path = seeded.save(tmp_path / "seeded.nc")
    assert b"NOT PRIVATE" in path.read_bytes()
    assert not load(path).private
    assert load(path) == seeded
    assert seeded != release()


def test_to_arviz_gives_the_posterior_group_with_the_promise_as_text() -> None:
    tree = release().to_arviz()
    groups = list(tree.children) if hasattr(tree, "children") else tree.groups()
    assert groups == ["posterior"]
    attrs = tree.posterior.attrs
    assert all(isinstance(value, str) for value in attrs.values())
    assert float(attrs["epsilon"]) == promise().epsilon(1e-6)
    assert attrs["assumptions"] == "exact"
    assert attrs["theorem"] == "T1, T3"
    assert not tree.attrs


def test_draws_split_into_chains_that_divide_them() -> None:
    one = release()
    split = one.to_arviz(chains=3).posterior
    assert split["beta"].shape == (3, DRAWS // 3, 2)
    assert np.array_equal(
        compat.flat_draws(split["beta"]), compat.flat_draws(one.posterior["beta"])
    )
    assert list(split["feature"].values) == ["äge", "income"]
    for chains in (5, 0, -1, DRAWS + 1, 2.0, True):
        with pytest.raises(DomainError, match="split evenly"):
            one.to_arviz(chains=chains)


def test_arviz_reads_the_saved_file_and_finds_nothing_else_in_it(tmp_path) -> None:
    path = release().save(tmp_path / "main.nc")
    tree = az.from_netcdf(path)
    groups = list(tree.children) if hasattr(tree, "children") else tree.groups()
    assert groups == ["posterior"]
    posterior = compat.to_dataset(tree)
    assert set(posterior.data_vars) == {"beta", "sigma", "k", "flag"}
    assert not set(PRIVATE_WORDS) & set(posterior.attrs)
    assert np.array_equal(posterior["sigma"].values, release().posterior["sigma"].values)
    tree.close()
    content = path.read_bytes()
    for word in (*PRIVATE_WORDS[1:], "created_at", str(tmp_path)):
        if word != "lp":  # too short to be told apart in bytes
            assert word.encode() not in content


def test_saving_is_repeatable_and_never_overwrites_something_else(tmp_path) -> None:
    path = tmp_path / "main.nc"
    release().save(path)
    before = path.read_bytes(), path.stat().st_mtime_ns
    release().save(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    with pytest.raises(Incompatible, match="holds something else"):
        release(name="other").save(path)
    assert path.read_bytes() == before[0]
    release(name="other").save(path, overwrite=True)
    assert load(path).facts["name"] == "other"
    assert [file.name for file in tmp_path.iterdir()] == ["main.nc"]
    with pytest.raises(Incompatible, match="holds something else"):
        release().save(tmp_path)
    with pytest.raises(DomainError, match="folder"):
        release().save(tmp_path / "missing" / "main.nc")


def test_a_crash_while_saving_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = release().save(tmp_path / "main.nc")

    def crash(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("pymc_private.release.storage.os.replace", crash)
    with pytest.raises(OSError, match="disk full"):
        release(name="other").save(path, overwrite=True)
    assert load(path) == release()
    assert [file.name for file in tmp_path.iterdir()] == ["main.nc"]


def test_a_foreign_file_is_not_a_release(tmp_path) -> None:
    (tmp_path / "text.nc").write_text("not netCDF")
    draws().to_netcdf(tmp_path / "plain.nc", engine="h5netcdf")
    draws().to_netcdf(tmp_path / "group.nc", group="posterior", engine="h5netcdf")
    for name in ("text.nc", "plain.nc", "group.nc"):
        with pytest.raises(Incompatible, match="not a release"):
            load(tmp_path / name)
    with pytest.raises(Incompatible, match="not a release"):
        Release.from_bytes(b"")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.nc")


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    "tamper",
    [
        lambda d: d.assign(sigma=d["sigma"] * 2),
        lambda d: d.isel(draw=slice(5)),
        lambda d: d.isel(feature=[0]),
        lambda d: d.drop_vars("k"),
        lambda d: d.assign(k2=d["k"]),
        lambda d: d.isel(chain=0),
        lambda d: d.assign_attrs(pymc_private=d.attrs["pymc_private"].replace("exact", "none")),
        lambda d: d.assign_attrs(pymc_private=d.attrs["pymc_private"].replace("main", "best")),
        lambda d: d.assign_attrs(pymc_private='{"format":1}'),
    ],
)
def test_a_tampered_file_is_refused(tmp_path, tamper) -> None:
    dataset = compat.read_posterior(release().save(tmp_path / "main.nc"))
    tamper(dataset).to_netcdf(tmp_path / "bad.nc", group="posterior", engine="h5netcdf")
    with pytest.raises(Incompatible, match="damaged"):
        load(tmp_path / "bad.nc")


def test_a_newer_format_is_refused_by_name(tmp_path) -> None:
    dataset = compat.read_posterior(release().save(tmp_path / "main.nc"))
    dataset.attrs["pymc_private"] = dataset.attrs["pymc_private"].replace(
        '"format":1', '"format":9'
    )
    dataset.to_netcdf(tmp_path / "new.nc", group="posterior", engine="h5netcdf")
    with pytest.raises(Incompatible, match="upgrade"):
        load(tmp_path / "new.nc")


# A half-open HDF5 file complains once more when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_single_damaged_byte_is_noticed_or_harmless() -> None:
    original = release()
    content = original.to_bytes()
    noticed = 0
    for at in range(64, len(content), len(content) // 40):
        bad = bytearray(content)
        bad[at] ^= 0xFF
        try:
            assert Release.from_bytes(bytes(bad)) == original
        except Incompatible:
            noticed += 1
    assert noticed > 0


def test_cite_gives_the_theorems_of_this_guarantee_once() -> None:
    entry = "@book{mine, title = {Mine}}"
    text = release(citations=[entry, entry]).cite()
    assert text.count("@inproceedings{dong2020optimal,") == 1
    assert text.count("@article{dimitrakakis2017posterior,") == 1
    assert text.count(entry) == 1
    assert "gopi2022private" not in text
    assert Release(draws(), Guarantee.pure(1), facts()).cite() == ""


def test_the_bibliography_holds_what_is_cited_and_nothing_else() -> None:
    cited = {key for keys in citations.KEYS_BY_THEOREM.values() for key in keys}
    assert citations.bibliography().keys() == cited
    for entry in citations.bibliography().values():
        assert entry.count("{") == entry.count("}")
        assert "year" in entry or "url" in entry


def test_a_range_of_theorems_cites_those_between() -> None:
    text = Release(draws(), promise("T1-T3"), facts()).cite()
    assert "harrison2026exact" in text  # T2
    assert text.count("@inproceedings{dong2020optimal,") == 1
    assert "canonne2020discrete" not in text  # T4


def test_the_repr_says_what_is_promised_assumed_held_and_withheld() -> None:
    for text in (repr(release()), release()._repr_html_()):
        for part in ("epsilon = ", "1e-6", "exact", "T1, T3", "beta (feature: 2)", "p", "boxes"):
            assert part in text
    assert "<script" not in Release(draws(), promise(), facts(name="<script>"))._repr_html_()


def test_summary_has_the_same_columns_on_both_generations_and_survives_few_draws() -> None:
    posterior = release().posterior
    frame = compat.summarize_posterior(posterior)
    assert list(frame.columns) == ["mean", "sd", "mcse_mean", "ess_bulk", "lower", "upper"]
    assert list(frame.index) == ["beta[äge]", "beta[income]", "sigma", "k", "flag"]
    assert frame["mean"]["sigma"] == pytest.approx(float(posterior["sigma"].mean()))
    assert np.isfinite(frame["ess_bulk"]["sigma"])
    one = compat.summarize_posterior(posterior.isel(draw=[0]))
    assert one["mean"]["k"] == float(posterior["k"].values[0, 0])
    assert one[["sd", "mcse_mean", "ess_bulk"]].isna().all().all()
    constant = compat.summarize_posterior(posterior.assign(sigma=posterior["sigma"] * 0))
    assert constant["sd"]["sigma"] == 0


def test_to_dataset_reads_what_arviz_makes() -> None:
    posterior = release().posterior
    for made in (compat.to_arviz(posterior), posterior, {"sigma": posterior["sigma"].values}):
        assert np.array_equal(compat.to_dataset(made)["sigma"].values, posterior["sigma"].values)
