"""Errors of data frame engines without their text: it quotes the values that they cannot handle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pymc_private.errors import DomainError, PymcPrivateError

Result = TypeVar("Result")
TOLD = (PymcPrivateError, OSError, ImportError, MemoryError)
"""Errors that quote no value: of a file or a package that is not there, say."""
UNREADABLE = (
    "the engine could not read the table",
    "a table that its engine can evaluate",
    "evaluate it once by its engine, which says why",
)
"""The error of a table whose query fails."""


def hide_quotes(work: Callable[[], Result], problem: str, allowed: str, do: str = "") -> Result:
    """What an engine gives; of what it raises only the type is shown.

    Parameters
    ----------
    work : callable
        Asks the engine, before a charge.
    problem, allowed, do : str
        Of the error.

    Raises
    ------
    DomainError
        The engine failed. Raised outside the handler, it has no context that shows values.
    """
    try:
        return work()
    except TOLD:
        raise
    except Exception as error:
        cause = type(error).__name__
    raise DomainError(f"{problem}; nothing was charged", got=cause, allowed=allowed, do=do or None)
