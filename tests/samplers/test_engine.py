"""Parts of a draw on executors: order, entropy, and failures that say nothing."""

from __future__ import annotations

import os
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.samplers.executors import MOST_PARTS, draw_in_parts
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness

SECRET = 123456


def uniform_work(private, count, randomness):
    return {"x": randomness.uniform(count)}


def failing_work(private, count, randomness):
    raise ValueError(f"the data hold {SECRET}")


def quiet(done):
    pass


@pytest.fixture(scope="module")
def plan():
    with pm.Model(coords={"i": range(5)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2) ** 2, observed=np.array([0, 1, 1, 0, 1]), dims="i")
    private = pmp.trim(pmp.privatize(model, records="i"), box={"p": (0.2, 0.8)})
    return pmp.calibrate(private, epsilon=1, draws=4)


def test_parts_come_back_in_order_and_in_full():
    with ThreadPoolExecutor(3) as pool:
        one, two = (
            draw_in_parts(uniform_work, None, 21, SeededRandomness.from_seed(2), quiet, pool)["x"]
            for _ in range(2)
        )
    assert one.shape == (21,)
    assert np.array_equal(one, two)
    assert len(set(one)) == 21


def test_parts_of_a_private_draw_share_no_number():
    with ProcessPoolExecutor(2) as pool:
        found = draw_in_parts(uniform_work, None, 40, SystemRandomness(), quiet, pool)["x"]
    assert len(set(found)) == 40


def test_how_many_parts_there_are_does_not_depend_on_the_workers():
    class Counting(ThreadPoolExecutor):
        jobs = 0

        def submit(self, *arguments, **keywords):
            Counting.jobs += 1
            return super().submit(*arguments, **keywords)

    with Counting(1) as pool:
        draw_in_parts(uniform_work, None, 40, SystemRandomness(), quiet, pool)
    assert Counting.jobs == MOST_PARTS


def test_a_failure_travels_without_its_words():
    with ThreadPoolExecutor(2) as pool, pytest.raises(pmp.errors.PymcPrivateError) as caught:
        draw_in_parts(failing_work, None, 4, SystemRandomness(), quiet, pool)
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "kind", [ThreadPoolExecutor, pytest.param(ProcessPoolExecutor, marks=pytest.mark.audit)]
)
def test_a_plan_is_drawn_by_an_executor(plan, kind):
    with kind(2) as pool:
        release = pmp.sample(plan, ledger=pmp.Ledger(epsilon=2), executor=pool, progressbar=False)
    assert release.posterior.sizes["draw"] == 4


class Dead:
    """An executor whose workers die at a job: by `error`, from the `first` on."""

    def __init__(self, error=MemoryError, first=2):  # 0 and 1 are tried before the charge
        self.error, self.jobs, self.first = error, 0, first

    def submit(self, work, *arguments):
        future: Future = Future()
        if self.jobs >= self.first:
            future.set_exception(self.error(f"record {SECRET}"))
        else:
            future.set_result(work(*arguments))
        self.jobs += 1
        return future


@pytest.mark.parametrize("error", [MemoryError, SystemExit, GeneratorExit])
def test_dead_workers_charge_once_and_say_nothing(plan, error):
    book = pmp.Ledger(epsilon=2)
    with pytest.raises(pmp.errors.PymcPrivateError, match="after it was charged") as caught:
        pmp.sample(plan, ledger=book, executor=Dead(error), progressbar=False)
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__cause__ is None
    assert len(book.entries) == 1


@pytest.mark.parametrize("error", [MemoryError, SystemExit, GeneratorExit])
@pytest.mark.parametrize("first", [0, 1])
def test_workers_that_die_before_the_charge_cost_nothing(plan, error, first):
    book = pmp.Ledger(epsilon=2)
    with pytest.raises(pmp.errors.PymcPrivateError, match="nothing was charged"):
        pmp.sample(plan, ledger=book, executor=Dead(error, first), progressbar=False)
    assert book.entries == ()


def leaving_work(private, count, randomness):
    raise SystemExit(f"the data hold {SECRET}")


def test_a_worker_that_leaves_says_nothing():
    with ThreadPoolExecutor(2) as pool, pytest.raises(pmp.errors.PymcPrivateError) as caught:
        draw_in_parts(leaving_work, None, 4, SystemRandomness(), quiet, pool)
    assert caught.value.got == "SystemExit"


class Strange:
    """Its futures are its own, as those of a client of Dask are."""

    def submit(self, work, *arguments):
        return self

    def result(self):
        return True


def shut() -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    return pool


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: 3, "no executor"),
        (lambda: "processes", "no executor"),
        (lambda: ProcessPoolExecutor, "the class ProcessPoolExecutor"),
        (lambda: Dead(first=0), "does no work"),
        (shut, "does no work"),
        (Strange, "Strange, and no Future"),
    ],
)
def test_what_executes_nothing_is_refused_before_the_charge(plan, make, words):
    book = pmp.Ledger(epsilon=2)
    with pytest.raises(pmp.errors.PymcPrivateError, match="nothing was charged") as caught:
        pmp.sample(plan, ledger=book, executor=make(), progressbar=False)
    assert words in str(caught.value)
    assert str(SECRET) not in str(caught.value)
    assert book.entries == ()


def die() -> None:
    os._exit(1)


def test_a_broken_pool_is_refused_before_the_charge(plan):
    book = pmp.Ledger(epsilon=2)
    with ProcessPoolExecutor(1) as pool:
        with pytest.raises(BrokenExecutor):
            pool.submit(die).result()
        with pytest.raises(pmp.errors.PymcPrivateError, match="nothing was charged"):
            pmp.sample(plan, ledger=book, executor=pool, progressbar=False)
    assert book.entries == ()


def test_a_release_that_is_stored_asks_no_executor(plan):
    book = pmp.Ledger(epsilon=2)
    first = pmp.sample(plan, ledger=book, name="a", progressbar=False)
    again = pmp.sample(plan, ledger=book, name="a", executor=shut(), progressbar=False)
    assert again == first


@pytest.mark.audit
def test_a_plan_is_drawn_by_a_dask_cluster(plan):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as one,
        distributed.Client(one) as client,
    ):
        release = pmp.sample(
            plan, ledger=pmp.Ledger(epsilon=2), executor=client.get_executor(), progressbar=False
        )
        again = pmp.Release.from_bytes(release.to_bytes())  # no lock of the cluster is asked for
    assert release.posterior.sizes["draw"] == 4
    assert again.fingerprint == release.fingerprint
