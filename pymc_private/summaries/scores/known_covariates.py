"""Covariates whose distribution is known: their references, and when a model may have them.

A public sample of the very distribution takes the place of what a summary else releases of the
covariates (`models.reference_rows.KnownCovariates`). References have some hundred of its rows, of
which a rare level has a handful; they get the moments of the whole sample as they else get those of
noisy sums (of a logistic regression on 12 dummies, n 10,000, epsilon 10, 90% intervals of the same
40 data sets held .84 on 512 rows as they were, .88 with these moments, and .89 where covariates are
not known).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_private.errors import DomainError, Unsupported
from pymc_private.summaries.scores.category_levels import category_levels
from pymc_private.summaries.scores.category_shares import CategoryShares
from pymc_private.summaries.scores.clipped_scores import Rows
from pymc_private.summaries.scores.marginal_moments import moment_rounds
from pymc_private.summaries.scores.reference import CovariateReader, CovariateReference

LEAST_ROWS, LEAST_OF_LEVEL = 200, 10
"""Fewest rows of a known distribution, and of each of its categories."""
NO_NOISE = 1e-6
"""Standard deviation that sums without noise are taken to have, in records."""


def refuse_unfit_sample(density: CovariateReader, given: Rows) -> None:
    """Refuse known covariates of hierarchies, beside public columns, in part, or by few rows."""
    if density.labels:
        raise Unsupported(
            "known covariates are for models whose records all read the same parameters",
            got=f"coefficients by {', '.join(density.labels)}",
            do="give the rows as a plain reference=",
        )
    if density.public_rows:
        raise Unsupported(
            "known covariates are for models without public columns, with which they may go "
            "together: a sample of the one does not tell how",
            got=f"public {', '.join(density.public_rows)}",
            do="declare these as private, too, and give them with the known ones; or give the rows "
            "as a plain reference=",
        )
    missing = [source.name for source in density.covariates if source.name not in given]
    if missing or not given:
        raise DomainError(
            "KnownCovariates hold all private covariates of a model",
            got="without " + (", ".join(missing) or "any: the model has none"),
            allowed=", ".join(source.name for source in density.covariates) or "no reference=",
            do="add them; or give the rows as a plain reference=",
        )
    _refuse_small(density, given)


def _refuse_small(density: CovariateReader, given: Rows) -> None:
    """Refuse a sample that is too small for a distribution."""
    if _length(given) < LEAST_ROWS:
        raise DomainError(
            "a known distribution is a large sample of it",
            got=f"{_length(given)} rows",
            allowed=f"{LEAST_ROWS} or more, better thousands",
            do="draw more rows of the distribution; or give these as a plain reference=",
        )
    ones = np.ones(_length(given))
    for block in category_levels(density.covariates):
        counts = block.shares(given, ones)
        if counts.min() < LEAST_OF_LEVEL:
            raise DomainError(
                f"a category of '{block.source.name}' is rare in the sample of its distribution",
                got=f"{counts.min():.0f} of {_length(given)} rows with "
                f"{block.levels[int(counts.argmin())]:g}",
                allowed=f"{LEAST_OF_LEVEL} or more of each",
                do="draw more rows; or declare the categories that occur",
            )


def with_moments_of(
    given: Rows, stage: Any, references: Sequence[CovariateReference]
) -> list[CovariateReference]:
    """References with the moments and the shares of a whole sample.

    Parameters
    ----------
    given : mapping of str to array
        The sample.
    stage : MomentsStage, MarginalMoments or None
        What would be released of the covariates, made of the first reference.
    references : sequence of CovariateReference
    """
    found = list(references)
    if stage is None:
        return found
    for _, stage_at in moment_rounds(stage):
        each = stage_at(found[0])
        total = _total(each, given)
        found = [each.moved(one, total, NO_NOISE, float(_length(given))) for one in found]
    return found


def _total(stage: Any, given: Rows) -> np.ndarray:
    """The sum over the sample of what a stage adds up."""
    if isinstance(stage, CategoryShares):
        ones = np.ones(_length(given))
        return np.concatenate([block.shares(given, ones) for block in stage.blocks])
    return np.asarray(stage.terms(given).sum(axis=0))


def _length(rows: Rows) -> int:
    return len(next(iter(rows.values())))
