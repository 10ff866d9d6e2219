"""Labels of records against perturbed records; rows that differ, or count, are not exchanged."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from benchmarks.zoo import BY_NAME, N
from pymc_private.analysis import MIXED, element_labels, simplify
from pymc_private.errors import DomainError, NotCertified
from pymc_private.models.sequences.row_identity import _with_row_count, row_expressions
from tests.models.brute_force import own_logp, random_points

SIZE = 3  # small and equal on every axis: a label put on a wrong axis still broadcasts


def cube():
    return pt.dtensor3("cube")


PATTERNS = {
    "x[i]": lambda x, i, k: x[i],
    "x[:, i]": lambda x, i, k: x[:, i],
    "x[:, :, i]": lambda x, i, k: x[:, :, i],
    "x[i, i]": lambda x, i, k: x[i, i],
    "x[:, i, i]": lambda x, i, k: x[:, i, i],
    "x[i, :, i]": lambda x, i, k: x[i, :, i],
    "x[i, k]": lambda x, i, k: x[i, k],
    "x[k, i]": lambda x, i, k: x[k, i],
    "x[k[:, None], i]": lambda x, i, k: x[k[:, None], i],
    "x[i[:, None], k]": lambda x, i, k: x[i[:, None], k],
    "x[i[:, None], i]": lambda x, i, k: x[i[:, None], i],
    "x[:, k[:, None], i]": lambda x, i, k: x[:, k[:, None], i],
    "x[0, :, i]": lambda x, i, k: x[0, :, i],
    "x[i, 0]": lambda x, i, k: x[i, 0],
    "x[i, 1:]": lambda x, i, k: x[i, 1:],
    "x[1:, i]": lambda x, i, k: x[1:, i],
    "x[None, i]": lambda x, i, k: x[None, i],
    "x[i, :, None]": lambda x, i, k: x[i, :, None],
    "x[i[0]]": lambda x, i, k: x[i[0]],
    "x[k]": lambda x, i, k: x[k] + i,
    "x[::-1]": lambda x, i, k: x[::-1],
    "x[i].sum(0)": lambda x, i, k: x[i].sum(axis=0),
    "x transposed": lambda x, i, k: x.dimshuffle(2, 0, 1) + i,
    "softmax": lambda x, i, k: pm.math.softmax(x, axis=1),
    "logsumexp": lambda x, i, k: pm.math.logsumexp(x, axis=2),
    "cumsum": lambda x, i, k: pt.cumsum(x, axis=1),
    "dot": lambda x, i, k: x[0] @ x[1],
    "batched dot": lambda x, i, k: x @ x[:, 0][:, :, None],
    "x[0] set": lambda x, i, k: pt.set_subtensor(x[0], x[1]),
    "x[i] set": lambda x, i, k: pt.set_subtensor(x[i, 0], 1.0),
    "x[k] added": lambda x, i, k: pt.inc_subtensor(x[k, 0], x[:, 1]),
    "join": lambda x, i, k: pt.concatenate([x[:1], x[:-1]], axis=0),
    "repeat": lambda x, i, k: pt.repeat(x, 2, axis=1),
    "reshape": lambda x, i, k: x.reshape((SIZE, -1)),
    "max": lambda x, i, k: x.max(axis=1),
    "sort": lambda x, i, k: pt.sort(x, axis=1),
}


@pytest.mark.thin(12)
@pytest.mark.parametrize("private_axis", [None, 0, 1, 2])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_element_that_changes_with_a_record_is_labeled_by_it(pattern, private_axis):
    x, i = cube(), pt.lvector("i")
    k = pt.arange(SIZE)
    (out,) = simplify([PATTERNS[pattern](x, i, k)])
    rng = np.random.default_rng(0)
    values = {x: rng.normal(size=(SIZE, SIZE, SIZE)), i: np.array([2, 0, 1])}
    own = np.arange(SIZE)
    labels = {x: np.full((SIZE,) * 3, -1), i: own}
    if private_axis is not None:
        row = np.expand_dims(own, tuple(a for a in range(3) if a != private_axis))
        labels[x] = np.broadcast_to(row, (SIZE,) * 3)
    stand_ins = {x: np.zeros((SIZE,) * 3), i: np.zeros(SIZE, int)}
    label = element_labels([out], labels, stand_ins)[out]
    function = pytensor.function([x, i], out, mode="FAST_COMPILE", on_unused_input="ignore")
    base = function(values[x], values[i])
    assert label.shape == base.shape
    for record in range(SIZE):
        for _ in range(4):
            changed_x, changed_i = values[x].copy(), values[i].copy()
            changed_i[record] = rng.integers(SIZE)
            if private_axis is not None:
                np.moveaxis(changed_x, private_axis, 0)[record] = rng.normal(size=(SIZE, SIZE))
            moved = function(changed_x, changed_i) != base
            assert np.all((label == record) | (label == MIXED) | ~moved)


def test_a_part_whose_size_depends_on_the_records_is_refused():
    y, a = pt.dvector("y"), pt.dvector("a")
    labels = {y: np.arange(SIZE), a: np.full(SIZE, -1)}
    values = {y: np.zeros(SIZE), a: np.zeros(SIZE)}
    with pytest.raises(NotCertified, match="size"):
        element_labels([a[y > 1].sum()], labels, values)


# ---- rows that differ, and rows that count -------------------------------------------------


def data():
    return pm.Data("y", np.linspace(-2, 2, N), dims="person")


def trend(y, mu):
    return -((y - mu * pt.arange(y.shape[0])) ** 2)


def length_as_a_number(y, mu):
    return -((y - mu) ** 2) * y.shape[0]


def length_as_a_sum(y, mu):
    return -((y - mu) ** 2) * pt.ones_like(y).sum()


def length_as_a_mean(y, mu):
    return -((y - mu) ** 2) * pt.arange(y.shape[0]).mean()


def positions_as_a_cumulated_sum(y, mu):
    return -((y - mu) ** 2) * pt.cumsum(pt.ones_like(y))


def parameter_summed_over_rows(y, mu):
    return -((y - mu) ** 2) * pt.alloc(mu, y.shape[0]).sum()


def parameter_to_the_number_of_rows(y, mu):
    return -((y - mu) ** 2) * pt.alloc(mu, y.shape[0]).prod()


def first_row_apart(y, mu):
    return -((y - mu) ** 2) * pt.set_subtensor(pt.ones_like(y)[0], 9.0)


def even_and_odd_rows(y, mu):
    return -((y - mu) ** 2) * pt.switch(pt.eq(pt.arange(y.shape[0]) % 2, 0), 1.0, 5.0)


def rows_from_a_matrix(y, mu):
    return -((y - mu) ** 2) * (1 + pt.eye(y.shape[0], y.shape[0]).cumsum(axis=0).sum(axis=1))


ROW_BY_ROW = [
    trend,
    length_as_a_number,
    length_as_a_sum,
    length_as_a_mean,
    positions_as_a_cumulated_sum,
    parameter_summed_over_rows,
    parameter_to_the_number_of_rows,
    first_row_apart,
    even_and_odd_rows,
    rows_from_a_matrix,
]


@pytest.mark.thin(16)
@pytest.mark.parametrize("term", ROW_BY_ROW, ids=lambda term: term.__name__)
def test_rows_that_differ_or_count_are_walked_as_they_are(term):
    """A few rows stacked would be another model: with 37 rows the range is what it is."""
    with pm.Model(coords={"person": range(N)}) as model:
        pm.Potential("fit", term(data(), pm.Normal("mu", 0, 1)))
    domain = {"y": (-2, 2)}
    private = pmp.privatize(model, records="person", domain=domain, constants="public")
    private = pmp.trim(private, box={"mu": (-1, 1)})
    assert private.graph.rows_differ
    certificate = pmp.certify(private, tolerance=2)
    points = list(random_points(private, np.random.default_rng(1), 60))
    ends = [dict(point, mu=np.array(end)) for point in points[:1] for end in (-1.0, 1.0)]
    table = []
    for value in (-2.0, 2.0):  # each record at either end of its domain
        logp = own_logp(private, {private.sources[0].name: np.full(N, value)})
        table.append([logp(point) for point in points + ends])
    g = np.array(table[0]) - np.array(table[1])
    assert 0.05 * certificate.range < (g.max(axis=0) - g.min(axis=0)).max() <= certificate.range


@pytest.mark.audit
def test_the_number_of_records_may_be_two():
    """Two records, two parameters: each row has its own law, which labels alone would not show."""
    with pm.Model(coords={"person": range(2)}) as model:
        both = pt.stack([pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)])
        pm.Normal("y", both, 1.0, observed=np.zeros(2), dims="person")
    with pytest.raises(DomainError, match="different records are computed differently"):
        pmp.privatize(model, records="person", domain={"y": (-2, 2)})
    private = pmp.privatize(model, records="person", domain={"y": (-2, 2)}, constants="public")
    assert private.graph.rows_differ
    narrow, wide = {"a": (-0.1, 0.1)}, {"b": (-9, 9)}
    certificate = pmp.certify(pmp.trim(private, box=narrow | wide))
    assert certificate.range >= 4 * 18


@pytest.mark.parametrize(
    "structure",
    [
        lambda b, x: pt.stack([b * value for value in x]),
        lambda b, x: pt.repeat(pt.stack([b, -b]), [N - 5, 5]),
        lambda b, x: pt.set_subtensor(pt.zeros(N)[np.flatnonzero(x > 0)], b),
        lambda b, x: pt.concatenate([pt.zeros(5) + b, pt.zeros(N - 5) - b]),
    ],
    ids=["list of terms", "repeats", "subset", "blocks"],
)
def test_structure_that_tells_records_apart_is_refused_or_claimed(structure):
    x = np.linspace(-1, 1, N)
    with pm.Model(coords={"person": range(N)}) as model:
        mean = structure(pm.Normal("b", 0, 1), x)
        pm.Normal("y", mean, 1.0, observed=np.zeros(N), dims="person")
        pm.Deterministic("copy", mean)
    domain = {"y": (-2, 2)}
    with pytest.raises(DomainError, match=r"differently|row by row"):
        pmp.privatize(model, records="person", domain=domain)
    private = pmp.privatize(model, records="person", domain=domain, constants="public")
    assert any("public" in claim for claim in private.claims)


@pytest.mark.audit
def test_only_what_is_public_row_by_row_pins_the_rows_of_the_zoo(private):
    pinned = {name for name in BY_NAME if private(name).graph.rows_differ}
    assert pinned == {"public offset", "public predictor"}


def test_a_private_graph_takes_any_number_of_rows(private):
    """The same expression with 37, 2, 3 and 11 rows; another model has another one."""

    def marks(name, rows):
        graph, model = private(name).graph, private(name)
        values = {v: np.zeros(model.shapes[k]) for k, v in graph.parameters.items()}
        sources = {graph.data[s.name]: s for s in model.sources}
        values |= {v: s.stand_in() for v, s in sources.items()}
        axes = {v: s.axis for v, s in sources.items()}
        return row_expressions(graph.record, _with_row_count(sources, values, rows), axes)

    for name in ("logistic", "hierarchical", "softmax", "censored"):
        found = [np.unique(marks(name, rows)) for rows in (N, 2, 3, 11)]
        assert all(len(one) == 1 for one in found)
        assert len({int(one[0]) for one in found}) == 1
    assert marks("normal mean", 2)[0] != marks("potential only", 2)[0]


def test_a_dim_that_gives_the_number_of_records_does_not_make_rows_differ():
    """AR writes the length of the dim into its graph: it is read off the data instead."""
    with pm.Model(coords={"person": range(7), "wave": range(4)}) as model:
        rho, start = pm.Uniform("rho", -1, 1), pm.Normal.dist(0, 1)
        y = np.zeros((7, 4))
        pm.AR("y", [rho], sigma=1.0, init_dist=start, observed=y, dims=("person", "wave"))
    private = pmp.privatize(model, records="person", domain={"y": (-2, 2)})
    assert not private.graph.rows_differ
    assert pmp.certify(private).range > 0
