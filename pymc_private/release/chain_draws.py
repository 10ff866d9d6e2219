"""Queries on draws of MCMC: means, quantiles and probabilities with Monte Carlo errors from ESS.

Draws of ``summary.model()`` are post-processing of a released summary, so that whatever is
computed from them costs nothing. Draws of a Markov chain are dependent: errors are estimated from
their effective number, not bounded. `mean`, `quantile`, `prob` and `predict` take a release of
independent draws, too, whose own methods they then are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pymc_private.errors import DomainError, suggest_arguments
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.release import display, estimates
from pymc_private.release.allowed import ReleaseContents
from pymc_private.release.estimates import Estimate
from pymc_private.release.expressions import draws_of_variable
from pymc_private.release.release import Release, check_release
from pymc_private.release.utilities import FunctionOfDraws, evaluate_event

if TYPE_CHECKING:
    from pymc_private.release.predict import Prediction

PRIVACY_NOTE = (
    "computed from these draws alone: free if they are of summary.model(); draws of a fit to the "
    "records are not private, and neither is what is computed from them"
)
DATA_GROUPS = ("observed_data", "log_likelihood")
"""Groups that a fit to records has, and draws of a summary's model have not."""


class ChainDraws:
    """Draws of MCMC as the functions of this room read them.

    Parameters
    ----------
    samples : InferenceData, DataTree or xarray.Dataset
        Variables with the dims ``chain``, ``draw``, ...

    Raises
    ------
    DomainError
        No draws, or a group that only a fit to records has.
    """

    private = True
    fingerprint = ""
    privacy_note = PRIVACY_NOTE

    def __init__(self, samples: Any) -> None:
        dataset = _checked_dataset(samples)
        self.chains, length = dataset.sizes["chain"], dataset.sizes["draw"]
        count = self.chains * length
        self.posterior = xr.Dataset(
            {
                name: (
                    ("chain", "draw", *array.dims[2:]),
                    array.values.reshape(1, count, *array.shape[2:]),
                )
                for name, array in dataset.data_vars.items()
            },
            coords={
                **{k: v.values for k, v in dataset.coords.items() if k in _own_dims(dataset)},
                "chain": [0],
                "draw": np.arange(count),
            },
        )

    @cached_property
    def guarantee(self) -> Guarantee:
        """Nothing more is revealed than by the draws themselves."""
        return Guarantee(())

    @property
    def facts(self) -> dict[str, Any]:
        """What they are draws of."""
        return {"distribution": "posterior of these draws"}

    def mcse(self, values: np.ndarray, quantile: float | None = None) -> np.ndarray:
        """Monte Carlo standard errors of means (or of a quantile), shape (elements,).

        `values` have shape (draws, elements), chains one after the other.
        """
        from pymc_private.models.compat import monte_carlo_errors

        return monte_carlo_errors(values.reshape(self.chains, -1, values.shape[1]), quantile)


def _checked_dataset(samples: Any) -> xr.Dataset:
    """The draws with leading dims chain and draw."""
    from pymc_private.models.compat import has_group, to_dataset

    if isinstance(samples, str | os.PathLike):  # ArviZ would read the file
        check_release(samples)
    found = [group for group in DATA_GROUPS if has_group(samples, group)]
    if found:
        raise DomainError(
            "these draws come with the data that they were fitted to: they are not private, and "
            "neither is an answer computed from them",
            got=", ".join(found),
            allowed="a Release, or draws of pm.sample on summary.model()",
            do="summary = pmp.summarize(...); with summary.model(): idata = pm.sample()",
        )
    try:
        dataset = to_dataset(samples)
        whole = {"chain", "draw"} <= set(dataset.sizes) and len(dataset.data_vars) > 0
    except (TypeError, ValueError, LookupError, AttributeError):  # ArviZ: no container of draws
        whole = False
    if not whole:
        check_release(samples)
    return dataset.transpose("chain", "draw", ...)


def is_chain(samples: Any) -> bool:
    """Whether these are draws of MCMC that come without the data of a fit."""
    try:
        ChainDraws(samples)
    except DomainError:
        return False
    return True


def _own_dims(dataset: xr.Dataset) -> set[Any]:
    """Dims of the variables beside those of the draws."""
    return {dim for v in dataset.data_vars.values() for dim in v.dims} - {"chain", "draw"}


def as_draws(draws: Any) -> ReleaseContents:
    """A release as it is; draws of MCMC wrapped."""
    return draws if isinstance(draws, Release | ChainDraws) else ChainDraws(draws)


@suggest_arguments
def mean(draws: Any, name: str, *, delta: float = 0.05) -> Estimate:
    """Posterior mean of each element of a variable, with its error; free.

    Parameters
    ----------
    draws : Release, or InferenceData, DataTree or xarray.Dataset of ``summary.model()``
    name : str
    delta : float
        The error is exceeded with at most this probability, all elements together: proved for a
        release, by a normal approximation with effective numbers of draws for MCMC.

    Returns
    -------
    Estimate

    Raises
    ------
    DomainError
        No such variable, ``delta`` outside (0, 1), or draws that come with data.
    """
    found = as_draws(draws)
    if not isinstance(found, ChainDraws):
        return estimates.mean(found, name, delta=delta)
    array, values = draws_of_variable(found, name)
    columns = values.mean(axis=0), found.mcse(values)
    return estimates.normal_estimate(found, f"mean of {name}", array, columns, delta)


@suggest_arguments
def quantile(draws: Any, name: str, q: float | Sequence[float], *, delta: float = 0.05) -> Estimate:
    """Posterior quantiles of each element of a variable, with their errors; free.

    Parameters
    ----------
    draws : Release, or InferenceData, DataTree or xarray.Dataset of ``summary.model()``
    name : str
    q : float or sequence of float
        Each in (0, 1); a sequence adds a leading dim ``quantile``.
    delta : float
        As of `mean`.

    Returns
    -------
    Estimate

    Raises
    ------
    DomainError
        As of `mean`; q outside (0, 1).
    """
    found = as_draws(draws)
    if not isinstance(found, ChainDraws):
        return estimates.quantile(found, name, q, delta=delta)
    levels = estimates.checked_levels(q)
    array, values = draws_of_variable(found, name)
    parts = [(np.quantile(values, v, axis=0), found.mcse(values, float(v))) for v in levels]
    value, error = (np.stack(column) for column in zip(*parts, strict=True))
    label = "quantiles" if np.ndim(q) else f"{display.format_estimate(levels[0])}-quantile"
    if not np.ndim(q):
        value, error = value[0], error[0]
    several = levels if np.ndim(q) else None
    what = f"{label} of {name}"
    return estimates.normal_estimate(found, what, array, (value, error), delta, several)


@suggest_arguments
def prob(draws: Any, event: FunctionOfDraws, *, delta: float = 0.05) -> Estimate:
    """Posterior probability of an event, with its error; free.

    Parameters
    ----------
    draws : Release, or InferenceData, DataTree or xarray.Dataset of ``summary.model()``
    event : callable or str
        Takes a dict of arrays, shape (draws, ...), and returns booleans, shape (draws,) or
        (draws, ...); or an expression such as ``"beta['age'] > 0"``.
    delta : float
        As of `mean`.

    Returns
    -------
    Estimate

    Raises
    ------
    DomainError
        The event does not give one boolean per draw; as of `mean`.
    """
    found = as_draws(draws)
    if not isinstance(found, ChainDraws):
        return estimates.prob(found, event, delta=delta)
    count = found.posterior.sizes["draw"]
    answer = estimates.checked_events(np.asarray(evaluate_event(found, event)), count)
    hits = answer.reshape(count, -1).astype(float)
    smooth = (hits.sum(axis=0) + 1.0) / (count + 2.0)
    least = np.sqrt(smooth * (1.0 - smooth) / count)  # of no hits MCMC says nothing
    error = np.fmax(found.mcse(hits), least)
    array = estimates.labeled_like(found, answer)
    made = hits.mean(axis=0), error
    return estimates.normal_estimate(found, "probability", array, made, delta, ends=(0.0, 1.0))


@suggest_arguments
def predict(
    draws: Any,
    what: str | None = None,
    *,
    model: Any = None,
    bounds: tuple[float, float] | None = None,
    delta: float = 0.05,
    **covariates: Any,
) -> Prediction:
    """Predict at public covariates, from the original model or a skeleton of it; free.

    Parameters
    ----------
    draws : Release, or InferenceData, DataTree or xarray.Dataset of ``summary.model()``
    what, model, bounds, delta, **covariates
        As of `Release.predict`.

    Returns
    -------
    Prediction
    """
    from pymc_private.release.predict import predict as predicted

    return predicted(as_draws(draws), what, model=model, bounds=bounds, delta=delta, **covariates)
