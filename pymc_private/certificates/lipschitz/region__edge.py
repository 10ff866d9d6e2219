"""Points on the edge of Theta_L, where a search for the range begins."""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping
from pymc_private.analysis import Interval as Bounds
from pymc_private.certificates.lipschitz.region import ThetaL
from pymc_private.models.prior__prior_draws import in_region
from pymc_private.models.private_model import PrivateModel

FAR, HALVINGS = 64.0, 24
"""How far along a ray the edge is looked for, in lengths of the ray, and how finely."""


def points_of(private: PrivateModel, theta: ThetaL) -> list[dict[str, Bounds]]:
    """Points on the edge of the set, along rays from its start, for a search. Reads no data."""
    names = list(theta.others)
    rays = {name: theta.others[name] - theta.start[name] for name in names}
    count = len(rays[names[0]])
    near, far = np.zeros(count), np.full(count, FAR)
    for _ in range(HALVINGS):
        share = (near + far) / 2.0
        inside = in_region(private, _along(theta.start, rays, share))
        near, far = np.where(inside, share, near), np.where(inside, far, share)
    edge = _along(theta.start, rays, near)
    rows = [{name: edge[name][k] for name in names} for k in range(count)]
    rows.append(dict(theta.start))
    return [
        {name: Bounds.point(np.asarray(value, dtype=float)) for name, value in row.items()}
        for row in rows
    ]


def _along(
    start: Mapping[str, np.ndarray], rays: Mapping[str, np.ndarray], share: np.ndarray
) -> dict[str, np.ndarray]:
    return {
        name: start[name] + ray * share.reshape(-1, *(1,) * (ray.ndim - 1))
        for name, ray in rays.items()
    }
