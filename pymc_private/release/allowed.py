"""Allow-lists for the contents of a release: public facts, dimensions, number types and labels.

A release holds what these lists name and nothing else: facts by key and shape, variables with
the dims chain (size 1) and draw, numbers of a few types, and one coordinate per dim. The
checks look at names, shapes and types only, never at a drawn value, so they can run before a
charge.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import xarray as xr

from pymc_private.errors import DomainError
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.validation import check_storable_text


class ReleaseContents(Protocol):
    """What a `Release` holds, for functions that read one and stand below it."""

    @property
    def posterior(self) -> xr.Dataset:
        """The draws, dims chain = 1, draw, ..."""

    @property
    def guarantee(self) -> Guarantee:
        """What publishing the draws reveals at most."""

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts about the run."""

    @property
    def private(self) -> bool:
        """False if the draws came from a known seed."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the content, hex."""


def check_facts(
    facts: Mapping[str, Any], allowed: Mapping[str, tuple[Check, str]] | None = None
) -> dict[str, Any]:
    """Copy the facts of a release, refusing whatever is not on the list.

    Reads no draw and no data value, so it can (and should) run before a charge.

    Parameters
    ----------
    facts : mapping
        Keys of :data:`ALLOWED_FACTS`; values made of text, numbers, booleans, None, lists and
        dicts. NumPy scalars and tuples become their plain equals; arrays are refused.
    allowed : mapping, optional
        The list, with a check and a description of each key; default: :data:`ALLOWED_FACTS`.

    Returns
    -------
    dict
        An independent copy in plain JSON types.

    Raises
    ------
    DomainError
        An unknown key, a value of the wrong kind, or an array in disguise.
    """
    known = ALLOWED_FACTS if allowed is None else allowed
    unknown = sorted(set(map(str, facts)) - set(known))
    if unknown:
        raise DomainError(
            "A release tells public facts only, and these are not on its list.",
            got=", ".join(unknown),
            allowed=", ".join(known),
            do="leave them out: what the sampler saw stays with the curator",
        )
    plain = {key: _as_json(value, key) for key, value in facts.items()}
    for key, value in plain.items():
        fits, wanted = known[key]
        if not fits(value):
            raise DomainError(
                f"The fact {key!r} of a release has the wrong kind.",
                got=type(facts[key]).__name__,
                allowed=wanted,
            )
    return plain


def dump_json(value: object) -> str:
    """Write JSON in one way only (sorted keys, shortest floats), so equal facts are equal bytes."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def as_float(value: object) -> float:
    """Read a number that may be stored exactly, as text: ``"1/3"``, ``"0.5"``, ``"inf"``."""
    if isinstance(value, str):
        try:
            return float(Fraction(value))
        except ValueError:
            return float(value)
    return float(value)  # type: ignore[arg-type]


def _as_json(value: Any, key: str) -> Any:
    """Copy into JSON types. An error names the type, never the value."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        raise DomainError(f"The fact {key!r} holds a NaN.", allowed="numbers")
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, list | tuple):
        return [_as_json(item, key) for item in value]
    if isinstance(value, Mapping):
        items = {str(name): _as_json(item, f"{key}.{name}") for name, item in value.items()}
        return dict(sorted(items.items()))  # the same order before and after a file
    raise DomainError(
        f"The fact {key!r} of a release is not plain text or numbers.",
        got=type(value).__name__,
        allowed="text, numbers, booleans, None, lists and dicts of these",
        do="write it as text; an array or object could carry data out",
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_nonnegative_number(value: object) -> bool:
    """Check for a number that is not negative; text is a number if it reads as one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return as_float(value) >= 0
    except (ValueError, ZeroDivisionError):
        return False


def _is_anything(value: object) -> bool:
    return True  # already plain JSON


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_budget(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and set(value) == {"epsilon", "delta"}
        and all(map(_is_nonnegative_number, value.values()))
    )


def _is_charges(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(charge, dict)
        and set(charge) == {"label", "guarantee"}
        and isinstance(charge["label"], str)
        and isinstance(charge["guarantee"], str | dict)
        for charge in value
    )


def _is_pair(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(end, float | int) and not isinstance(end, bool) for end in value)
    )


def _is_ranges(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and all(
        box is None or (isinstance(box, list) and len(box) == 2) for box in value.values()
    )


COUNT_FACTS = {
    "method": str,
    "budget": str,
    "unit": str,
    "minimum": float,
    "families": dict,
    "expected_kl": dict,
    "r": dict,
    "alpha": dict,
    "noise": str,
    "scale": float,
    "total": float,
    "records_per_unit": int,
}
"""Public facts of a mechanism for counts, by type: all of them fixed before the counts are read,
except the total, which is public under substitution."""


def _is_count_facts(value: object) -> bool:
    return isinstance(value, dict) and all(
        key in COUNT_FACTS and isinstance(item, COUNT_FACTS[key]) for key, item in value.items()
    )


PRIOR_SCORES = (-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
"""Standard normal scores at which a release of posterior draws states quantiles of its prior."""


def _is_quantiles(value: object) -> bool:
    """Check for quantiles of each variable at `PRIOR_SCORES`, in order along the first axis."""
    return isinstance(value, dict) and all(
        isinstance(table, list) and len(table) == len(PRIOR_SCORES) and _is_ascending(table)
        for table in value.values()
    )


def _is_ascending(table: list) -> bool:
    """Whether a nested list is a finite array that ascends along its first axis."""
    try:
        array = np.asarray(table, dtype=float)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite(array).all() and (np.diff(array, axis=0) >= 0).all())


def _is_share(value: object) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value <= 1


Check = Callable[[object], bool]
_TEXT: tuple[Check, str] = (_is_text, "text")
_TEXTS: tuple[Check, str] = (_is_text_list, "a list of texts")
_NUMBER: tuple[Check, str] = (_is_nonnegative_number, "a number >= 0 (or its text)")
_PLAIN: tuple[Check, str] = (_is_anything, "plain JSON")

ALLOWED_FACTS: dict[str, tuple[Check, str]] = {
    "name": (lambda value: value is None or _is_text(value), "text or None"),
    "sampler": _TEXT,
    "claim": _TEXT,
    "distribution": _TEXT,
    "draws": (_is_count, "a whole number >= 1"),
    "epsilon": _NUMBER,
    "delta": _NUMBER,
    "neighbors": _TEXT,
    "records": _PLAIN,
    "domain": _PLAIN,
    "trim": _PLAIN,
    "power": _NUMBER,
    "clip": (_is_pair, "None or [lower, upper]"),
    "beta": (lambda value: value is None or _is_nonnegative_number(value), "None or a number >= 0"),
    "withheld": _TEXTS,
    "uncomputed": _TEXTS,
    "grid": _TEXT,
    "model": _TEXT,
    "certificate": _TEXT,
    "counts": (_is_count_facts, "what a release of counts tells: see `COUNT_FACTS`"),
    "charges": (_is_charges, "a list of {'label': text, 'guarantee': text or dict}"),
    "budget": (_is_budget, "None or {'epsilon': number, 'delta': number}"),
    "ledger_head": _TEXT,
    "ranges": (_is_ranges, "None or {variable: [lower, upper] or None}"),
    "prior_quantiles": (_is_quantiles, "{variable: quantiles at `PRIOR_SCORES`, ascending}"),
    "expected_share": (_is_share, "a number in [0, 1]"),
    "versions": (_is_text_map, "{package: version}, both text"),
    "citations": (_is_text_list, "a list of BibTeX entries"),
}
SAMPLE_DIMS = ("chain", "draw")
NUMBER_TYPES = "float32, float64, signed and unsigned integers, booleans"


def check_posterior(dataset: xr.Dataset, *, records: object = None) -> xr.Dataset:
    """Rebuild a posterior from its arrays, refusing what must not be released.

    Refused: dataset attributes, coordinates that do not label a dim of the draws, draw or chain
    numbers other than 0, 1, ... (a thinned index tells how long a sampler ran), labels of the
    records, several chains, missing dims and other types. Always removed: attributes and
    encodings of variables, the sign of zeros (one bit finer than any grid). Labels that are
    neither text nor numbers become their text.

    Parameters
    ----------
    dataset : xarray.Dataset
        Variables with dims ``chain`` (size 1), ``draw``, then their own.
    records : str or dict, optional
        Name of the records dim (or several: the keys of a dict are not dims and are ignored).

    Returns
    -------
    xarray.Dataset
        New, read-only arrays.

    Raises
    ------
    DomainError
        See above. Depends on shapes, names and types only, never on the drawn values.
    """
    _check_structure(dataset)
    _check_coords(dataset, records)
    _refuse_unstorable_names(dataset)
    draws = dataset.sizes["draw"]
    variables = {}
    for name in dataset.data_vars:
        variable = dataset.variables[name]  # a DataArray would gather all its coordinates
        _refuse_unsupported_variable(name, variable)
        ordered = variable.transpose(*SAMPLE_DIMS, ...)
        variables[name] = (ordered.dims, _read_only_copy(ordered.values))
    coords: dict[Hashable, object] = {"chain": np.arange(1), "draw": np.arange(draws)}
    for name in dataset.coords:
        if name not in SAMPLE_DIMS:
            coords[name] = _plain_labels(dataset.variables[name].values)
    return xr.Dataset(variables, coords=coords)


def content_fingerprint(dataset: xr.Dataset, header: str) -> str:
    """Hash a checked posterior and its header (SHA-256, hex): equal content, equal fingerprint."""
    digest = hashlib.sha256(
        header.encode(errors="surrogatepass")
    )  # damaged bytes can be hashed too
    for name in (*dataset.data_vars, *sorted(dataset.coords, key=str)):
        array = dataset.variables[name]
        values = array.values
        if values.dtype.kind == "U":  # the texts are content, the width of the array is not
            content = json.dumps(values.tolist()).encode()
        else:
            content = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()
        kind = values.dtype.kind + ("" if values.dtype.kind == "U" else str(values.dtype.itemsize))
        for part in (
            str(name).encode(),
            repr(array.dims).encode(),
            repr(array.shape).encode(),
            kind.encode(),
            content,
        ):
            digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _check_structure(dataset: xr.Dataset) -> None:
    """Refuse anything but one chain of variables without dataset attributes."""
    if not isinstance(dataset, xr.Dataset):
        raise DomainError(
            "The draws of a release come as an xarray.Dataset.",
            got=type(dataset).__name__,
            allowed="xarray.Dataset with dims chain, draw, ...",
            do="xarray.Dataset({name: (('chain', 'draw'), array)})",
        )
    if dataset.attrs:
        raise DomainError(
            "A posterior with attributes may carry data out.",
            got=", ".join(map(str, dataset.attrs)),
            allowed="no attributes: the release writes its own",
            do="build the dataset from arrays, or dataset.drop_attrs()",
        )
    if not dataset.data_vars:
        raise DomainError("A release without variables says nothing.", allowed="one or more")
    if dataset.sizes.get("chain") != 1 or not dataset.sizes.get("draw"):
        raise DomainError(
            "Independent draws form one chain of at least one draw.",
            got=", ".join(f"{dim} = {size}" for dim, size in dataset.sizes.items()),
            allowed="chain = 1, draw >= 1",
            do="to_arviz(chains=k) splits them later",
        )


def _check_coords(dataset: xr.Dataset, records: object) -> None:
    """Refuse coordinates that are not plain labels of a dim, or that label the records."""
    used = {dim for name in dataset.data_vars for dim in dataset.variables[name].dims}
    for name in dataset.coords:
        labels = dataset.variables[name]
        if name not in used or labels.dims != (name,):
            raise DomainError(
                f"The coordinate {name!r} does not label a dim of the draws.",
                allowed="one coordinate per dim, named like the dim",
                do=f"dataset.drop_vars({name!r})",
            )
        if isinstance(records, str) and name == records:
            raise DomainError(
                f"Labels of the records ({name!r}) never leave.",
                do=f"dataset.drop_vars({name!r})",
            )
        if name in SAMPLE_DIMS and not np.array_equal(labels.values, np.arange(labels.size)):
            raise DomainError(
                f"The numbers of the dim {name!r} tell how the sampler ran.",
                allowed="0, 1, 2, ...",
                do=f"dataset.drop_vars({name!r})",
            )


def _refuse_unstorable_names(dataset: xr.Dataset) -> None:
    """Refuse names and labels that no file can hold: null characters, lone surrogates."""
    for name in (*dataset.data_vars, *dataset.dims):
        check_storable_text(str(name), "the name of a variable or of a dim")
    for name in dataset.coords:
        labels = dataset.variables[name].values
        if labels.dtype.kind not in "biufmM":
            for label in labels:
                check_storable_text(str(label), f"a label of the dim {str(name)!r}", empty=True)


def _refuse_unsupported_variable(name: Hashable, array: xr.Variable) -> None:
    """Refuse a variable that is not drawn, or whose type is none of `NUMBER_TYPES`."""
    if not isinstance(name, str):
        raise DomainError(
            "A variable's name is text.",
            got=type(name).__name__,
            allowed="str",
            do="rename it: dataset.rename({old: new})",
        )
    if not set(SAMPLE_DIMS) <= set(array.dims):
        raise DomainError(
            f"The variable {name!r} is not drawn: it lacks a sample dim.",
            got=", ".join(map(str, array.dims)) or "no dims",
            allowed="chain, draw, ...",
            do="leave it out: constants and data stay with the curator",
        )
    kind = array.dtype.kind
    if kind not in "iub" and array.dtype not in (np.float32, np.float64):
        raise DomainError(
            f"The variable {name!r} has a type that a release does not carry.",
            got=str(array.dtype),
            allowed=NUMBER_TYPES,
        )


def _read_only_copy(values: np.ndarray) -> np.ndarray:
    """Copy an array in native byte order, read-only, with -0.0 as 0.0."""
    copy = np.array(values, dtype=values.dtype.newbyteorder("="), order="C", copy=True)
    if copy.dtype.kind == "f":
        copy += 0.0  # -0.0 + 0.0 is +0.0
    copy.flags.writeable = False
    return copy


def _plain_labels(labels: np.ndarray) -> np.ndarray:
    """Keep text, integer and float labels; write any other kind as text."""
    kind = labels.dtype.kind
    if kind in "iu":
        plain = labels.astype(np.int64)
    elif kind == "f":
        plain = labels.astype(np.float64)
    else:
        plain = np.array([str(label) for label in labels], dtype=np.str_)
    plain.flags.writeable = False
    return plain


def check_netcdf_names(posterior: xr.Dataset) -> None:
    """Refuse names that a netCDF file would read as groups.

    Raises
    ------
    DomainError
        A variable or a dim with a slash in its name.
    """
    names = sorted({str(name) for name in (*posterior.variables, *posterior.dims)})
    refused = [name for name in names if "/" in name]
    if refused:
        raise DomainError(
            "a release cannot be stored under such a name; nothing was charged",
            got=", ".join(refused),
            allowed="names of variables and dims without '/'",
            do="rename it in the model, for example with '_' or '::'",
        )
