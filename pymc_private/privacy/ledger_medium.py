"""What a ledger's file stands on: a local disk, a network, a medium without shared memory.

SQLite's write-ahead log (WAL) needs memory that all who open the file share, so it works on one
computer only; and locks over a network are often no locks. There a ledger keeps a rollback
journal instead, which is as durable, and says that one computer at a time should use it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from pathlib import Path, PurePosixPath

from pymc_private.errors import PrivacyWarning

MOUNTS = "/proc/self/mountinfo"
NETWORK = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs2", "fuse.gcsfuse",
        "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre",
        "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs", "vboxsf",
    }
)  # fmt: skip


def network(path: str, mounts: str | None = None) -> str | None:
    """Give the kind of network file system a path is on, or None as far as can be known.

    Parameters
    ----------
    path : str
        Absolute.
    mounts : str, optional
        The lines of /proc/self/mountinfo. Elsewhere than on Linux nothing is known but that a
        name with two slashes in front is on another computer.
    """
    if path.startswith(("\\\\", "//")) and sys.platform == "win32":
        return "a share"
    if mounts is None:
        mounts = ""
        with contextlib.suppress(OSError):
            mounts = Path(MOUNTS).read_text(errors="replace")
    found, depth = None, -1
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        words = left.split(" ")
        if len(words) < 5 or not right:
            continue
        # Spaces in mount points are written \040. Of two mounts at one point the later counts.
        point = PurePosixPath(words[4].replace("\\040", " "))
        if PurePosixPath(path).is_relative_to(point) and len(point.parts) >= depth:
            found, depth = right.split(" ")[0], len(point.parts)
    return found if found in NETWORK else None


def journal(path: str) -> str:
    """Choose the journal for a new ledger, and warn where locks cannot be trusted."""
    kind = network(path)
    if kind is None:
        return "WAL"
    warnings.warn(
        f"the ledger {path} is on a network file system ({kind}), whose locks may fail: let one "
        "computer at a time charge it, or keep it on a local disk",
        PrivacyWarning,
        stacklevel=2,
    )
    return "DELETE"


def has_log(path: str) -> bool:
    """Whether charges may stand in a write-ahead log beside the file."""
    with contextlib.suppress(OSError):
        return Path(f"{path}-wal").stat().st_size > 0
    return False


def logs(path: str) -> bool:
    """Whether the file is in WAL mode: bytes 18 and 19 of SQLite's header."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"
    return False


def notes(path: str) -> str:
    """Say in words what is unusual about the place of a ledger; empty if nothing is."""
    kind, told = network(path), []
    if kind is not None:
        told.append(f"network file system ({kind}): let one computer at a time charge it")
    if os.path.isfile(path) and not logs(path):
        told.append("rollback journal: readers and writers wait for each other")
    return "; ".join(told)
