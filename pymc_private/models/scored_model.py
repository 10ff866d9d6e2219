"""Models whose outcomes are scored by the beta-divergence in place of their log-density.

The score of an outcome y with density f and its parameters theta is

    (f(y)^beta - 1) / beta - (I(theta) - 1) / (1 + beta),

with I the integral of f^(1 + beta) (`models.density_powers`). It tends to log f(y) as beta tends to
zero. `scored_model` puts it in the place of every outcome of the records, as a potential of the
same shape; all else of the model stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_private.errors import Unsupported
from pymc_private.models.add_remove import refuse_public_counts
from pymc_private.models.compat import copy_with_variables
from pymc_private.models.data_variables import Source, underlying_array
from pymc_private.models.density_powers import power_integral
from pymc_private.models.distributions import casts_between
from pymc_private.models.marginalize import Generator, add_generator, model_without
from pymc_private.models.private_model import PrivateModel, Score, record_lengths
from pymc_private.models.record_graph import build_record_graph, derive_logps
from pymc_private.privacy.neighbors import ADD_REMOVE


@dataclass(frozen=True)
class _Outcome:
    """An observed variable in the copy of a model, its data, and the source of these."""

    rv: Variable
    value: Variable
    source: Source


def scored_model(private: PrivateModel, beta: float) -> PrivateModel:
    """The private model with outcomes scored by the beta-divergence, as a plain PyMC model.

    Its record graph is built and proved row-wise like that of any model. What `privatize` asked of
    constants, the model as it was has answered.

    Raises
    ------
    Unsupported
        A factor of the records that is no distribution of data, or a density without the integral.
    """
    kept = [source.variable for source in private.sources]
    old, variables = copy_with_variables(private.base, kept)
    pairs = zip(private.sources, variables, strict=True)
    sources = tuple(replace(source, variable=variable) for source, variable in pairs)
    outcomes = [_outcome(old, name, sources) for name in private.graph.factors]
    public = private.neighbors != ADD_REMOVE
    n = private.n if public else None
    scores = {o.rv: beta_score(o.rv, o.value, o.source, variables, beta, n) for o in outcomes}
    new = model_without(old, (), {o.rv: o.value for o in outcomes})
    for outcome in outcomes:
        rv, name = outcome.rv, f"{outcome.rv.name}_beta"
        dims = old.named_vars_to_dims.get(rv.name)
        with new:
            pm.Potential(name, scores[rv], dims=dims and dims[: scores[rv].type.ndim])
        add_generator(new, Generator(name, {outcome.source.name: rv}, ()))
    graph = build_record_graph(new, sources, private.n, "public", public)
    made = replace(private, base=new, sources=sources, graph=graph, score=Score(beta, private))
    if not public:
        lengths = record_lengths(made)
        refuse_public_counts(graph, sources, private.n, made.shapes, lengths, arrays_are_known=True)
    return made


def beta_score(
    rv: Variable,
    value: Variable,
    source: Source,
    covariates: Sequence[Variable],
    beta: float,
    n: int | None,
) -> Variable:
    """The score of each outcome, of the shape of the outcomes' log-density.

    A probability f is at most one, and f^(1 + beta) <= I <= 1, so that scores of discrete outcomes
    lie between -1 / beta and 0. Minima and clips say so to intervals, and change no value. Where I
    reads no `covariates` it is left outside of the clip, since it cancels between two records of
    one row. The number of records `n` is None where it is protected.
    """
    heights = derive_logps(lambda: pm.logp(rv, value))
    integral = derive_logps(lambda: power_integral(rv, source, beta, n))
    if str(rv.type.dtype).startswith("float"):
        return pt.expm1(beta * heights) / beta - (integral - 1.0) / (1.0 + beta)
    powers = pt.expm1(beta * pt.minimum(heights, 0.0)) / beta
    score = powers - (pt.minimum(integral, 1.0) - 1.0) / (1.0 + beta)
    cancels = n is not None and set(covariates).isdisjoint(ancestors([integral]))
    return score if cancels else pt.clip(score, -1.0 / beta, 0.0)


def _outcome(model: pm.Model, name: str, sources: tuple[Source, ...]) -> _Outcome:
    """The observed variable of a factor; a potential, or a function of data, is refused."""
    observed = {rv.name: rv for rv in model.observed_RVs}
    if name in observed:
        rv = observed[name]
        value = model.rvs_to_values[rv]
        for source in sources:
            held = underlying_array(value) is source.variable
            if held and casts_between(value, source.variable) is not None:
                return _Outcome(rv, value, source)
    raise Unsupported(
        "the beta-divergence is of distributions of private data",
        got=f"the factor '{name}', which is none",
        allowed="records that enter the model as observed variables",
        do="write it as a distribution of the data, or pmp.clip(private, lower, upper)",
    )
