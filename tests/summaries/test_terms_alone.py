"""What a record adds depends on this record alone, to the bit: the condition of T30.

A release is run twice on neighbors, with the same noisy sums told to both, so that all that is
chosen from earlier releases is the same; the integer terms of the records they share are compared.
"""

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.models.data_clipping import clip_to_domain
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.summaries.lattice import TermLattice
from pymc_private.summaries.noise import NoiseScale
from pymc_private.summaries.scores.model_scores import score_mechanism

N = 240


class ToldSums:
    """Noise that keeps the integer terms, and tells every run the sums of the first one."""

    def __init__(self, scale):
        self.scale, self.sums, self.runs = scale, [], []

    def start(self):
        self.runs.append([])

    def total(self, chunks, bound, positive, mu):
        lattice = TermLattice(bound)
        terms = np.concatenate([lattice.terms(np.asarray(c, float), positive) for c in chunks])
        self.runs[-1].append(terms)
        stage = len(self.runs[-1]) - 1
        if stage == len(self.sums):
            self.sums.append(np.ldexp(terms.sum(axis=0).astype(float), lattice.exponent))
        return self.sums[stage].copy()

    def totals(self, chunks, sums, weight):
        """Of matrices the integer vectors, as the release adds up their products."""
        (one,) = sums
        vectors = np.concatenate([one.lattice.vectors(factors) for _, (factors,) in chunks])
        self.runs[-1].append(vectors.reshape(len(vectors), -1))
        stage = len(self.runs[-1]) - 1
        if stage == len(self.sums):
            total = np.einsum("nmi,nmj->ij", vectors, vectors)
            self.sums.append(np.ldexp(total, one.lattice.exponent))
        return [self.sums[stage].copy()]

    def sd(self, bound, positive, mu, k):
        return self.scale.sd(bound, positive, mu, k)

    def term_sd(self, one, k):
        return self.scale.term_sd(one, k)


def regression(family, neighbors):
    """A model with one private covariate, and its records."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, N)
    with pm.Model() as model:
        data = pm.Data("x", x)
        b = pm.Normal("b", 0, 1, shape=2)
        eta = b[0] + b[1] * data
        if family == "poisson":
            y = rng.poisson(np.exp(0.3 + 0.5 * x))
            pm.Poisson("y", pm.math.exp(eta), observed=y)
            domain = (0, 12)
        else:
            y = 0.4 * x + rng.standard_t(4, N)
            pm.StudentT("y", nu=4, mu=eta, sigma=pm.HalfNormal("s", 1), observed=y)
            domain = (-6, 6)
    private = pmp.privatize(
        model, records={"x": 0, "y": 0}, domain={"x": (-1, 1), "y": domain}, neighbors=neighbors
    )
    return private, {"x": x, "y": y}, domain


def differing_rows(first, second):
    """Rows of which some term differs."""
    return sorted({int(i) for a, b in zip(first, second, strict=True)
                   for i in np.flatnonzero((a != b).any(axis=1))})  # fmt: skip


@pytest.mark.parametrize(
    ("family", "neighbors"),
    [
        ("poisson", SUBSTITUTE),
        pytest.param("student", SUBSTITUTE, marks=pytest.mark.audit),
        pytest.param("student", ADD_REMOVE, marks=pytest.mark.audit),
        pytest.param("poisson", ADD_REMOVE, marks=pytest.mark.audit),
    ],
)
def test_terms_of_scores_are_functions_of_their_record(family, neighbors):
    private, records, (_, high) = regression(family, neighbors)
    mechanism = score_mechanism(private, 0.5, n=N if neighbors == ADD_REMOVE else None)
    noise = ToldSums(NoiseScale(neighbors))

    def run(data):
        noise.start()
        mechanism.release(data, noise)
        return noise.runs[-1]

    first = run(records)
    extreme = {"x": records["x"].copy(), "y": records["y"].copy()}
    extreme["x"][17], extreme["y"][17] = 1.0, high
    assert differing_rows(first, run(extreme)) == [17]
    order = np.random.default_rng(1).permutation(N)
    moved = run({name: values[order] for name, values in records.items()})
    assert differing_rows([a[order] for a in first], moved) == []
    if neighbors == ADD_REMOVE:
        fewer = run({name: values[5:] for name, values in records.items()})
        assert differing_rows([a[5:] for a in first], fewer) == []


def test_a_term_that_looks_at_its_batch_is_caught():
    noise = ToldSums(NoiseScale())
    rows = np.random.default_rng(0).standard_normal((50, 3))
    other = rows.copy()
    other[4] = 9.0
    for batch in (rows, other):
        noise.start()
        noise.total([batch / np.abs(batch).max()], 1.0, False, 0.5)  # scaled by its batch
    assert len(differing_rows(*noise.runs)) > 1


@pytest.mark.parametrize("axis", [0, 1])
def test_a_record_that_cannot_be_clipped_leaves_the_others_to_the_bit(axis):
    n, rng = 48, np.random.default_rng(0)
    table = rng.dirichlet(np.ones(9), n)
    with pm.Model() as model:
        x = pm.Data("x", np.moveaxis(table, 0, axis))
        b = pm.Normal("b", shape=9)
        pm.Normal("y", b @ x if axis else x @ b, 1.0, observed=rng.normal(size=n))
    private = pmp.privatize(
        model, records={"x": axis, "y": 0}, domain={"x": pmp.Simplex(), "y": (-9, 9)}
    )
    (source,) = (s for s in private.sources if s.name == "x")
    table *= 1.0 + 1e-7 * rng.normal(size=(n, 1))  # sums are rounded

    def clipped(lost=None):
        values = table.copy()
        if lost is not None:
            values[lost] = 2.0
        source.variable.set_value(np.moveaxis(values, 0, axis).copy())
        clip_to_domain(private)
        return np.moveaxis(source.values(), axis, 0)

    first = clipped()
    for k in range(n):
        assert np.flatnonzero((first != clipped(k)).any(axis=1)).tolist() == [k]
