"""Attacks on mechanisms whose truth is known: they find what is there, and no more than stated."""

from __future__ import annotations

import math
import pickle
from collections import deque
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

from pymc_private import audit, planning
from pymc_private.audit import Allowance
from pymc_private.audit.events import delta_from_counts
from pymc_private.audit.statistical_tests import clopper_pearson_upper
from pymc_private.certificates.worst_case import WorstCaseValue
from pymc_private.errors import DomainError
from pymc_private.privacy import Guarantee
from tests.audit.mechanisms import MECHANISMS
from tests.audit.rates import how_often, within

LOOSE = 0.1


@pytest.fixture(autouse=True)
def simulated():
    """These attacks are simulations: the allowance of the session does not pay for them."""
    with Allowance(math.inf):
        yield


# ---- delta -------------------------------------------------------------------------------------
@pytest.mark.thin(4)
@pytest.mark.parametrize("name", ["randomized response", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_the_bound_of_delta_exceeds_the_truth_no_more_often_than_stated(name, epsilon):
    mechanism = MECHANISMS[name]
    truth = {
        "randomized response": Guarantee.pure(1.0),
        "gaussian": Guarantee.gdp_of(1.0),
    }[name].delta(epsilon)

    def too_large(rng):
        p, q = mechanism.samples(rng, 400)
        found = audit.delta_lower_bound(
            p, q, epsilon=epsilon, score=mechanism.score, false_alarm=LOOSE
        )
        return found.delta > truth

    assert within(how_often(too_large, 200), LOOSE, 200)


def test_the_bound_of_delta_is_near_the_truth_and_refutes_half_the_noise():
    rng, claim = np.random.default_rng(1), Guarantee.gdp_of(1.0)
    p, q = MECHANISMS["gaussian"].samples(rng, 40_000)
    for epsilon in (0.0, 1.0):
        found = audit.delta_lower_bound(p, q, epsilon=epsilon)
        truth = claim.delta(epsilon)
        assert 0.6 * truth < found.delta < truth
        assert not found.refutes(claim)
    loud, quiet = MECHANISMS["gaussian"].samples(rng, 40_000, 0.5)
    assert audit.delta_lower_bound(loud, quiet, epsilon=1.0).refutes(claim)
    assert "delta >=" in repr(found)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, 1000.0])
def test_an_epsilon_that_is_none_is_refused(epsilon):
    with pytest.raises(DomainError):
        audit.delta_lower_bound(np.zeros(20), np.ones(20), epsilon=epsilon)


def test_counts_give_both_bounds():
    assert delta_from_counts(100, 100, 0, 100, 0.0, 0.05) > 0.9
    assert delta_from_counts(50, 100, 50, 100, 0.0, 0.05) < 0


# ---- membership --------------------------------------------------------------------------------
def test_membership_keeps_the_claim_of_a_private_mechanism_and_breaks_a_false_one():
    rng = np.random.default_rng(2)
    p, q = MECHANISMS["laplace"].samples(rng, 20_000)
    kept = audit.membership(p, q, claim=Guarantee.pure(1.0))
    assert not kept.breaks
    truth = 1 - math.exp(-0.5)  # total variation of Laplace laws at distance 1
    assert kept.at_least <= truth <= kept.at_most + 0.05
    assert kept.advantage == pytest.approx(truth, abs=0.03)
    loud, quiet = MECHANISMS["laplace"].samples(rng, 20_000, 0.2)
    assert audit.membership(loud, quiet, claim=Guarantee.pure(1.0)).breaks
    assert "THE CLAIM IS FALSE" in repr(audit.membership(loud, quiet, claim=0.1))


def test_limits_of_an_attack_cover_its_advantage():
    def outside(rng):
        members = rng.random(60) < 0.8
        others = rng.random(60) < 0.3
        found = audit.attack(bool, list(members), list(others), false_alarm=LOOSE)
        return not found.at_least <= 0.5 <= found.at_most

    assert within(how_often(outside, 500), LOOSE, 500)


def test_an_attack_works_on_anything():
    found = audit.attack(lambda s: "1" in s, ["1"] * 400, ["0"] * 400, claim=Guarantee.pure(1.0))
    assert found.advantage == 1.0
    assert found.at_least > 0.88
    assert found.breaks


@pytest.mark.parametrize(
    "call",
    [
        lambda: audit.attack(bool, [], [1]),
        lambda: audit.attack(bool, [1], [1], claim=-0.1),
        lambda: audit.attack(bool, [1], [1], claim=math.nan),
        lambda: audit.reconstruction(bool, {"a": [1]}),
        lambda: audit.reconstruction(bool, {"a": [1], "b": []}),
        lambda: audit.reconstruction(lambda o: 0, {0: [1], 1: [1]}, distance=lambda a, b: 5.0),
        lambda: audit.partition_adversary([], [0.5, 0.5], [0.5, 0.5]),
        lambda: audit.partition_adversary([2], [0.5, 0.5], [0.5, 0.5]),
        lambda: audit.partition_adversary([0], [0.5, 0.6], [0.5, 0.5]),
        lambda: audit.partition_adversary([0], [1.0], [1.0]),
        lambda: audit.seed_reuse([1], lambda d, s: [1], [], [0]),
        lambda: audit.seed_reuse([1], lambda d, s: [1], [0], []),
        lambda: audit.seed_reuse([1], lambda d, s: [1], [0], [0], coincidence=2),
        lambda: audit.release_leaks({"a": 1}),
        lambda: audit.release_leaks({"a": 1}, {"y": ["a", "b"]}),
    ],
)
def test_impossible_attacks_are_refused(call):
    with pytest.raises(DomainError):
        call()


# ---- reconstruction ----------------------------------------------------------------------------
def test_a_reconstruction_cannot_beat_the_floor_of_a_true_claim_and_beats_a_false_one():
    rng, n = np.random.default_rng(3), 4000
    worlds = {0: list(rng.laplace(0, 1, n)), 1: list(rng.laplace(1, 1, n))}
    floor = planning.reconstruction_floor(Guarantee.pure(1.0), 1.0)
    found = audit.reconstruction(lambda o: int(o > 0.5), worlds, floor=floor)
    assert not found.breaks
    assert found.worst == pytest.approx(0.5 * math.exp(-0.5), abs=0.03)
    false = planning.reconstruction_floor(Guarantee.pure(0.1), 1.0)
    assert audit.reconstruction(lambda o: int(o > 0.5), worlds, floor=false).breaks
    assert "at the worst of 2 truths" in repr(found)


# ---- the partition adversary -------------------------------------------------------------------
def test_lemma_12_a_sure_partition_adversary_errs_no_more_often_than_stated():
    law = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])

    def wrong(rng):
        cells = rng.choice(3, size=200, p=law[0])
        guess = audit.partition_adversary(cells, *law, false_alarm=LOOSE)
        assert guess.is_sure
        return guess.says != "x" or guess.refutes_both

    assert within(how_often(wrong, 300), LOOSE, 300)


def test_too_few_draws_do_not_make_him_sure_and_he_says_how_many_would():
    guess = audit.partition_adversary([0, 1, 1], [0.5, 0.5], [0.4, 0.6], false_alarm=0.05)
    assert not guess.is_sure
    assert f"not sure: that takes {guess.draws_needed:,} draws" in repr(guess)
    for draws, sure in ((guess.draws_needed, True), (guess.draws_needed - 2, False)):
        again = audit.partition_adversary([0] * draws, [0.5, 0.5], [0.4, 0.6], false_alarm=0.05)
        assert again.is_sure is sure
        assert ("not sure" in repr(again)) is not sure
    assert audit.partition_adversary([0], [0.5, 0.5], [0.5, 0.5]).draws_needed == math.inf


def test_a_sure_answer_is_paid_for():
    with audit.Allowance(1e-3) as session:
        audit.partition_adversary([0, 1], [0.5, 0.5], [0.4, 0.6], false_alarm=1e-3)
        assert session.spent == [1e-3]
        with pytest.raises(DomainError, match="allowance of false alarms is spent"):
            audit.partition_adversary([0, 1], [0.5, 0.5], [0.4, 0.6], false_alarm=1e-3)


# ---- seeds -------------------------------------------------------------------------------------
def draw(data, seed):
    return np.random.default_rng(seed).normal(np.mean(data), size=4)


def test_a_known_seed_names_the_data():
    candidates = [[0, 0, 1], [0, 1, 1], [1, 1, 1]]
    found = audit.seed_reuse(draw(candidates[1], 1234), draw, candidates, [0, 42, 1234])
    assert (found.matches, found.data, found.tried) == (((1, 1234),), 1, 9)
    assert "candidate 1, seed 1234" in repr(found)
    fresh = audit.seed_reuse(np.random.default_rng().normal(size=4), draw, candidates, range(50))
    assert not fresh.leaks
    assert fresh.data is None


def test_a_coincidence_is_counted():
    found = audit.seed_reuse([True], lambda d, s: [s % 2 == 0], ["a", "b"], [0, 1], coincidence=0.5)
    assert found.leaks
    assert found.data is None  # both candidates match
    assert found.false_alarm == 1.0


@pytest.mark.parametrize("released", [1, [True, False], [2.0, 3.0]])
def test_outputs_in_steps_need_the_chance_of_a_coincidence(released):
    with pytest.raises(DomainError, match="coincide"):
        audit.seed_reuse(released, lambda d, s: released, [0, 1], [0])


def test_seeds_that_agree_refute_a_coincidence_of_zero():
    with pytest.raises(DomainError, match="coincide"):
        audit.seed_reuse(0.25, lambda d, s: 0.25 + 0.5 * (s % 2), [0], [0, 1, 2])
    twice = audit.seed_reuse(draw([1.0], 3), draw, [[1.0]], [3, 3])
    assert (twice.tried, twice.leaks) == (1, True)


# ---- what a release holds ----------------------------------------------------------------------
SECRET = np.random.default_rng(4).normal(size=30).round(3)


@dataclass
class Published:
    draws: np.ndarray
    info: dict


@pytest.mark.parametrize(
    ("thing", "what"),
    [
        ({"a": {"b": SECRET}}, "holds 'y'"),
        ([1.0, {"x": 2 - 3 * SECRET}], "shifted or scaled"),
        ({"x": np.sort(SECRET)}, "in another order"),
        ({"x": np.stack([SECRET, SECRET])}, "holds 'y'"),
        ({"m": float(SECRET.mean())}, "mean"),
        ({"m": np.float64(SECRET.std(ddof=1))}, "sample deviation"),
        (Published(np.zeros(3), {"total": SECRET.sum()}), "sum"),
        (SimpleNamespace(random_seed=3), "a seed"),
        (xr.Dataset({"lp": ("draw", [1.0])}), "log densities"),
        (xr.Dataset({"x": ("draw", [1.0])}, attrs={"sampling_time": 3.2}), "times"),
        (xr.DataTree.from_dict({"observed_data": xr.Dataset({"y": ("r", [1.0])})}), "group"),
    ],
)
def test_what_holds_the_data_is_found(thing, what):
    found = audit.release_leaks(thing, {"y": SECRET})
    assert found.leaks
    assert any(what in leak.what for leak in found.found)
    assert all(leak.coincidence < 0.05 for leak in found.found)


ORDER = np.random.default_rng(8).permutation(30)
TABLE = np.random.default_rng(9).normal(size=(30, 3)).round(3)


@pytest.mark.parametrize(
    "thing",
    [
        SECRET.astype(np.float32),
        SECRET.astype(np.float16)[ORDER],
        SECRET.round(1),
        5 - 2 * SECRET[ORDER],
        np.r_[SECRET, 0.0],
        np.c_[np.random.default_rng(1).normal(size=(30, 80)), SECRET],
        np.float32(SECRET.mean()),
        SECRET.var(),
        str(SECRET.tolist()),
        f'{{"y": {SECRET.tolist()}}}'.encode(),
        [{"y": value, "z": 0.0} for value in SECRET],
        deque(SECRET),
        SECRET + 0j,
        SECRET.astype(object),
        np.array([(value, 0) for value in SECRET], dtype=[("a", float), ("b", int)]),
        xr.DataArray(np.zeros(30), dims="r", coords={"r": SECRET}),
        pd.Series(SECRET),
        pd.DataFrame({"x": np.zeros(30)}, index=SECRET),
        TABLE[ORDER],
        TABLE[ORDER].T.tolist(),
        TABLE[ORDER].ravel(),
        TABLE.mean(axis=0),
    ],
    ids=range(22),
)
def test_a_copy_is_found_in_another_order_type_or_container(thing):
    secrets = {"y": SECRET, "X": TABLE}
    assert audit.release_leaks({"part": thing}, secrets).leaks


def test_a_secret_with_gaps_is_found():
    gaps = np.r_[np.nan, SECRET]
    assert audit.release_leaks({"x": gaps}, {"y": gaps}).leaks
    assert audit.release_leaks({"x": 1 + 2 * gaps}, {"y": gaps}).leaks


@pytest.mark.parametrize("name", ["lp__", "log_prob", "log_lik", "seeds", "n_leapfrog__"])
@pytest.mark.parametrize("part", [[[1.0], [2.0, 3.0]], xr.DataArray(np.zeros(3))])
def test_a_telltale_name_covers_all_that_is_in_it(name, part):
    assert audit.release_leaks({name: part}, {"y": SECRET}).leaks


def test_the_name_of_a_file_inside_is_a_text():
    assert not audit.release_leaks({"saved": "main.nc", "to": Path("b.json")}, {"y": SECRET}).leaks


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("published", "n", "levels"),
    [([0.0, 1.0, 2.0], 3, 1000), ([0.0, 1.0, 5.0, 2.0], 4, 50), (0.53, 100, 2), (2.25, 4, 11)],
)
def test_a_coincidence_is_no_likelier_than_stated(monkeypatch, published, n, levels):
    # Rate of findings whose stated chance is at most 0.3: at most 0.3, but for 1e-9.
    monkeypatch.setattr("pymc_private.audit.leaks.COPY_CHANCE", 0.3)
    rng, runs, alarms = np.random.default_rng(2), 400, 0
    for _ in range(runs):
        secret = rng.integers(0, levels, n) / (10.0 ** np.ceil(np.log10(levels)) if n < 100 else 1)
        found = audit.release_leaks({"x": published}, {"y": secret}).found
        alarms += any(leak.coincidence <= 0.3 for leak in found)
    assert alarms <= stats.binom.isf(1e-9, runs, 0.3)


@pytest.mark.parametrize(
    "thing",
    [
        {"x": np.random.default_rng(5).normal(size=(4, 30)), "n": 30, "note": "thirty records"},
        Published(np.zeros((2, 30)), {"epsilon": 1.0}),
        xr.Dataset({"x": ("draw", np.ones(30))}),
    ],
)
def test_what_holds_no_data_is_not_accused(thing):
    assert not audit.release_leaks(thing, {"y": SECRET, "few": np.array([0, 1, 1])}).leaks


def test_what_differs_between_twins_is_a_leak_for_certain():
    def publish(data, draws):
        return {"draws": draws, "info": {"steps": int(data.sum() * 10), "epsilon": 1.0}}

    other = np.array([*SECRET[:-1], 5.0])
    found = audit.release_leaks(publish(SECRET, [1.0, 2.0]), twin=publish(other, [1.0, 2.0]))
    assert [leak.where for leak in found.found] == ["info.steps"]
    assert found.found[0].coincidence == 0.0
    more = audit.release_leaks({"a": 1}, twin={"a": 1, "b": 2})
    assert "one of the neighbors only" in more.found[0].what
    assert not audit.release_leaks({"x": [math.nan]}, twin={"x": [math.nan]}).leaks
    assert not audit.release_leaks({"x": [1]}, twin={"x": [2]}, draws=("x",)).leaks


def test_files_are_opened(tmp_path):
    data = xr.Dataset({"y": ("r", SECRET)}, attrs={"seed": 7})
    data.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    (tmp_path / "b.json").write_text('{"y": ' + str(SECRET.tolist()) + "}")
    for name in ("a.nc", "b.json"):
        found = audit.release_leaks(str(tmp_path / name), {"y": SECRET})
        assert any("holds 'y'" in leak.what for leak in found.found)


# ---- the worst neighbors -----------------------------------------------------------------------
def respond(data, draws, seed):
    """Randomized response on the first record, that shows only if the others are ones."""
    rng = np.random.default_rng(seed)
    loud = 0.9 if np.mean(data["y"][1:]) > 0.9 else 0.55
    return np.where(rng.random(draws) < loud, data["y"][0], 1 - data["y"][0])


def certificate(*places, relaxed=False):
    return SimpleNamespace(where=places, is_relaxed=relaxed)


WORST = certificate(
    WorstCaseValue("y", "record", 0, 1, (1.0, 0.0)),
    WorstCaseValue("X[0]", "record", -1, 1, (1.0, -1.0)),
    WorstCaseValue("X[1]", "record", -1, 1, (-1.0, -1.0)),
    WorstCaseValue("p", "point", 0, 1, (0.9, 0.1)),
)


def test_a_certificate_names_the_records_it_is_attained_at():
    one, other = audit.attaining_records(WORST)
    assert one["y"] == 1
    assert other["y"] == 0
    assert one["X"].tolist() == [1, -1]
    assert other["X"].tolist() == [-1, -1]
    for nothing in (certificate(), certificate(*WORST.where, relaxed=True)):
        with pytest.raises(DomainError, match="pass two records"):
            audit.attaining_records(nothing)


@pytest.mark.parametrize("parallel", [False, True])
def test_the_search_finds_the_rest_that_shows_the_record(parallel):
    with ThreadPoolExecutor(2) as pool:
        found = audit.worst_neighbors(
            respond, WORST, 9, draws=500, executor=pool if parallel else None
        )
    assert found.pattern == "like the first"
    assert found.x["y"].tolist() == [1] * 9
    assert found.y["y"].tolist() == [0] + [1] * 8
    assert found.x["X"].shape == (9, 2)
    assert dict(found.pilots)["like the first"] > 1 > dict(found.pilots)["like the second"]
    assert "like the first" in repr(found)


def test_a_search_needs_records_that_fit():
    with pytest.raises(DomainError, match="same variables"):
        audit.worst_neighbors(respond, ({"y": 1}, {"z": 1}), 3)
    with pytest.raises(DomainError, match="alone in its data"):
        audit.worst_neighbors(respond, WORST, 1)


def test_outputs_are_the_same_whoever_runs_them_and_seeds_differ():
    def noise(data, draws, seed):
        return np.random.default_rng(seed).random((draws, 2)) + data

    with ThreadPoolExecutor(2) as pool:
        one = audit.outputs(noise, 1.0, 101, executor=pool, chunks=4)
        again = audit.outputs(noise, 1.0, 101, executor=pool, chunks=4)
    assert one.shape == (101, 2)
    assert np.array_equal(one, again)
    assert len(np.unique(one)) == 202
    with pytest.raises(DomainError, match="another number"):
        audit.outputs(lambda d, n, s: np.zeros(n + 1), 0, 5)


def test_findings_are_values():
    found = audit.attack(bool, [True] * 9, [False] * 9)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.audit
def test_processes_run_what_was_defined_on_the_spot():
    shift = 3.0

    def noise(data, draws, seed):
        return np.random.default_rng(seed).random(draws) + data + shift

    with ProcessPoolExecutor(2) as pool, ThreadPoolExecutor(2) as threads:
        found = audit.outputs(noise, 1.0, 101, executor=pool, chunks=3)
        assert np.array_equal(found, audit.outputs(noise, 1.0, 101, executor=threads, chunks=3))


@pytest.mark.parametrize(
    "tool",
    [
        lambda masked: audit.partition_adversary(masked, [0.5, 0.5], [0.3, 0.7]),
        lambda masked: clopper_pearson_upper(masked, 9, 0.05),
        lambda masked: audit.seed_reuse(masked, lambda data, seed: data, [[0]], seeds=[1]),
        lambda masked: planning.grid_pair(np.zeros(3), masked, np.zeros(3)),
    ],
)
def test_a_mask_is_not_overlooked(tool):
    with pytest.raises(DomainError, match="without a mask"):
        tool(np.ma.array([0, 1, 1], mask=[True, False, False]))
