"""The density of all rows of a person given their covariates, as scores read it.

From a model of which `marginalize` integrated out normal effects of persons with several rows
come, as graphs of one person, the predictors: eta_j of each place for a row at the mean of the
effects, their scales L (`person_effects`), and what else the family has. That effects enter
linearly is checked at public points; the family then gives density and scores
(`effect_integrals`), and nodes of the outcomes (`person_nodes`). Nothing here reads the data;
arrays of persons are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Exp
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis.traversal import (
    rebuild,
    scalar_op,
    without_dimshuffles,
    without_tracebacks,
)
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.distributions import distribution_class
from pymc_private.models.marginalize import Generator, RowsOfRecord
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.density.batched import VectorizedFunction, rewritten
from pymc_private.summaries.density.outcome_nodes import OutcomeNodes
from pymc_private.summaries.density.plain_record import in_compiled_operations, plain_record
from pymc_private.summaries.density.record_density import gradients, refuse_other_models
from pymc_private.summaries.parameters import ParameterVector
from pymc_private.summaries.persons.effect_integrals import FAMILIES, EffectIntegral, Places
from pymc_private.summaries.persons.person_effects import (
    TOLERANCE,
    Factors,
    PersonEffects,
    are_alike,
)
from pymc_private.summaries.persons.person_nodes import (
    FEWEST_PAIRS,
    all_patterns_fit,
    person_nodes,
)
from pymc_private.summaries.scores.clipped_scores import Rows

MOST_VECTORS = 64
"""Most parameter vectors of which `log_density` holds the predictors."""
CHECK_POINTS, CHECK_SEED = 4, 20260108
"""Prior draws at which it is checked how the effect enters."""
POINT, ROW = (True, False), (False, True)
SHIFTS = (-1.7, 0.6)
"""Effects at which it is checked."""
FURTHER = {"NormalRV": (1,), "NegBinomialRV": (0,)}
"""Which parameters of a distribution its family has beside the predictor."""
INVERSE_LINKS = {"BernoulliRV": psm.Sigmoid, "PoissonRV": Exp}
"""What the first parameter of a distribution is of its predictor; itself for others."""


def rows_of_persons(private: PrivateModel) -> tuple[Generator, RowsOfRecord] | None:
    """How outcomes of persons with several rows are drawn; None if records are no such persons."""
    every = getattr(private.base, "generators", ())
    made = [(g, g.rows) for g in every if g.rows is not None]
    return made[0] if made else None


class PersonDensity:
    """log p(outcomes of a person | covariates, parameters).

    Parameters
    ----------
    private : PrivateModel
        Of a model that `marginalize` made with `rows_per_record`.

    Attributes
    ----------
    parameters : ParameterVector
    outcome : Source
    covariates : tuple of Source
        The other private variables; the number of rows is one of them unless it is public.
    public_rows : dict of str to array
        Public arrays with one entry per person.
    count : str
        Name of the number of rows.
    width : int
        K, places for rows.
    of_rows : frozenset of str
        Arrays with an entry for each place.
    family : EffectIntegral

    Raises
    ------
    Unsupported
        A model of another kind, with what to do instead.
    """

    def __init__(self, private: PrivateModel) -> None:
        refuse_other_models(private, "release draws: pmp.sample")
        found = rows_of_persons(private)
        if found is None:
            raise Unsupported(
                "records of this model are no persons with several rows",
                got="a model that pmp.marginalize did not make with rows_per_record=",
                allowed="models with a latent effect of each person that is integrated out",
                do="pmp.marginalize(model, 'effect', rows_per_record=...), then privatize that",
            )
        made, self._made_rows = found
        self.generator, self.labels = made, dict[str, int]()
        self.count, self.width = self._made_rows.count, self._made_rows.most
        self.of_rows = frozenset(self._made_rows.arrays)
        self.parameters = ParameterVector(private)
        self.outcome = _outcome_of(private, made)
        self.covariates = tuple(s for s in private.sources if s is not self.outcome)
        self.kind, self.family = _family_of(made)
        self.effects = PersonEffects(made.latents)
        with without_tracebacks():
            self._read_graphs(private)
            self._check_parameters(private)

    @property
    def size(self) -> int:
        """m, the number of predictors."""
        d = self.effects.count
        return self.width + d * (d + 1) // 2 + self.family.extra

    # ---- graphs ------------------------------------------------------------------------------
    def _read_graphs(self, private: PrivateModel) -> None:
        """Predictors of one person, of natural and of unconstrained parameters."""
        graph = private.graph
        self._inputs = {
            name: v.type.clone(shape=private.shapes[name])(name=name)
            for name, v in graph.parameters.items()
        }
        swaps: dict[Variable, Variable] = {
            rv: self._inputs[rv.name] for rv in private.base.free_RVs
        }
        self._rows: dict[str, Variable] = {}
        for source in self.covariates:
            entry = pt.TensorType(source.dtype, shape=source.row_shape)(name=source.name)
            self._rows[source.name] = entry
            swaps[source.variable] = pt.expand_dims(entry, source.axis)
        self.public_rows: dict[str, np.ndarray] = {}
        places = [self._predictor(v) for v in self._made_rows.parameters]
        extra = self._extra_parameters()
        self._take_public([*places, *self.effects.parameters, *extra], private, swaps)
        d, zero = self.effects.count, [0.0] * self.effects.count
        middle = [self._at_effect(v, zero, swaps) for v in places]
        ends = [[self._at_effect(v, list(e), swaps) for e in np.eye(d)] for v in places]
        slopes = [[end - own for end in each] for own, each in zip(middle, ends, strict=True)]
        shifted = [self._at_effect(v, [z] * d, swaps) for v in places for z in SHIFTS]
        further = [self._at_effect(v, zero, swaps) for v in extra]
        lower = self._scales(private, middle, slopes, shifted)
        self._natural = [self._plain(v) for v in (*middle, *lower, *further)]
        self._values = self.parameters.inputs()
        natural = self.parameters.symbolic_natural(self._values)
        moved = {self._inputs[name]: v for name, v in natural.items()}
        values, data = set(self._values.values()), set(self._rows.values())
        self._predictors = [
            plain_record(rewritten(rebuild([v], moved))[0], values, data) for v in self._natural
        ]

    def _plain(self, graph: Variable) -> Variable:
        """A graph of natural parameters and one person in operations that vectorize."""
        return plain_record(graph, set(self._inputs.values()), set(self._rows.values()))

    def _natural_function(self, graphs: Sequence[Variable]) -> Callable[..., np.ndarray]:
        """Graphs of natural parameters and one person, of S vectors and N persons: (S, N, ...)."""
        inputs = [*self._inputs.values(), *self._rows.values()]
        leading = [POINT] * len(self._inputs) + [ROW] * len(self._rows)
        function = VectorizedFunction(inputs, [self._plain(v) for v in graphs], leading)

        def values(theta: np.ndarray, rows: Rows) -> np.ndarray:
            natural, shape = self.parameters.natural(theta), (len(theta), len(rows[self.count]))
            arguments = [np.asarray(natural[name])[:, None] for name in self._inputs]
            arguments += [np.asarray(rows[name])[None] for name in self._rows]
            found = [np.broadcast_to(v, shape) for v in function(*arguments)]
            return np.stack(found, axis=2)

        return values

    def _scales(
        self,
        private: PrivateModel,
        middle: Sequence[Variable],
        slopes: Sequence[Sequence[Variable]],
        shifted: Sequence[Variable],
    ) -> list[Variable]:
        """The graphs of L, and how the loadings of rows are found; refuses other effects."""
        d = self.effects.count
        flat = [v for each in slopes for v in each]
        theta = np.concatenate(
            [self.parameters.mean[None], self.parameters.draws(CHECK_POINTS, CHECK_SEED)]
        )
        rows = _made_up_rows(self, private)
        function = self._natural_function(flat)
        at = function(theta, rows).reshape(len(theta), -1, self.width, d)
        _check_linear(self._natural_function([*middle, *shifted])(theta, rows), at)
        if are_alike(at):
            self._factors = None
            return list(slopes[0])
        factors = Factors.of(at[0])
        chosen = np.stack([at[:, n, j] for n, j in factors.rows], axis=1)
        expected = np.einsum("nka,sad->snkd", factors.loadings(at[0]), chosen)
        if not np.allclose(at, expected, rtol=TOLERANCE, atol=TOLERANCE):
            raise Unsupported(
                "effects of persons have one covariance for all persons",
                got="effects whose scale depends on parameters and covariates together",
                allowed="effect[person] times what is known of the row, with scales of their own",
                do="a scale that no covariate moves; or draws: pmp.sample",
            )
        self._factors, self._slopes = factors, function
        return factors.lower([
            [self._of_public_row(v, rows, n) for v in slopes[j]] for n, j in factors.rows
        ])  # fmt: skip

    def _of_public_row(self, graph: Variable, rows: Rows, person: int) -> Variable:
        """A graph of one person at the entries of a public one."""
        swaps = {
            v: pt.constant(np.asarray(rows[name][person]).astype(v.type.dtype))
            for name, v in self._rows.items()
        }
        return rebuild([graph], swaps)[0]

    def _predictor(self, parameters: Sequence[Variable]) -> Variable:
        """The predictor of a row from the parameters of its distribution."""
        if self.kind == "NegBinomialRV":  # alpha and alpha / (alpha + mean)
            alpha, share = parameters
            base = without_dimshuffles(share)
            if isinstance(scalar_op(base), psm.Sigmoid):
                return pt.log(alpha) - base.owner.inputs[0]
            return pt.log(alpha) + pt.log1p(-share) - pt.log(share)
        location, inverse = parameters[0], INVERSE_LINKS.get(self.kind)
        if inverse is None:
            return location
        base = without_dimshuffles(location)
        if not isinstance(scalar_op(base), inverse):
            names = {"BernoulliRV": "logit_p=", "PoissonRV": "mu=pm.math.exp(...)"}
            raise Unsupported(
                "scores of persons need the canonical link of the family",
                got=self.kind.removesuffix("RV"),
                allowed=names[self.kind],
                do="the logit for Bernoulli, the logarithm for Poisson",
            )
        return base.owner.inputs[0]

    def _extra_parameters(self) -> list[Variable]:
        """Parameters of the family beside the location."""
        found = [self._made_rows.parameters[0][k] for k in FURTHER.get(self.kind, ())]
        if any(v.type.ndim and not all(v.type.broadcastable) for v in found):
            raise Unsupported(
                "scores of persons need one standard deviation or alpha for all rows",
                got="one for each row",
                allowed="a parameter",
            )
        return found

    def _take_public(
        self, graphs: Sequence[Variable], private: PrivateModel, swaps: dict[Variable, Variable]
    ) -> None:
        """Entries for public arrays of persons."""
        for v in ancestors([*graphs, private.base[self.count]]):
            if v in swaps or v.owner is not None:
                continue
            if not (isinstance(v, Constant) or hasattr(v, "get_value")):
                continue
            array = np.asarray(v.data if isinstance(v, Constant) else v.get_value())
            if array.ndim and array.shape[0] == private.n:
                name = v.name or f"public_{len(self.public_rows)}"
                entry = pt.TensorType(v.type.dtype, shape=array.shape[1:])(name=name)
                self._rows[name], self.public_rows[name] = entry, array
                swaps[v] = pt.expand_dims(entry, 0)

    def _at_effect(
        self, graph: Variable, z: Sequence[float], swaps: Mapping[Variable, Variable]
    ) -> Variable:
        """A graph of one person as a scalar at a value of the effects."""
        own = dict(swaps)
        for latent, effect in self.effects.values(z).items():
            (value,) = rebuild([pt.atleast_1d(effect)], dict(swaps), _without_shape)
            own[latent] = value.astype(latent.type.dtype)
        (found,) = rebuild([graph], own, _without_shape)
        return pt.sum(found)  # of one number

    # ---- functions ---------------------------------------------------------------------------
    @cached_property
    def _predictor_function(self) -> VectorizedFunction:
        inputs = [*self._values.values(), *self._rows.values()]
        leading = [POINT] * len(self._values) + [ROW] * len(self._rows)
        return VectorizedFunction(inputs, self._predictors, leading)

    @cached_property
    def _jacobian_function(self) -> VectorizedFunction:
        values = list(self._values.values())
        outs = [d for v in self._predictors for d in gradients(v, values)]
        leading = [POINT] * len(values) + [ROW] * len(self._rows)
        return VectorizedFunction([*values, *self._rows.values()], outs, leading, derivatives=True)

    def _arguments(self, theta: np.ndarray, rows: Rows) -> list[np.ndarray]:
        parts = [part[:, None] for part in self.parameters.split(theta).values()]
        return [*parts, *(np.asarray(rows[name])[None] for name in self._rows)]

    def predictors_at(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Predictors at vectors (S, p), shape (S, N, m)."""
        shape = (len(theta), len(rows[self.count]))
        found = self._predictor_function(*self._arguments(np.asarray(theta, float), rows))
        return np.stack([np.broadcast_to(v, shape) for v in found], axis=2)

    def jacobian(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Derivatives of the predictors in the unconstrained parameters, shape (N, m, p)."""
        theta, count = np.asarray(theta, float), len(rows[self.count])
        found = self._jacobian_function(*self._arguments(theta[None], rows))
        jacobian = np.empty((count, self.size, self.parameters.size))
        slices = list(self.parameters.slices.values())
        shapes = list(self.parameters.value_shapes.values())
        for k, array in enumerate(found):
            row, part = divmod(k, len(slices))
            wide = np.broadcast_to(array, (1, count, *shapes[part]))
            jacobian[:, row, slices[part]] = wide.reshape(count, -1)
        return jacobian

    def has_rows(self, rows: Rows) -> np.ndarray:
        """Which places of each person hold a row, shape (N, K)."""
        return np.arange(self.width) < np.asarray(rows[self.count])[:, None]

    def places(self, rows: Rows) -> Places:
        """Which places of each person hold a row, and how these read the effects."""
        has = self.has_rows(rows)
        if self._factors is None:
            return Places.of_intercepts(has)
        slopes = self._slopes(self.parameters.mean[None], rows)[0]
        loadings = self._factors.loadings(slopes.reshape(*has.shape, -1))
        return Places(has, np.where(has[..., None], loadings, 0.0), alike=False)

    def log_density(self, theta: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """log p(y | rows, theta) at vectors (S, p) and outcomes (N, Q, K), shape (S, N, Q)."""
        theta, places = np.asarray(theta, dtype=float), self.places(rows)
        found = np.empty((len(theta), *y.shape[:2]))
        for start in range(0, len(theta), MOST_VECTORS):
            some = self.predictors_at(theta[start : start + MOST_VECTORS], rows)
            with np.errstate(all="ignore"):
                found[start : start + MOST_VECTORS] = self.family.log_density(some, places, y)
        return found

    def symbolic_log_density(
        self, parameters: Mapping[str, Variable], rows: Rows, y: np.ndarray
    ) -> Variable:
        """log p(y | rows, parameters) as a graph of parameters in natural units, shape (N, Q)."""
        swaps = {self._inputs[name]: v for name, v in parameters.items()}
        for name, v in self._rows.items():
            swaps[v] = pt.constant(np.asarray(rows[name]).astype(v.type.dtype), name=name)
        count = len(rows[self.count])
        with without_tracebacks():
            graphs = [in_compiled_operations(v) for v in self._natural]
            found = vectorize_graph(graphs, replace=swaps)
            whole = [v if v.type.ndim else pt.full((count,), v) for v in found]
            return self.family.symbolic(whole, self.places(rows), np.asarray(y, dtype=float))

    # ---- what is checked ---------------------------------------------------------------------
    def _check_parameters(self, private: PrivateModel) -> None:
        """Refuse parameters that no record reads."""
        theta = self.parameters.draws(CHECK_POINTS, CHECK_SEED)
        rows = _made_up_rows(self, private)
        unread = ~np.any([self.jacobian(t, rows) != 0.0 for t in theta], axis=(0, 1, 2))
        if unread.any():
            names = [n for n, part in self.parameters.slices.items() if unread[part].any()]
            raise Unsupported(
                "scores of persons are about parameters that records read",
                got=", ".join(names),
                allowed="coefficients with priors of known scale, and the scale of the effects",
                do="fixed priors of the coefficients",
            )


class PersonModel:
    """What clipped scores read of persons: see `clipped_scores.RecordModel`.

    Parameters
    ----------
    density : PersonDensity
    domain : tuple of float
        Ends to which outcomes are clipped.
    pairs : int
        Antithetic pairs of nodes of their outcomes.
    """

    def __init__(
        self, density: PersonDensity, domain: tuple[float, float], pairs: int = FEWEST_PAIRS
    ) -> None:
        self.density, self.domain, self.pairs = density, domain, pairs
        self.parameters = density.parameters
        self.jacobian, self.log_density = density.jacobian, density.log_density

    @property
    def takes_all_patterns(self) -> bool:
        """Whether expectations over the answers of a person are exact."""
        return all_patterns_fit(self.density.family, self.density.width)

    def predictors(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Values of the predictors, shape (N, m)."""
        return self.density.predictors_at(np.asarray(theta)[None], rows)[0]

    def scores(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Derivatives of log p(y | .) in the predictors, shape (N, Q, m)."""
        return self.density.family.scores(predictors, self.density.places(rows), y)

    def nodes(self, predictors: np.ndarray, rows: Rows) -> OutcomeNodes:
        """Nodes of the outcomes of each person, of their own entries alone."""
        entries = [np.asarray(rows[name]) for name in self.density._rows]
        family, places = self.density.family, self.density.places(rows)
        return person_nodes(family, predictors, places, entries, self.domain, self.pairs)


# ---- pieces -------------------------------------------------------------------------------------
def _without_shape(node: Apply, inputs: list[Variable]) -> Variable | None:
    return inputs[0] if isinstance(node.op, SpecifyShape) else None


def _check_linear(values: np.ndarray, slopes: np.ndarray) -> None:
    """Refuse predictors (S, N, K + 2 K) that are not linear in the effects, l (S, N, K, d)."""
    width = slopes.shape[2]
    middle, shifted = values[..., :width], values[..., width:]
    whole = slopes.sum(axis=3)[..., None] * np.array(SHIFTS)
    expected = (middle[..., None] + whole).reshape(shifted.shape)
    if not np.allclose(shifted, expected, rtol=TOLERANCE, atol=TOLERANCE):
        raise Unsupported(
            "effects of a person enter the predictors of rows linearly in scores of persons",
            got="rows that read them otherwise",
            allowed="predictor + effect[person], times a scale or a covariate",
            do="an intercept, or an intercept and a slope; or draws: pmp.sample",
        )


def _family_of(made: Generator) -> tuple[str, EffectIntegral]:
    """The family of the outcome."""
    (rv,) = made.outcomes.values()
    kind = distribution_class(rv)
    if kind not in FAMILIES:
        raise Unsupported(
            "scores of persons know few families of outcomes",
            got=kind.removesuffix("RV"),
            allowed=", ".join(name.removesuffix("RV") for name in FAMILIES),
            do="one of these; or draws: pmp.sample",
        )
    return kind, FAMILIES[kind]()


def _outcome_of(private: PrivateModel, made: Generator) -> Source:
    """The private variable that the likelihood generates."""
    others = [name for name in private.graph.factors if name != made.factor]
    found = [s for s in private.sources if s.name in made.outcomes]
    if others or len(found) != 1:
        raise Unsupported(
            "a summary of persons is about the outcome of their rows",
            got=", ".join(others) or "a public outcome",
            allowed="one private outcome, and no other factor that reads records",
        )
    return found[0]


def _made_up_rows(density: PersonDensity, private: PrivateModel) -> dict[str, np.ndarray]:
    """A few persons of the domain."""
    from pymc_private.summaries.scores.reference import reference_rows

    return dict(reference_rows(private, density, 8).rows)
