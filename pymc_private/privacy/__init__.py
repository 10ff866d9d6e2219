"""What a promise is: guarantees, their formulas, and the ledger that keeps a budget.

Imports: errors; NumPy, SciPy.
"""

from pymc_private.privacy.bounded_range import br_delta, br_eps, br_tv, br_zcdp_tight
from pymc_private.privacy.gaussian import gdp_delta, gdp_eps
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.ledger import Ledger
from pymc_private.privacy.ledger_entry import Entry
from pymc_private.privacy.ledger_exact import Budget
from pymc_private.privacy.queries import dkw_halfwidth, psaqr_loss
from pymc_private.privacy.renyi import rdp_to_delta, rdp_to_eps, zcdp_to_delta, zcdp_to_eps

__all__ = [
    "Budget",
    "Entry",
    "Guarantee",
    "Ledger",
    "br_delta",
    "br_eps",
    "br_tv",
    "br_zcdp_tight",
    "dkw_halfwidth",
    "gdp_delta",
    "gdp_eps",
    "psaqr_loss",
    "rdp_to_delta",
    "rdp_to_eps",
    "zcdp_to_delta",
    "zcdp_to_eps",
]
