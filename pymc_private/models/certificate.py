"""certify: a proved bound on how much one record can change the log-likelihood."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis import Trail
from pymc_private.errors import NotCertified
from pymc_private.models.assumptions import ASSUMPTIONS
from pymc_private.models.clip import claims_of_clip, clipped_range
from pymc_private.models.fingerprint import model_fingerprint
from pymc_private.models.places import Place, picture
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.progress import progress_bar
from pymc_private.models.record_range import (
    THEOREM,
    capped,
    found_on,
    record_range,
    theorem_of,
)
from pymc_private.models.row_bounds import RowBounds
from pymc_private.models.stochastic import LipschitzTail, proved_tail
from pymc_private.privacy import Guarantee
from pymc_private.privacy.distances import changed
from pymc_private.privacy.printing import number


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
        Time the certificate took.
    model : str
        Fingerprint of the model it speaks of, whatever its power.
    theorem : str
        Numbers of the theorems it rests on.
    where : tuple of Place
        Records and parameters at which branch and bound found the most.
    is_relaxed : bool
        Whether `where` is of the bound alone: no such records and parameters need exist.
    lipschitz : LipschitzTail or None
        The tail of what one record can change over the prior (T6), where a lemma gives it. For any
        other model: `lipschitz_tail`.
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
    theorem: str = THEOREM
    where: tuple[Place, ...] = ()
    is_relaxed: bool = False
    lipschitz: LipschitzTail | None = field(default=None, compare=False)

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
            range=_times(self.range, ratio),
            searched=self.searched * float(ratio),
            power=power,
            lipschitz=self.lipschitz and replace(self.lipschitz, power=float(power)),
        )

    def covers(self, private: PrivateModel) -> bool:
        """Whether this is a certificate of that very model, region and power."""
        return self.power == private.power and self.model == _fingerprint(private)

    def guarantee(self, draws: int = 1) -> Guarantee:
        """What `draws` exact draws from one posterior cost (T1-T3)."""
        return Guarantee.bounded_range_of(
            self.range,
            draws,
            neighbors=self.neighbors,
            theorem=self.theorem,
            assumptions=(*ASSUMPTIONS, *self.claims),
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw where in (record, parameters) the bound is attained, and the slack.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        return picture(self.where, self.range, self.searched, self.is_relaxed, ax)

    def __repr__(self) -> str:
        proved, found = number(self.range, 6), number(self.searched, 6, up=False)
        reached = "within" if self.tolerance_reached else "not within"
        lines = [
            "Certificate",
            f"  {changed(self.neighbors)} the log-likelihood by a range of at most R = {proved} "
            f"nats (power {number(self.power, 6)})",
            f"  a search found {found}: {reached} {self.tolerance:.0%} of the truth",
            f"  one exact draw is {proved}-differentially private ({self.neighbors}); "
            f"{self.theorem}",
            *([] if self.lipschitz is None else [f"  over the prior: {self.lipschitz.words}"]),
            *(f"  claimed: {claim}" for claim in self.claims),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{repr(self).replace('&', '&amp;').replace('<', '&lt;')}</pre>"


def certify(
    private: PrivateModel,
    *,
    tolerance: float = 0.05,
    seconds: float | None = None,
    progressbar: bool = True,
) -> Certificate:
    """Bound the range of one record's log-likelihood by intervals over the model's graph.

    Reads no data. R is a maximum over two records and two parameter points; branch and bound with
    interval slopes brackets it (`models.quadruples`). What a parameter does to every record alike
    cancels.

    Parameters
    ----------
    private : PrivateModel
        Trimmed or not.
    tolerance : float
        Stop refining once the bound is within this fraction of the searched lower bound.
    seconds : float, optional
        Stop refining after this long. By default the effort is counted, not timed, so that the
        same model gives the same bound, and the same plan, at each run.
    progressbar : bool
        Show a bar if it takes more than a second.

    Returns
    -------
    Certificate

    Raises
    ------
    NotCertified
        No finite bound: `.blame` names the Op and the variables, `.cure` what would help.

    References
    ----------
    Theory T1 (Dimitrakakis et al. 2017, Theorem 8.1, sharpened; McSherry and Talwar 2007), T24 for
    the cell bound, T25 for clipped models; Moore (1966) for interval inclusion.
    """
    start = time.perf_counter()
    deadline = math.inf if seconds is None else start + seconds
    rows = RowBounds(private.graph, private.sources, private.n)
    trail = rows.trail(private.box)
    clipped = clipped_range(private)
    cap = capped(private, clipped)
    if cap is None and private.metric is None and _open_ended(private, trail):
        raise _not_certified(private, rows)  # no cutting of the other parameters would help
    with progress_bar(progressbar) as progress:
        found = record_range(private, rows, tolerance, deadline, progress)
    upper = found.upper if cap is None else min(found.upper, _up(cap))  # T25, T24
    if not math.isfinite(upper):
        raise _not_certified(private, rows)
    scale = private.power * private.records_per_unit
    return Certificate(
        range=_times(upper, scale),
        searched=min(_times(upper, scale), found_on(private, rows, found.found) * float(scale)),
        power=private.power,
        neighbors=private.neighbors,
        trail=tuple(trail.describe()),
        claims=(*private.claims, *claims_of_clip(private)),
        where=found.where,
        is_relaxed=found.is_relaxed,
        milliseconds=(time.perf_counter() - start) * 1e3,
        tolerance=tolerance,
        model=_fingerprint(private),
        theorem=theorem_of(private, clipped),
        lipschitz=proved_tail(private),
    )


def _open_ended(private: PrivateModel, trail: Trail) -> list[str]:
    """Parameters without ends that by themselves make the likelihood infinite."""
    names = {culprit.op for culprit in trail.culprits(private.graph.record)}
    return [name for name, box in private.box.items() if name in names and not box.is_finite]


def _fingerprint(private: PrivateModel) -> str:
    """Of the model with its likelihood untempered."""
    return model_fingerprint(private.with_power(Fraction(1)))


def _times(value: float, power: Fraction) -> float:
    """value * power, rounded up."""
    if power == 1:
        return value
    return _up(Fraction(value) * power)


def _up(value: Fraction) -> float:
    """The least double that is not smaller."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _not_certified(private: PrivateModel, rows: RowBounds) -> NotCertified:
    """Name what made the bound infinite, and what would cure it."""
    trail = rows.trail(private.box)
    culprits = trail.culprits(private.graph.record)
    names = sorted({name for culprit in culprits for name in culprit.reads})
    parameters = [name for name in names if name in private.box]
    open_ended = [name for name in parameters if not private.box[name].is_finite]
    data = [name for name in names if name not in private.box]
    cures = []
    if open_ended:
        cures.append(f"bound {', '.join(open_ended)}: pmp.trim(private, mass=0.99) or box={{...}}")
    elif parameters:
        box = ", ".join(f"{name} in {_ends(private.box[name])}" for name in parameters)
        cures.append(f"trim further away from the edge ({box})")
    if data:
        cures.append(f"declare a smaller domain for {', '.join(data)}")
    return NotCertified(
        "no finite bound on one record's log-likelihood is proved",
        blame=tuple(str(culprit) for culprit in culprits),
        cure="; or ".join(cures) or "write this part of the likelihood with Ops that have a rule",
    )


def _ends(bounds: Bounds) -> str:
    return f"[{np.min(bounds.lower):.4g}, {np.max(bounds.upper):.4g}]"
