"""grid: exact draws from the posterior on a public finite grid, in floating point too.

Each record's log-likelihood is read at every point of the grid by intervals, and rounded to a
multiple of a public lattice: an integer that depends on that record alone. Integers add without
error, and a draw compares them by coins whose probability is exactly e^-gamma. What is proved of a
draw therefore holds for the very bits that leave, at the price of `tau`: |integer * lattice - log
likelihood| <= tau moves the range of a record by at most 4 tau.
"""

from __future__ import annotations

import itertools
import numpy as np
from collections.abc import Callable, Mapping
from fractions import Fraction
from pymc_private.analysis.batched_bounds import Batch
from pymc_private.errors import Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood__single_record import SingleRecord, single_record
from pymc_private.samplers.grid__lattice import CHUNK, Lattice, as_points, make_lattice
from pymc_private.samplers.randomness import Uniform, exp_coin

MOST_STAND_INS = 64
"""Records tried as a public one."""
LARGEST = 2.0**30
"""Of a log-likelihood: half a last place of it is at most a sixteenth of tau."""
Record = tuple[np.ndarray, ...]
"""One array per source, each of its row's shape."""


class Scores:
    """Integer log-likelihoods of single records at every point of a lattice.

    Raises
    ------
    Unsupported
        Rows of the model differ, or intervals know no record of the domain to within tau.

    Notes
    -----
    A walk holds one record and many points, so what is computed for a record cannot depend on
    another one, not even in its last bit. A record that intervals do not know to within tau at
    every point counts as `stand_in`, a public one: that is a map of each record by itself.
    """

    def __init__(self, private: PrivateModel, lattice: Lattice) -> None:
        record = single_record(private.graph, private.sources, private.n, private.shapes)
        if record is None:
            raise Unsupported(
                "a grid needs rows that are one and the same function of a record",
                got="rows that differ by how the model was written",
                do="hold what tells the records apart in pm.Data",
            )
        self._record, self._private, self._lattice = record, private, lattice
        self._inputs = [record.data[s.name] for s in private.sources]
        inputs = [*self._inputs, *record.public, *record.parameters.values()]
        self._batch = Batch(record.value, inputs, ())
        self._public = _flat_rows(record, private.n)
        self.stand_in = self._find_stand_in()

    @property
    def size(self) -> int:
        """Points of the lattice."""
        return len(self._lattice.points)

    def public_key(self, row: int) -> bytes:
        """What is public of a row, as bytes."""
        return self._public[row].tobytes()

    def of(self, record: Record, row: int) -> np.ndarray:
        """Log-likelihood in multiples of the lattice's unit, shape (K,).

        Parameters
        ----------
        record : tuple of array
        row : int
            Its place, for what is public of it.
        """
        found = self._known(record, row)
        return found if found is not None else self._stand_in_at(row)

    def _stand_in_at(self, row: int) -> np.ndarray:
        found = self._known(self.stand_in, row)
        if found is None:
            raise Unsupported("the public record is not known")  # it was, for every public row
        return found

    def _known(self, record: Record, row: int) -> np.ndarray | None:
        low, high = self._ends(record, row)
        near = high - low <= float(self._lattice.tau)
        if not np.all(near & (low >= -LARGEST) & (high <= LARGEST)):
            return None
        # Half of tau for the middle, an eighth for rounding, a sixteenth for the middle in floats.
        return np.round((low / 2 + high / 2) / float(self._lattice.unit)).astype(np.int64)

    def _ends(self, record: Record, row: int) -> tuple[np.ndarray, np.ndarray]:
        low, high = [], []
        public = {v: values[row] for v, values in self._record.public.items()}
        fixed = dict(zip(self._inputs, record, strict=True)) | public
        for start in range(0, len(self._lattice.points), CHUNK):
            columns = dict(self._lattice.columns(start, start + CHUNK))
            count = len(next(iter(columns.values())))
            given = {
                v: as_points(v, np.broadcast_to(x, (count, *np.shape(x)))) for v, x in fixed.items()
            }
            given |= {v: as_points(v, columns[n]) for n, v in self._record.parameters.items()}
            ends = self._batch.values(given)
            low.append(ends[0])
            high.append(ends[1])
        return np.concatenate(low), np.concatenate(high)

    def _find_stand_in(self) -> Record:
        """A corner of the domain that intervals know at every point, for every public row."""
        corners = [
            [np.asarray(c).astype(s.dtype) for c in s.domain.corners(s.row_shape)[:4]]
            for s in self._private.sources
        ]
        rows = np.unique(self._public, axis=0, return_index=True)[1].tolist()
        for record in itertools.islice(itertools.product(*corners), MOST_STAND_INS):
            if all(self._known(record, row) is not None for row in rows):
                return record
        raise Unsupported(
            "intervals do not know the log-likelihood of any record tried to within "
            f"tau = {float(self._lattice.tau):.3g} nats at every point of the grid",
            got=", ".join(self._private.graph.factors),
            do="trim away from where the likelihood is zero or infinite, or take another sampler",
        )


def _flat_rows(record: SingleRecord, n: int) -> np.ndarray:
    """What is public of each row, shape (n, numbers)."""
    parts = [np.reshape(values, (n, -1)) for values in record.public.values()]
    return np.hstack([np.zeros((n, 1)), *parts])


def total_scores(
    scores: Scores, private: PrivateModel, progress: Callable[[float], None] = lambda share: None
) -> list[int]:
    """Exact sum over all records at each point, equal records once. Reads the data."""
    rows = [np.moveaxis(s.values(), s.axis, 0) for s in private.sources]
    seen: dict[bytes, tuple[int, int]] = {}
    for i in range(private.n):
        key = scores.public_key(i) + b"".join(np.ascontiguousarray(r[i]).tobytes() for r in rows)
        first, times = seen.get(key, (i, 0))
        seen[key] = (first, times + 1)
    total = np.zeros(scores.size, dtype=object)  # Python's integers never overflow
    for done, (i, times) in enumerate(seen.values()):
        total = total + scores.of(tuple(r[i] for r in rows), i).astype(object) * times
        progress((done + 1) / len(seen))
    return [int(k) for k in total]


def draw_points(
    lattice: Lattice,
    totals: list[int],
    power: Fraction,
    draws: int,
    randomness: Uniform,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Independent draws whose law is exactly proportional to e^(prior + power * likelihood).

    Proposes a point uniformly and accepts it with probability e^(its log weight - the largest) by
    rational coins. At most K trials are expected per draw, whatever the data.

    Parameters
    ----------
    lattice : Lattice
    totals : list of int
        In multiples of the lattice's unit.
    power : Fraction
    draws : int
    randomness : Uniform
    progress : callable

    Returns
    -------
    array, shape (draws, d)
    """
    weights = [
        (int(prior) + power * total) * lattice.unit
        for prior, total in zip(lattice.log_prior, totals, strict=True)
    ]
    top = max(weights)
    gaps = [top - weight for weight in weights]
    found: list[int] = []
    while len(found) < draws:
        k = randomness.below(len(gaps))
        if exp_coin(randomness, gaps[k]):
            found.append(k)
            progress(len(found))
    return lattice.points[found]


def sample_grid(
    private: PrivateModel,
    draws: int,
    randomness: Uniform,
    progress: Callable[[int], None] = lambda done: None,
    points: int | None = None,
) -> Mapping[str, np.ndarray]:
    """Draws from the posterior on a public grid, by name, shape (draws, *shape). Reads the data."""
    lattice = make_lattice(private, points)
    totals = total_scores(Scores(private, lattice), private)
    drawn = draw_points(lattice, totals, private.power, draws, randomness, progress)
    at = Lattice(lattice.names, lattice.shapes, drawn, np.zeros(draws, dtype=np.int64))
    return dict(at.columns(0, draws))
