"""Serialization of releases: netCDF that ArviZ reads, equal releases equal to the byte.

No time, place or user is written. The group `posterior` holds the draws and readable
attributes; one attribute holds a JSON header with a fingerprint of the content, which finds
damage and is not a signature. Files are written whole or not at all.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import xarray as xr

from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding import format_count
from pymc_private.privacy.validation import check_file_path, check_flags
from pymc_private.release.allowed import ReleaseContents, dump_json
from pymc_private.release.display import release_attributes

FORMAT = 1
HEADER = "pymc_private"
"""The attribute that holds everything a release says beside its draws, as JSON."""
REPORTED_PACKAGES = ("pymc-private", "pymc", "pytensor", "arviz", "numpy", "scipy")
"""The packages whose versions are among the facts of a release."""


class Storable(Protocol):
    """A release, or another value that is stored as one: equal values have equal bytes."""

    def to_bytes(self) -> bytes:
        """The content of its file."""

    @classmethod
    def from_bytes(cls, content: bytes) -> Any:
        """Restore a value from its bytes."""


def save(release: Storable, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Save a release; a file that holds an equal release is left unchanged."""
    target = check_file_path(path, "the place of a release")
    check_flags(overwrite=overwrite)
    if target.exists() and not overwrite:
        if _file_equals(release, target):
            return target
        raise Incompatible(
            "The file exists and holds something else.",
            got=target.name,
            do="choose another name, or overwrite=True",
        )
    if target.is_dir():
        raise _folder_error(target)
    return write_atomically(target, release.to_bytes())


def _folder_error(folder: Path) -> DomainError:
    return DomainError(
        "a release is saved as a file",
        got=f"the folder {folder.name}",
        do="name a file in it, such as 'main.nc'",
    )


def _file_equals(release: Storable, path: Path) -> bool:
    """Whether the file holds an equal release, undamaged."""
    try:
        return type(release).from_bytes(path.read_bytes()) == release
    except (Incompatible, OSError):
        return False


def to_bytes(release: ReleaseContents) -> bytes:
    """Write a release as a netCDF-4 file in memory, without time, place or user.

    The draws and the readable attributes form the group ``posterior``; one more attribute holds
    the header and a fingerprint of the content, which finds damage (it is not a signature).
    """
    posterior = annotated_posterior(release)
    header = release_header(release) | {
        "fingerprint": release.fingerprint,
        "variables": list(posterior.data_vars),
    }
    posterior.attrs[HEADER] = dump_json(header)
    return group_to_bytes(posterior, "posterior")


def group_to_bytes(dataset: xr.Dataset, group: str) -> bytes:
    """Write a netCDF-4 file of one group in memory, nothing added."""
    buffer = io.BytesIO()
    with _local_scheduler():
        dataset.to_netcdf(
            buffer,
            group=group,
            engine="h5netcdf",
            encoding={name: {"_FillValue": None} for name in dataset.variables},
        )
    return buffer.getvalue()


def release_header(release: ReleaseContents) -> dict[str, Any]:
    """Everything a release says beside its draws, in JSON types."""
    return {
        "format": FORMAT,
        "facts": release.facts,
        "guarantee": release.guarantee.to_dict(),
        "private": release.private,
    }


def annotated_posterior(release: ReleaseContents, chains: int = 1) -> xr.Dataset:
    """Give the draws with the guarantee as text attributes, split into ``chains`` equal chains.

    Raises
    ------
    DomainError
        ``chains`` does not divide the number of draws.
    """
    posterior = release.posterior
    draws = posterior.sizes["draw"]
    if isinstance(chains, bool) or not isinstance(chains, int) or chains < 1 or draws % chains:
        raise DomainError(
            "The draws do not split evenly.",
            got=f"chains = {chains!r} for {format_count(draws, 'draw')}",
            allowed="a divisor of the number of draws",
        )
    if chains > 1:
        length = draws // chains
        posterior = xr.Dataset(
            {
                name: (array.dims, array.values.reshape(chains, length, *array.shape[2:]))
                for name, array in posterior.data_vars.items()
            },
            coords={
                **posterior.drop_vars(("chain", "draw")).coords,
                "chain": range(chains),
                "draw": range(length),
            },
        )
    posterior.attrs = release_attributes(release)
    return posterior


def _local_scheduler() -> AbstractContextManager[Any]:
    """Use no Dask cluster that is open: xarray would ask it for a lock on this memory buffer."""
    dask = sys.modules.get("dask")
    return nullcontext() if dask is None else dask.config.set(scheduler="synchronous")


def parse(content: bytes) -> tuple[dict[str, Any], str]:
    """Read the arguments that build a release from its bytes, and the fingerprint to expect.

    Returns
    -------
    tuple of dict and str
        Keyword arguments ``posterior, guarantee, facts, private``; the stored fingerprint.

    Raises
    ------
    Incompatible
        Not a release, damaged, or of a format that this version does not know.
    """
    from pymc_private.models.compat import read_posterior

    try:
        dataset = read_posterior(io.BytesIO(content))
        header = json.loads(dataset.attrs[HEADER])
    except Exception as cause:  # a foreign or damaged HDF5 file may raise anything
        raise Incompatible(
            "This is not a release.", allowed="bytes or a file that save= wrote"
        ) from cause
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise Incompatible(
            "This release has a format that this version does not read.",
            got=str(header.get("format")) if isinstance(header, dict) else "no header",
            allowed=FORMAT,
            do="upgrade pymc_private",
        )
    try:
        return _release_arguments(dataset, header), str(header["fingerprint"])
    except Exception as cause:  # the header is JSON, but not of this format
        raise damaged_error() from cause


def _release_arguments(dataset: xr.Dataset, header: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `Release`, from what a file holds."""
    ordered = dataset[header["variables"]]  # netCDF readers may sort them
    if set(ordered.data_vars) != set(dataset.data_vars) or not isinstance(header["private"], bool):
        raise damaged_error()
    return {
        "posterior": ordered.drop_attrs(),
        "guarantee": Guarantee.from_dict(header["guarantee"]),
        "facts": header["facts"],
        "private": header["private"],
    }


def damaged_error() -> Incompatible:
    """The error for stored content that does not match its header."""
    return Incompatible(
        "This release is damaged or was changed by hand.",
        got="content that does not match its header",
        do="load another copy; a named ledger keeps one",
    )


def check_destination(save: str | os.PathLike[str] | None, *, overwrite: bool) -> None:
    """Refuse a path that cannot be written, before anything is charged.

    Raises
    ------
    DomainError
        No such folder, or it cannot be written, or no file is named.
    Incompatible
        A file is there already.
    """
    if save is None:
        return
    try:
        is_folder, exists = Path(save).is_dir(), Path(save).exists()
        if not is_folder:
            check_writable(save)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise DomainError(
            "the release cannot be saved there",
            got=f"{Path(save).name} in {Path(save).absolute().parent.name}: {type(error).__name__}",
            allowed="a file in a folder that exists and can be written",
            do="make the folder first; nothing was charged",
        ) from error
    if is_folder:
        raise _folder_error(Path(save))
    if exists and not overwrite:
        raise Incompatible(
            "a file is there already, and a new draw would replace it",
            got=Path(save).name,
            allowed="a new file name",
            do="choose another file, load this one with pmp.load, or say again=True to replace it",
        )


def check_writable(path: str | os.PathLike[str]) -> None:
    """Create and delete the temporary file of a save; raises OSError if it cannot be created."""
    part = _temporary_path(Path(path))
    with part.open("xb"):
        pass
    part.unlink()


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a whole file or none: after a crash the old file is unchanged."""
    target = Path(path)
    if not target.parent.is_dir():
        raise DomainError(
            "The folder to save in does not exist.", got=target.parent, do="create it first"
        )
    part = _temporary_path(target)
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


def _temporary_path(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


@lru_cache(maxsize=16)
def package_version(package: str) -> str:
    """Give the version of an installed package, as text."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "run from its source folder"
