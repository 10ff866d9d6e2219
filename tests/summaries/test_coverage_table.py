"""The stored table of coverage: what files add to it, and which cells fall short."""

import json

import numpy as np
import pytest

from benchmarks.noise_aware_coverage import (
    VERSION,
    add_files,
    falls_short,
    markdown,
    pooled,
    read_table,
    write_table,
)


def simulations(shares, seed, model="probit", epsilon=1.0):
    """Lines of a file: four parameters, of which these shares of 90% intervals held."""
    for k, share in enumerate(shares):
        outer = [j < round(4 * share) for j in range(4)]
        yield {
            "model": model, "epsilon": epsilon, "seed": seed, "simulation": k, "method": "scores",
            "inner": [True, False, True, False], "outer": outer, "refused": k == 0,
            "effective": 250.0 if k == 1 else 900.0, "seconds": 1.0,
        }  # fmt: skip


@pytest.fixture
def written(tmp_path):
    """A function that writes simulations to a file."""

    def write(name, lines):
        path = tmp_path / name
        path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
        return path

    return write


def test_seeds_are_pooled_and_none_is_counted_twice(written, tmp_path):
    shares = [1.0, 0.75, 1.0, 0.5, 1.0]
    first = written("a.jsonl", [*simulations(shares[:3], 1), {
        "model": "probit", "epsilon": 1.0, "seed": 1, "simulation": 3, "failed": "x",
    }])  # fmt: skip
    second = written("b.jsonl", simulations(shares[3:], 2))
    cells, path = {}, tmp_path / "table.csv"
    for files in ([first], [second, first]):
        add_files(cells, files)
        write_table(cells, path)
        cells = read_table(path)
    (cell,) = cells.values()
    assert cell.key == (VERSION, "probit", 1.0)
    assert cell.seeds == "1 2"
    assert (cell.sets, cell.refused, cell.failed, cell.few) == (5, 2, 1, 2)
    count, found, error = pooled([cell])
    assert count == 5
    np.testing.assert_allclose(found, [0.5, np.mean(shares)])
    plain = np.std(shares) / np.sqrt(5)
    assert plain < error[1] < plain + 0.02
    assert "| probit | 0.850 ± " in markdown([cell], ["probit"])


@pytest.mark.parametrize(("held", "short"), [(24, False), (12, True)])
def test_a_cell_falls_short_by_two_standard_errors(written, held, short):
    cells = {}
    shares = [1.0] * held + [0.5] * (30 - held)
    add_files(cells, [written("a.jsonl", simulations(shares, 1))])
    (cell,) = cells.values()
    assert falls_short(cell) is short


def test_budgets_that_share_their_data_sets_are_not_counted_as_independent(written):
    cells, shares = {}, [1.0, 0.75, 1.0, 0.5] * 10
    for epsilon in (0.5, 1.0, 2.0):
        add_files(cells, [written("a.jsonl", simulations(shares, 1, epsilon=epsilon))])
    one, *_ = (pooled([cell]) for cell in cells.values())
    together = pooled(cells.values())
    assert together[0] == 3 * one[0]
    np.testing.assert_allclose(together[1:], one[1:])
    others = {}
    add_files(others, [written("b.jsonl", simulations(shares, 1, model="cloglog"))])
    add_files(others, [written("b.jsonl", simulations(shares, 1))])
    assert np.isclose(pooled(others.values())[2][1], one[2][1] / np.sqrt(2.0), rtol=0.02)


def test_geometric_means_of_error_and_width_are_of_those_compared(written, tmp_path):
    lines = [*simulations([1.0, 1.0, 0.5], 1)]
    for line, error, width in zip(lines, (1.0, 4.0), (1.0, 9.0), strict=False):
        line |= {"error": [error, -error, error, error], "width": [width, width, 50.0]}
    cells, path = {}, tmp_path / "table.csv"
    add_files(cells, [written("a.jsonl", lines)])
    write_table(cells, path)
    (cell,) = read_table(path).values()
    assert cell.compared == 2
    assert markdown([cell], ["probit"]).splitlines()[2].count(", 3, 1 refused; 2.00, 3.00 |") == 2


def test_tables_without_a_column_are_read(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("version,model,epsilon,method,sets\nv,probit,1,scores,7\n", encoding="utf-8")
    (cell,) = read_table(path).values()
    assert (cell.sets, cell.compared) == (7, 0)
