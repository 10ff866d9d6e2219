"""Agreement of the UCI experiments with the reference, and why cells outside its tolerance are.

Methods that choose (r, alpha) by the public design may choose otherwise than the reference did:
the criterion is flat, and the search of the reference ends at order 2e6. A cell outside the
tolerance is computed again with the reference's own choice; then only chance is left.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.dirichlet_methods import dirichlet
from benchmarks.uci import coded, counted, families, folder, split

TOLERANCE = 3.0
KEYS = ["dataset", "task", "method", "privacy", "epsilon", "metric"]


def agreement(ours: pd.DataFrame) -> pd.DataFrame:
    """Compare with the reference: |difference| / (sd sqrt(1/reps + 1/R)), 3 is the tolerance."""
    theirs = _reference("dirichlet_uci.csv")
    if theirs is None:
        print("no reference beside the checkout: nothing to agree with")
        return pd.DataFrame()
    ours = ours.assign(epsilon=ours["epsilon"].astype(float))
    both = ours.merge(theirs, on=KEYS, suffixes=("", "_ref"))
    both["off"] = _off(both, both["mean"], both["std"], both["count"])
    return both


def explained(
    compared: pd.DataFrame, scores: Callable[..., dict[str, float]], reps: int
) -> pd.DataFrame:
    """Compute cells outside the tolerance again with the (r, alpha) of the reference."""
    outside = compared[compared["off"] > TOLERANCE]
    theirs = _reference("dirichlet_uci_calibration.csv")
    if theirs is None or not len(outside):
        return outside
    rows = []
    for cell in outside.to_dict("records"):
        same = theirs[(theirs[KEYS[:5]] == pd.Series(cell)[KEYS[:5]]).all(axis=1)]
        choice = same.iloc[0][["r", "alpha"]].astype(float) if len(same) else None
        if choice is not None and np.isfinite(choice).all():
            found = [scores(cell, r, choice["r"], choice["alpha"]) for r in range(reps)]
            again = np.array([f[cell["metric"]] for f in found])
            cell |= {"their_r": choice["r"], "their_alpha": choice["alpha"], "again": again.mean()}
            cell["off_again"] = float(_off(cell, again.mean(), again.std(ddof=1), reps))
        rows.append(cell)
    return pd.DataFrame(rows)


def tables_with(cell: dict, rep: int, r: float, alpha: float) -> tuple[dict, dict, np.ndarray]:
    """Tables drawn on one split with a given power and prior: tables, their columns, test rows."""
    data = coded(cell["dataset"])
    train, test = split(data.n, rep)
    dims = families(data, cell["task"], cell["dataset"])
    counts = counted(data, dims, train)
    rng = np.random.default_rng([rep, 77])
    m = len(counts)
    return dirichlet(counts, [r] * m, [alpha] * m, rng), dims, test


def _off(cell: object, mean: object, std: object, count: object) -> np.ndarray:
    """Distance from the reference in standard errors of the difference."""
    spread = np.maximum(cell["sd"], np.nan_to_num(std))  # type: ignore[index]
    error = spread * np.sqrt(1 / cell["reps"] + 1 / np.asarray(count, float))  # type: ignore[index]
    return np.asarray(np.abs(mean - cell["mean_ref"]) / np.maximum(error, 1e-6))  # type: ignore[index, operator]


def _reference(name: str) -> pd.DataFrame | None:
    file = folder().parents[1] / "reference" / name
    if not file.exists():
        return None
    found = pd.read_csv(file).rename(columns={"eps": "epsilon"})
    found["privacy"] = found["privacy"].str.replace("RDP(lambda=5)", "RDP")
    found["epsilon"] = found["epsilon"].astype(float)
    return found
