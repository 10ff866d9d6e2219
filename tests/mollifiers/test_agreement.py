"""The benchmark's agreement with the reference results: what is said of each number, and why."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from benchmarks import mollifier_agreement as agreement
from benchmarks import mollifier_definitions as definitions
from benchmarks.mollifier_methods import cells
from benchmarks.mollifier_targets import TARGETS, cell_masses, grid_of


def row(method: str, mean: float, sd: float = 0.1, metric: str = "kl") -> dict[str, str]:
    words = {"domain": "ring", "method": method, "eps": "1", "reps": "4", "metric": metric}
    return words | {"mean": str(mean), "sd": str(sd)}


def table(**methods: list[float]) -> agreement.Table:
    return {("ring", name, 1.0, "kl"): np.array(values) for name, values in methods.items()}


def verdict(found: agreement.Table, given: dict[str, str]) -> str:
    values = found["ring", given["method"], 1.0, "kl"]
    allowed = agreement.tolerance(given, len(values))
    return agreement.judged(found, given, allowed).verdict


def test_each_number_gets_the_verdict_that_numbers_earn():
    ours = table(plugin_hist_64=[2.0, 2.0], plugin_hist_64_there=[1.5, 1.5])
    assert verdict(ours, row("plugin_hist_64", 2.003)) == agreement.AGREES
    assert verdict(ours, row("plugin_hist_64", 1.501)) == agreement.THERE
    assert verdict(ours, row("plugin_hist_64", 1.7)) == agreement.DIFFERS
    noisy = table(dpb_k5=list(np.linspace(0.0, 2.0, 41)))
    assert verdict(noisy, row("dpb_k5", 1.4, sd=0.05)) == agreement.CHANCE
    assert verdict(noisy, row("dpb_k5", 1.4, sd=0.5)) == agreement.AGREES
    assert verdict(noisy, row("dpb_k5", 3.0, sd=0.05)) == agreement.DIFFERS
    few = table(dpb_k5=list(np.linspace(0.0, 2.0, 5)))
    assert verdict(few, row("dpb_k5", 1.4, sd=0.05)) == agreement.DIFFERS  # too few to say


def test_the_share_of_means_as_far_off_is_that_of_a_normal():
    values = np.random.default_rng(0).normal(size=4000)
    off = values.mean() + 1.96 * values.std() / 2
    assert agreement.as_far(values, off, 4) == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize("name", ["ring", "mix1d"])
def test_laws_on_cells_are_scored_by_exact_masses_found_in_two_ways(name):
    target, epsilons = TARGETS[name], (5.0,)
    masses = cell_masses(target, 8)
    assert masses.sum() == pytest.approx(1.0, abs=1e-12)
    rows = target.sample(400_000, 1)
    shares = np.bincount(definitions.find(rows, 8), minlength=len(masses)) / len(rows)
    assert np.abs(shares - masses).max() < 6 * math.sqrt(0.25 / len(rows))
    ours = {(m, e): found["kl"] for m, e, found in cells(target, 0, epsilons)}
    rows = target.sample(10_000, 0)
    for size in (4, 16, 64):
        for method, eps, found in definitions._on_cells(target, rows, size, epsilons):
            if method.endswith("_exact"):
                key = method.removesuffix("_exact"), eps
                assert ours[key] == pytest.approx(found["kl"], abs=1e-9)


def test_the_cells_of_the_reference_results_are_sets_of_grid_points(shared):
    """A cell that no record fell in has the same log ratio there in every replication."""
    with (shared / "reference" / "mbde_reference.csv").open() as file:
        given = {
            (r["method"], float(r["eps"]), r["metric"]): (float(r["mean"]), float(r["sd"]))
            for r in csv.DictReader(file)
            if r["domain"] == "ring"
        }
    grid = grid_of("ring")
    masses = np.bincount(definitions.find(grid.points, 4), grid.reference, minlength=16)
    for eps in (0.1, 1.0, 5.0):
        empty = definitions.response_ratio(np.array([1.0] + [0.0] * 15), eps)[1]
        there, sd = given["krr_hull_16", eps, "log_ratio_lo"]
        assert sd == 0.0
        assert there == pytest.approx(empty - math.log(16 * masses.max()), abs=2e-6)
        assert abs(there - empty) > 0.07  # with the masses that a cell has, it were this
