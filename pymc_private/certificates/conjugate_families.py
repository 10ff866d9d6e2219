"""Conjugate families: which prior goes with which likelihood, and the posterior of each pair.

A model is recognized by the few graph patterns that conjugate models are written in, never by
numbers: a match is a proof. Posterior parameters are exact fractions (floats for mvnormal).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Abs, Mul, Pow, Reciprocal, Second, Sign, Sqrt, TrueDiv
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.models.distributions import constant_value, distribution_name
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.rounding import float_down

FractionArray = np.ndarray
"""Fractions in an object array, unless a docstring says otherwise."""


@dataclass(frozen=True, eq=False)
class ConjugateModel:
    """A recognized conjugate model.

    Parameters
    ----------
    family : str
        Of the posterior: beta, gamma, normal, dirichlet, normal_gamma, mvnormal.
    likelihood : str
        Name of the likelihood's distribution, in lower case.
    names : tuple of str
        The parameters, in the order of the family's name.
    prior : dict of str to array
        Parameters of the prior, each of the shape of the parameter; Fractions, floats for
        mvnormal.
    constants : dict of str to array
        Public numbers of the likelihood.
    update : callable
        (prior, constants, records, power) -> parameters of the posterior.
    """

    family: str
    likelihood: str
    names: tuple[str, ...]
    prior: dict[str, FractionArray]
    constants: dict[str, FractionArray]
    update: Callable[[dict, dict, np.ndarray, Fraction], dict[str, FractionArray]]

    def posterior(self, private: PrivateModel) -> dict[str, FractionArray]:
        """Parameters of the posterior, without rounding. Reads the data."""
        source = private.sources[0]
        records = np.moveaxis(source.values(), source.axis, 0)
        found = self.update(self.prior, self.constants, records, private.power)
        return {name: np.asarray(value) for name, value in found.items()}


def normal_gamma_model(free: list[Variable], rv: Variable) -> ConjugateModel | None:
    """Precision t ~ Gamma(a, b), mean | t ~ N(m, 1 / (kappa t)), records ~ N(mean, 1 / t)."""
    if distribution_name(rv) != "normal":
        return None
    mu, sigma = distribution_arguments(rv)
    for mean, precision in (free, free[::-1]):
        if distribution_name(mean) != "normal" or distribution_name(precision) not in (
            "gamma",
            "exponential",
        ):
            continue
        inner, center = precision_argument(sigma), fractions_in(distribution_arguments(mean)[0])
        outer = precision_argument(distribution_arguments(mean)[1])
        kappa = None if outer is None else positive_multiple(outer, precision)
        prior = _gamma_prior(precision)
        if inner is None or kappa is None or prior is None or center is None:
            continue
        if is_parameter(mu, mean) and is_parameter(inner, precision) and center.size == 1:
            start = {"m": center.reshape(()), "kappa": np.array(kappa, dtype=object)} | prior
            names = (mean.name, precision.name)
            return ConjugateModel("normal_gamma", "normal", names, start, {}, _update_normal_gamma)
    return None


def _update_normal_gamma(
    prior: dict, constants: dict, records: np.ndarray, power: Fraction
) -> dict[str, FractionArray]:
    """Exact sums: kappa, m, a and rate after the records, each counted `power` times."""
    total, count = _exact_totals(records, ())
    squares = sum((Fraction(x) ** 2 for x in np.ravel(records).tolist()), Fraction(0))
    m, kappa, a, rate = (prior[k][()] for k in ("m", "kappa", "a", "rate"))
    weight, moment = power * count, power * total[()]
    kappa_n = kappa + weight
    m_n = (kappa * m + moment) / kappa_n
    rate_n = rate + (power * squares + kappa * m**2 - kappa_n * m_n**2) / 2
    found = {"m": m_n, "kappa": kappa_n, "a": a + weight / 2, "rate": rate_n}
    return {k: np.array(v, dtype=object) for k, v in found.items()}


def _beta_model(free: Variable, rv: Variable) -> ConjugateModel | None:
    """A probability with a Beta or uniform prior, of Bernoulli, binomial or geometric records."""
    prior, likelihood, constants = _beta_prior(free), distribution_name(rv), {}
    arguments = distribution_arguments(rv)
    if likelihood == "binomial":
        trials = constant_value(arguments[0])
        if trials is None or trials < 0 or trials != math.floor(trials):
            return None
        constants = {"trials": as_fractions(np.array(trials))}
    if prior is None or not is_parameter(arguments[-1], free):
        return None
    return ConjugateModel(
        "beta", likelihood, (free.name,), prior, constants, _update_beta(likelihood)
    )


def _beta_prior(free: Variable) -> dict[str, FractionArray] | None:
    """a and b of a Beta prior, or of the uniform one on (0, 1)."""
    arguments = distribution_arguments(free)
    if distribution_name(free) == "uniform":
        limits = [constant_value(a) for a in arguments]
        one = as_fractions(np.ones(()))
        return {"a": one, "b": one} if limits == [0.0, 1.0] else None
    return _if_positive(a=fractions_in(arguments[0]), b=fractions_in(arguments[1]))


def _update_beta(likelihood: str) -> Callable:
    def update(prior: dict, constants: dict, records: np.ndarray, power: Fraction) -> dict:
        total, count = _exact_totals(records, np.shape(prior["a"]))
        if likelihood == "geometric":  # the number of trials up to the first success
            return {"a": prior["a"] + power * count, "b": prior["b"] + power * (total - count)}
        trials = Fraction(constants["trials"][()]) if constants else Fraction(1)
        misses = count * trials - total
        return {"a": prior["a"] + power * total, "b": prior["b"] + power * misses}

    return update


def _gamma_model(free: Variable, rv: Variable) -> ConjugateModel | None:
    """A rate with a Gamma or exponential prior, of Poisson or exponential records."""
    prior, likelihood = _gamma_prior(free), distribution_name(rv)
    mean = distribution_arguments(rv)[0]
    if likelihood == "exponential":
        inverse = reciprocal_argument(mean)
        mean = mean if inverse is None else inverse[0]
        if inverse is None:
            return None
    if prior is None or not is_parameter(mean, free):
        return None

    def update(prior: dict, constants: dict, records: np.ndarray, power: Fraction) -> dict:
        total, count = _exact_totals(records, np.shape(prior["a"]))
        events, time = (total, count) if likelihood == "poisson" else (count, total)
        return {"a": prior["a"] + power * events, "rate": prior["rate"] + power * time}

    return ConjugateModel("gamma", likelihood, (free.name,), prior, {}, update)


def _gamma_prior(free: Variable) -> dict[str, FractionArray] | None:
    """Shape and rate of a Gamma or exponential prior."""
    *shape, scale = distribution_arguments(free)
    inverse = reciprocal_argument(scale)
    rate = fractions_in(inverse[0]) if inverse is not None else None
    if rate is None:
        known = fractions_in(scale)
        rate = None if known is None or not _if_positive(s=known) else 1 / known
    return _if_positive(a=fractions_in(shape[0]) if shape else as_fractions(np.ones(())), rate=rate)


def _normal_model(free: Variable, rv: Variable) -> ConjugateModel | None:
    """A mean with a normal prior, of normal records with a known standard deviation."""
    (mean, scale), (mu, sigma) = distribution_arguments(free), distribution_arguments(rv)
    prior = _if_positive(sd=fractions_in(scale))
    center, constants = fractions_in(mean), _if_positive(sigma=fractions_in(sigma))
    if prior is None or center is None or constants is None or not is_parameter(mu, free):
        return None
    if np.size(constants["sigma"]) != 1:
        return None

    def update(prior: dict, constants: dict, records: np.ndarray, power: Fraction) -> dict:
        total, count = _exact_totals(records, np.shape(prior["mean"]))
        known, each = 1 / prior["sd"] ** 2, 1 / constants["sigma"].ravel()[0] ** 2
        variance = 1 / (known + power * count * each)
        return {
            "mean": variance * (prior["mean"] * known + power * each * total),
            "variance": variance,
        }

    prior = {"mean": center, "sd": prior["sd"]}
    return ConjugateModel("normal", "normal", (free.name,), prior, constants, update)


def _dirichlet_model(free: Variable, rv: Variable) -> ConjugateModel | None:
    """Probabilities with a Dirichlet prior, of categorical or multinomial records."""
    prior, likelihood, arguments = (
        _if_positive(a=fractions_in(distribution_arguments(free)[0])),
        distribution_name(rv),
        distribution_arguments(rv),
    )
    if prior is None or not is_parameter(arguments[-1], free):
        return None
    constants = {}
    if likelihood == "multinomial":
        trials = constant_value(arguments[0])
        if trials is None:
            return None
        constants = {"trials": as_fractions(np.array(trials))}

    def update(prior: dict, constants: dict, records: np.ndarray, power: Fraction) -> dict:
        levels = np.size(prior["a"])
        if likelihood == "categorical":
            counts = np.bincount(np.asarray(records, dtype=np.int64), minlength=levels)
        else:
            counts = np.asarray(records, dtype=np.int64).sum(axis=0)
        return {"a": prior["a"] + power * counts.astype(object)}

    return ConjugateModel("dirichlet", likelihood, (free.name,), prior, constants, update)


def _mvnormal_model(free: Variable, rv: Variable) -> ConjugateModel | None:
    """A normal mean vector with a known covariance of each record (floats)."""
    center, spread = (constants_in(a) for a in distribution_arguments(free))
    mu, cov = distribution_arguments(rv)
    cov = constants_in(cov)
    if center is None or spread is None or cov is None or not _is_broadcast_of(mu, free):
        return None
    if distribution_name(free) == "normal":
        if not np.all(spread > 0):
            return None
        spread = np.eye(len(cov)) * np.broadcast_to(spread, len(cov)) ** 2
    center = np.broadcast_to(center, len(cov)).astype(float)
    if cov.ndim != 2 or not _are_covariances(spread, cov):
        return None

    def update(prior: dict, constants: dict, records: np.ndarray, power: Fraction) -> dict:
        known, each = np.linalg.inv(prior["cov"]), np.linalg.inv(constants["cov"])
        weight = float_down(power)
        precision = known + weight * len(records) * each
        right = known @ prior["mean"] + weight * each @ records.sum(axis=0)
        return {"mean": np.linalg.solve(precision, right), "precision": precision}

    prior = {"mean": center, "cov": spread}
    return ConjugateModel("mvnormal", "mvnormal", (free.name,), prior, {"cov": cov}, update)


def _is_broadcast_of(variable: Variable, rv: Variable) -> bool:
    """Whether a mean is the parameter, perhaps stretched over the covariance's own length."""
    op, inputs = elementwise_of(variable)
    return is_parameter(inputs[1] if op is Second else variable, rv)


def _are_covariances(*matrices: np.ndarray) -> bool:
    """Symmetric and positive definite, both of one size."""
    return (
        len({m.shape for m in matrices}) == 1
        and all(np.array_equal(m, m.T) for m in matrices)
        and all(np.linalg.eigvalsh(m)[0] > 0 for m in matrices)
    )


def _if_positive(**parts: FractionArray | None) -> dict[str, FractionArray] | None:
    """The numbers by name if all of them are known and positive."""
    known = {k: v for k, v in parts.items() if v is not None and all(x > 0 for x in np.ravel(v))}
    return known if len(known) == len(parts) else None


def _exact_totals(records: np.ndarray, shape: tuple[int, ...]) -> tuple[FractionArray, int]:
    """Sum of the records without rounding, of a parameter's shape, and how many entries it has."""
    rows = records.reshape(-1) if shape == () else records.reshape(len(records), *shape)
    if rows.dtype.kind in "iub":
        total = np.sum(rows.astype(object), axis=0) if len(rows) else np.zeros(shape, dtype=object)
        return np.array(total, dtype=object) * Fraction(1), len(rows)
    columns = [rows[(slice(None), *index)] for index in np.ndindex(shape)]
    sums = [sum(map(Fraction, column.tolist()), Fraction(0)) for column in columns]
    return np.array([*sums, None], dtype=object)[:-1].reshape(shape), len(rows)


CONJUGATE_RULES: dict[tuple[str, str], Callable[[Variable, Variable], ConjugateModel | None]] = {
    **{
        (prior, likelihood): _beta_model
        for prior in ("beta", "uniform")
        for likelihood in ("bernoulli", "binomial", "geometric")
    },
    **{
        (prior, likelihood): _gamma_model
        for prior in ("gamma", "exponential")
        for likelihood in ("poisson", "exponential")
    },
    ("normal", "normal"): _normal_model,
    ("dirichlet", "categorical"): _dirichlet_model,
    ("dirichlet", "multinomial"): _dirichlet_model,
    ("mvnormal", "mvnormal"): _mvnormal_model,
    ("normal", "mvnormal"): _mvnormal_model,
}
"""The recognizer of each (prior, likelihood)."""


def distribution_arguments(rv: Variable) -> list[Variable]:
    """Parameters of a distribution, without new axes on their left."""
    return [without_left_axes(v) for v in rv.owner.op.dist_params(rv.owner)]


def is_parameter(variable: Variable, rv: Variable) -> bool:
    """Whether a variable is the parameter `rv` itself, perhaps with new axes on its left."""
    return without_left_axes(variable) is rv


def without_left_axes(variable: Variable) -> Variable:
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
    variable = without_left_axes(variable)
    if variable.owner is None or not isinstance(variable.owner.op, Elemwise):
        return None, []
    return type(variable.owner.op.scalar_op), list(variable.owner.inputs)


def constants_in(variable: Variable) -> np.ndarray | None:
    """The numbers a graph of constants holds, as floats, or None."""
    leaves = [v for v in ancestors([variable]) if v.owner is None]
    if not all(isinstance(leaf, Constant) for leaf in leaves):
        return None
    return np.asarray(ConcreteValues({})(variable), dtype=float)


def fractions_in(variable: Variable) -> FractionArray | None:
    """The finite numbers a graph of constants holds, or None."""
    found = constants_in(variable)
    return None if found is None or not np.isfinite(found).all() else as_fractions(found)


def as_fractions(values: np.ndarray) -> FractionArray:
    """Numbers as the fractions they are."""
    flat = [Fraction(float(x)) for x in np.ravel(values)]
    return np.array([*flat, None], dtype=object)[:-1].reshape(np.shape(values))


def reciprocal_argument(variable: Variable) -> tuple[Variable, ...] | None:
    """x, as a tuple of one, if a variable is written as 1 / x."""
    op, inputs = elementwise_of(variable)
    if op is Reciprocal:
        return (inputs[0],)
    if op is TrueDiv and constant_value(inputs[0]) == 1.0:
        return (inputs[1],)
    return None


def precision_argument(scale: Variable) -> Variable | None:
    """t, if a scale is written as t^(-1/2): as a power, by a root, or as PyMC does it."""
    op, inputs = elementwise_of(scale)
    if op is Pow and constant_value(inputs[1]) == -0.5:
        inner, arguments = elementwise_of(inputs[0])
        return arguments[0] if inner is Abs else inputs[0]
    if op is Mul and len(inputs) == 2:  # PyMC: |t|^(-1/2) sign(t)
        for power, sign in (inputs, inputs[::-1]):
            outer, arguments = elementwise_of(sign)
            base = precision_argument(power) if elementwise_of(power)[0] is Pow else None
            if outer is Sign and base is not None and is_parameter(arguments[0], base):
                return base
    inverse = reciprocal_argument(scale)
    if inverse is not None and elementwise_of(inverse[0])[0] is Sqrt:
        return elementwise_of(inverse[0])[1][0]
    return None


def positive_multiple(variable: Variable, rv: Variable) -> Fraction | None:
    """k > 0, if a variable is k times a parameter."""
    if is_parameter(variable, rv):
        return Fraction(1)
    op, inputs = elementwise_of(variable)
    if op is not Mul or len(inputs) != 2:
        return None
    for number, other in (inputs, inputs[::-1]):
        value = constant_value(number)
        if value is not None and value > 0 and math.isfinite(value) and is_parameter(other, rv):
            return Fraction(value)
    return None
