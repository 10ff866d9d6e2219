"""Reports and pictures: the top floor, imports every room and is imported by none."""

from pymc_private.report.comparison import Comparison, compare
from pymc_private.report.plots import plot_budget, plot_curve, plot_posterior
from pymc_private.report.report__report import Report, report

__all__ = [
    "Comparison",
    "Report",
    "compare",
    "plot_budget",
    "plot_curve",
    "plot_posterior",
    "report",
]
