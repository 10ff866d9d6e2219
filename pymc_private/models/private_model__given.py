"""What verbs are given: a private model, and nothing that merely looks like one."""

from __future__ import annotations

from typing import Any
from pymc_private.errors import DomainError
from pymc_private.models.private_model import PrivateModel

def private_model(given: Any) -> PrivateModel:
    """The private model that a verb was given.

    Raises
    ------
    DomainError
        Something else: most often a PyMC or Bambi model that was not declared.
    """
    if isinstance(given, PrivateModel):
        return given
    raise DomainError(
        "this is no private model",
        got=type(given).__name__,
        allowed="what pmp.privatize, trim, temper or clip return",
        do="private = pmp.privatize(model, records=..., domain=...)",
    )
