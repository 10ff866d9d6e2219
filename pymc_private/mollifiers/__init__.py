"""Mollified sampling: draws from a law that any data set could nearly have had (T14, T15).

Imports: privacy, `samplers.randomness` and what a Release is made with; PyMC in `reference_pymc`
and `synthetic` only, scikit-learn in `boosting` and where a classifier is asked for.
"""

import importlib
from typing import Any
from pymc_private.mollifiers.mollified_distributions__hull import Hull
from pymc_private.mollifiers.local_model import LocalSampler
from pymc_private.mollifiers.local_model__local_draws import LocalDraws
from pymc_private.mollifiers.mollified import Mollified
from pymc_private.mollifiers.references import Box
from pymc_private.mollifiers.mollify import mollify
from pymc_private.mollifiers.window import Window

LAZY = {"MollifiedBoosting": "boosting", "synthesize": "synthetic"}
"""What is loaded when it is first asked for: scikit-learn takes a while."""


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
