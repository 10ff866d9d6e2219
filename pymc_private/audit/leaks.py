"""Leaks of a published object besides its draws: data, copies and side information.

All arrays, numbers and texts of the object are listed by their path. They are compared with
the secret columns (equal, reordered, scaled, rounded, summarized; with the chance of a
coincidence), their names with those of data-dependent quantities, and, if a twin made from the
same draws on neighboring data is given, with the twin's.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.privacy.argument_kinds import MAPPING, takes
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import refuse_mask

COPY_CHANCE = 1e-6
"""Values that agree by chance more often than this are no copy."""
SUMMARY_CHANCE = 0.01
"""A lone number is named with its chance, whatever that is; one among many only below this."""
MIN_RESIDUAL, DOUBLE_TOLERANCE, SINGLE_TOLERANCE = 1e-14, 1e-9, 1e-6
EXACT_RESIDUAL = 1e-5
"""A copy with a larger relative residual is called rounded or noisy."""
MAX_DEPTH = 12
FILE_SUFFIXES = (".nc", ".h5", ".hdf5", ".json")
FORMAT_ATTRIBUTES = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "_FillValue"}
"""Attributes that the format itself writes."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
TELLTALE_NAMES = {
    "lp|lp__|logp|log_prob|logprob|log_density|log_posterior|target_log_prob|log_lik|loglik|"
    "log_likelihood|energy|energy__|energy_error|max_energy_error|potential|potential_energy": (
        "log densities of the data"
    ),
    "seed|seeds|random_seed|random_state|rng|rng_key|rng_state": (
        "a seed: whoever has it replays the draws"
    ),
    "sampling_time|created_at|perf_counter_start|perf_counter_diff|process_time_diff|duration": (
        "times: how long a draw took depends on the data"
    ),
    "step_size|step_size_bar|stepsize|stepsize__|tree_depth|treedepth|treedepth__|n_steps|"
    "num_steps|n_leapfrog|n_leapfrog__|acceptance_rate|accept_prob|mean_accept_prob|accept_stat|"
    "accept_stat__|diverging|divergent|divergent__|accepted|tuning_steps|reached_max_treedepth|"
    "index_in_trajectory|smallest_eigval|largest_eigval|adapt_state": (
        "a sampler's statistics depend on the data"
    ),
}
"""Last names of parts that depend on the data, whatever they hold."""
DATA_GROUPS = ("observed_data", "constant_data", "predictions_constant_data", "log_likelihood")
CopyMatch = tuple[str, float]
"""What was found, in words around the name of the column, and the chance of a coincidence."""


@dataclass(frozen=True)
class Leak:
    """Part of a published object that depends on the data beside its draws.

    Parameters
    ----------
    where : str
        Path within the object.
    what : str
    coincidence : float
        Probability that values fixed without the data agree with them as well, at most, if every
        value between the bounds of the data, in decimal steps of theirs, were equally likely; 0
        where it is no matter of chance. A lone number that equals a mean or the like is reported
        whatever the probability: of data in coarse steps many numbers do.
    """

    where: str
    what: str
    coincidence: float = 0.0


@dataclass(frozen=True)
class ReleaseLeaks:
    """Leaks found in a published object.

    Parameters
    ----------
    found : tuple of Leak
    looked_at : int
        Arrays, numbers and texts looked at.
    """

    found: tuple[Leak, ...]
    looked_at: int

    @property
    def leaks(self) -> bool:
        """Whether anything was found; nothing found proves nothing."""
        return bool(self.found)

    def __repr__(self) -> str:
        if not self.found:
            return f"ReleaseLeaks(nothing found in {self.looked_at} parts)"
        lines = [
            f"  {leak.where}: {leak.what}"
            + (f" (chance: {format_number(leak.coincidence)})" if leak.coincidence else "")
            for leak in self.found
        ]
        return "\n".join([f"ReleaseLeaks: {len(self.found)} of {self.looked_at} parts", *lines])


@takes(secrets=MAPPING.optional)
def release_leaks(
    published: Any,
    secrets: Mapping[str, Any] | None = None,
    *,
    twin: Any = None,
    draws: tuple[str, ...] = (),
) -> ReleaseLeaks:
    """Look through anything that is about to be published.

    Three questions. Are the secrets in it: as they are, in another order, scaled, rounded, or as a
    sum, mean, deviation or variance? Does a part bear the name of something that depends on the
    data? And if a twin is given, the same thing made from *the same draws* on neighboring data:
    which parts differ?

    Parameters
    ----------
    published : object
        InferenceData, DataTree, Dataset, Release, dict, list, data frame, array, text, any plain
        object, or the path of a netCDF or JSON file.
    secrets : mapping of str to array, shape (n, ...), optional
        The private variables.
    twin : object, optional
        What would have been published of neighboring data with these very draws; what differs is a
        leak for certain.
    draws : tuple of str
        Parts of a path that may differ although the draws are meant to be the same.

    Returns
    -------
    ReleaseLeaks

    Raises
    ------
    DomainError
        Neither secrets nor a twin; a secret that is no array of numbers.

    Notes
    -----
    Finding nothing proves nothing: functions, what lies more than 12 levels deep, and what was
    computed from several columns are not looked at, and only a twin shows what bears another name.

    Examples
    --------
    >>> secret = np.array([3.1, 2.7, 5.5, 0.4])
    >>> print(release_leaks({"mean": 2.925, "n": 4, "x": [0.1]}, {"y": secret}))
    ReleaseLeaks: 1 of 3 parts
      mean: equals the mean of 'y' (chance: 0.1154)
    """
    if secrets is None and twin is None:
        raise DomainError("nothing to compare with", do="give the secrets, a twin, or both")
    parts = released_values(published)
    found = [leak for part in parts for leak in _named_leaks(part)]
    for name, secret in (secrets or {}).items():
        array = _secret_array(name, secret)
        found += [leak for part in parts for leak in _secret_leaks(part, name, array)]
    if twin is not None:
        found += _twin_leaks(parts, released_values(twin), draws)
    unique = {(leak.where, leak.what): leak for leak in found}
    return ReleaseLeaks(tuple(unique.values()), len(parts))


def _named_leaks(part: ReleasedValue) -> list[Leak]:
    steps = re.split(r"[./]", part.path)
    while len(steps) > 1 and (steps[-1] == "values" or steps[-1].startswith("[")):
        steps.pop()  # a part of the thing that bears the name
    for names, what in TELLTALE_NAMES.items():
        if steps[-1].lower() in names.split("|"):
            return [Leak(part.path, what)]
    for group in DATA_GROUPS:
        if group in steps[:-1] and "attrs" not in steps:
            return [Leak(part.path, f"is in {group}, a group for the data")]
    return []


def _secret_array(name: str, secret: Any) -> np.ndarray:
    refuse_mask(secret, f"numbers of the secret {name!r}")
    array = np.asarray(secret)
    if array.dtype.kind not in "iufb" or array.ndim == 0:
        raise DomainError(
            f"the secret {name!r} is an array of numbers",
            got=str(array.dtype),
            allowed="an array of numbers, of one dimension or more",
            do="number its categories; np.atleast_1d of a single number",
        )
    return array.astype(float)


def _secret_leaks(part: ReleasedValue, name: str, secret: np.ndarray) -> list[Leak]:
    values = part.numbers
    if values is None:
        return []
    columns = secret.reshape(len(secret), -1).T
    named = [f"{name!r}"] if len(columns) == 1 else [
        f"column {k} of {name!r}" for k in range(len(columns))
    ]  # fmt: skip
    leaks = []
    for label, column in zip(named, columns, strict=True):
        found = find_copy(column, values) or find_summary(column, values, part.is_single)
        if found is not None:
            leaks.append(Leak(part.path, found[0].format(label), found[1]))
    return leaks


def _twin_leaks(
    parts: list[ReleasedValue], twins: list[ReleasedValue], draws: tuple[str, ...]
) -> list[Leak]:
    own, other = ({leaf.path: leaf for leaf in leaves} for leaves in (parts, twins))
    leaks = []
    for path in dict.fromkeys([*own, *other]):
        if any(name in path for name in draws):
            continue
        if path not in own or path not in other:
            leaks.append(Leak(path, "is there for one of the neighbors only"))
        elif not own[path].same_as(other[path]):
            leaks.append(Leak(path, "differs between neighbors although the draws are the same"))
    return leaks


@dataclass(frozen=True, eq=False)
class ReleasedValue:
    """One array, number or text of a published object, with its path."""

    path: str
    value: Any

    @property
    def numbers(self) -> np.ndarray | None:
        """The value as doubles, those in a text one after the other; None if there are none."""
        array = np.asarray(self.value)
        if array.dtype.kind in "SU":
            text = " ".join(map(_decoded_text, array.ravel().tolist()))
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

    def same_as(self, other: ReleasedValue) -> bool:
        """Whether two values are equal; NaN equals NaN."""
        first, second = np.asarray(self.value), np.asarray(other.value)
        if first.shape != second.shape or first.dtype.kind != second.dtype.kind:
            return False
        if first.dtype.kind == "f":
            return bool(np.array_equal(first, second, equal_nan=True))
        return bool(np.all(first == second))


def released_values(thing: Any) -> list[ReleasedValue]:
    """All values of an object, by path; see `release_leaks` for what it may be."""
    return list(_walk_values(thing, "", 0, set()))


def _walk_values(thing: Any, path: str, depth: int, seen: set[int]) -> Iterator[ReleasedValue]:
    if depth > MAX_DEPTH or thing is None or (callable(thing) and not hasattr(thing, "data_vars")):
        return
    # Only what is published is a file; a name inside it is a text.
    if not depth and isinstance(thing, str | Path) and Path(str(thing)).suffix in FILE_SUFFIXES:
        yield from _file_values(Path(str(thing)), path, depth)
        return
    if isinstance(thing, Path):
        thing = str(thing)
    if isinstance(thing, str | bytes | int | float | complex | bool | np.generic):
        yield ReleasedValue(path or "value", thing)
        return
    if id(thing) in seen:
        return
    parts = _named_parts(thing)
    if parts is None:
        yield ReleasedValue(path or "value", np.asarray(thing))
        return
    for name, part in parts:
        yield from _walk_values(
            part, f"{path}.{name}" if path else name, depth + 1, seen | {id(thing)}
        )


def _named_parts(thing: Any) -> list[tuple[str, Any]] | None:
    """Named parts of a container; None for an array."""
    if isinstance(thing, np.ndarray):
        if thing.dtype.names:
            return [(name, thing[name]) for name in thing.dtype.names]
        return None if thing.dtype.kind != "O" else _sequence_parts(thing.ravel().tolist())
    if hasattr(thing, "data_vars"):  # Dataset, DataTree
        return _dataset_parts(thing)
    if hasattr(thing, "dims") and hasattr(thing, "values"):  # DataArray
        coords = [(str(name), np.asarray(c.values)) for name, c in thing.coords.items()]
        return [("values", np.asarray(thing.values)), *coords, *_attribute_parts(thing)]
    if callable(getattr(thing, "groups", None)) and not isinstance(thing, Mapping):  # InferenceData
        return [(str(group), thing[group]) for group in thing.groups()] + _attribute_parts(thing)
    if isinstance(thing, Mapping):
        return [(str(name), part) for name, part in thing.items()]
    if hasattr(thing, "columns") and hasattr(thing, "to_numpy"):  # a data frame
        return [(str(name), thing[name].to_numpy()) for name in thing.columns] + _index_part(thing)
    if callable(getattr(thing, "to_numpy", None)):  # a series
        return [("values", thing.to_numpy()), *_index_part(thing)]
    if isinstance(thing, Sequence | Set):
        return _sequence_parts(list(thing))
    return _field_parts(thing)


def _dataset_parts(thing: Any) -> list[tuple[str, Any]]:
    arrays = [*thing.data_vars.items(), *getattr(thing, "coords", {}).items()]
    parts: list[tuple[str, Any]] = [(str(name), np.asarray(array.values)) for name, array in arrays]
    for name, array in arrays:
        parts += [(f"{name}.{key}", part) for key, part in _attribute_parts(array)]
    children = getattr(thing, "children", {})
    return [
        *parts,
        *_attribute_parts(thing),
        *((str(name), part) for name, part in children.items()),
    ]


def _attribute_parts(thing: Any) -> list[tuple[str, Any]]:
    attributes = getattr(thing, "attrs", None) or {}
    return [(f"attrs.{name}", part) for name, part in attributes.items()]


def _index_part(frame: Any) -> list[tuple[str, Any]]:
    index: Any = getattr(frame, "index", None)
    return [("index", index.to_numpy())] if hasattr(index, "to_numpy") else []


def _sequence_parts(items: list[Any]) -> list[tuple[str, Any]] | None:
    """Parts of a list: one array of numbers, columns of a table of records, or numbered parts."""
    if items and all(isinstance(item, int | float | np.number) for item in items):
        return [("values", np.asarray(items))]
    if len(items) > 1 and all(
        isinstance(i, Mapping) and i.keys() == items[0].keys() for i in items
    ):
        return [(str(name), [item[name] for item in items]) for name in items[0]]
    if len(items) > 1 and all(isinstance(item, list | tuple) for item in items):
        rows = [row for item in items if (row := _numeric_array(item)) is not None]
        if len(rows) == len(items) and len({row.shape for row in rows}) == 1:
            return [("values", np.stack(rows))]
    return _numbered_parts(items)


def _numeric_array(items: Any) -> np.ndarray | None:
    """Rows of a table as one array; None if they are not numeric."""
    try:
        array = np.asarray(items)
    except ValueError:  # rows of unequal lengths
        return None
    return array if array.dtype.kind in "iufb" else None


def _decoded_text(text: Any) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _numbered_parts(items: list[Any]) -> list[tuple[str, Any]]:
    return [(f"[{k}]", item) for k, item in enumerate(items)]


def _field_parts(thing: Any) -> list[tuple[str, Any]]:
    names = [field.name for field in fields(thing)] if is_dataclass(thing) else []
    names += list(getattr(thing, "__dict__", {}))
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    return [(name, getattr(thing, name)) for name in dict.fromkeys(names) if hasattr(thing, name)]


def _file_values(path: Path, name: str, depth: int) -> Iterator[ReleasedValue]:
    if path.suffix == ".json":
        yield from _walk_values(json.loads(path.read_text()), name, depth + 1, set())
        return
    import h5py

    with h5py.File(path, "r") as file:
        found: list[tuple[str, Any]] = [
            (f"attrs.{key}", value) for key, value in file.attrs.items()
        ]

        def visit(inner: str, node: Any) -> None:
            found.extend(
                (f"{inner}.attrs.{key}", value)
                for key, value in node.attrs.items()
                if key not in FORMAT_ATTRIBUTES and not key.startswith("_Netcdf4")
            )
            if isinstance(node, h5py.Dataset):
                found.append((inner, node[()]))

        file.visititems(visit)
    for inner, value in found:
        array = np.asarray(value)
        if array.dtype.kind in "iufbSUO":
            yield ReleasedValue(f"{name}.{inner}" if name else inner, array)


def find_copy(secret: np.ndarray, values: np.ndarray) -> CopyMatch | None:
    """Find a column of data in an array, exactly or transformed.

    "{}" in the returned words stands for the column. The chance is that of a column whose entries
    are independent and uniform over decimal steps between its bounds, against values fixed without
    it.

    Notes
    -----
    Let a column of n entries with L steps lie within r of the plane of all shifted and scaled
    copies of a row, in units of its width. The two entries where the row is least and greatest fix
    the other n - 2 to intervals of length 4 r: chance (4 r + 1 / L)^(n - 2), and n! as much in any
    order. A residual of a share s of the deviation is r = s sqrt(n) / 2.
    """
    present = np.isfinite(secret)
    n, levels = len(secret), _decimal_levels(secret[present])
    if n < 2 or present.sum() < 2 or levels <= 1.0:
        return None
    rows = _candidate_rows(values, n)
    everywhere = _contiguous_copies(values.ravel(), secret)
    chance = levels ** -float(present.sum()) * (len(rows) + everywhere[1])
    same = (rows == secret) | (np.isnan(rows) & np.isnan(secret))
    if chance < COPY_CHANCE and (same.all(axis=1).any() or everywhere[0]):
        return "holds {}", chance
    rows = rows[:, present]
    rows = rows[np.isfinite(rows).all(axis=1)]
    return _likeliest_copy(rows, secret[present], levels) if len(rows) else None


def _likeliest_copy(rows: np.ndarray, secret: np.ndarray, levels: float) -> CopyMatch | None:
    """Likeliest copy among rows: in the same order, or in any."""
    n = len(secret)
    for order, orders in (("", 0.0), (" in another order", math.lgamma(n + 1.0))):
        ordered = np.sort(secret) if order else secret
        tried = np.sort(rows, axis=1) if order else rows
        if order and (tried == ordered).all(axis=1).any():
            chance = math.log(len(rows)) + orders - n * math.log(levels)
            if chance < math.log(COPY_CHANCE):
                return "holds {} in another order", math.exp(chance)
        both = np.concatenate([tried, tried[:, ::-1]]) if order else tried
        residual = float(np.min(_relative_residuals(both, ordered)))
        width = 2.0 * residual * math.sqrt(n) + 1.0 / levels
        chance = math.log(len(rows)) + orders + (n - 2) * math.log(width)
        if chance < math.log(COPY_CHANCE):
            how = "shifted or scaled" if residual < EXACT_RESIDUAL else "rounded, or with noise"
            return f"holds {{}}{order}, {how}", math.exp(chance)
    return None


def _relative_residuals(rows: np.ndarray, secret: np.ndarray) -> np.ndarray:
    """Deviation of the column from the best shifted and scaled copy of each row, as a share."""
    with np.errstate(all="ignore"):
        centered = rows - rows.mean(axis=1, keepdims=True)
        unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
        own = secret - secret.mean()
        left = np.linalg.norm(own - (unit @ own)[:, None] * unit, axis=1) / np.linalg.norm(own)
    return np.where(np.isfinite(left), np.maximum(left, MIN_RESIDUAL), 1.0)


def find_summary(secret: np.ndarray, values: np.ndarray, is_single: bool) -> CopyMatch | None:
    """Find a sum, mean, deviation or variance of a column among numbers.

    Given all other entries, one entry takes at most one grid point for a sum to come out, and two
    for a deviation; the tolerance adds the grid points that it cannot distinguish. With `is_single`
    the values were stored in single precision.
    """
    secret, flat = secret[np.isfinite(secret)], values.ravel()
    n, levels = len(secret), _decimal_levels(secret)
    tolerance = SINGLE_TOLERANCE if is_single else DOUBLE_TOLERANCE
    if n < 2 or levels <= 1.0:
        return None
    step = float(np.ptp(secret)) / (levels - 1.0)
    summaries = _summary_values(secret)
    for word, value in summaries.items():
        close = np.abs(flat - value) <= tolerance * abs(value)
        if not close.any() or round(value, 1) == value:  # a round number could be anything
            continue
        if word in ("mean", "sum"):
            points = 1.0 + 2.0 * tolerance * abs(secret.sum()) / step
        else:
            points = 2.0 + 4.0 * n * secret.std(ddof=1) * math.sqrt(tolerance / (n - 1)) / step
        chance = min(1.0, points / levels * flat.size * len(summaries))
        if flat.size == 1 or chance < SUMMARY_CHANCE:
            return f"{'equals' if flat.size == 1 else 'holds'} the {word} of {{}}", chance
    return None


def _summary_values(secret: np.ndarray) -> dict[str, float]:
    return {
        "mean": float(secret.mean()),
        "sum": float(secret.sum()),
        "standard deviation": float(secret.std()),
        "sample deviation": float(secret.std(ddof=1)),
        "variance": float(secret.var()),
        "sample variance": float(secret.var(ddof=1)),
    }


def _decimal_levels(secret: np.ndarray) -> float:
    """Number of possible values: decimal steps between the least and the greatest entry."""
    width = float(np.ptp(secret)) if secret.size else 0.0
    for digits in range(13):
        step = 10.0**-digits
        if np.allclose(np.round(secret / step) * step, secret, rtol=0.0, atol=1e-14):
            return 1.0 + width / step
    return 1.0 + width * 1e12


def _candidate_rows(values: np.ndarray, n: int) -> np.ndarray:
    """All rows of n numbers along an axis, and of the flat array cut in rows or columns of n."""
    rows = [np.empty((0, n))]
    for axis, size in enumerate(values.shape):
        if size == n:
            rows.append(np.moveaxis(values, axis, -1).reshape(-1, n))
    if values.size and values.size % n == 0 and values.ndim == 1:
        rows += [values.reshape(-1, n), values.reshape(n, -1).T]
    return np.concatenate(rows)


def _contiguous_copies(flat: np.ndarray, secret: np.ndarray) -> tuple[bool, int]:
    """Whether the column occurs in a longer list, and at how many positions it could."""
    positions = len(flat) - len(secret) + 1
    if positions < 1:
        return False, 0
    starts = np.flatnonzero(flat[:positions] == secret[0])
    runs = (flat[start : start + len(secret)] for start in starts)
    return any(np.array_equal(run, secret, equal_nan=True) for run in runs), positions
