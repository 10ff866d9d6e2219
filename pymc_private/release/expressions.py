"""Expressions over the named variables of a release: ``"beta['age'] > 0 and sigma < 2"``.

An expression is parsed as Python, but only what stands in the tables below is understood, and
it is interpreted, never executed. Numbers are floats, and whole numbers are exact: see
`expression_arithmetic`. A variable stands for its value at one draw: its first index is the
first of its own dims, and ``sum`` and the like reduce all of its elements. Also here: access
to a released variable by name, its draws and its public box.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from pymc_private.errors import DomainError
from pymc_private.release import expression_arithmetic as numbers
from pymc_private.release.allowed import ReleaseContents
from pymc_private.release.expression_arithmetic import (
    always,
    arithmetic,
    constant_as_array,
    reduction,
)

OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: numbers.ADD, ast.Sub: numbers.SUBTRACT, ast.Mult: numbers.MULTIPLY,
    ast.Div: arithmetic(np.true_divide), ast.Pow: numbers.POWER, ast.Mod: numbers.MOD,
    ast.FloorDiv: numbers.FLOOR_DIVIDE, ast.USub: numbers.NEGATIVE, ast.UAdd: numbers.POSITIVE,
    ast.Not: numbers.logical_not, ast.Invert: numbers.bitwise_not,
    ast.BitAnd: numbers.connective(np.minimum), ast.BitOr: numbers.connective(np.maximum),
    ast.And: numbers.connective(np.minimum), ast.Or: numbers.connective(np.maximum),
    ast.Lt: numbers.LESS, ast.LtE: numbers.LESS_EQUAL, ast.Gt: numbers.GREATER,
    ast.GtE: numbers.GREATER_EQUAL, ast.Eq: numbers.EQUAL, ast.NotEq: numbers.UNEQUAL,
}  # fmt: skip
ELEMENTWISE: dict[str, tuple[int, Callable[..., Any]]] = {
    "abs": (1, arithmetic(np.abs, always)), "clip": (3, arithmetic(np.clip, always)),
    "cos": (1, arithmetic(np.cos)), "exp": (1, arithmetic(np.exp)),
    "expit": (1, arithmetic(special.expit)), "log": (1, arithmetic(np.log)),
    "log1p": (1, arithmetic(np.log1p)), "maximum": (2, arithmetic(np.maximum, always)),
    "minimum": (2, arithmetic(np.minimum, always)), "sign": (1, arithmetic(np.sign, always)),
    "sin": (1, arithmetic(np.sin)), "sqrt": (1, arithmetic(np.sqrt)),
    "tanh": (1, arithmetic(np.tanh)), "where": (3, numbers.select),
}  # fmt: skip
REDUCING: dict[str, Callable[..., Any]] = {
    "all": numbers.truth_reduction(np.min), "any": numbers.truth_reduction(np.max),
    "argmax": numbers.arg_reduction(np.argmax), "argmin": numbers.arg_reduction(np.argmin),
    "max": reduction(np.max, whole=True), "mean": reduction(np.mean),
    "min": reduction(np.min, whole=True), "sum": reduction(np.sum, whole=True),
    "norm": reduction(lambda x, axis: np.sqrt(np.sum(np.square(x), axis=axis))),
}  # fmt: skip
ARRAY_TYPES = (tuple, list, np.ndarray, np.generic)


@dataclass(frozen=True, eq=False)
class PerDraw:
    """Values whose first axis counts the draws; ``labels`` name positions along the other axes."""

    values: np.ndarray
    labels: tuple[tuple[Any, ...] | None, ...] = ()


def evaluate(text: str, draws: xr.Dataset, missing: Callable[[str], str], **given: Any) -> Any:
    """Evaluate an expression at every draw.

    Parameters
    ----------
    text : str
        Names are the variables of the release and those of `given`. Understood are arithmetic,
        comparisons (chained as well), ``and``, ``or``, ``not``, ``a if c else b``, indexing by
        position, slice or label, and the functions listed in this module.
    draws : xarray.Dataset
        Dims ``chain`` (size 1), ``draw``, ...
    missing : callable
        Gives the reason why a name was not released, as text.
    **given : object
        Further names: ``response``, ``query``.

    Returns
    -------
    array, shape (draws, ...)

    Raises
    ------
    DomainError
        It cannot be read, names what was not released, or indexes what is not there; or an event
        is unknown at some draws, because a number that it compares has no value there.
    """
    scope = _Evaluator(text, draws, missing, given)
    try:
        with np.errstate(all="ignore"):
            found = scope.at(_parse(text))
    except RecursionError as cause:
        raise _unreadable_error(text) from cause
    if isinstance(found, PerDraw):
        return numbers.final_values(found.values)
    constant = numbers.final_values(constant_as_array(found))
    return np.broadcast_to(constant, (draws.sizes["draw"], *constant.shape))


@lru_cache(maxsize=256)
def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as cause:
        raise _unreadable_error(text) from cause


def _unreadable_error(text: str) -> DomainError:
    return DomainError(
        "this expression cannot be read",
        got=text[:80],
        allowed="for example \"beta['age'] > 0 and sigma < 2\"",
    )


@dataclass(frozen=True)
class _Evaluator:
    """One evaluation: the expression, and what its names stand for."""

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
                return _apply_per_draw(OPERATORS[type(op)], self.at(part))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return _apply_per_draw(OPERATORS[type(op)], self.at(left), self.at(right))
            case ast.BoolOp(op=op, values=parts):
                return self._joined(OPERATORS[type(op)], [self.at(part) for part in parts])
            case ast.Compare(left=first, ops=ops, comparators=rest):
                return self._compared([first, *rest], ops)
            case ast.IfExp(test=test, body=body, orelse=other):
                return _apply_per_draw(numbers.select, self.at(test), self.at(body), self.at(other))
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
                return self._called(name, [self.at(part) for part in parts])
            case ast.Subscript(value=value, slice=index):
                return self._indexed(self.at(value), index)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return self._listed([self.at(part) for part in parts], node)
        raise self._refused(node)

    def _named(self, name: str) -> Any:
        """Value of a name: what is given, else a released variable."""
        if name in self.given:
            value = self.given[name]
            return self._array_of(value) if isinstance(value, ARRAY_TYPES) else value
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
        return PerDraw(numbers.as_operand(array.values[0]), labels)

    def _array_of(self, value: Any) -> Any:
        """A response or a query of several numbers, or one of NumPy's."""
        try:
            array = numbers.as_operand(np.asarray(value))
        except ValueError as cause:
            if isinstance(cause, DomainError):
                raise
            raise DomainError(
                "a response or a query with parts of unequal lengths is no array",
                got=type(value).__name__,
                allowed="a number, or numbers in one row",
                do="write the utility as a Python function of the draws",
            ) from cause
        return array if array.ndim else numbers.as_python_scalar(array)

    def _listed(self, parts: list[Any], node: ast.AST) -> np.ndarray:
        plain = all(isinstance(part, bool | int | float | np.ndarray) for part in parts)
        if not plain or len({np.shape(part) for part in parts}) != 1:
            raise self._refused(node, "lists of numbers, the same at every draw")
        arrays = [constant_as_array(part) for part in parts]
        same = len({array.dtype for array in arrays}) == 1
        return np.array(arrays if same else [numbers.as_number(array) for array in arrays])

    def _joined(self, join: Callable[..., Any], parts: list[Any]) -> Any:
        """Several events joined by ``and`` or ``or``."""
        whole = parts[0]
        for part in parts[1:]:
            whole = _apply_per_draw(join, whole, part)
        return whole

    def _compared(self, parts: list[ast.expr], ops: list[ast.cmpop]) -> Any:
        """A chain of comparisons."""
        if any(type(op) not in OPERATORS for op in ops):
            raise self._refused(ops[0])
        values = [self.at(part) for part in parts]
        found = [
            _apply_per_draw(OPERATORS[type(op)], left, right)
            for op, left, right in zip(ops, values[:-1], values[1:], strict=True)
        ]
        return self._joined(OPERATORS[ast.And], found)

    def _called(self, name: str, values: list[Any]) -> Any:
        """A function of the tables above, applied."""
        if name in REDUCING and len(values) == 1:
            (value,) = values
            if not isinstance(value, PerDraw):
                return numbers.as_python_scalar(REDUCING[name](constant_as_array(value).ravel()))
            return PerDraw(REDUCING[name](value.values.reshape(len(value.values), -1)))
        if name in ELEMENTWISE and len(values) == ELEMENTWISE[name][0]:
            return _apply_per_draw(ELEMENTWISE[name][1], *values)
        if name in ELEMENTWISE or name in REDUCING:
            takes = ELEMENTWISE[name][0] if name in ELEMENTWISE else 1
            raise DomainError(
                f"{name} takes {takes} argument{'s' * (takes > 1)}",
                got=len(values),
                do="maximum and minimum compare two; all and the like reduce one"
                if name in REDUCING
                else None,
            )
        raise DomainError(
            f"expressions know no function {name!r}",
            got=self.text[:80],
            allowed=", ".join(sorted([*ELEMENTWISE, *REDUCING])),
            do="write the utility as a Python function of the draws",
        )

    def _indexed(self, value: Any, index: ast.expr) -> Any:
        """A variable indexed along its own dims."""
        if not isinstance(value, PerDraw):
            return self._part(value, index)
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        labels = (*value.labels, *[None] * len(parts))
        positions = [
            self._position(part, label) for part, label in zip(parts, labels, strict=False)
        ]
        try:
            found = value.values[(slice(None), *positions)]
        except IndexError as cause:
            raise DomainError(
                f"no such element: {ast.unparse(index)}",
                got=self.text[:80],
                allowed=f"indexes of shape {value.values.shape[1:]}",
            ) from cause
        kept = [
            None if label is None else tuple(np.asarray(label, dtype=object)[position])
            for position, label in zip(positions, labels, strict=False)
            if isinstance(position, slice)
        ]
        return PerDraw(found, (*kept, *labels[len(parts) :]))

    def _part(self, value: Any, index: ast.expr) -> Any:
        """An element of a list of numbers, or of a response or query that has several."""
        position = self._position(index, None)
        try:
            found = np.asarray(value)[position]
        except IndexError as cause:
            raise DomainError(
                f"no such element: {ast.unparse(index)}",
                got=self.text[:80],
                allowed=f"indexes of shape {np.shape(value)}",
            ) from cause
        if isinstance(found, np.ndarray) and found.ndim:
            return found
        return (
            found.item()
            if isinstance(found, np.str_)
            else numbers.as_python_scalar(np.asarray(found))
        )

    def _position(self, index: ast.expr, labels: tuple[Any, ...] | None) -> Any:
        """A position along one axis: a label first, else a number or a slice of numbers."""
        if isinstance(index, ast.Slice):
            limits = [None if end is None else self.at(end) for end in
                    (index.lower, index.upper, index.step)]  # fmt: skip
            if all(end is None or type(end) is int for end in limits) and limits[2] != 0:
                return slice(*limits)
            raise self._no_element(ast.unparse(index), labels)
        position = self.at(index)
        if labels is not None and isinstance(position, str) and position in labels:
            return labels.index(position)
        if type(position) is int:
            return position
        raise self._no_element(ast.unparse(index), labels)

    def _no_element(self, written: str, labels: tuple[Any, ...] | None) -> DomainError:
        return DomainError(
            f"no such element: {written}",
            got=self.text[:80],
            allowed="a whole number, the same at every draw"
            + (f", or one of {list(labels)}" if labels else ""),
        )

    def _refused(
        self,
        node: ast.AST,
        allowed: str = "arithmetic, comparisons, and/or/not, indexes and functions",
    ) -> DomainError:
        return DomainError(
            f"expressions have no {type(node).__name__}",
            got=self.text[:80],
            allowed=allowed,
            do="write the utility as a Python function of the draws",
        )


def _apply_per_draw(operation: Callable[..., Any], *values: Any) -> Any:
    """Apply an operation draw by draw: axes after the first are aligned from the right."""
    arrays = [value for value in values if isinstance(value, PerDraw)]
    if not arrays:
        return numbers.apply_to_constants(operation, *values)
    whole = operation not in numbers.COMPARE and all(v.values.dtype != float for v in arrays)
    plain = [v.values if isinstance(v, PerDraw) else constant_as_array(v, whole) for v in values]
    inner = max(p.ndim - isinstance(v, PerDraw) for p, v in zip(plain, values, strict=True))
    aligned = [
        p.reshape(p.shape[0], *[1] * (inner + 1 - p.ndim), *p.shape[1:])
        if isinstance(v, PerDraw)
        else p
        for p, v in zip(plain, values, strict=True)
    ]
    try:
        found = np.asarray(operation(*aligned))
    except DomainError:
        raise
    except ValueError as cause:
        raise DomainError(
            "the parts of this expression have shapes that do not fit",
            got=" and ".join(str(p.shape) for p in plain),
            allowed="shapes that NumPy broadcasts, without chain and draw",
            do="pick entries, as in beta[0]",
        ) from cause
    labels = next((v.labels for v in arrays if v.values.ndim == found.ndim), ())
    return PerDraw(found, labels)


class DrawsByName(dict[str, np.ndarray]):
    """Draws by variable name; a missing name raises an error that lists the released ones."""

    def __init__(self, release: ReleaseContents) -> None:
        arrays = release.posterior.data_vars.items()
        super().__init__({str(name): array.values[0] for name, array in arrays})
        self._release = release

    def __missing__(self, name: str) -> np.ndarray:
        raise DomainError(
            f"{name!r} was not released{reason_not_released(self._release, name)}",
            got=repr(name),
            allowed=", ".join(self),
        )


def draws_dict(release: ReleaseContents) -> dict[str, np.ndarray]:
    """The draws as plain read-only arrays, shape (draws, ...), by variable name."""
    return DrawsByName(release)


def reason_not_released(release: ReleaseContents, name: str) -> str:
    """Why a variable was not released, where that is known: text to append to an error."""
    if name in release.facts.get("uncomputed", []):
        return ": it could not be computed at every draw"
    if name in release.facts.get("withheld", []):
        return ": it is computed from private data, or from random numbers of its own"
    return ""


def draws_of_variable(release: ReleaseContents, name: str) -> tuple[xr.DataArray, np.ndarray]:
    """A released variable and its draws as floats, shape (draws, elements).

    Refuses an unknown or withheld variable and lists the released ones.
    """
    posterior = release.posterior
    if not isinstance(name, str) or name not in posterior.data_vars:
        withheld = release.facts.get("withheld", [])
        problem = "No such variable in this release."
        if isinstance(name, str) and name in release.facts.get("uncomputed", []):
            problem = "This variable is withheld: it could not be computed at every draw."
        elif isinstance(name, str) and name in withheld:
            problem = (
                "This variable is withheld: it is computed from private data, or from random "
                "numbers of its own."
            )
        raise DomainError(
            problem,
            got=name if isinstance(name, str) else type(name).__name__,
            allowed=", ".join(map(str, posterior.data_vars))
            + (f" (withheld: {', '.join(withheld)})" if withheld else ""),
        )
    array = posterior[name]
    return array, array.values[0].reshape(array.sizes["draw"], -1).astype(float)


def public_box(
    release: ReleaseContents, array: xr.DataArray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str]:
    """Public bounds of each element, shape (elements,), and the reason where they are infinite."""
    shape = array.shape[2:]
    bounds = (release.facts.get("ranges") or {}).get(str(array.name))
    if bounds is None and array.dtype.kind == "b":
        bounds = [0, 1]
    low, high = (-math.inf, math.inf) if bounds is None else bounds
    try:
        lower, upper = (
            np.broadcast_to(np.asarray(sign * math.inf if end is None else end, float), shape)
            for sign, end in ((-1, low), (1, high))
        )
    except ValueError as cause:
        raise DomainError(
            f"The public range of {array.name!r} does not fit its shape.", allowed=str(shape)
        ) from cause
    lower, upper = lower.ravel(), upper.ravel()
    if np.any(values < lower) or np.any(values > upper):
        # An error bound from a wrong box would be wrong: give none.
        return (
            np.full_like(lower, -math.inf),
            np.full_like(upper, math.inf),
            "no bound: some draws lie outside the public range stated for this variable",
        )
    if np.all(np.isfinite(lower) & np.isfinite(upper)):
        return lower, upper, ""
    return (
        lower,
        upper,
        (
            "no public range bounds this variable, so a few draws cannot bound it either; "
            "trim(box=...) gives it one"
        ),
    )
