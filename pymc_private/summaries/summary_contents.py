"""What a stored summary holds: noisy numbers, public facts, and their form as netCDF.

A summary holds the arrays of its mechanism, each of plain numbers, and facts of the list below.
The checks look at names, shapes and types only. Equal summaries are equal to the byte: no time,
place or user is written.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.validation import check_storable_text
from pymc_private.release.allowed import ALLOWED_FACTS, check_facts, content_fingerprint, dump_json
from pymc_private.release.storage import HEADER, group_to_bytes
from pymc_private.summaries.protocol import Released

FORMAT = 1
GROUP, GROUP_OF_SEVERAL = "summary", "summaries"
"""The group of the netCDF file, of one summary and of several."""
RELEASE_FACTS = (
    "name", "claim", "epsilon", "delta", "neighbors", "records", "domain", "trim", "withheld",
    "model", "charges", "budget", "ledger_head", "versions", "citations",
)  # fmt: skip
"""Facts that a summary shares with releases of draws."""
NUMBER_KINDS = "float64, integers, booleans"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)


def _is_cautions(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and set(one) == {"text", "refuse"}
        and isinstance(one["text"], str)
        and isinstance(one["refuse"], bool)
        for one in value
    )


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_object(value: object) -> bool:
    return value is None or isinstance(value, dict)


SUMMARY_FACTS = {
    "method": (_is_text, "text"),
    "label": (_is_text, "text"),
    "mechanism": (_is_object, "public facts of the mechanism"),
    "parameters": (_is_names, "names of the parameters"),
    "size": (_is_count, "the number of parameters"),
    "n": (_is_count, "the number of records where it is public, else None"),
    "guess": (_is_count, "a public guess of the number of records, or None"),
    "asked": (_is_number, "the epsilon that was asked for"),
    "information": (_is_number, "expected information in nats"),
    "share": (_is_number, "expected share of the prior variance removed"),
    "verdict": (_is_text, "text"),
    "declaration": (_is_text, "the fingerprint of what was declared"),
    "coverage": (_is_object, "what simulations found, or None"),
    "together": (_is_object, "how many summaries were released at once, and what is shared"),
    "cautions": (_is_cautions, "a list of {'text': text, 'refuse': bool}"),
}
"""Public facts of a summary alone, each with a check and its description."""


def check_summary_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the facts of a summary in plain JSON types, refusing whatever is not on the list.

    Raises
    ------
    DomainError
        An unknown key, a value of the wrong kind, or an array in disguise.
    """
    allowed = {key: ALLOWED_FACTS[key] for key in RELEASE_FACTS} | SUMMARY_FACTS
    return check_facts(facts, allowed)


def check_released(arrays: Mapping[str, Any]) -> Released:
    """Read-only copies of released arrays, refusing what is no plain array of numbers.

    Raises
    ------
    DomainError
        No arrays, a name that cannot be stored, or another type. Depends on names, shapes and
        types only, never on a released value.
    """
    if not arrays:
        raise DomainError("a summary without numbers says nothing", allowed="one array or more")
    found = {}
    for name in arrays:
        if not isinstance(name, str) or not name or "/" in name:
            raise DomainError(
                "an array of a summary has a name without '/'",
                got=repr(name)[:40],
                allowed="text without '/'",
            )
        check_storable_text(name, "the name of an array")
        values = np.asarray(arrays[name])
        if values.dtype != np.float64 and values.dtype.kind not in "iub":
            raise DomainError(
                f"the array {name!r} has a type that a summary does not carry",
                got=str(values.dtype),
                allowed=NUMBER_KINDS,
            )
        copy = np.array(values, dtype=values.dtype.newbyteorder("="), order="C", copy=True)
        if copy.dtype.kind == "f":
            copy += 0.0  # -0.0 + 0.0 is +0.0
        copy.flags.writeable = False
        found[name] = copy
    return found


def other_shapes() -> Incompatible:
    """The error of a release whose shapes differ from its rehearsal's: they would tell of data."""
    return Incompatible(
        "a summary has other shapes than its rehearsal; it was charged, and is not released",
        got="arrays whose shapes depend on the records",
        allowed="the shapes of a rehearsal on made-up records",
        do="please report it with the model, without its data",
    )


def shapes_of(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Names, types and shapes of arrays: what may not depend on the data."""
    return {name: (str(a.dtype), a.shape) for name, a in check_released(arrays).items()}


def as_dataset(arrays: Mapping[str, np.ndarray]) -> xr.Dataset:
    """The arrays as a dataset, each with dims of its own, without coordinates."""
    return xr.Dataset(
        {
            name: (tuple(f"{name}_dim_{k}" for k in range(values.ndim)), values)
            for name, values in arrays.items()
        }
    )


def header_of(facts: Mapping[str, Any], guarantee: Guarantee, private: bool) -> dict[str, Any]:
    """Everything a summary says beside its numbers, in JSON types."""
    return {
        "format": FORMAT,
        "facts": facts,
        "guarantee": guarantee.to_dict(),
        "private": private,
    }


def fingerprint_of(arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> str:
    """SHA-256 of the content, hex; it finds damage and is not a signature."""
    return content_fingerprint(as_dataset(arrays), dump_json(header))


def summary_bytes(
    arrays: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
    fingerprint: str,
    attributes: Mapping[str, str],
) -> bytes:
    """A netCDF-4 file in memory: the numbers, readable attributes and the header."""
    dataset = as_dataset(arrays)
    dataset.attrs = dict(attributes)
    whole = dict(header) | {"fingerprint": fingerprint, "variables": list(arrays)}
    dataset.attrs[HEADER] = dump_json(whole)
    return group_to_bytes(dataset, GROUP)


def several_bytes(files: Sequence[bytes]) -> bytes:
    """Files of several summaries as one, each an array of bytes."""
    arrays = {f"summary_{k}": np.frombuffer(file, np.uint8) for k, file in enumerate(files)}
    dataset = as_dataset(arrays)
    dataset.attrs[HEADER] = dump_json({"format": FORMAT, "summaries": len(files)})
    return group_to_bytes(dataset, GROUP_OF_SEVERAL)


def parse_several(content: bytes) -> list[bytes]:
    """The files of several summaries; each has a fingerprint of its own.

    Raises
    ------
    Incompatible
        No such file, or damaged.
    """
    try:
        with xr.open_dataset(
            io.BytesIO(content), group=GROUP_OF_SEVERAL, engine="h5netcdf"
        ) as opened:
            dataset = opened.load()
        header = json.loads(dataset.attrs[HEADER])
        names = [f"summary_{k}" for k in range(header["summaries"])]
        if header["format"] != FORMAT or set(names) != set(map(str, dataset.data_vars)):
            raise damaged_summary()
        return [dataset[name].values.astype(np.uint8).tobytes() for name in names]
    except Exception as cause:  # a foreign or damaged HDF5 file may raise anything
        raise damaged_summary() from cause


def holds_group(content: bytes, group: str = GROUP) -> bool:
    """Whether bytes are a file with a group: of a summary, or of several."""
    import h5py

    try:
        with h5py.File(io.BytesIO(content), "r") as file:
            return group in file
    except Exception:  # whatever HDF5 raises: no such file
        return False


def parse_summary(content: bytes) -> tuple[dict[str, Any], str]:
    """The arguments of `Summary`, and the fingerprint to expect.

    Raises
    ------
    Incompatible
        No summary, damaged, or of a format that this version does not know.
    """
    try:
        with xr.open_dataset(io.BytesIO(content), group=GROUP, engine="h5netcdf") as opened:
            dataset = opened.load()
        header = json.loads(dataset.attrs[HEADER])
    except Exception as cause:  # a foreign or damaged HDF5 file may raise anything
        raise Incompatible(
            "This is not a summary.", allowed="bytes or a file written by Summary.save"
        ) from cause
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise Incompatible(
            "This summary has a format that this version does not read.",
            got=str(header.get("format")) if isinstance(header, dict) else "no header",
            allowed=FORMAT,
            do="upgrade pymc_private",
        )
    try:
        arrays = {name: dataset.variables[name].values for name in header["variables"]}
        if set(arrays) != set(map(str, dataset.data_vars)) or not isinstance(
            header["private"], bool
        ):
            raise damaged_summary()
        arguments = {
            "released": arrays,
            "guarantee": Guarantee.from_dict(header["guarantee"]),
            "facts": header["facts"],
            "private": header["private"],
        }
        return arguments, str(header["fingerprint"])
    except Exception as cause:  # the header is JSON, but not of this format
        raise damaged_summary() from cause


def damaged_summary() -> Incompatible:
    """The error for stored content that does not match its header."""
    return Incompatible(
        "This summary is damaged or was changed by hand.",
        got="content that does not match its header",
        do="load another copy; a named ledger keeps one",
    )
