"""What a certificate assumes where a model computes in single precision."""

from __future__ import annotations

from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pymc_private.analysis.intervals.ops__normal_tail import has_log_phi
from pymc_private.models.private_model import PrivateModel

SHORT = (
    "the model computes in float32: a log-likelihood so computed differs from the proved one by "
    "about 1e-7 of its size, which R does not hold"
)
TAILS = (
    "PyMC writes the constants of normal tails in float32: its own graph of this likelihood lies "
    "up to 2e-8 of its size outside of R, which is of the exact tails (draws are, too)"
)


def claims_of_short_floats(private: PrivateModel) -> tuple[str, ...]:
    """Say how far single precision goes beyond the bound, where a model has any."""
    record = private.graph.record
    if _computes_short(record):
        return (SHORT,)
    if has_log_phi(record) and _computes_short(private.base.logp()):
        return (TAILS,)
    return ()


def _computes_short(graph: Variable) -> bool:
    """Whether an Op rounds to float32; float32 constants by themselves are the numbers they are."""
    return any(
        getattr(v.type, "dtype", "") == "float32"
        and v.owner is not None
        and not isinstance(v.owner.op, DimShuffle)
        for v in ancestors([graph])
    )
