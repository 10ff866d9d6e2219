"""Prior draws and simulated records, from the model alone.

Independent draws of the prior show where a region lies and how much of the prior's mass it keeps,
with an exact binomial interval (Clopper and Pearson 1934). Records are simulated with covariates
from their declared domains or from a public reference, and outcomes from the model. Nothing here
reads the private data.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import scipy
import xarray as xr
from pymc.distributions.shape_utils import change_dist_size
from pymc.pytensorf import reseed_rngs
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis import Bounds
from pymc_private.analysis.traversal import EVALUATION_ERRORS, rebuild
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.compat import to_groups
from pymc_private.models.data_variables import Source, underlying_array
from pymc_private.models.distributions import (
    BOX_TRANSFORMS,
    KEPT_TRANSFORMS,
    ORDERED,
    casts_between,
    distribution_class,
    is_default_transform,
    prior_support,
    transform_name,
)
from pymc_private.models.domains import Interval
from pymc_private.models.prior_batches import draw_together
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.reference_rows import (
    checked_reference,
    entries_outside,
    nearest_entries,
)
from pymc_private.models.restricted_model import LipschitzSet
from pymc_private.models.uniform_records import uniform_entries
from pymc_private.privacy.argument_kinds import SEED
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import format_number

PRIOR_DRAWS = 4000
PRIOR_SEED = 20260103
"""Prior draws choose and judge regions, never a release; the seed makes them reproducible."""
IMPROPER_PRIORS = ("FlatRV", "HalfFlatRV")
MOST_BATCHES = 24
"""Most batches of prior draws in search of one batch whose ordered vectors are in order."""
MOST_ROUNDS = 10
"""Rounds of prior draws after which a region may count as too small to be drawn from."""
MOST_SIMULATED = 10**7
"""Most draws, or records of each, that `prior_predictive` simulates."""
MOST_SIMULATED_ROWS = 4096
"""Most records simulated where rows differ, so that all of the model's rows are needed."""
DRAWABLE_TRANSFORMS = {*BOX_TRANSFORMS, *KEPT_TRANSFORMS, ORDERED}
"""Transforms set by a user with which a prior can be drawn from."""
MISS_PROBABILITY = 0.01
"""Probability that the interval of a prior mass misses it."""
_SEEDED: WeakKeyDictionary[pm.Model, dict[tuple, list]] = WeakKeyDictionary()
Arrays = dict[str, np.ndarray]


class DeclaredModel(Protocol):
    """The part of a `PrivateModel` from which priors are drawn and records are simulated."""

    @property
    def base(self) -> pm.Model:
        """The model with its data."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The private variables."""

    @property
    def graph(self) -> RecordGraph:
        """Log-likelihoods of the records."""

    @property
    def n(self) -> int:
        """The number of records."""

    @property
    def neighbors(self) -> str:
        """The neighbor relation."""

    @property
    def region(self) -> Mapping[str, Bounds]:
        """Boxes of the trimmed parameters."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter."""

    @property
    def theta_l(self) -> LipschitzSet | None:
        """A set to which the prior is restricted."""


def prior_draws(
    private: DeclaredModel, count: int = PRIOR_DRAWS, seed: int | None = PRIOR_SEED
) -> dict[str, np.ndarray]:
    """Independent draws from the untrimmed prior, by name, shape (count, *shape).

    Refused are improper priors, and priors with a potential of the parameters or a transform that
    restricts them: these belong to the prior, but draws do not follow them.
    """
    refuse_improper(private)
    graph = private.graph
    potentials = [p.name for p in private.base.potentials if p.name not in graph.factors]
    if graph.public_part is not None and not set(graph.parameters.values()).isdisjoint(
        ancestors([graph.public_part])
    ):
        potentials.append(f"a part of {', '.join(graph.factors)} that reads no record")
    if potentials:
        raise Unsupported(
            "a potential of the parameters is part of the prior, which cannot be drawn from then",
            got=", ".join(potentials),
            allowed="priors made of distributions",
            do="trim by box={...}",
        )
    draws = _unordered_draws(private, count, seed)
    _refuse_restricting_transforms(private, draws)
    ordered = [rv for rv in private.base.free_RVs if transform_name(private.base, rv) == ORDERED]
    for rv in [rv for rv in ordered if _is_exchangeable(private, rv)]:
        draws[rv.name] = np.sort(draws[rv.name], axis=-1)
        ordered.remove(rv)
    return _ordered_draws(private, draws, [rv.name for rv in ordered], seed) if ordered else draws


def _unordered_draws(private: DeclaredModel, count: int, seed: int | None) -> dict[str, np.ndarray]:
    """Draws that ignore transforms; with the usual seed made once for all forms of a model."""
    rvs = tuple(private.base.free_RVs)
    public = [v.get_value() for v in ancestors(rvs) if hasattr(v, "get_value")]
    held = tuple((a.shape, a.tobytes()) for a in public if isinstance(a, np.ndarray))
    known = _SEEDED.setdefault(private.base, {}) if seed == PRIOR_SEED else {}
    key = (rvs, held, count)
    shapes = [private.shapes[rv.name] for rv in rvs]
    if key not in known:
        known[key] = draw_together(rvs, shapes, count, seed)
    return {rv.name: np.array(values) for rv, values in zip(rvs, known[key], strict=True)}


def _is_exchangeable(private: DeclaredModel, rv: Variable) -> bool:
    """Whether an ordered vector has exchangeable entries that nothing reads: sorting orders it."""
    others = [other for other in private.base.free_RVs if other is not rv]
    identical = all(
        not p.type.ndim or p.type.broadcastable[-1] for p in rv.owner.op.dist_params(rv.owner)
    )
    return identical and rv.owner.op.ndim_supp == 0 and rv not in ancestors(others)


def _ordered_draws(
    private: DeclaredModel, found: dict[str, np.ndarray], names: list[str], seed: int | None
) -> dict[str, np.ndarray]:
    """As many draws whose vectors are in order, by rejection from further batches."""
    count, kept, batch = len(found[names[0]]), [], found
    for attempt in range(1, MOST_BATCHES + 1):
        inside = np.ones(count, bool)
        for name in names:
            inside &= (np.diff(batch[name], axis=-1) > 0.0).reshape(count, -1).all(axis=1)
        kept.append({name: values[inside] for name, values in batch.items()})
        if sum(len(part[names[0]]) for part in kept) >= count:
            return {name: np.concatenate([part[name] for part in kept])[:count] for name in found}
        batch = _unordered_draws(private, count, None if seed is None else seed + attempt)
    raise Unsupported(
        "ordered vectors whose entries are seldom in order are not drawn from their prior",
        got=", ".join(names),
        allowed=f"at least one prior draw in {MOST_BATCHES} in order",
        do="give the entries one prior, or priors in the order that is meant",
    )


def _refuse_restricting_transforms(private: DeclaredModel, drawn: Mapping[str, np.ndarray]) -> None:
    """Refuse transforms that restrict a prior, because draws ignore them."""
    for rv in private.base.free_RVs:
        box, values = prior_support(private.base, rv, private.shapes[rv.name]), drawn[rv.name]
        is_restricted = (values < box.lower).any() or (values > box.upper).any()
        is_known = transform_name(private.base, rv) in DRAWABLE_TRANSFORMS
        if is_restricted or not (
            is_known or is_default_transform(private.base.rvs_to_transforms[rv], rv)
        ):
            raise Unsupported(
                "a transform that cuts a prior is part of it, which cannot be drawn from then",
                got=rv.name,
                allowed="priors made of distributions",
                do="write pm.Truncated in place of the transform, or trim by box={...}",
            )


def refuse_improper(private: DeclaredModel) -> None:
    """Refuse flat priors, which have no mass."""
    rvs = private.base.free_RVs
    improper = [rv.name for rv in rvs if distribution_class(rv) in IMPROPER_PRIORS]
    if improper:
        raise DomainError(
            "an improper prior has no mass to keep a share of, and cannot be drawn from",
            got=", ".join(improper),
            allowed="proper priors",
            do="write a proper prior: pm.Normal, or pm.Uniform over a box. Draws alone can be of "
            "one that pmp.trim(private, box={...}) cuts off",
        )


def in_region(private: DeclaredModel, points: Mapping[str, np.ndarray]) -> np.ndarray:
    """Whether each point lies in the region of a trimmed model."""
    count = len(next(iter(points.values())))
    inside = np.ones(count, dtype=bool)
    for name, box in private.region.items():
        in_box = (points[name] >= box.lower) & (points[name] <= box.upper)
        inside &= in_box.reshape(count, -1).all(axis=1)
    theta = private.theta_l
    if theta is not None and inside.any():
        kept = {name: values[inside] for name, values in points.items()}
        inside[inside] = theta.variation.at(kept) <= theta.inner
    return inside


@dataclass(frozen=True)
class PriorMass:
    """The share of the prior that a region keeps, from independent prior draws.

    Attributes
    ----------
    estimate : float
    lower, upper : float
        Exact binomial interval (Clopper and Pearson 1934): it misses the truth with probability at
        most 0.01.
    draws : int
    """

    estimate: float
    lower: float
    upper: float
    draws: int

    def __str__(self) -> str:
        low, high = format_number(self.lower, 3, up=False), format_number(self.upper, 3)
        return (
            f"{self.estimate:.3g} of the prior's mass ({low} to {high}, 99% interval, "
            f"{self.draws} draws)"
        )


def prior_mass(private: DeclaredModel, draws: int = PRIOR_DRAWS) -> PriorMass:
    """The share of the prior that the region of a trimmed model keeps. Reads no data.

    A prior that cannot be drawn from is refused as by `prior_draws`.
    """
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
        raise DomainError("draws is a whole number >= 1", got=repr(draws), allowed="1, 2, ...")
    return mass_of_draws(private, prior_draws(private, int(draws)))


def mass_of_draws(private: DeclaredModel, points: Mapping[str, np.ndarray]) -> PriorMass:
    """The share of independent prior draws that lies in the region, with its interval."""
    inside = in_region(private, points)
    count, hits = len(inside), int(inside.sum())
    tail = MISS_PROBABILITY / 2.0
    low = float(scipy.stats.beta.ppf(tail, hits, count - hits + 1)) if hits else 0.0
    high = float(scipy.stats.beta.ppf(1.0 - tail, hits + 1, count - hits)) if hits < count else 1.0
    return PriorMass(hits / count, low, high, count)


def prior_predictive(
    private: DeclaredModel, draws: int, records: int, reference: Any, random_seed: int | None
) -> Any:
    """See `PrivateModel.prior_predictive`."""
    for name, value in (("draws", draws), ("records", records)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not 1 <= value <= MOST_SIMULATED:
            raise DomainError(
                f"{name} is a whole number >= 1",
                got=str(value)[:40],
                allowed=f"1, 2, ..., {MOST_SIMULATED:,}",
            )
    seeds = np.random.SeedSequence(SEED.optional.of(random_seed, "random_seed", "a simulation"))
    simulator = Simulator(private, int(records), reference, _fresh_seed(seeds))
    points = restricted_draws(private, int(draws), seeds)
    simulated = [
        simulator.outcomes({name: values[k] for name, values in points.items()})
        for k in range(int(draws))
    ]
    outcomes = {name: np.stack([one[name] for one in simulated]) for name in simulated[0]}
    axes = {source.name: source.axis for source in private.sources}
    groups = {
        "prior": _labeled_dataset(private, points, {}, leading=True),
        "prior_predictive": _labeled_dataset(private, outcomes, axes, leading=True),
    }
    if simulator.covariates:
        covariates = _labeled_dataset(private, simulator.covariates, axes, leading=False)
        groups["constant_data"] = covariates
    return to_groups(**groups)


def restricted_draws(
    private: DeclaredModel, count: int, seeds: np.random.SeedSequence
) -> dict[str, np.ndarray]:
    """Independent draws from the prior on the region, by rejection.

    A region that keeps too little of the prior is refused: if `MOST_ROUNDS` rounds give less than a
    hundredth of the draws, 100 times as many rounds would not suffice at that rate.
    """
    found: list[dict[str, np.ndarray]] = []
    kept = tried = 0
    patience = MOST_ROUNDS * PRIOR_DRAWS
    while kept < count:
        if tried >= patience and kept < count * tried / (patience * 100):
            raise Unsupported(
                "the region holds too little of the prior to be drawn from by rejection",
                got=f"{kept} of {tried} prior draws lie in it",
                allowed=f"about {count / 100:.3g} in {patience}",
                do="a larger region, or fewer draws",
            )
        drawn = prior_draws(private, PRIOR_DRAWS, _fresh_seed(seeds))
        inside = in_region(private, drawn)
        found.append({name: values[inside] for name, values in drawn.items()})
        kept, tried = kept + int(inside.sum()), tried + PRIOR_DRAWS
    return {name: np.concatenate([one[name] for one in found])[:count] for name in found[0]}


def _fresh_seed(seeds: np.random.SeedSequence) -> int:
    """A seed from a child of the seed sequence."""
    return int(seeds.spawn(1)[0].generate_state(1)[0])


def _labeled_dataset(
    private: DeclaredModel,
    arrays: Mapping[str, np.ndarray],
    axes: Mapping[str, int],
    leading: bool,
) -> xr.Dataset:
    """Arrays with the model's dims and labels; records get a dim without labels."""
    found: dict[str, xr.DataArray] = {}
    coords: dict[str, list] = {}
    for name, values in arrays.items():
        known = private.base.named_vars_to_dims.get(name) or ()
        inner = values.ndim - leading  # the first axis is that of draws
        known = known if len(known) == inner else [None] * inner
        dims = [dim or f"{name}_dim_{k}" for k, dim in enumerate(known)]
        if name in axes:
            dims[axes[name]] = "record"
        labels = {dim: private.base.coords.get(dim) for dim in dims if dim != "record"}
        coords |= {dim: list(label) for dim, label in labels.items() if label is not None}
        first = ["chain", "draw"] if leading else []
        found[name] = xr.DataArray(values[None] if leading else values, dims=[*first, *dims])
    return xr.Dataset(found, coords=coords)


class Simulator:
    """Simulates records of a model.

    Parameters
    ----------
    private : PrivateModel
    records : int or None
        Number of records simulated at each parameter point. None: as many as the model has.
    reference : mapping or table, optional
        Public values of covariates by name; see `checked_reference`.
    seed : int or None
        None takes entropy from the operating system.
    most_rows : int
        Most records of a model whose rows differ, all of which are simulated.

    Attributes
    ----------
    rows : int
        Records at each point: the requested number, or the model's own where rows differ.
    covariates : dict of str to array
        Covariates of these records, the same at every point.

    Raises
    ------
    Unsupported
        A factor that is no distribution of data (a potential), or one without a generator.
    DomainError
        A reference that does not fit.
    """

    def __init__(
        self,
        private: DeclaredModel,
        records: int | None,
        reference: Any = None,
        seed: int | None = None,
        *,
        most_rows: int = MOST_SIMULATED_ROWS,
    ) -> None:
        rng = np.random.default_rng(seed)
        known = checked_reference(private, reference)
        observed = _observed_sources(private)
        self.rows, graphs = _outcome_graphs(private, observed, records, most_rows)
        self._draw_covariates = partial(_simulated_covariates, private, observed, self.rows, known)
        self.covariates = self._draw_covariates(rng)
        self._names, self._outcomes = list(private.shapes), list(observed)
        bounded = [source for source in observed if isinstance(source.domain, Interval)]
        self._outside = {source.name: np.zeros(2) for source in bounded}
        self._run = _compiled_outcomes(private, graphs, list(self.covariates), rng)

    def reseed(self, seed: int) -> None:
        """Let the next outcomes be those of a seed."""
        states = [v for v in self._run.get_shared() if isinstance(v.type, RandomType)]
        reseed_rngs(states, seed)

    def redraw(self, rng: np.random.Generator) -> None:
        """Draw other covariates."""
        self.covariates = self._draw_covariates(rng)

    def outcomes(self, point: Mapping[str, np.ndarray]) -> Arrays:
        """Outcomes of all rows at one parameter point, clipped into their domain."""
        values = [point[name] for name in self._names]
        try:
            drawn = self._run(*values, *self.covariates.values())
        except NotImplementedError as cause:
            raise _no_generator_error(type(cause).__name__) from cause
        except Exception as cause:  # whatever a generator of NumPy or of a user may raise
            raise _failed_generator_error(type(cause).__name__) from cause
        found = {}
        for source, entries in zip(self._outcomes, drawn, strict=True):
            whole = np.broadcast_to(entries, _simulated_shape(source, self.rows))
            found[source.name] = nearest_entries(source, whole)
            if source.name in self._outside:
                self._outside[source.name] += [entries_outside(source, whole), whole.size]
        return found

    @property
    def outside(self) -> dict[str, float]:
        """Share of the outcomes so far that were moved into their interval, by name."""
        return {name: float(k / max(n, 1.0)) for name, (k, n) in self._outside.items()}

    def at(self, point: Mapping[str, np.ndarray]) -> Arrays:
        """All private variables at one parameter point."""
        return self.covariates | self.outcomes(point)


def outcome_sources(private: DeclaredModel) -> tuple[Source, ...]:
    """The private variables that the likelihood generates.

    Raises
    ------
    Unsupported
        A factor of the records that generates none: a potential.
    """
    return tuple(_observed_sources(private))


def _observed_sources(private: DeclaredModel) -> dict[Source, Variable]:
    """The observed variable of each outcome: a private variable that a likelihood generates."""
    variables = {source.variable: source for source in private.sources}
    found: dict[Source, Variable] = {}
    for rv in private.base.observed_RVs:
        source = variables.get(underlying_array(private.base.rvs_to_values[rv]))
        if source is None:
            continue
        if casts_between(private.base.rvs_to_values[rv], source.variable) is None:
            raise _no_generator_error(f"'{rv.name}' is observed through a function of the data")
        if source in found:
            raise _no_generator_error(f"'{source.name}' is observed twice")
        found[source] = rv
    names = {rv.name for rv in found.values()}
    for made in getattr(private.base, "generators", ()):  # of `marginalize`
        found |= {s: made.outcomes[s.name] for s in private.sources if s.name in made.outcomes}
        names.add(made.factor)
    others = [name for name in private.graph.factors if name not in names]
    if others:
        raise _no_generator_error(f"{', '.join(others)}: no distribution of private data")
    return found


def _outcome_graphs(
    private: DeclaredModel, observed: Mapping[Source, Variable], records: int | None, most: int
) -> tuple[int, list[Variable]]:
    """The number of simulated records, and graphs of their outcomes.

    It is the requested number, or the model's own where rows differ.
    """
    swaps = {s.variable: private.graph.data[s.name] for s in private.sources if s not in observed}
    swaps |= {rv: private.graph.parameters[rv.name] for rv in private.base.free_RVs}
    if not private.graph.rows_differ and records is not None:
        try:
            latents = [v for made in getattr(private.base, "generators", ()) for v in made.latents]
            return records, _resized_outcomes(observed, swaps, records, latents)
        except EVALUATION_ERRORS:
            pass  # a distribution that keeps the size it was built for
    if private.neighbors == ADD_REMOVE:
        raise _no_generator_error(
            "all records would be needed, and how many there are is protected"
        )
    if private.n > most:
        raise _no_generator_error(f"rows differ, and there are more than {most}")
    return private.n, rebuild(list(observed.values()), swaps)


def _resized_outcomes(
    observed: Mapping[Source, Variable],
    swaps: Mapping[Variable, Variable],
    rows: int,
    latents: Sequence[Variable] = (),
) -> list[Variable]:
    """The observed variables, and latent ones of single records, with another number of these."""
    shapes = {rv: _simulated_shape(source, rows) for source, rv in observed.items()}
    shapes |= dict.fromkeys(latents, (rows,))

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, SpecifyShape):
            return inputs[0]
        rv = next((out for out in node.outputs if out in shapes), None)
        if rv is None:
            return None
        made = node.op.make_node(*inputs).outputs[node.outputs.index(rv)]
        size = shapes[rv][: len(shapes[rv]) - node.op.ndim_supp]
        if isinstance(node.op, RandomVariable):
            parts = node.op.dist_params(made.owner)
            return node.op.make_node(inputs[0], pt.constant(size, dtype="int64"), *parts).outputs[1]
        return change_dist_size(made, size)

    return rebuild(list(observed.values()), swaps, rule)


def _compiled_outcomes(
    private: DeclaredModel,
    graphs: Sequence[Variable],
    covariates: Sequence[str],
    rng: np.random.Generator,
) -> Any:
    """Outcomes as a compiled function of parameters and covariates."""
    inputs = [private.graph.parameters[name] for name in private.shapes]
    inputs += [private.graph.data[name] for name in covariates]
    data = {s.variable for s in private.sources}
    if data & {v for v in ancestors(list(graphs)) if v.owner is None}:
        raise _no_generator_error("an outcome is computed from the data of another")
    leaves = [v for v in ancestors(list(graphs)) if v.owner is None]
    own = {v: _own_state(v) for v in leaves}  # or two simulators would share one stream
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pm.pytensorf.compile(
            inputs,
            rebuild(list(graphs), own),
            random_seed=int(rng.integers(2**32)),
            mode="FAST_COMPILE",
            on_unused_input="ignore",
        )


def _own_state(leaf: Variable) -> Variable:
    """A generator's state of its own, in the place of a shared one; any other leaf as it is."""
    if not (isinstance(leaf.type, RandomType) and hasattr(leaf, "get_value")):
        return leaf
    return pytensor.shared(leaf.get_value(borrow=False), name=leaf.name)


def _simulated_shape(source: Source, rows: int) -> tuple[int, ...]:
    return (*source.shape[: source.axis], rows, *source.shape[source.axis + 1 :])


def _no_generator_error(why: str) -> Unsupported:
    return Unsupported(
        "no records can be simulated from this model",
        got=why,
        allowed="likelihoods that are distributions of data, with a generator",
        do="pm.CustomDist(..., random=...) in the place of pm.Potential or a bare logp",
    )


def _failed_generator_error(kind: str) -> Unsupported:
    return Unsupported(
        "no records can be simulated from this model: a generator failed",
        got=f"{kind} at parameters from the prior, for other numbers of records than the model's",
        allowed="random(*parameters, rng=None, size=None) of any size; parameters may have a "
        "leading axis of length one",
        do="pm.draw of the outcome tells more; random= of pm.CustomDist is to follow size",
    )


def _simulated_covariates(
    private: DeclaredModel,
    observed: Mapping[Source, Variable],
    rows: int,
    known: Mapping[Source, np.ndarray],
    rng: np.random.Generator,
) -> Arrays:
    """Public covariates: rows of the reference, taken together, or uniform on their domains."""
    lengths = {len(np.moveaxis(v, s.axis, 0)) for s, v in known.items()}
    picked = rng.integers(max(lengths, default=1), size=rows)
    found = {}
    for source in private.sources:
        if source in observed:
            continue
        if source in known:
            entries = np.take(np.asarray(known[source], float), picked, axis=source.axis)
        else:
            drawn = uniform_entries(source.domain, source.row_shape, rows, source.is_whole, rng)
            entries = np.moveaxis(drawn, 0, source.axis)
        found[source.name] = nearest_entries(source, entries)
    return found
