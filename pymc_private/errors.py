"""Exceptions and warnings of the package.

Every message states the problem, what was got, what is allowed and what to do next. No message
quotes a data value: the text of an error may be pasted into an issue.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any


class PymcPrivateError(Exception):
    """Base of every error raised by this package.

    Parameters
    ----------
    problem : str
        One sentence saying what is wrong.
    got, allowed, do : str, optional
        What was found, what would have been accepted, and what to try next.
    """

    def __init__(
        self, problem: str, *, got: object = None, allowed: object = None, do: object = None
    ) -> None:
        self.problem, self.got, self.allowed, self.do = problem, got, allowed, do
        rows = (("got", got), ("allowed", allowed), ("what to do", do))
        lines = [
            _printable(problem),
            *(f"  {title}: {_row_text(row)}" for title, row in rows if row is not None),
        ]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> Any:
        return _rebuild_error, (type(self), self.args, self.__dict__)


def _row_text(row: object) -> str:
    try:
        return _printable(str(row))
    except ValueError:  # Python refuses to write very long integers
        return f"{type(row).__name__}, too long to write"


def _printable(text: str) -> str:
    """Text that any screen and file can hold: lone surrogates are escaped."""
    return text.encode(errors="backslashreplace").decode()


def _rebuild_error(cls: type[PymcPrivateError], args: tuple, state: dict) -> PymcPrivateError:
    """Restore an error without its keyword-only constructor (pickle, deepcopy)."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class NotCertified(PymcPrivateError):
    """No finite sensitivity is proved.

    Attributes
    ----------
    blame : tuple of str
        The variables or Ops that made the bound infinite.
    cure : str
        What would make it finite.
    """

    def __init__(
        self, problem: str, *, blame: tuple[str, ...] = (), cure: str = "", **rows: object
    ) -> None:
        self.blame, self.cure = blame, cure
        super().__init__(problem, **{"got": ", ".join(blame) or None, "do": cure or None} | rows)


class BudgetExceeded(PymcPrivateError):
    """A charge does not fit the ledger, or no plan fits the request; nothing was spent.

    Attributes
    ----------
    asked, spent, left : tuple of Fraction
        (epsilon in nats, delta).
    """

    def __init__(
        self,
        problem: str,
        *,
        asked: tuple[Fraction, Fraction],
        spent: tuple[Fraction, Fraction],
        left: tuple[Fraction, Fraction],
        **rows: object,
    ) -> None:
        self.asked, self.spent, self.left = asked, spent, left
        super().__init__(problem, **rows)


class Incompatible(PymcPrivateError):
    """Two things that must agree do not: neighbors, a ledger file, a stored release."""


class DomainError(PymcPrivateError, ValueError):
    """A domain is missing, impossible, or contradicted by what the data claim to be."""


class Unsupported(PymcPrivateError, NotImplementedError):
    """The request is meaningful but no proof or sampler here covers it."""


class PrivacyWarning(UserWarning):
    """Something a careful curator should know; the guarantee still holds as printed."""
