"""Interval bounds of graph nodes: one rule per Op, registered by importing the files below.

Imports: NumPy, SciPy's special functions, PyTensor. A new Op is a new function in one of these
files, or a new file with an import line here.
"""

from pymc_private.analysis.intervals import arrays, elementwise, linear_algebra, logic, special
from pymc_private.analysis.intervals.dispatch import (
    bound_op,
    bound_scalar_op,
    has_rule,
    ops_with_rules,
)

__all__ = [
    "arrays",
    "bound_op",
    "bound_scalar_op",
    "elementwise",
    "has_rule",
    "linear_algebra",
    "logic",
    "ops_with_rules",
    "special",
]
