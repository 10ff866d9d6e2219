"""The certificate: what is proved about one record of a model, and the privacy of draws by it.

A `Certificate` holds the range R (T1-T3) and, where they exist, the constants of Gaussian
privacy (T7, T22), the tail of ell(theta) (T6) and the dominating pair of a conjugate posterior
(T9, T10, T13). `Certificate.guarantee` turns them into a `Guarantee`, with what the sampler
adds (T18).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from pymc_private.certificates.conjugate import ConjugatePair
from pymc_private.certificates.lipschitz.tail import LipschitzTail
from pymc_private.certificates.log_concave import Concavity, LazyConcavity
from pymc_private.certificates.terms import ASSUMPTIONS, EXACT_TERMS, SamplingTerms
from pymc_private.certificates.worst_case import WorstCaseValue, plot_worst_case
from pymc_private.models.fingerprint import model_fingerprint
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import Guarantee, cards
from pymc_private.privacy.neighbors import describe_change
from pymc_private.privacy.rounding import float_up, format_number

RANGE_THEOREMS = "T1-T3"
NO_GDP_ON_GRID = "Gaussian privacy (T7) is not proved of draws from a grid"


@dataclass(frozen=True)
class Certificate:
    """What is proved about one record of a model.

    Attributes
    ----------
    range : float, nats
        R: for any two records x, y the difference of their log-likelihoods varies by at most R over
        the region of the parameters, at the model's power; under add/remove the log-likelihood of
        any one record does. For units of up to k records k times that. Rounded up.
    searched : float, nats
        The largest such variation a search found: R cannot be smaller than this.
    power : Fraction
        Power of the likelihood, already in both figures.
    neighbors : str
    trail : tuple of str
        Each node of the record's graph with the hull of its values.
    claims : tuple of str
        What is taken on trust.
    milliseconds : float
        Time that `certify` took. Unless R is infinite, the Gaussian constants are not in it: they
        are proved when they, a guarantee or the certificate's text are first read.
    model : str
        Fingerprint of the model that it is about, whatever its power.
    theorem : str
        Numbers of the theorems it rests on.
    where : tuple of WorstCaseValue
        Records and parameters at which branch and bound found the most.
    is_relaxed : bool
        Whether `where` is of the bound alone: no such records and parameters need exist.
    coupling : str
        How many factor rows read each record, where that is more than its own.
    terms : SamplingTerms
        Of the sampler that is to draw; by default of exact draws.
    lipschitz : LipschitzTail or None
        The tail of what one record can change over the prior (T6), where a lemma gives it. For any
        other model: `lipschitz_tail`.
    gaussian : LazyConcavity or None
        What is proved of a log-concave posterior (T7, T22).
    pair : ConjugatePair or None
        The dominating pair of an untrimmed conjugate posterior (T9, T10, T13), where neither a
        range nor a mu is proved.
    """

    range: float
    searched: float
    power: Fraction
    neighbors: str
    trail: tuple[str, ...]
    claims: tuple[str, ...]
    milliseconds: float
    tolerance: float = 0.05
    model: str = ""
    theorem: str = RANGE_THEOREMS
    where: tuple[WorstCaseValue, ...] = ()
    is_relaxed: bool = False
    coupling: str = ""
    terms: SamplingTerms = EXACT_TERMS
    lipschitz: LipschitzTail | None = field(default=None, compare=False)
    gaussian: LazyConcavity | None = field(default=None, compare=False, repr=False)
    pair: ConjugatePair | None = None

    @property
    def concavity(self) -> Concavity | None:
        """What is proved of a log-concave posterior (T7, T22); for samplers too."""
        return None if self.gaussian is None else self.gaussian.concavity

    @property
    def not_concave(self) -> str:
        """Why log-concavity is not proved; empty where it is."""
        return "" if self.gaussian is None else self.gaussian.refusal

    @property
    def gdp(self) -> tuple[float, float] | None:
        """(m, G) of T7 at this power, or None; `mu` is sharper than G / sqrt(m)."""
        if self.concavity is None or not math.isfinite(self.mu):
            return None
        return self.concavity.strength(self.power), self.concavity.gradient(self.power)

    @cached_property
    def mu(self) -> float:
        """One exact draw is mu-GDP (T7, T22), for units of so many records; inf if none is proved.

        At most G / sqrt(m): what one record changes is measured in units of the prior.
        """
        return math.inf if self.concavity is None else self.concavity.mu(self.power)

    @property
    def tightness(self) -> float:
        """range / searched, at least 1; 1 means that the bound is exact."""
        if self.range == 0.0:
            return 1.0
        return self.range / self.searched if self.searched > 0 else math.inf

    @property
    def tolerance_reached(self) -> bool:
        """Whether the bound is within the tolerance of the searched lower bound."""
        return self.range <= self.searched * (1.0 + self.tolerance)

    def tempered(self, power: Fraction) -> Certificate:
        """The same proof at another power of the likelihood: R scales with it (T1)."""
        if power == self.power:
            return self
        ratio = power / self.power
        return replace(
            self,
            range=scaled_up(self.range, ratio),
            searched=self.searched * float(ratio),
            power=power,
            lipschitz=self.lipschitz and replace(self.lipschitz, power=float(power)),
        )

    def covers(self, private: PrivateModel) -> bool:
        """Whether this is a certificate of that very model, region and power."""
        return self.power == private.power and self.model == untempered_fingerprint(private)

    def on(self, terms: SamplingTerms) -> Certificate:
        """The same certificate for draws on a sampler's terms."""
        return replace(self, terms=terms)

    @property
    def charged_range(self) -> float:
        """R with what the sampler's terms add to it, rounded up."""
        slack = self.terms.slack * self.power
        finite = slack and math.isfinite(self.range)
        return float_up(Fraction(self.range) + slack) if finite else self.range

    @property
    def charged_mu(self) -> float:
        """mu, where the sampler's distribution has one: on a grid nothing is convex (T7).

        Nor is a density that is known up to some nats.
        """
        return math.inf if self.terms.discrete or self.terms.slack else self.mu

    @property
    def charged_pair(self) -> ConjugatePair | None:
        """The pair, where nothing else bounds draws and they have the distribution it is about."""
        priced = math.isfinite(self.charged_range) or math.isfinite(self.charged_mu)
        return None if priced or self.terms.discrete or self.terms.slack else self.pair

    def guarantee(self, draws: int = 1) -> Guarantee:
        """What `draws` draws from one posterior cost, on these terms (T1-T3, T7, T18)."""
        terms = self.terms
        words: dict[str, Any] = {
            "neighbors": self.neighbors,
            "theorem": ", ".join(filter(None, (self._theorems(), terms.theorem))),
            "assumptions": (*terms.words, *ASSUMPTIONS, *self.claims),
        }
        if self.charged_pair is not None:
            exact = self.charged_pair.guarantee(self.power, draws, **words)
        else:
            exact = Guarantee.posterior_of(self.charged_range, self.charged_mu, draws, **words)
        return exact.within(terms.tv, draws) if terms.tv else exact

    def _theorems(self) -> str:
        if self.charged_pair is not None:
            return self.charged_pair.theorem
        proved = [self.theorem] if math.isfinite(self.charged_range) else []
        return ", ".join([*proved, *(["T7"] if math.isfinite(self.charged_mu) else [])])

    def plot(self, ax: Any = None) -> Any:
        """Draw where in (record, parameters) the bound is attained, and the slack.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        return plot_worst_case(self.where, self.range, self.searched, self.is_relaxed, ax)

    def __repr__(self) -> str:
        lines = ["Certificate", *self._range_lines(), *self._gaussian_lines()]
        if self.pair is not None:
            lines.append(f"  the worst pair of posteriors: {self.pair.words(self.power)}")
        if self.lipschitz is not None:
            lines.append(f"  over the prior: {self.lipschitz.description}")
        # Always: numbers written into a model look like those computed from data.
        lines += [f"  claimed: {claim}" for claim in (*self.claims, *ASSUMPTIONS)]
        return "\n".join(lines)

    def _range_lines(self) -> list[str]:
        if math.isinf(self.range):
            return [
                f"  {describe_change(self.neighbors)} the log-likelihood without bound: "
                "no range is proved"
            ]
        proved, found = format_number(self.range, 6), format_number(self.searched, 6, up=False)
        reached = "within" if self.tolerance_reached else "not shown to be within"
        return [
            f"  {describe_change(self.neighbors)} the log-likelihood by a range of at most "
            f"R = {proved} nats (power {format_number(self.power, 6)})",
            f"  a search found {found}: {reached} {self.tolerance:.0%} of the truth",
            f"  {self._one_draw()}-differentially private ({self.neighbors}); {self.theorem}",
            *([f"  {self.coupling}"] if self.coupling else []),
        ]

    def _one_draw(self) -> str:
        """The cost of one draw, with what the sampler's terms add to the range."""
        one = "one draw" if self.terms.slack else "one exact draw"
        return f"{one} is {format_number(self.charged_range, 6)}"

    def _gaussian_lines(self) -> list[str]:
        if self.concavity is None:
            return [f"  no Gaussian bound: {self.not_concave}"] if self.not_concave else []
        if self.gdp is None:
            return [
                "  log-concave, but one record's gradient is unbounded: trim for a Gaussian bound"
            ]
        strength, gradient = self.gdp
        m, G = format_number(strength, 6, up=False), format_number(gradient, 6)
        found = f"  log-concave (m = {m}, G = {G}): "
        if math.isinf(self.charged_mu):
            return [found + NO_GDP_ON_GRID]
        mu = format_number(self.charged_mu, 6)
        return [
            f"{found}one exact draw tells neighbors ({self.neighbors}) apart no better than one "
            f"observation tells N(0, 1) from N({mu}, 1): {mu}-GDP, T7"
        ]

    def _repr_html_(self) -> str:
        return cards.html_text(repr(self))


def untempered_fingerprint(private: PrivateModel) -> str:
    """Fingerprint of the model with its likelihood untempered."""
    return model_fingerprint(private.with_power(Fraction(1)))


def scaled_up(value: float, power: Fraction) -> float:
    """value * power, rounded up."""
    if power == 1 or math.isinf(value):
        return value
    return float_up(Fraction(value) * power)
