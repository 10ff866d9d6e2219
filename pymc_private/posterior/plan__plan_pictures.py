"""Pictures of a plan: what was weighed, and what more draws cost."""

from __future__ import annotations

import math
from typing import Any, TYPE_CHECKING
from pymc_private.privacy.rounding__printing import counted, number

if TYPE_CHECKING:
    from pymc_private.posterior.plan import Frontier, Plan

CHOSEN, OTHER, LINE = "#b3462b", "0.35", "0.7"


def picture_of(plan: Plan, ax: Any = None) -> Any:
    """Information against regions; of several numbers of draws, records kept against draws."""
    from matplotlib.figure import Figure

    if ax is None:
        ax = Figure(figsize=(5.5, 3.6), layout="constrained").add_subplot()
    counts = dict.fromkeys(row.draws for row in plan.frontier)
    if len(counts) > 1:
        _over_draws(plan, list(counts), ax)
    else:
        _over_regions(plan, ax)
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _over_regions(plan: Plan, ax: Any) -> None:
    """One point for each way, with the records' worth it keeps."""
    judged = all(math.isfinite(row.information) for row in plan.frontier)
    rows = sorted(plan.frontier, key=lambda r: (r.clipped, 1.0 if r.mass is None else r.mass))
    heights = [row.information if judged else _kept(row, plan.n) for row in rows]
    positions = list(range(len(rows)))
    trims = sum(not row.clipped for row in rows)
    ax.plot(positions[:trims], heights[:trims], color=LINE, zorder=1)
    ax.scatter(positions, heights, color=[CHOSEN if r.chosen else OTHER for r in rows], zorder=2)
    for x, y, row in zip(positions, heights, rows, strict=True):
        text = f"{_kept(row, plan.n):.3g}" if plan.n is None else f"{_kept(row, plan.n):.0f}"
        ax.annotate(text, (x, y), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    ax.set_xticks(positions, [row.words for row in rows])
    ax.set_xlim(-0.6, len(rows) - 0.4)
    ax.set_xlabel("prior mass kept by the trim")
    kept = "records' worth kept" if plan.n is not None else "share kept of each record"
    ax.set_ylabel(f"expected information (nats)\nnumbers: {kept}" if judged else kept)
    top = max(heights)
    ax.set_ylim(top=1.18 * top if top > 0 else 1.0)
    ax.set_title(f"{counted(plan.draws, 'draw')} at {_budget(plan)}", fontsize=10)


def _over_draws(plan: Plan, counts: list[int], ax: Any) -> None:
    """The chosen way for each number of draws, and each other way as a thin line."""
    counts = sorted(counts)
    for words in dict.fromkeys(row.words for row in plan.frontier):
        some = sorted((row for row in plan.frontier if row.words == words), key=lambda r: r.draws)
        ax.plot(
            [r.draws for r in some],
            [_kept(r, plan.n) for r in some],
            color=LINE,
            linewidth=1,
            marker=".",
            zorder=1,
        )
    best = sorted((row for row in plan.frontier if row.chosen), key=lambda row: row.draws)
    heights = [_kept(row, plan.n) for row in best]
    ax.plot(counts, heights, color=CHOSEN, marker="o", zorder=2)
    for row, y in zip(best, heights, strict=True):
        ax.annotate(
            row.words,
            (row.draws, y),
            (4, 5),
            textcoords="offset points",
            fontsize=8,
            color=CHOSEN,
        )
    ax.set_xscale("log")
    ax.set_xticks(counts, [str(count) for count in counts])
    ax.minorticks_off()
    ax.set_xlabel("number of draws (labels: prior mass kept by the trim)")
    ax.set_ylabel("records' worth kept" if plan.n is not None else "share kept of each record")
    ax.set_title(f"What draws cost at {_budget(plan)}", fontsize=10)


def _kept(row: Frontier, n: int | None) -> float:
    return float(row.power * row.private.power) * (1 if n is None else n)


def _budget(plan: Plan) -> str:
    return f"epsilon = {number(plan.epsilon, 6)}, delta = {number(plan.delta, 6)}"
