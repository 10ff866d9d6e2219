"""Hard use of formulas: the promise of `test_hard_use`, for every public function of numbers.

Each function of `privacy` and `planning` is called as it should be, with arguments found by trial,
and then with one argument replaced by anything.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pymc_private import planning, privacy
from pymc_private.privacy import Guarantee
from tests import test_hard_use as hard

NUMBERS = 0.5, 2, 1e-3, np.array([0.2, 0.5, 0.3]), np.array([2.0, 3.0, 1.0])
"""Of these one or more are right for each argument of most functions."""
MOST_TRIALS = 3000


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, and constructors of a guarantee."""
    for room in (privacy, planning):
        for name in room.__all__:
            value = getattr(room, name)
            if inspect.isfunction(value):
                yield name, value
    for name, value in vars(Guarantee).items():
        if isinstance(value, classmethod) and not name.startswith("_"):
            yield f"Guarantee.{name}", getattr(Guarantee, name)


FUNCTIONS = dict(functions())
OTHERWISE: dict[str, dict[str, Any]] = {}
"""Arguments of functions for which no trial is right."""


def arguments_of(name: str) -> dict[str, Any] | None:
    """Arguments that a function takes; None if none are found."""
    if name in OTHERWISE:
        return OTHERWISE[name]
    given = [
        k for k, p in inspect.signature(FUNCTIONS[name]).parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]  # fmt: skip
    trials = itertools.product(NUMBERS, repeat=len(given))
    for values in itertools.islice(trials, MOST_TRIALS):
        words = dict(zip(given, values, strict=True))
        try:
            FUNCTIONS[name](**words)
            return words
        except hard.ALLOWED:
            continue
    return None


@pytest.mark.audit
@pytest.mark.parametrize("name", FUNCTIONS)
def test_formulas_survive_everything(name) -> None:
    words = arguments_of(name)
    assert words is not None, f"give right arguments of {name} in OTHERWISE"
    for argument in inspect.signature(FUNCTIONS[name]).parameters:
        for value in (make() for make in hard.JUNK):
            hard.use((name, FUNCTIONS[name], lambda: dict(words)), {argument: value})
