"""Expressions over the named variables of a release: ``"beta['age'] > 0 and sigma < 2"``.

An expression is read as Python, but only what stands in the tables below is understood, and it is
interpreted, never executed. A variable stands for its value at one draw: its first index is the
first of its own dims, and ``sum`` and the like reduce all of its elements.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from pymc_private.errors import DomainError

if TYPE_CHECKING:
    import xarray as xr

OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.true_divide,
    ast.Pow: np.power, ast.Mod: np.mod, ast.FloorDiv: np.floor_divide, ast.USub: np.negative,
    ast.UAdd: np.positive, ast.Not: np.logical_not, ast.Invert: np.logical_not,
    ast.BitAnd: np.logical_and, ast.BitOr: np.logical_or,
    ast.And: np.logical_and, ast.Or: np.logical_or,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "clip": np.clip, "cos": np.cos, "exp": np.exp, "expit": special.expit,
    "log": np.log, "log1p": np.log1p, "maximum": np.maximum, "minimum": np.minimum,
    "sign": np.sign, "sin": np.sin, "sqrt": np.sqrt, "tanh": np.tanh, "where": np.where,
}  # fmt: skip
REDUCING: dict[str, Callable[..., Any]] = {
    "all": np.all, "any": np.any, "argmax": np.argmax, "argmin": np.argmin, "max": np.max,
    "mean": np.mean, "min": np.min, "sum": np.sum,
    "norm": lambda x, axis: np.sqrt(np.sum(np.square(x), axis=axis)),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class PerDraw:
    """Values of which the first axis counts the draws; ``labels`` name places along the others."""

    values: np.ndarray
    labels: tuple[tuple[Any, ...] | None, ...] = ()


def evaluate(text: str, draws: xr.Dataset, missing: Callable[[str], str], **given: Any) -> Any:
    """Evaluate an expression at every draw.

    Parameters
    ----------
    text : str
        Names are the variables of the release and what is given beside them. Understood are
        arithmetic, comparisons (chained as well), ``and``, ``or``, ``not``, ``a if c else b``,
        indexes by place, slice or label, and the functions listed in this module.
    draws : xarray.Dataset
        Dims ``chain`` (size 1), ``draw``, ...
    missing : callable
        Says what a name that is not there may be.
    **given : object
        Further names: ``response``, ``query``.

    Returns
    -------
    array, shape (draws, ...)

    Raises
    ------
    DomainError
        It cannot be read, names what was not released, or indexes what is not there.
    """
    scope = _Scope(text, draws, missing, given)
    with np.errstate(all="ignore"):
        found = scope.at(_parsed(text))
    if isinstance(found, PerDraw):
        return found.values
    return np.broadcast_to(np.asarray(found), (draws.sizes["draw"], *np.shape(found)))


@lru_cache(maxsize=256)
def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as cause:
        raise DomainError(
            "this expression cannot be read",
            got=text[:80],
            allowed="for example \"beta['age'] > 0 and sigma < 2\"",
        ) from cause


@dataclass(frozen=True)
class _Scope:
    """The names of one evaluation."""

    text: str
    draws: xr.Dataset
    missing: Callable[[str], str]
    given: Mapping[str, Any]

    def at(self, node: ast.AST) -> Any:
        """Value of a node: a PerDraw, or a plain constant."""
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return value
            case ast.Name(id=name):
                return self._named(name)
            case ast.UnaryOp(op=op, operand=part):
                return _apply(OPERATORS[type(op)], self.at(part))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return _apply(OPERATORS[type(op)], self.at(left), self.at(right))
            case ast.BoolOp(op=op, values=parts):
                return self._joined(OPERATORS[type(op)], [self.at(part) for part in parts])
            case ast.Compare(left=first, ops=ops, comparators=rest):
                return self._compared([first, *rest], ops)
            case ast.IfExp(test=test, body=body, orelse=other):
                return _apply(np.where, self.at(test), self.at(body), self.at(other))
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
                return self._called(name, [self.at(part) for part in parts])
            case ast.Subscript(value=value, slice=index):
                return self._indexed(self.at(value), index)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return np.array([self.at(part) for part in parts])
        raise self._refused(node)

    def _named(self, name: str) -> Any:
        if name in self.given:
            value = self.given[name]
            return np.asarray(value) if isinstance(value, tuple | list) else value
        if name not in self.draws.data_vars:
            known = ", ".join([*map(str, self.draws.data_vars), *self.given])
            raise DomainError(
                f"this expression reads {name!r}, which was not released{self.missing(name)}",
                got=self.text[:80],
                allowed=known,
            )
        array = self.draws[name]
        labels = tuple(
            tuple(array.coords[dim].values.tolist()) if dim in array.coords else None
            for dim in array.dims[2:]
        )
        return PerDraw(array.values[0], labels)

    def _joined(self, join: Callable[..., Any], parts: list[Any]) -> Any:
        whole = parts[0]
        for part in parts[1:]:
            whole = _apply(join, whole, part)
        return whole

    def _compared(self, parts: list[ast.expr], ops: list[ast.cmpop]) -> Any:
        if any(type(op) not in OPERATORS for op in ops):
            raise self._refused(ops[0])
        values = [self.at(part) for part in parts]
        found = [
            _apply(OPERATORS[type(op)], left, right)
            for op, left, right in zip(ops, values[:-1], values[1:], strict=True)
        ]
        return self._joined(np.logical_and, found)

    def _called(self, name: str, values: list[Any]) -> Any:
        if name in REDUCING and len(values) == 1:
            (value,) = values
            if not isinstance(value, PerDraw):
                return REDUCING[name](np.asarray(value), axis=None)
            count = len(value.values)
            return PerDraw(REDUCING[name](value.values.reshape(count, -1), axis=1))
        if name in ELEMENTWISE:
            return _apply(ELEMENTWISE[name], *values)
        raise DomainError(
            f"expressions know no function {name!r}",
            got=self.text[:80],
            allowed=", ".join(sorted([*ELEMENTWISE, *REDUCING])),
            do="write the utility as a Python function of the draws",
        )

    def _indexed(self, value: Any, index: ast.expr) -> Any:
        if not isinstance(value, PerDraw):
            return np.asarray(value)[self._place(index, None)]
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        labels = (*value.labels, *[None] * len(parts))
        places = [self._place(part, label) for part, label in zip(parts, labels, strict=False)]
        try:
            found = value.values[(slice(None), *places)]
        except IndexError as cause:
            raise DomainError(
                f"no such element: {ast.unparse(index)}",
                got=self.text[:80],
                allowed=f"indexes of shape {value.values.shape[1:]}",
            ) from cause
        kept = [
            None if label is None else tuple(np.asarray(label, dtype=object)[place])
            for place, label in zip(places, labels, strict=False)
            if isinstance(place, slice)
        ]
        return PerDraw(found, (*kept, *labels[len(parts) :]))

    def _place(self, index: ast.expr, labels: tuple[Any, ...] | None) -> Any:
        """A place along one axis: a label first, else a number or a slice of numbers."""
        if isinstance(index, ast.Slice):
            ends = [None if end is None else self.at(end) for end in
                    (index.lower, index.upper, index.step)]  # fmt: skip
            return slice(*ends)
        place = self.at(index)
        if isinstance(place, np.ndarray) and place.ndim == 0:
            place = place.item()
        if labels is not None and isinstance(place, str) and place in labels:
            return labels.index(place)
        if isinstance(place, int | np.integer) and not isinstance(place, bool):
            return int(place)
        raise DomainError(
            f"no such element: {place!r}",
            got=self.text[:80],
            allowed="a whole number" + (f", or one of {list(labels)}" if labels else ""),
        )

    def _refused(self, node: ast.AST) -> DomainError:
        return DomainError(
            f"expressions have no {type(node).__name__}",
            got=self.text[:80],
            allowed="arithmetic, comparisons, and/or/not, indexes and functions",
            do="write the utility as a Python function of the draws",
        )


def _apply(operation: Callable[..., Any], *values: Any) -> Any:
    """Apply an operation draw by draw: axes after the first are aligned from the right."""
    arrays = [value for value in values if isinstance(value, PerDraw)]
    if not arrays:
        return operation(*values)
    plain = [v.values if isinstance(v, PerDraw) else np.asarray(v) for v in values]
    inner = max(p.ndim - isinstance(v, PerDraw) for p, v in zip(plain, values, strict=True))
    aligned = [
        p.reshape(p.shape[0], *[1] * (inner + 1 - p.ndim), *p.shape[1:])
        if isinstance(v, PerDraw)
        else p
        for p, v in zip(plain, values, strict=True)
    ]
    try:
        found = np.asarray(operation(*aligned))
    except ValueError as cause:
        raise DomainError(
            "the parts of this expression have shapes that do not fit",
            got=" and ".join(str(p.shape) for p in plain),
        ) from cause
    labels = next((v.labels for v in arrays if v.values.ndim == found.ndim), ())
    return PerDraw(found, labels)
