"""Private models: PyMC models with declared records, domains, region and power.

`privatize` makes one: it copies the model, clips the data into the domain and builds the graph of
one record's log-likelihood. `trim`, `temper` and `clip` return new ones. The representation never
shows data and, under add/remove, not the number of records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_private.analysis import Bounds
from pymc_private.analysis.rewrites.normal_cdf import has_log_phi
from pymc_private.errors import DomainError, Incompatible, suggest_arguments
from pymc_private.models.add_remove import refuse_public_counts, refuse_with_sequences
from pymc_private.models.bambi import formula_name
from pymc_private.models.compat import pickle_state, unpickle
from pymc_private.models.data_variables import Source, share_embedded_constants
from pymc_private.models.declare import (
    check_records_per_unit,
    clip_into_domain,
    copy_declared_model,
    read_declaration,
    refuse_per_record_parameters,
    refuse_structures,
    resolve_model,
    unit_claims,
)
from pymc_private.models.distributions import prior_support
from pymc_private.models.metric import Metric, check_metric, neighbor_relation
from pymc_private.models.original_model import changed_factors, factor_names, remember_original
from pymc_private.models.placeholder_rows import checked_table_rows, refuse_counted_placeholders
from pymc_private.models.prior import PriorMass, prior_mass, prior_predictive
from pymc_private.models.record_graph import RecordGraph, build_record_graph
from pymc_private.models.reference_rows import remember_rows
from pymc_private.models.restricted_model import (
    LipschitzSet,
    model_with_likelihood_potential,
    restricted_model,
)
from pymc_private.privacy import cards
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import float_down


@dataclass(frozen=True, eq=False)
class Score:
    """The score that took the place of each outcome's log-density.

    Parameters
    ----------
    beta : float
        Of the beta-divergence.
    original : PrivateModel
        The model with its log-density.
    """

    beta: float
    original: PrivateModel


@dataclass(frozen=True, eq=False)
class PrivateModel:
    """A private copy of a PyMC model with its records, domain, region and power.

    Parameters
    ----------
    base : pymc.Model
        The copy, with data clipped to the domain. Holds the data.
    sources : tuple of Source
        The private variables.
    graph : RecordGraph
        The log-likelihood of each record, with data and parameters as inputs.
    records : str
        What one record is: the name of its dim, or "record".
    n : int
        Number of records; public under substitution.
    neighbors : str
        The neighbor relation.
    region : dict of str to Bounds
        Box of each trimmed parameter.
    power : Fraction
        Power of the likelihood.
    claims : tuple of str
        Assumptions that are taken on trust.
    starts : dict
        Starts the user gave in the model, in natural space; see `initvals`.
    records_per_unit : int
        How many records one unit (a person) may own.
    theta_l : LipschitzSet or None
        The set of parameters that `trim(lipschitz=)` restricts the prior to, within the region.
    metric : Metric or None
        The metric, if neighbors are data sets at a distance.
    score : Score or None
        What took the place of log-densities (`beta_divergence`).
    table_rows : int or None
        Number of records of a table that `summarize` will read, if the model's own rows are
        placeholders; public under substitution, else a public guess.
    """

    base: pm.Model
    sources: tuple[Source, ...]
    graph: RecordGraph
    records: str
    n: int
    neighbors: str = "substitute"
    region: Mapping[str, Bounds] = field(default_factory=dict)
    power: Fraction = Fraction(1)
    claims: tuple[str, ...] = ()
    starts: Mapping[str, Any] = field(default_factory=dict)
    records_per_unit: int = 1
    theta_l: LipschitzSet | None = None
    metric: Metric | None = None
    score: Score | None = None
    table_rows: int | None = None

    @property
    def record_count(self) -> int:
        """Number of records: of the model, or of the table for which it holds placeholders."""
        return self.n if self.table_rows is None else self.table_rows

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each free variable."""
        known = {rv.name: rv.type.shape for rv in self.base.free_RVs}
        if any(None in shape for shape in known.values()):
            known = self.base.eval_rv_shapes()
        return {rv.name: tuple(int(k) for k in known[rv.name]) for rv in self.base.free_RVs}

    @property
    def box(self) -> dict[str, Bounds]:
        """Bounds of every free variable: its region where trimmed, else its prior's support."""
        return dict(self._box)  # a copy: callers cannot change the model through it

    @cached_property
    def _box(self) -> dict[str, Bounds]:
        return {
            rv.name: self.region.get(rv.name) or prior_support(self.base, rv, self.shapes[rv.name])
            for rv in self.base.free_RVs
        }

    @cached_property
    def model(self) -> pm.Model:
        """A plain PyMC model: data clipped, prior restricted to the region, likelihood tempered.

        Where log-likelihoods are clipped, or differ from PyMC's own in the last digits
        (`continuous_normal_lcdf`), a potential replaces them, and observed variables become data.
        """
        graph, power = self.graph, float_down(self.power)
        region = self.region, self.starts, self.theta_l
        if graph.clip is not None or has_log_phi(graph.record):
            scored, name = model_with_likelihood_potential(self.base, graph, self.sources)
            return restricted_model(scored, power, (name,), *region)
        return restricted_model(self.base, power, graph.factors, *region, public_part_of=graph)

    @cached_property
    def prior_mass(self) -> PriorMass:
        """Share of the prior that the region keeps, estimated on independent prior draws.

        Raises
        ------
        DomainError, Unsupported
            The prior is improper or holds a potential.
        """
        return prior_mass(self)

    @property
    def changed_likelihood(self) -> str:
        """What counts in place of each record's log-likelihood; empty if that itself does."""
        if self.graph.clip is not None:
            return "a clipped likelihood"
        if self.score is not None:
            return "the beta-divergence"
        return "a tempered likelihood" if self.power != 1 else ""

    @property
    def initvals(self) -> dict[str, Any]:
        """Starts inside the region, in natural units, for ``pm.sample(initvals=...)``.

        Middles of trimmed parameters, and those that the model stated itself. `.model` starts there
        anyway; some back ends need them as an argument.
        """
        given = self.model.rvs_to_initial_values.items()
        return {rv.name: value for rv, value in given if value is not None}

    def prior_predictive(
        self,
        draws: int = 500,
        *,
        records: int = 100,
        reference: Any = None,
        random_seed: int | None = None,
    ) -> Any:
        """Draw parameters from the restricted prior, and records from the model. Reads no data.

        Parameters
        ----------
        draws : int
            Parameter points, independent draws from the prior on the region.
        records : int
            Simulated records at each (the model's own number where rows differ).
        reference : mapping of str to array, or pandas.DataFrame, optional
            *Public* covariates; default: uniform on their declared domain.
        random_seed : int, optional
            Nothing here is private, so a seed is harmless.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Groups ``prior``, ``prior_predictive`` and ``constant_data`` (the covariates), as of
            `pymc.sample_prior_predictive`, which would draw from the untrimmed prior at the private
            covariates. A power of the likelihood does not alter what records look like.

        Raises
        ------
        DomainError
            An improper prior, numbers that are no counts, a reference that does not fit.
        Unsupported
            A potential, a density without a generator, or a region too small to be drawn from.
        """
        return prior_predictive(self, draws, records, reference, random_seed)

    @property
    def domain(self) -> dict[str, str]:
        """The declared domain of each private variable, in words."""
        return {s.name: str(s.domain) for s in self.sources}

    def with_region(self, region: Mapping[str, Bounds]) -> PrivateModel:
        """The same model on a smaller region."""
        return replace(self, region=dict(self.region) | dict(region))

    def with_graph(self, graph: RecordGraph) -> PrivateModel:
        """The same model with another log-likelihood of each record."""
        return replace(self, graph=graph)

    def with_power(self, power: Fraction) -> PrivateModel:
        """The same model with another power of the likelihood."""
        made = replace(self, power=power)
        for cached in ("prior_mass", "shapes", "_box"):  # these do not depend on the power
            if cached in self.__dict__:
                made.__dict__[cached] = self.__dict__[cached]
        return made

    def __repr__(self) -> str:
        return describe_private_model(self)

    def _repr_html_(self) -> str:
        return cards.html_text(repr(self))

    def __reduce__(self) -> tuple:
        # PyMC models hold local functions, which only cloudpickle can carry.
        return unpickle, (pickle_state((type(self), self.__dict__)),)

    def __deepcopy__(self, memo: dict) -> PrivateModel:
        rebuild, (payload,) = self.__reduce__()
        return rebuild(payload)


@suggest_arguments
def privatize(
    model: Any = None,
    *,
    records: str | Mapping[str, int] | None = None,
    domain: Mapping[str, Any] | None = None,
    neighbors: str | Metric = "substitute",
    records_per_unit: int = 1,
    public: str | Sequence[str] = (),
    constants: str = "private",
    n: int | None = None,
) -> PrivateModel:
    """Declare what one record of a model is and every value that it could have.

    The only step before a draw that reads the data: it checks them (NaN, unknown categories) and
    clips them into the domain, in a copy. The number of clipped rows goes to the logger alone.

    Parameters
    ----------
    model : pymc.Model or Bambi model, optional
        Left untouched. Default: the model of the context.
    records : str or dict
        Name of the dim whose entries are the records, or ``{data variable: axis}``.
    domain : dict
        For each private variable (by the name of its data or of the observed variable):
        ``Interval(a, b)`` or ``(a, b)``, ``Ball(r)``, ``Categories([...])`` or a set,
        ``Simplex()``. Finite supports that the likelihood states (Bernoulli, Categorical, Binomial
        with constant n) need not be given.
    neighbors : {"substitute", "add_remove"} or Metric
        One record replaced by any other, where the number of records is public; or one record added
        or removed, where it is protected; or data sets one unit of a metric apart.
    records_per_unit : int
        Protect units (persons) that own up to so many records, at that many times the price.
        Under substitution the number of records each unit owns is public.
    public : str or sequence of str
        Variables along the records axis that are not secret, constants among them by the names
        that `constants` lists; each is a claim on the certificate.
    constants : {"private", "public"}
        Arrays with the records axis that were embedded in the graph as constants: each needs a
        domain (see `constants`), or all are claimed public. Of a Bambi model the variables of the
        formula are data again: give domains by their names; categorical ones need none, but the
        claim that their levels are public is on the certificate.
    n : int, optional
        The model's rows are placeholders (a few made-up records), and this is the public number of
        rows of the table that ``summarize(plan, data=table)`` will read; under add/remove a public
        guess of it.

    Returns
    -------
    PrivateModel

    Raises
    ------
    DomainError
        A domain is missing (the message lists every variable and a snippet to paste), the dim is
        unknown, the data hold NaN, or a category that was not declared.
    NotCertified
        Some factor reads several records at once, or a prior reads the data.
    Unsupported
        Imputed records, minibatches, parameters that belong to single records; add/remove, or
        placeholder rows, where something public has one entry per record.

    References
    ----------
    Dimitrakakis, Nelson, Zhang, Mitrokotsa, Rubinstein (2017), Assumption 1; design: theory T1.
    """
    original = resolve_model(model)
    metric = neighbors if isinstance(neighbors, Metric) else None
    relation, units = neighbor_relation(neighbors), check_records_per_unit(records_per_unit, metric)
    refuse_structures(original)
    copied = copy_declared_model(model, original, domain, public, constants)
    base, dim = copied.model, records if isinstance(records, str) else None
    is_count_public = relation != ADD_REMOVE
    declaration = read_declaration(copied, records, constants, is_count_public)
    sources = share_embedded_constants(base, declaration.sources, declaration.public_constants)
    clip_into_domain(base, sources, declaration.n, records or {})
    refuse_per_record_parameters(base, dim)
    graph = build_record_graph(base, sources, declaration.n, constants, is_count_public)
    claims = [*declaration.claims, *_metric_claims(metric, sources, graph)]
    private = PrivateModel(
        base=base,
        sources=tuple(sources),
        graph=graph,
        records=dim or "record",
        n=declaration.n,
        neighbors=relation,
        metric=metric,
        claims=(*claims, *unit_claims(units, relation), *copied.claims),
        starts=copied.initvals,
        records_per_unit=units,
        table_rows=checked_table_rows(n, metric),
    )
    _refuse_counted_rows(private)
    _remember(private, original)
    return private


def _remember(private: PrivateModel, original: pm.Model) -> None:
    """Keep, for later checks, which model this copies and hashes of its rows."""
    remember_original(private.base, original)
    if private.table_rows is None:  # rows that stand for those of a table are no data
        remember_rows(private.base, private.sources)


def _refuse_counted_rows(private: PrivateModel) -> None:
    """Refuse what tells the number of rows, if that is protected or they are placeholders."""
    facts = (private.graph, private.sources, private.n, private.shapes, record_lengths(private))
    if private.neighbors == ADD_REMOVE:
        refuse_public_counts(*facts)
    if private.table_rows is not None:
        refuse_counted_placeholders(*facts)


def _metric_claims(
    metric: Metric | None, sources: Sequence[Source], graph: RecordGraph
) -> list[str]:
    """Claims of a metric, which has to fit the private variables and to read single records."""
    if metric is None:
        return []
    refuse_with_sequences(graph, str(metric))
    return [check_metric(metric, sources, graph)]


def require_private_model(value: Any) -> PrivateModel:
    """The argument itself if it is a private model; a model that was not declared is refused."""
    if isinstance(value, PrivateModel):
        return value
    raise DomainError(
        "this is no private model",
        got=type(value).__name__,
        allowed="what pmp.privatize, trim, temper or clip return",
        do="private = pmp.privatize(model, records=..., domain=...)",
    )


def record_dims(private: PrivateModel) -> set[str]:
    """The dims whose entries are records, also where `records` named axes instead of a dim."""
    dims = private.base.named_vars_to_dims
    of_names = [(s, dims.get(name)) for s in private.sources for name in (s.name, *s.aliases)]
    found = {private.records} | {named[s.axis] for s, named in of_names if named}
    return {name for name in found if name is not None}


def record_lengths(private: PrivateModel) -> list[Variable]:
    """The number of records as the model's dims hold it, symbolically."""
    lengths = private.base.dim_lengths
    return [lengths[name] for name in sorted(record_dims(private)) if name in lengths]


def moved_sources(private: PrivateModel) -> list[str]:
    """Private variables whose data have another shape than they had when they were declared."""

    def current(variable: Any) -> tuple[int, ...]:
        return tuple(variable.get_value(borrow=True).shape)

    return [s.name for s in private.sources if current(s.variable) != s.shape]


def has_declared_factors(private: PrivateModel) -> bool:
    """Whether the model, and the user's that it is a copy of, have the declared factors."""
    factors = list(factor_names(private.base))
    return factors == list(private.graph.terms) and not changed_factors(private.base)


def require_same_factors(private: Any) -> None:
    """Refuse a model whose factors, or those of the user's model, were changed since.

    Raises
    ------
    Incompatible
        A prior, a potential or an outcome was added or removed.
    """
    if isinstance(private, PrivateModel) and not has_declared_factors(private):
        raise Incompatible(
            "the model was changed after it was declared; nothing was charged",
            got=what_changed(private, "another prior, potential or outcome"),
            allowed="the model as privatize saw it",
            do="call privatize on the changed model; predict from a copy, or by "
            "summary.predictive_model",
        )


def what_changed(private: PrivateModel, otherwise: str) -> str:
    """What was changed since the model was declared, in words; public facts only."""
    if moved := moved_sources(private):
        return f"another shape of {', '.join(moved)}"
    if changed := changed_factors(private.base):
        return f"{', '.join(changed)} of the model that privatize copied, added or removed since"
    return otherwise


def describe_private_model(private: PrivateModel) -> str:
    """The representation of a private model, which holds no data.

    Under add/remove the number of records is protected and left out.
    """
    data = ", ".join(
        f"{formula_name(name) or name} in {domain}" for name, domain in private.domain.items()
    )
    boxes = [f"{k} in {_format_bounds(v)}" for k, v in private.region.items()]
    if private.theta_l is not None:
        boxes.append(private.theta_l.words)
    region = ", ".join(boxes) or "untrimmed"
    if "prior_mass" in private.__dict__:  # a cached property: printing must not draw
        region += f"; keeps {private.prior_mass}"
    count = "" if private.neighbors == ADD_REMOVE else f" of {private.record_count}"
    if private.table_rows is not None:
        count += f", in a table (here {private.n} placeholder rows)"
    units = (
        f", in units of up to {private.records_per_unit}" if private.records_per_unit > 1 else ""
    )
    clip = f"\n  clip: {describe_clip(private.graph)}" if private.graph.clip else ""
    score = f"\n  beta-divergence: beta = {private.score.beta:.6g}" if private.score else ""
    coupled = "; some factor rows read several records" if private.graph.windows else ""
    return (
        f"PrivateModel (holds confidential data)\n"
        f"  one record: one {private.records}{count}; neighbors: {private.neighbors}{units}\n"
        f"  private: {data}\n  factors: {', '.join(private.graph.factors)}{coupled}\n"
        f"  region: {region}\n  power: {float(private.power):.6g}{score}{clip}"
    )


def describe_clip(graph: RecordGraph) -> str:
    """The bounds to which the log-likelihood of each record or factor row is clipped."""
    low, high = graph.clip or (-np.inf, np.inf)
    each = "factor row" if graph.windows else "record"
    return f"each {each}'s log-likelihood in [{low:.12g}, {high:.12g}]"


def escape_html(text: str) -> str:
    """Text with its HTML markup escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _format_bounds(bounds: Bounds) -> str:
    return f"[{np.min(bounds.lower):.4g}, {np.max(bounds.upper):.4g}]"
