"""Models with loops (`pytensor.scan`) over the times of a person: as if they were written out."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import pymc_private as pmp
from pymc_private.errors import DomainError, NotCertified
from tests.analysis.graphs import evaluate

N, TIMES = 12, 4
Y = np.random.default_rng(5).uniform(-2, 2, (N, TIMES))
# PyTensor 3 wants to be told how updates are returned; PyTensor 2 does not know the word.
pytestmark = pytest.mark.filterwarnings("ignore:.*return_updates.*")


def looped(step, sequence, start, *others):
    found = pytensor.scan(step, [sequence], [start], others)
    return (found[0] if isinstance(found, tuple) else found)[-1]


def written_out(step, sequence, start, *others):
    for t in range(TIMES - 1):
        start = step(sequence[t], start, *others)
    return start


def hidden_chain(recursion):
    """Two hidden states of each person, seen with noise at each time."""

    def logp(y, gap, stay, _):
        gap, stay = gap.ravel()[0], stay.ravel()[0]  # PyMC may add axes
        means = pt.stack([-gap, gap])
        seen = pm.logp(pm.Normal.dist(means, 1.0), y[..., None])  # (persons, times, states)
        moves = pt.log(pt.stack([pt.stack([stay, 1 - stay]), pt.stack([1 - stay, stay])]))

        def step(now, ahead, moves):
            return pt.logsumexp(ahead[..., :, None] + moves, axis=-2) + now

        start = np.log(0.5) + seen[:, 0]
        return pt.logsumexp(recursion(step, seen[:, 1:].swapaxes(0, 1), start, moves), axis=-1)

    with pm.Model() as model:
        gap, stay = pm.Uniform("gap", 0.5, 1.5), pm.Uniform("stay", 0.6, 0.9)
        words = {"logp": logp, "signature": "(),(),(t)->(t)", "observed": Y}
        pm.CustomDist("y", gap, stay, np.zeros(TIMES), **words)
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-2, 2)})


def forward(y, gap, stay):
    """The same by NumPy."""
    moves = np.log([[stay, 1 - stay], [1 - stay, stay]])
    seen = norm.logpdf(y[..., None], [-gap, gap], 1.0)
    ahead = np.log(0.5) + seen[:, 0]
    for t in range(1, TIMES):
        ahead = logsumexp(ahead[:, :, None] + moves, axis=1) + seen[:, t]
    return logsumexp(ahead, axis=1)


def test_each_person_has_a_log_likelihood_of_its_own():
    private = hidden_chain(looped)
    assert not private.graph.rows_differ
    point = {"gap": np.array(1.1), "stay": np.array(0.7)}
    given = {private.graph.parameters[name]: value for name, value in point.items()}
    given[private.graph.data["y"]] = Y
    (found,) = evaluate([private.graph.record], given)
    np.testing.assert_allclose(found, forward(Y, 1.1, 0.7), rtol=1e-12)


def test_bounds_are_those_of_the_recursion_written_out(quick):
    one, other = (pmp.certify(hidden_chain(way)) for way in (looped, written_out))
    assert one.range == pytest.approx(other.range, rel=0.05)
    rng = np.random.default_rng(6)
    ends = np.array(np.meshgrid(*[[-2.0, 2.0]] * TIMES)).reshape(TIMES, -1).T
    points = [(gap, stay) for gap in (0.5, 1.5) for stay in (0.6, 0.9)]
    points += [(rng.uniform(0.5, 1.5), rng.uniform(0.6, 0.9)) for _ in range(20)]
    table = np.array([forward(ends, *point) for point in points])
    pairs = table[:, :, None] - table[:, None, :]
    most = (pairs.max(axis=0) - pairs.min(axis=0)).max()
    assert most <= one.range


def test_a_loop_over_records_is_no_likelihood_of_each():
    def logp(y, slope):
        slope = slope.ravel()[0]
        moved = looped(lambda now, before, slope: slope * before + now, y[1:], y[0], slope)
        return pm.logp(pm.Normal.dist(0, 1), y) + moved

    with pm.Model() as model:
        slope = pm.Uniform("slope", 0.1, 0.9)
        pm.CustomDist("y", slope, logp=logp, observed=Y[:, 0])
    with pytest.raises(NotCertified, match="several records"):
        pmp.privatize(model, records={"y": 0}, domain={"y": (-2, 2)})


@pytest.mark.parametrize("part", ["last", "all"])
def test_a_loop_as_long_as_there_are_records_tells_their_number(part):
    """Written out it would not: where the number is protected, loops stay as they are."""
    with pm.Model() as model:
        slope, y = pm.Uniform("slope", 0.1, 0.9), pm.Data("y", Y[:, 0])
        found = pytensor.scan(lambda a, s: a + pt.log(s), None, [pt.zeros(())], [slope], n_steps=N)
        added = found[0] if isinstance(found, tuple) else found
        added = added[-1] if part == "last" else added.sum()
        pm.Potential("p", pm.logp(pm.Normal.dist(slope, 1.0), y).sum() + added)
    with pytest.raises(DomainError, match="equals the number of records"):
        pmp.privatize(model, records={"y": 0}, domain={"y": (-2, 2)}, neighbors="add_remove")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in the imports of pymc-extras
def test_a_chain_that_pymc_extras_integrates_out_is_summarized():
    extras = pytest.importorskip("pymc_extras", reason="pymc-extras is not installed")
    with pm.Model() as model:
        stay, gap = pm.Beta("stay", 8, 2), pm.HalfNormal("gap", 2)
        moves = pt.stack([pt.stack([stay, 1 - stay]), pt.stack([1 - stay, stay])])
        first = pm.Categorical.dist([0.5, 0.5], shape=(N,))
        chain = extras.distributions.DiscreteMarkovChain(
            "chain", P=moves, init_dist=first, shape=(N, TIMES)
        )
        pm.Normal("y", pt.switch(pt.eq(chain, 0), -gap, gap), 1.0, observed=Y)
    marginal = extras.marginalize(model, ["chain"])
    private = pmp.privatize(marginal, records={"y": 0}, domain={"y": (-2, 2)}, n=1000)
    given = {private.graph.parameters["gap"]: np.array(1.1)}
    given[private.graph.parameters["stay"]] = np.array(0.7)
    given[private.graph.data["y"]] = private.sources[0].stand_in(private.n) * 0.0 + 0.5
    (found,) = evaluate([private.graph.record], given)
    np.testing.assert_allclose(found, forward(np.full((1, TIMES), 0.5), 1.1, 0.7)[0], rtol=1e-12)
    plan = pmp.calibrate(private, epsilon=2, delta=1e-6, release="summary")
    assert plan.method == "records"
