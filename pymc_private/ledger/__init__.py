"""The privacy ledger: a budget for one dataset and every charge against it.

``ledger`` has the public class, ``filter`` the fully adaptive privacy filter (T23), ``entry``
the stored lines and their hash chain, ``sqlite`` the tables and transactions, ``ledger_file``
the stores (a file or memory) and ``ledger_display`` the printed form.

Imports: errors, privacy.
"""

from pymc_private.ledger.entry import Entry
from pymc_private.ledger.ledger import Ledger

__all__ = ["Entry", "Ledger"]
