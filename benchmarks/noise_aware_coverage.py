"""The table of coverage that studies of noisy summaries add up to, one row a model and epsilon.

Run ``python -m benchmarks.noise_aware_coverage`` to print the stored table, as Markdown, with the
cells that fall short; ``python -m benchmarks.noise_aware_coverage FILE ...`` first adds what
``python -m benchmarks.noise_aware ... --coverage --save FILE`` has written. A seed is added to a
cell once, whole: a second run of it changes nothing. With ``--records``, ``--hierarchies`` or
``--persons`` it is the table of what ``python -m benchmarks.noise_aware_records ... --save FILE``
and so on have written.

Rows hold sums over data sets of the share of intervals that held, and of its square, so that
standard errors are over data sets: parameters of one data set are not independent. Of data sets
that were compared with the posterior of their records, errors (root mean squares over parameters,
in standard deviations of that posterior) and widths of 90% intervals (medians) are kept as sums of
logarithms: what is printed are geometric means. `VERSION` names
the mechanism that was simulated; rows of other versions stay in the table and are not pooled.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

TABLE = Path(__file__).parent / "measured" / "coverage.csv"
OTHERS = {f"--{name}": TABLE.with_name(f"{name}.csv") for name in
          ("records", "hierarchies", "persons")}  # fmt: skip
"""Tables of other studies, whose models are named by settings."""
VERSION = "unclipped-where-cheap"
"""The mechanism of today, named after its last change that moves coverage of most models. Rows of
models that a later one moved, as stretched means did those with dummies, are of today's code; what
they were before has a version of its own."""
LEVELS = (0.5, 0.9)
LEAST = 0.87
"""90% intervals of a cell that hold less than this by two standard errors fall short."""
FEW_EFFECTIVE = 300.0

Key = tuple[str, str, float]


@dataclass
class Cell:
    """What is known of one model at one epsilon.

    Attributes
    ----------
    seeds : str
        Those that were added, separated by blanks.
    sets, refused, failed, few : int
        Data sets counted; those whose summary would be refused, that could not be read (not
        counted), and whose posterior has fewer than `FEW_EFFECTIVE` effective draws.
    held50, squares50, held90, squares90 : float
        Sums over data sets of the share of intervals that held, and of its square.
    compared : int
        Data sets that were compared with the posterior of the records.
    log_error, log_width : float
        Sums of logarithms over these.
    """

    version: str
    model: str
    epsilon: float
    method: str
    seeds: str = ""
    sets: int = 0
    refused: int = 0
    failed: int = 0
    few: int = 0
    held50: float = 0.0
    squares50: float = 0.0
    held90: float = 0.0
    squares90: float = 0.0
    compared: int = 0
    log_error: float = 0.0
    log_width: float = 0.0

    @property
    def key(self) -> Key:
        """What a row is about."""
        return self.version, self.model, self.epsilon

    def add(self, seed: int, simulations: Sequence[dict[str, Any]]) -> None:
        """Add the data sets of one seed, unless they were added before."""
        if str(seed) in self.seeds.split():
            return
        self.seeds = f"{self.seeds} {seed}".strip()
        for one in simulations:
            if "failed" in one:
                self.failed += 1
                continue
            inner, outer = float(np.mean(one["inner"])), float(np.mean(one["outer"]))
            self.sets, self.refused = self.sets + 1, self.refused + bool(one["refused"])
            self.few += one["effective"] < FEW_EFFECTIVE
            self.held50, self.squares50 = self.held50 + inner, self.squares50 + inner**2
            self.held90, self.squares90 = self.held90 + outer, self.squares90 + outer**2
            if "error" in one:
                self.compared += 1
                self.log_error += 0.5 * float(np.log(np.mean(np.square(one["error"]))))
                self.log_width += float(np.log(np.median(one["width"])))


def pooled(cells: Iterable[Cell]) -> tuple[int, np.ndarray, np.ndarray]:
    """Data sets, shares held of `LEVELS` and their standard errors, over all data sets of cells.

    A seed gives the same parameters and records to every epsilon: errors of several epsilons are
    added up as if they were one and the same, which they are at most.
    """
    rows = list(cells)
    count = sum(c.sets for c in rows)
    each = [_of_one_epsilon([c for c in rows if c.epsilon == e]) for e in {c.epsilon for c in rows}]
    found = sum(held for held, _ in each) / count
    return count, found, sum(errors for _, errors in each) / count


def _of_one_epsilon(rows: Sequence[Cell]) -> tuple[np.ndarray, np.ndarray]:
    """Sums of shares held, and their standard errors.

    One data set of four parameters is added to the variance: cells in which all held have an error.
    """
    count, levels = sum(c.sets for c in rows), np.array(LEVELS)
    held = np.array([sum(c.held50 for c in rows), sum(c.held90 for c in rows)])
    squares = np.array([sum(c.squares50 for c in rows), sum(c.squares90 for c in rows)])
    variance = squares - held**2 / count + levels * (1.0 - levels) / 4.0
    return held, np.sqrt(np.maximum(variance, 0.0))


def falls_short(cell: Cell) -> bool:
    """Whether 90% intervals of a cell hold less than `LEAST` by two standard errors."""
    _, found, error = pooled([cell])
    return bool(found[1] + 2.0 * error[1] < LEAST)


# ---- files ---------------------------------------------------------------------------------------
def read_table(path: Path = TABLE) -> dict[Key, Cell]:
    """The rows of a table; none where there is no file."""
    if not path.exists():
        return {}
    kinds = {field.name: {"str": str, "int": int, "float": float}[field.type] for field in
             fields(Cell)}  # fmt: skip
    with path.open(newline="", encoding="utf-8") as file:
        rows = [Cell(**{k: kinds[k](v) for k, v in row.items()}) for row in csv.DictReader(file)]
    return {cell.key: cell for cell in rows}


def write_table(cells: dict[Key, Cell], path: Path = TABLE) -> None:
    """Write all rows, in order."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Cell)])
        for _, cell in sorted(cells.items()):
            writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in
                             asdict(cell).values()])  # fmt: skip


def add_files(cells: dict[Key, Cell], paths: Sequence[Path]) -> None:
    """Add the simulations of JSON lines to the rows of this version, seed by seed."""
    blocks: dict[tuple[str, float, int], list[dict[str, Any]]] = {}
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            blocks.setdefault((one["model"], one["epsilon"], one["seed"]), []).append(one)
    for (model, epsilon, seed), simulations in blocks.items():
        method = next((one["method"] for one in simulations if "method" in one), "")
        key = VERSION, model, epsilon
        cells.setdefault(key, Cell(*key, method)).add(seed, simulations)


# ---- tables --------------------------------------------------------------------------------------
def entry(cells: Sequence[Cell]) -> str:
    """Share of 90% intervals held and its standard error, data sets, those refused; error, width.

    The last two where some were compared.
    """
    if not sum(c.sets for c in cells):
        return ""
    count, found, error = pooled(cells)
    refused, whole = sum(c.refused for c in cells), sum(c.compared for c in cells)
    text = f"{found[1]:.3f} ± {error[1]:.3f}, {count}" + (f", {refused} refused" if refused else "")
    if not whole:
        return text
    means = (np.exp(sum(c.log_error for c in cells) / whole),
             np.exp(sum(c.log_width for c in cells) / whole))  # fmt: skip
    return f"{text}; {means[0]:.2f}, {means[1]:.2f}"


def markdown(cells: Sequence[Cell], order: Sequence[str]) -> str:
    """The table of the documents: models by budgets, and all of both."""
    epsilons = sorted({c.epsilon for c in cells})
    lines = [
        "| model | " + " | ".join(f"ε = {e:g}" for e in epsilons) + " | all |",
        "|---" * (len(epsilons) + 2) + "|",
    ]
    for name in order:
        row = [c for c in cells if c.model == name]
        if row:
            parts = [entry([c for c in row if c.epsilon == e]) for e in epsilons]
            lines.append(f"| {name} | " + " | ".join([*parts, entry(row)]) + " |")
    parts = [entry([c for c in cells if c.epsilon == e]) for e in epsilons]
    return "\n".join([*lines, "| all | " + " | ".join([*parts, entry(cells)]) + " |"])


def print_table(path: Path = TABLE) -> None:
    """Print the rows of this version, 50% intervals, and the cells that fall short."""
    from benchmarks.noise_aware_models import SCENARIOS

    cells = [c for c in read_table(path).values() if c.version == VERSION and c.sets]
    if not cells:
        print("nothing measured")
        return
    print(markdown(cells, list(SCENARIOS) if path == TABLE else sorted({c.model for c in cells})))
    for epsilon in sorted({c.epsilon for c in cells}):
        count, found, error = pooled([c for c in cells if c.epsilon == epsilon])
        print(f"epsilon {epsilon:g}: 50% intervals held {found[0]:.3f} ± {error[0]:.3f} in {count}")
    failed, few = sum(c.failed for c in cells), sum(c.few for c in cells)
    print(f"{failed} failed, {few} with fewer than {FEW_EFFECTIVE:g} effective draws")
    short = [c for c in cells if falls_short(c)]
    for c in short:
        print(f"short of {LEAST}: {c.model} at epsilon {c.epsilon:g}: {entry([c])}")
    if not short:
        print(f"no cell is short of {LEAST} by two standard errors")


def main() -> None:
    """Add files to the table, and print it."""
    words = sys.argv[1:]
    table = next((OTHERS[word] for word in words if word in OTHERS), TABLE)
    paths = [Path(word) for word in words if word not in OTHERS]
    if paths:
        cells = read_table(table)
        add_files(cells, paths)
        write_table(cells, table)
    print_table(table)


if __name__ == "__main__":
    main()
