"""Reports on releases and their plots. Imports every other package; imported only by the demo."""

from pymc_private.report.comparison import Comparison, compare
from pymc_private.report.plots import plot_budget, plot_curve, plot_posterior
from pymc_private.report.report import Report, report

__all__ = [
    "Comparison",
    "Report",
    "compare",
    "plot_budget",
    "plot_curve",
    "plot_posterior",
    "report",
]
