"""nuts: one fresh run per released draw, by any back end; conditional on a distance that is stated.

No theorem bounds how far a run of NUTS ends from its posterior. The user states a bound t of that
distance (total variation); the promise holds if it is true (T18). Several states of one chain are
not offered: each may be marginally right and the pair still reveal the data (T19).
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pymc as pm

from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.compat import to_dataset
from pymc_private.models.private_model import PrivateModel
from pymc_private.samplers.randomness import (
    SeededRandomness,
    Uniform,
    has_grid,
    round_open,
    round_to_grid,
)

BACKENDS = {"pymc": "pymc", "nutpie": "nutpie", "numpyro": "numpyro", "blackjax": "blackjax"}
"""Back ends and the packages they need."""
Draws = dict[str, np.ndarray]


def check_nuts(private: PrivateModel, tv: float | None, backend: str, states_per_run: int) -> None:
    """Refuse what no promise, not even a conditional one, can be made of. Reads no data.

    Raises
    ------
    DomainError
        No t, or one that is no probability; an unknown back end; several states of one chain.
    Unsupported
        A back end that is not installed, or discrete parameters.
    """
    if tv is None or not 0.0 < tv < 1.0:
        raise DomainError(
            "NUTS draws are within some distance t of the posterior that nobody can prove",
            got=f"tv={tv}",
            allowed="0 < tv < 1: the total variation you are ready to state for every fresh run",
            do="state tv=, or take a sampler with a proof: sampler='auto'",
        )
    if states_per_run != 1:
        raise DomainError(
            "states of one chain carry no promise: exact marginals are not enough (T19)",
            got=f"states_per_run={states_per_run}",
            allowed="1: each released draw is the last state of a run of its own",
            do="ask for as many draws as you need; each is a fresh run",
        )
    if backend not in BACKENDS:
        raise DomainError("no such back end", got=backend, allowed=", ".join(BACKENDS))
    if importlib.util.find_spec(BACKENDS[backend]) is None:
        raise Unsupported(
            "this back end is not installed",
            got=backend,
            allowed=", ".join(b for b, p in BACKENDS.items() if importlib.util.find_spec(p)),
            do=f"pip install {BACKENDS[backend]}",
        )
    discrete = [n for n, v in private.graph.parameters.items() if "float" not in v.type.dtype]
    if discrete:
        raise Unsupported(
            "NUTS needs continuous parameters",
            got=", ".join(discrete),
            do="marginalize discrete parameters, or sampler='grid'",
        )


def sample_nuts(
    private: PrivateModel, draws: int, randomness: Uniform, *, backend: str, tune: int
) -> Draws:
    """Last states of so many fresh runs, by name, on a public grid. Reads the data.

    Runs start and adapt each on its own; the model is compiled once. In a private draw each back
    end takes 128 bits or more from the operating system by itself.
    """
    seed = randomness.below(2**31) if isinstance(randomness, SeededRandomness) else None
    with _quiet():
        samples = _RUNNERS[backend](private.model, draws, tune, seed)
    posterior = to_dataset(samples)
    return {name: _rounded(private, name, posterior[name].values[:, -1]) for name in private.shapes}


def _rounded(private: PrivateModel, name: str, values: np.ndarray) -> np.ndarray:
    box = private.box[name]
    lower, upper = np.asarray(box.lower, float), np.asarray(box.upper, float)
    if box.within is None and box.is_finite and has_grid(lower, upper):
        return round_to_grid(np.clip(values, lower, upper), lower, upper)
    return np.clip(round_open(values, np.zeros(values.shape[1:])), lower, upper)


def _pymc(model: pm.Model, runs: int, tune: int, seed: int | None) -> Any:
    return pm.sample(
        draws=1,
        tune=tune,
        chains=runs,
        cores=1,
        nuts_sampler="pymc",
        random_seed=seed,
        progressbar=False,
        compute_convergence_checks=False,
        model=model,
    )


def _external(name: str) -> Callable[[pm.Model, int, int, int | None], Any]:
    def run(model: pm.Model, runs: int, tune: int, seed: int | None) -> Any:
        return pm.sample(
            draws=1,
            tune=tune,
            chains=runs,
            nuts_sampler=name,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
            model=model,
        )

    return run


def _nutpie(model: pm.Model, runs: int, tune: int, seed: int | None) -> Any:
    nutpie = importlib.import_module("nutpie")
    return nutpie.sample(
        nutpie.compile_pymc_model(model),
        draws=1,
        tune=tune,
        chains=runs,
        cores=1,
        seed=seed,
        progress_bar=False,
    )


_RUNNERS: dict[str, Callable[[pm.Model, int, int, int | None], Any]] = {
    "pymc": _pymc,
    "nutpie": _nutpie,
    "numpyro": _external("numpyro"),
    "blackjax": _external("blackjax"),
}


@contextmanager
def _quiet() -> Iterator[None]:
    """What a run says (divergences, speed) depends on the data: it goes nowhere."""
    loggers = [logging.getLogger(name) for name in ("pymc", "nutpie", "numpyro", "jax")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
