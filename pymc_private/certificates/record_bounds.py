"""All factor rows that read one record, as a function of that record and of its neighbors.

A record of a sequence is read by several factor rows, each of which reads other records too. Where
two datasets differ in that record alone, only these rows differ, and in both the neighbors are the
same. So R is the maximum over neighborhoods of a range as of a single record, the neighbors being
any (T1). It is at most the sum of the ranges of the factor rows one by one (T24).
"""

from __future__ import annotations

import itertools
import numpy as np
import pytensor.tensor as pt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pytensor.graph.basic import Variable
from pymc_private.analysis import simplify
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.errors import NotCertified
from pymc_private.models.sequences.windows import Window
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.record_likelihood__single_record import SingleRecord, single_record
from pymc_private.models.data_variables import Source

@dataclass(frozen=True, eq=False)
class Neighborhood:
    """Records that are read in the same way.

    Parameters
    ----------
    record : SingleRecord
        The sum of all factor rows that read one of them.
    readers : tuple of str
        The factor of each of these rows.
    first, count : int
        The first of the records, and how many there are.
    """

    record: SingleRecord
    readers: tuple[str, ...]
    first: int
    count: int


@dataclass(frozen=True, eq=False)
class _Reader:
    """A kind of factor rows, seen from the record at one offset."""

    window: Window
    row: SingleRecord
    offset: int

    def reads(self, record: int) -> bool:
        """Whether row record - offset exists."""
        return 0 <= record - self.offset < self.window.count


def neighborhoods(
    graph: RecordGraph,
    sources: Sequence[Source],
    n: int,
    shapes: Mapping[str, tuple[int, ...]],
) -> list[Neighborhood]:
    """Every way in which some record is read.

    Parameters
    ----------
    graph : RecordGraph
        With windows.
    sources : sequence of Source
    n : int
        Number of records.
    shapes : mapping of str to tuple of int
        Of the parameters.

    Raises
    ------
    NotCertified
        Rows of a factor differ by more than public arrays with one entry per row.
    """
    readers = [
        _Reader(window, row, offset)
        for window in graph.windows
        for row in [_one_row(graph, window, sources, shapes)]
        for offset in window.offsets
    ]
    members: dict[tuple[int, ...], list[range]] = {}
    for stretch in _stretches(readers, n):
        key = tuple(k for k, r in enumerate(readers) if r.reads(stretch.start))
        members.setdefault(key, []).append(stretch)
    return [
        _neighborhood([readers[k] for k in key], members[key], graph, sources, shapes)
        for key in members
        if key
    ]


def _stretches(readers: Sequence[_Reader], n: int) -> Iterator[range]:
    """Runs of records that the same readers read."""
    ends = {end for r in readers for end in (r.offset, r.offset + r.window.count)}
    edges = sorted({0, n, *(end for end in ends if end < n)})
    return (range(a, b) for a, b in itertools.pairwise(edges))


def _one_row(
    graph: RecordGraph,
    window: Window,
    sources: Sequence[Source],
    shapes: Mapping[str, tuple[int, ...]],
) -> SingleRecord:
    """A factor row without the rows axis."""
    inputs = window.sources(sources)
    own = replace(
        graph,
        record=window.shifted,
        data={source.name: variable for variable, source in inputs.items()},
        pinned=window.pinned,
        windows=(),
    )
    row = single_record(own, list(inputs.values()), window.count, shapes)
    if row is None:
        raise NotCertified(
            f"the rows of the factor '{window.name}' differ by more than public arrays",
            blame=(window.name,),
            cure="hold what differs from row to row in pm.Data with the records dim",
        )
    return row


def _neighborhood(
    readers: Sequence[_Reader],
    members: Sequence[range],
    graph: RecordGraph,
    sources: Sequence[Source],
    shapes: Mapping[str, tuple[int, ...]],
) -> Neighborhood:
    """The sum of the rows that read a record."""
    named = {s.name: s for s in sources}
    data = {s.name: _input(s, s.name) for s in sources}
    parameters = {
        name: v.type.clone(shape=shapes[name])(name=name) for name, v in graph.parameters.items()
    }
    records = np.concatenate([np.asarray(stretch) for stretch in members])
    others: dict[tuple[str, int], Variable] = {}
    public: dict[Variable, np.ndarray] = {}
    terms = []
    for reader in readers:
        swaps = {reader.row.parameters[name]: v for name, v in parameters.items()}
        for (name, offset), variable in reader.window.data.items():
            entry = reader.row.data[_row_name(reader.window, variable, sources)]
            place = offset - reader.offset
            if place and (name, place) not in others:
                others[name, place] = _input(named[name], f"{name}[{place:+d}]")
            swaps[entry] = others[name, place] if place else data[name]
        for entry, values in reader.row.public.items():
            fresh = entry.type(name=entry.name)
            public[fresh] = values[records - reader.offset]
            swaps[entry] = fresh
        terms.append(rebuild([reader.row.value], swaps)[0])
    total = simplify([pt.add(*terms) if len(terms) > 1 else terms[0]])[0]
    neighbors = {v: replace(named[name], name=str(v.name)) for (name, _), v in others.items()}
    record = SingleRecord(total, data, parameters, public, neighbors)
    names = tuple(reader.window.name for reader in readers)
    return Neighborhood(record, names, members[0].start, len(records))


def _row_name(window: Window, variable: Variable, sources: Sequence[Source]) -> str:
    """Under which name a row knows one of the window's inputs."""
    return window.sources(sources)[variable].name


def _input(source: Source, name: str) -> Variable:
    """One record's entry."""
    return pt.TensorType(source.dtype, shape=source.row_shape)(name=name)
