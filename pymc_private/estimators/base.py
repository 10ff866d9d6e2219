"""Common base of the estimators: declared tables, one charge per fit, updates, warnings.

Several releases of the same tables are combined into one estimate: noisy counts of new records
are added, those of the same records averaged, Dirichlet draws averaged. All of that is
post-processing. The warnings concern what a fit can see of its surroundings: other fits of the
same records, and transformations that were learned from them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr

from pymc_private.counts.counting import FamilyColumns, count_tables
from pymc_private.counts.declared_columns import DeclaredColumn, axis_labels
from pymc_private.counts.denoise.posterior import NoisyTable
from pymc_private.counts.denoise.shrinkage import shrinkage_posterior
from pymc_private.counts.dirichlet import plan_tables
from pymc_private.counts.noise_plan import CountPlan
from pymc_private.counts.publish import dirichlet_job, draw_probabilities, noisy_count_job, publish
from pymc_private.counts.tables import CountTables, common_total, declared_tables
from pymc_private.errors import DomainError, Incompatible, PrivacyWarning
from pymc_private.ledger import Ledger
from pymc_private.privacy import Guarantee
from pymc_private.privacy.argument_kinds import SEED, TEXT
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN, CountBudget
from pymc_private.release import display
from pymc_private.release.charge import ReleaseOptions, check_ledger
from pymc_private.release.release import Release

SEEDED_MARK = f"{display.NOT_PRIVATE} (seeded)"
NEW_RECORDS_ASSUMPTION = (
    "no record of an update with new records was in an earlier fit or update, here or of a copy"
)
REFITS_WARNING = (
    "cross-validation, ensembles and the like fit the same records again and again, and scores "
    "look at private rows"
)
REFITTING_MODULES = (
    "sklearn.model_selection", "sklearn.ensemble", "sklearn.calibration", "sklearn.multiclass",
    "sklearn.multioutput", "sklearn.feature_selection", "sklearn.semi_supervised",
    "sklearn.inspection", "sklearn.learning_curve",
)  # fmt: skip
"""Parts of scikit-learn that fit an estimator more than once, or look at its scores."""
MAX_EQUAL_STEPS = 64
"""Most equal steps, or shares of the records, that edges are compared with."""


class CountEstimator(BaseEstimator):
    """Tables of probabilities from one charge: what the estimators have in common."""

    epsilon: float
    delta: float
    method: str
    neighbors: str
    unit: str
    draws: int | None
    profile: Any
    ledger: Ledger | None
    name: str | None
    random_state: int | None

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of the fitted tables, updates included."""
        return self._fitted()[-1].accumulated

    @property
    def release_(self) -> Release:
        """The last release: noisy counts, or probabilities."""
        return self._fitted()[-1].release

    @property
    def private_(self) -> bool:
        """False after a fit with ``random_state``."""
        return all(part.release.private for part in self._fitted())

    @property
    def method_(self) -> str:
        """What was chosen: "exact", "algorithm1" or "noisy"."""
        return self._fitted()[-1].plan.method

    def posterior_draws(self, draws: int = 100) -> dict[str, np.ndarray]:
        """Draw tables from the posterior, at no cost.

        Of noisy counts: any number. Of Dirichlet draws: those that were paid for, whatever `draws`.

        Parameters
        ----------
        draws : int

        Returns
        -------
        dict of str to array, shape (draws, ...)
        """
        return combine_parts(self._fitted()).draw(draws)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # scikit-learn breaks a text into lines only for classes that inherit `__repr__`.
        kind = type(type(self).__name__, (BaseEstimator,), {"__init__": type(self).__init__})
        plain: BaseEstimator = object.__new__(kind)
        vars(plain).update(vars(self))
        return self._mark(f"{SEEDED_MARK}:\n") + BaseEstimator.__repr__(plain, N_CHAR_MAX)

    def _html_repr(self) -> str:
        """Mark a seeded fit above scikit-learn's diagram too."""
        return self._mark(f"<p><strong>{SEEDED_MARK}</strong></p>") + estimator_html_repr(self)

    def _mark(self, text: str) -> str:
        """The text if a fit was seeded, else nothing."""
        parts: Sequence[ReleasePart] = getattr(self, "parts_", ())
        return "" if all(part.release.private for part in parts) else text

    def _fitted(self) -> list[ReleasePart]:
        parts: list[ReleasePart] | None = getattr(self, "parts_", None)
        if parts is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return parts

    def _fit_tables(
        self,
        frame: Any,
        families: FamilyColumns,
        columns: Mapping[str, DeclaredColumn],
        records: str,
    ) -> None:
        """Count, charge, release, and keep the tables; `records` is "first", "new" or "same"."""
        parts = [] if records == "first" else list(self._fitted())
        check_ledger(self.ledger)
        refuse_refits(self.ledger, self.random_state, self.name)
        warn_of_seeds(self.random_state)
        budget = CountBudget.of(self.epsilon, self.delta)
        warn_of_pipelines()
        warn_of_edges(frame, columns)
        tables = self._tables(count_tables(frame, families, columns), families, columns)
        if records == "new":
            plan = _same_plan(parts[-1].plan, tables)
        else:
            plan = plan_tables(
                tables, budget, self.method, self.neighbors, TEXT.of(self.unit, "unit", "fit"),
                draws=self.draws, profile=self.profile,
            )  # fmt: skip
            plan = with_assumptions(plan, self._extra_assumptions())
        check_update(parts, plan, records)
        job = (noisy_count_job if plan.method == "noisy" else dirichlet_job)(plan, tables)
        release = publish(plan, job, self._release_options(parts, records))
        accumulated = _accumulated_guarantee(parts, release, records)
        self.parts_ = [*parts, ReleasePart(release, plan, records, accumulated)]
        self.tables_ = combine_parts(self.parts_).mean()

    @contextmanager
    def _restored_unless_released(self) -> Iterator[None]:
        """Restore all attributes where an error comes before a release."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            if getattr(self, "parts_", None) is before.get("parts_"):
                self.__dict__.clear()
                self.__dict__.update(before)
            raise

    def _release_options(self, parts: list[ReleasePart], records: str) -> ReleaseOptions:
        """Ledger, name and seed of a release; for new records, the charges that cover them."""
        name = self.name if not parts or self.name is None else f"{self.name}, {len(parts) + 1}"
        seed = _seed_of_part(self.random_state, len(parts))
        covered = charged_heads(parts) if records == "new" else frozenset[str]()
        return ReleaseOptions(self.ledger, name, random_seed=seed, covered=covered, keep=False)

    def _check_target(self, frame: Any, name: str) -> None:
        columns = nw.from_native(frame).collect_schema().names()
        if name not in columns:
            raise DomainError(
                "the target is no column of the frame",
                got=repr(name),
                allowed=", ".join(map(str, columns)),
                do="name a column, or pass the target itself as y",
            )

    def _extra_assumptions(self) -> tuple[str, ...]:
        """Assumptions of the estimator beside those of the plan."""
        return ()

    def _tables(
        self,
        counts: Mapping[str, np.ndarray],
        families: FamilyColumns,
        columns: Mapping[str, DeclaredColumn],
    ) -> CountTables:
        labels = {name: axis_labels(column) for name, column in columns.items()}
        return declared_tables(counts, families, labels)


def _same_plan(plan: CountPlan, tables: CountTables) -> CountPlan:
    """The plan of earlier records for new ones: then one guarantee covers both."""
    total = common_total(tables) if plan.design.neighbors == SUBSTITUTE else None
    return with_assumptions(
        replace(plan, design=replace(plan.design, total=total)), (NEW_RECORDS_ASSUMPTION,)
    )


def _accumulated_guarantee(
    parts: Sequence[ReleasePart], release: Release, records: str
) -> Guarantee:
    """The guarantee of all parts and a new release of some records.

    Releases of the same records compose. Of new records one guarantee covers all (parallel
    composition), which assumes that they are new. A seeded release guarantees nothing.
    """
    if not parts:
        return release.guarantee
    before = parts[-1].accumulated
    if records == "same" or not release.private:
        return before + release.guarantee
    assumed = dict.fromkeys((*before.assumptions, *release.guarantee.assumptions))
    return replace(before, assumptions=tuple(assumed))


def _seed_of_part(random_state: Any, part: int) -> int | None:
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(SEED.of(random_state, "random_state", "fit")) + part


def as_pandas(frame: Any) -> pd.DataFrame:
    """Collect a frame of any engine."""
    if isinstance(frame, pd.DataFrame):
        return frame
    found = nw.from_native(frame)
    eager = found.collect() if isinstance(found, nw.LazyFrame) else found
    return eager.to_pandas()


def is_frame(data: Any) -> bool:
    """Whether data are a frame of an engine that narwhals knows."""
    return isinstance(nw.from_native(data, pass_through=True), nw.DataFrame | nw.LazyFrame)


def check_same_length(frame: pd.DataFrame, y: Any) -> None:
    """Refuse a target that has not one value for each row."""
    if np.ndim(y) != 1 or len(frame) != len(y):
        raise DomainError(
            "X and y have one row for each record",
            got="other lengths",
            allowed="y of one dimension, as long as X",
        )


def check_records(records: str) -> str:
    """Refuse an update that does not say whether its records are new."""
    if not isinstance(records, str) or records not in ("new", "same"):
        raise DomainError(
            "an update says whose records it brings",
            got=repr(records),
            allowed='"new" if no record was in an earlier fit (one guarantee covers each record), '
            '"same" if it brings all of them again (charged again)',
        )
    return records


@dataclass(frozen=True)
class ReleasePart:
    """One release of a fit or update.

    Attributes
    ----------
    release : Release
    plan : CountPlan
    records : {"first", "new", "same"}
    accumulated : Guarantee
        Of all parts up to this one.
    """

    release: Release
    plan: CountPlan
    records: str
    accumulated: Guarantee


def combine_parts(parts: Sequence[ReleasePart]) -> NoisyParts | DrawnParts:
    """The estimate by all parts, which are of one method."""
    return NoisyParts(parts) if parts[0].plan.method == "noisy" else DrawnParts(parts)


class NoisyParts:
    """Noisy counts of several parts: those of new records add, of the same records average."""

    def __init__(self, parts: Sequence[ReleasePart]) -> None:
        sums: list[tuple[dict[str, np.ndarray], float, float | None]] = []
        for part in parts:
            released = part.release.posterior  # each access makes a copy
            values = {
                f.name: released.variables[f.variable].values[0, 0].astype(float)
                for f in part.plan.design.families
            }
            variance = part.plan.noise.sd**2 if part.plan.noise is not None else 0.0
            total = part.plan.design.total
            if not sums:
                sums = [(values, variance, total)]
                continue
            before, earlier, size = sums[-1]
            if part.records == "same":
                weight = earlier / (earlier + variance)
                mixed = {k: (1 - weight) * before[k] + weight * v for k, v in values.items()}
                sums[-1] = (mixed, earlier * variance / (earlier + variance), size)
            else:
                added = {k: before[k] + v for k, v in values.items()}
                both = None if size is None or total is None else size + total
                sums[-1] = (added, earlier + variance, both)
        values, variance, total = sums[-1]
        first = parts[0].plan
        distribution, scale = DISCRETE_GAUSSIAN, variance**0.5
        if len(parts) == 1 and first.noise is not None:
            distribution, scale = first.noise.distribution, first.noise.scale
        noisy = {
            f.name: NoisyTable(np.round(values[f.name]).astype(np.int64), f.dims)
            for f in first.design.families
        }
        known = total if first.design.neighbors == SUBSTITUTE else None
        self.posterior = shrinkage_posterior(
            noisy, distribution, scale, variance**0.5, known, first.design.minimum
        )

    def mean(self) -> dict[str, np.ndarray]:
        """Posterior means."""
        return {name: table.mean() for name, table in self.posterior.items()}

    def draw(self, draws: int) -> dict[str, np.ndarray]:
        """Posterior draws."""
        generator = np.random.default_rng()
        return {n: draw_probabilities(t, draws, generator) for n, t in self.posterior.items()}


class DrawnParts:
    """Dirichlet draws of several parts, averaged by their number of records."""

    def __init__(self, parts: Sequence[ReleasePart]) -> None:
        sizes = [p.plan.design.total or 1.0 for p in parts]
        weights = np.array(sizes) / sum(sizes)
        released = [part.release.posterior for part in parts]  # each access makes a copy
        self.draws = {
            f.name: sum(
                w * drawn.variables[f.variable].values[0]
                for w, drawn in zip(weights, released, strict=True)
            )
            for f in parts[0].plan.design.families
        }

    def mean(self) -> dict[str, np.ndarray]:
        """Means over the draws."""
        return {name: np.asarray(draws).mean(axis=0) for name, draws in self.draws.items()}

    def draw(self, draws: int) -> dict[str, np.ndarray]:
        """The released draws, whatever number is asked for."""
        return {name: np.asarray(drawn) for name, drawn in self.draws.items()}


def with_assumptions(plan: CountPlan, more: tuple[str, ...]) -> CountPlan:
    """The plan with further assumptions of its guarantee."""
    united = (*plan.guarantee.assumptions, *more)
    return replace(plan, guarantee=replace(plan.guarantee, assumptions=united))


def charged_heads(parts: Sequence[ReleasePart]) -> frozenset[str]:
    """Ledger heads of the charges of all parts; a seeded part was never charged."""
    heads = (part.release.facts.get("ledger_head") for part in parts if part.release.private)
    return frozenset(str(head) for head in heads if head)


def check_update(parts: Sequence[ReleasePart], plan: CountPlan, records: str) -> None:
    """Refuse, before it is charged, an update that cannot be combined with the earlier parts."""
    if not parts:
        return
    before = parts[-1].plan
    if plan.design.families != before.design.families:
        raise Incompatible(
            "an update counts the tables of the fit; nothing was charged",
            got=", ".join(f.name for f in plan.design.families),
            allowed=", ".join(f.name for f in before.design.families),
            do="keep the declarations as they were, or fit anew",
        )
    if plan.guarantee.neighbors != before.guarantee.neighbors:
        raise Incompatible(
            "guarantees about different neighbors do not add; nothing was charged",
            got=f"neighbors='{plan.guarantee.neighbors}' after '{before.guarantee.neighbors}'",
            do="keep unit= and neighbors= as they were, or fit anew",
        )
    if (before.method == "noisy") != (plan.method == "noisy"):
        raise Incompatible(
            "noisy counts and Dirichlet draws do not mix; nothing was charged",
            got=f"{plan.method} after {before.method}",
            do="name one method= for all fits",
        )
    if records == "same" and plan.design.total != _total_records(parts):
        raise Incompatible(
            "counts of the same records are averaged, and these are more or fewer; nothing was "
            "charged",
            got=f"{plan.design.total:g} records",
            allowed=f"{_total_records(parts):g}",
            do='bring all records again; or those alone that are new, with records="new"; or fit '
            "another estimator",
        )
    if plan.method != "noisy" and before.draws != plan.draws:
        raise Incompatible(
            "draws are averaged one by one; nothing was charged",
            got=f"draws={plan.draws} after {before.draws}",
            do="take as many draws as before",
        )


def _total_records(parts: Sequence[ReleasePart]) -> float | None:
    """Public number of records of all parts; None where it is protected."""
    totals = [p.plan.design.total for p in parts if p.records != "same"]
    return None if None in totals else float(sum(t for t in totals if t is not None))


def refuse_refits(ledger: Ledger | None, random_state: Any, name: str | None) -> None:
    """Warn inside scikit-learn's cross-validation, where every fit is charged, or refuse.

    Refused are fits without a ledger; one name for all fits, since the first release would answer
    for the others; and fits that an ensemble seeded, as ensembles do to each of their members.
    """
    modules = [_module_name(frame) for frame in _calling_frames()]
    if random_state is not None and any(name.startswith("sklearn.ensemble") for name in modules):
        raise Incompatible(
            "an ensemble sets random_state of its members, and a seeded fit is not private",
            got="a seeded fit inside sklearn.ensemble",
            do="take one estimator: posterior_draws() averages over what noise leaves open",
        )
    if random_state is not None or not any(name.startswith(REFITTING_MODULES) for name in modules):
        return
    if ledger is None and Ledger.current() is None:
        raise Incompatible(
            REFITS_WARNING,
            got="a fit inside cross-validation or the like, without a ledger",
            do="choose parameters on public data or by prior knowledge; or pass a ledger with a "
            "path, which is charged for every fit, and keep the scores to yourself",
        )
    if name is not None:
        raise Incompatible(
            "a name stands for one release, and every fit here is one of its own",
            got=f"name={name!r} inside cross-validation or the like",
            do="leave name= out where an estimator is fitted again and again",
        )
    warnings.warn(
        f"{REFITS_WARNING}: each fit is charged; scores, and what is chosen by them, are not "
        "covered by the guarantee",
        PrivacyWarning,
        stacklevel=5,
    )


def warn_of_seeds(random_state: Any) -> None:
    """Warn that a seeded fit is not private: its predictions bear no mark of that."""
    if random_state is not None:
        warnings.warn(
            "NOT PRIVATE: a fit with random_state can be drawn again by who knows the seed, and "
            "charges nothing; leave random_state out for a private one",
            PrivacyWarning,
            stacklevel=5,
        )


def warn_of_pipelines() -> None:
    """Warn where a pipeline learned something from the private rows before they came here."""
    for frame in _calling_frames():
        owner = frame.f_locals.get("self")
        if _module_name(frame) != "sklearn.pipeline" or not hasattr(owner, "steps"):
            continue
        learned = [type(step).__name__ for _, step in owner.steps[:-1] if _requires_fit(step)]
        if learned:
            warnings.warn(
                f"{', '.join(learned)} learned from the private rows, and the guarantee does not "
                "cover what it learned; declare bins and categories instead: Bins([...]) from a "
                "codebook or public data, FunctionTransformer for what needs no learning",
                PrivacyWarning,
                stacklevel=5,
            )
        return


def _requires_fit(step: Any) -> bool:
    """Whether a transformer declares that it has to be fitted."""
    if step is None or isinstance(step, str):
        return False
    try:
        return bool(step.__sklearn_tags__().requires_fit)
    except AttributeError:
        return True


def _calling_frames() -> Iterator[Any]:
    frame: Any = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _module_name(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", ""))


def warn_of_edges(frame: Any, columns: Mapping[str, DeclaredColumn]) -> None:
    """Warn of bin edges that are quantiles, or equal steps of the range, of these very records."""
    if not isinstance(frame, pd.DataFrame):
        return
    binned = {n: np.asarray(c.edges) for n, c in columns.items() if c.edges and n in frame}
    seen = [
        name for name, edges in binned.items() if _look_computed(edges, _as_numbers(frame[name]))
    ]
    if seen:
        warnings.warn(
            f"the edges of {', '.join(seen)} are quantiles or equal steps of these records; if "
            "they were computed from them, the guarantee does not cover what they tell: take "
            "edges from a codebook or public data",
            PrivacyWarning,
            stacklevel=5,
        )


def _look_computed(edges: np.ndarray, values: np.ndarray) -> bool:
    """Whether edges split the records' range, or their number, into equal parts.

    A single edge, or two whole numbers, may do so by chance and are not reported.
    """
    values = values[np.isfinite(values)]
    whole = np.array_equal(edges, np.round(edges))
    if len(values) < 2 or len(edges) < (3 if whole else 2):
        return False
    low, high = values.min(), values.max()
    tolerance = 1e-9 * max(abs(low), abs(high), high - low)
    for parts in range(2, MAX_EQUAL_STEPS + 1):
        shares = np.linspace(0.0, 1.0, parts + 1)
        for tried in (shares, shares[1:-1]):
            if len(tried) != len(edges):
                continue
            quantiles = np.quantile(values, tried)
            steps = low + (high - low) * tried
            if any(np.abs(edges - found).max() <= tolerance for found in (quantiles, steps)):
                return True
    return False


def _as_numbers(column: Any) -> np.ndarray:
    return np.asarray(pd.to_numeric(column, errors="coerce"), dtype=float)
