"""What a reviewer broke once: decimals, tiny and huge numbers, forged files, hostile guarantees."""

from __future__ import annotations

import hashlib
import io
import json
import math
import sqlite3
import types
from contextlib import closing
from decimal import Decimal
from fractions import Fraction

import pytest

from pymc_private.errors import BudgetExceeded, DomainError, Incompatible, PymcPrivateError
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.event import PrivacyEvent
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import ADD_REMOVE

STATED = Guarantee.approximate(0.1, 1e-6)


# ---- decimals of the method "approximate" --------------------------------------------------------
def test_ten_stated_pairs_of_a_tenth_fill_a_budget_exactly():
    ledger = Ledger(epsilon=1, delta=1e-5, shares={"approximate": 1e-5})
    for _ in range(10):
        entry = ledger.charge(STATED, "x", delta=1e-6)
        assert entry.cost.approximate == (Fraction(1, 10), Fraction(1, 10**6))
    assert ledger.left == (0, 0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(STATED, "x", delta=1e-6)


@pytest.mark.parametrize("epsilon", ["0.3", "1.1", "0.7", "1e-3", "2.3"])
def test_a_stated_pair_costs_the_decimal_and_not_a_double_beside_it(epsilon):
    said, delta = Guarantee.approximate(float(epsilon), 3e-7), "3e-7"
    share = {"delta": delta, "shares": {"approximate": delta}}
    entry = Ledger(epsilon=epsilon, **share).charge(said, "x", delta=delta)
    assert entry.cost.approximate == (Fraction(epsilon), Fraction(delta))
    less = Fraction(epsilon) - Fraction(1, 10**30)
    with pytest.raises(BudgetExceeded):
        Ledger(epsilon=less, **share).charge(said, "x", delta=delta)


def test_a_delta_just_below_the_stated_one_does_not_admit_the_pair():
    low = Fraction(0.3)  # below 3/10
    assert low < Fraction(3, 10)
    ledger = Ledger(epsilon=1, delta=low, shares={"approximate": low})
    with pytest.raises(Incompatible):
        ledger.charge(Guarantee.approximate(0.5, 0.3), "x", delta=low)


def test_pure_and_stated_parts_add_up_exactly_on_the_method_approximate():
    both = Guarantee.pure(0.2) + STATED
    assert both.exact_epsilon(Fraction(1, 10**6)) == Fraction(3, 10)
    assert both.exact_epsilon(Fraction(1, 10**6) - Fraction(1, 10**40)) == math.inf
    assert both.exact_epsilon(Fraction(2, 10**6)) <= Fraction(3, 10)
    assert both.epsilon(1e-6) == 0.3


# ---- tiny and huge numbers ---------------------------------------------------------------------
@pytest.mark.parametrize(
    "epsilon", [Decimal("1e-330"), 1e-323, 5e-324, Fraction(1, 10**320), 1.5e-322, 1e-310, 1e-300]
)
@pytest.mark.parametrize("k", [2, 3, 1000])
def test_the_delta_of_a_group_is_never_below_the_truth_for_the_tiniest_epsilon(epsilon, k):
    (atom,) = Guarantee.approximate(epsilon, 1e-6).group(k).events
    least = k * Fraction(1, 10**6)
    assert least <= Fraction(atom.delta) <= least * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize("epsilon", [1e-12, 1e-9, 1e-6, 0.01, 0.5, 2.0])
def test_the_delta_of_a_group_is_sharp_for_all_others(epsilon):
    for k in (2, 7):
        (atom,) = Guarantee.approximate(epsilon, 1e-6).group(k).events
        true = 1e-6 * math.fsum(math.exp(i * epsilon) for i in range(k))
        assert true * (1 - 1e-15) <= float(atom.delta) <= true * (1 + 1e-11)


def test_what_is_no_double_is_rounded_to_the_safe_side():
    assert Fraction(PrivacyEvent("pure", Decimal("0.3")).value) >= Fraction(3, 10)
    assert Fraction(PrivacyEvent("approximate", 1.0, Decimal("0.3")).delta) >= Fraction(3, 10)
    assert PrivacyEvent("zcdp", 2**53 + 1).value >= 2**53 + 1
    assert Fraction(PrivacyEvent("rdp", 1.0, shape=Decimal("2.3")).shape) <= Fraction("2.3")
    assert Fraction(Guarantee.rdp_of(Fraction(23, 10), 1).events[0].shape) <= Fraction(23, 10)
    for neighbors in ("substitute", ADD_REMOVE):
        for part in (Fraction(3, 10), Fraction(1, 10), Decimal("0.3"), Decimal("0.1"), 2**53 + 1):
            (atom,) = Guarantee.dirichlet_of(part, part, neighbors=neighbors).events
            assert Fraction(atom.value) >= Fraction(part) >= Fraction(atom.shape)
    assert Guarantee.dirichlet_of(0.3, 0.3).events[0].shape == 0.3


def test_numbers_too_long_to_write_are_rounded_up_or_refused_in_our_words():
    ledger = Ledger(epsilon=1, delta=1e-6)
    tiny = Fraction(1, 10**5000)
    assert ledger.charge(Guarantee.pure(tiny), "x").cost.pure >= tiny
    assert ledger.charge(Guarantee.approximate(tiny, tiny), "x", delta=1e-9).cost.approximate
    primes = Guarantee.jointly(*(Guarantee.pure(Fraction(1, 10**299 + i)) for i in range(20)))
    entry = ledger.charge(primes, "x")
    assert entry.cost.pure >= primes.exact_pure
    assert ledger.verify()
    assert Guarantee.from_dict(Guarantee.pure(tiny).to_dict()).pure_epsilon > 0
    for refused in (
        lambda: ledger.charge(Guarantee.pure(Fraction(10**5000)), "x"),
        lambda: Guarantee.pure(-(10**5000)),
        lambda: 10**400 * Guarantee.pure(1e-3),
        lambda: Guarantee.zcdp_of(0.1).group(10**400),
        lambda: Guarantee.bounded_range_of(0.1, draws=10**400),
    ):
        with pytest.raises(PymcPrivateError):
            refused()
    assert Guarantee.pure(Decimal("1e-999999999")).pure_epsilon > 0
    assert Guarantee.pure(Decimal("1e999999999")).pure_epsilon == math.inf


# ---- hostile guarantees ------------------------------------------------------------------------
class Free(Guarantee):
    """A subclass that says it costs nothing."""

    @property
    def exact_pure(self):
        return Fraction(0)

    @property
    def zcdp(self):
        return 0.0

    def epsilon(self, delta=0.0):
        return 0.0

    def exact_epsilon(self, delta=0.0):
        return Fraction(0)

    def to_dict(self):
        return Guarantee.pure(0).to_dict()


def test_a_subclass_is_charged_by_its_atoms_and_not_by_what_it_says():
    ledger = Ledger(epsilon=1, delta=1e-6)
    with pytest.raises(BudgetExceeded):
        ledger.charge(Free.pure(50), "x", delta=1e-9)
    entry = ledger.charge(Free.pure(0.5), "x", delta=1e-9)
    assert entry.cost.pure == Fraction(1, 2)
    assert entry.guarantee == Guarantee.pure(0.5)


@pytest.mark.parametrize(
    "words",
    [
        {"events": (types.SimpleNamespace(pure=Fraction(0), zcdp=0.0, kind="pure", value=9.0),)},
        {"events": (PrivacyEvent("pure", 1.0),), "assumptions": (object(),)},
        {"events": (PrivacyEvent("pure", 1.0),), "theorem": 3},
    ],
)
def test_a_guarantee_is_made_of_atoms_and_text(words):
    with pytest.raises(DomainError, match=r"events=|assumptions=|theorem="):
        Guarantee(**words)


@pytest.mark.parametrize("value", ["1/0", "-1/2", "nan", "x", 3, "0x1p99999"])
def test_a_stored_number_that_is_none_is_refused_in_our_words(value):
    stored = Guarantee.pure(1).to_dict()
    stored["events"][0][1] = value
    with pytest.raises(PymcPrivateError):
        Guarantee.from_dict(stored)


# ---- forged files ------------------------------------------------------------------------------
def forge(path, header=None, body=None, raw=None):
    """Edit a ledger of one charge, and forge its chain."""
    ledger = Ledger(path, epsilon=1, delta=1e-5, data="d")
    ledger.charge(Guarantee.pure(0.25), "é ☃ label", delta=1e-9)

    def text(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    def link(head, line):
        return hashlib.sha256(f"{head}\n{line}".encode()).hexdigest()

    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (top,) = connection.execute("SELECT header FROM ledger").fetchone()
        (line,) = connection.execute("SELECT body FROM charges").fetchone()
        top = text(json.loads(top) | (header or {}))
        line = text(json.loads(line) | (body or {})) if raw is None else raw
        head = link("", top)
        connection.execute("UPDATE ledger SET header = ?, hash = ?", (top, head))
        connection.execute("UPDATE charges SET body = ?, hash = ?", (line, link(head, line)))
    return path


MORE = {"events": [["pure", "100/1", "0x0p0", 1, "0x0p0"]]}
FORGED = {
    "negative": {"body": {"pure": "-5/1"}},
    "negative delta": {"body": {"approximate": ["1/4", "-1/8"]}},
    "no pair": {"body": {"approximate": []}},
    "long pair": {"body": {"approximate": ["1/1", "1/8", "1/1"]}},
    "another number": {"body": {"number": 7}},
    "number as text": {"body": {"number": "1"}},
    "number as truth": {"body": {"number": True}},
    "label": {"body": {"label": 5}},
    "name": {"body": {"name": ["x"]}},
    "deep": {"raw": "[" * 100_000},
    "long": {"raw": '{"number":' + "9" * 5000 + "}"},
    "no guarantee": {"body": {"guarantee": None}},
    "odd guarantee": {"body": {"guarantee": {"events": 3}}},
    "dearer guarantee": {"body": {"guarantee": Guarantee.pure(100).to_dict()}},
    "cheaper charge": {"body": {"pure": "1/8"}},
    "cheaper rho": {"body": {"zcdp": "1/800"}},
    "cheaper pair": {
        "body": {
            "guarantee": Guarantee.approximate(0.5, 1e-6).to_dict(),
            **{"pure": None, "zcdp": None, "approximate": ["1/4", "1/1000000"]},
        }
    },
    "unlike neighbors": {"body": {"guarantee": Guarantee.pure(0.25).to_dict() | {
        "neighbors": ADD_REMOVE}}},
    "odd neighbors": {"header": {"neighbors": "x"}},
    "negative budget": {"header": {"epsilon": "-1/1"}},
    "epsilon as number": {"header": {"epsilon": 1}},
    "delta": {"header": {"delta": "1/1"}},
    "shares": {"header": {"shares": {"zcdp": "1/1", "approximate": "5/1"}}},
    "negative share": {"header": {"shares": {"zcdp": "-1/1000"}}},
    "unknown share": {"header": {"shares": {"pure": "1/1000000000"}}},
    "shares as list": {"header": {"shares": []}},
    "data": {"header": {"data": [1]}},
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_chain_that_vouches_for_nonsense_is_refused(name, tmp_path, capsys):
    from pymc_private.command_line import main

    path = forge(tmp_path / "forged.sqlite", **FORGED[name])
    with pytest.raises(Incompatible, match="tampered"):
        Ledger.open(path).verify()
    assert main(["ledger", str(path)]) == 1
    assert "tampered" in capsys.readouterr().err


def test_the_command_prints_what_its_terminal_cannot_show(tmp_path, monkeypatch):
    from pymc_private.command_line import main

    path = forge(tmp_path / "sound.sqlite")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["ledger", str(path)]) == 0
    terminal.flush()
    assert rb"\xe9 \u2603 label" in terminal.buffer.getvalue()


# ---- blocks that do not nest -------------------------------------------------------------------
def test_blocks_that_do_not_nest_leave_the_ledger_that_is_still_entered():
    first, second = Ledger(epsilon=1, data="first"), Ledger(epsilon=1, data="second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert Ledger.current() is second
    second.__exit__(None, None, None)
    assert Ledger.current() is None

    def generator():
        with first:
            yield
            yield

    steps = generator()
    with second:
        next(steps)
        assert Ledger.current() is first
        list(steps)
        assert Ledger.current() is second
    assert Ledger.current() is None
