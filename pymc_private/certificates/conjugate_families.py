"""Conjugate families: which prior goes with which likelihood, and what records make of it."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pytensor.graph.basic import Variable
from pytensor.scalar.basic import Second
from pymc_private.certificates.conjugate_families__patterns import Numbers, arguments_of, elementwise_of, fractions, fractions_of, inverse_of, is_it, multiple_of, numbers_of, precision_of
from pymc_private.models.distributions__laws import kind_of
from pymc_private.privacy.rounding__power import float_down
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.data_variables import constant_value

@dataclass(frozen=True, eq=False)
class Conjugate:
    """A recognized model.

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
    prior: dict[str, Numbers]
    constants: dict[str, Numbers]
    update: Callable[[dict, dict, np.ndarray, Fraction], dict[str, Numbers]]

    def posterior(self, private: PrivateModel) -> dict[str, Numbers]:
        """Parameters of the posterior, without rounding. Reads the data."""
        source = private.sources[0]
        records = np.moveaxis(source.values(), source.axis, 0)
        found = self.update(self.prior, self.constants, records, private.power)
        return {name: np.asarray(value) for name, value in found.items()}


def _beta_prior(free: Variable) -> dict[str, Numbers] | None:
    arguments = arguments_of(free)
    if kind_of(free) == "uniform":
        ends = [constant_value(a) for a in arguments]
        one = fractions(np.ones(()))
        return {"a": one, "b": one} if ends == [0.0, 1.0] else None
    return _positive(a=fractions_of(arguments[0]), b=fractions_of(arguments[1]))


def _positive(**parts: Numbers | None) -> dict[str, Numbers] | None:
    """The numbers by name if all of them are known and positive."""
    known = {k: v for k, v in parts.items() if v is not None and all(x > 0 for x in np.ravel(v))}
    return known if len(known) == len(parts) else None


def _beta(free: Variable, rv: Variable) -> Conjugate | None:
    prior, likelihood, constants = _beta_prior(free), kind_of(rv), {}
    arguments = arguments_of(rv)
    if likelihood == "binomial":
        trials = constant_value(arguments[0])
        if trials is None or trials < 0 or trials != math.floor(trials):
            return None
        constants = {"trials": fractions(np.array(trials))}
    if prior is None or not is_it(arguments[-1], free):
        return None
    return Conjugate("beta", likelihood, (free.name,), prior, constants, _update_beta(likelihood))


def _update_beta(likelihood: str) -> Callable:
    def update(prior: dict, constants: dict, records: np.ndarray, power: Fraction) -> dict:
        total, count = _totals(records, np.shape(prior["a"]))
        if likelihood == "geometric":  # the number of trials up to the first success
            return {"a": prior["a"] + power * count, "b": prior["b"] + power * (total - count)}
        trials = Fraction(constants["trials"][()]) if constants else Fraction(1)
        misses = count * trials - total
        return {"a": prior["a"] + power * total, "b": prior["b"] + power * misses}

    return update


def _gamma_prior(free: Variable) -> dict[str, Numbers] | None:
    *shape, scale = arguments_of(free)
    inverse = inverse_of(scale)
    rate = fractions_of(inverse[0]) if inverse is not None else None
    if rate is None:
        known = fractions_of(scale)
        rate = None if known is None or not _positive(s=known) else 1 / known
    return _positive(a=fractions_of(shape[0]) if shape else fractions(np.ones(())), rate=rate)


def _gamma(free: Variable, rv: Variable) -> Conjugate | None:
    prior, likelihood = _gamma_prior(free), kind_of(rv)
    mean = arguments_of(rv)[0]
    if likelihood == "exponential":
        inverse = inverse_of(mean)
        mean = mean if inverse is None else inverse[0]
        if inverse is None:
            return None
    if prior is None or not is_it(mean, free):
        return None

    def update(prior: dict, constants: dict, records: np.ndarray, power: Fraction) -> dict:
        total, count = _totals(records, np.shape(prior["a"]))
        events, time = (total, count) if likelihood == "poisson" else (count, total)
        return {"a": prior["a"] + power * events, "rate": prior["rate"] + power * time}

    return Conjugate("gamma", likelihood, (free.name,), prior, {}, update)


def _normal(free: Variable, rv: Variable) -> Conjugate | None:
    (mean, scale), (mu, sigma) = arguments_of(free), arguments_of(rv)
    prior = _positive(sd=fractions_of(scale))
    center, constants = fractions_of(mean), _positive(sigma=fractions_of(sigma))
    if prior is None or center is None or constants is None or not is_it(mu, free):
        return None
    if np.size(constants["sigma"]) != 1:
        return None

    def update(prior: dict, constants: dict, records: np.ndarray, power: Fraction) -> dict:
        total, count = _totals(records, np.shape(prior["mean"]))
        known, each = 1 / prior["sd"] ** 2, 1 / constants["sigma"].ravel()[0] ** 2
        variance = 1 / (known + power * count * each)
        return {
            "mean": variance * (prior["mean"] * known + power * each * total),
            "variance": variance,
        }

    prior = {"mean": center, "sd": prior["sd"]}
    return Conjugate("normal", "normal", (free.name,), prior, constants, update)


def _dirichlet(free: Variable, rv: Variable) -> Conjugate | None:
    prior, likelihood, arguments = (
        _positive(a=fractions_of(arguments_of(free)[0])),
        kind_of(rv),
        arguments_of(rv),
    )
    if prior is None or not is_it(arguments[-1], free):
        return None
    constants = {}
    if likelihood == "multinomial":
        trials = constant_value(arguments[0])
        if trials is None:
            return None
        constants = {"trials": fractions(np.array(trials))}

    def update(prior: dict, constants: dict, records: np.ndarray, power: Fraction) -> dict:
        levels = np.size(prior["a"])
        if likelihood == "categorical":
            counts = np.bincount(np.asarray(records, dtype=np.int64), minlength=levels)
        else:
            counts = np.asarray(records, dtype=np.int64).sum(axis=0)
        return {"a": prior["a"] + power * counts.astype(object)}

    return Conjugate("dirichlet", likelihood, (free.name,), prior, constants, update)


def _totals(records: np.ndarray, shape: tuple[int, ...]) -> tuple[Numbers, int]:
    """Sum of the records without rounding, of a parameter's shape, and how many entries it has."""
    rows = records.reshape(-1) if shape == () else records.reshape(len(records), *shape)
    if rows.dtype.kind in "iub":
        total = np.sum(rows.astype(object), axis=0) if len(rows) else np.zeros(shape, dtype=object)
        return np.array(total, dtype=object) * Fraction(1), len(rows)
    columns = [rows[(slice(None), *index)] for index in np.ndindex(shape)]
    sums = [sum(map(Fraction, column.tolist()), Fraction(0)) for column in columns]
    return np.array([*sums, None], dtype=object)[:-1].reshape(shape), len(rows)


def normal_gamma(free: list[Variable], rv: Variable) -> Conjugate | None:
    """Precision t ~ Gamma(a, b), mean | t ~ N(m, 1 / (kappa t)), records ~ N(mean, 1 / t)."""
    if kind_of(rv) != "normal":
        return None
    mu, sigma = arguments_of(rv)
    for mean, precision in (free, free[::-1]):
        if kind_of(mean) != "normal" or kind_of(precision) not in ("gamma", "exponential"):
            continue
        inner, center = precision_of(sigma), fractions_of(arguments_of(mean)[0])
        outer = precision_of(arguments_of(mean)[1])
        kappa = None if outer is None else multiple_of(outer, precision)
        prior = _gamma_prior(precision)
        if inner is None or kappa is None or prior is None or center is None:
            continue
        if is_it(mu, mean) and is_it(inner, precision) and center.size == 1:
            start = {"m": center.reshape(()), "kappa": np.array(kappa, dtype=object)} | prior
            names = (mean.name, precision.name)
            return Conjugate("normal_gamma", "normal", names, start, {}, _update_normal_gamma)
    return None


def _update_normal_gamma(
    prior: dict, constants: dict, records: np.ndarray, power: Fraction
) -> dict[str, Numbers]:
    """Exact sums: kappa, m, a and rate after the records, each counted `power` times."""
    total, count = _totals(records, ())
    squares = sum((Fraction(x) ** 2 for x in np.ravel(records).tolist()), Fraction(0))
    m, kappa, a, rate = (prior[k][()] for k in ("m", "kappa", "a", "rate"))
    weight, moment = power * count, power * total[()]
    kappa_n = kappa + weight
    m_n = (kappa * m + moment) / kappa_n
    rate_n = rate + (power * squares + kappa * m**2 - kappa_n * m_n**2) / 2
    found = {"m": m_n, "kappa": kappa_n, "a": a + weight / 2, "rate": rate_n}
    return {k: np.array(v, dtype=object) for k, v in found.items()}


def _mvnormal(free: Variable, rv: Variable) -> Conjugate | None:
    """A normal mean vector with a known covariance of each record (floats)."""
    center, spread = (numbers_of(a) for a in arguments_of(free))
    mu, cov = arguments_of(rv)
    cov = numbers_of(cov)
    if center is None or spread is None or cov is None or not _is_filled(mu, free):
        return None
    if kind_of(free) == "normal":
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
    return Conjugate("mvnormal", "mvnormal", (free.name,), prior, {"cov": cov}, update)


def _is_filled(variable: Variable, rv: Variable) -> bool:
    """Whether a mean is the parameter, perhaps stretched over the covariance's own length."""
    op, inputs = elementwise_of(variable)
    return is_it(inputs[1] if op is Second else variable, rv)


def _are_covariances(*matrices: np.ndarray) -> bool:
    """Symmetric and positive definite, both of one size."""
    return (
        len({m.shape for m in matrices}) == 1
        and all(np.array_equal(m, m.T) for m in matrices)
        and all(np.linalg.eigvalsh(m)[0] > 0 for m in matrices)
    )


RULES: dict[tuple[str, str], Callable[[Variable, Variable], Conjugate | None]] = {
    **{
        (prior, likelihood): _beta
        for prior in ("beta", "uniform")
        for likelihood in ("bernoulli", "binomial", "geometric")
    },
    **{
        (prior, likelihood): _gamma
        for prior in ("gamma", "exponential")
        for likelihood in ("poisson", "exponential")
    },
    ("normal", "normal"): _normal,
    ("dirichlet", "categorical"): _dirichlet,
    ("dirichlet", "multinomial"): _dirichlet,
    ("mvnormal", "mvnormal"): _mvnormal,
    ("normal", "mvnormal"): _mvnormal,
}
"""What is recognized: (prior, likelihood)."""
