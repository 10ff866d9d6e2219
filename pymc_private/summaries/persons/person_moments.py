r"""Noisy moments of the covariates of persons with several rows.

The reference holds persons, each with K places for rows, and is moved to the moments of the rows.
With a~ of a row whitened as in `reference.CovariateMoments`, and w as there, a person with k rows
adds

    (1 / k) sum_j w_j a~_j a~_j',

a mean of positive semidefinite matrices of norm at most K0, which is one itself. The number of rows
is among the columns, as a category. What varies within a person and what between is not told apart:
covariates of the person itself are best declared as such, with one entry per person.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pymc_private.models.data_variables import Source
from pymc_private.models.domains import Categories
from pymc_private.summaries.persons.person_density import PersonDensity
from pymc_private.summaries.scores.clipped_scores import Rows
from pymc_private.summaries.scores.reference import (
    CovariateMoments,
    CovariateReference,
    covariate_moments,
)


class PersonMoments:
    """The moments stage of persons (`score_release.MomentsStage`).

    Parameters
    ----------
    density : PersonDensity
    inner : CovariateMoments
        Of single rows.
    """

    def __init__(self, density: PersonDensity, inner: CovariateMoments) -> None:
        self.density, self.inner, self.bound = density, inner, inner.bound

    def terms(self, rows: Rows) -> np.ndarray:
        """What each person adds: packed matrices of norm at most `bound`, shape (c, size)."""
        flat, has = rows_of(self.density, rows), self.density.has_rows(rows)
        each = self.inner.terms(flat).reshape(*has.shape, -1)
        total = np.zeros((len(has), each.shape[2]))
        for k in range(has.shape[1]):
            total += np.where(has[:, k, None], each[:, k], 0.0)
        return total / np.maximum(has.sum(axis=1), 1)[:, None]

    def moved(
        self, reference: CovariateReference, noisy: np.ndarray, sd: float, n: float | None = None
    ) -> CovariateReference:
        """A reference whose rows have the moments of the noisy sum."""
        density, has = self.density, self.density.has_rows(reference.rows)
        share = has / has.sum(axis=1)[:, None]
        flat = CovariateReference(
            rows_of(density, reference.rows),
            (reference.weights[:, None] * share).ravel(),
            units_of_rows(density, reference.units),
        )
        found = self.inner.moved(flat, noisy, sd, n)
        rows = dict(reference.rows)
        for source in density.covariates:
            if source.name in found.rows:
                values = np.asarray(found.rows[source.name]).reshape(
                    *has.shape, *_of_row(density, source)
                )
                if not is_of_rows(density, source):
                    whole = (values * share.reshape(*share.shape, *[1] * (values.ndim - 2))).sum(
                        axis=1
                    )
                    values = _like(source, whole, values)
                rows[source.name] = values
        weights = np.asarray(found.weights).reshape(has.shape).sum(axis=1)
        return CovariateReference(rows, weights / weights.sum(), reference.units)

    def refined(self, moved: CovariateReference) -> PersonMoments:
        """The same stage around a moved reference."""
        return PersonMoments(self.density, self.inner.refined(flat_reference(self.density, moved)))


def person_moments(density: PersonDensity, reference: CovariateReference) -> PersonMoments | None:
    """The moments stage of a model of persons; None if nothing private has moments to release."""
    flat = flat_reference(density, reference)
    inner = covariate_moments(_SingleRows(density), flat)
    return None if inner is None else PersonMoments(density, inner)


class _SingleRows:
    """Covariates as single rows have them (`reference.CovariateReader`)."""

    def __init__(self, density: PersonDensity) -> None:
        self.covariates = tuple(
            replace(s, shape=(s.shape[0] * density.width, *s.shape[2:]), axis=0)
            if is_of_rows(density, s)
            else s
            for s in density.covariates
        )
        self.public_rows: Rows = {}
        self.labels: dict[str, int] = {}


def is_of_rows(density: PersonDensity, source: Source) -> bool:
    """Whether a covariate has an entry for each place."""
    return source.name in density.of_rows


def _of_row(density: PersonDensity, source: Source) -> tuple[int, ...]:
    return source.row_shape[1:] if is_of_rows(density, source) else source.row_shape


def _like(source: Source, whole: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean over places of numbers; of what is no quantity, the first."""
    is_number = not (source.is_whole or _has_levels(source))
    return whole if np.ptp(values, axis=1).any() and is_number else values[:, 0]


def rows_of(density: PersonDensity, rows: Rows) -> dict[str, np.ndarray]:
    """All places of persons as single rows, shape (N K, ...)."""
    found = {}
    for source in density.covariates:
        values = np.asarray(rows[source.name])
        if is_of_rows(density, source):
            found[source.name] = values.reshape(-1, *values.shape[2:])
        else:
            found[source.name] = np.repeat(values, density.width, axis=0)
    return found


def units_of_rows(density: PersonDensity, units: Rows) -> dict[str, np.ndarray]:
    """Uniform numbers of the levels of single rows.

    What a person has once comes first: drawn before what differs between rows, it is the same at
    all places of the person. Where levels of rows are known, it keeps its level, as the number of
    rows always does.
    """
    drawn = [s for s in density.covariates if s.name in units and s.name != density.count]
    rows = [s for s in density.covariates if is_of_rows(density, s) and _has_levels(s)]
    persons = [s for s in drawn if not is_of_rows(density, s)]
    found = {}
    if all(s.name in units for s in rows):
        found = {s.name: np.repeat(units[s.name], density.width, axis=0) for s in persons}
    for source in drawn:
        if is_of_rows(density, source):
            unit = np.asarray(units[source.name])
            found[source.name] = unit.reshape(len(unit) * density.width, -1)
    return found


def _has_levels(source: Source) -> bool:
    return isinstance(source.domain, Categories)


def flat_reference(density: PersonDensity, reference: CovariateReference) -> CovariateReference:
    """The rows that persons of a reference have, of one weight in a person."""
    has = density.has_rows(reference.rows)
    weights = reference.weights[:, None] * has / has.sum(axis=1)[:, None]
    return CovariateReference(rows_of(density, reference.rows), weights.ravel())
