"""What rounding the states of a chain costs, from public numbers alone (T21)."""

from __future__ import annotations

import math
import numpy as np
from dataclasses import dataclass
from pymc_private.errors import Unsupported
from pymc_private.privacy.rounding__printing import counted, number
from pymc_private.samplers.proximal import Schedule
from pymc_private.samplers.verified.arithmetic__noise import NORMAL
from pymc_private.samplers.verified.arithmetic__records import additions
from pymc_private.samplers.verified.arithmetic import FUNCTION, gamma

SHARE = 0.1
"""Of t, which rounding may cost at least: a wide omega asks for fewer balls."""
FAR = 32.0
"""Norm up to which a posterior's mean is expected to lie: it sets the cost in time alone."""
LARGEST = 1e-3
"""Largest t_fp."""
STEEPEST = 2.0**16
"""Standard deviations that proposals may be centered beyond a wall: Arb's erfc ends soon after."""


@dataclass(frozen=True)
class Rounding:
    """How far a state may be from where it should be, and what that costs.

    Parameters
    ----------
    omega : float
        In l2, in whitened coordinates.
    tv : float
        t_fp, which adds to t.
    """

    omega: float
    tv: float


def rounding(
    schedule: Schedule, n: int, dimension: int, trace: float, slope: float, *, bounded: bool = False
) -> Rounding:
    """Choose omega, from public numbers: about what floats keep, or more if t allows it.

    Parameters
    ----------
    schedule : Schedule
    n, dimension : int
    trace : float
        Bound of tr(A - P), whatever the records.
    slope : float
        Bound of the slope of the log-likelihood at any parameter, whatever the records.
    bounded : bool
        Whether there are walls.

    Raises
    ------
    Unsupported
        It would cost more than `LARGEST`.

    Notes
    -----
    k omega / sqrt(2 pi eta) for k steps; see `chains.sample_strict`. Any omega is sound: what
    floats do not keep is computed in balls.
    """
    unit = math.sqrt(2.0 * math.pi * schedule.eta)
    usual = _usual(schedule.eta, n, dimension, trace, slope, bounded)
    omega = max(usual, SHARE * schedule.tv * unit / max(schedule.steps, 1))
    tv = schedule.steps * omega / unit * (1.0 + 1e-9)
    if tv > LARGEST:
        raise Unsupported(
            "floating point would cost more than the draws themselves",
            got=f"{counted(schedule.steps, 'step')} with {counted(n, 'record')}, "
            f"{number(tv)} in total variation",
            allowed=f"at most {LARGEST:g}",
            do="a smaller power or a larger tv takes fewer steps; or strict=False",
        )
    return Rounding(omega, tv)


def check_walls(schedule: Schedule, slope: float, walls: np.ndarray) -> None:
    """Refuse walls that the likelihood may push against harder than balls can follow.

    Proposals about any m are centered at (y / eta + pull(m)) / (1 + 1 / eta), |pull| <= slope, and
    y is noise away from the box: beyond a wall by sqrt(eta) (slope + |wall|) of their standard
    deviations at most, and some ten for the noise.

    Parameters
    ----------
    schedule : Schedule
    slope : float
        As for `rounding`, a bound here.
    walls : array
        Ends of whitened coordinates; may be infinite.
    """
    ends = float(np.abs(walls[np.isfinite(walls)]).max(initial=0.0))
    steep = math.sqrt(schedule.eta) * (slope + ends)
    if steep > STEEPEST:
        raise Unsupported(
            "no claim in floating point is proved here: strict=True with proximal",
            got=f"records that may push {number(steep)} standard deviations beyond a wall",
            allowed=f"at most {STEEPEST:g}",
            do="a smaller power, narrower domains, or strict=False",
        )


def _usual(eta: float, n: int, dimension: int, trace: float, slope: float, bounded: bool) -> float:
    """A generous guess of the bound that runs beside a state: `kernel` tells its terms."""
    far = 2.0 * math.sqrt(dimension) + min(slope, FAR)
    each = 3.0 * NORMAL + (32.0 * FUNCTION if bounded else 0.0)
    noise = each * math.sqrt(dimension * eta) + 2.0**-49 * far
    heavy = min(slope, trace * far) + trace
    likelihood = trace * gamma(dimension + 2) * far + heavy * (FUNCTION + gamma(additions(n)))
    return 2.0 * (noise + likelihood / (1.0 + 1.0 / eta))
