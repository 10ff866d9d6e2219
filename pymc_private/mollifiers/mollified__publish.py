"""From a promise and a way to draw to a Release: charge, then draw."""

from __future__ import annotations

import math
import numpy as np
import xarray as xr
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from pymc_private.posterior import assemble
from pymc_private.release import charge, charge__drawing
from pymc_private.release.charge import Offer, Where
from pymc_private.posterior.assemble__guards import check_names
from pymc_private.release.release import Release
from pymc_private.privacy import Guarantee
from pymc_private.privacy.rounding__printing import counted
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness, Uniform

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Plan:
    """What is to be released, all of it public but `values`.

    Attributes
    ----------
    guarantee : Guarantee
    delta : float
        At which the ledger enters it, where it has no pure epsilon there.
    draws : int
    reference : str
        Tells one reference law from another.
    shapes : mapping of str to tuple of int
        The variables of one draw.
    facts : mapping
        Public facts.
    values : callable
        ``(randomness, progress)`` to an array, shape (draws, numbers in one draw). Reads the data.
    """

    guarantee: Guarantee
    delta: float
    draws: int
    reference: str
    shapes: Mapping[str, tuple[int, ...]]
    facts: Mapping[str, Any]
    values: Callable[[Uniform, Progress], np.ndarray] = field(repr=False)

    @property
    def key(self) -> str:
        """What belongs to a name: everything public that a draw depends on."""
        shown = {k: v for k, v in self.facts.items() if k in ("model", "domain")}
        promise = self.guarantee.to_dict(), self.delta, self.draws
        return repr((promise, self.reference, dict(self.shapes), shown))


def publish(plan: Plan, where: Where, progressbar: bool) -> Release:
    """Charge, then draw; see `charge.publish`."""

    def drawn(seed: int | None) -> np.ndarray:
        randomness = SystemRandomness() if seed is None else SeededRandomness.from_seed(seed)
        with charge__drawing.silence(), charge__drawing.bar(plan.draws, progressbar) as progress:
            return plan.values(randomness, progress)

    offer = Offer(
        guarantee=plan.guarantee,
        delta=plan.delta,
        exact_delta=Fraction(plan.delta),
        key=plan.key,
        label=counted(plan.draws, "draw"),
        another="another law",
        rehearse=lambda: _rehearse(plan, where.name),
        draw=drawn,
        build=lambda values, told: _build(plan, values, where.name, told),
        depth=2,
    )
    return charge.publish(offer, where)


def _rehearse(plan: Plan, name: str | None) -> None:
    """Build the release on zeros: what would fail after the charge fails here."""
    width = sum(math.prod(shape) for shape in plan.shapes.values())
    release = _build(plan, np.zeros((plan.draws, width)), name, {})
    check_names(release.posterior)
    release.to_bytes()


def _build(
    plan: Plan, values: np.ndarray, name: str | None, told: Mapping[str, Any] | None
) -> Release:
    """Name the numbers and add public facts; without those of a ledger, it is a seeded one."""
    private = told is not None
    guarantee = plan.guarantee if private else charge.unprotected(plan.guarantee)
    facts = dict(plan.facts) | {
        "draws": plan.draws,
        "epsilon": guarantee.epsilon(plan.delta),
        "delta": plan.delta,
        "neighbors": guarantee.neighbors,
        "name": name,
        "versions": {package: assemble.version_of(package) for package in assemble.PACKAGES},
        "charges": [],
        "budget": None,
        "citations": [],
    }
    return Release(_dataset(plan, values), guarantee, facts | dict(told or {}), private=private)


def _dataset(plan: Plan, values: np.ndarray) -> xr.Dataset:
    variables, start = {}, 0
    for name, shape in plan.shapes.items():
        width = math.prod(shape)
        part = values[:, start : start + width].reshape(1, plan.draws, *shape)
        dims = [f"{name}_dim_{i}" for i in range(len(shape))]
        variables[name] = (("chain", "draw", *dims), part)
        start += width
    return xr.Dataset(variables)
