"""Settings of the whole suite. They must stand before NumPy and PyTensor are imported."""

from __future__ import annotations

import json
import os
from pathlib import Path

# One BLAS thread, no window, and a mode that interprets: a cold numba cache costs 50 s a graph.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
if "mode=" not in (flags := os.environ.get("PYTENSOR_FLAGS", "")):
    os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, [flags, "mode=FAST_COMPILE"]))

import hypothesis  # noqa: E402
import pytest  # noqa: E402

# The desk draws the same examples each time, so a red test stays red until it is mended;
# ./check --audit explores. Neither measures time.
hypothesis.settings.register_profile("desk", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.register_profile("audit", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile("desk")


@pytest.fixture(scope="session")
def root() -> Path:
    """Give the checkout's folder."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared(root) -> Path:
    """Give the folder of reference data beside the checkout, or skip where there is none."""
    folder = Path(os.environ.get("PYMC_PRIVATE_SHARED", root.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("no reference data: set PYMC_PRIVATE_SHARED to their folder")
    return folder


@pytest.fixture(scope="session")
def golden(shared) -> list[dict]:
    """Give the golden values, computed by code that is independent of this package."""
    return json.loads((shared / "golden" / "golden_values.json").read_text())
