"""Checks of the arguments of formulas, and their use on arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from pymc_private.errors import DomainError

Formula = TypeVar("Formula", bound=Callable[..., Any])


def vectorized(formula: Formula) -> Formula:
    """Let a formula of numbers take arrays as well: they broadcast, and floats come back."""
    names = inspect.signature(formula)

    @functools.wraps(formula)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = names.bind(*args, **kwargs)
        arrays = {k: np.asarray(v, object) for k, v in given.arguments.items() if _is_array(v)}
        if not arrays:
            return formula(*args, **kwargs)
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        flat = {k: np.broadcast_to(array, shape).ravel() for k, array in arrays.items()}
        rest = {k: v for k, v in given.arguments.items() if k not in arrays}
        count = int(np.prod(shape))
        values = [formula(**rest, **{k: a[i] for k, a in flat.items()}) for i in range(count)]
        return np.array(values, float).reshape(shape)

    return call  # type: ignore[return-value]


def _is_array(value: Any) -> bool:
    return np.ndim(value) > 0 and not isinstance(value, str)


def positive(**named: Any) -> None:
    """Refuse numbers that are not above zero, or infinite.

    Raises
    ------
    DomainError
        Names the first of them.
    """
    for name, value in named.items():
        if not 0.0 < value < float("inf"):
            raise DomainError(f"{name} is positive", got=value, allowed=f"0 < {name} < inf")


def not_negative(**named: Any) -> None:
    """Refuse numbers below zero, and those that are none.

    Raises
    ------
    DomainError
        Names the first of them.
    """
    for name, value in named.items():
        if not value >= 0.0:
            raise DomainError(f"{name} is not negative", got=value, allowed=f"{name} >= 0")


def inside_unit(**named: Any) -> None:
    """Refuse numbers outside the open unit interval.

    Raises
    ------
    DomainError
        Names the first of them.
    """
    for name, value in named.items():
        if not 0.0 < value < 1.0:
            raise DomainError(f"{name} lies in (0, 1)", got=value, allowed=f"0 < {name} < 1")


def order_of(order: Any) -> None:
    """Refuse Renyi orders below one.

    Raises
    ------
    DomainError
        It is below one, or no number.
    """
    if not order >= 1.0:
        raise DomainError("a Renyi order is at least 1", got=order, allowed="order >= 1")
