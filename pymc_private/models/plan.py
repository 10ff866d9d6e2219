"""Plan: what will be drawn and what it will cost, fixed before the data are read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import pandas as pd

from pymc_private.errors import Incompatible
from pymc_private.models.certificate import Certificate
from pymc_private.models.fingerprint import describe_structure
from pymc_private.models.private_model import PrivateModel, clip_words
from pymc_private.privacy import Guarantee
from pymc_private.privacy.distances import changed
from pymc_private.privacy.printing import number

LITTLE = 0.05
"""Below this share of the records' information a plan says loudly that little is kept."""


@dataclass(frozen=True, eq=False)
class Frontier:
    """One way to meet the budget."""

    private: PrivateModel
    certificate: Certificate
    power: Fraction
    mass: float | None
    records_kept: float
    chosen: bool


@dataclass(frozen=True, eq=False)
class Plan:
    """A calibrated model: region, power, sampler, draws and price.

    Attributes
    ----------
    private : PrivateModel
        Trimmed and tempered; holds the data.
    certificate : Certificate
    guarantee : Guarantee
        Of all draws together.
    sampler : str
    draws : int
    epsilon, delta : float
        The budget asked for.
    n : int or None
        Number of records, where it is public.
    method : Method
        The sampler with its options.
    alternatives : callable
        ``plan.alternatives()`` tells every sampler with its claim and a rough time, or why it does
        not fit.
    """

    private: PrivateModel
    certificate: Certificate
    guarantee: Guarantee
    sampler: str
    draws: int
    epsilon: float
    delta: float
    frontier: tuple[Frontier, ...] = ()
    n: int | None = None
    method: Any = None
    alternatives: Callable[[], tuple[Any, ...]] = tuple

    def __post_init__(self) -> None:
        priced = self.certificate.guarantee(self.draws)
        if not self.certificate.covers(self.private) or priced != self.guarantee:
            raise Incompatible(
                "the parts of this plan do not belong together",
                got="a model, a number of draws or a price that the certificate does not speak of",
                allowed="plans as calibrate makes them",
                do="calibrate again instead of replacing parts of a plan",
            )

    @property
    def records_kept(self) -> float:
        """Records' worth of information: power * n; NaN where n is protected."""
        return float(self.private.power) * (self.n if self.n is not None else math.nan)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of structure, priors, domain, region, power and draws; not of private values."""
        numbers = (self.sampler, self.draws, self.epsilon, self.delta, self.method)
        text = f"{describe_structure(self.private)}|{numbers!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def _bound(self) -> str:
        """What is proved of one record."""
        if math.isinf(self.certificate.range):
            return f"one exact draw is {number(self.certificate.mu, 6)}-GDP (T7)"
        return (
            f"{changed(self.private.neighbors)} the tempered log-likelihood by a range of at most "
            f"{number(self.certificate.range, 6)} nats"
        )

    @property
    def _kind(self) -> str:
        """Whether the law of the draws is proved, or partly a claim."""
        return "conditional" if self.certificate.terms.claimed else "proved"

    def summary(self) -> str:
        """Say in plain words what the plan does."""
        spent = self.guarantee.epsilon(self.delta)
        share, power = float(self.private.power), number(self.private.power, 6)
        kept = (
            f"the information of {self.records_kept:.0f} of {self.n} records (power {power})"
            if self.n is not None
            else f"{share:.3g} of the information of each record (power {power})"
        )
        lines = [
            f"{self.draws} {self._kind} draws ({self.sampler}) for epsilon = {number(spent, 6)} of "
            f"{number(self.epsilon, 6)}, delta = {number(self.delta, 6)}; "
            f"{self.guarantee.road(self.delta)}",
            f"keeps {kept}",
            self._bound,
        ]
        if str(self.certificate.terms) != "exact":
            lines.append(f"sampler: {self.certificate.terms}")
        if self.private.region:
            region = ", ".join(_region_words(self.private))
            mass = next((row.mass for row in self.frontier if row.chosen), None)
            held = f"; prior mass about {mass:g}" if mass else ""
            lines.append(f"prior restricted to {region}{held}")
        if self.private.theta_l is not None:
            counted = self.private.__dict__.get("prior_mass")  # when it was trimmed
            keeps = f"; keeps {counted}" if counted is not None else ""
            lines.append(f"and to {self.private.theta_l.words}{keeps}")
        if self.private.graph.clip is not None:
            lines.append(f"clipped: {clip_words(self.private.graph)}")
        if share < LITTLE:
            lines.append(
                "WARNING: little information is kept; fewer draws, a smaller box, a narrower "
                "domain or a larger budget would keep more"
            )
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """The frontier as a table: prior mass, range, power, records kept."""
        return pd.DataFrame(
            [
                {
                    "prior_mass": row.mass,
                    "range": row.certificate.range,
                    "power": float(row.power * row.private.power),
                    "records_kept": row.records_kept,
                    "chosen": row.chosen,
                }
                for row in self.frontier
            ]
        )

    def plot(self, ax: Any = None) -> Any:
        """Records kept against prior mass; the choice is marked. Returns a Matplotlib axes."""
        from matplotlib.figure import Figure

        if ax is None:
            ax = Figure(figsize=(5.5, 3.4), layout="constrained").add_subplot()
        table = self.to_frame()
        masses = [1.0 if mass is None or mass != mass else mass for mass in table["prior_mass"]]
        labels = ["as given" if m == 1.0 else f"{m:g}" for m in masses]
        positions = range(len(labels))
        kept = table["power"] * (self.n if self.n is not None else 1)
        ax.plot(positions, kept, color="0.6", zorder=1)
        colors = ["#b3462b" if chosen else "0.35" for chosen in table["chosen"]]
        ax.scatter(positions, kept, color=colors, zorder=2)
        ax.set_xticks(list(positions), labels)
        ax.set_xlabel("prior mass kept by the trim")
        of = "records' worth" if self.n is not None else "share"
        ax.set_ylabel(f"{of} of information kept")
        ax.set_ylim(bottom=0)
        budget = f"epsilon = {number(self.epsilon, 6)}, delta = {number(self.delta, 6)}"
        ax.set_title(f"{self.draws} draws at {budget}")
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def __repr__(self) -> str:
        return "Plan\n  " + self.summary().replace("\n", "\n  ")

    def _repr_html_(self) -> str:
        text = repr(self).replace("&", "&amp;").replace("<", "&lt;")
        return f"<pre>{text}</pre>{self.to_frame().to_html(index=False)}"


def _region_words(private: PrivateModel) -> list[str]:
    return [
        f"{name} in [{float(b.lower.min()):.4g}, {float(b.upper.max()):.4g}]"
        for name, b in private.region.items()
    ]
