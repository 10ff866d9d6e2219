"""The log posterior density of a private model with its data: envelopes on boxes, values at points.

This is the third use of the interval rules: data fixed, parameters in a box.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Iterator
from functools import reduce
from typing import Any
from pytensor.graph.basic import Variable
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy.rounding__power import float_down
from pymc_private.models.private_model import PrivateModel
from pymc_private.samplers.log_density import LogDensity, Slopes, joined
from pymc_private.samplers.hessian_bounds__curvature import Above
from pymc_private.samplers.log_density__graphs import Graphs

AT_ONCE = 2**17
"""Numbers in one array of a walk: boxes times records times directions."""
ROWS = 2**16
"""Records in one walk, where they may be taken apart."""


class Target:
    """log posterior density up to a constant, on the box of a trimmed model.

    Parameters
    ----------
    private : PrivateModel
        Every free variable inside a finite box.

    Notes
    -----
    Reads the data: only a charged draw may build one. Memory does not grow with the number of
    boxes asked for (they are walked in parts of `AT_ONCE` numbers), nor with the records beyond
    `ROWS` of them, where the model tells no records apart: then the likelihood is a sum over
    chunks of records, whose ends are added outward.
    """

    def __init__(self, private: PrivateModel) -> None:
        graph = private.graph
        self.names = list(private.shapes)
        self.shapes = [private.shapes[name] for name in self.names]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.lower = np.concatenate([np.ravel(private.box[n].lower) for n in self.names])
        self.upper = np.concatenate([np.ravel(private.box[n].upper) for n in self.names])
        inputs = [graph.parameters[name] for name in self.names]
        likelihood = graph.record.sum() * float_down(private.power)
        parts = list(_chunks(private))
        values = [likelihood + graph.prior] if len(parts) == 1 else [likelihood, graph.prior]
        graphs = [Graphs(value, inputs, self.shapes) for value in values]
        self.terms = [LogDensity(graphs[0], part) for part in parts]
        self.terms += [LogDensity(other, _data([other.source])) for other in graphs[1:]]

    @property
    def dimension(self) -> int:
        """Number of scalar coordinates."""
        return len(self.lower)

    @property
    def has_curvature(self) -> bool:
        """Whether slopes and second derivatives have graphs."""
        return all(term.graphs.has_curvature for term in self.terms)

    def ends(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Proved lower and upper ends of the log density at points, shape (N,)."""
        return self.on_boxes(points, points).value

    def values(self, points: np.ndarray) -> np.ndarray:
        """The log density at points of shape (N, d), in floats; -inf where it is no number."""
        if not len(points):
            return np.empty(0)
        with np.errstate(all="ignore"):
            found = self._sum(1, lambda term, part: term.at(points[part]), len(points))
        return np.where(np.isnan(found), -np.inf, found)

    def slopes_at(self, points: np.ndarray) -> np.ndarray:
        """Gradients at points, shape (N, d), in floats."""
        with np.errstate(all="ignore"):
            return self._sum(1, lambda term, part: term.slopes_at(points[part]), len(points))

    def hessians_at(self, points: np.ndarray) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        with np.errstate(all="ignore"):
            return self._sum(
                self._pairs, lambda term, part: term.hessians_at(points[part]), len(points)
            )

    def on_boxes(self, lower: np.ndarray, upper: np.ndarray) -> Slopes:
        """Proved ends of value and slopes on boxes with ends of shape (N, d)."""
        parts = []
        for part in self._parts(len(lower), 1):
            found = [term.on_boxes(lower[part], upper[part]) for term in self.terms]
            total = found[0]
            for more in found[1:]:
                total = Slopes(
                    _add(total.value, more.value), _add(total.slopes, more.slopes),
                    total.continuous & more.continuous, total.smooth & more.smooth,
                )  # fmt: skip
            parts.append(total)
        return joined(parts)

    def above(
        self, lower: np.ndarray, upper: np.ndarray, turn: np.ndarray, back: np.ndarray
    ) -> Above:
        """Matrices above all Hessians on boxes; see `curvature`."""
        parts = []
        for k in self._parts(len(lower), self._pairs):
            found = [term.above(lower[k], upper[k], turn[k], back[k]) for term in self.terms]
            parts.append(reduce(Above.__add__, found))
        return Above(
            *(np.concatenate([getattr(p, f) for p in parts]) for f in ("matrix", "loose", "fine"))
        )

    def unpack(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays by name from rows of coordinates, shape (draws, d) -> (draws, *shape)."""
        parts = np.split(points, np.cumsum(self.sizes)[:-1], axis=1)
        return {
            name: part.reshape(len(points), *shape)
            for name, part, shape in zip(self.names, parts, self.shapes, strict=True)
        }

    @property
    def _pairs(self) -> int:
        """Numbers per record in a walk for the curvature."""
        by_pairs = any(term.graphs.terms is None for term in self.terms)
        return self.dimension * (self.dimension + 1) // 2 if by_pairs else 1

    def _parts(self, count: int, directions: int) -> Iterator[slice]:
        largest = max(term.count for term in self.terms)
        step = max(1, AT_ONCE // (largest * directions))
        return (slice(k, k + step) for k in range(0, count, step))

    def _sum(self, directions: int, of: Any, count: int) -> np.ndarray:
        parts = [
            sum((of(term, part) for term in self.terms[1:]), of(self.terms[0], part))
            for part in self._parts(count, directions)
        ]
        return np.concatenate(parts)


def _chunks(private: PrivateModel) -> Iterator[dict[Variable, np.ndarray]]:
    """What the likelihood reads, in chunks of records where rows are alike."""
    graph, n = private.graph, private.n
    public = _data([graph.record, graph.prior])
    values = {s.name: s.values() for s in private.sources}
    apart = n > ROWS and not graph.pinned and not graph.windows
    for start in range(0, n if apart else 1, ROWS):
        part = slice(start, start + ROWS) if apart else slice(None)
        rows = {
            graph.data[s.name]: values[s.name][(slice(None),) * s.axis + (part,)]
            for s in private.sources
        }
        yield public | rows


def _data(graphs: list[Variable]) -> dict[Variable, np.ndarray]:
    return {v: v.get_value() for v in public_data(graphs)}


def _add(one: Any, two: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sums of ends, outward; a sum that is no number is infinite."""
    with np.errstate(all="ignore"):
        low, high = np.nextafter(one[0] + two[0], -np.inf), np.nextafter(one[1] + two[1], np.inf)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
