"""What `privatize` takes in, and the structures it refuses by name."""

from __future__ import annotations

from typing import Any

import pymc as pm
from pytensor.graph.traversal import ancestors

from pymc_private.errors import DomainError, Unsupported


def resolve(model: Any) -> pm.Model:
    """The PyMC model meant: given, of the context, or inside a Bambi model."""
    if model is None:
        try:
            return pm.modelcontext(None)
        except TypeError as error:
            raise DomainError(
                "no model given and none in the context",
                do="pass the model, or call inside 'with model:'",
            ) from error
    if isinstance(model, pm.Model):
        return model
    if type(model).__module__.split(".")[0] == "bambi":
        if not model.built:
            model.build()
        return model.backend.model
    raise DomainError("this is not a model", got=type(model).__name__, allowed="pymc.Model")


def refuse_structures(model: pm.Model) -> None:
    """Refuse imputed records, minibatches and simulators."""
    for rv in model.free_RVs:
        if rv.name.endswith("_unobserved") and f"{rv.name[:-11]}_observed" in model.named_vars:
            raise Unsupported(
                f"'{rv.name[:-11]}' has missing entries that PyMC imputes as parameters",
                got=rv.name,
                allowed="complete records",
                do="drop incomplete records before modeling, or declare a category for 'missing'",
            )
    for rv in model.observed_RVs:
        names = {type(v.owner.op).__name__ for v in ancestors([rv]) if v.owner is not None}
        value = model.rvs_to_values[rv]
        names |= {type(v.owner.op).__name__ for v in ancestors([value]) if v.owner is not None}
        if any("Minibatch" in name for name in names) or "RandomIndex" in names:
            raise Unsupported(
                f"'{rv.name}' is fed by a minibatch, so its likelihood is a random multiple",
                allowed="the full data",
                do="observe the full data; private draws are made once",
            )
        if any("Simulator" in name for name in names):
            raise Unsupported(
                f"'{rv.name}' is a simulator: it has no log-likelihood to bound",
                allowed="likelihoods with a density",
                do="write the likelihood as a distribution or a pm.CustomDist with logp",
            )


def refuse_record_latents(model: pm.Model, records: str | None) -> None:
    """Refuse parameters with the records dim: their draws would be about one person each."""
    for rv in model.free_RVs:
        dims = model.named_vars_to_dims.get(rv.name) or ()
        if records is not None and records in dims:
            raise record_latent(rv.name, f"dims {dims}")


def record_latent(name: str, got: str) -> Unsupported:
    """The refusal of a parameter that belongs to single records."""
    return Unsupported(
        f"the parameter '{name}' has one entry per record",
        got=got,
        allowed="parameters shared by all records",
        do="integrate it out of the likelihood (for example a mixture or an overdispersed "
        "likelihood) so that only shared parameters are drawn",
    )
