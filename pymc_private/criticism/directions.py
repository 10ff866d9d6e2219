r"""Named departures from a model, each as the score of an extended model.

The fitted density p(y | x, theta) is extended by one number gamma that is 0 in it. What a test
needs is v = d log p(y | x, theta, gamma) / d gamma at 0. With eta the predictor that depends on the
covariates, h = d log p / d eta and h' = d h / d eta:

| departure | v | gamma |
|---|---|---|
| ``quadratic(x)`` | h x^2 | coefficient of x^2 in eta |
| ``interaction(x, z)`` | h x z | coefficient of x z in eta |
| ``link`` | h eta^2 | coefficient of eta^2 in eta (Pregibon 1980) |
| ``dispersion`` | (h^2 + h')/2 | variance of a normal effect of each record on eta (Cox 1983) |
| ``tails`` | (z^4 - 6 z^2 + 3)/4 | 1/nu of a Student t of the same variance |
| ``skewness`` | (z^3 - 3 z)/6 | skewness of the residual |
| ``heteroscedasticity(x)`` | (z^2 - 1) x | change of the log sd with x |
| ``slopes(x, g)`` | h x, in each group | sd of coefficients of x among groups (`group_slopes`) |

z = h / sqrt(-h') is the standardized residual where the outcome, or a function of it, is normal;
other families have no ``tails`` and no ``skewness``, and ``heteroscedasticity(x)`` lets their one
parameter that no covariate enters vary with x. For Poisson counts with a log link gamma of
``dispersion`` is 1/alpha of the negative binomial.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from pymc_private.criticism.covariate_columns import CovariateColumn, CovariateColumns
from pymc_private.errors import DomainError, Unsupported, did_you_mean

Rows = Mapping[str, np.ndarray]
FREE_OF_OUTCOME = 1e-6
"""Relative spread of h' below which it does not depend on outcome and predictor."""
ANOTHER_WAY = "write the extended model and pass it as the alternative"


class Direction(Protocol):
    """The score of an extended model at the fitted one."""

    @property
    def name(self) -> str:
        """As it is printed."""

    @property
    def unit(self) -> str:
        """What gamma is."""

    @property
    def groups(self) -> int | None:
        """How many groups have effects of their own, where the departure is about these."""

    @property
    def label(self) -> CovariateColumn | None:
        """The group of a record, likewise."""

    def values(
        self, theta: np.ndarray, predictors: np.ndarray, rows: Rows, y: np.ndarray
    ) -> np.ndarray:
        """v at theta (p,), predictors (N, m), and outcomes (N, Q): shape (N, Q)."""


class PredictorDensity(Protocol):
    """What named departures read of a density (`record_density.RecordDensity`)."""

    labels: Mapping[str, int]
    """Rows that are positions in arrays of parameters, with the arrays' lengths."""

    @property
    def reads_rows(self) -> tuple[bool, ...]:
        """For each predictor, whether it depends on entries of the row."""

    def scores(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Derivatives of log p(y | .) in the predictors, shape (N, Q, m)."""

    def curvatures(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Second derivatives in each of them, shape (N, Q, m)."""


@dataclass(frozen=True, eq=False)
class OutcomesAtRows:
    """Public rows with their predictors, and outcomes at nodes: what a departure is tried on."""

    predictors: np.ndarray
    rows: Rows
    values: np.ndarray


@dataclass(frozen=True, eq=False)
class ScoresOfPredictors:
    """h, h' and the like of some rows and outcomes, each computed when it is asked for."""

    density: PredictorDensity
    predictors: np.ndarray
    rows: Rows
    y: np.ndarray

    @cached_property
    def all_slopes(self) -> np.ndarray:
        """Derivatives in all predictors, shape (N, Q, m)."""
        return self.density.scores(self.predictors, self.rows, self.y)

    @cached_property
    def location(self) -> int:
        """Which predictor is eta."""
        return location_of(self.density)

    @property
    def eta(self) -> np.ndarray:
        """The predictor that depends on covariates, shape (N, 1)."""
        return self.predictors[:, self.location, None]

    @property
    def slope(self) -> np.ndarray:
        """h, shape (N, Q)."""
        return self.all_slopes[:, :, self.location]

    @cached_property
    def curvature(self) -> np.ndarray:
        """h', shape (N, Q)."""
        found = self.density.curvatures(self.predictors, self.rows, self.y)
        return found[:, :, self.location]

    @property
    def residual(self) -> np.ndarray:
        """z = h / sqrt(-h'), shape (N, Q)."""
        return self.slope / np.sqrt(-self.curvature)


Score = Callable[[ScoresOfPredictors, list[np.ndarray]], np.ndarray]
"""v from h and its relatives, and the columns that the departure names, each (N, 1)."""


@dataclass(frozen=True)
class Departure:
    """A kind of departure.

    Attributes
    ----------
    columns : int
        How many covariates it names.
    unit : str
        What gamma is; ``{}`` stand for the covariates.
    score : callable
    needs : str
        "" or "residual": a normal outcome; "dispersion": an outcome of more than two values;
        "groups": that the second covariate is a label of groups.
    """

    columns: int
    unit: str
    score: Score
    needs: str = ""


DEPARTURES = {
    "quadratic": Departure(
        1, "coefficient of {0}^2 in the linear predictor", lambda at, x: at.slope * x[0] ** 2
    ),
    "interaction": Departure(
        2, "coefficient of {0} times {1} in the linear predictor",
        lambda at, x: at.slope * (x[0] * x[1]),
    ),
    "link": Departure(
        0, "coefficient of the squared linear predictor", lambda at, x: at.slope * at.eta**2
    ),
    "dispersion": Departure(
        0, "variance of an effect of each record on the linear predictor",
        lambda at, x: (at.slope**2 + at.curvature) / 2.0, "dispersion",
    ),
    "tails": Departure(
        0, "1/nu of a Student t", lambda at, x: (at.residual**4 - 6 * at.residual**2 + 3) / 4.0,
        "residual",
    ),
    "skewness": Departure(
        0, "skewness of the residual", lambda at, x: (at.residual**3 - 3 * at.residual) / 6.0,
        "residual",
    ),
    "heteroscedasticity": Departure(
        1, "change of the log sd per unit of {0}", lambda at, x: (at.residual**2 - 1.0) * x[0]
    ),
    "slopes": Departure(
        2, "standard deviation of the coefficient of {0} among groups of {1}",
        lambda at, x: at.slope * x[0], "groups",
    ),
}  # fmt: skip
"""All named departures."""


@dataclass(frozen=True, eq=False)
class NamedDirection:
    """The score of a named departure (see `Direction`).

    `groups`: of how many groups the last column is the label, where effects of these are meant.
    """

    name: str
    unit: str
    density: PredictorDensity
    columns: tuple[CovariateColumn, ...]
    score: Score
    groups: int | None = None

    @property
    def label(self) -> CovariateColumn | None:
        """The group of a record, where effects of groups are meant."""
        return None if self.groups is None else self.columns[-1]

    def values(
        self, theta: np.ndarray, predictors: np.ndarray, rows: Rows, y: np.ndarray
    ) -> np.ndarray:
        """v, shape (N, Q)."""
        at = ScoresOfPredictors(self.density, predictors, rows, y)
        columns = [column.of(rows)[:, None] for column in self.columns]
        with np.errstate(all="ignore"):
            return self.score(at, columns)


def named_direction(
    request: str, density: PredictorDensity, columns: CovariateColumns, public: OutcomesAtRows
) -> NamedDirection:
    """The departure that a text names, such as ``"interaction(x1, x2)"``.

    Parameters
    ----------
    request : str
    density : PredictorDensity
    columns : CovariateColumns
    public : OutcomesAtRows
        Public rows, on which it is seen whether the departure means something for the model.

    Raises
    ------
    DomainError
        No such departure or covariate; nothing was charged.
    Unsupported
        It means nothing for the model.
    """
    kind, arguments = parsed(request)
    departure = DEPARTURES[kind]
    found = tuple(columns.named(name) for name in arguments)
    names = [column.name for column in found]
    score, unit = departure.score, departure.unit.format(*names)
    location_of(density)
    if kind == "heteroscedasticity" and not _is_normal(density, public):
        place = _scale_of(density)
        unit = f"change of the parameter of scale (unconstrained) per unit of {names[0]}"

        def score(at: ScoresOfPredictors, x: list[np.ndarray]) -> np.ndarray:
            return at.all_slopes[:, :, place] * x[0]

    if departure.needs == "residual" and not _is_normal(density, public):
        raise Unsupported(
            f"'{kind}' is about normal residuals; nothing was charged",
            got="an outcome of another family",
            allowed="Normal, LogNormal and functions of the outcome that are normal",
            do=ANOTHER_WAY,
        )
    if departure.needs == "dispersion" and public.values.shape[1] <= 2:
        raise Unsupported(
            "a single outcome of two values shows no dispersion; nothing was charged",
            got="'dispersion' of a Bernoulli outcome",
            do="'link', 'quadratic(x)' or 'interaction(x, z)'",
        )
    groups = _groups_of(density, found[1]) if departure.needs == "groups" else None
    label = f"{kind}({', '.join(names)})" if names else kind
    return NamedDirection(label, unit, density, found, score, groups)


def parsed(request: str) -> tuple[str, list[str]]:
    """The kind of departure and the covariates that a text names."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", request)
    kind = match[1] if match else request
    if kind not in DEPARTURES:
        raise DomainError(
            f"no departure is called so; nothing was charged{did_you_mean(kind, DEPARTURES)}",
            got=repr(request)[:60],
            allowed=", ".join(usage(name) for name in DEPARTURES),
            do=f"one of these; or {ANOTHER_WAY}",
        )
    text = (match[2] if match else None) or ""
    arguments = [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]
    if len(arguments) != DEPARTURES[kind].columns:
        raise DomainError(
            "a departure names its covariates; nothing was charged",
            got=repr(request)[:60],
            allowed=usage(kind),
        )
    return kind, arguments


def usage(kind: str) -> str:
    """How a departure is written."""
    two = ("x", "g") if DEPARTURES[kind].needs == "groups" else ("x", "z")
    names = two[: DEPARTURES[kind].columns]
    return f"{kind}({', '.join(names)})" if names else kind


def location_of(density: PredictorDensity) -> int:
    """Which predictor is the linear one: the only one that depends on covariates.

    Raises
    ------
    Unsupported
        Several do, or none of several.
    """
    reading = [k for k, reads in enumerate(density.reads_rows) if reads]
    if len(reading) == 1:
        return reading[0]
    if not reading and len(density.reads_rows) == 1:
        return 0
    raise Unsupported(
        "a named departure is about the linear predictor; nothing was charged",
        got=f"{len(reading)} of {len(density.reads_rows)} predictors depend on covariates",
        allowed="a model in which one does",
        do=ANOTHER_WAY,
    )


def _groups_of(density: PredictorDensity, label: CovariateColumn) -> int:
    """The number of groups that a label tells apart."""
    found = density.labels.get(label.rows) if not label.index else None
    if found is None:
        raise Unsupported(
            "'slopes' vary among the groups of a label; nothing was charged",
            got=f"'{label.name}', which is no position in an array of parameters",
            allowed=", ".join(density.labels)
            or "a model in which records read an effect of their group",
            do="'interaction(x, z)' for a slope that changes with a covariate",
        )
    return int(found)


def _scale_of(density: PredictorDensity) -> int:
    """The only predictor that no covariate enters."""
    rest = [k for k, reads in enumerate(density.reads_rows) if not reads]
    if len(rest) == 1 and len(density.reads_rows) > 1:
        return rest[0]
    raise Unsupported(
        "'heteroscedasticity' needs one parameter of scale; nothing was charged",
        got=f"{len(rest)} parameters that no covariate enters",
        allowed="1",
        do=ANOTHER_WAY,
    )


def _is_normal(density: PredictorDensity, public: OutcomesAtRows) -> bool:
    """Whether h' is negative and depends neither on the outcome nor on eta.

    Then log p is quadratic in eta, p(y) exp(eta T(y) / s^2 - eta^2 / (2 s^2)), and T is normal: no
    other exponential family has a quadratic cumulant function.
    """

    def curvature(predictors: np.ndarray) -> np.ndarray:
        at = ScoresOfPredictors(density, predictors, public.rows, public.values)
        return at.curvature

    with np.errstate(all="ignore"):
        found = curvature(public.predictors)
        elsewhere = np.array(public.predictors)
        elsewhere[:, location_of(density)] += 1.0 / np.sqrt(np.abs(found).max(axis=1))
        every = np.concatenate([found, curvature(elsewhere)], axis=1)
        low, high = every.min(axis=1), every.max(axis=1)
        return bool(np.all((high < 0.0) & (high - low <= FREE_OF_OUTCOME * np.abs(low))))
