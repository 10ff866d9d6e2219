"""Where a ledger's file stands: read-only media, full disks, networks."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
import warnings
from pathlib import Path

import pytest

from pymc_private.errors import Incompatible, PrivacyWarning, PymcPrivateError
from pymc_private.ledger import ledger_file, sqlite
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee

SMALL = Guarantee.pure(0.25)


# ---- read-only views ---------------------------------------------------------------------------
def test_a_view_shows_all_and_charges_nothing(path):
    ledger = Ledger(path, epsilon=2, delta=1e-5, data="survey")
    entry = ledger.store(ledger.charge(SMALL, "draw", name="main", key="k"), b"draws")
    view, before = Ledger.open(path, read_only=True), path.read_bytes()
    assert view.entries == ledger.entries
    assert (view.spent, view.left, view.head) == (ledger.spent, ledger.left, ledger.head)
    assert view.find("main", "k") == entry
    assert view.fetch(entry) == b"draws"
    assert view.verify(ledger.head)
    assert "read-only view" in repr(view)
    for write in (lambda: view.charge(SMALL, "x"), lambda: view.store(entry, b"draws")):
        with pytest.raises(Incompatible, match="read-only"):
            write()
    with pytest.raises(Incompatible, match="read-only"):
        pickle.loads(pickle.dumps(view)).charge(SMALL, "x")
    with view:
        assert Ledger.current() is view
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    ledger.charge(SMALL, "later")
    assert len(view.entries) == 2


def test_a_view_sees_charges_of_a_ledger_that_is_kept_open(path):
    ledger, view = Ledger(path, epsilon=2), Ledger.open(path, read_only=True)
    with ledger:
        ledger.charge(SMALL, "draw")
        assert len(view.entries) == 1
    assert len(view.entries) == 1


READ_ONLY = """
import json, os, sys
from pymc_private.errors import Incompatible
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.ledger.ledger import Ledger

path = sys.argv[1]
if os.geteuid() == 0:  # rights do not bind the superuser
    os.setgid(65534)
    os.setuid(65534)
told = {}
view = Ledger.open(path, read_only=True)
told["view"] = [len(view.entries), view.verify()]
for name, use in {
    "open": lambda: Ledger.open(path),
    "new": lambda: Ledger(path + ".other", epsilon=1),
    "charge": lambda: view.charge(Guarantee.pure(0.25), "x"),
}.items():
    try:
        use()
        told[name] = "done"
    except Incompatible as error:
        told[name] = str(error)
print(json.dumps(told))
"""


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="this system has no such rights")
def test_on_a_medium_that_cannot_be_written_a_ledger_is_read_and_not_charged(elsewhere):
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    Ledger(folder / "study.sqlite", epsilon=2).charge(SMALL, "draw")
    os.chmod(folder / "study.sqlite", 0o444)
    os.chmod(folder, 0o555)
    try:
        told = json.loads(elsewhere("-c", READ_ONLY, folder / "study.sqlite"))
    finally:
        left = os.listdir(folder)
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)
    assert left == ["study.sqlite"]
    assert told["view"] == [1, True]
    assert "read-only" in told["charge"]
    assert "cannot be opened" in told["new"]


# ---- full disks --------------------------------------------------------------------------------
def test_a_full_medium_refuses_the_charge_and_keeps_what_there_was(path, monkeypatch):
    ledger = Ledger(path, epsilon=100)
    ledger.charge(SMALL, "before")
    connect = sqlite.connect

    def small(path, mode):
        connection = connect(path, mode)
        connection.execute("PRAGMA max_page_count=1")  # becomes as many as there are
        return connection

    monkeypatch.setattr(ledger_file, "connect", small)
    drawn = []
    with pytest.raises(PymcPrivateError, match="full disk"):
        drawn.extend(ledger.charge(SMALL, f"{i} {'x' * 190}") for i in range(100))
    monkeypatch.undo()
    assert 0 < len(ledger.entries) < 100
    assert Ledger.open(path).verify(ledger.head)
    number = len(ledger.entries)
    assert ledger.charge(SMALL, "after").number == number + 1


LIMITED = """
import json, resource, signal, sys
from pymc_private.errors import PymcPrivateError
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.ledger.ledger import Ledger

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
ledger, told = Ledger(sys.argv[1], epsilon=100), []
try:
    while True:
        told.append(ledger.charge(Guarantee.pure(2.0**-10), "x" * 200).number)
except PymcPrivateError as error:
    said = str(error)
try:
    Ledger(sys.argv[1] + ".large", epsilon=1, data="x" * 200)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, resource.RLIM_INFINITY))
    Ledger(sys.argv[1] + ".new", epsilon=1)
except PymcPrivateError as error:
    made = str(error)
print(json.dumps({"reported": told, "said": said, "made": made}))
"""


@pytest.mark.audit
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no such limits")
def test_a_process_that_may_not_write_more_reports_no_charge_that_is_not_there(path, elsewhere):
    told = json.loads(elsewhere("-c", LIMITED, path))
    ledger = Ledger.open(path)
    assert ledger.verify()
    assert told["reported"]
    assert {entry.number for entry in ledger.entries} >= set(told["reported"])
    assert len(ledger.entries) <= len(told["reported"]) + 1  # wasted at most, never lost
    assert "could not be read or written" in told["said"]
    assert "could not be read or written" in told["made"]
    assert not list(path.parent.glob("*.new*"))


# ---- media without byte locks, and networks -------------------------------------------------
def test_where_no_part_of_a_file_can_be_locked_a_ledger_works_as_well(path, monkeypatch):
    for mode in ("WRITE_MODE", "CREATE_MODE", "READ_MODE"):
        here = f"{getattr(sqlite, mode)}&vfs=unix-dotfile"  # locks by a file
        for module in (sqlite, ledger_file):
            monkeypatch.setattr(module, mode, here)
    ledger = Ledger(path, epsilon=1)
    ledger.store(ledger.charge(SMALL, "draw"), b"draws")
    with ledger:
        ledger.charge(SMALL, "draw")
    assert len(Ledger.open(path).entries) == 2
    assert len(Ledger.open(path, read_only=True).entries) == 2
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_journal_syncs_its_folder_before_a_charge_is_reported(path, monkeypatch):
    Ledger(path, epsilon=1).charge(SMALL, "draw")
    with sqlite.connected(str(path), sqlite.WRITE_MODE) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


MOUNTS = """22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/sda rw
30 22 0:30 / /home rw shared:2 - nfs4 server:/home rw
31 30 0:31 / /home/ann/local\\040disk rw - xfs /dev/sdb rw
32 22 0:32 / /mnt/share rw master:3 - cifs //server/share rw
33 22 0:33 / /mnt/over rw - nfs server:/x rw
34 33 0:34 / /mnt/over rw - ext4 /dev/sdc rw
nonsense
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/a.sqlite", None),
        ("/home/ann/a.sqlite", "nfs4"),
        ("/homes/a.sqlite", None),
        ("/home/ann/local disk/a.sqlite", None),
        ("/mnt/share/a.sqlite", "cifs"),
        ("/mnt/over/a.sqlite", None),
    ],
)
def test_network_file_systems_are_known_by_their_mount(path, kind):
    assert ledger_file.network_file_system(path, MOUNTS) == kind


def test_on_a_network_a_ledger_warns_and_says_so(path, monkeypatch):
    mounts = path.parent / "mounts"
    mounts.write_text("22 1 0:21 / / rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(ledger_file, "MOUNT_TABLE", str(mounts))
    with pytest.warns(PrivacyWarning, match="network file system"):
        ledger = Ledger(path, epsilon=1)
    ledger.charge(SMALL, "draw")
    assert "network file system (nfs4)" in repr(ledger)
    monkeypatch.setattr(ledger_file, "MOUNT_TABLE", str(path.parent / "missing"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "network file system" not in repr(Ledger(path, epsilon=1))
