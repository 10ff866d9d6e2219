"""What a posterior may carry out: dims, kinds of number and labels, and nothing else."""

from __future__ import annotations

import hashlib
import json
import numpy as np
import xarray as xr
from collections.abc import Hashable
from pymc_private.errors import DomainError
from pymc_private.privacy.validation__texts import storable

SAMPLE_DIMS = ("chain", "draw")
NUMBERS = "float32, float64, signed and unsigned integers, booleans"


def check_posterior(dataset: xr.Dataset, *, records: object = None) -> xr.Dataset:
    """Rebuild a posterior from its arrays, refusing what must not leave.

    Refused: dataset attributes, coordinates that do not label a dim of the draws, draw or chain
    numbers other than 0, 1, ... (a thinned index tells how long a sampler ran), labels of the
    records, several chains, missing dims and odd types. Stripped, by rule: attributes and
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
        Fresh, read-only arrays.

    Raises
    ------
    DomainError
        See above. Depends on shapes, names and types only, never on the drawn values.
    """
    _refuse_luggage(dataset)
    _refuse_coords(dataset, records)
    _refuse_unwritable(dataset)
    draws = dataset.sizes["draw"]
    variables = {}
    for name in dataset.data_vars:
        variable = dataset.variables[name]  # a DataArray would gather all its coordinates
        _refuse_odd_variable(name, variable)
        ordered = variable.transpose(*SAMPLE_DIMS, ...)
        variables[name] = (ordered.dims, _frozen(ordered.values))
    coords: dict[Hashable, object] = {"chain": np.arange(1), "draw": np.arange(draws)}
    for name in dataset.coords:
        if name not in SAMPLE_DIMS:
            coords[name] = _plain_labels(dataset.variables[name].values)
    return xr.Dataset(variables, coords=coords)


def fingerprint(dataset: xr.Dataset, header: str) -> str:
    """Hash a checked posterior and its header (SHA-256, hex): equal content, equal fingerprint."""
    seal = hashlib.sha256(header.encode(errors="surrogatepass"))  # of damaged bytes
    for name in (*dataset.data_vars, *sorted(dataset.coords, key=str)):
        array = dataset.variables[name]
        values = array.values
        if values.dtype.kind == "U":  # the width of a text array is luck, its texts are content
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
            seal.update(len(part).to_bytes(8, "little") + part)
    return seal.hexdigest()


def _refuse_luggage(dataset: xr.Dataset) -> None:
    if not isinstance(dataset, xr.Dataset):
        raise DomainError(
            "The draws of a release come as an xarray.Dataset.", got=type(dataset).__name__
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


def _refuse_coords(dataset: xr.Dataset, records: object) -> None:
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


def _refuse_unwritable(dataset: xr.Dataset) -> None:
    """Refuse names and labels that no file can hold: null characters, halves of characters."""
    for name in (*dataset.data_vars, *dataset.dims):
        storable(str(name), "the name of a variable or of a dim")
    for name in dataset.coords:
        labels = dataset.variables[name].values
        if labels.dtype.kind not in "biufmM":
            for label in labels:
                storable(str(label), f"a label of the dim {str(name)!r}", empty=True)


def _refuse_odd_variable(name: Hashable, array: xr.Variable) -> None:
    if not isinstance(name, str):
        raise DomainError("A variable's name is text.", got=type(name).__name__)
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
            allowed=NUMBERS,
        )


def _frozen(values: np.ndarray) -> np.ndarray:
    """Copy an array into native order, without signed zeros, closed for writing."""
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
