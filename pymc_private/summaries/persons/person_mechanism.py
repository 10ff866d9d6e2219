"""Noisy scores of persons with several rows: density, references and budget put together (T36).

The mechanism is that of single rows (`scores.score_mechanism`): a person is one record, whose
covariates are those of all rows and whose outcome is the vector of all answers. Reads the model and
its declared domain, never the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_private.errors import Unsupported
from pymc_private.models.domains import Interval
from pymc_private.models.information import ASSUMED_N
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.summaries.persons.person_density import PersonDensity, PersonModel
from pymc_private.summaries.persons.person_moments import person_moments
from pymc_private.summaries.scores.reference import reference_rows
from pymc_private.summaries.scores.score_mechanism import ScoreMechanism

LARGE_PERSONS, SMALL_PERSONS = 128, 64
"""Persons in the reference of pilots and bounds, and in that of the likelihood."""


def person_score_mechanism(
    private: PrivateModel, mu: float, *, reference: Any = None, n: int | None = None
) -> ScoreMechanism:
    """Noisy scores of a model of persons at a budget of mu.

    Parameters
    ----------
    private : PrivateModel
        Of a model that `marginalize` made with `rows_per_record`.
    mu : float
        Gaussian privacy of the whole release.
    reference : mapping of str to array, optional
        A *public* sample of persons; default: their domains.
    n : int, optional
        Under add/remove: a public guess of the number of persons.

    Raises
    ------
    Unsupported
        A family, a link or an effect that scores of persons do not know.
    DomainError
        An improper prior, or a reference that does not fit.
    """
    _refuse_tables(private)
    density = PersonDensity(private)
    model = PersonModel(density, _ends(density))
    large = reference_rows(private, density, LARGE_PERSONS, given=reference)
    small = reference_rows(private, density, SMALL_PERSONS, skip=LARGE_PERSONS, given=reference)
    made = ScoreMechanism(
        model,
        large,
        small,
        mu,
        (n or ASSUMED_N) if private.neighbors == ADD_REMOVE else private.record_count,
        outcome=density.outcome.name,
        moments=person_moments(density, large),
        covariates=bool(density.covariates),
        public_rows=density.public_rows,
        relation=private.neighbors,
        records_per_unit=private.records_per_unit,
    )
    made.integrates_effects = True
    return made


def _refuse_tables(private: PrivateModel) -> None:
    """Refuse placeholder rows: a table has one line per row, not per person."""
    if private.table_rows is not None:
        raise Unsupported(
            "persons with several rows are read from the model, not from a table",
            got=f"n={private.table_rows} in privatize",
            allowed="a model that holds the rows",
            do="the rows in the model, without n=",
        )


def _ends(density: PersonDensity) -> tuple[float, float]:
    """The ends to which outcomes are clipped."""
    domain = density.outcome.domain
    if not isinstance(domain, Interval):
        return -np.inf, np.inf
    bounds = domain.bounds(density.outcome.row_shape)
    return float(np.min(bounds.lower)), float(np.max(bounds.upper))
