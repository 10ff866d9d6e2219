"""What somebody does to a ledger's file without the ledger."""

from __future__ import annotations

import sqlite3
from contextlib import closing


def edit(path, *statements):
    """Write to the file behind the ledger's back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement, *values in statements:
            connection.execute(statement, *values)
