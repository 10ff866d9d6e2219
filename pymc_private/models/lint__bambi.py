"""Rules of `lint` about what Bambi computes from the data on its own."""

from __future__ import annotations

import numpy as np
from collections.abc import Iterator
from typing import Any
from pymc_private.models.bambi__formula import fitted_terms, parts_of
from pymc_private.models.lint_facts import Facts, Finding
from pymc_private.models.lint import is_plain

def automatic_prior(facts: Facts) -> Iterator[Finding]:
    """Bambi scaled a prior by the data: its `auto_scale` mark stands, and its numbers are odd."""
    if not facts.is_bambi or not facts.given.auto_scale:
        return
    for name, part in parts_of(facts.given).items():
        for term, holder in getattr(part, "terms", {name: part}).items():
            prior = getattr(holder, "prior", None)
            if getattr(prior, "auto_scale", False) and not _is_plain_prior(prior):
                yield Finding(
                    "automatic prior",
                    "warning",
                    f"the prior of '{term}'",
                    "Bambi chose this prior from the data's own means and sds",
                    f'bmb.Model(..., priors={{"{term}": {_code(prior)}}}, auto_scale=False)',
                )


def fitted_transform(facts: Facts) -> Iterator[Finding]:
    """A term of the formula remembers something of the data: scale(x), bs(x), hsgp(x), ..."""
    if not facts.is_bambi:
        return
    for term in fitted_terms(facts.given):
        yield Finding(
            "transform",
            "hint" if "knots" in term else "warning",
            f"the term '{term}'",
            "the transform takes its constants (means, sds, knots, ranges) from the data",
            "compute the column before the model by public constants, and name it in the "
            "formula: table['z'] = (table['x'] - low) / (high - low)",
        )


def _is_plain_prior(prior: Any) -> bool:
    """Whether all numbers of a Bambi prior, and of priors within it, are plain."""
    if hasattr(prior, "args"):
        return all(_is_plain_prior(value) for value in prior.args.values())
    values = np.asarray(prior)
    return values.dtype.kind not in "iuf" or all(map(is_plain, values.ravel().tolist()))


def _code(prior: Any) -> str:
    """A prior of the same kind to write, its scale left open."""
    if prior.name.startswith("Half"):
        return 'bmb.Prior("HalfNormal", sigma=...)'
    inner = prior.args.get("sigma")
    return f'bmb.Prior("Normal", mu=0, sigma={_code(inner) if hasattr(inner, "args") else "..."})'
