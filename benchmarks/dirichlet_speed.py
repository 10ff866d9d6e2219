"""Seconds and MiB of calibration, counting and fits: ``python -m benchmarks.dirichlet_speed``."""

from __future__ import annotations

import gc
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pymc_private.privacy import (
    accounting,
    beta_gamma_pairs,
    dirichlet_tables,
    gaussian,
    noisy_counts,
)
from pymc_private.privacy.dirichlet_tables import TableSensitivity, algorithm1_plan, joint_plan
from pymc_private.privacy.noisy_counts import CountBudget, CountProfile, noise_plan

N, COLUMNS = 1_000_000, 20
ENGINES = ("pandas", "polars (lazy)", "duckdb", "dask", "pyspark")


def best(
    work: Callable[[], object], runs: int = 5, clock: Callable[[], float] = time.process_time
) -> float:
    """Least seconds of several runs; of CPU unless told otherwise, for others use the machine."""
    found = []
    for _ in range(runs):
        start = clock()
        work()
        found.append(clock() - start)
    return min(found)


def cold() -> None:
    """Forget curves and plans that were computed before."""
    for module in (beta_gamma_pairs, noisy_counts, dirichlet_tables, gaussian, accounting):
        for value in vars(module).values():
            getattr(value, "cache_clear", lambda: None)()


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    words = np.array(list("abcdefgh"))
    data = {f"c{i}": words[rng.integers(0, 8, N)] for i in range(COLUMNS - 1)}
    return pd.DataFrame(data).assign(y=np.where(rng.random(N) < 0.5, "u", "v"))


def calibration() -> None:
    for m in (1, 14, 65):
        public = [CountProfile(2 + i % 15, 2, 1e4) for i in range(m)]
        for words in ({"rdp": (5, 1.0), "delta": 1e-5}, {"epsilon": 1, "delta": 1e-5}):
            b = CountBudget.of(**words)
            cold()
            one = {
                "exact": best(lambda b=b, p=public: joint_plan(b, p, TableSensitivity(len(p))), 1),
                "Algorithm 1": best(
                    lambda b=b, p=public: algorithm1_plan(b, p, TableSensitivity(len(p))), 2
                ),
                "noise": best(lambda b=b, m=m: noise_plan(b, m), 1),
            }
            print(f"{m} tables, {b}: " + ", ".join(f"{k} {1e3 * v:.0f} ms" for k, v in one.items()))


def mebibytes(which: str) -> float:
    """Memory of this process now (VmRSS) or at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def beyond(work: Callable[[], object]) -> float:
    """Peak memory of a piece of work beyond what was held before (Linux forgets peaks)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = mebibytes("VmRSS")
    work()
    return mebibytes("VmHWM") - before


def held_by(
    kind: str, data: pd.DataFrame, groups: list[list[str]]
) -> tuple[Any, Callable[[], object]]:
    """The data as an engine holds them, and its own group-bys."""
    if kind == "pandas":
        return data, lambda: [data.groupby(g, sort=False).size() for g in groups]
    if kind.startswith("polars"):
        import polars

        lazy = polars.from_pandas(data).lazy()
        return lazy, lambda: polars.collect_all(
            [lazy.group_by(g).agg(polars.len()) for g in groups]
        )
    if kind == "duckdb":
        import duckdb

        con = duckdb.connect()
        con.execute("create table t as select * from data")
        table = con.table("t")
        return table, lambda: [
            table.aggregate(", ".join(g) + ", count(*)").fetchall() for g in groups
        ]
    if kind == "pyspark":
        return in_spark(data, groups)
    import dask.dataframe
    from dask.base import compute

    parts = dask.dataframe.from_pandas(data, npartitions=4)
    return parts, lambda: compute(*[parts.groupby(g).size() for g in groups])


def in_spark(data: pd.DataFrame, groups: list[list[str]]) -> tuple[Any, Callable[[], object]]:
    """Rows cached in a local Spark (wants Java); the memory of its JVM is its own affair."""
    from pyspark.sql import SparkSession

    build = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g")
    for part in ("enabled", "showConsoleProgress"):
        build = build.config(f"spark.ui.{part}", "false")
    spark = build.getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        data.to_parquet(f"{folder}/t.parquet")
        rows = spark.read.parquet(f"{folder}/t.parquet").repartition(2).cache()
        rows.count()
    return rows, lambda: [rows.groupBy(*g).count().collect() for g in groups]


def engine(kind: str) -> None:
    """One engine in a process of its own: own group-by, ours, and memory beyond the data."""
    from pymc_private.counts.counting import count_tables
    from pymc_private.counts.declared_columns import declare_column

    data = frame()
    columns = {c: declare_column(c, list("abcdefgh")) for c in data.columns[:-1]}
    columns["y"] = declare_column("y", ["u", "v"])
    families = {"y": ("y",)} | {c: ("y", c) for c in data.columns[:-1]}
    groups = [list(f) for f in families.values()]
    small, _ = held_by(kind, data.head(1000), groups)
    count_tables(small, families, columns)  # the engine's code is loaded
    held, own = held_by(kind, data, groups)
    if kind not in ("pandas", "dask"):  # these hold the frame itself
        del data
    count = lambda: count_tables(held, families, columns)  # noqa: E731
    grown, theirs_grown = beyond(count), beyond(own)
    ours, theirs = (best(work, 3, time.perf_counter) for work in (count, own))
    print(f"{kind}: ours {ours:.2f} s, its own group-bys {theirs:.2f} s, ratio "
          f"{ours / theirs:.2f}; {grown:.0f} MiB beyond the data, "
          f"its own group-bys {theirs_grown:.0f}", flush=True)  # fmt: skip


def fits() -> None:
    from benchmarks.uci import coded, folder
    from pymc_private.estimators import DirichletNaiveBayes

    if not (folder() / "adult.csv.gz").exists():
        print("adult is not here: its fit is not measured")
        return
    data = coded("adult")
    table = pd.DataFrame(data.codes)
    y = table.pop("target").to_numpy()
    declared = {c: range(data.sizes[c]) for c in table}
    for words in ({"epsilon": 1.0, "delta": 1e-5}, {"epsilon": 1.0, "delta": 0.0},
                  {"epsilon": 1.0, "delta": 1e-5, "method": "exact"}):  # fmt: skip
        nb = DirichletNaiveBayes(categories=declared, classes=(0, 1), **words)
        start = time.perf_counter()
        nb.fit(table, y)
        first, again = time.perf_counter() - start, best(lambda nb=nb: nb.fit(table, y))
        print(f"fit of adult, {words}: {1e3 * again:.0f} ms; the first time, "
              f"with calibration and imports, {first:.1f} s")  # fmt: skip


def main() -> None:
    """Print everything; engines run one by one."""
    warnings.simplefilter("ignore")
    if len(sys.argv) > 1:
        engine(sys.argv[1])
        return
    calibration()
    for kind in ENGINES:
        if kind == "pyspark" and not (shutil.which("java") and importlib.util.find_spec(kind)):
            print("pyspark: left out; it wants Java and the package")
            continue
        subprocess.run([sys.executable, "-m", "benchmarks.dirichlet_speed", kind], check=False)
    fits()


if __name__ == "__main__":
    main()
