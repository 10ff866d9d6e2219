"""What a graph can do: intervals, record labels, and the walk both share.

Imports: errors, NumPy, SciPy's special functions, PyTensor. Knows nothing of privacy or of PyMC.
"""

from pymc_private.analysis import expression_rules, row_indexing, row_rules
from pymc_private.analysis.bounds import Culprit, Trail, bounds
from pymc_private.analysis.conditions import failing_as_impossible
from pymc_private.analysis.expressions import expressions
from pymc_private.analysis.interval import Ellipsoid, Interval, SimplexRows, ZeroSumRows
from pymc_private.analysis.intervals.confine import confine, is_confined
from pymc_private.analysis.rewrites import simplify
from pymc_private.analysis.rows import MIXED, NONE, refuse_joint_conditions, row_labels
from pymc_private.analysis.walk import walk

__all__ = [
    "MIXED",
    "NONE",
    "Culprit",
    "Ellipsoid",
    "Interval",
    "SimplexRows",
    "Trail",
    "ZeroSumRows",
    "bounds",
    "confine",
    "expression_rules",
    "expressions",
    "failing_as_impossible",
    "is_confined",
    "refuse_joint_conditions",
    "row_indexing",
    "row_labels",
    "row_rules",
    "simplify",
    "walk",
]
