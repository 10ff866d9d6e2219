"""One interval rule per Op, registered by importing the files below.

Imports: NumPy, SciPy's special functions, PyTensor. A new Op is a new function in one of these
files, or a new file with an import line here.
"""

from pymc_private.analysis.intervals import arrays, arrays__reduce, arrays__shape, elementwise, elementwise__power, linear_algebra, logic, logic__confine, special, special__composite, special__normal_tail
from pymc_private.analysis.intervals.dispatch import bound, bound_scalar, has_rule, ruled_ops

__all__ = [
    "bound",
    "bound_scalar",
    "special__composite",
    "logic__confine",
    "elementwise",
    "has_rule",
    "arrays",
    "linear_algebra",
    "logic",
    "special__normal_tail",
    "elementwise__power",
    "arrays__reduce",
    "ruled_ops",
    "arrays__shape",
    "special",
]
