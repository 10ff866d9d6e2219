"""Random soundness trials of every scalar rule, as many as one asks for, and how wide rules are.

``python -m tests.analysis.trials 10_000_000`` makes that many (box, point) trials, the same time
for each registered rule, and prints a line for each: what it is compared with (Arb, or the Op
itself where floats are exact), trials, values that left their interval, and the width at a point in
units of rounding. It fails if anything left. ``--seed`` tries others, ``--only log_phi`` a few.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np

from pymc_private.analysis.intervals.functions import UNIT
from tests.analysis.contract import REAL, Case, attempt, enclose, points_of, scalar_cases

BOXES, POINTS = 250, 20


def main() -> None:
    """Run the trials and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trials", type=int, nargs="?", default=100_000)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of the names of rules")
    asked = parser.parse_args()
    cases = [c for c in scalar_cases() if any(word in str(c) for word in asked.only)]
    if not cases:
        parser.error(f"no rule has a name with any of {', '.join(asked.only)} in it")
    tried = [Tried(case) for case in cases]
    rounds = 0
    while sum(t.trials for t in tried) < asked.trials or not all(t.trials for t in tried):
        least = min(tried, key=lambda t: t.seconds)
        least.again(asked.seed + rounds)
        rounds += 1
    print(f"{'rule':38} {'against':8} {'trials':>9} {'escapes':>7} {'width at a point, units':>24}")
    for t in tried:
        against = "Arb" if t.case.kind in REAL and t.case.dtype == "float64" else "itself"
        wide = widening(t.case, asked.seed)
        print(f"{t.case!s:38} {against:8} {t.trials:9,d} {t.escapes:7d} {wide:>24}")
    escaped = sum(t.escapes for t in tried)
    print(f"{sum(t.trials for t in tried):,d} trials, {len(cases)} cases, {escaped} escapes")
    sys.exit(escaped > 0)


@dataclass
class Tried:
    """What has been tried on one rule."""

    case: Case
    trials: int = 0
    escapes: int = 0
    seconds: float = 0.0

    def again(self, seed: int) -> None:
        """Some thousand trials more."""
        start = time.perf_counter()
        tally = attempt(self.case, seed, BOXES, POINTS)
        self.seconds += time.perf_counter() - start
        self.trials, self.escapes = self.trials + tally.trials, self.escapes + len(tally.escapes)
        for escape in tally.escapes:
            print(f"ESCAPE {self.case}: {escape}", flush=True)


def widening(case: Case, seed: int) -> str:
    """Median and largest width of the interval at a point, relative, in units of rounding."""
    if case.dtype != "float64":
        return "-"
    rng = np.random.default_rng(seed)
    box = (np.full((400, 1), 0.05), np.full((400, 1), 0.9))
    points = [np.asarray(p)[:, :1] for p in points_of(case, rng, [box] * case.count, 1)]
    fact = enclose(case.node(), [(p, p.copy()) for p in points])
    size = np.maximum(np.abs(fact.upper.astype(float)), np.finfo(float).tiny)
    with np.errstate(all="ignore"):
        widths = (fact.upper.astype(float) - fact.lower.astype(float)) / size / UNIT
    widths = widths[np.isfinite(widths)]
    return f"{np.median(widths):.3g} / {widths.max():.3g}" if widths.size else "no value there"


if __name__ == "__main__":
    main()
