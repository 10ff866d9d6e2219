"""PrivateModel: a PyMC model that knows what one record is; `privatize` makes one."""

from __future__ import annotations

import pymc as pm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TYPE_CHECKING
from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis.intervals.ops__normal_tail import has_log_phi
from pymc_private.models import declare, declare__intake
from pymc_private.models.compat import dumps as model_dumps, unpickle
from pymc_private.models.add_remove import record_lengths, refuse_counted, refuse_in_sequences
from pymc_private.models.metric import Metric, check_metric, relation_of
from pymc_private.privacy.rounding__power import float_down
from pymc_private.models.record_graph import RecordGraph, build_record_graph
from pymc_private.models.data_variables import Source
from pymc_private.models.distributions import support
from pymc_private.models.private_model__told import described, escaped
from pymc_private.models.restricted_model import restricted_model, scored_model
from pymc_private.models.data_variables__unbake import unbake
from pymc_private.models.declare__units import claims_of_units, whole_units
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

if TYPE_CHECKING:
    from pymc_private.certificates.lipschitz.region import ThetaL
    from pymc_private.models.prior__prior_draws import PriorMass

@dataclass(frozen=True, eq=False)
class PrivateModel:
    """A private copy of a PyMC model: the record, its domain, the region and the power.

    Parameters
    ----------
    base : pymc.Model
        The copy, with data clipped to the domain. Holds the data.
    sources : tuple of Source
        The private variables.
    graph : RecordGraph
        One record's log-likelihood, data and parameters symbolic.
    records : str
        What one record is, in the user's word.
    n : int
        Number of records; public under substitution.
    neighbors : str
        The neighbor relation.
    region : dict of str to Bounds
        Box of each trimmed parameter.
    power : Fraction
        Power of the likelihood.
    claims : tuple of str
        What is taken on trust.
    starts : dict
        Starts the user gave in the model, in natural space; see `initvals`.
    records_per_unit : int
        How many records one unit (a person) may own.
    theta_l : ThetaL or None
        The set of parameters that `trim(lipschitz=)` restricts the prior to, within the region.
    metric : Metric or None, of neighbors at a distance
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
    theta_l: ThetaL | None = None
    metric: Metric | None = None

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
        return dict(self._box)  # a copy: what is drawn from cannot be changed through it

    @cached_property
    def _box(self) -> dict[str, Bounds]:
        return {
            rv.name: self.region.get(rv.name) or support(self.base, rv, self.shapes[rv.name])
            for rv in self.base.free_RVs
        }

    @cached_property
    def model(self) -> pm.Model:
        """A plain PyMC model: data clipped, prior restricted to the region, likelihood tempered.

        Where log-likelihoods are clipped, or not PyMC's own to the last digits (`one_normal_tail`),
        a potential takes their place, and observed variables become data.
        """
        graph, power = self.graph, float_down(self.power)
        where = self.region, self.starts, self.theta_l
        if graph.clip is not None or has_log_phi(graph.record):
            scored, name = scored_model(self.base, graph, self.sources)
            return restricted_model(scored, power, (name,), *where)
        return restricted_model(self.base, power, graph.factors, *where, apart=graph)

    @cached_property
    def prior_mass(self) -> PriorMass:
        """How much of the prior the region keeps, counted on prior draws.

        Raises
        ------
        DomainError, Unsupported
            The prior is improper or holds a potential.
        """
        from pymc_private.models.prior__prior_draws import prior_mass

        return prior_mass(self)

    @property
    def initvals(self) -> dict[str, Any]:
        """Starts inside the region, in natural units, for ``pm.sample(initvals=...)``.

        Middles of trimmed parameters, and those that the model stated itself. `.model` starts there
        anyway; some back ends want them apart.
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
            Simulated records at each (the model's own number where rows are not alike).
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
        from pymc_private.models.prior__prior_predictive import prior_predictive

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
        for known in ("prior_mass", "shapes", "_box"):  # these know nothing of it
            if known in self.__dict__:
                made.__dict__[known] = self.__dict__[known]
        return made

    def __repr__(self) -> str:
        return described(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escaped(repr(self))}</pre>"

    def __reduce__(self) -> tuple:
        # PyMC models hold local functions, which only cloudpickle can carry.
        return unpickle, (model_dumps((type(self), self.__dict__)),)

    def __deepcopy__(self, memo: dict) -> PrivateModel:
        rebuild, (payload,) = self.__reduce__()
        return rebuild(payload)


def privatize(
    model: Any = None,
    *,
    records: str | Mapping[str, int] | None = None,
    domain: Mapping[str, Any] | None = None,
    neighbors: str | Metric = "substitute",
    records_per_unit: int = 1,
    public: str | Sequence[str] = (),
    constants: str = "private",
) -> PrivateModel:
    """Say what one record of a model is and all that it could be.

    The only step before a draw that reads the data: it checks them (NaN, unknown categories) and
    clips them into the domain, in a copy. How many were clipped goes to the logger alone.

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
        that `constants` lists; each stands on the certificate.
    constants : {"private", "public"}
        Arrays with the records axis that were baked into the graph as constants: each wants a
        domain (see `constants`), or all are claimed public. Of a Bambi model the variables of the
        formula are data again: give domains by their names; categorical ones need none, but the
        claim that their levels are public stands on the certificate.

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
        Imputed records, minibatches, parameters that belong to single records; add/remove where
        something public has one entry per record.

    References
    ----------
    Dimitrakakis, Nelson, Zhang, Mitrokotsa, Rubinstein (2017), Assumption 1; design: theory T1.
    """
    original = declare__intake.resolve(model)
    metric = neighbors if isinstance(neighbors, Metric) else None
    relation, units = relation_of(neighbors), whole_units(records_per_unit, metric)
    declare__intake.refuse_structures(original)
    taken = declare__intake.take(model, original, domain, public, constants)
    copy, dim = taken.copy, records if isinstance(records, str) else None
    said = (records, taken.domain, taken.public, constants, relation != ADD_REMOVE)
    found, n, claims, opened = declare.sources_of(copy, *said)
    sources = unbake(copy, found, opened)
    declare.clip_into_domain(sources, n)
    declare__intake.refuse_record_latents(copy, dim)
    graph = build_record_graph(copy, sources, n, constants, relation != ADD_REMOVE)
    if metric is not None:
        refuse_in_sequences(graph, str(metric))
        claims = [*claims, check_metric(metric, sources, graph)]
    private = PrivateModel(
        base=copy,
        sources=tuple(sources),
        graph=graph,
        records=dim or "record",
        n=n,
        neighbors=relation,
        metric=metric,
        claims=(*claims, *claims_of_units(units, relation), *taken.claims),
        starts=taken.initvals,
        records_per_unit=units,
    )
    if relation == ADD_REMOVE:
        refuse_counted(graph, sources, n, private.shapes, record_lengths(private))
    return private
