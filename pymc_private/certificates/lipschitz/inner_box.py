"""A box inside Theta_L: branch and bound over records proves ell <= L on it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.analysis import Bounds
from pymc_private.analysis.branch_and_bound import BoxEnclosure, Effort, maximize
from pymc_private.certificates.lipschitz.region import FARTHEST, MARGIN, checked_limit
from pymc_private.certificates.lipschitz.variation import Variation, variation
from pymc_private.certificates.range_objective import RangeObjective
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import (
    ADDITION_AT_ONE_POINT,
    SUBSTITUTION_AT_ONE_POINT,
    Contrast,
    Role,
    single_record,
)
from pymc_private.privacy.neighbors import ADD_REMOVE

ParameterBox = dict[str, tuple[np.ndarray, np.ndarray]]

WIDEST_TAIL, NARROWEST_TAIL = 1e-6, 0.4999
"""Share of a coordinate's prior outside of a tried box on each side: the least, the most."""

HALVINGS = 10

MOST_SIDES = 16
"""Sides that are moved outward one by one."""

EFFORT_PER_BOX = 200.0
"""Walks for one box."""


def find_inner_box(
    private: PrivateModel, limit: Any, central: Callable[[PrivateModel, float], ParameterBox]
) -> ParameterBox:
    """A box on which ell <= L is proved, as large as a search finds. Reads no data.

    The largest central box of the prior comes first, then each side is moved outward by itself.

    Parameters
    ----------
    private : PrivateModel
    limit : float
        L, in nats per record at power 1.
    central : callable
        Boxes that leave out a share of each coordinate's prior on each side.

    Raises
    ------
    DomainError
        L is no positive number, or no box around the center of the prior is proved.
    Unsupported
        Rows differ by how the model is written.
    """
    bound = checked_limit(limit)
    family = _central_boxes(private, central)
    widest = family(WIDEST_TAIL)
    prover = _Prover(private, bound * (1.0 - MARGIN), widest)
    tail = _least_tail(lambda t: prover.holds(family(t)))
    if tail is None:
        raise DomainError(
            "no box around the center of the prior is proved to lie within Theta_L",
            got=f"L = {bound:g}",
            allowed="a larger L",
            do="choose a larger L or a smaller domain, or take the set itself: shape='set'",
        )
    return _moved_outward(prover, family(tail), widest)


def _central_boxes(
    private: PrivateModel, central: Callable[[PrivateModel, float], ParameterBox]
) -> Callable[[float], ParameterBox]:
    """Boxes that leave out a share t of each coordinate on each side, within the model's own."""

    def of_prior(t: float) -> ParameterBox:
        box = private.box
        return {
            name: (np.maximum(low, box[name].lower), np.minimum(high, box[name].upper))
            for name, (low, high) in central(private, t).items()
            if np.all(low < box[name].upper) and np.all(high > box[name].lower)
        }

    def of_box(t: float) -> ParameterBox:
        return {
            name: (b.lower + t * (b.upper - b.lower), b.upper - t * (b.upper - b.lower))
            for name, b in private.box.items()
            if b.is_finite and b.within is None
        }

    try:
        of_prior(0.25)
    except DomainError:  # an improper prior: uniform on its box
        return of_box
    return of_prior


def _least_tail(holds: Callable[[float], bool]) -> float | None:
    """The least share left out for which a box is proved, by bisection of its logarithm."""
    if holds(WIDEST_TAIL):
        return WIDEST_TAIL
    low, high = math.log(WIDEST_TAIL), math.log(NARROWEST_TAIL)
    if not holds(NARROWEST_TAIL):
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _moved_outward(prover: _Prover, box: ParameterBox, widest: ParameterBox) -> ParameterBox:
    """The box with each side moved as far out as is proved, one after the other."""
    sides = [
        (name, side, index)
        for name, (low, _) in box.items()
        for index in np.ndindex(np.shape(low))
        for side in (0, 1)
    ]
    if len(sides) > MOST_SIDES:
        return box
    for name, side, index in sides:
        far = float(widest[name][side][index])
        near = float(box[name][side][index])
        share, step = 0.0, 1.0  # of the way from near to far
        for _ in range(HALVINGS):
            tried = min(share + step, 1.0)
            moved = _with_side(box, name, side, index, near + tried * (far - near))
            if prover.holds(moved):
                share = tried
                if share == 1.0:
                    break
            step /= 2.0
        box = _with_side(box, name, side, index, near + share * (far - near))
    return box


def _with_side(
    box: ParameterBox, name: str, side: int, index: tuple[int, ...], value: float
) -> ParameterBox:
    """The box with one bound of one entry replaced."""
    pair = [np.array(bound, dtype=float) for bound in box[name]]
    pair[side][index] = value
    return box | {name: (pair[0], pair[1])}


class _Prover:
    """Proves ell <= limit on boxes inside a widest one."""

    def __init__(self, private: PrivateModel, limit: float, widest: ParameterBox) -> None:
        record = single_record(private.graph, private.sources, private.n, private.shapes)
        if record is None:
            raise Unsupported(
                "a box within Theta_L needs rows that are equivalent",
                got="rows that differ by how the model is written",
                allowed="rows that differ by data variables only",
                do="trim by mass= or box=",
            )
        self.private, self.record, self.limit = private, record, limit
        self._ell = _variation_or_none(private)
        self.contrasts = (
            ADDITION_AT_ONE_POINT if private.neighbors == ADD_REMOVE else SUBSTITUTION_AT_ONE_POINT
        )
        self._made = {
            (contrast, together): self._objective(self._box(widest), contrast, together)
            for contrast in self.contrasts
            for together in (False, True)
        }

    def holds(self, tried: ParameterBox) -> bool:
        """Whether ell <= limit is proved on a box.

        The graph of ell decides most boxes at once: by its values at corners, or by its bounds.
        """
        box = self._box(tried)
        if self._ell is not None:
            corners = _corners(box, self._ell)
            if np.any(self._ell.within(corners, corners)[0] > self.limit):
                return False
            if self._ell.within(*_variation_inputs(box, self._ell))[1][0] <= self.limit:
                return True
        return all(
            any(self._is_proved(box, contrast, together) for together in (False, True))
            for contrast in self.contrasts
        )

    def _box(self, tried: ParameterBox) -> dict[str, Bounds]:
        box = dict(self.private.box)
        for name, (low, high) in tried.items():
            box[name] = Bounds(low, high, box[name].within)
        return box

    def _objective(
        self, box: dict[str, Bounds], contrast: Contrast, together: bool
    ) -> RangeObjective:
        return RangeObjective(self.record, self.private.sources, box, contrast, together=together)

    def _is_proved(self, box: dict[str, Bounds], contrast: Contrast, together: bool) -> bool:
        objective = self._made[contrast, together]
        if objective.is_cut or not objective.is_feasible:  # made for one box
            objective = self._objective(box, contrast, together)
        if objective.is_constant:
            return True
        if not objective.is_feasible:
            return False
        effort = Effort(EFFORT_PER_BOX / objective.cost)
        bracket = maximize(
            _ThresholdObjective(objective, self.limit, effort),
            *_objective_roots(objective, box),
            goal=lambda _: 0.0,
            effort=effort,
        )
        return bracket.upper <= self.limit * (1.0 + MARGIN / 2.0)


@dataclass(eq=False)
class _ThresholdObjective:
    """An objective whose values matter only where they exceed a limit."""

    inner: RangeObjective
    limit: float
    effort: Effort

    def __post_init__(self) -> None:
        self.smooth, self.whole = self.inner.smooth, self.inner.whole

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> BoxEnclosure:
        return self.inner.enclose(lower, upper)

    def tighten(
        self, lower: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.inner.tighten(lower, upper)

    def attained(self, points: np.ndarray) -> np.ndarray:
        """Values, or the limit where it is greater, so that boxes below it are discarded."""
        found = self.inner.attained(points)
        if np.any(found > self.limit):
            self.effort.units = 0.0  # refuted
        return np.maximum(found, self.limit)


def _objective_roots(
    objective: RangeObjective, box: dict[str, Bounds]
) -> tuple[np.ndarray, np.ndarray]:
    """The objective's root boxes, with the parameters confined to a smaller box."""
    lower, upper = (side.copy() for side in objective.roots())
    for column in objective.coordinates.columns:
        name = str(column.variable.name)
        if column.role is Role.POINT and not objective.is_cut and not column.is_whole:
            place = objective.coordinates.of(column, (0, 0))
            lower[:, place], upper[:, place] = np.ravel(box[name].lower), np.ravel(box[name].upper)
    return lower, upper


def _variation_or_none(private: PrivateModel) -> Variation | None:
    try:
        return variation(private)
    except Unsupported:
        return None


def _variation_inputs(
    box: dict[str, Bounds], ell: Variation
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A box in the form of the arguments of `Variation.within`."""
    return (
        {name: np.asarray(box[name].lower)[None] for name in ell.parameters},
        {name: np.asarray(box[name].upper)[None] for name in ell.parameters},
    )


def _corners(box: dict[str, Bounds], ell: Variation) -> dict[str, np.ndarray]:
    """Corners of a box, the same each time: all of them if they are few."""
    size = sum(np.size(box[name].lower) for name in ell.parameters)
    if size <= 6:
        signs = np.array(list(itertools.product((0, 1), repeat=size)))
    else:
        signs = np.random.default_rng(20260104).integers(0, 2, (64, size))
        signs[0], signs[1] = 0, 1
    found, start = {}, 0
    for name in ell.parameters:
        low, high = (
            np.clip(side, -FARTHEST, FARTHEST) for side in (box[name].lower, box[name].upper)
        )
        part = signs[:, start : start + low.size].reshape(len(signs), *low.shape)
        start += low.size
        found[name] = np.where(part, high, low)
    return found
