"""Numbers that a prediction reads besides draws and covariates: those written into the model."""

from __future__ import annotations

import warnings
import numpy as np
from collections.abc import Collection
from pytensor.graph.basic import Variable
from pymc_private.errors import PrivacyWarning
from pymc_private.models.lint_facts import data_of, leaves
from pymc_private.models.lint import is_plain

def warn_of_numbers(variable: Variable, given: Collection[Variable]) -> None:
    """Warn of numbers that hardly anybody would write without having seen data.

    Such as a mean to center by: a prediction that reads it tells it. Looks at the model alone, of
    which a skeleton will do, and shows none of the numbers. That there is no warning proves
    nothing; what is plain is said in `pymc_private.lint`.

    Parameters
    ----------
    variable : Variable
        What is predicted.
    given : collection of Variable
        Free variables and covariates, whose values come from elsewhere.
    """
    odd = 0
    for leaf in leaves(variable, set(given), set()):
        values = data_of(leaf)
        if values.dtype.kind == "f":
            odd += sum(not is_plain(value) for value in np.unique(values[np.isfinite(values)]))
    if odd:
        many = f"{odd} numbers that are" if odd > 1 else "a number that is"
        warnings.warn(
            f"the prediction of {variable.name} reads {many} written into the model and of more "
            "than two digits. If any was computed from the records (a mean to center by, a sd to "
            "divide by), whoever sees the prediction may learn it, outside the guarantee: write it "
            "as pm.Data and pass a public value",
            PrivacyWarning,
            stacklevel=4,
        )
