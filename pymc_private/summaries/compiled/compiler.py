"""Whether loops over rows are compiled in this process: only where many rows pay for it.

Compiled loops (`loops.py`) give what NumPy gives, to the bit, so that nothing but seconds depends
on whether they are used: workers, other processes and small tables may do without. Whoever expects
many rows brings the function that compiles loops and compares them with NumPy
(`compiled_agreement.py`), before their first use; where a bit differs, or numba fails, NumPy is
used. Of centers of scores, which many small releases need as much as one large one, NumPy finds
those of the first `ENOUGH_WORK` nodes: no process takes more than twice as long as it has to.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

COMPILED_FROM = 4_000_000
"""Records of a table from which on loops are compiled, which takes some three seconds."""
ENOUGH_WORK = 30_000_000
"""Nodes of outcomes whose centers take NumPy as long as compiling the loop for them does."""
ROWS, SCORES, SUMS, CENTERS = "rows", "scores", "sums of scores", "centers"
"""Kinds: of all tables, of outcomes with two values, of those whose predictor is affine, and of
outcomes with more values."""
Agreeing = Callable[[str], tuple[Any, list[str]]]
"""Of a kind: its loops, and names of those that differ from NumPy."""
logger = logging.getLogger("pymc_private")


class LoopCompiler:
    """The compiled loops of a process, once they are wanted: each kind when it is first needed."""

    def __init__(self) -> None:
        self.agreeing: Agreeing | None = None
        self.at_hand: Agreeing | None = None
        self.work = 0
        self._found: dict[str, Any] = {}
        self._lock = threading.Lock()

    def expect(self, rows: int, agreeing: Agreeing) -> None:
        """Take note of how many rows are to be read, now or later."""
        self.at_hand = self.at_hand or agreeing
        if rows >= COMPILED_FROM:
            self.agreeing = agreeing

    @property
    def loops(self) -> Any:
        """The loops that all tables need, by name; None where NumPy is to be used."""
        return self.of_kind(ROWS)

    def of_kind(self, kind: str) -> Any:
        """Loops of one kind; None where NumPy is to be used."""
        return self._loops(kind, self.agreeing)

    def once_worthwhile(self, kind: str, work: int) -> Any:
        """The same of a kind whose work is counted; None until enough was left to NumPy."""
        if self.agreeing is None and self.work < ENOUGH_WORK:
            self.work += work
            return None
        return self._loops(kind, self.agreeing or self.at_hand)

    def _loops(self, kind: str, agreeing: Agreeing | None) -> Any:
        if agreeing is None or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
            return None  # loops of Python take a hundred times longer
        with self._lock:
            if kind not in self._found:
                self._found[kind] = _used(kind, agreeing)
        return self._found[kind]


COMPILER = LoopCompiler()
"""That of this process."""


def _used(kind: str, agreeing: Agreeing) -> Any:
    """The compiled loops of a kind, if all of them agree with NumPy."""
    try:
        loops, differing = agreeing(kind)
    except Exception as error:  # numba is another library's choice, and may fail in any way
        logger.warning("loops over rows are not compiled: %s", type(error).__name__)
        return None
    if differing:
        logger.warning("compiled loops differ from NumPy, which is used: %s", ", ".join(differing))
        return None
    return loops
