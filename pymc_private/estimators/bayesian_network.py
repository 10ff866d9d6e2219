"""A private Bayesian network of declared structure."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
from collections.abc import Mapping
from typing import Any
from scipy import special
from sklearn.utils.validation import validate_data
from pymc_private.errors import DomainError
from pymc_private.estimators.counting__columns import Bins, LEARNED, declare
from pymc_private.estimators.base import CountEstimator, as_pandas, is_frame, other_records
from pymc_private.estimators.bayesian_network__inference import ancestral, in_order, log_joint
from pymc_private.ledger import Ledger
from pymc_private.privacy.validation import refuse_mask, whole
from pymc_private.privacy.neighbors__neighbors import SUBSTITUTE

class DirichletBayesianNetwork(CountEstimator):
    """Conditional tables of a declared network, released privately for one charge.

    A record is counted in one cell of each node's tables, so that m nodes cost m pairs of laws
    (T11). Structure, categories and bins are declared: a structure learned from the data would
    have to be paid for.

    Parameters
    ----------
    network : mapping of str to sequence of str
        The parents of each node.
    epsilon, delta : float
        Budget in nats.
    categories : mapping
        By node: the values it may take, or `Bins`.
    target : str, optional
        The node that `predict` is about, and that `y` of `fit` is.
    rdp, zcdp, method, neighbors, draws, profile, ledger, name, data_version, random_state
        As in `DirichletNaiveBayes`.
    unit : {"row", "attribute"}
        "attribute" protects one attribute of a row: it is in its own tables and those of its
        children only, which costs less; charged to a ledger with ``neighbors="attribute"``.

    Attributes
    ----------
    tables_ : dict of str to array
        Probabilities of each node, axes (parents..., node).
    network_ : dict of str to tuple of str
        Parents first.
    guarantee_ : Guarantee
        Of all fits and updates.
    release_ : Release
        The last one.
    method_ : str
    private_ : bool
        False after a fit with ``random_state``.

    Examples
    --------
    >>> import pandas as pd, pymc_private as pmp
    >>> data = pd.DataFrame({"smokes": [0, 1] * 400, "coughs": [0, 1] * 400})
    >>> net = DirichletBayesianNetwork(
    ...     {"smokes": (), "coughs": ("smokes",)}, 1, 0,
    ...     {"smokes": (0, 1), "coughs": (0, 1)}, ledger=pmp.Ledger(epsilon=1)).fit(data)
    >>> net.predict(pd.DataFrame({"coughs": [1]}), node="smokes")
    array([1])
    >>> net.sample(3).shape
    (3, 2)
    """

    def __init__(
        self,
        network: Mapping[str, Any] | None = None,
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        categories: Mapping[str, Any] | None = None,
        *,
        target: str | None = None,
        rdp: tuple[float, float] | None = None,
        zcdp: float | None = None,
        method: str = "auto",
        neighbors: str = SUBSTITUTE,
        unit: str = "row",
        draws: int | None = None,
        profile: Any = None,
        ledger: Ledger | None = None,
        name: str | None = None,
        data_version: str = "",
        random_state: int | None = None,
    ) -> None:
        self.network = network
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.target = target
        self.rdp = rdp
        self.zcdp = zcdp
        self.method = method
        self.neighbors = neighbors
        self.unit = unit
        self.draws = draws
        self.profile = profile
        self.ledger = ledger
        self.name = name
        self.data_version = data_version
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> DirichletBayesianNetwork:
        """Count, charge, and release the tables.

        Parameters
        ----------
        X : frame of pandas, Polars, PyArrow, DuckDB, Dask or PySpark
            A column for each node, but for the target if y is given. Others are left alone.
        y : array, optional
            The target.

        Raises
        ------
        DomainError, BudgetExceeded, Incompatible
            A cycle, an unknown parent, an undeclared category, ...; nothing was charged.
        """
        with self._unless_refused():
            self.network_ = in_order(self.network)
            self.columns_ = {node: declare(node, spec) for node, spec in self._specs().items()}
            return self._count(X, y, "first")

    def update(self, X: Any, y: Any = None, *, records: str) -> DirichletBayesianNetwork:
        """Add records: see `DirichletNaiveBayes.update`."""
        self._fitted()
        with self._unless_refused():
            return self._count(X, y, other_records(records))

    def predict_proba(self, X: Any, node: str | None = None) -> np.ndarray:
        """Probabilities of the values of a node, given all other columns of X: shape (n, values).

        Columns that X lacks, and values that were not declared, are summed out.

        Parameters
        ----------
        X : frame
        node : str, optional
            Default: the target.
        """
        logs = log_joint(self.tables_, self.network_, self._codes(X), self._node(node))
        return np.asarray(special.softmax(logs, axis=1))

    def predict(self, X: Any, node: str | None = None) -> np.ndarray:
        """Most probable values of a node (default: the target)."""
        chosen = self._node(node)
        best = np.argmax(self.predict_proba(X, chosen), axis=1)
        return np.asarray(np.asarray(self.columns_[chosen].values)[best])

    def score_samples(self, X: Any) -> np.ndarray:
        """Log-likelihood of each row, nats; what is missing or undeclared is summed out."""
        codes = self._codes(X)
        return log_joint(self.tables_, self.network_, codes)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of a row, nats."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n: int, random_state: int | None = None) -> pd.DataFrame:
        """Draw synthetic records from the released tables: post-processing, at no cost.

        Parameters
        ----------
        n : int
        random_state : int, optional
            Repeats the same records; it says nothing of the data.
        """
        self._fitted()
        generator = np.random.default_rng(random_state)
        codes = ancestral(self.tables_, self.network_, whole(n, "n"), generator)
        return pd.DataFrame(
            {node: np.asarray(self.columns_[node].values)[codes[node]] for node in self.network_}
        )

    # ---- how --------------------------------------------------------------------------------
    def _count(self, X: Any, y: Any, records: str) -> DirichletBayesianNetwork:
        frame = self._frame(X, y, records == "first")
        families = {node: (*parents, node) for node, parents in self.network_.items()}
        self._fit_tables(frame, families, self.columns_, records)
        return self

    def _frame(self, X: Any, y: Any, first: bool) -> Any:
        refuse_mask(X, "records")
        refuse_mask(y, "classes")
        if not is_frame(X):
            names = [node for node in self.network_ if y is None or node != self.target]
            array = validate_data(self, X, dtype=None, reset=first)
            if array.shape[1] != len(names):
                raise DomainError(
                    "an array has a column for each node, parents first",
                    got=f"{array.shape[1]} columns",
                    allowed=", ".join(names),
                    do="pass a frame with named columns",
                )
            X = pd.DataFrame(dict(zip(names, array.T, strict=True)))
        elif first:
            self.n_features_in_ = len(nw.from_native(X).collect_schema().names())
        if y is None:
            return X
        if self.target not in self.network_:
            raise DomainError("y is the target node", got=f"target={self.target!r}")
        pandas = as_pandas(X)
        if np.ndim(y) != 1 or len(pandas) != len(y):
            raise DomainError("X and y have one row for each record", got="other lengths")
        return pandas.assign(**{str(self.target): np.asarray(y)})

    def _specs(self) -> dict[str, Any]:
        given = self.categories
        if isinstance(given, Bins):
            return dict.fromkeys(self.network_, given)
        if not isinstance(given, Mapping):
            raise DomainError(
                "categories are declared, not learned", got=type(given).__name__, do=LEARNED
            )
        missing = [node for node in self.network_ if node not in given]
        unknown = [str(name) for name in given if name not in self.network_]
        if missing or unknown:
            raise DomainError(
                "categories are declared for every node, and for nothing else",
                got=f"missing: {', '.join(missing) or 'none'}; "
                f"no node: {', '.join(unknown) or 'none'}",
            )
        return {node: given[node] for node in self.network_}

    def _node(self, node: str | None) -> str:
        self._fitted()
        chosen = self.target if node is None else node
        if chosen not in self.network_:
            raise DomainError(
                "there is no such node", got=repr(chosen), allowed=", ".join(self.network_),
                do="name node=, or target= of the network",
            )  # fmt: skip
        return chosen

    def _codes(self, X: Any) -> dict[str, np.ndarray]:
        self._fitted()
        if not is_frame(X):
            X = self._frame(X, None, False)
        pandas = as_pandas(X)
        found = {
            str(name): self.columns_[str(name)].encode(pandas[name]).astype(np.int64)
            for name in pandas.columns
            if str(name) in self.columns_
        }
        if not found:
            raise DomainError("no column of the frame is a node", allowed=", ".join(self.network_))
        return found
