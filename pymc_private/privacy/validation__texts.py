"""Texts and paths that a file can hold: names of releases, ledgers, tables and their axes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from pymc_private.errors import DomainError

def is_storable(text: object) -> bool:
    """Whether it is text that can be written: no null character, no half of a character."""
    if not isinstance(text, str) or "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def storable(text: Any, what: str, *, empty: bool = False) -> str:
    """Refuse what no file can hold as a name.

    Parameters
    ----------
    text : str
    what : str
        What is named, as in "the name of a table".
    empty : bool
        Whether it may be empty.

    Raises
    ------
    DomainError
        No text, or none that can be written.
    """
    if is_storable(text) and (text or empty):
        return str(text)
    raise DomainError(
        f"{what} is text that can be written to a file",
        got=repr(text)[:60] if isinstance(text, str) else type(text).__name__,
        allowed="text without null characters and halves of characters (surrogates)",
        do="take another name",
    )


def file_path(path: Any, what: str) -> Path:
    """Take the path of a file as a user gives it.

    Raises
    ------
    DomainError
        No path, or one that no file can have.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if text and is_storable(text):
        return Path(text)
    raise DomainError(
        f"{what} is the path of a file",
        got=repr(path)[:60] if isinstance(path, str) else type(path).__name__,
        allowed="a name of a file, as text or pathlib.Path",
    )
