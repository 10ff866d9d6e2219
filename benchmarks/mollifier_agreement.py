"""Agreement with the reference results, cell by cell: each agrees, or says why not, by numbers.

A cell is one number of the reference results whose description states a tolerance. Four verdicts:

- ``agrees``: within the tolerance;
- ``agrees as defined there``: not so, but the method as the reference defines it does
  (`benchmarks.mollifier_definitions`);
- ``differs by chance``: not so, but means of four of our replications, which is what stands
  there, lie as far off in more than `LEAST` of all cases, by `ENOUGH` replications or more. The
  tolerance of the Bernstein mechanism is 3 sd of *four* replications, which one cell in 17
  exceeds: P(|t| > 3) = .058 at 3 degrees;
- ``differs``: none of these.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from benchmarks.mollifier_definitions import widest_error

Key = tuple[str, str, float, str]
Table = dict[Key, np.ndarray]

AGREES, THERE, CHANCE, DIFFERS = (
    "agrees",
    "agrees as defined there",
    "differs by chance",
    "differs",
)
LEAST, ENOUGH = 0.001, 20
NOISY = ("dpb", "plugin_gbdt")
RESAMPLED = 100_000
EDGES = 5e-4
"""What a grid makes of a gain, relative to it, where a law jumps between its points."""
TOLERANCES: tuple[tuple[str, dict[str, float]], ...] = (
    ("mbde_T3_stretch", {"kl": 0.04, "nll": 0.04, "gap_share": 0.07, "coverage": 0.01}),
    ("mbde_T3", {"kl": 0.008, "nll": 0.008, "gap_share": 0.02, "coverage": 0.003}),
    ("plugin_kde", {"kl": 0.004, "nll": 0.004, "gap_share": 0.006, "coverage": 0.005}),
    ("plugin_hist", {"kl": 0.004, "nll": 0.004, "gap_share": 0.006, "coverage": 0.005}),
    ("plugin_gbdt", {"kl": 0.01, "nll": 0.01, "gap_share": 0.015, "coverage": 0.01}),
    ("plugin_nn1", {"kl": 0.06, "nll": 0.06, "gap_share": 0.07, "coverage": 0.01}),
    ("krr_hull", {"kl": 0.006, "nll": 0.006, "gap_share": 0.015, "coverage": 0.01}),
    ("", {"kl": 0.002, "nll": 0.002, "gap_share": 0.004, "coverage": 0.003}),
)


@dataclass(frozen=True)
class Cell:
    """One number there, ours, and what is to be said of them."""

    domain: str
    method: str
    eps: float
    metric: str
    ours: float
    theirs: float
    tolerance: float
    verdict: str
    reason: str = ""

    def __str__(self) -> str:
        name = f"{self.domain} {self.method} {self.eps:g} {self.metric}"
        return f"{name}: {self.ours:.5g}, there {self.theirs:.5g}; {self.verdict}. {self.reason}"


def cells(table: Table, reference: Path) -> Iterator[Cell]:
    """Judge every number of the reference results that has a tolerance."""
    with reference.open() as stored:
        for row in csv.DictReader(stored):
            key = (row["domain"], row["method"], float(row["eps"]), row["metric"])
            allowed = tolerance(row, len(table.get(key, ())))
            if key in table and allowed is not None:
                yield judged(table, row, allowed)


def judged(table: Table, row: dict[str, str], allowed: float) -> Cell:
    """Compare one number."""
    key = domain, method, eps, metric = (
        row["domain"], row["method"], float(row["eps"]), row["metric"]
    )  # fmt: skip
    values, theirs, reps = table[key], float(row["mean"]), int(row["reps"])
    ours = float(values.mean())

    def cell(verdict: str, reason: str = "") -> Cell:
        return Cell(*key, ours, theirs, allowed, verdict, reason)

    if abs(ours - theirs) <= allowed:
        return cell(AGREES)
    there = table.get((domain, f"{method}_there", eps, metric))
    if there is not None and abs(there.mean() - theirs) <= allowed:
        return cell(THERE, _definition(table, key, float(there.mean())))
    if len(values) >= ENOUGH:
        share = as_far(values, theirs, reps)
        if share > LEAST:
            return cell(CHANCE, _chance(values, float(row["sd"]), reps, share))
    if len(values) < ENOUGH and method.startswith(NOISY):
        few = f"{len(values)} replications of ours are too few to tell what is chance"
        return cell(DIFFERS, f"{few}: --noisy-reps {ENOUGH} or more")
    return cell(DIFFERS, "no reason is known")


def tolerance(row: dict[str, str], reps: int) -> float | None:
    """What the description allows; None where it compares ranks only, or nothing."""
    method, metric = row["method"], row["metric"]
    if method == "dpb_k10_integral":
        return None
    if metric == "inside_window":
        return 0.0
    if method.startswith("dpb"):
        if metric == "coverage":
            return 0.05
        wide = 3.0 * float(row["sd"]) * (0.25 + 1.0 / max(reps, 1)) ** 0.5
        return wide if metric in ("nll", "kl") else None
    if metric not in ("nll", "kl", "coverage", "gap_share"):
        return None
    if method == "mbde_T3" and float(row["eps"]) > 2:
        return {"coverage": 0.006}.get(metric, 0.02)
    return next(found for start, found in TOLERANCES if method.startswith(start))[metric]


def as_far(values: np.ndarray, theirs: float, reps: int) -> float:
    """How often the mean of so many of our replications lies as far from ours as theirs does."""
    rng = np.random.default_rng(0)
    means = rng.choice(values, size=(RESAMPLED, reps)).mean(axis=1)
    distance = abs(theirs - values.mean())
    return float((np.abs(means - values.mean()) >= distance).mean())


def _chance(values: np.ndarray, sd: float, reps: int, share: float) -> str:
    wide = values.std(ddof=1)
    return (
        f"the sd is {wide:.2g} by {len(values)} replications of ours, {sd:.2g} by the {reps} "
        f"there; {share:.1%} of means of {reps} lie as far off"
    )


def _definition(table: Table, key: Key, there: float) -> str:
    domain, method, eps, metric = key
    if method.startswith("plugin_nn1"):
        return f"trained as there (750 epochs of Nesterov's method), ours is {there:.5g}"
    if method.startswith("plugin_gbdt"):
        return f"with trees of scikit-learn's default settings, ours is {there:.5g}"
    size = 64 if method == "plugin_hist_64" else int(method.rpartition("_")[2])
    text = (
        f"there a cell is its grid points, with up to {widest_error(domain, size):.1%} more or "
        f"less of its mass; so computed, ours is {there:.5g}"
    )
    exact = table.get((domain, f"{method}_exact", eps, "kl" if metric == "nll" else metric))
    if exact is None:
        return text
    value = float(exact.mean())
    if metric == "nll":  # nll and kl differ by the entropy of the target
        value += float(table[domain, method, eps, "nll"].mean())
        value -= float(table[domain, method, eps, "kl"].mean())
    return f"{text}; with the exact masses it is {value:.5g}"


def identities(table: Table) -> list[str]:
    """Say of the identities of the description where they fail."""
    wrong = []
    for (domain, method, eps, metric), values in table.items():
        if metric == "gap_share" and method.startswith(("plugin_", "mbde_")):
            symmetric = not method.removesuffix("_there").endswith(("asym.05", "exact"))
            if symmetric and values.max() > 1.0 + EDGES:
                wrong.append(f"{domain} {method} {eps:g}: more than the optimum")
        if metric == "kl" and method == "mbde_ceiling":
            boosted = table.get((domain, "mbde_T3", eps, "kl"))
            if boosted is not None and boosted.min() < values.mean():
                wrong.append(f"{domain} mbde_T3 {eps:g}: more than its ceiling")
            half = table.get((domain, "tilt_eps", eps / 2, "kl"))
            if half is not None and abs(half.mean() - values.mean()) > 1e-6:
                wrong.append(f"{domain} mbde_ceiling {eps:g}: not tilt_eps at half")
    return wrong


def spread(table: Table, reference: Path) -> str:
    """Test all numbers of the Bernstein mechanism together: is there more than chance?"""
    found = []
    with reference.open() as stored:
        for row in csv.DictReader(stored):
            values = table.get((row["domain"], row["method"], float(row["eps"]), row["metric"]))
            if row["method"].startswith("dpb") and row["metric"] == "kl" and values is not None:
                if "integral" in row["method"] or len(values) < 2:
                    continue
                error = values.std(ddof=1) * (1 / int(row["reps"]) + 1 / len(values)) ** 0.5
                found.append((float(row["mean"]) - values.mean()) / error)
    if not found:
        return "Bernstein mechanism: too few replications to tell"
    return (
        f"Bernstein mechanism: {len(found)} differences in KL, in units of their standard errors, "
        f"have mean {np.mean(found):.2f} and mean square {np.mean(np.square(found)):.2f} "
        "(0 and 1 by chance alone)"
    )


def report(table: Table, reference: Path, file: Path) -> str:
    """Write all cells, and give a summary with each that is not simply within its tolerance."""
    found = list(cells(table, reference))
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow([field.name for field in fields(Cell)])
        writer.writerows(astuple(cell) for cell in found)
    verdicts = Counter(cell.verdict for cell in found)
    lines = [f"{len(found)} numbers of the reference results:"]
    lines += [f"  {verdicts[v]:5d} {v}" for v in (AGREES, THERE, CHANCE, DIFFERS)]
    lines += [f"  {cell}" for cell in found if cell.verdict != AGREES]
    lines.append(spread(table, reference))
    wrong = identities(table)
    lines.append("identities: " + ("; ".join(wrong) if wrong else "hold at every epsilon"))
    return "\n".join(lines)
