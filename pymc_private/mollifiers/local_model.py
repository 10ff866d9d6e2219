"""The local model: every user draws at home from a law near their own, and sends one draw."""

from __future__ import annotations

import numpy as np
from collections.abc import Iterable, Sequence
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.release import charge__drawing
from pymc_private.mollifiers.mollified_distributions__clip import clip_to_window
from pymc_private.mollifiers.mollified_distributions import draw
from pymc_private.mollifiers.local_model__local_draws import LocalDraws, check_finite
from pymc_private.mollifiers.mollified import Mollified
from pymc_private.mollifiers.references__reading import as_reference
from pymc_private.mollifiers.references import Finite, probabilities
from pymc_private.mollifiers.mollify__targets import by_label
from pymc_private.mollifiers.mollify import mollify
from pymc_private.mollifiers.window import Window, window_of
from pymc_private.release.release import Release
from pymc_private.privacy.validation import refuse_mask, whole
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors__neighbors import ANY
from pymc_private.privacy.rounding__printing import number
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness, Uniform

KINDS = ("clip", "response")
ASSUMED = "each user draws at home, once, and trusts nobody"


class LocalSampler:
    """How each of many users turns what they hold into one private draw.

    Parameters
    ----------
    reference : object
        As in `mollify`; public and the same for all.
    epsilon : float, nats
        Of each user's draw.
    kind : {"clip", "response"}
        ``"clip"``: the law in the window nearest to the user's own, the closest draw there is.
        ``"response"``: the user draws one category of their law and sends it through a fixed
        channel, as in randomized response. Linear, so that an average over users can be undone;
        for finite references.
    window : {"symmetric", "minimax"}, float or Window
        "minimax": best for the worst user, who holds one category only; for finite references.
    estimate : str, classifier or callable, optional
        For users who hold rows; as in `mollify`.
    local_draws : int
        How many draws are taken of a user who holds a callable.

    Notes
    -----
    *Promise.* Whatever a user holds, and whatever the others do, the draw is `epsilon`-private
    between any two holdings (T15d). The user's law never leaves the user.

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
        if kind not in KINDS:
            raise DomainError("kind=", got=repr(kind), allowed=", ".join(map(repr, KINDS)))
        finite = isinstance(self.reference, Finite)
        if not finite and (kind == "response" or window == "minimax"):
            raise DomainError(
                "randomized response and the minimax window are for finite references",
                got=self.reference.text,
                do="cut the line into public cells and use their probabilities as reference",
            )
        if isinstance(self.reference, Finite) and window == "minimax":
            window = minimax_window(self.reference, epsilon)
        self.window = window_of(epsilon, window)
        self.epsilon = max(float(epsilon), self.window.epsilon)
        self.kind, self.estimate = kind, estimate
        self.local_draws = whole(local_draws, "local_draws")
        self._known: dict[int, Mollified] = {}
        self._channel = _channel(self.reference, self.window) if finite else None

    def __repr__(self) -> str:
        how = {"clip": "the nearest law in the window", "response": "randomized response"}
        return (
            f"LocalSampler ({self.kind}): each user's draw costs {number(self.epsilon)} nats\n"
            f"  reference: {self.reference.text}\n"
            f"  each draws from {how[self.kind]}, log Q/Q0 in {self.window}"
        )

    @property
    def guarantee(self) -> Guarantee:
        """What one user's draw reveals about that user."""
        return Guarantee.pure(self.epsilon, neighbors=ANY, theorem="T15d", assumptions=(ASSUMED,))

    def law(self, holding: Any, randomness: Uniform | None = None) -> Mollified:
        """Give the law that one user draws from; it stays with the user.

        Parameters
        ----------
        holding : object
            A law (probabilities, dict by label, anything with ``logpdf``), rows, or a callable
            ``draw(n)``. Of a finite reference a list or array of labels counts as rows if it is no
            vector of probabilities.
        """
        if isinstance(self.reference, Finite):
            held = probabilities(self._shares(holding), "what a user holds")
            if self.kind == "response":
                source = randomness if randomness is not None else SystemRandomness()
                picked = np.searchsorted(np.cumsum(held), source.uniform(1)[0] * held.sum())
                return self._of_category(min(int(picked), len(held) - 1))
            return mollify(held, self.reference, self.epsilon, window=self.window)
        if callable(holding) and not _has_density(holding):
            holding = holding(self.local_draws)
        words: dict[str, Any] = {"window": self.window, "estimate": self.estimate}
        return mollify(holding, self.reference, self.epsilon, **words)

    def _of_category(self, category: int) -> Mollified:
        """The law of a user who holds one category only; public, so it is kept."""
        if category not in self._known:
            held = np.eye(len(self.reference.mass))[category]  # type: ignore[union-attr]
            self._known[category] = mollify(held, self.reference, self.epsilon, window=self.window)
        return self._known[category]

    def release(self, holding: Any, **options: Any) -> Release:
        """Charge one user's own ledger, then draw; options as those of `Mollified.sample`."""
        return self.law(holding).sample(1, **options)

    def collect(
        self, holdings: Iterable[Any], *, progressbar: bool = True, random_seed: int | None = None
    ) -> LocalDraws:
        """Let every user draw once; what comes back is what a server would receive.

        With a `random_seed` the outcome is reproducible and marked not private.
        """
        users = list(holdings)
        if not users:
            raise DomainError("no users", allowed="one or more")
        source: Uniform = SystemRandomness()
        if random_seed is not None:
            source = SeededRandomness.from_seed(random_seed)
        drawn = []
        with charge__drawing.bar(len(users), progressbar) as progress:
            for i, holding in enumerate(users):
                law = self.law(holding, source)
                drawn.append(draw(law._law, 1, source)[0])
                if i % 100 == 99 or i + 1 == len(users):
                    progress(i + 1)
        return LocalDraws(np.array(drawn), self, random_seed is None)

    def _shares(self, holding: Any) -> np.ndarray:
        """What a user holds, as probabilities of the categories."""
        base = check_finite(self.reference)
        if callable(holding):
            holding = holding(self.local_draws)
        if isinstance(holding, dict):
            return by_label(holding, base)
        refuse_mask(holding, "rows and probabilities")
        array = np.asarray(holding)
        looks = array.dtype.kind == "f" and array.shape == base.mass.shape
        if looks and abs(array.sum() - 1.0) < 1e-6:
            return array
        if not array.size:
            raise DomainError("a user holds nothing", allowed="one category or more")
        places = base.positions(array.ravel())
        return np.bincount(places, minlength=len(base.mass)) / len(places)


def minimax_window(reference: Finite, epsilon: float) -> Window:
    """Give the window that is best for the user whose law is the worst to follow.

    That is a point mass on the rarest category.
    """
    return Window.minimax(epsilon, 0.0, 1.0 / float(reference.mass[reference.mass > 0.0].min()))


def _has_density(holding: Any) -> bool:
    """Whether it is a law: SciPy's `gaussian_kde` may be called, but not to draw."""
    return hasattr(holding, "logpdf") or hasattr(holding, "score_samples")


def _channel(reference: Any, window: Window) -> np.ndarray:
    """Row x: the law of the draw of a user who holds category x only."""
    rows: Sequence[np.ndarray] = [
        np.exp(clip_to_window(np.where(point, 0.0, -np.inf), reference.mass, window)[0])
        for point in np.eye(len(reference.mass), dtype=bool)
    ]
    channel = reference.mass * np.array(rows)
    return channel / channel.sum(axis=1, keepdims=True)
