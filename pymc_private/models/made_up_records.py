"""Made-up records of a domain, and a model that holds them in the place of its data.

A rehearsal runs on these before a charge. They depend on the model, its domain and its number of
records alone: the model is copied without its data, and the seed is public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from pymc_private.models.compat import copy_with_arrays
from pymc_private.models.data_variables import Source
from pymc_private.models.prior import Simulator, restricted_draws
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.uniform_records import uniform_entries

Records = dict[str, np.ndarray]
"""Arrays of made-up records, by name of the private variable."""
RecordMaker = Callable[[PrivateModel], Records]
"""Makes records for a model without reading its data."""
REHEARSAL_SEED = 20261124
"""The public seed of made-up records and of the draw from them, which is thrown away."""
DISTINCT_RECORDS = 16
"""Different records; the others repeat them, since a grid evaluates equal records once."""


def stand_in_models(
    private: PrivateModel, kinds: Sequence[RecordMaker] | None = None
) -> Iterator[PrivateModel]:
    """The model with made-up records, of each kind that can be made."""
    for make in kinds or (uniform_records, corner_records, simulated_records):
        try:
            yield with_records(private, make(private))
        except MemoryError:
            raise
        except Exception:  # a domain of another kind, a model without a generator
            continue


def with_records(private: PrivateModel, records: Records) -> PrivateModel:
    """The model with other records; its own are not read."""
    base, variables = copy_with_arrays(
        private.base,
        [source.variable for source in private.sources],
        [records[source.name] for source in private.sources],
        private.n,
    )
    sources = [
        replace(source, variable=variable)
        for source, variable in zip(private.sources, variables, strict=True)
    ]
    # The graph of the factors stays: what was proved of it is found again by its identity.
    return replace(private, base=base, sources=tuple(sources))


def uniform_records(private: PrivateModel) -> Records:
    """Records uniform on their domain."""
    generator, found = np.random.default_rng(REHEARSAL_SEED), {}
    for source in private.sources:
        some = uniform_entries(
            source.domain, source.row_shape, DISTINCT_RECORDS, source.is_whole, generator
        )
        found[source.name] = _repeated(source, np.moveaxis(some, 0, source.axis))
    return found


def corner_records(private: PrivateModel) -> Records:
    """All records at one corner of their domain."""
    return {source.name: source.stand_in() for source in private.sources}


def simulated_records(private: PrivateModel) -> Records:
    """Records simulated at one draw from the prior, with covariates uniform on their domain."""
    seeds = np.random.SeedSequence(REHEARSAL_SEED)
    simulator = Simulator(private, DISTINCT_RECORDS, None, REHEARSAL_SEED)
    drawn = restricted_draws(private, 1, seeds)
    some = simulator.at({key: values[0] for key, values in drawn.items()})
    return {source.name: _repeated(source, some[source.name]) for source in private.sources}


def _repeated(source: Source, some: np.ndarray) -> np.ndarray:
    """Some records, in the domain and repeated to the number of the model's."""
    inside = source.domain.clip(some, source.axis)
    rows = np.arange(source.shape[source.axis]) % some.shape[source.axis]
    return np.ascontiguousarray(np.take(inside, rows, axis=source.axis)).astype(source.dtype)
