"""What a fit can see of its surroundings: other fits of the same records, and what was learned."""

from __future__ import annotations

import sys
import warnings
import numpy as np
import pandas as pd
from collections.abc import Iterator, Mapping
from typing import Any
from pymc_private.errors import Incompatible, PrivacyWarning
from pymc_private.estimators.counting__columns import Column
from pymc_private.ledger import Ledger

REFITS = (
    "cross-validation, ensembles and the like fit the same records again and again, and scores "
    "look at private rows"
)
REFITTING = (
    "sklearn.model_selection", "sklearn.ensemble", "sklearn.calibration", "sklearn.multiclass",
    "sklearn.multioutput", "sklearn.feature_selection", "sklearn.semi_supervised",
    "sklearn.inspection", "sklearn.learning_curve",
)  # fmt: skip
"""Parts of scikit-learn that fit an estimator more than once, or look at its scores."""
STEPS = 64
"""Most equal steps, or shares of the records, that edges are tried as."""


def refuse_refits(ledger: Ledger | None, random_state: Any, name: str | None) -> None:
    """Inside scikit-learn's cross-validation every fit is charged, or refused without a ledger.

    Raises
    ------
    Incompatible
        There is no ledger; or one name for all fits, so that the first would answer for the others;
        or an ensemble set `random_state`, as they do to each of their members.
    """
    modules = [_module(frame) for frame in _callers()]
    if random_state is not None and any(name.startswith("sklearn.ensemble") for name in modules):
        raise Incompatible(
            "an ensemble sets random_state of its members, and a seeded fit is not private",
            got="a seeded fit inside sklearn.ensemble",
            do="take one estimator: posterior_draws() averages over what noise leaves open",
        )
    if random_state is not None or not any(name.startswith(REFITTING) for name in modules):
        return
    if ledger is None and Ledger.current() is None:
        raise Incompatible(
            REFITS,
            got="a fit inside cross-validation or the like, without a ledger",
            do="choose parameters on public data or by prior knowledge; or pass a ledger with a "
            "path, which is charged for every fit, and keep the scores to yourself",
        )
    if name is not None:
        raise Incompatible(
            "a name stands for one release, and every fit here is one of its own",
            got=f"name={name!r} inside cross-validation or the like",
            do="leave name= out where an estimator is fitted again and again",
        )
    warnings.warn(
        f"{REFITS}: each fit is charged; scores, and what is chosen by them, are not covered by "
        "the guarantee",
        PrivacyWarning,
        stacklevel=5,
    )


def warn_of_seeds(random_state: Any) -> None:
    """Warn that a seeded fit is not private: predictions bear no mark that would tell."""
    if random_state is not None:
        warnings.warn(
            "NOT PRIVATE: a fit with random_state can be drawn again by who knows the seed, and "
            "charges nothing; leave random_state out for a private one",
            PrivacyWarning,
            stacklevel=5,
        )


def warn_of_pipelines() -> None:
    """Warn where a pipeline learned something from the private rows before they came here."""
    for frame in _callers():
        owner = frame.f_locals.get("self")
        if _module(frame) != "sklearn.pipeline" or not hasattr(owner, "steps"):
            continue
        learned = [type(step).__name__ for _, step in owner.steps[:-1] if _learns(step)]
        if learned:
            warnings.warn(
                f"{', '.join(learned)} learned from the private rows, and the guarantee does not "
                "cover what it learned; declare bins and categories instead: Bins([...]) from a "
                "codebook or public data, FunctionTransformer for what needs no learning",
                PrivacyWarning,
                stacklevel=5,
            )
        return


def warn_of_edges(frame: Any, columns: Mapping[str, Column]) -> None:
    """Warn of edges that are quantiles, or equal steps of the range, of these very records."""
    if not isinstance(frame, pd.DataFrame):
        return
    binned = {n: np.asarray(c.edges) for n, c in columns.items() if c.edges and n in frame}
    seen = [name for name, edges in binned.items() if _computed(edges, _numbers(frame[name]))]
    if seen:
        warnings.warn(
            f"the edges of {', '.join(seen)} are quantiles or equal steps of these records; if "
            "they were computed from them, the guarantee does not cover what they tell: take "
            "edges from a codebook or public data",
            PrivacyWarning,
            stacklevel=5,
        )


def _computed(edges: np.ndarray, values: np.ndarray) -> bool:
    """Whether edges split these records' range, or their number, into equal parts.

    One edge, or two whole numbers, may be so by chance: a median age is 18 somewhere.
    """
    values = values[np.isfinite(values)]
    whole = np.array_equal(edges, np.round(edges))
    if len(values) < 2 or len(edges) < (3 if whole else 2):
        return False
    low, high = values.min(), values.max()
    tolerance = 1e-9 * max(abs(low), abs(high), high - low)
    for parts in range(2, STEPS + 1):
        shares = np.linspace(0.0, 1.0, parts + 1)
        for ends in (slice(None), slice(1, -1)):
            if len(shares[ends]) != len(edges):
                continue
            quantiles = np.quantile(values, shares[ends])
            steps = low + (high - low) * shares[ends]
            if any(np.abs(edges - found).max() <= tolerance for found in (quantiles, steps)):
                return True
    return False


def _numbers(column: Any) -> np.ndarray:
    return np.asarray(pd.to_numeric(column, errors="coerce"), dtype=float)


def _learns(step: Any) -> bool:
    """Whether a transformer says that it has to be fitted."""
    if step is None or isinstance(step, str):
        return False
    try:
        return bool(step.__sklearn_tags__().requires_fit)
    except AttributeError:
        return True


def _callers() -> Iterator[Any]:
    frame: Any = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", ""))
