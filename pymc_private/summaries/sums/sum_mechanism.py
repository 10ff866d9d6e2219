"""Noisy sums: exact sums of the records of a conjugate model, as a summary with its noise (T35).

For families of few dimensions the sum of the records says everything about the parameter. It is
released with noise, exact to the bit; its distribution given the parameter follows from the central
limit theorem and from the moments of a record clipped to the declared domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.errors import Incompatible
from pymc_private.models.information import ASSUMED_N
from pymc_private.models.prior import PRIOR_SEED
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.privacy.validation import check_positive
from pymc_private.summaries.density.batched import VectorizedFunction
from pymc_private.summaries.noise import CHUNK
from pymc_private.summaries.parameters import (
    ParameterVector,
    refuse_tempered,
    slopes_along,
    variances_left,
)
from pymc_private.summaries.protocol import (
    Caution,
    LogLikelihood,
    Progress,
    Records,
    Released,
    SummaryNoise,
)
from pymc_private.summaries.record_table import as_record_table
from pymc_private.summaries.second_round import disagreement_cautions
from pymc_private.summaries.sums.sum_statistics import (
    NumberSums,
    SumStatistic,
    sum_statistic,
)

THEOREM = "Gaussian mechanism on sums of clipped records (T30, T31, T35)"
JUDGED_DRAWS = 256
"""Prior draws over which information is averaged."""
STARTS, MOST_STEPS = 2000, 60
"""Prior draws among which a start is sought, and steps from there."""
STEP = 1e-3
"""Of central differences, in prior or posterior standard deviations."""
AGREEMENT, GRADIENT_AGREEMENT = 1e-9, 1e-4
"""Relative differences that are taken for rounding."""
CHI2_WARNED, CHI2_REFUSED = 10.0, 25.0
"""Mean square of the standardized sums at the center beyond which the model does not fit."""
MOST_BOUNDS = 20
"""Steps from the domain inward, in search of bounds."""
LOSS_FOR_WIDTH = 0.1
"""Nats that may be lost for wider bounds."""
FEW_EVENTS = 3.0
"""Least standard deviation of a noisy sum, in ranges of a record, at which it is near normal."""
ROUGH_LIMIT = (
    "few records make up a noisy sum, and its noise hides hardly one of them: that it is normal is "
    'a rough approximation; method="cells" does without'
)
COUNT_WARNED, COUNT_REFUSED = 4.0, 1.0
"""Least noisy number of records, in standard deviations of its noise."""


class SumMechanism:
    """Exact sums of the records of a conjugate model, and their release with noise.

    Parameters
    ----------
    private : PrivateModel
    mu : float
        What is released is mu-GDP.
    n : int, optional
        A public guess of the number of records where it is protected.

    Attributes
    ----------
    statistic : SumStatistic
        What is added, with which noise, and its moments given the parameter.

    Raises
    ------
    Unsupported
        Another model than `certificates.conjugate` recognizes, with one parameter.
    DomainError
        An unbounded domain.
    """

    method = "sums"
    copied = (("sums", "sums_sd"), ("count", "count_sd"), ("counts", "counts_sd"))
    refinements: tuple[float, ...] = ()
    """The mu of further copies of the sums."""

    def __init__(self, private: PrivateModel, mu: float, *, n: int | None = None) -> None:
        check_positive(mu=mu)
        refuse_tempered(private)
        self.private, self.mu = private, mu
        self.statistic: Any = sum_statistic(private, mu)
        self.parameters = ParameterVector(private)
        self.n = private.record_count if private.neighbors == SUBSTITUTE else n or ASSUMED_N
        self._root = np.linalg.cholesky(self.parameters.covariance)
        self.information = self._choose_bounds()
        self.stages = self.statistic.stages

    @property
    def guarantee(self) -> Guarantee:
        """mu-GDP of the sums; further copies of them add (T30)."""
        first, *more = (
            Guarantee.gdp_of(
                mu,
                neighbors=self.private.neighbors,
                theorem=THEOREM,
                assumptions=self.private.claims,
            )
            for mu in (self.mu, *self.refinements)
        )
        return sum(more, first)

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts in plain JSON types."""
        found = {"method": self.method, **self.statistic.facts, "information": self.information}
        return found | ({"refinements": list(self.refinements)} if self.refinements else {})

    def repeated(self, budget: float) -> SumMechanism:
        """The same sums, within the same bounds, at another mu."""
        return self._at(budget, budget, ())

    def refined(self, budget: float) -> SumMechanism:
        """The mechanism of a summary with one more copy of its sums, at this mu."""
        more = (*self.refinements, budget)
        return self._at(self.mu, math.hypot(self.mu, *more), more)

    def _at(self, mu: float, noise: float, refinements: tuple[float, ...]) -> SumMechanism:
        """A copy with noise of another mu."""
        made = copy(self)
        made.mu, made.refinements = mu, refinements
        made.statistic = replace(self.statistic, mu=noise)
        made.information = made._expected_information(made.statistic)
        return made

    def _choose_bounds(self) -> float:
        """Clip to the widest bounds that lose little of the information expected, and tell it.

        Narrower bounds need less noise. They are sought from the domain inward, by public numbers
        alone; wider ones are preferred, since records far out may say what the model does not.
        """
        statistic = self._adapted(self.statistic)
        path = [(self._expected_information(statistic), statistic)]
        while len(path) <= MOST_BOUNDS:
            tried = [self._adapted(narrower) for narrower in path[-1][1].narrowed()]
            found = [(self._expected_information(narrower), narrower) for narrower in tried]
            best = max(found, key=lambda pair: pair[0], default=path[-1])
            if best[0] <= path[-1][0]:
                break
            path.append(best)
        enough = path[-1][0] - LOSS_FOR_WIDTH
        information, self.statistic = next(pair for pair in path if pair[0] >= enough)
        return information

    def _adapted(self, statistic: SumStatistic) -> SumStatistic:
        """With mu split as the prior means suggest, where the number of records is protected."""
        if not isinstance(statistic, NumberSums) or statistic.n is not None:
            return statistic
        theta = self.parameters.draws(JUDGED_DRAWS, PRIOR_SEED)
        return statistic.adapted(
            statistic.distribution(self.parameters.natural(theta)[statistic.name], 1)[0]
        )

    # ---- the release ---------------------------------------------------------------------------
    def release(
        self, records: Records, noise: SummaryNoise, progress: Progress | None = None
    ) -> Released:
        """Noisy sums of the records, clipped to their domain."""
        (source,) = self.private.sources
        table = as_record_table(records)

        def entries() -> Iterator[np.ndarray]:
            return (chunk[source.name][:count] for chunk, count in table.chunks(CHUNK))

        found = self.statistic.release(entries, noise)
        if progress is not None:
            progress(len(self.stages))
        return found

    # ---- the likelihood ------------------------------------------------------------------------
    def log_likelihood(self, released: Mapping[str, np.ndarray]) -> LogLikelihood:
        """Log-likelihood of the noisy sums at unconstrained parameters: (S, p) to (S,)."""
        statistic = self.statistic.as_released(released)

        def at(theta: np.ndarray) -> np.ndarray:
            natural = self.parameters.natural(np.atleast_2d(theta))
            found = statistic.log_likelihood(released, natural[statistic.name])
            return np.where(np.isfinite(found), found, -np.inf)

        return at

    def potential(
        self, released: Mapping[str, np.ndarray], parameters: Mapping[str, Variable]
    ) -> Variable:
        """The log-likelihood as a PyTensor scalar of the natural parameters.

        Raises
        ------
        Incompatible
            Value or gradient differ from `log_likelihood` at the center.
        """
        self._check_agreement(released)
        statistic = self.statistic.as_released(released)
        return statistic.symbolic_log_likelihood(released, parameters[statistic.name])

    def _check_agreement(self, released: Mapping[str, np.ndarray]) -> None:
        """Compare values, and the gradient with differences along posterior deviations."""
        theta, covariance = self.start(released)
        root = np.linalg.cholesky(covariance)
        statistic = self.statistic.as_released(released)
        name, likelihood = statistic.name, self.log_likelihood(released)
        shape = self.private.shapes[name]
        parameter = pt.TensorType("float64", shape=shape)(name=name)
        value = statistic.symbolic_log_likelihood(released, parameter)
        function = VectorizedFunction([parameter], [value, pytensor.grad(value, parameter)])
        found, slope = function(self.parameters.natural(theta[None])[name])
        steps = STEP * root.T
        ahead, behind = np.split(
            self.parameters.natural(np.concatenate([theta + steps, theta - steps]))[name], 2
        )
        chained = (ahead - behind).reshape(len(theta), -1) @ np.ravel(slope) / (2.0 * STEP)
        direct = slopes_along(likelihood, theta, root, STEP)
        expected = float(likelihood(theta[None])[0])
        if not (
            abs(float(found[0]) - expected) <= AGREEMENT * (1.0 + abs(expected))
            and np.all(
                np.abs(chained - direct) <= GRADIENT_AGREEMENT * (1.0 + np.abs(direct).max())
            )
        ):
            raise Incompatible(
                "the likelihood of noisy sums and its gradient disagree",
                do="please report this model; draws are another way: pmp.sample",
            )

    # ---- where the posterior is -----------------------------------------------------------------
    def start(self, released: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The mode, and the inverse of prior precision and information there."""
        likelihood = self.log_likelihood(released)

        def objective(theta: np.ndarray) -> np.ndarray:
            found = likelihood(theta) + self.parameters.log_prior(theta)
            return np.where(np.isfinite(found), found, -np.inf)

        draws = self.parameters.draws(STARTS, PRIOR_SEED + 3)
        statistic = self.statistic.as_released(released)
        count = statistic.count(released)
        theta = self._climb(objective, draws[int(np.argmax(objective(draws)))], statistic, count)
        root = self._posterior_root(statistic, theta, count)
        return theta, root @ root.T

    def _posterior_root(
        self, statistic: SumStatistic, theta: np.ndarray, count: float
    ) -> np.ndarray:
        """A root of the inverse of prior precision and information."""
        precision = np.eye(len(theta)) + self._fisher(statistic, theta[None], count)[0]
        return np.asarray(self._root @ np.linalg.inv(np.linalg.cholesky(precision)).T)

    def covariance_at(self, theta: np.ndarray, released: Mapping[str, np.ndarray]) -> np.ndarray:
        """The inverse of prior precision and information, shape (p, p)."""
        statistic = self.statistic.as_released(released)
        root = self._posterior_root(statistic, theta, statistic.count(released))
        return root @ root.T

    def _climb(
        self,
        objective: Callable[[np.ndarray], np.ndarray],
        theta: np.ndarray,
        statistic: SumStatistic,
        count: float,
    ) -> np.ndarray:
        """The mode by steps of Fisher scoring, each halved until it climbs."""
        value = float(objective(theta[None])[0])
        for _ in range(MOST_STEPS):
            root = self._posterior_root(statistic, theta, count)
            step = root @ slopes_along(objective, theta, root, STEP)
            tried = theta + step * (0.5 ** np.arange(12.0))[:, None]
            values = objective(tried)
            best = int(np.argmax(values))
            if not values[best] > value + 1e-9 * (1.0 + abs(value)):
                break
            theta, value = tried[best], float(values[best])
        return theta

    def _fisher(self, statistic: SumStatistic, theta: np.ndarray, count: float) -> np.ndarray:
        """Information of the means of the sums in prior units, at points (S, p): (S, p, p)."""
        points, size = theta.shape
        steps = STEP * np.concatenate([self._root.T, -self._root.T])
        every = np.concatenate([theta, (theta[:, None] + steps).reshape(-1, size)])
        natural = self.parameters.natural(every)[statistic.name]
        _, covariance, by_natural = statistic.distribution(natural[:points], count)
        both = natural[points:].reshape(points, 2, size, -1)
        moves = (both[:, 0] - both[:, 1]) / (2.0 * STEP)
        slopes = np.nan_to_num(moves @ by_natural.transpose(0, 2, 1))
        known = np.linalg.solve(np.nan_to_num(covariance), slopes.transpose(0, 2, 1))
        return np.nan_to_num(slopes @ known)

    def _expected_information(self, statistic: SumStatistic) -> float:
        """1/2 log det(I + information in prior units), averaged over the prior (nats)."""
        theta = self.parameters.draws(JUDGED_DRAWS, PRIOR_SEED)
        spectrum = np.clip(np.linalg.eigvalsh(self._fisher(statistic, theta, self.n)), 0.0, None)
        return float(0.5 * np.log1p(spectrum).sum(axis=1).mean())

    @property
    def variance_left(self) -> np.ndarray:
        """Expected posterior variance of each coordinate in prior ones, shape (p,)."""
        theta = self.parameters.draws(JUDGED_DRAWS, PRIOR_SEED)
        return variances_left(self._fisher(self.statistic, theta, self.n), self._root)

    # ---- judgment ------------------------------------------------------------------------------
    def warnings(self, released: Mapping[str, np.ndarray]) -> Sequence[Caution]:
        """Reasons to distrust the noisy sums."""
        statistic = self.statistic.as_released(released)
        theta = self.start(released)[0]
        natural = self.parameters.natural(theta[None])[statistic.name]
        moments = statistic.distribution(natural, statistic.count(released))
        sd = np.sqrt(np.diag(moments[1][0]))
        value = float((((statistic.observed(released) - moments[0][0]) / sd) ** 2).mean())
        found = []
        if value > CHI2_WARNED:
            text = (
                f"at the most probable parameters the noisy sums are {value**0.5:.1f} standard "
                "deviations from what the model expects: it does not fit"
            )
            found.append(Caution(text, refuse=value > CHI2_REFUSED))
        if np.any(sd < FEW_EVENTS * statistic.widths):
            found.append(Caution(ROUGH_LIMIT))
        return [*found, *_count_cautions(released), *disagreement_cautions(released)]


def _count_cautions(released: Mapping[str, np.ndarray]) -> list[Caution]:
    """A protected number of records that its noise hides."""
    if "count" not in released:
        return []
    ratio = float(released["count"]) / float(released["count_sd"])
    if ratio >= COUNT_WARNED:
        return []
    text = (
        f"the noisy number of records is {ratio:.1f} standard deviations of its noise: hardly "
        "anything is known of it"
    )
    return [Caution(text, refuse=ratio < COUNT_REFUSED)]
