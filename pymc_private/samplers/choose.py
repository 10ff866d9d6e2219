"""choose: the strongest claim that fits a model, judged from its structure alone."""

from __future__ import annotations

import numpy as np

from pymc_private.errors import Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.samplers.boxes import LARGEST_DIMENSION

CLAIMS = {"boxes": "proved (real arithmetic)"}


def choose(private: PrivateModel) -> str:
    """Name the sampler for a model. Reads no data.

    Parameters
    ----------
    private : PrivateModel

    Returns
    -------
    str
        ``"boxes"``: exact rejection from interval envelopes.

    Raises
    ------
    Unsupported
        Too many parameters, discrete or simplex parameters, or an infinite box.
    """
    size = sum(int(np.prod(shape)) for shape in private.shapes.values())
    if size > LARGEST_DIMENSION:
        raise Unsupported(
            "no sampler with a proof covers this many parameters yet",
            got=f"{size} scalar parameters",
            allowed=f"at most {LARGEST_DIMENSION} for the box sampler",
            do="fix or merge some parameters",
        )
    for rv in private.base.free_RVs:
        box = private.box[rv.name]
        if not str(rv.type.dtype).startswith("float") or box.within is not None:
            raise Unsupported(
                f"the box sampler cannot draw '{rv.name}'",
                got="a discrete or simplex-valued parameter",
                allowed="continuous parameters with an interval each",
                do="write the model with free continuous parameters (a Beta probability instead of "
                "a two-cell Dirichlet; marginalize discrete ones)",
            )
        if not box.is_finite:
            raise Unsupported(
                f"the box sampler needs ends for '{rv.name}'",
                got="an unbounded parameter",
                allowed="every parameter within a finite box",
                do="pmp.trim(private, mass=0.99), or box={...}",
            )
    return "boxes"
