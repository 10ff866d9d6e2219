"""The UCI sets of the experiments: files beside the checkout, or downloaded by name; their tables.

Categories are public metadata here, taken from whole files: that is for an experiment. A release
needs categories that were fixed without the data.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

OPENML = {
    "adult": ("adult", 2), "bank": ("bank-marketing", 1), "spam": ("spambase", 1),
    "credit_card": ("default-of-credit-card-clients", 1), "digit": ("optdigits", 1),
    "german_credit": ("credit-g", 1), "shopper": ("Online-Shoppers-Purchasing-Intention", 1),
    "thyroid": ("thyroid-ann", 1),
}  # fmt: skip
NETWORKS = {
    "adult": {
        "age": (), "sex": (), "education": ("age",), "occupation": ("age", "sex", "education"),
        "capital_gain": ("sex", "education", "occupation"),
        "capital_loss": ("sex", "occupation", "capital_gain"),
        "target": ("occupation", "capital_gain", "capital_loss"),
    },
    "bank": {
        "month": (), "day_of_week": (), "housing": ("month",), "pdays": ("housing", "month"),
        "poutcome": ("housing", "pdays"), "previous": ("poutcome",),
        "contact": ("previous", "month"), "campaign": ("day_of_week", "month"),
        "duration": ("housing", "contact", "campaign"),
        "target": ("poutcome", "duration", "month"),
    },
    # The third is ours: facts of the account lead to the outcome.
    "german_credit": {
        "status": (), "credit_history": (), "savings": ("status",), "purpose": (),
        "amount": ("purpose",), "duration": ("amount",),
        "target": ("status", "credit_history", "duration"),
    },
}  # fmt: skip
MANY, OFTEN = 30, 0.1


def folder() -> Path:
    """Where files are looked for."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("PYMC_PRIVATE_SHARED", beside)) / "data" / "uci"


@lru_cache(maxsize=2)
def load(name: str) -> pd.DataFrame:
    """Read a set; its label is the column ``target``."""
    file = folder() / f"{name}.csv.gz"
    if file.exists():
        return pd.read_csv(file, keep_default_na=False)
    from sklearn.datasets import fetch_openml

    print(
        f"{name}: no file, so OpenML's version is downloaded; the reference was made from another"
    )
    known, version = OPENML[name]
    bunch = fetch_openml(known, version=version, as_frame=True, parser="auto")
    return bunch.data.assign(target=bunch.target.astype(str))


@dataclass(frozen=True)
class Coded:
    """A set as places of categories.

    Attributes
    ----------
    codes : dict of str to array of int
        Of each column that is not constant, the target last.
    sizes : dict of str to int
    """

    codes: dict[str, np.ndarray]
    sizes: dict[str, int]

    @property
    def n(self) -> int:
        return len(self.codes["target"])


@lru_cache(maxsize=2)
def coded(name: str) -> Coded:
    """Code every column; ``fnlwgt`` and constant columns are dropped."""
    frame = load(name)
    codes = {}
    for column in frame.columns:
        if column == "fnlwgt":
            continue
        places = _numbers(frame[column]) if _is_number(frame[column]) else _texts(frame[column])
        if places.max() > 0:
            codes[column] = places
    codes["target"] = codes.pop("target")
    return Coded(codes, {k: int(v.max()) + 1 for k, v in codes.items()})


def _is_number(column: pd.Series) -> bool:
    return column.dtype.kind in "iuf"


def _texts(column: pd.Series) -> np.ndarray:
    return np.unique(column.astype(str), return_inverse=True)[1]


def _numbers(column: pd.Series) -> np.ndarray:
    """By value if there are few; else common values by themselves, the rest by deciles."""
    values = column.to_numpy(float)
    distinct, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(distinct) <= MANY:
        return places
    common = distinct[counts > OFTEN * len(values)]
    rest = ~np.isin(values, common)
    edges = np.unique(np.quantile(values[rest], np.linspace(0.1, 0.9, 9)))
    cut = np.searchsorted(edges, values, side="left") + len(common)
    found = np.where(rest, cut, np.searchsorted(common, values))
    return np.unique(found, return_inverse=True)[1]


def split(n: int, rep: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train on and to test on."""
    order = np.random.default_rng([2022, rep]).permutation(n)
    held = round(0.3 * n)
    return order[held:], order[:held]


def families(data: Coded, task: str, name: str) -> dict[str, tuple[str, ...]]:
    """Columns of each table, the simplex last."""
    if task == "nb":
        rest = {c: ("target", c) for c in data.codes if c != "target"}
        return {"target": ("target",)} | rest
    return {node: (*parents, node) for node, parents in NETWORKS[name].items()}


def counted(
    data: Coded, tables: dict[str, tuple[str, ...]], rows: np.ndarray
) -> dict[str, np.ndarray]:
    """Count the training rows."""
    found = {}
    for name, columns in tables.items():
        shape = tuple(data.sizes[c] for c in columns)
        flat = np.ravel_multi_index([data.codes[c][rows] for c in columns], shape)
        found[name] = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(float)
    return found
