"""Static analysis of PyTensor graphs: interval bounds, record dependence, rewrites, search.

Imports: errors, NumPy, SciPy's special functions, PyTensor. Knows nothing of privacy or of
PyMC.
"""

from pymc_private.analysis import record_dependence, row_equivalence
from pymc_private.analysis.intervals.interval import Bounds, Ellipsoid, SimplexRows, ZeroSumRows
from pymc_private.analysis.intervals.logic import clamp, is_clamp
from pymc_private.analysis.intervals.propagation import Culprit, Trail, propagate_bounds
from pymc_private.analysis.record_dependence import (
    MIXED,
    NONE,
    element_labels,
    refuse_joint_conditions,
)
from pymc_private.analysis.rewrites.algebra import checks_to_switches
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.row_equivalence import value_numbers
from pymc_private.analysis.traversal import walk

__all__ = [
    "MIXED",
    "NONE",
    "Bounds",
    "Culprit",
    "Ellipsoid",
    "SimplexRows",
    "Trail",
    "ZeroSumRows",
    "checks_to_switches",
    "clamp",
    "element_labels",
    "is_clamp",
    "propagate_bounds",
    "record_dependence",
    "refuse_joint_conditions",
    "row_equivalence",
    "simplify",
    "value_numbers",
    "walk",
]
