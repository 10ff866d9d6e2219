"""What a process has checked it does not check again: quick, and as safe with others about."""

from __future__ import annotations

import os
import pickle
import sqlite3
import threading
import time
import warnings
from contextlib import closing
from fractions import Fraction

import pytest

from pymc_private.errors import BudgetExceeded, Incompatible
from pymc_private.ledger import sqlite
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee

TRIFLE = Guarantee.pure(2.0**-20)


@pytest.fixture
def parsed(monkeypatch):
    """The numbers of the charges that were read and parsed."""
    numbers, read_charge = [], sqlite.read_charge

    def counted(*arguments):
        entry = read_charge(*arguments)
        numbers.append(entry.number)
        return entry

    monkeypatch.setattr(sqlite, "read_charge", counted)
    return numbers


def test_a_charge_reads_only_what_came_after_the_last_one(path, parsed):
    ledger, other = Ledger(path, epsilon=1), Ledger(path, epsilon=1)
    for _ in range(20):
        ledger.charge(TRIFLE, "x")
    assert len(parsed) == 39  # each once when it is written, and once when the next one is
    del parsed[:]
    other.charge(TRIFLE, "by another")
    assert parsed == [*range(1, 21), 21]
    del parsed[:]
    ledger.charge(TRIFLE, "x")
    assert parsed == [20, 21, 22]
    assert ledger.spent == other.spent == (22 * Fraction(1, 2**20), 0)
    assert ledger.verify(other.head)


def test_whole_checks_parse_each_charge_once(path, parsed):
    ledger = Ledger(path, epsilon=1)
    for _ in range(5):
        ledger.charge(TRIFLE, "x")
    del parsed[:]
    for _ in range(3):
        ledger.verify(ledger.head)
        assert len(ledger.entries) == 5
    assert parsed == [5]


def test_totals_kept_along_the_way_are_those_of_a_fresh_look(path):
    ledger = Ledger(path, epsilon=2, delta=1e-5)
    charges = [
        (Guarantee.pure(0.1), None),
        (Guarantee.bounded_range_of(0.1, draws=3), None),
        (Guarantee.approximate(0.1, 1e-7), "1e-7"),  # closes two methods
        (Guarantee.pure(5e-324), None),
        (Guarantee.gdp_of(0.01), 1e-8),
    ]
    for guarantee, delta in charges:
        ledger.charge(guarantee, "x", delta=delta)
        fresh = Ledger.open(path)
        assert ledger.methods == fresh.methods
        assert (ledger.spent, ledger.left) == (fresh.spent, fresh.left)


@pytest.mark.parametrize("inside", [False, True])
def test_threads_that_share_a_ledger_charge_it_exactly(inside, path):
    ledger, outcomes = Ledger(path, epsilon=Fraction(40, 2**20)), []

    def spend():
        try:
            while True:
                outcomes.append(ledger.charge(TRIFLE, "draw").number)
        except BudgetExceeded:
            pass

    def look():
        for _ in range(10):
            assert ledger.spent <= ledger.budget
            ledger.verify()

    threads = [threading.Thread(target=work) for work in (spend, spend, spend, spend, look)]
    if inside:
        ledger.__enter__()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if inside:
        ledger.__exit__()
    assert sorted(outcomes) == [*range(1, 41)]
    assert ledger.left == (0, 0)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_goes_on_from_what_its_parent_knew(path):
    ledger = Ledger(path, epsilon=1)
    ledger.charge(TRIFLE, "by the parent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            for _ in range(10):
                ledger.charge(TRIFLE, "by the child")
            code = 0
        finally:
            os._exit(code)
    for _ in range(10):
        ledger.charge(TRIFLE, "by the parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ledger.spent.epsilon == Fraction(21, 2**20)
    assert ledger.verify()


def test_a_pickle_carries_no_knowledge(path):
    ledger = Ledger(path, epsilon=1)
    ledger.charge(TRIFLE, "x")
    size = len(pickle.dumps(ledger))
    for _ in range(30):
        ledger.charge(TRIFLE, "x" * 100)
    assert len(pickle.dumps(ledger)) == size
    assert pickle.loads(pickle.dumps(ledger)).spent == ledger.spent


def test_an_interrupted_read_is_made_good_by_a_whole_one(path, monkeypatch, parsed):
    ledger = Ledger(path, epsilon=1)
    for _ in range(3):
        ledger.charge(TRIFLE, "x")

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(sqlite, "check_chain", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(TRIFLE, "x")
    monkeypatch.undo()
    assert ledger.charge(TRIFLE, "x").number == 4
    assert ledger.verify()


def test_a_moved_and_restored_file_is_known_again(path):
    ledger = Ledger(path, epsilon=1)
    ledger.charge(TRIFLE, "x")
    elsewhere = path.with_name("elsewhere.sqlite")
    path.rename(elsewhere)
    with pytest.raises(Incompatible, match="cannot be opened"):
        ledger.charge(TRIFLE, "x")
    elsewhere.rename(path)
    assert ledger.charge(TRIFLE, "x").number == 2


def test_a_thousand_more_charges_are_as_quick_as_the_first(path):
    # Time is measured against itself: what was quadratic is now within noise of flat.
    ledger = Ledger(epsilon=1)
    seconds = []
    for _ in range(4):
        start = time.process_time()
        for _ in range(500):
            ledger.charge(TRIFLE, "x")
        seconds.append(time.process_time() - start)
    assert min(seconds[1:]) < 3 * seconds[0]


# ---- kept open ---------------------------------------------------------------------------------
def test_inside_with_the_file_stays_open_and_afterwards_it_is_one_file(path):
    ledger = Ledger(path, epsilon=2)
    with ledger, ledger:
        ledger.charge(TRIFLE, "draw")
        assert ledger._verified.store._kept is not None
        assert len(Ledger.open(path).entries) == 1
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    ledger.charge(TRIFLE, "draw")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_inside_with_a_file_that_was_replaced_or_removed_is_not_charged(path):
    with Ledger(path, epsilon=2) as ledger:
        ledger.charge(TRIFLE, "draw")
        path.unlink()
        with pytest.raises(Incompatible, match="cannot be opened"):
            ledger.charge(TRIFLE, "draw")
        Ledger(path, epsilon=2)
        with pytest.raises(Incompatible, match="Another ledger"):
            ledger.charge(TRIFLE, "draw")
    assert Ledger.open(path).entries == ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_inside_with_leaves_nothing_open(path):
    with Ledger(path, epsilon=2) as ledger:
        ledger.charge(TRIFLE, "by the parent")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            child = os.fork()
        if child == 0:
            code = 1
            try:
                inherited = ledger._verified.store._kept  # using or closing it would undo locks
                ledger.charge(TRIFLE, "by the child")
                code = 0 if inherited is None else 2
            finally:
                os._exit(code)
        ledger.charge(TRIFLE, "by the parent")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ledger.charge(TRIFLE, "by the parent")
    assert ledger.verify()
    assert (
        sorted(entry.label for entry in ledger.entries) == ["by the child"] + ["by the parent"] * 3
    )
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
