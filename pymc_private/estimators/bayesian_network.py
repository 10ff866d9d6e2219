"""Private Bayesian networks of declared structure, and exact inference in them.

Some columns of a row are known; the others are summed out.
"""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from scipy import special
from sklearn.utils.validation import validate_data

from pymc_private.counts.declared_columns import DECLARE_INSTEAD, Bins, declare_column
from pymc_private.counts.denoise.sum_distributions import draw_indices
from pymc_private.errors import DomainError
from pymc_private.estimators.base import (
    CountEstimator,
    as_pandas,
    check_records,
    check_same_length,
    is_frame,
)
from pymc_private.ledger import Ledger
from pymc_private.privacy.argument_kinds import SEQUENCE
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.privacy.validation import check_count, refuse_mask

Network = Mapping[str, tuple[str, ...]]
"""The parents of each node, parents first."""
MAX_FACTOR_NUMBERS = 2**24
"""Numbers of one factor that are held at once; more rows are taken in chunks."""


class DirichletBayesianNetwork(CountEstimator):
    """Conditional tables of a declared network, released privately for one charge.

    A record is counted in one cell of each node's tables, so that m nodes cost m dominating
    pairs (T11). Structure, categories and bins are declared: a structure learned from the data
    would have to be paid for.

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
    method, neighbors, draws, profile, ledger, name, random_state
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
        epsilon: float = 1.0,
        delta: float = 1e-5,
        categories: Mapping[str, Any] | None = None,
        *,
        target: str | None = None,
        method: str = "auto",
        neighbors: str = SUBSTITUTE,
        unit: str = "row",
        draws: int | None = None,
        profile: Any = None,
        ledger: Ledger | None = None,
        name: str | None = None,
        random_state: int | None = None,
    ) -> None:
        self.network = network
        self.epsilon = epsilon
        self.delta = delta
        self.categories = categories
        self.target = target
        self.method = method
        self.neighbors = neighbors
        self.unit = unit
        self.draws = draws
        self.profile = profile
        self.ledger = ledger
        self.name = name
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
        with self._restored_unless_released():
            self.network_ = topological_order(self.network)
            self.columns_ = {
                node: declare_column(node, spec) for node, spec in self._specs().items()
            }
            return self._count(X, y, "first")

    def update(self, X: Any, y: Any = None, *, records: str) -> DirichletBayesianNetwork:
        """Add records: see `DirichletNaiveBayes.update`."""
        self._fitted()
        with self._restored_unless_released():
            return self._count(X, y, check_records(records))

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
        codes = ancestral_sample(self.tables_, self.network_, check_count(n, "n"), generator)
        return pd.DataFrame(
            {node: np.asarray(self.columns_[node].values)[codes[node]] for node in self.network_}
        )

    # ---- internals --------------------------------------------------------------------------
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
            raise DomainError(
                "y= is the column of the target, and no node of the network is the target",
                got=f"target={self.target!r}",
                allowed=f"target= one of {', '.join(map(str, self.network_))}",
                do="name the target, or leave y out and keep its column in X",
            )
        pandas = as_pandas(X)
        check_same_length(pandas, y)
        return pandas.assign(**{str(self.target): np.asarray(y)})

    def _specs(self) -> dict[str, Any]:
        given = self.categories
        if isinstance(given, Bins):
            return dict.fromkeys(self.network_, given)
        if not isinstance(given, Mapping):
            raise DomainError(
                "categories are declared, not learned", got=type(given).__name__, do=DECLARE_INSTEAD
            )
        missing = [node for node in self.network_ if node not in given]
        unknown = [str(name) for name in given if name not in self.network_]
        if missing or unknown:
            raise DomainError(
                "categories are declared for every node, and for nothing else",
                got=f"missing: {', '.join(missing) or 'none'}; "
                f"no node: {', '.join(unknown) or 'none'}",
                allowed="categories={node: [values, ...], ...}, with every node",
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


PARENTS = "network", "a Bayesian network"
"""Argument and function, for errors."""


def topological_order(network: Mapping[str, Sequence[str]] | None) -> dict[str, tuple[str, ...]]:
    """Nodes and their parents, parents first; unknown parents and cycles are refused."""
    if not isinstance(network, Mapping) or not network:
        raise DomainError(
            "a network names the parents of each node",
            got="no nodes" if isinstance(network, Mapping) else type(network).__name__,
            allowed='for example {"age": (), "income": ("age",)}',
        )
    several = SEQUENCE.of
    parents = {
        str(node): (given,) if isinstance(given, str) else tuple(map(str, several(given, *PARENTS)))
        for node, given in network.items()
    }
    for node, given in parents.items():
        unknown = [name for name in given if name not in parents]
        if unknown or len(set(given)) < len(given):
            raise DomainError(
                f"the parents of {node!r} are other nodes of the network, each named once",
                got=", ".join(unknown or given),
                allowed=", ".join(map(repr, parents)),
                do="give every parent an entry of its own, {parent: []}, and name it once",
            )
    try:
        order = tuple(graphlib.TopologicalSorter(parents).static_order())
    except graphlib.CycleError as error:
        raise DomainError(
            "a Bayesian network has no cycle",
            got=" <- ".join(map(str, error.args[1])),
            allowed="parents from which no path leads back",
            do="drop or reverse one of these edges",
        ) from None
    return {node: parents[node] for node in order}


def log_joint(
    tables: Mapping[str, np.ndarray], network: Network, codes: Mapping[str, np.ndarray],
    node: str | None = None,
) -> np.ndarray:  # fmt: skip
    """Log probability of the known values of each row: shape (n,).

    With a `node`, jointly with each of its values: shape (n, values); its own column is ignored.
    `codes` are category numbers; -1, or no column, where a value is not known.
    """
    n = len(next(iter(codes.values())))
    width = () if node is None else (tables[node].shape[-1],)
    out = np.empty((n, *width))
    known = {name: code for name, code in codes.items() if name != node and name in network}
    missing = np.stack([known.get(name, np.full(n, -1)) < 0 for name in network], axis=1)
    for pattern in np.unique(missing, axis=0):
        rows = np.flatnonzero((missing == pattern).all(axis=1))
        hidden = {name for name, absent in zip(network, pattern, strict=True) if absent}
        for part in np.array_split(rows, _chunk_count(tables, network, hidden, len(rows))):
            here = {name: code[part] for name, code in known.items() if name not in hidden}
            out[part] = _log_joint_of_pattern(tables, network, here, node, len(part))
    return out


def _chunk_count(
    tables: Mapping[str, np.ndarray], network: Network, hidden: set[str], rows: int
) -> int:
    """Chunks of rows in which no factor over hidden columns has too many numbers."""
    free = [
        np.prod([s for name, s in zip((*network[node], node), t.shape, strict=True)
                 if name in hidden], initial=1.0)
        for node, t in tables.items()
    ]  # fmt: skip
    return int(np.ceil(rows * max(free) / MAX_FACTOR_NUMBERS)) or 1


def _log_joint_of_pattern(
    tables: Mapping[str, np.ndarray], network: Network, known: Mapping[str, np.ndarray],
    node: str | None, rows: int,
) -> np.ndarray:  # fmt: skip
    """`log_joint` of rows with the same known columns.

    Log factors of known columns add up; the others are multiplied and summed out by `einsum`.
    """
    width = () if node is None else (tables[node].shape[-1],)
    logs = np.zeros((rows, *width))
    letters = {name: i + 1 for i, name in enumerate(network)}
    operands: list[object] = []
    for name, table in tables.items():
        axes = (*network[name], name)
        free = [axis for axis in axes if axis not in known]
        factor = _look_up_known(table, axes, known)
        if not free:
            logs += np.log(factor).reshape(rows, *(1,) * len(width))
        elif free == [node]:
            logs += np.log(np.broadcast_to(factor, (rows, *width)))
        else:
            row = [0] if len(free) < factor.ndim else []
            operands += [factor, row + [letters[axis] for axis in free]]
    if not operands:
        return logs
    wanted = [] if node is None else [letters[node]]
    kept = wanted if any(w in ax for w in wanted for ax in operands[1::2]) else []  # type: ignore[operator]
    rowed = any(0 in ax for ax in operands[1::2])  # type: ignore[operator]
    summed = np.einsum(*operands, [0, *kept] if rowed else kept, optimize="greedy")  # type: ignore[call-overload]
    summed = summed if rowed else summed[None]
    if node is not None and not kept:
        summed = summed[..., None]
    return np.asarray(logs + np.log(summed))


def _look_up_known(
    table: np.ndarray, axes: Sequence[str], known: Mapping[str, np.ndarray]
) -> np.ndarray:
    """The table at the known values, with the rows as first axis if any is known."""
    at = [i for i, axis in enumerate(axes) if axis in known]
    if not at:
        return table
    moved = np.moveaxis(table, at, range(len(at)))
    return np.asarray(moved[tuple(known[axes[i]] for i in at)])


def ancestral_sample(
    tables: Mapping[str, np.ndarray], network: Network, n: int, generator: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw category numbers of rows from the network, parents first."""
    found: dict[str, np.ndarray] = {}
    for node, parents in network.items():
        table = tables[node]
        if parents:
            rows = table[tuple(found[name] for name in parents)]
        else:
            rows = np.broadcast_to(table, (n, len(table)))
        found[node] = draw_indices(rows, generator)
    return found
