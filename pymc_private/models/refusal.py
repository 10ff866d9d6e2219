"""Why there is no certificate: what made the bound infinite, and what would cure it."""

from __future__ import annotations

import numpy as np

from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis import Trail
from pymc_private.errors import NotCertified
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.row_bounds import RowBounds


def open_ended(private: PrivateModel, trail: Trail) -> list[str]:
    """Parameters without ends that by themselves make the likelihood infinite."""
    names = {culprit.op for culprit in trail.culprits(private.graph.record)}
    return [name for name, box in private.box.items() if name in names and not box.is_finite]


def not_certified(private: PrivateModel, rows: RowBounds, not_concave: str) -> NotCertified:
    """Name what made the bound infinite, and what would cure it.

    Parameters
    ----------
    private : PrivateModel
    rows : RowBounds
    not_concave : str
        Why there is no Gaussian bound either.
    """
    trail = rows.trail(private.box)
    culprits = trail.culprits(private.graph.record)
    names = sorted({name for culprit in culprits for name in culprit.reads})
    parameters = [name for name in names if name in private.box]
    open_ended = [name for name in parameters if not private.box[name].is_finite]
    data = [name for name in names if name not in private.box]
    cures = []
    if open_ended:
        cures.append(f"bound {', '.join(open_ended)}: pmp.trim(private, mass=0.99) or box={{...}}")
    elif parameters:
        box = ", ".join(f"{name} in {_ends(private.box[name])}" for name in parameters)
        cures.append(f"trim further away from the edge ({box})")
    if data:
        cures.append(f"declare a smaller domain for {', '.join(data)}")
    return NotCertified(
        "no finite bound on one record's log-likelihood is proved, nor on its gradient "
        f"({not_concave})",
        blame=tuple(str(culprit) for culprit in culprits),
        cure="; or ".join(cures) or "write this part of the likelihood with Ops that have a rule",
    )


def _ends(bounds: Bounds) -> str:
    return f"[{np.min(bounds.lower):.4g}, {np.max(bounds.upper):.4g}]"
