"""Made-up records of a model at given parameters: public samples, the same for the same seed.

Records come from the model's own generator, in blocks of one size, and are clipped into the domain
as data are. Where public entries differ from record to record, a block is one record for each of
the model's, so that a sample holds every kind in its own share. Nothing here reads the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_private.errors import Unsupported
from pymc_private.models.prior import Simulator
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.summaries.records.record_scores import WholeRecordDensity

BLOCK = 500
"""Records simulated at a time."""
MOST_ROWS = 100_000
"""Most records of a model whose public entries differ."""
SIMULATION_SEED = 20261124


@dataclass(frozen=True, eq=False)
class MadeUpRecords:
    """Simulated records: outcomes by name, records along the first axis, and their kinds (N,)."""

    outcomes: dict[str, np.ndarray]
    kinds: np.ndarray

    def __len__(self) -> int:
        return len(self.kinds)

    def part(self, index: np.ndarray) -> MadeUpRecords:
        """Some of the records."""
        return MadeUpRecords({k: v[index] for k, v in self.outcomes.items()}, self.kinds[index])

    @staticmethod
    def joined(samples: list[MadeUpRecords]) -> MadeUpRecords:
        """Several samples as one."""
        outcomes = {
            name: np.concatenate([one.outcomes[name] for one in samples])
            for name in samples[0].outcomes
        }
        return MadeUpRecords(outcomes, np.concatenate([one.kinds for one in samples]))


class RecordSimulator:
    """Simulates records of a model at parameter vectors.

    Parameters
    ----------
    private : PrivateModel
    density : WholeRecordDensity

    Raises
    ------
    Unsupported
        A likelihood without a generator, or public entries where the number of records is
        protected.
    """

    def __init__(self, private: PrivateModel, density: WholeRecordDensity) -> None:
        self.parameters, self.outcomes = density.parameters, density.outcomes
        differ = bool(density.kind_rows)
        if differ and private.neighbors == ADD_REMOVE:
            raise Unsupported(
                "public entries of records tell how many there are, which is protected",
                got=", ".join(density.kind_rows),
                allowed="records without public entries of their own",
                do='neighbors="substitute", where the number of records is public',
            )
        self._simulator = Simulator(
            private, private.n if differ else BLOCK, None, SIMULATION_SEED, most_rows=MOST_ROWS
        )
        rows = self._simulator.rows
        self._kinds = density.kinds if differ else np.zeros(rows, dtype=int)

    def draw(self, theta: np.ndarray, count: int, seed: int) -> MadeUpRecords:
        """At least `count` records at one parameter vector (p,): whole blocks."""
        natural = self.parameters.natural(np.asarray(theta, dtype=float)[None])
        point = {name: values[0] for name, values in natural.items()}
        self._simulator.reseed(seed)
        blocks = [self._block(point) for _ in range(-(-count // len(self._kinds)))]
        return MadeUpRecords.joined(blocks)

    def _block(self, point: dict[str, np.ndarray]) -> MadeUpRecords:
        found = self._simulator.outcomes(point)
        outcomes = {s.name: np.moveaxis(found[s.name], s.axis, 0) for s in self.outcomes}
        return MadeUpRecords(outcomes, self._kinds)
