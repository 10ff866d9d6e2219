"""Noisy scores of a private model: its density, references and budget put together.

Reads the model and its declared domain, never the data.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pymc_private.models.domains import Categories
from pymc_private.models.information import ASSUMED_N
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.reference_rows import KnownCovariates
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.summaries.density.outcome_nodes import check_mass
from pymc_private.summaries.density.outcome_support import outcome_support
from pymc_private.summaries.density.peak_knots import peak_knots
from pymc_private.summaries.density.quadrature_model import QuadratureModel
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.persons.person_density import rows_of_persons
from pymc_private.summaries.persons.person_mechanism import person_score_mechanism
from pymc_private.summaries.scores.group_labels import refuse_tiny_groups, refuse_wrong_labels
from pymc_private.summaries.scores.known_covariates import refuse_unfit_sample, with_moments_of
from pymc_private.summaries.scores.marginal_moments import covariate_stage
from pymc_private.summaries.scores.pilot_part import LEAST_IN_MEMORY, PilotPart, pilot_part
from pymc_private.summaries.scores.reference import CovariateReference, given_rows, reference_rows
from pymc_private.summaries.scores.reference_levels import RowsPerLevel, rows_by_level
from pymc_private.summaries.scores.score_budget import are_many
from pymc_private.summaries.scores.score_mechanism import ScoreMechanism

LARGE_ROWS = 128
"""Rows of the reference for pilots and bounds."""
SMALL_ROWS, SMALL_ROWS_OF_LEVELS = 40, 100
"""Rows of the reference for the likelihood; more where the outcome has few values."""
ROWS_OF_INDICATOR, ROWS_OF_INDICATOR_OF_LEVELS, LARGE_ROWS_OF_INDICATOR = 6, 12, 48
MOST_ROWS, MOST_LARGE_ROWS, MOST_OF_ENTRY = 256, 1024, 4
"""About so many rows for each indicator of categories whose levels are drawn or come from public
rows, of which an entry has four at most, and the most rows in all. On 40 rows with nine rare levels
means were a fifth to twice as steep as on 128. Of a Poisson regression with nine, epsilon 1/2, on
512 rows of four public samples 5 to 20% of 40 summaries were refused, 11 to 22% expected; on 128
rows 0 to 55%, 0 to 43% expected, and not of the same samples."""
LARGE_BY_LEVEL = RowsPerLevel(LARGE_ROWS, least=8, most=1024)
"""Rows in each group where records read coefficients of their own group."""
LEAST_OF_SMALL, MOST_OF_SMALL = 4, 256
FEW_LEVELS = 6
"""So many values of an outcome are few."""


def score_mechanism(
    private: PrivateModel, mu: float, *, reference: Any = None, n: int | None = None
) -> ScoreMechanism:
    """Noisy scores of a model at a budget of mu.

    Parameters
    ----------
    private : PrivateModel
    mu : float
        Gaussian privacy of the whole release.
    reference : mapping of str to array, or data frame, optional
        A *public* sample of covariates, or `KnownCovariates`; default: their domains.
    n : int, optional
        Under add/remove: a public guess of the number of records.

    Raises
    ------
    Unsupported
        The model is not row-wise with one scalar outcome, or its probabilities do not sum to one;
        known covariates of a hierarchy.
    DomainError
        An improper prior, a reference that does not fit, or labels of groups that do not; known
        covariates that leave out one.
    NotInformative
        Groups that are too small for the budget.
    """
    if rows_of_persons(private) is not None:
        return person_score_mechanism(private, mu, reference=reference, n=n)
    density = RecordDensity(private, of_coefficients=True)
    guess = (n or ASSUMED_N) if private.neighbors == ADD_REMOVE else private.record_count
    if density.labels:
        refuse_wrong_labels(density.labels, density.covariates, density.public_rows)
        refuse_tiny_groups(density.parameters.size, guess, mu)
    known, given = isinstance(reference, KnownCovariates), given_rows(private, density, reference)
    if known:
        refuse_unfit_sample(density, given)
    large, indicators = _large_reference(private, density, reference)
    model, few = _outcome_model(private, density, large)
    count = _small_rows(few, indicators)
    small = reference_rows(private, density, count, _large_rows(indicators), reference)
    if density.labels:
        large, small = _with_all_groups(private, density, reference, count, (large, small))
    moments = covariate_stage(density, large)
    if known:
        large, small = with_moments_of(given, moments, (large, small))
    return ScoreMechanism(
        model,
        large,
        small,
        mu,
        guess,
        outcome=density.outcome.name,
        moments=None if known else moments,
        covariates=bool(density.covariates) and not known,
        public_rows=density.public_rows,
        relation=private.neighbors,
        records_per_unit=private.records_per_unit,
        part=_pilot_part(private, density, guess, mu),
        many=few and not density.labels and are_many(guess, density.parameters.size, mu),
        given=given,
        known=known,
    )


def _outcome_model(
    private: PrivateModel, density: RecordDensity, large: CovariateReference
) -> tuple[QuadratureModel, bool]:
    """The density with nodes of its outcome, whose mass is checked; whether these are few."""
    model = QuadratureModel(density, outcome_support(private, density.outcome))
    model = replace(model, knots=peak_knots(density, model.support, large.rows))
    nodes = model.nodes(model.predictors(density.parameters.mean, large.rows), large.rows)
    of_reals = any(rv.type.dtype.startswith("float") for rv in private.base.observed_RVs)
    check_mass(nodes, density.outcome.name, of_reals and density.outcome.is_whole)
    return model, nodes.values.shape[1] <= FEW_LEVELS


def _large_reference(
    private: PrivateModel, density: RecordDensity, given: Any
) -> tuple[CovariateReference, int]:
    """The reference for pilots and bounds, and how many indicators it samples, few of each entry.

    A public sample and public columns are sampled, too: of 128 rows a rare level has a handful.
    """
    found = reference_rows(private, density, LARGE_ROWS, given=given)
    indicators = sum(
        math.prod(source.row_shape) * min(len(source.domain.values) - 1, MOST_OF_ENTRY)
        for source in density.covariates
        if (source.name in found.units or given is not None)
        and isinstance(source.domain, Categories)
    )
    public = [rows for name, rows in density.public_rows.items() if name not in density.labels]
    indicators += sum(map(_public_indicators, public))
    rows = _large_rows(indicators)  # of more combinations than the least, none keeps its levels
    found = reference_rows(private, density, rows, given=given, most_combinations=LARGE_ROWS)
    return found, indicators


def _with_all_groups(
    private: PrivateModel,
    density: RecordDensity,
    given: Any,
    count: int,
    references: tuple[CovariateReference, CovariateReference],
) -> tuple[CovariateReference, CovariateReference]:
    """References with rows of every group, about so many in the small one; else as they were."""
    large, small = references
    by_level = RowsPerLevel(count, LEAST_OF_SMALL, MOST_OF_SMALL)
    large = rows_by_level(private, density, LARGE_BY_LEVEL, given=given) or large
    skip = 2 ** len(large.weights).bit_length()
    return large, rows_by_level(private, density, by_level, skip, given) or small


def _public_indicators(values: np.ndarray) -> int:
    """How many indicators the columns of a public array have that take few values."""
    columns = np.asarray(values).reshape(len(values), -1).T
    levels = (len(np.unique(column)) - 1 for column in columns)
    return sum(count for count in levels if count <= MOST_OF_ENTRY)


def _large_rows(indicators: int) -> int:
    return _rows(LARGE_ROWS, LARGE_ROWS_OF_INDICATOR * indicators, MOST_LARGE_ROWS)


def _small_rows(few: bool, indicators: int) -> int:
    least, each = SMALL_ROWS, ROWS_OF_INDICATOR
    if few:
        least, each = SMALL_ROWS_OF_LEVELS, ROWS_OF_INDICATOR_OF_LEVELS
    return _rows(least, each * indicators, MOST_ROWS)


def _rows(least: int, wanted: int, most: int) -> int:
    """About the wanted rows, a power of 2, if these are more than the least."""
    return max(least, min(2 ** round(math.log2(max(wanted, 1))), most))


def _pilot_part(
    private: PrivateModel, density: RecordDensity, count: int, mu: float
) -> PilotPart | None:
    """The records that pilots read, of a large table or of very many records in memory."""
    few = private.table_rows is None and count < LEAST_IN_MEMORY
    if few or density.labels or density.public_rows:
        return None
    return pilot_part(count, mu)
