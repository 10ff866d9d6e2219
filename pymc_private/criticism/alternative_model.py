"""An extended PyMC model as a departure: its score at the fitted model, by autodiff.

The extended model has all parameters of the fitted one and one scalar parameter more, and equals it
at a value of that parameter; or it has effects of groups more, and their standard deviation
(`group_effects`). Equality is tried on public rows and outcomes, at several parameter vectors. The
records are never read through the extended model.

Of a hierarchy the score is taken at coefficients that records read, and at parameters above them
that give these coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pymc_private.criticism.covariate_columns import CovariateColumn, CovariateColumns
from pymc_private.criticism.fitted_summary import FittedSummary
from pymc_private.criticism.group_effects import (
    GroupEffects,
    added_effects,
    group_label,
)
from pymc_private.errors import DomainError, Incompatible
from pymc_private.models.bambi import formula_name, is_bambi_model
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.summaries.density.record_density import NaturalDerivative, RecordDensity
from pymc_private.summaries.scores.read_parameters import all_parameters, natural_at

Rows = Mapping[str, np.ndarray]
AGREEMENT = 1e-8
"""Most difference of log densities of the two models, relative to their size."""
POINTS, POINT_SEED = 4, 20261126
"""Parameter vectors at which they are compared beside theta^, and the seed of these."""


@dataclass(frozen=True, eq=False)
class AlternativeDirection:
    """The score of an extended model in its additional parameter (see `directions.Direction`).

    Attributes
    ----------
    name, unit : str
    parameters : ParameterVector or ReadCoefficients
        What records read of the fitted model's.
    private, density : PrivateModel, RecordDensity
        Of the extended one.
    derivative : callable
        Of the extended one.
    names : mapping of str to str
        Public rows of the extended model by the names that the fitted one has for them.
    value : float
        Of the additional parameter where the extended model is the fitted one.
    effects : GroupEffects, optional
        Additional effects of groups, of which the parameter is the standard deviation.
    label : CovariateColumn, optional
        The group of a record.
    """

    name: str
    unit: str
    parameters: Any
    private: PrivateModel
    density: RecordDensity
    derivative: NaturalDerivative
    names: Mapping[str, str]
    value: float
    effects: GroupEffects | None = None
    label: CovariateColumn | None = None

    @property
    def groups(self) -> int | None:
        """How many effects of groups there are, where the departure is about them."""
        return None if self.effects is None else self.effects.groups

    def values(
        self, theta: np.ndarray, predictors: np.ndarray, rows: Rows, y: np.ndarray
    ) -> np.ndarray:
        """v, shape (N, Q)."""
        return self.both(theta, rows, y)[1]

    def both(
        self,
        theta: np.ndarray,
        rows: Rows,
        y: np.ndarray,
        effects: np.ndarray | None = None,
        spread: float = 1.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log density of the extended model, and v; or both at some effects (G,) of groups."""
        natural = self._natural(np.asarray(theta, float))
        if self.effects is None:
            natural = natural | {self.name: np.array(self.value)}
        else:
            natural = self.effects.natural(natural, effects, spread)
        renamed = {self.names.get(name, name): values for name, values in rows.items()}
        with np.errstate(all="ignore"):
            return self.derivative(natural, renamed, y)

    @cached_property
    def coordinate(self) -> float:
        """`value` as the model's prior transforms it: infinite at its end, NaN beyond it."""
        wider = all_parameters(self.density.parameters)
        natural = dict(wider.natural(wider.pool[:1])) | {self.name: np.array([self.value])}
        with np.errstate(all="ignore"):
            return float(wider.unconstrained(natural)[0, wider.slices[self.name]][0])

    def _natural(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """The fitted parameters; the last ones are kept, since records come in chunks."""
        key = theta.tobytes()
        if key not in self._found:
            self._found.clear()
            self._found[key] = natural_at(self.parameters, theta)
        return self._found[key]

    @cached_property
    def _found(self) -> dict[bytes, dict[str, np.ndarray]]:
        return {}


def is_model(what: Any) -> bool:
    """Whether this is a model, private or not."""
    import pymc as pm

    return isinstance(what, PrivateModel | pm.Model) or is_bambi_model(what)


def alternative_direction(
    model: Any,
    private: PrivateModel,
    density: RecordDensity,
    fit: FittedSummary,
    at: Mapping[str, float],
) -> AlternativeDirection:
    """The score of an extended model at the fitted one.

    Parameters
    ----------
    model : PrivateModel, pymc.Model or bambi.Model
        A plain model is declared as the fitted one was.
    private, density
        The fitted model.
    fit : FittedSummary
    at : mapping of str to float
        The value of the additional parameter; default: 0.

    Raises
    ------
    Incompatible
        It does not contain the fitted model there.
    Unsupported
        Effects that are not of groups of records.
    """
    declared = model if isinstance(model, PrivateModel) else _declared_alike(model, private)
    extended = RecordDensity(declared)
    name, effects = _addition(extended, density, declared)
    _refuse_other_names(at, name, effects)
    direction = AlternativeDirection(
        name,
        f"{name} of the alternative model",
        density.parameters,
        declared,
        extended,
        extended.natural_derivative(effects.differentiated if effects else name),
        _row_names(extended, density),
        float(at.get(name, 0.0)),
        effects,
    )
    _refuse_other_priors(direction)
    if direction.value:
        direction = replace(direction, unit=f"{direction.unit}, less {direction.value:g}")
    _refuse_other_densities(direction, fit)
    if effects is None:
        return direction
    columns = CovariateColumns(private, density)
    label = group_label(direction, density.labels, columns, fit)
    unit = f"standard deviation of effects of {label.name} in the alternative model"
    return replace(direction, label=label, unit=unit)


def _declared_alike(model: Any, private: PrivateModel) -> PrivateModel:
    """The alternative with the declaration of the fitted model, as far as names agree."""
    hidden = {name for s in private.sources for name in (s.name, *s.aliases)}
    known = {str(variable.name) for variable in private.base.data_vars} - hidden
    is_formula = is_bambi_model(model)
    if not is_formula:
        known = known.intersection(model.named_vars)

    def name_of(data: str) -> str:
        return (is_formula and formula_name(data)) or data

    has_dim = is_formula or private.records in model.coords
    return privatize(
        model,
        records=private.records if has_dim else {s.name: s.axis for s in private.sources},
        domain={name_of(s.name): s.domain for s in private.sources},
        public=sorted(map(name_of, known)),
        neighbors=private.neighbors,
        records_per_unit=private.records_per_unit,
    )


def _addition(
    extended: RecordDensity, density: RecordDensity, declared: PrivateModel
) -> tuple[str, GroupEffects | None]:
    """The one parameter that the extended model has beside those of the fitted one.

    Or effects of groups and their standard deviation.
    """
    wider, own = (all_parameters(d.parameters).shapes for d in (extended, density))
    missing = [name for name in own if wider.get(name) != own[name]]
    added = {name: wider[name] for name in wider if name not in own}
    if not missing and [*added.values()] == [()]:
        return next(iter(added)), None
    effects = None if missing else added_effects(declared, added)
    if effects is None:
        raise Incompatible(
            "an alternative model has the parameters of the fitted one and one number more, or "
            "effects of groups and their standard deviation; nothing was charged",
            got=f"additional: {', '.join(added) or 'none'}; missing or of another shape: "
            f"{', '.join(missing) or 'none'}",
            allowed=f"{', '.join(own)} and one scalar parameter, or pm.Normal(mean, sd) of each "
            "group and sd",
            do="name and shape parameters as in the fitted model",
        )
    return effects.spread, effects


def _refuse_other_names(at: Mapping[str, float], name: str, effects: Any) -> None:
    others = [key for key in at if key != name]
    if others or (effects is not None and at.get(name)):
        raise DomainError(
            "at= gives the value of the additional parameter; nothing was charged",
            got=", ".join(f"{key!r}: {value:g}" for key, value in at.items()),
            allowed=f"{{{name!r}: {'0' if effects else 'a number'}}}",
        )


def _refuse_other_priors(direction: AlternativeDirection) -> None:
    if np.isnan(direction.coordinate):
        raise Incompatible(
            "the alternative does not contain the fitted model; nothing was charged",
            got=f"a prior of {direction.name} that excludes {direction.value:g}",
            allowed=f"one that reaches {direction.value:g}",
            do=f"pm.HalfNormal or pm.Normal for {direction.name}, or at= another value",
        )


def _row_names(extended: RecordDensity, density: RecordDensity) -> dict[str, str]:
    """Names of public rows in the extended model, by those in the fitted one.

    Raises
    ------
    Incompatible
        It reads other arrays, for which the summary has no reference.
    """
    own = {s.name for s in density.covariates} | {density.outcome.name}
    wanted = {s.name for s in extended.covariates} | {extended.outcome.name}
    found = {}
    for name, values in extended.public_rows.items():
        for known, array in density.public_rows.items():
            if array.shape == values.shape and np.array_equal(array, values):
                found[known] = name
    public = set(found.values()) == set(extended.public_rows)
    if not (wanted <= own and public and extended.outcome.name == density.outcome.name):
        raise Incompatible(
            "an alternative model reads the data of the fitted one; nothing was charged",
            got=", ".join(sorted(wanted - own)) or "public arrays that the fitted model has not",
            allowed=", ".join(sorted(own)),
            do="a summary of a model that reads these covariates, too",
        )
    return found


def _refuse_other_densities(direction: AlternativeDirection, fit: FittedSummary) -> None:
    """Refuse an extended model that is not the fitted one at its value, tried on public rows."""
    rng, root = np.random.default_rng(POINT_SEED), np.linalg.cholesky(fit.covariance)
    points = fit.mean + rng.standard_normal((POINTS, len(fit.mean))) @ root.T
    for theta in (fit.mean, *points):
        with np.errstate(all="ignore"):
            own = fit.model.log_density(theta[None], fit.rows, fit.scored.values)[0]
            other, _ = direction.both(theta, fit.rows, fit.scored.values)
            apart = np.abs(own - other) > AGREEMENT * (1.0 + np.abs(own))
            compared = np.isfinite(own) & (fit.mass > 0.0)
        if (compared & (apart | ~np.isfinite(other))).any():
            raise Incompatible(
                "the alternative does not contain the fitted model; nothing was charged",
                got=f"other densities at {direction.name} = {direction.value:g}",
                allowed="the same density of every record at that value",
                do=f"at={{{direction.name!r}: ...}} with the value at which they agree",
            )
