"""The tables of a ledger file, and how a file of an older format becomes one of today's.

Formats
-------
1 : every release on record was kept in the file.
2 : a release may be on record without being kept (``content`` is NULL).
"""

from __future__ import annotations

import sqlite3
from pymc_private.errors import Incompatible
from pymc_private.ledger.sqlite__ledger_sqlite import damaged, transaction

APPLICATION = 0x504D504C  # "PMPL", in the header of the SQLite file
VERSION = 2
RELEASES = """CREATE TABLE releases (number INTEGER PRIMARY KEY REFERENCES charges,
                       sha256 TEXT NOT NULL, content BLOB)"""
TABLES = (
    "CREATE TABLE ledger (header TEXT NOT NULL, hash TEXT NOT NULL)",
    """CREATE TABLE charges (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL,
                      hash TEXT NOT NULL)""",
    RELEASES,
)
# What turns each older format into the next. The chain of hashes covers headers and charges, so
# no step may touch a word of them.
STEPS = {
    1: (
        "ALTER TABLE releases RENAME TO releases_1",
        RELEASES,
        "INSERT INTO releases SELECT number, sha256, content FROM releases_1",
        "DROP TABLE releases_1",
    ),
}


def lay_out(connection: sqlite3.Connection, header: str, head: str) -> None:
    """Make an empty ledger of today's format."""
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    for table in TABLES:
        connection.execute(table)
    connection.execute("INSERT INTO ledger VALUES (?, ?)", (header, head))


def version_of(connection: sqlite3.Connection) -> int:
    """Read the format of a ledger."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def check_version(version: int, place: str) -> None:
    """Refuse a format that is not known.

    Raises
    ------
    Incompatible
        It is newer than this program, or there never was such a format.
    """
    if version > VERSION:
        raise Incompatible(
            "The ledger was made by a newer version of pymc_private.",
            got=f"format {version}",
            allowed=f"format {VERSION}",
            do="update pymc_private; the file was left as it is",
        )
    if version < min(STEPS):
        raise damaged(place, f"format {version} does not exist")


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a ledger to today's format in one transaction, once however many processes try."""
    if version_of(connection) == VERSION:
        return
    with transaction(connection, write=True):
        for version in range(version_of(connection), VERSION):
            for statement in STEPS[version]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version={VERSION}")
