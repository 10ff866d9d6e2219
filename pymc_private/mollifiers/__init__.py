"""Mollified sampling: draws from a distribution that stays close to a public one (T14, T15).

Imports: privacy, ledger, `samplers.randomness` and the room `release`; PyMC in `references`
and `synthetic` only, scikit-learn in `boosting` and where a classifier is asked for.
"""

import importlib
from typing import Any

from pymc_private.mollifiers.local_model import LocalDraws, LocalSampler
from pymc_private.mollifiers.mollified import Mollified
from pymc_private.mollifiers.mollified_distributions import Hull
from pymc_private.mollifiers.mollify import mollify
from pymc_private.mollifiers.references import Box
from pymc_private.mollifiers.window import Window

LAZY = {"MollifiedBoosting": "boosting", "synthesize": "synthetic"}
"""Names that are loaded at first use, since scikit-learn is slow to import."""


def __getattr__(name: str) -> Any:
    """Load `LAZY` names."""
    if name in LAZY:
        return getattr(importlib.import_module(f"{__name__}.{LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Box",
    "Hull",
    "LocalDraws",
    "LocalSampler",
    "Mollified",
    "MollifiedBoosting",
    "Window",
    "mollify",
    "synthesize",
]
