"""Seconds and MiB of calibration, counting and fits: ``python -m benchmarks.dirichlet_speed``."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

from pymc_private.privacy import (
    beta_pair,
    count_profile,
    dirichlet_joint,
    discrete_gaussian,
    pairs,
)
from pymc_private.privacy.count_budget import CountBudget
from pymc_private.privacy.count_profile import CountProfile
from pymc_private.privacy.dirichlet_joint import Touched, algorithm1_plan, joint_plan
from pymc_private.privacy.noisy_counts import noise_plan

N, COLUMNS = 1_000_000, 20


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
    for module in (beta_pair, count_profile, dirichlet_joint, discrete_gaussian, pairs):
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
                "exact": best(lambda b=b, p=public: joint_plan(b, p, Touched(len(p))), 1),
                "Algorithm 1": best(
                    lambda b=b, p=public: algorithm1_plan(b, p, Touched(len(p))), 2
                ),
                "noise": best(lambda b=b, m=m: noise_plan(b, m), 1),
            }
            print(f"{m} tables, {b}: " + ", ".join(f"{k} {1e3 * v:.0f} ms" for k, v in one.items()))


def engine(kind: str) -> None:
    """One engine in a process of its own: own group-by, ours, and memory beyond the data."""
    import resource

    from pymc_private.estimators.columns import declare
    from pymc_private.estimators.counts import count_tables

    data = frame()
    columns = {c: declare(c, list("abcdefgh")) for c in data.columns[:-1]}
    columns["y"] = declare("y", ["u", "v"])
    families = {"y": ("y",)} | {c: ("y", c) for c in data.columns[:-1]}
    groups = [list(f) for f in families.values()]
    if kind == "pandas":
        own = lambda: [data.groupby(g, sort=False).size() for g in groups]  # noqa: E731
        held = data
    elif kind.startswith("polars"):
        import polars

        held = polars.from_pandas(data).lazy()
        own = lambda: polars.collect_all(  # noqa: E731
            [held.group_by(g).agg(polars.len()) for g in groups]
        )
    elif kind == "duckdb":
        import duckdb

        con = duckdb.connect()
        con.execute("create table t as select * from data")
        held = con.table("t")
        own = lambda: [held.aggregate(", ".join(g) + ", count(*)").fetchall() for g in groups]  # noqa: E731
    else:
        import dask.dataframe
        from dask.base import compute

        held = dask.dataframe.from_pandas(data, npartitions=4)
        own = lambda: compute(*[held.groupby(g).size() for g in groups])  # noqa: E731
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count_tables(held, families, columns)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    ours, theirs = (
        best(work, 3, time.perf_counter)
        for work in (lambda: count_tables(held, families, columns), own)
    )
    print(f"{kind}: ours {ours:.2f} s, its own group-bys {theirs:.2f} s, "
          f"ratio {ours / theirs:.2f}, {grown:.0f} MiB beyond the data", flush=True)  # fmt: skip


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
    for kind in ("pandas", "polars (lazy)", "duckdb", "dask"):
        subprocess.run([sys.executable, "-m", "benchmarks.dirichlet_speed", kind], check=False)
    fits()


if __name__ == "__main__":
    main()
