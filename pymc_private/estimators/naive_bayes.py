"""Private naive Bayes for declared categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import validate_data

from pymc_private.counts.declared_columns import DECLARE_INSTEAD, Bins, declare_column
from pymc_private.errors import DomainError
from pymc_private.estimators.base import (
    CountEstimator,
    as_pandas,
    check_records,
    check_same_length,
    is_frame,
)
from pymc_private.ledger import Ledger
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.privacy.validation import refuse_mask

CLASS = "class"


class DirichletNaiveBayes(ClassifierMixin, CountEstimator):
    """Naive Bayes whose tables are released privately, for one charge.

    A record is counted in the class table and in one table per feature, so that K features cost
    K + 1 dominating pairs (T11). Categories and bins are declared; a declared one that never
    occurs is normal, and one that was not declared is refused at fit.

    Parameters
    ----------
    epsilon, delta : float
        Budget in nats; delta = 0 is pure (noise only).
    categories : mapping, sequence or Bins
        By column name or in order: the values each feature may take, or `Bins` for a number. One
        `Bins` alone is for every column.
    classes : sequence or "public"
        The values of y. "public": the classes that occur are said to be public knowledge.
    method : {"auto", "exact", "algorithm1", "noisy"}
        "auto": what is expected to be closer, judged at the public number of records.
    neighbors : {"substitute", "add_remove"}
    unit : {"row", "attribute"}
        "attribute": one feature of a row, or its class, which is in every table; so it costs the
        same here, and is charged to a ledger with ``neighbors="attribute"``.
    draws : int, optional
        Dirichlet draws; each is paid for.
    profile
        Public guess of the counts: see `pymc_private.dirichlet`.
    ledger : Ledger, optional
    name : str, optional
        Of the release in the ledger: a fit of the same name and plan is charged once, so other data
        need another name.
    unknown : {"ignore", "error"}
        At predict: a value that was not declared says nothing of the class, or is refused.
    random_state : int, optional
        Makes a fit that is NOT PRIVATE and charges nothing.

    Attributes
    ----------
    classes_ : array
    tables_ : dict of str to array
        Probabilities: ``"class"``, and for each feature shape (classes, values).
    guarantee_ : Guarantee
    release_ : Release
    method_ : str
    private_ : bool

    Examples
    --------
    >>> import numpy as np, pymc_private as pmp
    >>> X, y = np.array([[0, 5.2], [1, 0.3]] * 50), np.array(["ill", "well"] * 50)
    >>> ledger = pmp.Ledger(epsilon=1)
    >>> nb = DirichletNaiveBayes(1, 0, [(0, 1), Bins([1, 4])], classes=["ill", "well"],
    ...                          ledger=ledger).fit(X, y)
    >>> nb.predict([[0, 6.0]]), nb.guarantee_.pure_epsilon
    (array(['ill'], dtype='<U4'), 1.0)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        categories: Any = None,
        *,
        classes: Any = None,
        method: str = "auto",
        neighbors: str = SUBSTITUTE,
        unit: str = "row",
        draws: int | None = None,
        profile: Any = None,
        ledger: Ledger | None = None,
        name: str | None = None,
        unknown: str = "ignore",
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.classes = classes
        self.method = method
        self.neighbors = neighbors
        self.unit = unit
        self.draws = draws
        self.profile = profile
        self.ledger = ledger
        self.name = name
        self.unknown = unknown
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> DirichletNaiveBayes:
        """Count, charge, and release the tables.

        Parameters
        ----------
        X : array, or frame of pandas, Polars, PyArrow, DuckDB, Dask or PySpark
        y : array, or the name of a column of X

        Raises
        ------
        DomainError, BudgetExceeded, Incompatible
            Nothing was charged.
        """
        if self.unknown not in ("ignore", "error"):
            raise DomainError(
                "unknown= is not known", got=repr(self.unknown), allowed='"ignore" or "error"'
            )
        with self._restored_unless_released():
            return self._count(X, y, "first")

    def update(self, X: Any, y: Any, *, records: str) -> DirichletNaiveBayes:
        """Add records.

        Parameters
        ----------
        X, y
            As in `fit`.
        records : {"new", "same"}
            "new": no record was in an earlier fit or update, of this estimator or a copy of it, so
            that each is protected by one guarantee; if this ledger holds it, nothing more is
            charged.
            "same": all records again, whose tables are averaged; charged in full.
        """
        self._fitted()
        with self._restored_unless_released():
            return self._count(X, y, check_records(records))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log probabilities of the classes, shape (n, classes)."""
        joint = self._joint(self._codes(X), self.tables_)
        return np.asarray(joint - special.logsumexp(joint, axis=1, keepdims=True))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, shape (n, classes)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict_proba_draws(self, X: Any, draws: int = 100) -> np.ndarray:
        """Probabilities under each posterior draw of the tables, shape (draws, n, classes)."""
        codes, tables = self._codes(X), self.posterior_draws(draws)
        many = len(tables[CLASS])
        found = [self._joint(codes, {k: v[i] for k, v in tables.items()}) for i in range(many)]
        return np.asarray(special.softmax(np.array(found), axis=-1))

    def predict(self, X: Any) -> np.ndarray:
        """Most probable classes."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return np.asarray(self.classes_[best])

    # ---- internals --------------------------------------------------------------------------
    def _count(self, X: Any, y: Any, records: str) -> DirichletNaiveBayes:
        first = records == "first"
        frame, names = self._frame(X, y, first)
        if first:
            self.columns_ = [declare_column(name, spec) for name, spec in self._specs(names)]
            self.class_column_ = declare_column(CLASS, self._class_values(frame))
        self.classes_ = np.asarray(self.class_column_.values)
        declared = {column.name: column for column in self.columns_} | {CLASS: self.class_column_}
        families = {CLASS: (CLASS,)} | {c.name: (CLASS, c.name) for c in self.columns_}
        self._fit_tables(frame, families, declared, records)
        return self

    def _extra_assumptions(self) -> tuple[str, ...]:
        public = isinstance(self.classes, str) and self.classes == "public"
        return ("which classes occur is public",) if public else ()

    def _frame(self, X: Any, y: Any, first: bool) -> tuple[Any, list[str]]:
        """One frame with a column for each feature and one for the class."""
        refuse_mask(X, "records")
        refuse_mask(y, "classes")
        if is_frame(X):
            if isinstance(y, str):
                self._check_target(X, y)
                renamed = nw.from_native(X).rename({y: CLASS})
                names = _feature_names(renamed.collect_schema().names(), y)
                if first:
                    self.feature_names_in_ = np.asarray(names, dtype=object)
                    self.n_features_in_ = len(names)
                return nw.to_native(renamed), names
            pandas = as_pandas(X)
            validate_data(self, pandas, reset=first, skip_check_array=True)
            check_same_length(pandas, y)
            names = _feature_names(list(map(str, pandas.columns)), "")
            frame = pandas.set_axis(names, axis=1).assign(**{CLASS: np.asarray(y)})
            return frame, names
        X, y = validate_data(self, X, y, dtype=None, reset=first)
        names = [f"x{i}" for i in range(X.shape[1])]
        return pd.DataFrame(dict(zip(names, X.T, strict=True)) | {CLASS: y}), names

    def _specs(self, names: Sequence[str]) -> list[tuple[str, Any]]:
        given = self.categories
        if given is None:
            raise DomainError(
                "categories are declared, not learned", got="None", do=DECLARE_INSTEAD
            )
        if isinstance(given, Bins):
            return [(name, given) for name in names]
        if isinstance(given, Mapping):
            unknown = [str(name) for name in given if str(name) not in names]
            missing = [name for name in names if name not in {str(key) for key in given}]
            if unknown or missing:
                raise DomainError(
                    "categories are declared for every feature, and for no other column",
                    got=f"missing: {', '.join(missing) or 'none'}; "
                    f"not in the data: {', '.join(unknown) or 'none'}",
                    allowed="categories={column: [values, ...], ...} with the columns of X as keys",
                )
            named = {str(key): spec for key, spec in given.items()}
            return [(name, named[name]) for name in names]
        is_list = hasattr(given, "__len__") and np.iterable(given) and not hasattr(given, "columns")
        if isinstance(given, str | bytes) or not is_list:
            raise DomainError(
                "categories are declared, not learned", got=repr(given)[:60], do=DECLARE_INSTEAD
            )
        if len(given) != len(names):
            raise DomainError(
                "categories are declared for every feature",
                got=f"{len(given)} for {len(names)} features",
                allowed="one entry for each column of X, in its order; or {column: values}",
            )
        return list(zip(names, given, strict=True))

    def _class_values(self, frame: Any) -> Any:
        if isinstance(self.classes, str) and self.classes == "public":
            found = nw.from_native(frame).lazy().select(CLASS).unique().collect()
            values = np.unique(found.to_pandas()[CLASS].to_numpy())
            if len(values) < 2:
                raise DomainError(
                    "there is one class only",
                    got=f"{len(values)} class" + "es" * (len(values) != 1),
                    allowed="two classes or more",
                    do="declare classes=",
                )
            if values.dtype.kind == "f" and np.any(values != np.floor(values)):
                raise DomainError("Unknown label type: continuous", do="declare classes=")
            return values
        if self.classes is None:
            raise DomainError(
                "the classes are declared, not learned",
                got="classes=None",
                do='classes=["no", "yes"], or classes="public" if it is no secret which occur',
            )
        return self.classes

    def _codes(self, X: Any) -> np.ndarray:
        """Category numbers of the features' values, -1 for unknown ones: shape (n, features)."""
        refuse_mask(X, "records")
        self._fitted()
        if is_frame(X):
            pandas = as_pandas(X)
            validate_data(self, pandas, reset=False, skip_check_array=True)
            columns = [pandas[name] for name in pandas.columns]
        else:
            columns = list(validate_data(self, X, dtype=None, reset=False).T)
        found = [c.encode(values) for c, values in zip(self.columns_, columns, strict=True)]
        codes = np.stack(found, axis=1).astype(np.int64)
        if self.unknown == "error" and codes.size and codes.min() < 0:
            raise DomainError(
                "a value that was not declared", do='unknown="ignore" lets it say nothing'
            )
        return codes

    def _joint(self, codes: np.ndarray, tables: Mapping[str, np.ndarray]) -> np.ndarray:
        joint = np.tile(np.log(tables[CLASS]), (len(codes), 1))
        for i, column in enumerate(self.columns_):
            joint += _with_unknown_value(np.log(tables[column.name]))[codes[:, i]]
        return joint

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.classifier_tags.poor_score = True  # noise on a handful of records
        tags.non_deterministic = self.random_state is None
        return tags


def _feature_names(names: Sequence[str], target: str) -> list[str]:
    found = [name for name in names if name != CLASS or not target]
    if CLASS in found:
        raise DomainError(f"no feature is called {CLASS!r}", do="rename the column")
    return found


def _with_unknown_value(logs: np.ndarray) -> np.ndarray:
    """Rows by value, and a last one of zeros: number -1 says nothing."""
    return np.vstack([logs.T, np.zeros(len(logs))])
