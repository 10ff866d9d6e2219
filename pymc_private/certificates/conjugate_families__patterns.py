"""What a graph is made of: the few shapes that conjugate models are written in."""

from __future__ import annotations

import math
import numpy as np
from fractions import Fraction
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Abs, Mul, Pow, Reciprocal, Sign, Sqrt, TrueDiv
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pymc_private.analysis.record_dependence import Concrete
from pymc_private.models.data_variables import constant_value

Numbers = np.ndarray
"""Fractions in an object array, unless a docstring says otherwise."""


def arguments_of(rv: Variable) -> list[Variable]:
    """Parameters of a distribution, without new axes on their left."""
    return [without_axes(v) for v in rv.owner.op.dist_params(rv.owner)]


def is_it(variable: Variable, rv: Variable) -> bool:
    """Whether a variable is a parameter itself."""
    return without_axes(variable) is rv


def without_axes(variable: Variable) -> Variable:
    """A variable without new axes on its left."""
    while variable.owner is not None:
        op = variable.owner.op
        if not (isinstance(op, DimShuffle) and _adds_on_the_left(op)):
            break
        variable = variable.owner.inputs[0]
    return variable


def _adds_on_the_left(op: DimShuffle) -> bool:
    kept = [k for k in op.new_order if k != "x"]
    return kept == sorted(kept) and list(op.new_order[len(op.new_order) - len(kept) :]) == kept


def elementwise_of(variable: Variable) -> tuple[type | None, list[Variable]]:
    """The elementwise operation a variable comes from, and its arguments."""
    variable = without_axes(variable)
    if variable.owner is None or not isinstance(variable.owner.op, Elemwise):
        return None, []
    return type(variable.owner.op.scalar_op), list(variable.owner.inputs)


def numbers_of(variable: Variable) -> np.ndarray | None:
    """The numbers a graph of constants holds, as floats, or None."""
    leaves = [v for v in ancestors([variable]) if v.owner is None]
    if not all(isinstance(leaf, Constant) for leaf in leaves):
        return None
    return np.asarray(Concrete({})(variable), dtype=float)


def fractions_of(variable: Variable) -> Numbers | None:
    """The finite numbers a graph of constants holds, or None."""
    found = numbers_of(variable)
    return None if found is None or not np.isfinite(found).all() else fractions(found)


def fractions(values: np.ndarray) -> Numbers:
    """Numbers as the fractions they are."""
    flat = [Fraction(float(x)) for x in np.ravel(values)]
    return np.array([*flat, None], dtype=object)[:-1].reshape(np.shape(values))


def inverse_of(variable: Variable) -> tuple[Variable, ...] | None:
    """What a variable is 1 over, if it is written so."""
    op, inputs = elementwise_of(variable)
    if op is Reciprocal:
        return (inputs[0],)
    if op is TrueDiv and constant_value(inputs[0]) == 1.0:
        return (inputs[1],)
    return None


def precision_of(scale: Variable) -> Variable | None:
    """t, if a scale is written as t^(-1/2): as a power, by a root, or as PyMC does it."""
    op, inputs = elementwise_of(scale)
    if op is Pow and constant_value(inputs[1]) == -0.5:
        inner, of = elementwise_of(inputs[0])
        return of[0] if inner is Abs else inputs[0]
    if op is Mul and len(inputs) == 2:  # PyMC: |t|^(-1/2) sign(t)
        for power, sign in (inputs, inputs[::-1]):
            kind, of = elementwise_of(sign)
            base = precision_of(power) if elementwise_of(power)[0] is Pow else None
            if kind is Sign and base is not None and is_it(of[0], base):
                return base
    inverse = inverse_of(scale)
    if inverse is not None and elementwise_of(inverse[0])[0] is Sqrt:
        return elementwise_of(inverse[0])[1][0]
    return None


def multiple_of(variable: Variable, rv: Variable) -> Fraction | None:
    """k > 0, if a variable is k times a parameter."""
    if is_it(variable, rv):
        return Fraction(1)
    op, inputs = elementwise_of(variable)
    if op is not Mul or len(inputs) != 2:
        return None
    for number, other in (inputs, inputs[::-1]):
        value = constant_value(number)
        if value is not None and value > 0 and math.isfinite(value) and is_it(other, rv):
            return Fraction(value)
    return None
