"""A progress bar for a bound that is being tightened."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pymc_private.privacy.rounding__printing import number

PATIENCE = 1.0
"""Seconds before a bar is shown: most bounds take less."""
_WANTED = ContextVar("_WANTED", default=True)


@contextmanager
def bars(shown: bool) -> Iterator[None]:
    """Let no bar be shown inside, unless bars are wanted: for what plans before it draws.

    Parameters
    ----------
    shown : bool
    """
    before = _WANTED.set(_WANTED.get() and shown)
    try:
        yield
    finally:
        _WANTED.reset(before)


@contextmanager
def progress_bar(shown: bool) -> Iterator[Callable[[float, float], None]]:
    """Show the proved bound beside what is found, once it takes a while.

    Parameters
    ----------
    shown : bool

    Yields
    ------
    callable
        ``(proved, found)``; both are about the model, not about data.
    """
    if not (shown and _WANTED.get()):
        yield lambda proved, found: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, transient=True)
    start, task = time.perf_counter(), bar.add_task("Bounding R", total=1.0)

    def tell(proved: float, found: float) -> None:
        if time.perf_counter() - start < PATIENCE:
            return
        bar.start()
        share = found / proved if proved > 0 else 1.0
        words = f"Bounding R: proved {number(proved)}, found {number(found, up=False)}"
        bar.update(task, completed=share, description=words)

    try:
        yield tell
    finally:
        if bar.live.is_started:  # one that never started would print an empty line
            bar.stop()
