"""What naive Bayes and Bayesian networks share: declared tables, one charge, updates."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from pymc_private.errors import DomainError
from pymc_private.estimators.base__cautions import refuse_refits, warn_of_edges, warn_of_pipelines, warn_of_seeds
from pymc_private.estimators.counting__columns import Column
from pymc_private.estimators.counting import Families, count_tables
from pymc_private.estimators.base__parts import OTHERS, Part, assuming, check_update, paid, together
from pymc_private.release import display
from pymc_private.release.charge import Where, check_ledger
from pymc_private.counts.dirichlet import plan_for
from pymc_private.release.release import Release
from pymc_private.counts.publish__contents import drawn_content, noise_content
from pymc_private.counts.tables import Tables, counted, same_total
from pymc_private.counts.noise_plan import CountPlan
from pymc_private.counts.publish import publish
from pymc_private.privacy import Guarantee
from pymc_private.ledger import Ledger
from pymc_private.privacy.noisy_counts import CountBudget
from pymc_private.privacy.neighbors__neighbors import SUBSTITUTE

SEEDED = f"{display.NOT_PRIVATE} (seeded)"


class CountEstimator(BaseEstimator):
    """Tables of probabilities from one charge; see the classes built on it."""

    epsilon: float | None
    delta: float
    rdp: tuple[float, float] | None
    zcdp: float | None
    method: str
    neighbors: str
    unit: str
    draws: int | None
    profile: Any
    ledger: Ledger | None
    name: str | None
    data_version: str
    random_state: int | None

    @property
    def guarantee_(self) -> Guarantee:
        """What the fitted tables reveal at most, updates included."""
        return self._fitted()[-1].so_far

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
        return together(self._fitted()).draw(draws)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # scikit-learn lays a text out in lines only for classes that inherit `__repr__`.
        kind = type(type(self).__name__, (BaseEstimator,), {"__init__": type(self).__init__})
        plain: BaseEstimator = object.__new__(kind)
        vars(plain).update(vars(self))
        return self._mark(f"{SEEDED}:\n") + BaseEstimator.__repr__(plain, N_CHAR_MAX)

    def _html_repr(self) -> str:
        """Say so above the diagram too, where scikit-learn shows one."""
        return self._mark(f"<p><strong>{SEEDED}</strong></p>") + estimator_html_repr(self)

    def _mark(self, text: str) -> str:
        """Give the text if a fit was seeded, else nothing."""
        parts: Sequence[Part] = getattr(self, "parts_", ())
        return "" if all(part.release.private for part in parts) else text

    def _fitted(self) -> list[Part]:
        parts: list[Part] | None = getattr(self, "parts_", None)
        if parts is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return parts

    def _fit_tables(
        self, frame: Any, families: Families, columns: Mapping[str, Column], records: str
    ) -> None:
        """Count, charge, release, and keep the tables; `records` is "first", "new" or "same"."""
        parts = [] if records == "first" else list(self._fitted())
        check_ledger(self.ledger)
        refuse_refits(self.ledger, self.random_state, self.name)
        warn_of_seeds(self.random_state)
        budget = CountBudget.of(
            None if self.rdp or self.zcdp else self.epsilon, self.delta, self.rdp, self.zcdp
        )
        warn_of_pipelines()
        warn_of_edges(frame, columns)
        tables = self._tables(count_tables(frame, families, columns), families, columns)
        if records == "new":
            plan = _again(parts[-1].plan, tables)
        else:
            plan = plan_for(
                tables, budget, self.method, self.neighbors, self.unit,
                draws=self.draws, profile=self.profile,
            )  # fmt: skip
            plan = assuming(plan, self._assumed())
        check_update(parts, plan, records)
        content = (noise_content if plan.method == "noisy" else drawn_content)(plan, tables)
        release = publish(plan, content, self._where(parts, records))
        self.parts_ = [*parts, Part(release, plan, records, _so_far(parts, release, records))]
        self.tables_ = together(self.parts_).mean()

    @contextmanager
    def _unless_refused(self) -> Iterator[None]:
        """Leave everything as it was where nothing is released."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            if getattr(self, "parts_", None) is before.get("parts_"):
                self.__dict__.clear()
                self.__dict__.update(before)
            raise

    def _where(self, parts: list[Part], records: str) -> Where:
        """Say who pays: of other records, the charges that cover them."""
        name = self.name if not parts or self.name is None else f"{self.name}, {len(parts) + 1}"
        seed = _seed(self.random_state, len(parts))
        covered = paid(parts) if records == "new" else frozenset[str]()
        return Where(
            self.ledger, name, self.data_version, random_seed=seed, covered=covered, keep=False
        )

    def _check_target(self, frame: Any, name: str) -> None:
        columns = nw.from_native(frame).collect_schema().names()
        if name not in columns:
            raise DomainError(
                "the target is no column of the frame",
                got=repr(name),
                allowed=", ".join(map(str, columns)),
                do="name a column, or pass the target itself as y",
            )

    def _assumed(self) -> tuple[str, ...]:
        """What a fit takes on trust besides."""
        return ()

    def _tables(
        self, counts: Mapping[str, np.ndarray], families: Families, columns: Mapping[str, Column]
    ) -> Tables:
        labels = {name: _labels(column) for name, column in columns.items()}
        return counted(counts, families, labels)


def _labels(column: Column) -> list[Any]:
    kinds = {type(value) for value in column.values}
    plain = kinds <= {str} or kinds <= {int} or kinds <= {float}
    return list(column.values) if plain else [str(value) for value in column.values]


def _again(plan: CountPlan, tables: Tables) -> CountPlan:
    """Keep the numbers of a plan for other records: then one promise covers both."""
    total = same_total(tables) if plan.design.neighbors == SUBSTITUTE else None
    return assuming(replace(plan, design=replace(plan.design, total=total)), (OTHERS,))


def _so_far(parts: Sequence[Part], release: Release, records: str) -> Guarantee:
    """Add up what is promised; of other records one promise covers all, which they assume.

    A seeded release promises nothing, of whichever records.
    """
    if not parts:
        return release.guarantee
    before = parts[-1].so_far
    if records == "same" or not release.private:
        return before + release.guarantee
    assumed = dict.fromkeys((*before.assumptions, *release.guarantee.assumptions))
    return replace(before, assumptions=tuple(assumed))


def _seed(random_state: Any, part: int) -> int | None:
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(random_state) + part


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


def other_records(records: str) -> str:
    """Check what an update says of its records.

    Raises
    ------
    DomainError
        It says nothing.
    """
    if records not in ("new", "same"):
        raise DomainError(
            "an update says whose records it brings",
            got=repr(records),
            allowed='"new" if no record was in an earlier fit (one promise covers each record), '
            '"same" if it brings all of them again (charged again)',
        )
    return records
