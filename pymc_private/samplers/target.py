"""The log posterior density of a private model with its data: bounds on boxes, values at points.

This is the third use of the interval rules: data fixed, parameters in a box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytensor
from pytensor.graph.basic import Variable

from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis import Trail, bounds, simplify
from pymc_private.analysis.continuity import is_continuous, moving_variables
from pymc_private.analysis.rows import Concrete
from pymc_private.models.pinning import public_data
from pymc_private.models.private_model import PrivateModel
from pymc_private.samplers.piecewise import Envelope, log_mass

CLOSE = 1e-6
"""Relative distance of the proved ends at a point below which they differ by rounding alone."""


class Target:
    """log posterior density up to a constant, on the box of a trimmed model.

    Parameters
    ----------
    private : PrivateModel
        Every free variable inside a finite box.

    Notes
    -----
    Reads the data: only a charged draw may build one.
    """

    def __init__(self, private: PrivateModel) -> None:
        graph = private.graph
        self.names = list(private.shapes)
        self.shapes = [private.shapes[name] for name in self.names]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.lower = np.concatenate([np.ravel(private.box[n].lower) for n in self.names])
        self.upper = np.concatenate([np.ravel(private.box[n].upper) for n in self.names])
        self._inputs = [graph.parameters[name] for name in self.names]
        log_density = graph.record.sum() * _float_down(private.power) + graph.prior
        self._value = simplify([log_density])[0]
        self._gradient = _gradient(self._value, self._inputs)
        outputs = [self._value, *self._gradient]
        self._moving = moving_variables(outputs, self._inputs)
        self._data = {graph.data[s.name]: s.values() for s in private.sources}
        self._data |= {v: v.get_value() for v in public_data(outputs)}
        self._fixed = _fixed_facts(outputs, self._moving, self._data)

    @property
    def dimension(self) -> int:
        """Number of scalar coordinates."""
        return len(self.lower)

    def at(self, point: np.ndarray) -> tuple[float, float]:
        """Proved lower and upper ends of the log density at one point."""
        fact = self._walk([self._value], point, point)[self._value]
        return float(fact.lower), float(fact.upper)

    def value(self, point: np.ndarray) -> float:
        """The log density at one point, in floats; -inf where it is no number.

        The middle of the proved ends. Where these are apart, an interval rule is loose even at a
        point (a cosine far out, 1 - p for a p next to 1): there the Ops themselves compute it.
        """
        low, high = self.at(point)
        if low == high or high - low <= CLOSE * (1.0 + abs(high)):
            return low / 2.0 + high / 2.0
        if np.isnan(low):
            return -np.inf
        values = self._parameters(point)
        return float(np.nan_to_num(Concrete(self._data | values)(self._value), nan=-np.inf))

    def envelope(self, lower: np.ndarray, upper: np.ndarray) -> Envelope:
        """An upper bound on a box: the tighter of the interval bound and the mean-value form.

        Mean-value form (Moore 1966): f(c + t) <= f(c) + sup over the box of <grad f, t>, where f is
        continuous on the box. There f is piecewise smooth, and PyTensor's gradient is its gradient
        almost everywhere; at a kink of |x| or max it picks one side, and the interval of its graph
        holds both. If that interval is bounded, f is Lipschitz, Clarke's generalized gradient lies
        in the interval, and Lebourg's mean-value theorem gives the bound (Clarke 1983, Theorems
        2.3.7 and 2.5.1).
        """
        trail = self._walk([self._value, *self._gradient], lower, upper)
        flat = trail[self._value]
        zero = np.zeros(self.dimension)
        constant = Envelope(_least_surprise(float(flat.upper)), zero, zero)
        if not self._gradient or not is_continuous(self._value, self._moving, trail):
            return constant
        slopes = [trail[g] for g in self._gradient]
        low = np.concatenate([np.ravel(s.lower) for s in slopes])
        high = np.concatenate([np.ravel(s.upper) for s in slopes])
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            return constant
        center = (lower + upper) / 2.0
        top = self.at(center)[1]
        if not np.isfinite(top):
            return constant
        # Slopes are widened a little for the rounding of t and of the sum below.
        slack = 1e-12 * (np.abs(low) + np.abs(high)) + 1e-300
        sloped = Envelope(top + 1e-12 * (1.0 + abs(top)), low - slack, high + slack)
        reach = np.maximum(np.abs(low), np.abs(high)) @ ((upper - lower) / 2.0)
        return (
            sloped if np.isfinite(reach) and _tighter(sloped, constant, upper - lower) else constant
        )

    def unpack(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays by name from rows of coordinates, shape (draws, d) -> (draws, *shape)."""
        parts = np.split(points, np.cumsum(self.sizes)[:-1], axis=1)
        return {
            name: part.reshape(len(points), *shape)
            for name, part, shape in zip(self.names, parts, self.shapes, strict=True)
        }

    def _walk(self, outputs: list[Variable], lower: np.ndarray, upper: np.ndarray) -> Trail:
        low, high = self._parameters(lower), self._parameters(upper)
        return bounds(outputs, self._fixed | {v: Bounds(low[v], high[v]) for v in self._inputs})

    def _parameters(self, point: np.ndarray) -> dict[Variable, np.ndarray]:
        """The coordinates of a point as the graph's inputs."""
        parts = np.split(point, np.cumsum(self.sizes)[:-1])
        return {
            variable: part.reshape(shape)
            for variable, part, shape in zip(self._inputs, parts, self.shapes, strict=True)
        }


def _float_down(power: Fraction) -> float:
    """Round a power towards more privacy, so that the certified range covers it."""
    nearest = float(power)
    return nearest if Fraction(nearest) <= power else math.nextafter(nearest, 0.0)


def _least_surprise(upper: float) -> float:
    return np.inf if np.isnan(upper) else upper


def _tighter(sloped: Envelope, constant: Envelope, width: np.ndarray) -> bool:
    half = width / 2.0
    return log_mass(sloped, half) < log_mass(constant, half)


def _gradient(value: Variable, inputs: Sequence[Variable]) -> list[Variable]:
    """Gradient graphs, or none where an Op has no gradient."""
    try:
        gradient = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception:  # of an Op that is not ours; a bound needs no gradient
        return []
    return simplify(gradient)


def _fixed_facts(
    outputs: Sequence[Variable], moving: set[Variable], data: dict[Variable, np.ndarray]
) -> dict[Variable, Bounds]:
    """Facts of what the moving part of the graph reads and no parameter moves, found once."""
    read = {v for m in moving if m.owner is not None for v in m.owner.inputs}
    edge = [v for v in (read | set(outputs)) if v not in moving]
    trail = bounds(edge, {v: Bounds.point(value) for v, value in data.items()})
    return {v: trail[v] for v in edge}
