"""Sampling terms: what a sampler adds to the cost of an exact draw, and what draws assume.

`SamplingTerms` states the total variation (T18), the slack in nats and the arithmetic of a
sampler. `ASSUMPTIONS` holds for every promise about draws from a posterior, whatever draws
them. Models that compute in single precision have claims of their own (`float32_claims`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Switch
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_private.analysis.rewrites.normal_cdf import has_log_phi
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.rounding import STATED_SUFFIX, format_number

FINE_GRID_POINTS = 8
"""Points along each continuous coordinate: rounding to them adds 1/64 of the variance of the
uniform distribution on the box."""


@dataclass(frozen=True)
class SamplingTerms:
    """How the distribution of a sampler's draws differs from the posterior.

    Parameters
    ----------
    tv : float
        Total variation of each draw from the posterior, fixed in advance; it costs (T18).
    slack : Fraction
        Nats by which the range of one unit is larger than certified, at power one.
    discrete : bool
        Whether the posterior is on a grid: then Gaussian privacy (T7) says nothing.
    strict : bool
        Whether the promise holds for the floating-point draws themselves.
    theorem : str
        By number; empty where nothing is added.
    assumption : str
        What is assumed about the sampler.
    claimed : bool
        Whether `tv` is stated by the user and proved by nobody.
    points : int
        Where draws are from a grid: its points along each continuous coordinate, the fewest. Else
        0.
    """

    tv: float = 0.0
    slack: Fraction = Fraction(0)
    discrete: bool = False
    strict: bool = False
    theorem: str = ""
    assumption: str = ""
    claimed: bool = False
    points: int = 0

    @property
    def is_coarse(self) -> bool:
        """Whether draws are from a grid whose steps exceed an eighth of a box."""
        return 0 < self.points < FINE_GRID_POINTS

    @property
    def words(self) -> tuple[str, ...]:
        """The assumption about arithmetic, and that about the sampler."""
        arithmetic = VERIFIED_ARITHMETIC if self.strict else REAL_ARITHMETIC
        return (arithmetic, *((self.assumption,) if self.assumption else ()))

    def __str__(self) -> str:
        parts = []
        if self.tv:
            mark = STATED_SUFFIX if self.claimed else ""
            near = f"each draw within {format_number(self.tv)} of the posterior in total variation"
            parts.append(near + mark)
        if self.slack:
            parts.append(f"one record's range larger by up to {format_number(self.slack)} nats")
        return "; ".join(parts) or "exact"


REAL_ARITHMETIC = (
    "real arithmetic and ideal randomness: draws are as the sampler makes them of real numbers, "
    "then rounded to a public grid"
)

VERIFIED_ARITHMETIC = (
    "ideal randomness of the operating system; the draws are proved in floating point, as they are"
)

EXACT_TERMS = SamplingTerms()
"""Draws from the posterior itself, in real arithmetic."""

ASSUMPTIONS = (
    "prior, domain, region, power, number of draws, every number and array written into the "
    "model and every label were fixed without looking at the data",
    "records that are found to enter the model alike do so: their expressions are compared by "
    "marks of 64 bits, which agree by chance for one pair in 2^64",
)
"""What every promise about draws from a posterior assumes, whatever draws them."""

FLOAT32_CLAIM = (
    "the model computes in float32: a log-likelihood so computed differs from the proved one by "
    "about 1e-7 of its size, which R does not hold"
)

FLOAT32_TAILS_CLAIM = (
    "PyMC writes the constants of normal tails in float32: its own graph of this likelihood lies "
    "up to 2e-8 of its size outside of R, which is of the exact tails (draws are, too)"
)


def float32_claims(private: PrivateModel) -> tuple[str, ...]:
    """How far single precision goes beyond the bound, where a model computes in it."""
    record = private.graph.record
    if _computes_in_float32(record):
        return (FLOAT32_CLAIM,)
    if has_log_phi(record) and _computes_in_float32(private.base.logp()):
        return (FLOAT32_TAILS_CLAIM,)
    return ()


def _computes_in_float32(graph: Variable) -> bool:
    """Whether an Op rounds to float32; float32 constants by themselves are the numbers they are.

    To broadcast or to choose among such numbers, as PyMC does between 0 and -inf, rounds nothing.
    """
    return any(
        getattr(v.type, "dtype", "") == "float32" and v.owner is not None and _rounds(v.owner.op)
        for v in ancestors([graph])
    )


def _rounds(op: Op) -> bool:
    """Whether an Op computes numbers, and does not only copy those that it is given."""
    if isinstance(op, Elemwise):
        return not isinstance(op.scalar_op, Switch)
    return not isinstance(op, DimShuffle)
