"""Assembly of a posterior release: names, dims, Deterministics and public facts of a plan.

Deterministics are recomputed from the rounded draws, or withheld if they read private data,
use random numbers of their own, may have one entry per record, or cannot be computed.
`rehearse` builds a release without data before the charge; `check_unchanged` refuses a plan
whose model is no longer the one that was certified.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType

from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.errors import Incompatible, Unsupported
from pymc_private.models.data_variables import constants_with_axis, embedded_arrays
from pymc_private.models.fingerprint import model_fingerprint
from pymc_private.models.private_model import (
    PrivateModel,
    has_declared_factors,
    moved_sources,
    record_dims,
    record_lengths,
    what_changed,
)
from pymc_private.posterior.plan import Plan
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.release.allowed import check_posterior
from pymc_private.release.draws_job import LedgerFacts, build_release, check_storable
from pymc_private.release.release import Release
from pymc_private.samplers.randomness import BOX_GRID, OPEN_GRID

SAMPLER_GRID_NOTE = "the points of the sampler's own public grid: see the assumptions"


def assemble(
    plan: Plan,
    values: Mapping[str, np.ndarray],
    name: str | None,
    ledger_facts: LedgerFacts,
) -> Release:
    """Build the release: draws by name, deterministics recomputed, facts from the plan alone."""
    model = plan.private
    found = compute_deterministics(model, values, lambda d: _check_storable(model, d))
    posterior = _posterior_dataset(model, dict(values) | found.values)
    facts = {
        "sampler": plan.sampler,
        "claim": plan.method.claim(model),
        "draws": plan.draws,
        "records": model.records,
        "domain": model.domain,
        "trim": {k: _bounds_as_lists(b.lower, b.upper) for k, b in model.region.items()},
        "power": str(model.power),
        "clip": None if model.graph.clip is None else list(model.graph.clip),
        "beta": None if model.score is None else model.score.beta,
        "withheld": [*found.private, *found.failed],
        "grid": _grid_note(plan),
        "model": model_fingerprint(model),
        "certificate": repr(plan.certificate),
        "ranges": {k: _bounds_as_lists(b.lower, b.upper) for k, b in model.box.items()},
        "prior_quantiles": plan.prior_quantiles,
    }
    if plan.information == plan.information:
        facts["expected_share"] = plan.information
    if found.failed:
        facts["uncomputed"] = found.failed
    return build_release((posterior, facts), plan.guarantee, plan.delta, name, ledger_facts)


def _grid_note(plan: Plan) -> str:
    return SAMPLER_GRID_NOTE if plan.certificate.terms.discrete else f"{BOX_GRID}; {OPEN_GRID}"


def rehearse(plan: Plan, name: str | None) -> None:
    """Build the release at the middle of the box, to fail before the charge and not after it.

    Reads no data.

    Raises
    ------
    DomainError
        A name that cannot be stored, or whatever else would keep a release from being stored.
    Unsupported
        A Deterministic that cannot be computed.
    """
    middle = {
        key: np.repeat(_interior_point(b.lower, b.upper)[None], plan.draws, axis=0)
        for key, b in plan.private.box.items()
    }
    release = assemble(plan, middle, name, {})
    check_storable(release)
    failed = release.facts.get("uncomputed")
    if failed:
        raise Unsupported(
            "a Deterministic cannot be computed; nothing was charged",
            got=", ".join(failed),
            do="leave it out of the model and compute it from the released draws: that is free",
        )


def _interior_point(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """A point of a box: the middle, or one near its only finite bound."""
    low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2.0, -1.0))
    return (low + np.where(np.isfinite(upper), upper, low + 2.0)) / 2.0


def _bounds_as_lists(lower: np.ndarray, upper: np.ndarray) -> list[Any]:
    """Lower and upper bounds as lists, for the facts of a release."""
    return [np.asarray(lower, float).tolist(), np.asarray(upper, float).tolist()]


def _posterior_dataset(private: PrivateModel, values: Mapping[str, np.ndarray]) -> xr.Dataset:
    """The draws with dims and coords as the model names them, without labels of the records."""
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    coords: dict[str, Any] = {}
    unlabeled = record_dims(private)
    for name, array in values.items():
        dims = private.base.named_vars_to_dims.get(name) or [None] * (array.ndim - 1)
        named = tuple(d or f"{name}_dim_{i}" for i, d in enumerate(dims))
        variables[name] = (("chain", "draw", *named), array[None])
        for dim, size in zip(named, array.shape[1:], strict=True):
            labels = None if dim in unlabeled else private.base.coords.get(dim)
            coords[dim] = np.arange(size) if labels is None else np.asarray(labels)
    return xr.Dataset(variables, coords=coords)


def _check_storable(private: PrivateModel, values: Mapping[str, np.ndarray]) -> None:
    """Raise if a release could not hold these arrays."""
    check_posterior(_posterior_dataset(private, values), records=private.records)


@dataclass(frozen=True)
class ComputedDeterministics:
    """The Deterministics of a model, computed or withheld.

    Attributes
    ----------
    values : dict of str to array, shape (draws, ...)
        Recomputed from the rounded draws, so they hold nothing more than the draws do.
    private : list of str
        Withheld: an ancestor is private or an array written into the model, which may hold
        records, or the variable may have one entry per record. Where the number of records is
        protected, what is withheld does not depend on it: any array is, and any axis that no
        parameter has. Withheld as well: what reads random numbers of its own, which no draw of the
        posterior determines.
    failed : list of str
        Withheld: they could not be computed at these draws. That depends on the draws alone.
    """

    values: dict[str, np.ndarray]
    private: list[str]
    failed: list[str]


def compute_deterministics(
    private: PrivateModel,
    values: Mapping[str, np.ndarray],
    check: Callable[[Mapping[str, np.ndarray]], object],
) -> ComputedDeterministics:
    """Compute the Deterministics of the rounded draws; none of their failures stops a release.

    `values` holds arrays of shape (draws, ...) by name; `check` takes draws and Deterministics by
    name and raises if a release could not hold them.
    """
    model = private.base
    found = ComputedDeterministics({}, [], [])
    is_record_length = _is_record_length(private, values)
    inputs = {rv: private.graph.parameters[rv.name] for rv in model.free_RVs}
    for variable in model.deterministics:
        graph = _at_parameters(variable, inputs)
        if _reads_private_data(private, variable) or _uses_randomness(graph):
            found.private.append(variable.name)
            continue
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                array = _evaluate_per_draw(graph, inputs.values(), values)
                if any(is_record_length(size) for size in array.shape[1:]):
                    found.private.append(variable.name)
                    continue
                check({**values, **found.values, variable.name: array})
        except Exception:  # an Op may raise anything at an unusual value
            found.failed.append(variable.name)
        else:
            found.values[variable.name] = array
    return found


def _is_record_length(
    private: PrivateModel, values: Mapping[str, np.ndarray]
) -> Callable[[int], bool]:
    """A predicate: whether an axis of that length may have one entry per record."""
    if private.neighbors != ADD_REMOVE:
        return lambda size: size == private.n
    known = {1} | {size for array in values.values() for size in array.shape[1:]}
    return lambda size: size not in known


def _reads_private_data(private: PrivateModel, variable: Any) -> bool:
    """Whether a Deterministic reads data or embedded arrays, or has a dim of the records."""
    model = private.base
    secret = {s.variable for s in private.sources} | set(model.observed_RVs)
    dims = model.named_vars_to_dims.get(variable.name) or ()
    if record_dims(private) & set(dims):
        return True
    if private.neighbors == ADD_REMOVE:
        secret |= set(record_lengths(private))
        return bool(secret & set(ancestors([variable])) or embedded_arrays([variable], 2, ()))
    # An array with the records axis may be a copy of a private one, or a part of it.
    copies = constants_with_axis([variable], private.n, skip=())
    parts = embedded_arrays([variable], private.n, model.data_vars)
    return bool(secret & set(ancestors([variable])) or copies or parts)


def _uses_randomness(graph: Variable) -> bool:
    """Whether it reads a random generator: recomputed, every draw would get the same noise."""
    return any(isinstance(v.type, RandomType) for v in ancestors([graph]))


def _at_parameters(variable: Variable, inputs: Mapping[Variable, Variable]) -> Variable:
    """The variable's graph with the free variables replaced by inputs."""
    swaps = dict(inputs) | {v: v for v in inputs.values()}
    (graph,) = graph_replace([variable], swaps, strict=False)
    return graph


def _evaluate_per_draw(
    graph: Variable, inputs: Iterable[Variable], values: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Evaluate the graph at each draw by interpretation: for a few draws compiling takes longer."""
    public: dict[Any, Any] = {
        v: v.get_value() for v in ancestors([graph]) if hasattr(v, "get_value")
    }
    named = list(inputs)
    count = len(next(iter(values.values())))
    rows = [
        ConcreteValues(public | {v: np.asarray(values[v.name][i]) for v in named})(graph)
        for i in range(count)
    ]
    return np.stack([np.asarray(row) for row in rows])


def check_unchanged(plan: Plan) -> None:
    """Refuse a plan whose model was changed after `calibrate`: another region, a public array set.

    Compares public facts only (factors, public arrays, region, power, shapes, guarantee), all of
    them in ``plan.private.base``, where `pm.set_data` is seen. ``plan.private.model`` is a copy for
    the user: changes of it are not looked at, and nothing is drawn from it.
    """
    private = plan.private
    moved = moved_sources(private)
    covered = plan.certificate.covers(private) and has_declared_factors(private)
    if covered and not moved and plan.certificate.guarantee(plan.draws) == plan.guarantee:
        return
    what = what_changed(private, "public data, a region, a power")
    raise Incompatible(
        "the model of this plan was changed after it was certified; nothing was charged",
        got=f"{what}, or another part that the certificate does not speak of",
        allowed="the model as calibrate saw it",
        do="call privatize, and then calibrate, on the changed model",
    )
