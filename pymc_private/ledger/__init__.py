"""The ledger: a budget, what was charged to it, and the file that keeps both."""

from pymc_private.ledger.entry import Entry
from pymc_private.ledger.ledger import Ledger

__all__ = ["Entry", "Ledger"]
