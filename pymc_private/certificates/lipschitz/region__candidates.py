"""Points at which one record may be able to do little, from the prior or the box alone."""

from __future__ import annotations

import numpy as np
from pymc_private.errors import DomainError, Unsupported
from pymc_private.certificates.lipschitz.variation import Variation
from pymc_private.models.prior__prior_draws import DRAWS, SEED, in_region, prior_draws
from pymc_private.models.private_model import PrivateModel

CALM = 32
"""Points that are also tried nearer to the middle of the prior."""


def drawn_or_none(private: PrivateModel) -> dict[str, np.ndarray] | None:
    """Prior draws; None where the prior cannot be drawn from."""
    try:
        return prior_draws(private)
    except (DomainError, Unsupported):
        return None


def candidates(
    private: PrivateModel, drawn: dict[str, np.ndarray] | None, ell: Variation
) -> dict[str, np.ndarray]:
    """Points of the box where the set may be: prior draws in it, else points of a finite box."""
    inside = np.zeros(1, dtype=bool) if drawn is None else in_region(private, drawn)
    if drawn is None or not inside.any():
        points = _uniform(private)
    else:
        points = {name: values[inside] for name, values in drawn.items()}
    return _with_calmer(private, points, ell)


def _with_calmer(
    private: PrivateModel, points: dict[str, np.ndarray], ell: Variation
) -> dict[str, np.ndarray]:
    """The points, and some of them drawn towards their middle: a set may be small."""
    best = np.argsort(ell.at(points))[:CALM]
    middle = {  # the mean of rows that sum to one does so too
        name: (np.median if private.box[name].within is None else np.mean)(values, axis=0)
        for name, values in points.items()
    }
    calmer = [
        {name: middle[name] + share * (v[best] - middle[name]) for name, v in points.items()}
        for share in (0.5, 0.25, 0.1, 0.0)
        if all(v.dtype.kind == "f" for v in points.values())
    ]
    return {name: np.concatenate([v, *(c[name] for c in calmer)]) for name, v in points.items()}


def _uniform(private: PrivateModel) -> dict[str, np.ndarray]:
    """Points of a finite box, the same each time."""
    loose = [name for name, b in private.box.items() if not b.is_finite or b.within is not None]
    if loose:
        raise DomainError(
            "Theta_L is looked for where the prior is, and this prior cannot be drawn from",
            got=", ".join(loose),
            allowed="proper priors without potentials, or a finite box for every parameter",
            do="trim by box={...} first",
        )
    rng = np.random.default_rng(SEED)
    return {
        name: b.lower + rng.random((DRAWS, *np.shape(b.lower))) * (b.upper - b.lower)
        for name, b in private.box.items()
    }
