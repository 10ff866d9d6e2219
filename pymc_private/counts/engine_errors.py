"""Errors of data frame engines without their text: it quotes the values that they cannot handle.

Any type of error may quote one. DuckDB's come from a reader of Arrow as an OSError; a function of
the user raises what it likes; the path of a file that is not there may be an entry of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from pymc_private.errors import DomainError, PymcPrivateError, Unrepeatable

Result = TypeVar("Result")
PACKAGES = ("pyarrow", "pandas", "polars", "duckdb", "dask", "distributed", "pyspark", "fsspec")
"""Packages that may be named where one is not installed."""
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
        The engine failed.
    MemoryError
        Without a text.
    """

    def fail(cause: str) -> NoReturn:
        text = f"{problem}; nothing was charged"
        raise DomainError(text, got=cause, allowed=allowed, do=do or None)

    return _quiet(work, fail)


def read_again(work: Callable[[], Result]) -> Result:
    """What an engine gives that gave all rows before; of what it raises only the type is shown.

    Raises
    ------
    Unrepeatable
        The engine failed.
    """
    return _quiet(work, _fail_again)


def batches_again(batches: Callable[[], Iterable[Result]]) -> Iterator[Result]:
    """Batches of a table that was read before; see `read_again`."""
    each = read_again(lambda: iter(batches()))
    while (batch := read_again(lambda: next(each, None))) is not None:
        yield batch


def refuse_names_twice(data: Any) -> None:
    """Refuse a table two of whose columns have one name, of whatever engine.

    Raises
    ------
    DomainError
        Two columns have one name, or the engine cannot tell them.
    """
    module = type(data).__module__
    names: list[Any] = []
    if module.startswith("pyarrow") and hasattr(data, "schema"):
        names = list(data.schema.names)
    elif module.startswith(("pandas", "dask", "duckdb", "_duckdb", "pyspark")):
        names = hide_quotes(lambda: list(getattr(data, "columns", ())), *UNREADABLE)
    if twice := sorted({str(name) for name in names if names.count(name) > 1}):
        raise DomainError(
            "columns of a table have names of their own; nothing was charged",
            got=f"{', '.join(twice)} twice",
            allowed="a name for each column",
            do="rename one of them",
        )


def _fail_again(cause: str) -> NoReturn:
    raise Unrepeatable(
        "the engine could not read the table again",
        got=cause,
        allowed="a table that its engine can evaluate several times",
        do="write it to a file, or collect it, and give that",
    )


def _quiet(work: Callable[[], Result], fail: Callable[[str], NoReturn]) -> Result:
    """What work gives; `fail` is told the type of what it raises.

    Errors are raised outside the handlers: they have no context, which tracebacks print.
    """
    own: PymcPrivateError | None = None
    stopped = False
    try:
        return work()
    except GeneratorExit:
        raise
    except KeyboardInterrupt:  # maybe while the engine told an error
        stopped = True
    except PymcPrivateError as error:
        own = error
    except BaseException as error:  # also SystemExit and panics of Rust
        cause, is_memory = _cause(error), isinstance(error, MemoryError)
    if stopped:
        raise KeyboardInterrupt
    if own is not None:
        own.__cause__ = own.__context__ = None
        own.__dict__.pop("__notes__", None)
        raise own
    if is_memory:
        raise MemoryError
    fail(cause)


def _cause(error: BaseException) -> str:
    """The type of an error, and the package that is not installed."""
    package = (getattr(error, "name", None) or "") if isinstance(error, ImportError) else ""
    found = type(error).__name__
    return f"{found}: {package}" if package in PACKAGES else found
