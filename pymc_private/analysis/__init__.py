"""What a graph can do: intervals, record labels, and the walk both share.

Imports: errors, NumPy, SciPy's special functions, PyTensor. Knows nothing of privacy or of PyMC.
"""

from pymc_private.analysis import record_dependence__row_indexing, record_dependence__row_rules, row_equivalence
from pymc_private.analysis.intervals.propagation import Culprit, Trail, bounds
from pymc_private.analysis.rewrites.algebra__conditions import failing_as_impossible
from pymc_private.analysis.row_equivalence__expressions import expressions
from pymc_private.analysis.intervals.interval import Ellipsoid, Interval, SimplexRows, ZeroSumRows
from pymc_private.analysis.intervals.logic__confine import confine, is_confined
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.record_dependence import MIXED, NONE, refuse_joint_conditions, row_labels
from pymc_private.analysis.traversal__walk import walk

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
    "row_equivalence",
    "expressions",
    "failing_as_impossible",
    "is_confined",
    "refuse_joint_conditions",
    "record_dependence__row_indexing",
    "row_labels",
    "record_dependence__row_rules",
    "simplify",
    "walk",
]
