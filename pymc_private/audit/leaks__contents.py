"""All arrays, numbers and texts inside an object, by their path; no library is imported for it."""

from __future__ import annotations

import json
import re
import numpy as np
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

DEEPEST = 12
FILES = (".nc", ".h5", ".hdf5", ".json")
HOUSEKEEPING = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_FillValue"}
"""Attributes that the format itself writes."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


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
        """The value as doubles, those in a text one after the other; None if there are none."""
        array = np.asarray(self.value)
        if array.dtype.kind in "SU":
            text = " ".join(map(_decoded, array.ravel().tolist()))
            found = [float(number) for number in _NUMBER.findall(text)]
            return np.array(found) if found else None
        if array.dtype.kind in "mM":
            array = array.astype(np.int64)
        if array.dtype.kind == "c":
            array = np.stack([array.real, array.imag])
        return array.astype(float) if array.dtype.kind in "iufb" else None

    @property
    def is_single(self) -> bool:
        """Whether the value is stored with less than double precision."""
        dtype = np.asarray(self.value).dtype
        return dtype.kind == "f" and dtype.itemsize < 8

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
    # Only what is published is a file; a name inside it is a text.
    if not depth and isinstance(thing, str | Path) and Path(str(thing)).suffix in FILES:
        yield from _file(Path(str(thing)), path, depth)
        return
    if isinstance(thing, Path):
        thing = str(thing)
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
        if thing.dtype.names:
            return [(name, thing[name]) for name in thing.dtype.names]
        return None if thing.dtype.kind != "O" else _sequence(thing.ravel().tolist())
    if hasattr(thing, "data_vars"):  # Dataset, DataTree
        return _labeled(thing)
    if hasattr(thing, "dims") and hasattr(thing, "values"):  # DataArray
        coords = [(str(name), np.asarray(c.values)) for name, c in thing.coords.items()]
        return [("values", np.asarray(thing.values)), *coords, *_attributes(thing)]
    if callable(getattr(thing, "groups", None)) and not isinstance(thing, Mapping):  # InferenceData
        return [(str(group), thing[group]) for group in thing.groups()] + _attributes(thing)
    if isinstance(thing, Mapping):
        return [(str(name), part) for name, part in thing.items()]
    if hasattr(thing, "columns") and hasattr(thing, "to_numpy"):  # a data frame
        return [(str(name), thing[name].to_numpy()) for name in thing.columns] + _index(thing)
    if callable(getattr(thing, "to_numpy", None)):  # a series
        return [("values", thing.to_numpy()), *_index(thing)]
    if isinstance(thing, Sequence | Set):
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


def _index(frame: Any) -> list[tuple[str, Any]]:
    index: Any = getattr(frame, "index", None)
    return [("index", index.to_numpy())] if hasattr(index, "to_numpy") else []


def _sequence(items: list[Any]) -> list[tuple[str, Any]] | None:
    """A list of numbers is an array, one of records a table; any other has numbered parts."""
    if items and all(isinstance(item, int | float | np.number) for item in items):
        return [("values", np.asarray(items))]
    if len(items) > 1 and all(
        isinstance(i, Mapping) and i.keys() == items[0].keys() for i in items
    ):
        return [(str(name), [item[name] for item in items]) for name in items[0]]
    if len(items) > 1 and all(isinstance(item, list | tuple) for item in items):
        rows = [row for item in items if (row := _numeric(item)) is not None]
        if len(rows) == len(items) and len({row.shape for row in rows}) == 1:
            return [("values", np.stack(rows))]
    return _numbered(items)


def _numeric(items: Any) -> np.ndarray | None:
    """Rows of a table as one array, or None if they are none."""
    try:
        array = np.asarray(items)
    except ValueError:  # rows of unequal lengths
        return None
    return array if array.dtype.kind in "iufb" else None


def _decoded(text: Any) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


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
