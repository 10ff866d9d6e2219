"""All arrays, numbers and texts inside an object, by their path; no library is imported for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

DEEPEST = 12
FILES = (".nc", ".h5", ".hdf5", ".json")
HOUSEKEEPING = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_FillValue"}
"""Attributes that the format itself writes."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """One array, number or text.

    Parameters
    ----------
    path : str
    value : object
    """

    path: str
    value: Any

    @property
    def numbers(self) -> np.ndarray | None:
        """The value as doubles, or None if it is text."""
        array = np.asarray(self.value)
        return array.astype(float) if array.dtype.kind in "iufb" else None

    def same_as(self, other: Leaf) -> bool:
        """Whether two leaves hold the same; NaN equals NaN."""
        mine, its = np.asarray(self.value), np.asarray(other.value)
        if mine.shape != its.shape or mine.dtype.kind != its.dtype.kind:
            return False
        if mine.dtype.kind == "f":
            return bool(np.array_equal(mine, its, equal_nan=True))
        return bool(np.all(mine == its))


def contents(thing: Any) -> list[Leaf]:
    """List all leaves of an object: see `release_leaks` for what it may be."""
    return list(_walk(thing, "", 0, set()))


def _walk(thing: Any, path: str, depth: int, seen: set[int]) -> Iterator[Leaf]:
    if depth > DEEPEST or thing is None or (callable(thing) and not hasattr(thing, "data_vars")):
        return
    if isinstance(thing, str | Path) and Path(str(thing)).suffix in FILES:
        yield from _file(Path(str(thing)), path, depth)
        return
    if isinstance(thing, str | bytes | int | float | complex | bool | np.generic):
        yield Leaf(path or "value", thing)
        return
    if id(thing) in seen:
        return
    parts = _parts(thing)
    if parts is None:
        yield Leaf(path or "value", np.asarray(thing))
        return
    for name, part in parts:
        yield from _walk(part, f"{path}.{name}" if path else name, depth + 1, seen | {id(thing)})


def _parts(thing: Any) -> list[tuple[str, Any]] | None:
    """Named parts of a container; None for an array."""
    if isinstance(thing, np.ndarray):
        return None if thing.dtype.kind != "O" else _numbered(thing.ravel().tolist())
    if hasattr(thing, "data_vars"):  # Dataset, DataTree
        return _labeled(thing)
    if hasattr(thing, "dims") and hasattr(thing, "values"):  # DataArray
        return [("values", np.asarray(thing.values)), *_attributes(thing)]
    if callable(getattr(thing, "groups", None)) and not isinstance(thing, Mapping):  # InferenceData
        return [(str(group), thing[group]) for group in thing.groups()] + _attributes(thing)
    if isinstance(thing, Mapping):
        return [(str(name), part) for name, part in thing.items()]
    if hasattr(thing, "columns") and hasattr(thing, "to_numpy"):  # a data frame
        return [(str(name), thing[name].to_numpy()) for name in thing.columns]
    if isinstance(thing, list | tuple | set | frozenset):
        return _sequence(list(thing))
    return _fields(thing)


def _labeled(thing: Any) -> list[tuple[str, Any]]:
    arrays = [*thing.data_vars.items(), *getattr(thing, "coords", {}).items()]
    parts: list[tuple[str, Any]] = [(str(name), np.asarray(array.values)) for name, array in arrays]
    for name, array in arrays:
        parts += [(f"{name}.{key}", part) for key, part in _attributes(array)]
    children = getattr(thing, "children", {})
    return [*parts, *_attributes(thing), *((str(name), part) for name, part in children.items())]


def _attributes(thing: Any) -> list[tuple[str, Any]]:
    attributes = getattr(thing, "attrs", None) or {}
    return [(f"attrs.{name}", part) for name, part in attributes.items()]


def _sequence(items: list[Any]) -> list[tuple[str, Any]] | None:
    """A list of numbers is an array; any other list has numbered parts."""
    if items and all(isinstance(item, int | float | np.number) for item in items):
        return None
    return _numbered(items)


def _numbered(items: list[Any]) -> list[tuple[str, Any]]:
    return [(f"[{k}]", item) for k, item in enumerate(items)]


def _fields(thing: Any) -> list[tuple[str, Any]]:
    names = [field.name for field in fields(thing)] if is_dataclass(thing) else []
    names += list(getattr(thing, "__dict__", {}))
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    return [(name, getattr(thing, name)) for name in dict.fromkeys(names) if hasattr(thing, name)]


def _file(path: Path, name: str, depth: int) -> Iterator[Leaf]:
    if path.suffix == ".json":
        yield from _walk(json.loads(path.read_text()), name, depth + 1, set())
        return
    import h5py

    with h5py.File(path, "r") as file:
        found: list[tuple[str, Any]] = [
            (f"attrs.{key}", value) for key, value in file.attrs.items()
        ]

        def visit(place: str, node: Any) -> None:
            found.extend(
                (f"{place}.attrs.{key}", value)
                for key, value in node.attrs.items()
                if key not in HOUSEKEEPING and not key.startswith("_Netcdf4")
            )
            if isinstance(node, h5py.Dataset):
                found.append((place, node[()]))

        file.visititems(visit)
    for place, value in found:
        array = np.asarray(value)
        if array.dtype.kind in "iufbSUO":
            yield Leaf(f"{name}.{place}" if name else place, array)
