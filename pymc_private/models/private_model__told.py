"""A private model in words: its records, domain, region, power and clip; never its data."""

from __future__ import annotations

import numpy as np
from typing import TYPE_CHECKING
from pymc_private.analysis import Interval as Bounds
from pymc_private.models.record_graph import RecordGraph
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

if TYPE_CHECKING:
    from pymc_private.models.private_model import PrivateModel

def described(private: PrivateModel) -> str:
    """Lines for people; under add/remove without the number of records."""
    data = ", ".join(f"{name} in {domain}" for name, domain in private.domain.items())
    boxes = [f"{k} in {_ends(v)}" for k, v in private.region.items()]
    if private.theta_l is not None:
        boxes.append(private.theta_l.words)
    region = ", ".join(boxes) or "untrimmed"
    if "prior_mass" in private.__dict__:  # counted already
        region += f"; keeps {private.prior_mass}"
    # Under add/remove the number of records is protected.
    count = "" if private.neighbors == ADD_REMOVE else f" of {private.n}"
    units = (
        f", in units of up to {private.records_per_unit}" if private.records_per_unit > 1 else ""
    )
    clip = f"\n  clip: {clip_words(private.graph)}" if private.graph.clip else ""
    coupled = "; some factor rows read several records" if private.graph.windows else ""
    return (
        f"PrivateModel (holds confidential data)\n"
        f"  one record: one {private.records}{count}; neighbors: {private.neighbors}{units}\n"
        f"  private: {data}\n  factors: {', '.join(private.graph.factors)}{coupled}\n"
        f"  region: {region}\n  power: {float(private.power):.6g}{clip}"
    )


def clip_words(graph: RecordGraph) -> str:
    """Where the log-likelihood of each record, or of each factor row, is kept."""
    low, high = graph.clip or (-np.inf, np.inf)
    each = "factor row" if graph.windows else "record"
    return f"each {each}'s log-likelihood in [{low:.12g}, {high:.12g}]"


def escaped(text: str) -> str:
    """Text for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _ends(bounds: Bounds) -> str:
    return f"[{np.min(bounds.lower):.4g}, {np.max(bounds.upper):.4g}]"
