"""Plan: what will be drawn and what it will cost, fixed before the data are read."""

from __future__ import annotations

import hashlib
import math
import pandas as pd
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any
from pymc_private.errors import DomainError, Incompatible
from pymc_private.certificates.certificate import Certificate
from pymc_private.models.fingerprint import describe_structure
from pymc_private.posterior.plan__plan_pictures import picture_of
from pymc_private.posterior.plan__plan_words import summary_of
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import Guarantee

@dataclass(frozen=True, eq=False)
class Frontier:
    """One way to meet the budget.

    Attributes
    ----------
    private : PrivateModel
        In its region, before it is tempered.
    certificate : Certificate
    power : Fraction
        What the budget affords of the likelihood as it was given.
    mass : float or None
        Prior mass of the box; None if the region is as given.
    records_kept : float
        Power times the number of records.
    chosen : bool
    information : float
        What is expected to be learned, in nats (see `calibrate`); NaN if nobody asked.
    draws : int
    clipped : bool
        Whether calibrate clipped the log-likelihoods.
    """

    private: PrivateModel
    certificate: Certificate
    power: Fraction
    mass: float | None
    records_kept: float
    chosen: bool
    information: float = math.nan
    draws: int = 1
    clipped: bool = False

    @property
    def words(self) -> str:
        """Where the parameters may lie, in a word or two."""
        box = "as given" if self.mass is None else f"{self.mass:g}"
        return f"{box}, clipped" if self.clipped else box


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
    frontier : tuple of Frontier
        All ways that were weighed, for each number of draws asked for.
    whole : float
        Information expected without a budget, in nats.
    judged : str
        What information was judged on.
    strict : bool
        Whether a promise in floating point was asked for.
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
    whole: float = math.nan
    judged: str = ""
    others: Callable[[int], Plan] | None = field(default=None, repr=False)
    strict: bool = False

    def __post_init__(self) -> None:
        priced = self.certificate.guarantee(self.draws)
        drawn = self.method is None or self.method.terms(self.private) == self.certificate.terms
        if not self.certificate.covers(self.private) or priced != self.guarantee or not drawn:
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

    @property
    def chosen(self) -> Frontier:
        """The row of the frontier that this plan takes."""
        return next(row for row in self.frontier if row.chosen and row.draws == self.draws)

    def at(self, draws: int) -> Plan:
        """Give the plan for another of the numbers of draws that calibrate was asked for."""
        if draws == self.draws or self.others is None:
            return self if draws == self.draws else _refuse_number(self.draws, draws)
        return self.others(draws)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of structure, priors, domain, region, power and draws; not of private values."""
        numbers = (self.sampler, self.draws, self.epsilon, self.delta, self.method)
        text = f"{describe_structure(self.private)}|{numbers!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def fallen(self) -> tuple[str, ...]:
        """The samplers that cannot draw it, each with the reason."""
        return tuple(str(found) for found in self.alternatives() if found.why_not)

    def summary(self) -> str:
        """Say in plain words what the plan does."""
        return "\n".join(summary_of(self))

    def to_frame(self) -> pd.DataFrame:
        """The frontier as a table: draws, prior mass, range, power, records kept, information."""
        return pd.DataFrame(
            [
                {
                    "draws": row.draws,
                    "prior_mass": row.mass,
                    "clipped": row.clipped,
                    "range": row.certificate.range,
                    "mu": row.certificate.charged_mu,
                    "power": float(row.power * row.private.power),
                    "records_kept": row.records_kept,
                    "information": row.information,
                    "chosen": row.chosen,
                }
                for row in self.frontier
            ]
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw what was weighed: information against prior mass, or records kept against draws.

        Of several numbers of draws: what each of them leaves of every record.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        return picture_of(self, ax)

    def __repr__(self) -> str:
        return "Plan\n  " + self.summary().replace("\n", "\n  ")

    def _repr_html_(self) -> str:
        text = repr(self).replace("&", "&amp;").replace("<", "&lt;")
        return f"<pre>{text}</pre>{self.to_frame().to_html(index=False)}"


def _refuse_number(fixed: int, asked: int) -> Plan:
    raise DomainError(
        "this plan is for one number of draws",
        got=asked,
        allowed=fixed,
        do="calibrate(..., draws=[...]) with all the numbers you want to weigh",
    )
