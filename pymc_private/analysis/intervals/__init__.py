"""One interval rule per Op, registered by importing the files below.

Imports: NumPy, SciPy's special functions, PyTensor. A new Op is a new function in one of these
files, or a new file with an import line here.
"""

from pymc_private.analysis.intervals import (
    composite,
    confine,
    elementwise,
    indexing,
    linear,
    logic,
    normal_tail,
    power,
    reduce,
    shape,
    special,
)
from pymc_private.analysis.intervals.dispatch import bound, bound_scalar, has_rule, ruled_ops

__all__ = [
    "bound",
    "bound_scalar",
    "composite",
    "confine",
    "elementwise",
    "has_rule",
    "indexing",
    "linear",
    "logic",
    "normal_tail",
    "power",
    "reduce",
    "ruled_ops",
    "shape",
    "special",
]
