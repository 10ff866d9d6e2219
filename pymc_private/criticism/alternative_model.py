"""An extended PyMC model as a departure: its score at the fitted model, by autodiff.

The extended model has all parameters of the fitted one and one scalar parameter more, and equals it
at a value of that parameter. Equality is tried on public rows and outcomes, at several parameter
vectors. The records are never read through the extended model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.criticism.fitted_summary import FittedSummary
from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.summaries.density.record_density import NaturalDerivative, RecordDensity
from pymc_private.summaries.scores.read_parameters import all_parameters

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
    parameters : ParameterVector
        Of the fitted model.
    private, density : PrivateModel, RecordDensity
        Of the extended one.
    derivative : callable
        Of the extended one.
    names : mapping of str to str
        Public rows of the extended model by the names that the fitted one has for them.
    added : mapping of str to array
        The additional parameter at its value.
    """

    name: str
    unit: str
    parameters: Any
    private: PrivateModel
    density: RecordDensity
    derivative: NaturalDerivative
    names: Mapping[str, str]
    added: Mapping[str, np.ndarray]

    def values(
        self, theta: np.ndarray, predictors: np.ndarray, rows: Rows, y: np.ndarray
    ) -> np.ndarray:
        """v, shape (N, Q)."""
        return self.both(theta, rows, y)[1]

    def both(self, theta: np.ndarray, rows: Rows, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density of the extended model, and v."""
        natural = {k: v[0] for k, v in self.parameters.natural(theta[None]).items()}
        renamed = {self.names.get(name, name): values for name, values in rows.items()}
        with np.errstate(all="ignore"):
            return self.derivative(natural | dict(self.added), renamed, y)


def is_model(what: Any) -> bool:
    """Whether this is a model, private or not."""
    import pymc as pm

    return isinstance(what, PrivateModel | pm.Model)


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
    model : PrivateModel or pymc.Model
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
        The fitted model is a hierarchy.
    """
    _refuse_hierarchy(density)
    declared = model if isinstance(model, PrivateModel) else _declared_alike(model, private)
    extended = RecordDensity(declared)
    name = _additional_parameter(extended, density, at)
    value = float(at.get(name, 0.0))
    direction = AlternativeDirection(
        name,
        f"{name} of the alternative model, less {value:g}" if value else
        f"{name} of the alternative model",
        density.parameters,
        declared,
        extended,
        extended.natural_derivative(name),
        _row_names(extended, density),
        {name: np.array(value)},
    )  # fmt: skip
    _refuse_other_densities(direction, fit)
    return direction


def _refuse_hierarchy(density: RecordDensity) -> None:
    if all_parameters(density.parameters) is not density.parameters:
        raise Unsupported(
            "alternative models of hierarchies are not compared; nothing was charged",
            got="parameters above those that records read",
            allowed="named departures, and 'cells'",
            do="'link', 'quadratic(x)' or another named departure",
        )


def _declared_alike(model: Any, private: PrivateModel) -> PrivateModel:
    return privatize(
        model,
        records=private.records
        if private.records in model.coords
        else {s.name: s.axis for s in private.sources},
        domain={s.name: s.domain for s in private.sources},
        neighbors=private.neighbors,
        records_per_unit=private.records_per_unit,
    )


def _additional_parameter(
    extended: RecordDensity, density: RecordDensity, at: Mapping[str, float]
) -> str:
    """The one parameter that the extended model has beside those of the fitted one."""
    wider, own = (all_parameters(d.parameters).shapes for d in (extended, density))
    missing = [name for name in own if wider.get(name) != own[name]]
    added = [name for name in wider if name not in own]
    if missing or len(added) != 1 or wider[added[0]] != ():
        raise Incompatible(
            "an alternative model has the parameters of the fitted one and one number more; "
            "nothing was charged",
            got=f"additional: {', '.join(added) or 'none'}; missing or of another shape: "
            f"{', '.join(missing) or 'none'}",
            allowed=f"{', '.join(own)} and one scalar parameter",
            do="name and shape parameters as in the fitted model",
        )
    others = [name for name in at if name not in added]
    if others:
        raise DomainError(
            "at= gives the value of the additional parameter; nothing was charged",
            got=", ".join(others),
            allowed=f"{{{added[0]!r}: a number}}",
        )
    return added[0]


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
            value = float(next(iter(direction.added.values())))
            raise Incompatible(
                "the alternative does not contain the fitted model; nothing was charged",
                got=f"other densities at {direction.name} = {value:g}",
                allowed="the same density of every record at that value",
                do=f"at={{{direction.name!r}: ...}} with the value at which they agree",
            )
