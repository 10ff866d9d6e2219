"""Pictures of the documentation: of the landing page, the decision, and the finite family.

    python -m benchmarks.docs_pictures [landing] [choose] [priors] [trims]

`landing` takes minutes: it releases the Fair survey twice, as the demo does, and fits it once
without privacy (the survey is public). `choose` draws the picture of docs/choose.md, `priors` and
`trims` those of docs/gallery.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks import gallery

IMAGES = Path(__file__).parents[1] / "docs" / "images"
INK, QUESTION, ANSWER, LINE = "#1f2328", "#eef2f6", "#2b6298", "#656d76"

QUESTIONS = (
    (
        "Is all of the data one\nsecret, or does each person\nprivatize their own?",
        "mollified draws",
        "mollify",
    ),
    ("Is a table of categories\nitself what you want?", "counts", "dirichlet,\nnoisy_counts"),
    (
        "30 records or more,\nindependent given shared\nparameters; an approximate\n"
        "posterior will do?",
        "a summary",
        'calibrate(\nrelease="summary")',
    ),
)
"""Question, what to take if the answer is yes, and how."""
OTHERWISE = ("draws", "calibrate(draws=...)")
WIDTH, HEIGHT = 4.0, 4.25
"""Inches: 384 pixels wide, so that letters keep their size on the narrowest screens."""


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
        axes = Figure(figsize=(WIDTH, HEIGHT)).add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    axes.axis("off")
    left, right = 1.1, 3.22
    for row, (question, answer, how) in enumerate(QUESTIONS):
        y = 3.82 - 1.2 * row
        draw_box(axes, left, y, question, QUESTION, INK, width=2.12, height=0.8)
        draw_box(axes, right, y, f"{answer}\n{how}", ANSWER, "white", width=1.48, height=0.68)
        draw_arrow(axes, (left + 1.06, y), (right - 0.74, y), "yes")
        draw_arrow(axes, (left, y - 0.4), (left, y - 0.8), "no")
    draw_box(axes, left, 0.32, "\n".join(OTHERWISE), ANSWER, "white", width=1.6, height=0.5)
    return axes


def draw_box(
    axes: Any, x: float, y: float, text: str, fill: str, ink: str, *, width: float, height: float
) -> None:
    """A box with rounded corners and text in its middle."""
    from matplotlib.patches import FancyBboxPatch

    corner = (x - width / 2, y - height / 2)
    style = "round,pad=0,rounding_size=0.06"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, fc=fill, ec=LINE, lw=0.8))
    axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=9, linespacing=1.3)


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


def save_priors() -> None:
    """Write the two priors of the finite family."""
    gallery.figure_1()[0].figure.savefig(IMAGES / "priors.png", dpi=130)


def save_trims() -> None:
    """Write the trim against the number of draws."""
    gallery.trade_off_picture()[0].figure.savefig(IMAGES / "trims.png", dpi=130)


PICTURES = {"choose": save_choice, "priors": save_priors, "trims": save_trims, "landing": landing}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
