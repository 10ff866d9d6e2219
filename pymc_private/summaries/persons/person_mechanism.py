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
from pymc_private.models.reference_rows import KnownCovariates
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.summaries.persons.person_density import PersonDensity, PersonModel
from pymc_private.summaries.persons.person_moments import person_moments
from pymc_private.summaries.persons.person_nodes import pairs_for
from pymc_private.summaries.protocol import Caution
from pymc_private.summaries.scores.reference import given_rows, reference_rows
from pymc_private.summaries.scores.score_mechanism import ScoreMechanism
from pymc_private.summaries.scores.score_model import AGREEMENT_OF_RULES, GRADIENT_AGREEMENT

LARGE_PERSONS, SMALL_PERSONS = 128, 64
"""Persons in the reference of pilots and bounds, and in that of the likelihood."""
ERROR_AT_64, LARGEST_ERROR = 0.8, 0.3
"""Error of a sum by 64 nodes and 1,000 persons, in its standard deviations, and the largest that is
not spoken of."""


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
    _refuse_known(reference)
    density = PersonDensity(private)
    count = (n or ASSUMED_N) if private.neighbors == ADD_REMOVE else private.record_count
    model = PersonModel(density, _ends(density), pairs_for(count, density.family.most_pairs))
    large = reference_rows(private, density, LARGE_PERSONS, given=reference)
    small = reference_rows(private, density, SMALL_PERSONS, skip=LARGE_PERSONS, given=reference)
    made = ScoreMechanism(
        model,
        large,
        small,
        mu,
        count,
        outcome=density.outcome.name,
        moments=person_moments(density, large),
        covariates=bool(density.covariates),
        public_rows=density.public_rows,
        relation=private.neighbors,
        records_per_unit=private.records_per_unit,
        given=given_rows(private, density, reference),
    )
    made.integrates_effects = True
    made.most_gap = AGREEMENT_OF_RULES if density.family.moves_nodes else GRADIENT_AGREEMENT
    made.doubts = tuple(node_cautions(model, count))
    return made


def node_cautions(model: PersonModel, count: float) -> list[Caution]:
    """What a plan says of nodes that are few for so many persons."""
    error = ERROR_AT_64 * 32.0 / model.pairs * np.sqrt(count / 1000.0)
    if model.takes_all_patterns or error <= LARGEST_ERROR:
        return []
    return [
        Caution(
            f"the answers of a person are summed over at {2 * model.pairs} nodes: sums of scores "
            f"may be off by {error:.2g} of their standard deviations, mostly those of scales, and "
            "intervals be too narrow; plan.coverage() simulates how often they hold"
        )
    ]


def _refuse_tables(private: PrivateModel) -> None:
    """Refuse placeholder rows: a table has one line per row, not per person."""
    if private.table_rows is not None:
        raise Unsupported(
            "persons with several rows are read from the model, not from a table",
            got=f"n={private.table_rows} in privatize",
            allowed="a model that holds the rows",
            do="the rows in the model, without n=",
        )


def _refuse_known(reference: Any) -> None:
    """Refuse known covariates, which are for records of one row."""
    if isinstance(reference, KnownCovariates):
        raise Unsupported(
            "known covariates are for records of one row",
            got="persons with several rows",
            do="give the rows as a plain reference=",
        )


def _ends(density: PersonDensity) -> tuple[float, float]:
    """The ends to which outcomes are clipped."""
    domain = density.outcome.domain
    if not isinstance(domain, Interval):
        return -np.inf, np.inf
    bounds = domain.bounds(density.outcome.row_shape)
    return float(np.min(bounds.lower)), float(np.max(bounds.upper))
