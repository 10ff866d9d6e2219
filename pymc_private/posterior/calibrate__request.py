"""What a plan is asked to meet: numbers that make sense, and a number of records that is public."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.validation import is_number
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

@dataclass(frozen=True)
class Request:
    """What a plan was asked to meet."""

    epsilon: float
    delta: float
    counts: tuple[int, ...]
    n: int | None
    temper: bool
    sampler: Any
    strict: bool
    clip: bool | None

    @property
    def form(self) -> dict[str, bool]:
        """What `choose` is told of it."""
        return {"strict": self.strict, "pure": self.delta == 0}


def checked_counts(epsilon: float, delta: float, draws: int | Sequence[int]) -> tuple[int, ...]:
    """The numbers of draws, each once."""
    given = list(draws) if isinstance(draws, Sequence | np.ndarray) else [draws]
    if not given or isinstance(draws, str):
        raise DomainError("how many draws?", got=repr(draws), allowed="1, 2, ..., or a list")
    for count in given:
        if isinstance(count, bool) or not (isinstance(count, int | np.integer) and count >= 1):
            raise DomainError("draws is a whole number >= 1", got=count, allowed="1, 2, ...")
    if not (is_number(epsilon) and math.isfinite(epsilon) and epsilon > 0):
        raise DomainError(
            "epsilon must be positive and finite", got=repr(epsilon), allowed="epsilon > 0"
        )
    if not (is_number(delta) and 0.0 <= delta < 1.0):
        raise DomainError(
            "delta is a probability below 1", got=repr(delta), allowed="0 <= delta < 1"
        )
    return tuple(dict.fromkeys(int(count) for count in given))


def public_count(private: PrivateModel, given: int | None) -> int | None:
    """The number of records that plans may speak of."""
    if private.neighbors != ADD_REMOVE:
        if given is not None and given != private.n:
            raise DomainError(
                "n= is for add/remove neighbors; here the number of records is public",
                got=given,
                allowed=f"{private.n}, or nothing",
            )
        return private.n
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool) and given >= 1
    if given is not None and not whole:
        raise DomainError("n= is a public number of records", got=given, allowed="1, 2, ...")
    return None if given is None else int(given)
