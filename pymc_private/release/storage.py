"""Releases as bytes and files: netCDF that ArviZ reads, equal releases equal to the byte."""

from __future__ import annotations

import io
import json
import os
import secrets
import sys
import xarray as xr
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TYPE_CHECKING
from pymc_private.errors import DomainError, Incompatible
from pymc_private.release.display import attributes
from pymc_private.release.allowed import dump_json
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding__printing import counted
from pymc_private.privacy.validation__texts import file_path

if TYPE_CHECKING:
    from pymc_private.release.release import Release

FORMAT = 1
HEADER = "pymc_private"  # the attribute that holds everything a release says, as JSON


def header_of(release: Release) -> dict[str, Any]:
    """Everything a release says beside its draws, in JSON types."""
    return {
        "format": FORMAT,
        "facts": release.facts,
        "guarantee": release.guarantee.to_dict(),
        "private": release.private,
    }


def labeled(release: Release, chains: int = 1) -> xr.Dataset:
    """Give the draws with the promise as text attributes, split into ``chains`` equal chains.

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
            got=f"chains = {chains!r} for {counted(draws, 'draw')}",
            allowed="a divisor of the number of draws",
        )
    if chains > 1:
        long = draws // chains
        posterior = xr.Dataset(
            {
                name: (array.dims, array.values.reshape(chains, long, *array.shape[2:]))
                for name, array in posterior.data_vars.items()
            },
            coords={
                **posterior.drop_vars(("chain", "draw")).coords,
                "chain": range(chains),
                "draw": range(long),
            },
        )
    posterior.attrs = attributes(release)
    return posterior


def to_bytes(release: Release) -> bytes:
    """Write a release as a netCDF-4 file in memory, without time, place or user.

    The draws and the readable attributes form the group ``posterior``; one more attribute holds
    the header and a fingerprint of the content, which finds damage (it is not a signature).
    """
    posterior = labeled(release)
    header = header_of(release) | {
        "fingerprint": release.fingerprint,
        "variables": list(posterior.data_vars),
    }
    posterior.attrs[HEADER] = dump_json(header)
    buffer = io.BytesIO()
    with _here():
        posterior.to_netcdf(
            buffer,
            group="posterior",
            engine="h5netcdf",
            encoding={name: {"_FillValue": None} for name in posterior.variables},
        )
    return buffer.getvalue()


def _here() -> AbstractContextManager[Any]:
    """Away from a Dask cluster that is open: xarray would ask it to lock what lies in memory."""
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
    except Exception as cause:  # what a foreign or damaged HDF5 file raises depends on the byte
        raise Incompatible(
            "This is not a release.", allowed="bytes or a file written by Release.save"
        ) from cause
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise Incompatible(
            "This release has a format that this version does not read.",
            got=str(header.get("format")) if isinstance(header, dict) else "no header",
            allowed=FORMAT,
            do="upgrade pymc_private",
        )
    try:
        return _arguments(dataset, header), str(header["fingerprint"])
    except Exception as cause:  # the header is JSON, but not as we wrote it
        raise damaged() from cause


def damaged() -> Incompatible:
    """Say that stored content does not fit its own header."""
    return Incompatible(
        "This release is damaged or was changed by hand.",
        got="content that does not match its header",
        do="load another copy; a named ledger keeps one",
    )


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a whole file or none: a crash leaves the old one as it was."""
    target = Path(path)
    if not target.parent.is_dir():
        raise DomainError(
            "The folder to save in does not exist.", got=target.parent, do="create it first"
        )
    part = _beside(target)
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return target


def try_place(path: str | os.PathLike[str]) -> None:
    """Make the file that a release is written to first, and take it away again, or fail."""
    part = _beside(Path(path))
    with part.open("xb"):
        pass
    part.unlink()


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


def save(release: Release, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Save a release. A file that holds an equal release is left as it is."""
    target = file_path(path, "the place of a release")
    if target.exists() and not overwrite:
        if _holds(release, target):
            return target
        raise Incompatible(
            "The file exists and holds something else.",
            got=target.name,
            do="choose another name, or overwrite=True",
        )
    if target.is_dir():
        raise DomainError("a release is saved as a file", got=f"the folder {target.name}")
    return write_atomically(target, to_bytes(release))


def _holds(release: Release, path: Path) -> bool:
    try:
        return type(release).from_bytes(path.read_bytes()) == release
    except (Incompatible, OSError):
        return False


def _arguments(dataset: xr.Dataset, header: dict[str, Any]) -> dict[str, Any]:
    ordered = dataset[header["variables"]]  # netCDF readers may sort; the release has an order
    if set(ordered.data_vars) != set(dataset.data_vars) or not isinstance(header["private"], bool):
        raise damaged()
    return {
        "posterior": ordered.drop_attrs(),
        "guarantee": Guarantee.from_dict(header["guarantee"]),
        "facts": header["facts"],
        "private": header["private"],
    }
