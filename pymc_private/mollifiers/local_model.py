"""The local model: every user sends one draw from a distribution near their own.

`LocalSampler` is what users run (T15d); `LocalDraws` is what a server receives and may
conclude. Randomized response and clipped Laplace noise are here as baselines to compare with,
and nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.mollifiers.density_estimates import LogRatio, check_rows, kernel_density
from pymc_private.mollifiers.mollified import Mollified
from pymc_private.mollifiers.mollified_distributions import (
    Hull,
    clip_to_window,
    project_to_hull,
    rejection_draws,
)
from pymc_private.mollifiers.mollify import mollify, probabilities_by_label
from pymc_private.mollifiers.references import (
    FiniteReference,
    Reference,
    as_reference,
    normalized_probabilities,
)
from pymc_private.mollifiers.window import Window, as_window, check_width
from pymc_private.privacy.argument_kinds import DOUBLE, TEXT
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import ANY
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import (
    check_count,
    check_flags,
    check_open_unit,
    refuse_mask,
)
from pymc_private.release import charge
from pymc_private.release.release import Release
from pymc_private.samplers.randomness import Randomness, SeededRandomness, SystemRandomness

LOCAL_KINDS = ("clip", "response")
LOCAL_ASSUMPTION = "each user draws at home, once, and trusts nobody"


class LocalSampler:
    """How each of many users turns what they hold into one private draw.

    Parameters
    ----------
    reference : object
        As in `mollify`; public and the same for all.
    epsilon : float, nats
        Of each user's draw.
    kind : {"clip", "response"}
        ``"clip"``: the distribution in the window that is nearest to the user's own.
        ``"response"``: the user draws one category of their distribution and sends it through a
        fixed channel, as in randomized response. Linear, so that the average over users can
        be inverted; for finite references.
    window : {"symmetric", "minimax"}, float or Window
        "minimax": best for the worst user, who holds one category only; for finite references.
    estimate : str, classifier or callable, optional
        For users who hold rows; as in `mollify`.
    local_draws : int
        How many draws are taken of a user who holds a callable.

    Notes
    -----
    *Promise.* Whatever a user holds, and whatever the others do, the draw is `epsilon`-private
    between any two holdings (T15d). The user's distribution never leaves the user.

    References
    ----------
    Husain, Balle, Cranko and Nock (2020); Park, Asoodeh and Lee (2024) for the minimax window.

    Examples
    --------
    >>> sampler = LocalSampler([0.25] * 4, epsilon=2.0, window="minimax")
    >>> draws = sampler.collect([[0.7, 0.1, 0.1, 0.1]] * 50, progressbar=False)
    >>> len(draws), draws.guarantee.pure_epsilon
    (50, 2.0)
    """

    def __init__(
        self,
        reference: Any,
        epsilon: float,
        *,
        kind: str = "clip",
        window: Window | float | str = "symmetric",
        estimate: Any = None,
        local_draws: int = 1000,
    ) -> None:
        self.reference = as_reference(reference)
        kind, epsilon = (
            TEXT.of(kind, "kind", "a sampler"),
            DOUBLE.of(epsilon, "epsilon", "a sampler"),
        )
        if not isinstance(window, Window | str):
            window = DOUBLE.of(window, "window", "a sampler")
        if kind not in LOCAL_KINDS:
            raise DomainError(
                "kind= is not known", got=repr(kind), allowed=", ".join(map(repr, LOCAL_KINDS))
            )
        finite = isinstance(self.reference, FiniteReference)
        if not finite and (kind == "response" or window == "minimax"):
            raise DomainError(
                "randomized response and the minimax window are for finite references",
                got=self.reference.text,
                do="cut the line into public cells and use their probabilities as reference",
            )
        if isinstance(self.reference, FiniteReference) and window == "minimax":
            window = minimax_window(self.reference, epsilon)
        self.window = as_window(epsilon, window)
        self.epsilon = max(float(epsilon), self.window.epsilon)
        self.kind, self.estimate = kind, estimate
        self.local_draws = check_count(local_draws, "local_draws")
        self._known: dict[int, Mollified] = {}
        self._channel = _response_channel(self.reference, self.window) if finite else None

    def __repr__(self) -> str:
        how = {"clip": "the nearest distribution in the window", "response": "randomized response"}
        return (
            f"LocalSampler ({self.kind}): each user's draw costs "
            f"{format_number(self.epsilon)} nats\n"
            f"  reference: {self.reference.text}\n"
            f"  each draws from {how[self.kind]}, log Q/Q0 in {self.window}"
        )

    @property
    def guarantee(self) -> Guarantee:
        """What one user's draw reveals about that user."""
        return Guarantee.pure(
            self.epsilon, neighbors=ANY, theorem="T15d", assumptions=(LOCAL_ASSUMPTION,)
        )

    def distribution(self, holding: Any, randomness: Randomness | None = None) -> Mollified:
        """Give the distribution that one user draws from; it stays with the user.

        Parameters
        ----------
        holding : object
            A distribution (probabilities, dict by label, anything with ``logpdf``), rows, or a
            callable ``draw(n)``. Of a finite reference a list or array of labels counts as rows if
            it is no vector of probabilities.
        """
        if isinstance(self.reference, FiniteReference):
            held = normalized_probabilities(self._shares(holding), "what a user holds")
            if self.kind == "response":
                source = randomness if randomness is not None else SystemRandomness()
                picked = np.searchsorted(np.cumsum(held), source.uniform(1)[0] * held.sum())
                return self._of_category(min(int(picked), len(held) - 1))
            return mollify(held, self.reference, self.epsilon, window=self.window)
        if callable(holding) and not _has_density(holding):
            holding = holding(self.local_draws)
        keywords: dict[str, Any] = {"window": self.window, "estimate": self.estimate}
        return mollify(holding, self.reference, self.epsilon, **keywords)

    def _of_category(self, category: int) -> Mollified:
        """The distribution of a user who holds one category only; it is public, and cached."""
        if category not in self._known:
            held = np.eye(len(self.reference.mass))[category]  # type: ignore[union-attr]
            self._known[category] = mollify(held, self.reference, self.epsilon, window=self.window)
        return self._known[category]

    def release(self, holding: Any, **options: Any) -> Release:
        """Charge one user's own ledger, then draw; options as those of `Mollified.sample`."""
        return self.distribution(holding).sample(1, **options)

    def collect(
        self, holdings: Iterable[Any], *, progressbar: bool = True, random_seed: int | None = None
    ) -> LocalDraws:
        """Let every user draw once; the result is what a server would receive.

        With a `random_seed` the outcome is reproducible and marked not private.
        """
        check_flags(progressbar=progressbar)
        users = list(holdings)
        if not users:
            raise DomainError("no value of a user is given", allowed="one or more")
        source: Randomness = SystemRandomness()
        if random_seed is not None:
            source = SeededRandomness.from_seed(random_seed)
        drawn = []
        with charge.progress_bar(len(users), progressbar) as progress:
            for i, holding in enumerate(users):
                mollified = self.distribution(holding, source)
                drawn.append(rejection_draws(mollified._distribution, 1, source)[0])
                if i % 100 == 99 or i + 1 == len(users):
                    progress(i + 1)
        return LocalDraws(np.array(drawn), self, random_seed is None)

    def _shares(self, holding: Any) -> np.ndarray:
        """The holding of a user, as probabilities of the categories."""
        base = check_finite_reference(self.reference)
        if callable(holding):
            holding = holding(self.local_draws)
        if isinstance(holding, dict):
            return probabilities_by_label(holding, base)
        refuse_mask(holding, "rows and probabilities")
        array = np.asarray(holding)
        has_shape = array.dtype.kind == "f" and array.shape == base.mass.shape
        if has_shape and abs(array.sum() - 1.0) < 1e-6:
            return array
        if not array.size:
            raise DomainError("a user holds nothing", allowed="one category or more")
        positions = base.positions(array.ravel())
        return np.bincount(positions, minlength=len(base.mass)) / len(positions)


def minimax_window(reference: FiniteReference, epsilon: float) -> Window:
    """Give the window that is best for the user whose distribution is the worst to follow.

    That is a point mass on the rarest category.
    """
    return Window.minimax(epsilon, 0.0, 1.0 / float(reference.mass[reference.mass > 0.0].min()))


def _response_channel(reference: Any, window: Window) -> np.ndarray:
    """Row x: the distribution of the draw of a user who holds category x only."""
    rows: Sequence[np.ndarray] = [
        np.exp(clip_to_window(np.where(point, 0.0, -np.inf), reference.mass, window)[0])
        for point in np.eye(len(reference.mass), dtype=bool)
    ]
    channel = reference.mass * np.array(rows)
    return channel / channel.sum(axis=1, keepdims=True)


def _has_density(holding: Any) -> bool:
    """Whether it has a density: SciPy's `gaussian_kde` can be called, but not to draw."""
    return hasattr(holding, "logpdf") or hasattr(holding, "score_samples")


@dataclass(frozen=True)
class LocalDraws:
    """One private draw of each user, and what may be concluded from them at no cost.

    Attributes
    ----------
    values : array, shape (n, d)
    sampler : LocalSampler
    private : bool
        False if a seed made them.
    """

    values: np.ndarray
    sampler: LocalSampler
    private: bool = True

    @property
    def guarantee(self) -> Guarantee:
        """What each user reveals, however many others there are."""
        if not self.private:
            return Guarantee.none("random_seed: anyone can recompute the draws", neighbors=ANY)
        return self.sampler.guarantee

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        cost = f"{format_number(self.sampler.epsilon)} nats for each user, whatever the others do"
        what = cost if self.private else "NOT private: made with a random_seed"
        return f"LocalDraws: one draw of each of {len(self)} users\n  {what}"

    def frequencies(self) -> np.ndarray:
        """Shares of the categories among the draws; estimates the mean released distribution."""
        positions = self._positions()
        return np.bincount(positions, minlength=len(self._base().mass)) / len(positions)

    def aggregate(self, method: str = "auto") -> np.ndarray:
        """Estimate the mean of the users' distributions over the categories of a finite reference.

        Parameters
        ----------
        method : {"auto", "plain", "unmix"}
            ``"plain"``: frequencies of the draws; shrunk toward the reference by the window, with
            little variance. ``"unmix"``: the mixture of channels under which the draws are most
            likely. Consistent for ``kind="response"``, and for users who hold one category each.
            ``"auto"``: unmix for ``"response"``, else plain.

        Returns
        -------
        array, shape (k,)
        """
        if method == "auto":
            method = "unmix" if self.sampler.kind == "response" else "plain"
        if method == "plain":
            return self.frequencies()
        if method != "unmix":
            raise DomainError(
                "method= is not known", got=repr(method), allowed="'auto', 'plain', 'unmix'"
            )
        channel = self.sampler._channel
        return project_to_hull(self.frequencies(), Hull(channel))

    def density(self) -> LogRatio:
        """Estimate the log density of the mean released distribution of continuous draws."""
        return kernel_density(check_rows(self.values))

    def margin(self, beta: float = 0.05) -> float:
        """Give the largest error of a frequency, with probability 1 - beta.

        By Hoeffding's inequality, over all k categories; the frequencies estimate the mean
        released distribution.
        """
        check_open_unit(beta=beta)
        k = len(self._base().mass)
        return math.sqrt(math.log(2.0 * k / beta) / (2.0 * len(self)))

    def _base(self) -> FiniteReference:
        return check_finite_reference(self.sampler.reference)

    def _positions(self) -> np.ndarray:
        base, column = self._base(), self.values[:, 0]
        return column.astype(np.int64) if base.numbers is None else base.positions(column)


def check_finite_reference(reference: Reference | FiniteReference) -> FiniteReference:
    """The reference; refused unless it is finite."""
    if not isinstance(reference, FiniteReference):
        raise DomainError(
            "categories belong to a finite reference",
            got=reference.text,
            do="density() estimates the distribution of continuous draws",
        )
    return reference


def randomized_response(
    held: np.ndarray, categories: int, epsilon: float, randomness: Randomness
) -> np.ndarray:
    """k-ary randomized response: the true category with odds e^epsilon (Warner 1965)."""
    k, odds = check_count(categories, "the number of categories"), np.exp(check_width(epsilon))
    held = np.asarray(held, dtype=np.int64)
    lie = randomness.uniform(len(held)) >= odds / (odds + k - 1.0)
    shift = 1 + np.floor(randomness.uniform(len(held)) * (k - 1)).astype(np.int64)
    return np.where(lie, (held + shift) % k, held)


def invert_randomized_response(received: np.ndarray, categories: int, epsilon: float) -> np.ndarray:
    """Estimate the frequencies behind `randomized_response`: unbiased, then clipped to >= 0."""
    odds, k = np.exp(epsilon), categories
    p, q = odds / (odds + k - 1.0), 1.0 / (odds + k - 1.0)
    share = np.bincount(received, minlength=k) / len(received)
    found = np.maximum((share - q) / (p - q), 0.0)
    return found / found.sum()


def clipped_laplace(
    held: np.ndarray, lower: float, upper: float, epsilon: float, randomness: Randomness
) -> np.ndarray:
    """Clip to public bounds, and add Laplace noise of scale (upper - lower) / epsilon.

    Real arithmetic is assumed: the low bits of floating-point noise reveal more than epsilon.
    """
    if not lower < upper:
        raise DomainError(
            "lower is below upper", got=f"[{lower}, {upper}]", allowed="lower < upper"
        )
    u = randomness.uniform(len(held)) - 0.5
    noise = -np.sign(u) * np.log1p(-2.0 * np.abs(u)) * (upper - lower) / check_width(epsilon)
    return np.clip(held, lower, upper) + noise


def baseline_guarantee(epsilon: float) -> Guarantee:
    """The guarantee of one message of either baseline."""
    return Guarantee.pure(epsilon, neighbors=ANY, assumptions=("arithmetic on real numbers",))
