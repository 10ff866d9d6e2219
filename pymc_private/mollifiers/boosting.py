"""`MollifiedBoosting`: boosted density estimation inside a mollifier (MBDE, T14 corrected).

Each round adds a classifier's log odds, clipped to [-log 2, log 2] and weighted by theta_t =
(epsilon / (epsilon + 4 log 2))^t, so that the log weight has range below epsilon / 2 whatever
the classifiers learned. Edges and gains of the rounds are judged on rows that did not train
them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy
from sklearn.base import BaseEstimator, DensityMixin, clone
from sklearn.utils.validation import check_is_fitted

from pymc_private.errors import DomainError
from pymc_private.mollifiers.boosting_rounds import (
    BoostedScore,
    BoostingRound,
    StretchedScore,
    clipped_log_odds,
    judge_round,
    plot_rounds,
    round_weight,
    rounds_table,
    stretch_factor,
)
from pymc_private.mollifiers.density_estimates import (
    check_rows,
    check_support,
    fit_classifier_ratio,
    network_classifier,
)
from pymc_private.mollifiers.mollified import Mollified
from pymc_private.mollifiers.mollified_distributions import (
    PublicPool,
    QuantileCells,
    RejectionTarget,
    Tilted,
    clip_symmetric,
    clip_to_window,
    has_cells,
    rejection_draws,
    support_points,
    tilt_half_range,
)
from pymc_private.mollifiers.references import (
    FiniteReference,
    QuantileReference,
    Reference,
    as_reference,
    pool_size,
)
from pymc_private.mollifiers.window import TotalBudget, Window, resolve_budget
from pymc_private.privacy import mode_capture_bound
from pymc_private.privacy.argument_kinds import SEED
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import ANY
from pymc_private.privacy.validation import check_count, check_flags
from pymc_private.release import charge
from pymc_private.release.release import Release
from pymc_private.samplers.randomness import SeededRandomness

JUDGE_EVERY = 4
"""Every fourth row judges the rounds; the others train them."""


class MollifiedBoosting(DensityMixin, BaseEstimator):
    """Density estimation by classifiers that tell data from the current Q, kept in a mollifier.

    Q_t is proportional to Q_(t-1) e^(theta_t c_t), where c_t is a classifier's log odds, clipped to
    [-log 2, log 2], and theta_t = (epsilon / (epsilon + 4 log 2))^t. The log weight of Q_T has
    range below epsilon / 2 whatever the classifiers learned, so its normalizer is neither known nor
    needed, and many draws cost far less than those of a clip.

    Parameters
    ----------
    epsilon : float, nats
        Of one draw. Ignored where `total` is given.
    rounds : int
        Public.
    learner : scikit-learn classifier with ``predict_proba``, optional
        Cloned for each round. Default: a network with tanh layers of 25, 25 and 25 units. A
        learner of the user is evaluated once, on cells of the reference or a public pool, since
        its output may depend on the whole batch.
    reference : object, optional
        As in `mollify`. Default: independent standard normals, which suits few data.
    total : tuple of (epsilon, delta, draws), optional
        The budget of that number of draws together.
    stretch : bool
        Scale the sum of all rounds until it touches the symmetric window, and normalize exactly: a
        clip, closer for one draw and more expensive for many.
    random_state : int, optional
        Of the training, which never leaves. Draws take their randomness from the system.
    progressbar : bool

    Attributes
    ----------
    epsilon_ : float
        What one draw costs.
    rounds_ : tuple of Round
        Edges and gains, for the curator's eyes.
    gain_ : float, nats
        KL(P, Q0) - KL(P, Q), estimated on rows that did not train; for the curator's eyes.
    mollified_ : Mollified
        The fitted distribution.

    Notes
    -----
    *Promise.* One draw is `epsilon_`-private between any two data sets, k draws cost
    ``guarantee(k)``: T15a and T3, or T15b if stretched. The fitted object is the curator's;
    density, classifiers and trial counts never leave.

    References
    ----------
    Husain, Cranko and Nock (2019), Integral privacy for sampling; theory T14, T15.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> rows = np.random.default_rng(0).normal(1.0, 0.5, size=(400, 1))
    >>> model = MollifiedBoosting(epsilon=1.0, learner=LogisticRegression(), progressbar=False)
    >>> model.fit(rows).guarantee(draws=1).pure_epsilon
    1.0
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        rounds: int = 3,
        learner: Any = None,
        reference: Any = None,
        *,
        total: TotalBudget | None = None,
        stretch: bool = False,
        random_state: int | None = None,
        progressbar: bool = True,
    ) -> None:
        self.epsilon = epsilon
        self.rounds = rounds
        self.learner = learner
        self.reference = reference
        self.total = total
        self.stretch = stretch
        self.random_state = random_state
        self.progressbar = progressbar

    def fit(self, X: Any, y: Any = None) -> MollifiedBoosting:
        """Learn from rows. Charges nothing and releases nothing.

        Parameters
        ----------
        X : array, shape (n,) or (n, d)
        y : ignored

        Raises
        ------
        DomainError
            Empty, constant or infinite data, another dimension than the reference's, a reference
            without support at the data, a learner without probabilities or that gives NaN.
        """
        before = dict(self.__dict__)
        try:
            self._fit(X)
        except BaseException:  # after a failed fit the distribution and its cost are unchanged
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any) -> None:
        """Learn from rows."""
        rows = check_rows(X)
        count = check_count(self.rounds, "rounds")
        check_flags(stretch=self.stretch, progressbar=self.progressbar)
        SEED.optional.of(self.random_state, "random_state", "MollifiedBoosting")
        kind = "clip" if self.stretch else "tilt"
        epsilon = None if self.total is not None else self.epsilon
        self.epsilon_, _, self._draws, self._delta = resolve_budget(epsilon, self.total, kind)
        given = [scipy.stats.norm()] * rows.shape[1] if self.reference is None else self.reference
        base = as_reference(given)
        if isinstance(base, FiniteReference):
            raise DomainError(
                "boosting is for vectors of numbers",
                got="a finite reference",
                do="mollify has the closed form for categories",
            )
        rows = check_rows(rows, base.dimension)
        check_support(rows, base)
        self.reference_, self.n_features_in_ = base, rows.shape[1]
        rows = np.random.default_rng(self.random_state).permutation(rows)
        judge = np.arange(len(rows)) % JUDGE_EVERY == JUDGE_EVERY - 1
        judge = judge if len(rows) >= 2 * JUDGE_EVERY else np.ones(len(rows), bool)
        self._pool = base.pool(min(pool_size(base, None), 2**15))
        self.score_, self.rounds_ = self._boost(rows, judge, count)
        self.mollified_ = self._make_mollified()
        self.gain_ = math.fsum(r.gain for r in self.rounds_)
        ratio = self.mollified_.log_ratio(self._pool)
        self._log_total = float(np.log(np.mean(np.exp(ratio))))
        if self.stretch:
            self.gain_ = float(self.mollified_.log_ratio(rows[judge]).mean())

    def _boost(
        self, rows: np.ndarray, judge: np.ndarray, count: int
    ) -> tuple[BoostedScore, tuple[BoostingRound, ...]]:
        """Train the rounds, each on draws of the distribution before it, and judge them."""
        generator = np.random.default_rng(self.random_state)
        randomness, base = SeededRandomness(generator), self.reference_
        train = ~judge if not judge.all() else judge
        score, found = BoostedScore(), []
        with charge.progress_bar(count, self.progressbar) as progress:
            for t in range(1, count + 1):
                theta = round_weight(self.epsilon_, t)
                target = _boosted_tilt(base, score, score.half, self._pool)
                drawn = rejection_draws(target, len(rows), randomness)
                learner = self._new_learner(generator)
                fit_classifier_ratio(learner, rows[train], drawn[train])
                values = [clipped_log_odds(learner, x[judge]) for x in (rows, drawn)]
                found.append(judge_round(theta, *values))
                score = score.plus(learner, theta)
                progress(t)
        return score, tuple(found)

    def _new_learner(self, generator: np.random.Generator) -> Any:
        """An unfitted classifier for the next round."""
        seed = int(generator.integers(2**31))
        if self.learner is None:
            return network_classifier(seed)
        if not hasattr(self.learner, "fit") or not hasattr(self.learner, "predict_proba"):
            raise DomainError(
                "a learner gives probabilities",
                got=f"{type(self.learner).__name__}, which has no fit or no predict_proba",
                do="wrap it in sklearn.calibration.CalibratedClassifierCV",
            )
        learner = clone(self.learner)
        if "random_state" in learner.get_params():
            learner.set_params(random_state=seed)
        return learner

    def _make_mollified(self) -> Mollified:
        """The fitted tilt or, if stretched, the clip."""
        epsilon, base, draws_and_delta = self.epsilon_, self.reference_, (self._draws, self._delta)
        if not self.stretch:
            half = min(self.score_.half, tilt_half_range(epsilon))
            window = Window(-epsilon / 4.0, epsilon / 4.0, epsilon)
            target = self._drawn_from(half)
            found = target.weights_at if isinstance(target, QuantileCells) else self.score_
            return Mollified(target, base, epsilon, window, "tilt", found, *draws_and_delta)
        window, points = Window.symmetric(epsilon), self._points()
        score = self.score_(support_points(points))
        factor = stretch_factor(score, points.mass, window)
        weights, level = clip_to_window(factor * score, points.mass, window)
        points.weigh(weights, window.upper, math.exp(window.upper))
        bounds = float(weights.min()), float(weights.max())
        ratio = StretchedScore(self.score_, factor, level, bounds)
        return Mollified(points, base, epsilon, window, "clip", ratio, *draws_and_delta)

    def _drawn_from(self, half: float) -> RejectionTarget:
        """The tilt, evaluated anywhere for the network; on fixed points for a user's learner."""
        if self.learner is None:
            return _boosted_tilt(self.reference_, self.score_, half, self._pool)
        points = self._points()
        at = support_points(points)
        points.weigh(clip_symmetric(self.score_(at), half), half, math.exp(2.0 * half))
        return points

    def _points(self) -> QuantileCells | PublicPool:
        """Cells of the reference, or the public pool."""
        base = self.reference_
        return QuantileCells(base) if has_cells(base) else PublicPool(self._pool)

    def log_ratio(self, X: Any) -> np.ndarray:
        """Log weight of the distribution against the reference; for the curator's eyes."""
        check_is_fitted(self)
        return self.mollified_.log_ratio(check_rows(X, self.n_features_in_))

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density, its normalizer by public draws; for the curator's eyes."""
        check_is_fitted(self)
        rows = check_rows(X, self.n_features_in_)
        return self.reference_.logpdf(rows) + self.mollified_.log_ratio(rows) - self._log_total

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of rows; for the curator's eyes."""
        return float(self.score_samples(X).mean())

    def guarantee(self, draws: int = 1, neighbors: str = ANY) -> Guarantee:
        """Promise for so many draws; see `Mollified.guarantee`."""
        check_is_fitted(self)
        return self.mollified_.guarantee(draws, neighbors)

    def sample(self, draws: int | None = None, **options: Any) -> Release:
        """Charge, then draw and release; see `Mollified.sample`."""
        check_is_fitted(self)
        return self.mollified_.sample(draws, progressbar=self.progressbar, **options)

    def mode_capture(self, mass: float, kl_inside: float) -> float:
        """Least mass of Q on a set B, from the realized gain (T28); for the curator's eyes.

        Parameters
        ----------
        mass : float
            P(B).
        kl_inside : float, nats
            Integral over B of log(dP/dQ0) dP.
        """
        return float(mode_capture_bound(mass, kl_inside, self.gain_, self.epsilon_))

    def summary(self) -> str:
        """Rounds, edges and gains as a table; for the curator's eyes."""
        check_is_fitted(self)
        return rounds_table(self.rounds_)

    def plot(self, ax: Any = None) -> Any:
        """Plot the gain of each round beside the lower bound of T14."""
        check_is_fitted(self)
        return plot_rounds(self.rounds_, ax)


def _boosted_tilt(
    base: Reference, score: BoostedScore, half: float, public: np.ndarray
) -> RejectionTarget:
    """The reference times e^score, drawn directly or from a public pool."""
    if isinstance(base, QuantileReference):
        return Tilted(base, score, half)
    pool = PublicPool(public)
    pool.weigh(clip_symmetric(score(public), half), half, math.exp(2.0 * half))
    return pool
