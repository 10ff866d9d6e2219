r"""Effects of groups that an extended model adds: their standard deviation is the departure.

The extended model has effects b_g of G groups that are normal given the other parameters, with a
standard deviation gamma that is 0 in the fitted model, in either form:

    b ~ Normal(mean, gamma),    or    z ~ Normal(0, 1)  and  mean + gamma z_g  in the likelihood.

The score of a common effect is d log p / d b_g, the group's own; that of gamma^2 is a quadratic
form in sums within groups (`group_slopes`). That a record reads the effect of one group alone is
tried on public rows, for each label that the fitted model has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pytensor
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import NormalRV

from pymc_private.analysis.traversal import without_dimshuffles
from pymc_private.criticism.covariate_columns import CovariateColumn, CovariateColumns
from pymc_private.criticism.fitted_summary import FittedSummary
from pymc_private.errors import Incompatible, Unsupported
from pymc_private.models.private_model import PrivateModel

EFFECTS_SEED = 20261128
"""Of effects at which it is tried whose effect a record reads."""
SPREADS = (0.5, 2.0, -1.0)
"""Standard deviations with which the same effects are written, to see what a density makes of it;
the negative one tells z from its size."""
SAME = 1e-8
"""Most difference of two log densities, relative to their size, that is rounding."""


@dataclass(frozen=True, eq=False)
class GroupEffects:
    """Effects of groups with a normal distribution given the other parameters.

    Attributes
    ----------
    spread : str
        The parameter that is their standard deviation.
    name : str
        The effects, or what is multiplied with the standard deviation.
    groups : int
        G.
    standardized : bool
        Whether the latter.
    mean : Variable, optional
        Of the effects, a graph of other parameters.
    parameters : mapping of str to Variable
        Those in natural units.
    """

    spread: str
    name: str
    groups: int
    standardized: bool
    mean: Variable | None
    parameters: Mapping[str, Variable]

    @property
    def differentiated(self) -> str:
        """The parameter in which the derivative is that of an effect that all groups share."""
        return self.spread if self.standardized else self.name

    def natural(
        self,
        natural: Mapping[str, np.ndarray],
        effects: np.ndarray | None = None,
        spread: float = 1.0,
    ) -> dict[str, np.ndarray]:
        """Values of all parameters, from those of the fitted model.

        Without effects those at which `differentiated` gives the score; else effects (G,), written
        with a standard deviation that is not 0.
        """
        if effects is None:
            scale, own = np.array(0.0), np.ones(self.groups)
            own = own if self.standardized else self._mean_at(natural) + np.zeros(self.groups)
        else:
            scale = np.array(spread)
            own = effects / spread if self.standardized else self._mean_at(natural) + effects
        return dict(natural) | {self.spread: scale, self.name: own}

    def _mean_at(self, natural: Mapping[str, np.ndarray]) -> np.ndarray:
        function, names = self._mean_function
        return np.asarray(function(*(natural[name] for name in names)))

    @cached_property
    def _mean_function(self) -> tuple[Any, list[str]]:
        above = set(ancestors([self.mean]))
        read = {name: v for name, v in self.parameters.items() if v in above}
        function = pytensor.function([*read.values()], self.mean, mode="FAST_COMPILE")
        return function, list(read)


def added_effects(
    declared: PrivateModel, added: Mapping[str, tuple[int, ...]]
) -> GroupEffects | None:
    """Effects of groups and their standard deviation, if the additional parameters are these."""
    scalars = [name for name, shape in added.items() if shape == ()]
    arrays = [name for name, shape in added.items() if len(shape) == 1]
    if len(added) != 2 or len(scalars) != 1 or len(arrays) != 1:
        return None
    (spread,), (name,) = scalars, arrays
    parameters = {str(v.name): v for v in declared.base.free_RVs}
    law = _normal_moments(parameters[name])
    if law is None:
        return None
    mean, sd = law
    groups, others = int(added[name][0]), {k: v for k, v in parameters.items() if k not in added}
    if _is_number(mean, 0.0) and _is_number(sd, 1.0):
        return GroupEffects(spread, name, groups, True, None, others)
    read = set(ancestors([mean]))
    if sd is parameters[spread] and parameters[spread] not in read:
        return GroupEffects(spread, name, groups, False, mean, others)
    return None


def _normal_moments(variable: Variable) -> tuple[Variable, Variable] | None:
    """Mean and standard deviation of a normal free variable, in their own shapes."""
    node = variable.owner
    if node is None or not isinstance(node.op, NormalRV):
        return None
    mean, sd = node.op.dist_params(node)
    return without_dimshuffles(mean), without_dimshuffles(sd)


def _is_number(variable: Variable, value: float) -> bool:
    return isinstance(variable, Constant) and bool(np.all(variable.data == value))


class EffectDensity(Protocol):
    """What is read of an alternative model (`alternative_model.AlternativeDirection`)."""

    @property
    def name(self) -> str:
        """The standard deviation."""

    @property
    def groups(self) -> int | None:
        """G."""

    def both(
        self,
        theta: np.ndarray,
        rows: Any,
        y: np.ndarray,
        effects: np.ndarray | None = None,
        spread: float = 1.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log density at effects (G,), and its derivative."""


def group_label(
    direction: EffectDensity,
    labels: Mapping[str, int],
    columns: CovariateColumns,
    fit: FittedSummary,
) -> CovariateColumn:
    """The covariate that tells whose effect a record reads.

    Raises
    ------
    Unsupported
        None of the fitted model's does.
    """
    groups = int(direction.groups or 0)
    effects = np.random.default_rng(EFFECTS_SEED).uniform(0.2, 0.8, groups)
    whole = direction.both(fit.mean, fit.rows, fit.scored.values, effects)[0]
    _refuse_other_spreads(direction, fit, effects, whole)
    known = [_column_of(name, columns.known.values()) for name in labels]
    found = [column for column in known if column is not None]
    for column in found:
        if _is_label(direction, column, fit, effects, whole):
            return column
    raise Unsupported(
        f"'{direction.name}' is no standard deviation of effects of groups of records; nothing "
        "was charged",
        got="records that read effects by no label of the fitted model",
        allowed=", ".join(column.name for column in found)
        or "a fitted model in which records read an effect of their group",
        do="index the effects by the label that the fitted model reads; or check against one "
        "scalar parameter",
    )


def _refuse_other_spreads(
    direction: EffectDensity, fit: FittedSummary, effects: np.ndarray, whole: np.ndarray
) -> None:
    """Refuse densities that read effects otherwise than as normal ones with their spread.

    The same effects are written with several standard deviations: z is effects / sd, and b does
    not depend on sd. Without effects the density is that of the fitted model.
    """
    own = fit.model.log_density(fit.mean[None], fit.rows, fit.scored.values)[0]
    nothing = np.zeros(len(effects))
    pairs = [(effects, spread, whole) for spread in SPREADS]
    pairs += [(nothing, spread, own) for spread in SPREADS]
    for values, spread, wanted in pairs:
        found = direction.both(fit.mean, fit.rows, fit.scored.values, values, spread)[0]
        with np.errstate(all="ignore"):
            apart = np.abs(found - wanted) > SAME * (1.0 + np.abs(wanted))
        compared = np.isfinite(wanted) & (fit.mass > 0.0)
        if (compared & (apart | ~np.isfinite(found))).any():
            raise Incompatible(
                f"'{direction.name}' is not the standard deviation of normal effects of groups; "
                "nothing was charged",
                got="a density of records that reads effects or their standard deviation otherwise",
                allowed='b = pm.Normal("b", mean, sd), or sd * z with z = pm.Normal("z")',
                do="write the effects in one of these forms",
            )


def _column_of(name: str, known: Iterable[CovariateColumn]) -> CovariateColumn | None:
    return next((column for column in known if column.rows == name and not column.index), None)


def _is_label(
    direction: EffectDensity,
    label: CovariateColumn,
    fit: FittedSummary,
    effects: np.ndarray,
    whole: np.ndarray,
) -> bool:
    """Whether records with a label read its effect alone: others may take any value."""
    level = label.of(fit.rows)
    compared = np.isfinite(whole) & (fit.mass > 0.0)
    for group in range(len(effects)):
        at = np.flatnonzero(level == group)
        rows = {name: values[at] for name, values in fit.rows.items()}
        same = np.full(len(effects), effects[group])
        own = direction.both(fit.mean, rows, fit.scored.values[at], same)[0]
        apart = np.abs(own - whole[at]) > SAME * (1.0 + np.abs(own))
        if (apart & compared[at]).any():
            return False
    return bool(((level >= 0) & (level < len(effects))).all())
