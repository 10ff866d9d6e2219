"""Does a coarse grid of clip ends beat the ends that `calibrate` searches?

Run ``python -m benchmarks.clip_grid [name ...]``. For each model of
`benchmarks.ordinary_models` and 1 or 10 draws at epsilon = 1, every pair of ends on a grid of 25
between the 0.1% and 99.9% quantiles of simulated log-likelihoods (and a nat beyond) is given the
power it affords and judged by its expected information, as calibrate judges its own. A ratio above
1.10 is marked.
"""

from __future__ import annotations

import sys
import warnings
from itertools import combinations

import numpy as np

import pymc_private as pmp
from benchmarks.ordinary_models import BUDGET, MODELS
from pymc_private.models.information import simulated_information
from pymc_private.posterior.candidates import CandidateModels, DrawBudget, _power_for_clip
from pymc_private.samplers.choose import choose_sampler

ENDS, MOST = 25, 1.1


def ratios(name: str) -> list[tuple[int, float, float]]:
    """For 1 and 10 draws: the searched ends' information, and the grid's best, in nats."""
    model, declared = MODELS[name](np.random.default_rng(1))
    private = pmp.privatize(model, **declared)
    information = simulated_information(private, private.n, weighted=True)
    candidates = CandidateModels(private, choose_sampler, information, private.n)
    low, high = (information.quantile(share) for share in (0.001, 0.999))
    pairs = list(combinations(np.linspace(low - 1.0, high + 1.0, ENDS), 2))
    found = []
    for draws in (1, 10):
        budget, box = DrawBudget(*BUDGET.values(), draws), candidates._box_of_a_clip
        by_hand = max(
            information.gain(box, _power_for_clip(box, ends, budget), ends) for ends in pairs
        )
        found.append((draws, candidates.promise_of_clip(budget), by_hand))
    return found


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    print(f"{'model':26s} {'draws':>5s} {'searched':>9s} {'by hand':>9s}  nats")
    beaten = 0
    for name in names or MODELS:
        for draws, ours, by_hand in ratios(name):
            worse = by_hand > MOST * ours
            beaten += worse
            print(f"{name:26s} {draws:5d} {ours:9.3f} {by_hand:9.3f}{'  BEATEN' if worse else ''}",
                  flush=True)  # fmt: skip
    print(f"{beaten} of {2 * len(names or MODELS)} beaten by more than {MOST - 1:.0%}")


if __name__ == "__main__":
    main(sys.argv[1:])
