"""Hard use of formulas: what `test_hard_use` says, for every public function of numbers.

Each function of `privacy` and `planning` is called as it should be, with arguments found by trial,
and then with one argument replaced by anything.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from pymc_private import planning, privacy
from pymc_private.privacy import Guarantee
from tests import test_hard_use as hard

NUMBERS = 0.5, 2, 1e-3, np.array([0.2, 0.5, 0.3]), np.array([2.0, 3.0, 1.0])
"""Of these one or more are right for each argument of most functions."""
MOST_TRIALS = 3000
SLOW = "beta_pair_alpha", "beta_pair_delta_two_draws", "study"
"""Of these every other value, and the others for the next argument."""
MOST_ANSWERS = 100
"""Of one call: formulas take arrays, and so many times as long."""


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
OTHERWISE: dict[str, Callable[[], dict[str, Any]]] = {
    "adversary": lambda: {"guarantee": Guarantee.pure(1.0)},
    "epsilon_for_accuracy": lambda: {"goal": 0.9, "outside": lambda L: 0.5**L},
    "Guarantee.none": lambda: {"reason": "none"},
    "Guarantee.from_dict": lambda: {"record": Guarantee.pure(1.0).to_dict()},
    "from_event": lambda: {"event": gaussian_event()},
    "normal_gamma_rdp": lambda: {
        "order": 1.5, "a": 2.0, "kappa": 1.0, "b1": 1.0, "b2": 1.2, "m1": 0.0, "m2": 0.1,
    },
    "psaqr_dialogue_loss": lambda: {"n_draws": 10, "delta": 0.05, "responses": [2, 3]},
    "reconstruction_floor": lambda: {"guarantee": Guarantee.pure(1.0), "distance": 0.5},
    "to_event": lambda: {"guarantee": Guarantee.pure(1.0)},
}  # fmt: skip
"""Arguments of functions for which no trial is right."""


def gaussian_event() -> Any:
    return pytest.importorskip("dp_accounting").GaussianDpEvent(2.0)


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """Those with a name of their own."""
    known = inspect.signature(FUNCTIONS[name]).parameters
    return {k: p for k, p in known.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}


def arguments_of(name: str) -> dict[str, Any] | None:
    """Arguments that a function takes; None if none are found."""
    if name in OTHERWISE:
        return OTHERWISE[name]()
    given = [k for k, p in parameters(name).items() if p.default is p.empty]
    trials = itertools.product(NUMBERS, repeat=len(given))
    for values in itertools.islice(trials, MOST_TRIALS):
        words = dict(zip(given, values, strict=True))
        try:
            FUNCTIONS[name](**words)
            return words
        except hard.ALLOWED:
            continue
    return None


def checked(name: str, **words: Any) -> Any:
    """The answer of a function; every delta is a probability."""
    found = FUNCTIONS[name](**words)
    if "_delta" in name and isinstance(found, float | np.ndarray):
        assert np.all((np.asarray(found) >= 0.0) & (np.asarray(found) <= 1.0)), (name, words)
    return found


@pytest.mark.audit
@pytest.mark.parametrize("name", FUNCTIONS)
def test_formulas_survive_everything(name) -> None:
    words = arguments_of(name)
    assert words is not None, f"give right arguments of {name} in OTHERWISE"
    for place, argument in enumerate(parameters(name)):
        for make in hard.JUNK[place % 2 :: 2] if name in SLOW else hard.JUNK:
            value = make()
            if isinstance(value, range) and len(value) > MOST_ANSWERS:
                continue
            hard.use((name, partial(checked, name), lambda: dict(words)), {argument: value})
