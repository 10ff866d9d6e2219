"""What a ledger's file stands on: a local disk or a network, and under how many names.

Locks over a network are often no locks: there a ledger says that one computer at a time should use
it. The journal of a file is named after it, so under a second name (a hard link) an interrupted
charge would never be undone: a ledger has one name.
"""

from __future__ import annotations

import contextlib
import glob
import sys
import warnings
from pathlib import Path, PurePosixPath
from pymc_private.errors import Incompatible, PrivacyWarning

DRAFT = ".new-"
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


def warn_of_network(path: str) -> None:
    """Warn where locks cannot be trusted."""
    kind = network(path)
    if kind is not None:
        warnings.warn(
            f"the ledger {path} is on a network file system ({kind}), whose locks may fail: let "
            "one computer at a time charge it, or keep it on a local disk",
            PrivacyWarning,
            stacklevel=2,
        )


def beside(path: str, end: str) -> bool:
    """Whether there is a journal ("-journal") or a log ("-wal") beside the file, not empty."""
    with contextlib.suppress(OSError):
        return Path(path + end).stat().st_size > 0
    return False


def check_alone(path: str) -> None:
    """Make sure that a file has one name; a draft that a killed process left of it is removed.

    Raises
    ------
    Incompatible
        There is a hard link to it.
    """
    file = Path(path)
    with contextlib.suppress(OSError):
        if file.stat().st_nlink < 2:
            return
        for draft in file.parent.glob(f"{glob.escape(file.name)}{DRAFT}*"):
            with contextlib.suppress(OSError):
                if draft.samefile(file):
                    draft.unlink()
        if file.stat().st_nlink > 1:
            raise Incompatible(
                "There is a hard link to this ledger, so it has two names, and would have two "
                "budgets.",
                got=f"{path}, {file.stat().st_nlink} names",
                do="remove all names but one (find -samefile); the file itself stays",
            )


def notes(path: str) -> str:
    """Say in words what is unusual about the place of a ledger; empty if nothing is."""
    kind = network(path)
    if kind is None:
        return ""
    return f"network file system ({kind}): let one computer at a time charge it"
