"""Pictures of the documentation that no single page computes: the landing page, the decision.

    python -m benchmarks.docs_pictures [landing] [choose]

`landing` takes minutes: it releases the Fair survey twice, as the demo does, and fits it once
without privacy (the survey is public). `choose` draws the picture of docs/choose.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parents[1] / "docs" / "images"
INK, QUESTION, ANSWER, LINE = "#1f2328", "#eef2f6", "#2b6298", "#656d76"

QUESTIONS = (
    (
        "Is all of the data one secret,\nor does each person\nprivatize their own?",
        "mollified draws",
        "mollify",
    ),
    ("Is a table of categories\nitself what you want?", "counts", "dirichlet, noisy_counts"),
    (
        "30 records or more, independent\ngiven shared parameters; an approximate\n"
        "posterior will do?",
        "a summary",
        'calibrate(release="summary")',
    ),
)
"""Question, what to take if the answer is yes, and how."""
OTHERWISE = ("draws", "calibrate(draws=...)")


def landing() -> None:
    """Three posteriors of the Fair survey: not private, of a summary, and ten private draws."""
    import tempfile

    import pymc_private as pmp
    from pymc_private import demo
    from pymc_private.models import compat

    model = demo.fair_model()
    plans = demo.plan_both(demo.declare_records(model))
    with tempfile.TemporaryDirectory() as folder:
        ledger = pmp.Ledger(Path(folder) / "fair.sqlite", epsilon=2, delta=1e-5)
        release = pmp.sample(plans[0], ledger=ledger, progressbar=False)
        summary = pmp.summarize(plans[1], ledger=ledger, progressbar=False)
        sampled = [demo.sample_model(made) for made in (model, summary.model())]
    plain, noisy = map(compat.to_dataset, sampled)
    three = {"not private": plain, demo.SUMMARY_NAME: noisy, demo.DRAWS_NAME: release.posterior}
    demo.plot_posteriors(three).savefig(IMAGES / "landing.png", dpi=130)


def choose(axes: Any = None) -> Any:
    """The decision between summary, draws, counts and mollified draws."""
    from matplotlib.figure import Figure

    if axes is None:
        axes = Figure(figsize=(8.4, 5.0), layout="constrained").subplots()
    axes.set(xlim=(0, 10), ylim=(-0.2, 6.2))
    axes.axis("off")
    for row, (question, answer, how) in enumerate(QUESTIONS):
        y = 5.5 - 1.75 * row
        draw_box(axes, 2.6, y, question, QUESTION, INK, width=4.9, height=1.05)
        draw_box(axes, 8.0, y, f"{answer}\n{how}", ANSWER, "white", width=3.6, height=0.8)
        draw_arrow(axes, (5.05, y), (6.2, y), "yes")
        if row + 1 < len(QUESTIONS):
            draw_arrow(axes, (2.6, y - 0.53), (2.6, y - 1.22), "no")
    draw_arrow(axes, (2.6, 1.47), (2.6, 0.72), "no")
    draw_box(axes, 2.6, 0.3, "\n".join(OTHERWISE), ANSWER, "white", width=3.6, height=0.8)
    return axes


def draw_box(
    axes: Any, x: float, y: float, text: str, fill: str, ink: str, *, width: float, height: float
) -> None:
    """A box with rounded corners and text in its middle."""
    from matplotlib.patches import FancyBboxPatch

    corner = (x - width / 2, y - height / 2)
    style = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, fc=fill, ec=LINE, lw=0.8))
    axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=9.5, linespacing=1.35)


def draw_arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], word: str) -> None:
    """An arrow with the answer beside it."""
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": LINE, "lw": 1.2})
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    offset = (0, 4) if start[1] == end[1] else (6, -3)
    axes.annotate(
        word, middle, xytext=offset, textcoords="offset points", fontsize=9, color=LINE,
        ha="center" if start[1] == end[1] else "left",
    )  # fmt: skip


def save_choice() -> None:
    """Write the decision as an SVG that does not change from run to run."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "choose", "svg.fonttype": "none"}):
        figure = choose().figure
        figure.savefig(IMAGES / "choose.svg", metadata={"Date": None})


if __name__ == "__main__":
    asked = sys.argv[1:] or ["choose", "landing"]
    if "choose" in asked:
        save_choice()
    if "landing" in asked:
        landing()
