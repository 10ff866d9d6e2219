"""`synthesize`: private synthetic records of a PyMC model in one call.

The posterior predictive is the target, the prior predictive the reference: privacy rests on
the window around the prior predictive alone (T15).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from pymc_private.errors import DomainError, NotCertified, Unsupported
from pymc_private.models import declare
from pymc_private.models.compat import quiet_sampling
from pymc_private.models.data_variables import embedded_arrays
from pymc_private.mollifiers.mollified import Mollified
from pymc_private.mollifiers.mollify import mollify
from pymc_private.mollifiers.references import PriorPredictiveReference, system_seed
from pymc_private.mollifiers.window import TotalBudget, resolve_budget
from pymc_private.privacy.argument_kinds import KEYWORDS, TEXT
from pymc_private.release.release import Release

TARGET_ROWS = 10_000
"""Rows of the posterior predictive that the estimate learns from."""


def synthesize(
    model: Any = None,
    *,
    draws: int = 1,
    epsilon: float | None = None,
    total: TotalBudget | None = None,
    public: str | Sequence[str] = (),
    constants: str = "private",
    idata: Any = None,
    estimate: Any = "trees",
    pool: int | None = None,
    sampling: Mapping[str, Any] | None = None,
    **options: Any,
) -> Release:
    """Release synthetic records: posterior predictive as target, prior predictive as reference.

    The posterior predictive reads the data and may be as wrong as a chain that has not converged;
    privacy rests on the window around the prior predictive alone. Chain, predictions and estimate
    stay with the curator and are dropped.

    Parameters
    ----------
    model : pymc.Model or Bambi model, optional
        Default: the model of the context. Its observed variables have the records as first axis.
    draws : int
        Synthetic records.
    epsilon : float, nats
        Of one record.
    total : tuple of (epsilon, delta, draws), optional
        Instead of `epsilon`; then `draws` comes from it.
    public : str or sequence of str
        Names of ``pm.Data`` that are not secret, such as public covariates. Then a synthetic record
        names the public ``row`` it stands for.
    constants : {"private", "public"}
        Whether arrays written into the model are secret. Secret ones are refused.
    idata : InferenceData or DataTree, optional
        A posterior that was sampled already. Default: ``pm.sample(**sampling)``.
    estimate : str or classifier
        As in `mollify`; a density is not needed.
    pool : int
        Records of the prior predictive to choose from. Default: 2^14.
    sampling : mapping, optional
        Keywords of ``pm.sample``.
    **options
        ``ledger=``, ``name=``, ``save=``, ... of `Mollified.sample`.

    Returns
    -------
    Release
        The observed variables of synthetic records.

    Raises
    ------
    NotCertified
        The prior predictive would read data: names the variables and the cure.
    DomainError, Unsupported
        An improper prior, potentials, imputed records, no observed variable.

    Notes
    -----
    *Promise.* T15 as in `Mollified`: any two data sets, since prior, structure and public data are
    fixed without the data. That scalars in the model were not computed from the data is the
    caller's claim: see `pymc_private.lint`.
    """
    mollified = mollified_posterior_predictive(
        model,
        epsilon=epsilon,
        total=total,
        public=public,
        constants=constants,
        idata=idata,
        estimate=estimate,
        pool=pool,
        sampling=sampling,
    )
    return mollified.sample(None if total is not None else draws, **options)


def mollified_posterior_predictive(
    model: Any = None,
    *,
    epsilon: float | None = None,
    total: TotalBudget | None = None,
    public: str | Sequence[str] = (),
    constants: str = "private",
    idata: Any = None,
    estimate: Any = "trees",
    pool: int | None = None,
    sampling: Mapping[str, Any] | None = None,
) -> Mollified:
    """The mollified posterior predictive that `synthesize` draws from, for the curator's eyes."""
    constants = TEXT.of(constants, "constants", "synthesize")
    sampling = KEYWORDS.optional.of(sampling, "sampling", "synthesize")
    resolve_budget(epsilon, total, None)  # refuses a budget before a chain is run
    original = declare.resolve_model(model)
    declare.refuse_structures(original)
    _check_model(original)
    reads_rows = _check_secrets(original, declare.public_names(public), constants)
    n = _record_count(original)
    reference = PriorPredictiveReference(original, n if reads_rows else None)
    with quiet_sampling():
        samples = idata if idata is not None else _sample_posterior(original, dict(sampling or {}))
        rows = _predictive_rows(original, samples, n, reads_rows)
    return mollify(rows, reference, epsilon, total=total, estimate=estimate, pool=pool)


def _check_model(model: pm.Model) -> None:
    """Refuse a model without observed variables, or with potentials."""
    if not model.observed_RVs:
        raise DomainError(
            "the model has no observed variable, so there are no data to imitate",
            allowed="a model with observed= data",
            do="give the model with its data",
        )
    if model.potentials:
        raise Unsupported(
            "a model with potentials has no predictive to draw from",
            got=", ".join(p.name for p in model.potentials),
            do="write the potentials as distributions",
        )


def _check_secrets(model: pm.Model, public: Sequence[str], constants: str) -> bool:
    """Refuse a prior predictive that reads private data; whether it reads public rows."""
    inputs = set(model.data_vars)
    unknown = sorted(set(public) - {v.name for v in inputs})
    if unknown or constants not in ("private", "public"):
        raise DomainError(
            "public= names pm.Data, and constants= is 'private' or 'public'",
            got=", ".join(unknown) or repr(constants),
            allowed=", ".join(sorted(v.name for v in inputs)) or "no pm.Data in this model",
        )
    read = [v for v in inputs if any(v in set(ancestors([rv])) for rv in model.observed_RVs)]
    secret = sorted(v.name for v in read if v.name not in public)
    written = embedded_arrays(model.observed_RVs, _record_count(model), inputs)
    if written and constants == "private":
        secret.append(f"{len(written)} array(s) written into the model")
    if secret:
        raise NotCertified(
            "the prior predictive would read what may be secret",
            blame=tuple(secret),
            cure="say public=[...] or constants='public' if these are not secret; otherwise model "
            "them as observed variables, so that they are imitated too",
        )
    return bool(read or written)


def _record_count(model: pm.Model) -> int:
    """The common length of the observed variables along their first axis."""
    sizes = {np.shape(model.rvs_to_values[rv].eval())[:1] for rv in model.observed_RVs}
    if len(sizes) != 1 or () in sizes:
        raise Unsupported(
            "observed variables share their first axis, the records",
            got=f"{len(sizes)} different lengths",
            do="synthesize one observed variable at a time",
        )
    return int(sizes.pop()[0])


def _sample_posterior(model: pm.Model, sampling: dict[str, Any]) -> Any:
    """A posterior sample for the target; its quality costs closeness and no privacy."""
    keywords = {"draws": 500, "tune": 500, "chains": 2, "cores": 1} | sampling
    keywords |= {"progressbar": False, "model": model, "compute_convergence_checks": False}
    return pm.sample(**keywords)


def _predictive_rows(model: pm.Model, samples: Any, n: int, reads_rows: bool) -> np.ndarray:
    """Rows of the posterior predictive, with variables in the order of the reference's draws."""
    names = [rv.name for rv in model.observed_RVs]
    seed = system_seed() % 2**31
    predictive: Any = pm.sample_posterior_predictive(
        samples, model=model, var_names=names, progressbar=False, random_seed=seed
    )
    group = predictive.posterior_predictive
    arrays = [np.asarray(group[name]) for name in names]
    chains, draws = arrays[0].shape[:2]
    generator = np.random.default_rng(seed)
    picked = [generator.integers(size, size=TARGET_ROWS) for size in (chains, draws, n)]
    parts = [array[tuple(picked)].reshape(TARGET_ROWS, -1).astype(float) for array in arrays]
    if reads_rows:
        parts.insert(0, picked[2][:, None].astype(float))
    return np.concatenate(parts, axis=1)
