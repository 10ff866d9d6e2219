"""Probabilities in a network of tables, with some columns known and the others summed out."""

from __future__ import annotations

import graphlib
import numpy as np
from collections.abc import Mapping, Sequence
from pymc_private.errors import DomainError

Network = Mapping[str, tuple[str, ...]]
MOST_NUMBERS = 2**24
"""Numbers of one factor that are held at once; more rows are taken in turns."""


def in_order(network: Mapping[str, Sequence[str]] | None) -> dict[str, tuple[str, ...]]:
    """Give nodes and their parents, parents first.

    Raises
    ------
    DomainError
        An unknown or repeated parent, or a cycle.
    """
    if not isinstance(network, Mapping) or not network:
        raise DomainError(
            "a network names the parents of each node",
            got="no nodes" if isinstance(network, Mapping) else type(network).__name__,
            allowed='for example {"age": (), "income": ("age",)}',
        )
    parents = {
        str(node): (given,) if isinstance(given, str) else tuple(map(str, given))
        for node, given in network.items()
    }
    for node, given in parents.items():
        unknown = [name for name in given if name not in parents]
        if unknown or len(set(given)) < len(given):
            raise DomainError(
                f"the parents of {node!r} are other nodes of the network, each named once",
                got=", ".join(unknown or given),
            )
    try:
        order = tuple(graphlib.TopologicalSorter(parents).static_order())
    except graphlib.CycleError as error:
        raise DomainError(
            "a Bayesian network has no cycle", got=" <- ".join(map(str, error.args[1]))
        ) from None
    return {node: parents[node] for node in order}


def log_joint(
    tables: Mapping[str, np.ndarray], network: Network, codes: Mapping[str, np.ndarray],
    node: str | None = None,
) -> np.ndarray:  # fmt: skip
    """Log probability of what is known of each row, with one node kept apart.

    Parameters
    ----------
    tables : mapping of str to array
        Of each node, axes (parents..., node).
    network : mapping of str to tuple of str
    codes : mapping of str to array of int, shape (n,)
        Places of the known values; -1, or no column, where one is not known.
    node : str, optional
        Its own values are not looked at.

    Returns
    -------
    array, shape (n, values of node), or (n,) without a node
    """
    n = len(next(iter(codes.values())))
    width = () if node is None else (tables[node].shape[-1],)
    out = np.empty((n, *width))
    known = {name: place for name, place in codes.items() if name != node and name in network}
    hidden = np.stack([known.get(name, np.full(n, -1)) < 0 for name in network], axis=1)
    for pattern in np.unique(hidden, axis=0):
        rows = np.flatnonzero((hidden == pattern).all(axis=1))
        missing = {name for name, absent in zip(network, pattern, strict=True) if absent}
        for part in np.array_split(rows, _turns(tables, network, missing, len(rows))):
            here = {name: place[part] for name, place in known.items() if name not in missing}
            out[part] = _pattern(tables, network, here, node, len(part))
    return out


def _turns(tables: Mapping[str, np.ndarray], network: Network, missing: set[str], rows: int) -> int:
    free = [
        np.prod([s for name, s in zip((*network[node], node), t.shape, strict=True)
                 if name in missing], initial=1.0)
        for node, t in tables.items()
    ]  # fmt: skip
    return int(np.ceil(rows * max(free) / MOST_NUMBERS)) or 1


def _pattern(
    tables: Mapping[str, np.ndarray], network: Network, known: Mapping[str, np.ndarray],
    node: str | None, rows: int,
) -> np.ndarray:  # fmt: skip
    """Rows that know the same columns: tables without a free axis add up, the others multiply."""
    width = () if node is None else (tables[node].shape[-1],)
    logs = np.zeros((rows, *width))
    letters = {name: i + 1 for i, name in enumerate(network)}
    operands: list[object] = []
    for name, table in tables.items():
        axes = (*network[name], name)
        free = [axis for axis in axes if axis not in known]
        factor = _rows_first(table, axes, known)
        if not free:
            logs += np.log(factor).reshape(rows, *(1,) * len(width))
        elif free == [node]:
            logs += np.log(np.broadcast_to(factor, (rows, *width)))
        else:
            row = [0] if len(free) < factor.ndim else []
            operands += [factor, row + [letters[axis] for axis in free]]
    if not operands:
        return logs
    wanted = [] if node is None else [letters[node]]
    kept = wanted if any(w in ax for w in wanted for ax in operands[1::2]) else []  # type: ignore[operator]
    rowed = any(0 in ax for ax in operands[1::2])  # type: ignore[operator]
    summed = np.einsum(*operands, [0, *kept] if rowed else kept, optimize="greedy")  # type: ignore[call-overload]
    summed = summed if rowed else summed[None]
    if node is not None and not kept:
        summed = summed[..., None]
    return np.asarray(logs + np.log(summed))


def _rows_first(
    table: np.ndarray, axes: Sequence[str], known: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Look known values up, with the rows as first axis if any is known."""
    at = [i for i, axis in enumerate(axes) if axis in known]
    if not at:
        return table
    moved = np.moveaxis(table, at, range(len(at)))
    return np.asarray(moved[tuple(known[axes[i]] for i in at)])


def ancestral(
    tables: Mapping[str, np.ndarray], network: Network, n: int, generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw rows from the network, parents first: places of values."""
    found: dict[str, np.ndarray] = {}
    for node, parents in network.items():
        table = tables[node]
        if parents:
            rows = table[tuple(found[name] for name in parents)]
        else:
            rows = np.broadcast_to(table, (n, len(table)))
        upto = np.cumsum(rows, axis=1)
        target = generator.random((n, 1)) * upto[:, -1:]
        found[node] = np.minimum((upto < target).sum(axis=1), table.shape[-1] - 1)
    return found
