"""Private probability vectors and noisy counts: `dirichlet`, `noisy_counts`, `count_posterior`.

Draws from Dirichlet posteriors are exactly priced by pairs of Beta or Gamma distributions
(T9-T12); the alternative is integer noise on the counts followed by draws from the posterior
of the probabilities given the noisy counts (T26).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import numpy as np

from pymc_private.counts.denoise.families import TablePosterior
from pymc_private.counts.denoise.posterior import NoisyTable, noisy_posterior
from pymc_private.counts.noise_plan import (
    FREE_DRAWS,
    CountDesign,
    CountPlan,
    as_profiles,
    plan_counts,
)
from pymc_private.counts.publish import (
    INTEGER_GRID,
    check_memory,
    check_whole_numbers,
    denoised_job,
    dirichlet_job,
    draw_probabilities,
    has_whole_counts,
    noisy_count_job,
    publish,
)
from pymc_private.counts.table_counts import counted_tables, refuse_table_words
from pymc_private.counts.tables import (
    CountFamily,
    CountTables,
    as_tables,
    check_minimum,
    check_relation,
    common_total,
)
from pymc_private.errors import DomainError, Incompatible
from pymc_private.ledger import Ledger
from pymc_private.privacy.argument_kinds import NUMBER, TEXT, takes
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN, CountBudget, discrete_laplace_sd
from pymc_private.privacy.validation import (
    MAX_COUNT,
    check_count,
    check_flags,
    check_nonnegative,
    check_positive,
    is_number,
    refuse_mask,
)
from pymc_private.release.charge import (
    ReleaseKeywords,
    ReleaseOptions,
    takes_release_keywords,
)
from pymc_private.release.release import Release, check_release


@takes_release_keywords
@takes(method=TEXT, neighbors=TEXT, unit=TEXT, minimum=NUMBER)
def dirichlet(
    counts: Any = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rdp: tuple[float, float] | None = None,
    zcdp: float | None = None,
    method: str = "auto",
    prior: Any = None,
    neighbors: str = SUBSTITUTE,
    unit: str = "row",
    sensitivity: tuple[float, float] | None = None,
    minimum: float = 0.0,
    draws: int | None = None,
    profile: Any = None,
    ledger: Ledger | None = None,
    data: Any = None,
    categories: Mapping[str, Any] | None = None,
    tables: Mapping[str, Sequence[str]] | None = None,
    n: int | None = None,
    id: str | None = None,
    records_per_unit: int = 1,
    **options: Unpack[ReleaseKeywords],
) -> Release:
    """Draw probability vectors from counts, privately.

    One record is counted in one cell of each family of tables. The budget pays for all families
    and all draws together: a family costs one pair of Beta distributions (Gamma distributions under
    ``neighbors="add_remove"``), whatever its number of tables (T11).

    Parameters
    ----------
    counts : array, DataArray, Series, or mapping of names to these
        Shape (..., d): counts >= 0, the simplex last. ``{"age": ..., "region": ...}`` are two
        families. Integers for ``method="noisy"``.
    epsilon, delta : float
        Budget in nats; delta = 0 leaves pure noise only.
    rdp : tuple of float
        Budget (order, divergence) instead; `delta` says where the ledger takes it.
    zcdp : float
        Budget rho instead, likewise; noise only.
    method : {"auto", "exact", "algorithm1", "noisy"}
        "exact" draws from Dir(r f + alpha) at its exact price; "algorithm1" is Ponnoprat's
        calibration; "noisy" adds integer noise and draws from the posterior of the probabilities
        given the noisy counts, with the public total and shared margins taken into account. "auto"
        takes the one that is expected to cost less accuracy at the public profile; of several
        tables noise up to a tenth above, since they correct each other. Counts with fractions
        (weighted records) are drawn as "exact"; that they have them is taken for public.
    prior : float or array, optional
        Prior parameters: then draws are from the posterior itself (r = 1) if the budget allows,
        else from the one whose likelihood has the largest power that fits.
    neighbors : {"substitute", "add_remove"}
    unit : {"row", "attribute"}
        What is protected: a row, or one attribute of a row; the latter needs named axes, and a
        ledger with ``neighbors="attribute"``.
    sensitivity : tuple of float, optional
        (squared Euclidean, largest) change of a vector statistic that is no histogram.
    minimum : float
        Public lower bound of every count in every data set of the domain; data below it are
        refused.
    draws : int, optional
        Default 1 for Dirichlet draws, each of which is paid for; 500 for noise, whose posterior
        draws are free.
    profile : float, array or mapping, optional
        Public guess to judge accuracy by: a number of records, or counts of the same shape.
        Default: the public number of records. Never the private counts.
    ledger : Ledger, optional
        Default: the ledger of the context, else one in memory, with a warning.
    data, categories, tables, n, id
        Instead of counts, as in `noisy_counts`.
    records_per_unit : int
        Most records of a unit (T24); more than 1 is for noise only.
    **options
        ``name=``, ``data_version=``, ``save=``, ``again=``, ``random_seed=``: see `sample`.

    Returns
    -------
    Release
        ``.posterior`` holds probabilities strictly inside (0, 1), dims chain, draw, ...

    Raises
    ------
    DomainError, Incompatible, Unsupported, BudgetExceeded
        Nothing was charged.

    References
    ----------
    Ponnoprat (2023); theory T9-T12, T26.

    Examples
    --------
    >>> import pymc_private as pmp
    >>> ledger = pmp.Ledger(epsilon=1, delta="1e-5", shares={"approximate": "1e-5"})
    >>> release = pmp.dirichlet([119, 74, 618, 272], epsilon=1, delta=1e-5, ledger=ledger)
    >>> release.facts["counts"]["method"], release.posterior["p"].dims
    ('noisy', ('chain', 'draw', 'p_dim_0'))
    """
    keeping = ReleaseOptions(ledger, **options)
    budget = CountBudget.of(epsilon, delta, rdp, zcdp)
    words = _TableWords(data, categories, tables, n, id, records_per_unit)
    found = words.tables_of(counts, neighbors)
    stated = (prior, sensitivity, minimum, draws, profile, records_per_unit)
    if method == "auto" and not has_whole_counts(found):
        method = "exact"  # noise is for whole numbers: weights are public knowledge
    plan = plan_tables(found, budget, method, neighbors, unit, *stated)
    if plan.method != "noisy":
        return publish(plan, dirichlet_job(plan, found), keeping)
    check_whole_numbers(found)
    return publish(plan, denoised_job(plan, found), keeping)


@takes_release_keywords
@takes(neighbors=TEXT, unit=TEXT)
def noisy_counts(
    counts: Any = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rdp: tuple[float, float] | None = None,
    zcdp: float | None = None,
    neighbors: str = SUBSTITUTE,
    unit: str = "row",
    ledger: Ledger | None = None,
    data: Any = None,
    categories: Mapping[str, Any] | None = None,
    tables: Mapping[str, Sequence[str]] | None = None,
    n: int | None = None,
    id: str | None = None,
    records_per_unit: int = 1,
    **options: Unpack[ReleaseKeywords],
) -> Release:
    """Release counts with integer noise of a known distribution, for models of one's own.

    Parameters
    ----------
    counts : array, DataArray, Series, or mapping of names to these
        Whole numbers.
    epsilon, delta, rdp, zcdp, neighbors, unit
        As in `dirichlet`; the noise with the least standard deviation that fits is taken.
    ledger : Ledger, optional
        Default: the ledger of the context, else one in memory, with a warning.
    data : table, optional
        Instead of counts, a table of pandas, Polars (also lazy), PyArrow (also a dataset), DuckDB,
        Dask or Spark, which counts its rows by its own engine: once, after the ledger was asked and
        before it is charged, so that what is refused costs nothing.
    categories : mapping of str to sequence, or Bins; optional
        What each column of `data` may hold: declared, never learned. In the order of the axes.
    tables : mapping of str to sequence of str, optional
        Columns of each family of `data`, the simplex last. Default: one table "p" of all columns.
    n : int, optional
        The number of rows of `data`, which is public under substitution: another one is refused.
        Default: as many as there are, counted before the ledger is asked.
    id : str, optional
        The column of `data` that names the unit of each row, a person say. A unit with more rows
        than `records_per_unit` is refused.
    records_per_unit : int
        Most records of a unit, all of which are protected together (T24): the noise is so many
        times as large. Under substitution the number of records of each unit is public. Without
        `id` that nobody owns more is an assumption of the guarantee.
    **options
        ``name=``, ``data_version=``, ``save=``, ``again=``, ``random_seed=``: see `sample`.

    Returns
    -------
    Release
        One draw of integers, some of them negative; ``.facts["counts"]`` states noise and scale.
        `count_posterior` makes probabilities of them, at no cost.

    Raises
    ------
    DomainError, Incompatible, BudgetExceeded
        Nothing was charged.

    Examples
    --------
    >>> import pandas as pd, pymc_private as pmp
    >>> rows = pd.DataFrame({"smoker": ["no", "yes", "no"] * 40, "age": [17.0, 70.0, 33.0] * 40})
    >>> declared = {"smoker": ["no", "yes"], "age": pmp.counts.Bins([18, 65])}
    >>> release = pmp.counts.noisy_counts(data=rows, categories=declared, n=120, epsilon=1,
    ...                                   ledger=pmp.Ledger(epsilon=1))
    >>> release.posterior["p"].dims
    ('chain', 'draw', 'smoker', 'age')
    """
    keeping = ReleaseOptions(ledger, **options)
    budget = CountBudget.of(epsilon, delta, rdp, zcdp)
    words = _TableWords(data, categories, tables, n, id, records_per_unit)
    found = words.tables_of(counts, neighbors)
    profile = 1.0 if neighbors != SUBSTITUTE else None  # the noise does not depend on it
    stated: dict[str, Any] = {"profile": profile, "records_per_unit": records_per_unit}
    plan = plan_tables(found, budget, "noisy", neighbors, unit, **stated)
    check_whole_numbers(found)
    return publish(plan, noisy_count_job(plan, found), keeping)


def count_posterior(
    release: Release, *, draws: int = FREE_DRAWS, minimum: float = 0.0, consistent: bool = True
) -> dict[str, np.ndarray]:
    """Draw probabilities given released noisy counts: post-processing, which costs nothing.

    Parameters
    ----------
    release : Release
        Of `noisy_counts`.
    draws : int
    minimum : float
        Public lower bound of every count.
    consistent : bool
        Whether tables learn from each other and from the public total. Axes before the last that
        have one name in several tables count one attribute.

    Returns
    -------
    dict of str to array, shape (draws, ...)

    Raises
    ------
    Incompatible
        The release holds no noisy counts.
    """
    check_count(draws, "draws")
    check_flags(consistent=consistent)
    if not (is_number(minimum) and 0 <= minimum <= MAX_COUNT):
        raise DomainError(
            "minimum= is a public number of records", got=repr(minimum)[:40], allowed="0, 1, 2, ..."
        )
    variables = check_release(release).posterior.data_vars.values()
    check_memory(draws, sum(array.values[0, 0].size for array in variables))
    found = noisy_count_posterior(release, minimum=minimum, consistent=consistent)
    generator = np.random.default_rng()
    return {name: draw_probabilities(table, draws, generator) for name, table in found.items()}


def noisy_count_posterior(
    release: Release, *, minimum: float = 0.0, consistent: bool = True
) -> dict[str, TablePosterior]:
    """The posterior that `count_posterior` draws from."""
    facts = check_release(release).facts.get("counts", {})
    if "noise" not in facts or release.facts.get("grid") != INTEGER_GRID:
        raise Incompatible(
            "this release holds no noisy counts",
            do="make one with pymc_private.counts.noisy_counts",
        )
    tables = {
        str(name): NoisyTable(array.values[0, 0], tuple(map(str, array.dims[2:])))
        for name, array in release.posterior.data_vars.items()
    }
    distribution, scale = facts["noise"], float(facts["scale"])
    sd = scale if distribution == DISCRETE_GAUSSIAN else discrete_laplace_sd(scale)
    return noisy_posterior(tables, distribution, scale, sd, facts.get("total"), minimum, consistent)


class _TableWords(NamedTuple):
    """What is said of a table whose rows are counted."""

    data: Any
    categories: Any
    tables: Any
    n: int | None
    id: str | None
    records_per_unit: int

    def tables_of(self, counts: Any, neighbors: str) -> CountTables:
        """Counts as they are given, or those of a table's rows."""
        check_count(self.records_per_unit, "records_per_unit")
        if self.data is not None and counts is None:
            words = self.data, self.categories, self.tables, self.n, neighbors
            return counted_tables(*words, self.id, self.records_per_unit)
        said = self._asdict()
        del said["records_per_unit"]
        refuse_table_words(**said)
        return as_tables(counts)


def plan_tables(
    tables: CountTables,
    budget: CountBudget,
    method: str,
    neighbors: str,
    unit: str,
    prior: Any = None,
    sensitivity: tuple[float, float] | None = None,
    minimum: float = 0.0,
    draws: int | None = None,
    profile: Any = None,
    records_per_unit: int = 1,
) -> CountPlan:
    """Plan from public facts; data that contradict what was declared are refused."""
    families = tables.families
    check_nonnegative(minimum=minimum)
    check_relation(neighbors, unit)
    if draws is not None:
        check_memory(check_count(draws, "draws"), sum(math.prod(f.shape) for f in families))
    if not tables.counted_later:  # else when it is counted
        check_minimum(tables, minimum)
    if sensitivity is not None and (len(families) > 1 or families[0].tables > 1):
        got, one_each = f"{len(families)} tables", "a call, and a charge, for each vector"
        raise DomainError("a sensitivity is declared for one vector", got=got, do=one_each)
    total = None
    if neighbors == SUBSTITUTE and sensitivity is None:
        total = common_total(tables)
    if sensitivity is not None and profile is None:
        raise DomainError(
            "the total of a vector statistic is private",
            got="profile=None",
            do="profile=1000 for a public guess of its sum",
        )
    design = CountDesign(
        families, neighbors, unit, float(minimum),
        None if draws is None else check_count(draws, "draws"), total,
        as_profiles(families, profile, total, neighbors), _prior_parameters(prior, families),
        sensitivity, records_per_unit,
    )  # fmt: skip
    return plan_counts(budget, design, method)


def _prior_parameters(
    prior: Any, families: tuple[CountFamily, ...]
) -> tuple[np.ndarray, ...] | None:
    if prior is None:
        return None
    named = (
        prior if isinstance(prior, Mapping) else dict.fromkeys((f.name for f in families), prior)
    )
    found = []
    for family in families:
        refuse_mask(named.get(family.name), "prior parameters")
        try:
            array = np.broadcast_to(np.asarray(named[family.name], float), family.shape)
        except (KeyError, ValueError, TypeError, OverflowError) as cause:
            raise DomainError(
                f"the prior of {family.name!r} is missing or has another shape",
                allowed=f"a number, or shape {family.shape}",
            ) from cause
        check_positive(**{"the least prior parameter": float(array.min())})
        found.append(np.array(array))
    return tuple(found)
