"""Every distribution of PyMC: a finite bound that no pair escapes, or a named refusal."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from benchmarks.distributions import BY_NAME, REFUSED
from benchmarks.zoo import N
from pymc_private import certify, clip
from pymc_private.analysis.rewrites.normal_cdf import has_log_phi
from pymc_private.errors import NotCertified
from pymc_private.models.record_graph import factor_terms
from pymc_private.models.sequences.row_identity import public_data
from tests.analysis.graphs import evaluate
from tests.models.brute_force import by_record, random_points

SLOW = {f"mv normal of free {part}" for part in ("chol", "covariance", "correlation", "precision")}
SLOW |= {"mv normal of trimmed lkj", "mv normal of trimmed lkj covariance"}
LONG = {"multinomial of any counts"}


def later(name: str):
    """A case for the audits."""
    return pytest.param(name, marks=pytest.mark.audit)


# A third at every run, the rest with the audits.
FINITE = [
    later(name) if name in SLOW or place % 3 else name
    for place, name in enumerate(n for n in BY_NAME if n not in REFUSED)
]
ANY, SOON, POINTS = 1e9, 0.1, 24
"""Refine only what is not finite, search but briefly; points of the box to try."""
# PyMC 5 builds truncated discrete distributions by a Scan of the old signature.
pytestmark = pytest.mark.filterwarnings("ignore:Scan return signature:DeprecationWarning")


def private_of(name: str, seed: int):
    entry = BY_NAME[name]
    return entry.privatize(entry.data(np.random.default_rng(seed), N))


@cache
def first(name: str):
    return private_of(name, 1)


@cache
def range_of(name: str) -> float:
    try:
        return certify(first(name), tolerance=ANY, seconds=SOON).range
    except NotCertified:
        return certify(first(name), tolerance=ANY).range


def table_of(private, points) -> np.ndarray:
    """PyMC's own log-likelihood of each record at each point, without any rewrite of ours."""
    parameters = {rv.name: rv.type(name=rv.name) for rv in private.base.free_RVs}
    terms = dict(factor_terms(private.base, parameters))
    outs = [terms[name] for name in private.graph.factors]
    shared = {v: v.get_value() for v in public_data(outs)}
    rows = []
    for point in points:
        given = {parameters[name]: value for name, value in point.items()} | shared
        rows.append(sum(by_record(value) for value in evaluate(outs, given)))
    return np.array(rows)


@pytest.mark.thin(12)
@pytest.mark.parametrize("name", FINITE)
def test_a_distribution_has_a_finite_range_that_no_pair_escapes(name):
    """1369 pairs of records, each at all pairs of the points."""
    bound, rng = range_of(name), np.random.default_rng(7)
    assert np.isfinite(bound)
    points = list(random_points(first(name), rng, POINTS))
    logp = table_of(first(name), points)
    assert np.isfinite(logp).all()
    pairs = logp[:, :, None] - logp[:, None, :]
    variation = (pairs.max(axis=0) - pairs.min(axis=0)).max()
    # PyMC's own rounding, where R is 0, and that of its root of 2 where it writes log Phi.
    assert variation <= bound + (1e-7 if has_log_phi(first(name).graph.record) else 1e-12)
    if name not in LITTLE:
        assert variation > 0.02 * bound  # not vacuous


LITTLE = {"triangular of free end", "uniform", "discrete uniform"}
"""Distributions in which records and parameters hardly meet."""


@pytest.mark.parametrize("name", [later(n) if n in LONG else n for n in REFUSED])
def test_a_distribution_without_a_bound_is_refused_with_its_reason(name):
    with pytest.raises(NotCertified) as refusal:
        certify(private_of(name, 1))
    text = str(refusal.value)
    assert REFUSED[name] in text
    assert "what to do" in text


@pytest.mark.audit
def test_a_black_box_is_cured_by_a_clip():
    private = private_of("polya gamma", 1)
    with pytest.raises(NotCertified, match="no rule") as refusal:
        certify(private)
    assert "pmp.clip(private, lower, upper)" in str(refusal.value)
    assert "trim" not in str(refusal.value)
    assert certify(clip(private, -5, 2)).range == 14.0  # T25: 2 (upper - lower)


def test_the_normal_tail_of_an_ex_gaussian_is_bounded_closely():
    """It was twice too large while log Phi was read as PyMC's two forms, one on each side of -1."""
    assert certify(first("ex gaussian")).tightness < 1.02


def test_a_planted_escape_is_caught():
    """The search above would see a bound that is a tenth too small."""
    name = "bernoulli"
    logp = table_of(first(name), list(random_points(first(name), np.random.default_rng(7), POINTS)))
    pairs = logp[:, :, None] - logp[:, None, :]
    assert (pairs.max(axis=0) - pairs.min(axis=0)).max() > 0.9 * range_of(name)
