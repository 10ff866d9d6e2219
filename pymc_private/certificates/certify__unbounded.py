"""Why no finite bound is proved, and what would cure it."""

from __future__ import annotations

import numpy as np
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds, Trail
from pymc_private.errors import NotCertified
from pymc_private.models.domains import Categories, Domain
from pymc_private.certificates.range_bound__partition import Rows
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.data_variables import Source, candidates
from pymc_private.models.distributions import has_central_box

def open_ended(private: PrivateModel, trail: Trail, output: Variable) -> list[str]:
    """Parameters without ends that by themselves make the likelihood infinite."""
    names = {culprit.op for culprit in trail.culprits(output)}
    return [name for name, box in private.box.items() if name in names and not box.is_finite]


def not_certified(private: PrivateModel, rows: Rows) -> NotCertified:
    """Name what made the bound infinite, and what would cure it."""
    too_wide = beyond_support(private)
    if too_wide:
        return _impossible(too_wide)
    trail = rows.trail(private.box)
    culprits = trail.culprits(rows.output)
    known = [culprit for culprit in culprits if culprit.reason != "no rule"]
    names = sorted({name for culprit in known for name in culprit.reads})
    parameters = [name for name in names if name in private.box]
    open_ended = [name for name in parameters if not private.box[name].is_finite]
    # A neighbor of a record is one more entry of the same variable: "y[-1]" is of y.
    sources = {s.name for s in private.sources}
    read = [name for name in names if name not in private.box]
    data = sorted({v if v in sources else v.rsplit("[", 1)[0] for v in read})
    cures = []
    if len(known) < len(culprits):
        cures.append("clip each record's log-likelihood: pmp.clip(private, lower, upper)")
    if open_ended:
        cures.append(_bounding(private, open_ended))
    elif parameters:
        box = ", ".join(f"{name} in {_ends(private.box[name])}" for name in parameters)
        cures.append(f"trim further away from the edge ({box})")
    if data:
        cures.append(f"declare a smaller domain for {', '.join(data)}")
    return NotCertified(
        "no finite bound on one record's log-likelihood is proved",
        blame=tuple(str(culprit) for culprit in culprits),
        cure="; or ".join(cures) or "write this part of the likelihood with Ops that have a rule",
    )


def _bounding(private: PrivateModel, names: list[str]) -> str:
    """How to trim these."""
    listed, apart = ", ".join(names), [n for n in names if not _by_mass(private, n)]
    if not apart:
        return f"bound {listed}: pmp.trim(private, mass=0.99) or box={{...}}"
    return f"bound {listed}: pmp.trim(private, box={{...}}); mass= does not trim {', '.join(apart)}"


def _by_mass(private: PrivateModel, name: str) -> bool:
    return has_central_box(private.base, private.base[name])


def beyond_support(private: PrivateModel) -> list[tuple[Source, Domain]]:
    """Variables whose domain holds values of probability 0, with what their likelihood allows.

    They are not refused at once: clipped log-likelihoods are finite there too.
    """
    implied = {c.name: c.implied for c in candidates(private.base)}
    pairs = ((s, implied.get(s.name)) for s in private.sources)
    return [(s, allowed) for s, allowed in pairs if allowed is not None and _wider(s, allowed)]


def _wider(source: Source, allowed: Domain) -> bool:
    """Whether the domain holds more than the whole numbers that a likelihood allows.

    PyMC cuts the fraction off a number that it observes as a whole one.
    """
    if not isinstance(allowed, Categories):
        return False
    if isinstance(source.domain, Categories):
        return not set(np.trunc(source.domain.values)) <= set(allowed.values)
    ends = source.domain.bounds(source.row_shape)
    first, last = (np.ceil, np.floor) if source.is_whole else (np.trunc, np.trunc)
    low, high = np.min(first(ends.lower)), np.max(last(ends.upper))
    return bool(low < allowed.values[0] or high > allowed.values[-1])


def _impossible(too_wide: list[tuple[Source, Domain]]) -> NotCertified:
    names = ", ".join(source.name for source, _ in too_wide)
    return NotCertified(
        "no finite bound on one record's log-likelihood is proved: a record could take a value "
        "that its likelihood gives probability 0",
        blame=tuple(f"{s.name} in {s.domain}, of which {a} is possible" for s, a in too_wide),
        cure=f"leave the domain of {names} out: what the likelihood allows is known; or clip each "
        "record's log-likelihood: pmp.clip(private, lower, upper)",
    )


def _ends(bounds: Bounds) -> str:
    return f"[{np.min(bounds.lower):.4g}, {np.max(bounds.upper):.4g}]"
