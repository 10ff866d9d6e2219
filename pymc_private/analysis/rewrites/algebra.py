"""Algebraic rewrites of sums, products, switches, signs and checks.

`expand_products` writes products of sums out, so that what cancels in a difference can be left
out: in -(b - rho x)^2 / (2 s^2) the square of b reads no record x and cancels; interval
arithmetic would count it. `merge_switches` makes a sum of switches by one condition one switch:
for c ? a : 0 and c ? 0 : b interval arithmetic adds a and b, which are never added.
`factor_predictors` takes back factors that PyTensor multiplied out, so that a linear predictor
is found. `addends` takes one step from a sum towards the factor rows that it adds up.

The asymmetric Laplace density of PyMC is a product with signs:

    v sign(v) k^sign(v) = (k + 1/k) / 2 |v| + (k - 1/k) / 2 v        for a number k > 0,

both sides being k v above zero, -v / k below it and 0 at zero. The right side is seen to be
continuous and convex; the left side is not.

PyMC states the conditions of a distribution (sigma > 0) for all records at once, so that a
value of -inf for all of them depends on each record. Where terms are clipped one by one, one
record must not decide about the others, so `checks_to_switches` gives each element its own part
of the condition: -inf where it fails, record by record. Real arithmetic throughout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import combinations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer, WalkingGraphRewriter, node_rewriter
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.variable import TensorConstant

from pymc_private.analysis.intervals.arrays import layout_inputs
from pymc_private.analysis.record_dependence import ConcreteValues, conjuncts
from pymc_private.analysis.rewrites.small_matrices import is_zero
from pymc_private.analysis.traversal import (
    apply_rewriters,
    is_substitute,
    negated,
    rebuild,
    same_variable,
    scalar_op,
    substitute,
    without_dimshuffles,
    without_leading_axes,
)

MOST_TERMS = 64
"""Terms of a product that is written out; one of more stays as it is."""
SUMMABLE_DTYPES = ("float64", "float32", "int64")
"""Numbers of which sums are taken as sums of real numbers."""


def expand_products(value: Variable) -> Variable:
    """The same function as a sum of products."""
    terms = _expanded_terms(value)
    return pt.add(*terms) if len(terms) > 1 else terms[0]


def _expanded_terms(value: Variable) -> list[Variable]:
    """Variables that add up to another, each of its shape."""
    node = value.owner
    if node is None:
        return [value]
    if isinstance(node.op, DimShuffle | Sum):
        return [node.op(term) for term in _expanded_terms(node.inputs[0])]
    # Sums of narrow integers wrap around, and those of Booleans are Booleans.
    if not isinstance(node.op, Elemwise) or value.type.dtype not in SUMMABLE_DTYPES:
        return [value]
    found = _expanded_elementwise(node.op.scalar_op, node.inputs)
    if found is None or len(found) > MOST_TERMS:
        return [value]
    # A term that is broadcast would be counted once where it counts for many: s ** [2, 2].
    same = all(term.type.broadcastable == value.type.broadcastable for term in found)
    return found if same else [value]


def _expanded_elementwise(op: ps.ScalarOp, inputs: list[Variable]) -> list | None:
    """The terms of a sum, a product, a square, or a quotient; None for other functions."""
    if isinstance(op, ps.Add | ps.Sub | ps.Neg):
        is_negated = isinstance(op, ps.Neg)
        signs = [is_negated or (k > 0 and isinstance(op, ps.Sub)) for k in range(len(inputs))]
        parts = zip(signs, inputs, strict=True)
        return [-t if minus else t for minus, v in parts for t in _expanded_terms(v)]
    if isinstance(op, ps.Mul):
        found = _expanded_terms(inputs[0])
        for factor in inputs[1:]:
            found = [a * b for a in found for b in _expanded_terms(factor)][: MOST_TERMS + 1]
        return found
    if isinstance(op, ps.TrueDiv):
        return [term / inputs[1] for term in _expanded_terms(inputs[0])]
    if isinstance(op, ps.Sqr) or (isinstance(op, ps.Pow) and _is_two(inputs[1])):
        terms = _expanded_terms(inputs[0])
        pairs = [(a, b) for k, a in enumerate(terms) for b in terms[k + 1 :]]
        return [pt.sqr(a) for a in terms] + [2.0 * a * b for a, b in pairs]
    return None


def _is_two(exponent: Variable) -> bool:
    """Whether an exponent is the constant 2."""
    return isinstance(exponent, TensorConstant) and bool((exponent.data == 2).all())


# ---- switches --------------------------------------------------------------------------------


@node_rewriter([Elemwise])
def merge_switches(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """(c ? a : b) + (c ? d : e) = c ? a + d : b + e, and q ? (c ? 0 : a) : (c ? 0 : b) likewise."""
    op, out = node.op.scalar_op, node.outputs[0]
    if isinstance(op, ps.Add):
        found = _merge_added_switches(list(node.inputs))
    elif isinstance(op, ps.Switch):
        found = _merge_nested_switches(*node.inputs)
    else:
        return None
    return substitute(found, out)


def _merge_added_switches(terms: list[Variable]) -> Variable | None:
    """The sum, where two of its terms are switches by one condition."""
    for first, second in combinations(terms, 2):
        if not (_is_switch(first) and _is_switch(second)):
            continue
        (condition, a, b), (other, d, e) = first.owner.inputs, second.owner.inputs
        if condition is other:
            joined = pt.switch(condition, _added_branches(a, d), _added_branches(b, e))
            rest = [v for v in terms if v is not first and v is not second]
            return pt.add(joined, *rest) if rest else joined
    return None


def _merge_nested_switches(condition: Variable, yes: Variable, no: Variable) -> Variable | None:
    """The outer switch moved inside, where both inner ones are zero on one side of a condition."""
    if not (_is_switch(yes) and _is_switch(no)) or yes.owner.inputs[0] is not no.owner.inputs[0]:
        return None
    (inner, a, b), (_, d, e) = yes.owner.inputs, no.owner.inputs
    if is_zero(a) and is_zero(d):
        return pt.switch(inner, a, pt.switch(condition, b, e))
    if is_zero(b) and is_zero(e):
        return pt.switch(inner, pt.switch(condition, a, d), b)
    return None


def _is_switch(variable: Variable) -> bool:
    """Whether a variable is an elementwise switch."""
    return isinstance(scalar_op(variable), ps.Switch)


def _added_branches(first: Variable, second: Variable) -> Variable:
    """The sum of two branches, without a zero."""
    if is_zero(second) and second.type.ndim <= first.type.ndim:
        return first
    if is_zero(first) and first.type.ndim <= second.type.ndim:
        return second
    return first + second


# ---- signs -----------------------------------------------------------------------------------


def signs_to_absolute_values(value: Variable) -> Variable:
    """The same function with v sign(v) k^sign(v) by |v|; `value` itself if there is none."""
    return apply_rewriters(value, _sign_product_rewrite)


@node_rewriter([Elemwise])
def _sign_product_rewrite(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """v sign(v) k^sign(v) = (k + 1/k) / 2 |v| + (k - 1/k) / 2 v."""
    if not isinstance(node.op.scalar_op, ps.Mul):
        return None
    factors = list(node.inputs)
    for power in factors:
        base = _positive_base(power)
        if base is None:
            continue
        inner = without_leading_axes(power).owner.inputs[1]
        others = [f for f in factors if f is not power]
        sign = next((f for f in others if same_variable(f, inner)), None)
        v = None if sign is None else without_leading_axes(sign).owner.inputs[0]
        term = next(
            (f for f in others if f is not sign and v is not None and same_variable(f, v)), None
        )
        if term is None:
            continue
        rest = [f for f in others if f is not sign and f is not term]
        absolute = 0.5 * (base + 1.0 / base) * abs(term) + 0.5 * (base - 1.0 / base) * term
        found = pt.mul(absolute, *rest) if rest else absolute
        out = node.outputs[0]
        return [found] if found.type.is_super(out.type) and out.type.is_super(found.type) else None
    return None


def _positive_base(power: Variable) -> Variable | None:
    """The number k > 0 of k^sign(v)."""
    core = without_leading_axes(power)
    if not isinstance(scalar_op(core), ps.Pow):
        return None
    base, exponent = core.owner.inputs
    is_number = isinstance(base, pt.TensorConstant) and bool(np.all(np.asarray(base.data) > 0.0))
    is_sign = isinstance(scalar_op(without_leading_axes(exponent)), ps.Sign)
    return base if is_number and is_sign else None


# ---- terms of a sum --------------------------------------------------------------------------


ReadsRecord = Callable[[Variable], bool]
"""Whether a variable reads a record."""

SUM_PRESERVING_OPS = (DimShuffle, Reshape, ScalarFromTensor, SpecifyShape, Sum, TensorFromScalar)
"""Ops after which the sum of all elements is what it was."""


def addends(
    variable: Variable, reads: ReadsRecord, concrete: ConcreteValues
) -> list[Variable] | None:
    """Variables whose elements, all added up, give the sum of the elements of another.

    One step down; None where `variable` is no sum. A factor that reads a record is not multiplied
    into the parts. `concrete` gives shapes.
    """
    node = variable.owner
    if node is None or variable.type.dtype not in SUMMABLE_DTYPES:
        return None
    op = node.op
    if isinstance(op, SUM_PRESERVING_OPS):
        return [node.inputs[0]] if is_real_sum(node) else None
    if isinstance(op, MakeVector):
        return list(node.inputs)
    if isinstance(op, Join):
        return list(joined_arrays(node))
    if isinstance(op, CheckAndRaise):
        if any(reads(condition) for condition in node.inputs[1:]):
            return None
        inner = addends(node.inputs[0], reads, concrete)
        return None if inner is None else [op(part, *node.inputs[1:]) for part in inner]
    if isinstance(op, Dot):
        return [elementwise_products(node)]
    if isinstance(op, Elemwise):
        return _elementwise_addends(node, reads, concrete)
    return None


def is_real_sum(node: Apply) -> bool:
    """Whether a Sum adds numbers up as real numbers: one kept in a narrow integer wraps around."""
    return getattr(node.op, "acc_dtype", None) in (None, "uint64", *SUMMABLE_DTYPES)


def elementwise_products(node: Apply) -> Variable:
    """The products that an inner product adds up, in its own type."""
    x, y = (pt.cast(v, node.outputs[0].type.dtype) for v in node.inputs)
    left = x if y.type.ndim == 1 else pt.expand_dims(x, x.type.ndim)
    right = y if x.type.ndim == 1 else pt.expand_dims(y, 0)
    return left * right


def _elementwise_addends(
    node: Apply, reads: ReadsRecord, concrete: ConcreteValues
) -> list[Variable] | None:
    """Terms of a sum, and of a sum times a number that reads no record."""
    op, first = node.op.scalar_op, node.inputs[0]
    if isinstance(op, ps.Add | ps.Sub):
        terms = signed_terms(node)
        whole = int(np.prod(concrete.shape(node.outputs[0])))
        # Broadcasting repeats each element of a term equally often.
        times = [whole // max(int(np.prod(concrete.shape(v))), 1) for v in node.inputs]
        return [v * float(k) if k > 1 else v for v, k in zip(terms, times, strict=True)]
    if isinstance(op, ps.Neg):
        inner = addends(first, reads, concrete)
        wide = node.outputs[0].type.dtype
        return None if inner is None else [-pt.cast(part, wide) for part in inner]
    if isinstance(op, ps.Mul | ps.TrueDiv):
        return _scaled_addends(node, reads, concrete)
    return None


def signed_terms(node: Apply) -> list[Variable]:
    """The terms of a sum or a difference with their signs, in its type: unsigned ones have none."""
    minus = isinstance(node.op.scalar_op, ps.Sub)
    wide = [pt.cast(v, node.outputs[0].type.dtype) for v in node.inputs]
    return [-v if k and minus else v for k, v in enumerate(wide)]


def _scaled_addends(
    node: Apply, reads: ReadsRecord, concrete: ConcreteValues
) -> list[Variable] | None:
    """(a + b) c and (a + b) / c, for a single number c that reads no record."""
    read = [v for v in node.inputs if reads(v)]
    others = [v for v in node.inputs if v not in read]
    whole = concrete.shape(node.outputs[0])
    divides = isinstance(node.op.scalar_op, ps.TrueDiv)
    if len(read) != 1 or concrete.shape(read[0]) != whole or (divides and node.inputs[1] in read):
        return None
    if any(int(np.prod(concrete.shape(v))) != 1 for v in others):
        return None
    inner = addends(read[0], reads, concrete)
    if inner is None:
        return None
    numbers = [v.sum() for v in others]
    return [part / numbers[0] if divides else pt.mul(part, *numbers) for part in inner]


def joined_arrays(node: Apply) -> list[Variable]:
    """The arrays that a Join concatenates."""
    known = layout_inputs(node.op, len(node.inputs))
    return [v for k, v in enumerate(node.inputs) if k not in known]


def without_trivial_repeats(terms: Sequence[Variable], concrete: ConcreteValues) -> list[Variable]:
    """The same graphs without repeats to the same shape and splits of what was just joined.

    PyMC's sequences repeat terms to the shape they have, by sizes of the whole sequence,
    and join differences to a start only to split them off again.
    """
    parts = {v: _unsplit_array(v, concrete) for v in ancestors(list(terms))}
    splits = {v: part for v, part in parts.items() if part is not None}

    def unrepeated(node: Apply, inputs: list[Variable]) -> Variable | None:
        if not isinstance(node.op, Alloc):
            return None
        same = inputs[0].type.ndim == node.outputs[0].type.ndim
        shapes = (concrete.shape(v) for v in (node.inputs[0], node.outputs[0]))
        return inputs[0] if same and len(set(shapes)) == 1 else None

    kept = rebuild(terms, splits)
    leaves = {v: v for v in ancestors(kept) if v.owner is None}
    return rebuild(kept, leaves, unrepeated)


def _unsplit_array(variable: Variable, concrete: ConcreteValues) -> Variable | None:
    """The joined array that an output of Split is, if it is one of them."""
    node = variable.owner
    if node is None or not isinstance(node.op, Split):
        return None
    source = node.inputs[0].owner
    if source is None or not isinstance(source.op, Join):
        return None
    parts, position = joined_arrays(source), node.outputs.index(variable)
    fits = [concrete.shape(p) for p in parts] == [concrete.shape(v) for v in node.outputs]
    return parts[position] if fits else None


# ---- common factors --------------------------------------------------------------------------


def factor_predictors(value: Variable, parameters: Collection[Variable]) -> Variable:
    """The same graph with equal nodes merged, and what is multiplied out taken back.

    c x y is written c (x y), -x - y is -(x + y), and y x b is y (x b) where x b stands elsewhere:
    PyTensor multiplies the minus of -eta out and the y of y eta in, so that a graph that reads eta
    alone seems to read two nodes.
    """
    graph = FunctionGraph(outputs=[value], clone=True, copy_inputs=False)
    for _ in range(2):
        for rule in (_factor_number, _factor_minus):
            WalkingGraphRewriter(rule).rewrite(graph)
            MergeOptimizer().rewrite(graph)
    _factor_products(graph, set(parameters))
    return graph.outputs[0]


def _factor_products(graph: FunctionGraph, parameters: set[Variable]) -> None:
    """y x b = y (x b), where x b stands in the graph and reads a parameter."""
    products = [n for n in graph.toposort() if isinstance(scalar_op(n.outputs[0]), ps.Mul)]
    reading = [n for n in products if not parameters.isdisjoint(ancestors(n.outputs))]
    for node in reading:
        factors = Counter(node.inputs)
        parts = [p for p in reading if len(p.inputs) < len(node.inputs)]
        part = max(
            (p for p in parts if Counter(p.inputs) <= factors),
            key=lambda p: len(p.inputs),
            default=None,
        )
        if part is None:
            continue
        rest = (factors - Counter(part.inputs)).elements()
        new = pt.mul(*rest, part.outputs[0])
        if is_substitute(new, node.outputs[0]):
            graph.replace(node.outputs[0], new)


@node_rewriter([Elemwise])
def _factor_number(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """c x y = c (x y)."""
    if not isinstance(node.op.scalar_op, ps.Mul) or len(node.inputs) < 3:
        return None
    numbers = [v for v in node.inputs if _is_number(v)]
    rest = [v for v in node.inputs if not _is_number(v)]
    if not numbers or len(rest) < 2:
        return None
    return substitute(pt.mul(*numbers, pt.mul(*rest)), node.outputs[0])


@node_rewriter([Elemwise])
def _factor_minus(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """-x - y = -(x + y)."""
    if not isinstance(node.op.scalar_op, ps.Add):
        return None
    parts = [negated(v) for v in node.inputs]
    if any(part is None for part in parts):
        return None
    return substitute(pt.constant(-1.0) * pt.add(*parts), node.outputs[0])


def _is_number(variable: Variable) -> bool:
    """Whether a variable is one constant number, whatever axes it was given."""
    variable = without_dimshuffles(variable)
    return isinstance(variable, Constant) and variable.data.size == 1


# ---- conditions ------------------------------------------------------------------------------


def checks_to_switches(
    outputs: Sequence[Variable], private: Collection[Variable]
) -> list[Variable]:
    """Graphs with each check of a float replaced by its values, -inf where a condition fails.

    `outputs` are left untouched; `private` inputs hold records. A condition that reads none of them
    holds or fails for all records; any other applies to the elements it broadcasts with. Whether
    each element reads one record only is for `element_labels` to prove.
    """
    new: dict[Variable, Variable] = {}
    for node in io_toposort([], list(outputs)):
        inputs = [new.get(v, v) for v in node.inputs]
        if isinstance(node.op, CheckAndRaise) and inputs[0].type.dtype.startswith("float"):
            new[node.outputs[0]] = _switch_on_conditions(inputs[0], inputs[1:], private)
        elif inputs != list(node.inputs):
            copy = node.clone_with_new_inputs(inputs)
            new.update(zip(node.outputs, copy.outputs, strict=True))
    return [new.get(v, v) for v in outputs]


def _switch_on_conditions(
    value: Variable, conditions: Sequence[Variable], private: Collection[Variable]
) -> Variable:
    """The value where all conditions hold, else -inf."""
    impossible = np.array(-np.inf, dtype=value.type.dtype)
    for part in conjuncts(conditions):
        value = pt.switch(_aligned_condition(part, value, private), value, impossible)
    return value


def _aligned_condition(part: Variable, value: Variable, private: Collection[Variable]) -> Variable:
    """One part of a condition, in a shape that broadcasts with the value."""
    if not any(v in private for v in ancestors([part])):
        return pt.all(part)
    # Axes of a multivariate distribution beyond those of its density belong to one element.
    extra = tuple(range(value.type.ndim, part.type.ndim))
    return pt.all(part, axis=extra) if extra else part
