"""Exceptions and warnings of the package.

Every message states the problem, what was got, what is allowed and what to do next. No message
quotes a data value: the text of an error may be pasted into an issue.
"""

from __future__ import annotations

import difflib
import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast


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
        state = {name: _portable(value) for name, value in self.__dict__.items()}
        return _rebuild_error, (type(self), self.args, state)


def _portable(value: object) -> object:
    """A value as it is, or its text if it cannot go to another process, as a local function."""
    try:
        pickle.dumps(value)
    except Exception:  # whatever the class of a user's object raises
        return _row_text(value)
    return value


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


class Unrepeatable(Incompatible):
    """A table that did not give the rows that it gave before.

    Its text quotes no value, so that it is told after a charge, too.
    """


class DomainError(PymcPrivateError, ValueError):
    """A domain is missing, impossible, or contradicted by what the data claim to be."""


class Unsupported(PymcPrivateError, NotImplementedError):
    """The request is meaningful but no proof or sampler here covers it."""


class NotInformative(PymcPrivateError):
    """A plan whose draws would hardly differ from draws of the prior; nothing was charged."""


class PrivacyWarning(UserWarning):
    """Something a careful curator should know; the guarantee still holds as printed."""


Function = TypeVar("Function", bound=Callable[..., Any])
SYNONYMS = {
    "eps": "epsilon", "samples": "draws", "n_draws": "draws", "bounds": "domain",
    "seed": "random_seed", "path": "save", "filename": "save", "dims": "records",
}  # fmt: skip
"""Keywords of other libraries, and those that mean the same here."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known ones, or all of them."""
    names = list(known)
    return "; " + (nearest_names(word, names) or "allowed: " + ", ".join(names))


def nearest_names(word: str, known: Iterable[str]) -> str:
    """The question whether one of the nearest known names was meant; empty if none is near."""
    names = list(known)
    near = [SYNONYMS[word]] if SYNONYMS.get(word) in names else []
    near = near or difflib.get_close_matches(word, names, n=2, cutoff=0.6)
    near = near or [name for name in names if len(word) > 1 and name.startswith(word)]
    return "did you mean " + " or ".join(f"'{name}'" for name in near) + "?" if near else ""


class PointsElsewhere:
    """A class whose errors say where to find what is sought in it, or the nearest name.

    Attributes
    ----------
    _elsewhere : mapping of str to str
        What to write in place of names that others look for here.
    """

    __slots__ = ()
    _elsewhere: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:  # to a type checker, an unknown attribute stays an error

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or hasattr(type(self), name):
                return object.__getattribute__(self, name)  # raises what went wrong
            text = f"a {type(self).__name__} has no '{name}'"
            known = [known for known in dir(self) if not known.startswith("_")]
            found = self._elsewhere.get(name) or nearest_names(name, known)
            text = f"{text}: {found}" if found else text
            raise AttributeError(text, name=name, obj=self)

    def __enter__(self) -> NoReturn:
        raise DomainError(
            f"a {type(self).__name__} is no model, and nothing is built in its context",
            got=type(self).__name__,
            allowed="the model of a summary",
            do=self._elsewhere.get("sample"),
        )

    def __exit__(self, *error: object) -> None:
        """Nothing was entered."""


def suggest_arguments(function: Function, options: Iterable[str] = ()) -> Function:
    """Decorate a public function: a `TypeError` about its arguments names the nearest keyword.

    `options` are the keywords that it takes as ``**options``, if it takes no others.
    """
    signature = inspect.signature(function)
    name = function.__name__
    if name == "__init__":  # the class is what its user calls
        name = function.__qualname__.split(".")[-2]
    if options:
        named = [p for p in signature.parameters.values() if p.kind is not _ANY_NAME]
        more = [inspect.Parameter(name, _BY_NAME[1], default=None) for name in options]
        signature = signature.replace(parameters=[*named, *more])

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            message = _argument_message(name, signature, args, kwargs)
            raise TypeError(message or f"{name}(): {error}") from None
        return function(*args, **kwargs)

    return cast(Function, checked)


def _argument_message(
    name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str:
    """What is wrong with arguments that do not fit a signature; empty where one is missing."""
    kinds = {p.name: p.kind for p in signature.parameters.values()}
    named = [key for key, kind in kinds.items() if kind in _BY_NAME]
    first = [key for key, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    if first[:1] == ["self"]:
        named, first, args = named[1:], first[1:], args[1:]
    unknown = [key for key in kwargs if key not in named]
    if unknown and _ANY_NAME not in kinds.values():
        hints = [f"'{key}'{did_you_mean(key, named)}" for key in unknown]
        return f"{name}() has no keyword " + ", and no ".join(hints)
    if len(args) > len(first):
        others = ", ".join(f"{key}=" for key in named if key not in first)
        return (
            f"{name}() takes {len(first)} argument{'s' * (len(first) != 1)} by position "
            f"({', '.join(first)}), got {len(args)}; give the others by name: {others}"
        )
    return ""


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ANY_NAME = inspect.Parameter.VAR_KEYWORD
