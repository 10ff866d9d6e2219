"""Summaries of tables of many rows: seconds and memory of each engine, beside its own pass.

Run ``python -m benchmarks.scale [rows] [engine ...]``, rows such as ``1e5,1e6``. A Parquet folder
of ten covariates and a binary outcome is written to a temporary folder; each engine sums all its
columns, and summarizes a logistic model of it at epsilon = 1, in processes of their own.
Columns: seconds of processor time of the engine's own pass, of the plan, of compilation, of the
rehearsal, of the check before the charge, of the main pass, and of the whole summary (these four,
pilots and PyMC's model), seconds by the clock of the summary, and the largest memory (MiB); all of
them of the process and its children, such as the workers of Spark and its Java (Linux). All engines
must release the same sums, to the bit, under noise of one public seed: ``--bits`` prints a digest.
``--id text`` or ``--id int`` has names of units in a column, whose rows the engine counts first.
``--counted`` prints what two passes of Spark take that hand all columns to Python and count rows.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FEATURES = [f"x{j}" for j in range(10)]
SUMMED = [*FEATURES, "y"]
ROWS, PART = "1e5,1e6", 10**6
UNIT = "person"
"""The column that names units, with ``--id``."""


def write(path: Path, n: int, units: str | None = None) -> None:
    """A folder of Parquet files with n rows, also with a column of units, "text" or "int"."""
    import polars as pl

    rng = np.random.default_rng(1)
    slopes = rng.normal(size=len(FEATURES))
    path.mkdir()
    for start in range(0, n, PART):
        rows = min(PART, n - start)
        x = rng.uniform(-1, 1, (rows, len(FEATURES))) / np.sqrt(len(FEATURES))
        y = rng.binomial(1, 1 / (1 + np.exp(-x @ slopes))).astype(np.int8)
        columns = dict(zip(FEATURES, x.T, strict=True)) | {"y": y}
        frame = pl.DataFrame(columns)
        if units is not None:
            person = pl.int_range(start, start + rows, eager=True).alias(UNIT)
            texts = pl.format("person {}", person).alias(UNIT)
            frame = frame.with_columns(texts if units == "text" else person)
        frame.write_parquet(path / f"{start:09d}.parquet")


def polars(path: Path) -> tuple[Any, Callable[[Any], Any]]:
    import polars as pl

    return pl.scan_parquet(
        path / "*.parquet"
    ), lambda t: t.select(SUMMED).sum().collect(engine="streaming")


def duckdb(path: Path) -> tuple[Any, Callable[[Any], Any]]:
    import duckdb as engine

    sums = ", ".join(f"sum({name})" for name in SUMMED)
    table = engine.read_parquet(str(path / "*.parquet"))
    return table, lambda t: t.aggregate(sums).fetchall()


def pyarrow(path: Path) -> tuple[Any, Callable[[Any], Any]]:
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    def sums(table: Any) -> list[float]:
        return [sum(pc.sum(c).as_py() for c in b.columns) for b in table.to_batches(columns=SUMMED)]

    return ds.dataset(path), sums


def pandas(path: Path) -> tuple[Any, Callable[[Any], Any]]:
    import pandas as pd

    return pd.read_parquet(path), lambda t: t[SUMMED].sum()


def dask(path: Path) -> tuple[Any, Callable[[Any], Any]]:
    import dask.dataframe as dd

    return dd.read_parquet(path), lambda t: t[SUMMED].sum().compute()


def spark(path: Path) -> tuple[Any, Callable[[Any], Any]]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    made = made.config("spark.driver.memory", "1g").config("spark.log.level", "ERROR")
    sums = [f"sum({name})" for name in SUMMED]
    return made.getOrCreate().read.parquet(str(path)), lambda t: t.selectExpr(*sums).collect()


ENGINES: dict[str, Callable[[Path], tuple[Any, Callable[[Any], Any]]]] = {
    "polars": polars, "duckdb": duckdb, "pyarrow": pyarrow, "pandas": pandas, "dask": dask,
    "spark": spark,
}  # fmt: skip


# ---- of a process and its children -------------------------------------------------------------
def family() -> dict[str, list[str]]:
    """Fields of ``/proc/*/stat`` of this process and all that it started, by process."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = entry.read_text()
        except OSError:  # it ended
            continue
        found[int(entry.parent.name)] = text[text.rindex(")") + 2 :].split()
    own = {os.getpid()}
    for _ in range(8):  # generations
        own |= {pid for pid, fields in found.items() if int(fields[1]) in own}
    return {str(pid): found[pid] for pid in own}


def processor_seconds() -> float:
    """User and system time, also of children that ended."""
    ticks = sum(int(value) for fields in family().values() for value in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: str) -> int:
    """Resident memory of a process; of pages that it shares, its share (Linux 4.14)."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it ended
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


class Memory(threading.Thread):
    """The largest resident memory of the family, looked at five times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0
        self.start()

    def run(self) -> None:
        """Look until the process ends."""
        while True:
            self.most = max(self.most, sum(map(resident_bytes, family())))
            time.sleep(0.2)


def planned(n: int) -> Any:
    """The plan of a logistic model that holds seven placeholder rows."""
    import pymc as pm

    import pymc_private as pmp

    with pm.Model(coords={"person": range(7), "feature": FEATURES}) as model:
        x = pm.Data("X", np.zeros((7, len(FEATURES))), dims=("person", "feature"))
        eta = pm.Normal("a", 0, 1) + x @ pm.Normal("b", 0, 1, dims="feature")
        pm.Bernoulli("y", logit_p=eta, observed=[0, 1, 0, 1, 0, 1, 1], dims="person")
    private = pmp.privatize(model, records="person", domain={"X": pmp.Ball(1.0)}, n=n)
    return pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary", method="scores")


def digest(plan: Any, table: Any, unit: str | None) -> str:
    """A digest of what is released with noise, and coins, of a public seed."""
    from pymc_private.summaries.summary_job import made_up_noise
    from pymc_private.summaries.tables.read_table import records_of_table

    part = getattr(plan.mechanism, "part", None)
    records = records_of_table(plan.private, table, None, unit, part, seed=0)
    released = plan.mechanism.release(records, made_up_noise(plan.private))
    found = hashlib.sha256()
    for name in sorted(released):
        found.update(np.ascontiguousarray(released[name]).tobytes())
    return found.hexdigest()[:12]


def own_seconds(engine: str, path: Path) -> float:
    """Seconds of processor time that the engine's own sum of all columns takes."""
    table, own_pass = ENGINES[engine](path)
    start = processor_seconds()
    own_pass(table)
    return processor_seconds() - start


def counted_seconds(path: Path) -> list[float]:
    """Seconds of processor time of two passes of Spark that only count rows, in Python."""
    import pyarrow as pa

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    table, _ = spark(path)
    marks = [processor_seconds()]
    for _ in range(2):
        table.mapInArrow(count, "rows long").collect()
        marks.append(processor_seconds())
    return np.diff(marks).tolist()


def measure(engine: str, path: Path, n: int, own: float, bits: bool, unit: str | None) -> None:
    """Print one row of the table."""
    import pymc_private as pmp
    from pymc_private.release import charge
    from pymc_private.summaries.compiled import compiler
    from pymc_private.summaries.tables.table_records import TableRecords

    table, _ = ENGINES[engine](path)
    if bits:
        print(f"{n:10.0e} {engine:8s} {digest(planned(n), table, unit)}", flush=True)
        return
    compiling_ = seconds_of(compiler, "_used")
    check, main_, rehearsal = (
        seconds_of(place, name, compiling_)
        for place, name in ((TableRecords, "check"), (TableRecords, "add_up"),
                            (charge, "_rehearse"))
    )  # fmt: skip
    memory, marks = Memory(), [processor_seconds()]
    plan = planned(n)
    marks.append(processor_seconds())
    clock = time.time()
    ledger = pmp.Ledger(epsilon=1, delta=1e-6)
    pmp.summarize(plan, data=table, id=unit, ledger=ledger, progressbar=False)
    marks.append(processor_seconds())
    planning, summary = np.diff(marks)
    parts = [own, planning, sum(compiling_), sum(rehearsal) - sum(check), sum(check), sum(main_)]
    parts.append(summary)
    print(f"{n:10.0e} {engine:8s} " + " ".join(f"{part:8.1f}" for part in parts)
          + f" {time.time() - clock:8.1f} {memory.most / 2**20:8.0f}", flush=True)  # fmt: skip


def seconds_of(place: Any, name: str, without: Sequence[float] = ()) -> list[float]:
    """Seconds of processor time of each call of a function from now on, less those `without`."""
    function, found = getattr(place, name), []

    def timed(*arguments: Any) -> Any:
        start = processor_seconds() - sum(without)
        result = function(*arguments)
        found.append(processor_seconds() - sum(without) - start)
        return result

    setattr(place, name, timed)
    return found


def last_line(command: Sequence[Any]) -> str:
    """The last line that a process prints."""
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip().splitlines()[-1]


def main() -> None:
    """Measure each engine in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="?", default=ROWS)
    parser.add_argument("engines", nargs="*", default=list(ENGINES))
    parser.add_argument("--bits", action="store_true", help="digests of what is released")
    parser.add_argument("--counted", action="store_true", help="passes of Spark that count rows")
    parser.add_argument("--id", choices=["text", "int"], help="names of units, in a column")
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--own", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.path is not None:
        (engine,) = given.engines
        if given.own is None:
            print(own_seconds(engine, given.path), flush=True)
        else:
            unit = None if given.id is None else UNIT
            measure(engine, given.path, int(float(given.rows)), given.own, given.bits, unit)
        return
    names = ["own", "plan", "compile", "rehearse", "check", "main", "summary", "clock", "MiB"]
    header = f"{'engine':8s} " + " ".join(f"{name:>8s}" for name in names)
    header = "first, second" if given.counted else "engine" if given.bits else header
    print(f"{'rows':>10s} {header}")
    for rows in given.rows.split(","):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table"
            write(path, int(float(rows)), given.id)
            if given.counted:
                print(f"{float(rows):10.0e}", *(f"{each:.1f}" for each in counted_seconds(path)))
                continue
            for engine in given.engines:
                command = [sys.executable, "-m", "benchmarks.scale", rows, engine, "--path", path]
                own = "0" if given.bits else last_line(command)
                flags = ["--own", own, *(["--bits"] if given.bits else [])]
                flags += [] if given.id is None else ["--id", given.id]
                subprocess.run([*map(str, command), *flags], check=True)


if __name__ == "__main__":
    main()
