"""temper: the likelihood to a power, which scales what one record can change."""

from __future__ import annotations

import math
from fractions import Fraction
from pymc_private.errors import DomainError
from pymc_private.models.private_model__given import private_model
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.validation import is_number

def temper(private: PrivateModel, power: float | Fraction) -> PrivateModel:
    """Raise the likelihood to a public power: R becomes power * R (T1).

    The posterior has power * n records' worth of information, spread evenly over all records.

    Parameters
    ----------
    private : PrivateModel
    power : float or Fraction
        In (0, 1]. Multiplies a power the model already has.

    Returns
    -------
    PrivateModel

    Raises
    ------
    DomainError
        The power is not in (0, 1], or `private` is no private model.
    """
    private = private_model(private)
    if not (is_number(power) and math.isfinite(power) and 0 < power <= 1):
        raise DomainError(
            "the power of a likelihood must lie in (0, 1]",
            got=str(power),
            allowed="0 < power <= 1",
            do="powers above 1 would count records more than once",
        )
    return private.with_power(private.power * Fraction(power))
