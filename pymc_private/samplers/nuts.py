"""NUTS with one fresh run per released draw, on any back end, at a stated distance.

No theorem bounds how far a run of NUTS ends from its posterior. The user states a bound t of
that distance (total variation); the guarantee holds if the statement is true (T18). Several
states of one chain are not offered: each may have the right marginal distribution and the pair
still reveal the data (T19).
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import secrets
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pymc as pm

from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.compat import quiet_sampling, to_dataset
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.validation import is_number
from pymc_private.samplers.randomness import (
    Draws,
    Randomness,
    SeededRandomness,
    has_grid,
    round_to_grid,
    round_unbounded,
)

BACKENDS = {"pymc": "pymc", "nutpie": "nutpie", "numpyro": "numpyro", "blackjax": "blackjax"}
"""Package that each back end needs."""
KEY_BITS = 63
"""Bits of a JAX key that are drawn; it has 64."""
SEED_BITS = {"pymc": 128, "nutpie": 64, "numpyro": KEY_BITS, "blackjax": KEY_BITS}
"""Bits of operating-system entropy from which all runs of one release are seeded."""
INSTALL_HINTS = {
    "numpyro": "pip install -U numpyro jax",
    "blackjax": "pip install 'blackjax<1.6'; PyMC 6.4 calls what later ones renamed",
}
STARTING_POINTS, START_SEED = 100, 20260211
"""Starting points tried, and the public seed of their jitter; a back end gives up after ten."""


def check_nuts(private: PrivateModel, tv: float | None, backend: str, states_per_run: int) -> None:
    """Refuse a model or an option for which not even a conditional guarantee holds. Reads no data.

    Raises
    ------
    DomainError
        No t, or a t outside (0, 1); an unknown back end; several states of one chain.
    Unsupported
        A back end that is not installed or does not work with this PyMC, or discrete parameters.
    """
    if tv is None or not (is_number(tv) and 0.0 < tv < 1.0):
        raise DomainError(
            "NUTS draws are within some distance t of the posterior that nobody can prove",
            got=f"tv={tv!r}",
            allowed="0 < tv < 1: the total variation you are ready to state between each draw and "
            "the posterior. It costs delta (1 + e^epsilon) tv per draw; if the true distance is "
            "larger, the guarantee does not hold",
            do="a sampler with a proof: sampler='auto'. Else state a tv that leaves most of delta, "
            "at most delta / (10 draws (1 + e^epsilon)): for epsilon=1, delta=1e-6, draws=10 that "
            "is sampler=pmp.samplers.Nuts(tv=2e-9). There is no default: it would be an assumption "
            "that nobody made",
        )
    if states_per_run != 1:
        raise DomainError(
            "states of one chain carry no guarantee: exact marginals are not enough (T19)",
            got=f"states_per_run={states_per_run}",
            allowed="1: each released draw is the last state of a run of its own",
            do="ask for as many draws as you need; each is a fresh run",
        )
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise DomainError("no such back end", got=backend, allowed=", ".join(BACKENDS))
    if importlib.util.find_spec(BACKENDS[backend]) is None:
        raise Unsupported(
            "this back end is not installed",
            got=backend,
            allowed=", ".join(b for b, p in BACKENDS.items() if importlib.util.find_spec(p)),
            do=f"pip install {BACKENDS[backend]}",
        )
    _check_backend_works(backend)
    _check_starting_points(private)
    discrete = [n for n, v in private.graph.parameters.items() if "float" not in v.type.dtype]
    if discrete:
        raise Unsupported(
            "NUTS needs continuous parameters",
            got=", ".join(discrete),
            do="sampler='grid', or sum the discrete ones out of the likelihood, as pm.Mixture does",
        )


def _check_starting_points(private: PrivateModel) -> None:
    """Refuse potentials of the prior that make the density zero at every starting point tried.

    They read no data.

    Raises
    ------
    DomainError
        The density is zero at all of them, several times as many as a back end tries.
    """
    own = {p.name for p in private.base.potentials} - set(private.graph.factors)
    if not own:
        return
    model = replace(private).model
    extra = [p for p in model.potentials if p.name in own]
    density = model.compile_logp(vars=[*model.free_RVs, *extra], jacobian=False)
    start = model.initial_point()
    generator = np.random.default_rng(
        START_SEED
    )  # of public starting points: no draw comes from it
    for jitter in (0.0, *[1.0] * STARTING_POINTS):
        point = {
            key: value
            + np.asarray(generator.uniform(-jitter, jitter, np.shape(value)), value.dtype)
            for key, value in start.items()
        }
        if np.isfinite(density(point)):
            return
    raise DomainError(
        "the prior has no density where NUTS would start: a potential makes it zero there; nothing "
        "was charged",
        got=", ".join(p.name for p in extra),
        allowed=f"a finite log-density at one of {STARTING_POINTS + 1} starts around the initial "
        "point",
        do="state initval= inside the support, or write the support as bounds of the prior",
    )


def _check_backend_works(backend: str) -> None:
    """Refuse a back end that would fail after the charge; JAX back ends depend on PyMC internals.

    Raises
    ------
    Unsupported
        Two steps on a normal distribution, which has no data, fail.
    """
    problem = _trial_problem(backend) if backend in ("numpyro", "blackjax") else ""
    if problem:
        version = importlib.metadata.version(BACKENDS[backend])
        raise Unsupported(
            "this back end does not work with the PyMC that is installed",
            got=f"{backend} {version}, PyMC {pm.__version__}: {problem}",
            do=INSTALL_HINTS[backend],
        )


@cache
def _trial_problem(backend: str) -> str:
    """Run a back end on a model without data; the error in one line, or an empty string."""
    with pm.Model() as model:
        pm.Normal("x")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # also of imported packages
            importlib.import_module(BACKENDS[backend])
            jax = importlib.import_module("jax")
            importlib.import_module("pytensor.link.jax.dispatch")
            if not int(jax.random.key_data(jax.random.PRNGKey(1 << 62))[0]):
                return "JAX keeps 32 bits of a key (its 64-bit numbers are off)"
            _RUNNERS[backend](model, 2, 1, None)
    except Exception as error:  # whatever fails here would fail in a release
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""


def sample_nuts(
    private: PrivateModel, draws: int, randomness: Randomness, *, backend: str, tune: int
) -> Draws:
    """Last states of fresh runs, by name, on a public grid. Reads the data.

    Each run starts and adapts by itself; the model is compiled once. In a private draw the back
    end's generator is seeded with as many operating-system bits as it takes: `SEED_BITS`.
    """
    seed = randomness.below(2**31) if isinstance(randomness, SeededRandomness) else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(BACKENDS[backend])  # JAX cannot be imported inside `quiet_sampling`
    # The model kept in a plan may have been modified; this one is built from the checked base.
    model = replace(private).model
    with quiet_sampling():
        samples = _RUNNERS[backend](model, draws, tune, seed)
    posterior = to_dataset(samples)
    return {
        name: _round_parameter(private, name, posterior[name].values[:, -1])
        for name in private.shapes
    }


def _round_parameter(private: PrivateModel, name: str, values: np.ndarray) -> np.ndarray:
    box = private.box[name]
    lower, upper = np.asarray(box.lower, float), np.asarray(box.upper, float)
    if box.within is None and box.is_finite and has_grid(lower, upper):
        return round_to_grid(np.clip(values, lower, upper), lower, upper)
    return np.clip(round_unbounded(values, np.zeros(values.shape[1:])), lower, upper)


def _run_pymc(model: pm.Model, runs: int, tune: int, seed: int | None) -> Any:
    """PyMC ends a run on Ctrl-C and keeps the others; here Ctrl-C stops the whole draw."""
    try:
        samples = pm.sample(
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
    except ValueError as error:
        if "Not enough samples" not in str(error):
            raise
        raise KeyboardInterrupt from None
    if to_dataset(samples).sizes["chain"] != runs:
        raise KeyboardInterrupt
    return samples


def _jax_runner(name: str) -> Callable[[pm.Model, int, int, int | None], Any]:
    def run(model: pm.Model, runs: int, tune: int, seed: int | None) -> Any:
        # PyMC alone would make a key of 30 bits: few enough to enumerate.
        key = secrets.randbits(KEY_BITS) if seed is None else seed
        return importlib.import_module("pymc.sampling.jax").sample_jax_nuts(
            draws=1,
            tune=tune,
            chains=runs,
            nuts_sampler=name,
            random_seed=[key],
            progressbar=False,
            chain_method="vectorized",  # one compilation; "parallel" needs a device per run
            compute_convergence_checks=False,
            model=model,
        )

    return run


def _run_nutpie(model: pm.Model, runs: int, tune: int, seed: int | None) -> Any:
    """Seeded by the operating system at every call: nutpie's own generator survives a fork."""
    nutpie = importlib.import_module("nutpie")
    return nutpie.sample(
        nutpie.compile_pymc_model(model),
        draws=1,
        tune=tune,
        chains=runs,
        cores=1,
        seed=secrets.randbits(SEED_BITS["nutpie"]) if seed is None else seed,
        progress_bar=False,
    )


_RUNNERS: dict[str, Callable[[pm.Model, int, int, int | None], Any]] = {
    "pymc": _run_pymc,
    "nutpie": _run_nutpie,
    "numpyro": _jax_runner("numpyro"),
    "blackjax": _jax_runner("blackjax"),
}
