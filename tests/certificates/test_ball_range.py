"""Rows in a ball that are read as sums of squares: R and ell(theta), proved and by brute force."""

import numpy as np
import pymc as pm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import pymc_private as pmp
from pymc_private.certificates import ball_range
from pymc_private.certificates import ball_range as balls
from pymc_private.certificates.ball_range import max_quadratic_in_ball, replace_rows_by_norms
from pymc_private.certificates.lipschitz.variation import variation
from pymc_private.certificates.range_objective import RangeObjective
from pymc_private.models.record_likelihood import SUBSTITUTION_AT_ONE_POINT, single_record

N = 5


def normal(size, ball, mean, scale, *, own=False, form="sigma"):
    """Normal rows: mean in a box, one scale or one for each entry, written in several ways."""
    with pm.Model(coords={"p": range(N), "k": range(size)}) as model:
        mu = pm.Normal("mu", 0, 1, dims="k")
        s = pm.HalfNormal("s", 1, **({"dims": "k"} if own else {}))
        zeros = np.zeros((N, size))
        if form == "expanded":  # |y|^2 - 2 <y, mu> + |mu|^2
            y = pm.Data("y", zeros, dims=("p", "k"))
            square = (y**2).sum(axis=1) - 2 * pm.math.dot(y, mu) + (mu**2).sum()
            pm.Potential("logp", -0.5 * square / s**2, dims="p")
        elif form == "MvNormal":
            pm.MvNormal("y", mu, cov=np.eye(size) * s**2, observed=zeros, dims=("p", "k"))
        else:
            pm.Normal("y", mu, s, observed=zeros, dims=("p", "k"))
    private = pmp.privatize(model, records="p", domain={"y": ball})
    return pmp.trim(private, box={"mu": mean, "s": scale})


def log_density(y, mu, s):
    """Up to what no record reads."""
    return -0.5 * (((y - mu) / s) ** 2).sum(axis=-1)


def within(ball, size, count, rng):
    """Records: half of them on the sphere."""
    z = rng.normal(size=(count, size))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    z[: count // 2] *= rng.random((count // 2, 1)) ** (1 / size)
    return np.asarray(ball.center) + np.asarray(ball.scale) * ball.radius * z


def brute_force(ball, size, mean, scale, own, starts=5):
    """The greatest variation that a local search finds from several starts."""
    width = size if own else 1
    low = np.concatenate([np.full(size, mean[0]), np.full(width, scale[0])])
    high = np.concatenate([np.full(size, mean[1]), np.full(width, scale[1])])
    count, rng = len(low), np.random.default_rng(0)

    def variation_at(u):
        points = [low + (high - low) * (np.sin(u[k : k + count]) + 1) / 2 for k in (0, count)]
        records = []
        for k in (0, size):
            z = u[2 * count + k : 2 * count + k + size]
            far = np.linalg.norm(z)
            records.append(ball.center + ball.scale * ball.radius * z * np.sin(far) / far)
        logs = [[log_density(y, t[:size], t[size:]) for t in points] for y in records]
        return -(logs[0][0] - logs[0][1] - logs[1][0] + logs[1][1])

    tries = [rng.normal(size=2 * count + 2 * size) * 1.5 for _ in range(starts)]
    return max(-minimize(variation_at, start, method="L-BFGS-B").fun for start in tries)


CASES = {
    "centered": (2, pmp.Ball(1.0), (-1.0, 1.0), (0.5, 3.0), False, "sigma"),
    "as a multivariate normal": (2, pmp.Ball(1.0), (-1.0, 1.0), (0.5, 3.0), False, "MvNormal"),
    "written out": (2, pmp.Ball(1.0), (-1.0, 1.0), (0.5, 3.0), False, "expanded"),
    "the mean aside": (3, pmp.Ball(1.0), (1.0, 2.0), (0.7, 1.4), False, "sigma"),
    "an ellipsoid aside": (2, pmp.Ball(1.5, [1, 0], [1, 3]), (1.0, 2), (0.7, 1.4), False, "sigma"),
    "a scale for each entry": (2, pmp.Ball(1.0), (-1.0, 1.0), (0.5, 3.0), True, "sigma"),
}  # fmt: skip


SLOW = ("as a multivariate normal", "a scale for each entry")


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.audit if c in SLOW else ()) for c in CASES]
)
def test_the_range_of_normal_rows_is_the_truth_to_a_percent(case):
    size, ball, mean, scale, own, form = CASES[case]
    ball = pmp.Ball(
        ball.radius, np.broadcast_to(ball.center, size), np.broadcast_to(ball.scale, size)
    )
    found = pmp.certify(normal(size, ball, mean, scale, own=own, form=form)).range
    truth = brute_force(ball, size, mean, scale, own)
    assert truth * (1 - 1e-9) <= found <= truth * 1.01


def test_precision_known_mean_is_the_formula_of_lemma_23():
    """(c2 - c1) / 2 radius^2; entry by entry it would be four times that."""
    with pm.Model(coords={"p": range(N), "k": range(4)}) as model:
        t = pm.Exponential("t", 2)
        pm.Normal("y", 0, tau=t, observed=np.zeros((N, 4)), dims=("p", "k"))
    private = pmp.privatize(model, records="p", domain={"y": pmp.Ball(1.0)})
    found = pmp.certify(pmp.trim(private, box={"t": (0.5, 3.0)}))
    assert 1.25 <= found.range <= 1.25 * 1.01
    assert found.tolerance_reached


@pytest.mark.audit
@given(st.data())
@settings(max_examples=10, deadline=None)
def test_no_records_in_the_ball_vary_more_than_the_bound(data):
    number = st.floats(-2.0, 2.0)
    size = data.draw(st.integers(1, 3))
    own = size < 2 and data.draw(st.booleans())
    ball = pmp.Ball(
        data.draw(st.floats(0.2, 3.0)),
        [data.draw(number) for _ in range(size)],
        [data.draw(st.floats(0.3, 2.0)) for _ in range(size)],
    )
    mean, scale = sorted([data.draw(number), data.draw(number) + 1e-3]), sorted(
        [data.draw(st.floats(0.3, 2.0)), data.draw(st.floats(2.0, 4.0))]
    )  # fmt: skip
    bound = pmp.certify(normal(size, ball, tuple(mean), tuple(scale), own=own)).range
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    y = within(ball, size, 400, rng)
    ends = rng.integers(0, 2, (40, size + (size if own else 1)))
    points = np.where(ends, 1.0, rng.random(ends.shape)) * np.where(
        rng.random(ends.shape) < 0.5, 0, 1
    )
    mu = mean[0] + (mean[1] - mean[0]) * points[:, :size]
    s = scale[0] + (scale[1] - scale[0]) * points[:, size:]
    logs = log_density(y[:, None], mu, s)
    gaps = logs[:, :, None] - logs[:, None, :]
    assert (gaps.max(axis=0) - gaps.min(axis=0)).max() <= bound * (1 + 1e-9)


@given(st.integers(1, 5), st.integers(0, 10**6), st.floats(0.1, 5.0))
@settings(max_examples=60, deadline=None)
def test_the_bound_over_a_ball_is_above_every_point_and_near_the_best(size, seed, radius):
    rng = np.random.default_rng(seed)
    squares = rng.normal(size=(1, size)) * rng.choice([0.0, 0.1, 3.0])
    slopes = np.abs(rng.normal(size=(1, size))) * rng.choice([0.0, 1.0, 5.0], size=size)
    bound = max_quadratic_in_ball(squares, slopes, radius)[0]
    z = within(pmp.Ball(radius), size, 20_000, rng)
    values = (squares * z**2 + slopes * np.abs(z)).sum(axis=1)
    assert values.max() <= bound * (1 + 1e-12)

    def lower(u):
        far = np.linalg.norm(u)
        point = u * radius * min(1.0, 1.0 / max(far, 1e-9))
        return -float((squares * point**2 + slopes * np.abs(point)).sum())

    best = min(minimize(lower, z[k] / radius, method="Nelder-Mead").fun for k in (1, -1))
    assert bound <= max(-best, values.max()) * 1.05 + 1e-6


def test_a_bound_that_forgets_a_term_is_caught(monkeypatch):
    """Planted fault: without the product of row and mean."""
    monkeypatch.setattr(
        ball_range,
        "max_quadratic_in_ball",
        lambda a, b, radius: max_quadratic_in_ball(a, 0.0 * b, radius),
    )
    with pytest.raises(pmp.errors.NotCertified, match="contradicts a search"):
        pmp.certify(normal(2, pmp.Ball(1.0), (-1.0, 1.0), (0.5, 3.0)))


def mixture():
    """Two spherical normals: sums of squares within another function."""
    with pm.Model(coords={"p": range(N), "k": range(2)}) as model:
        y = pm.Data("y", np.zeros((N, 2)), dims=("p", "k"))
        m = pm.Normal("m", 0, 1, shape=(2, 2))
        t = pm.Exponential("t", 1)
        parts = [-0.5 * t * ((y - m[j]) ** 2).sum(axis=1) for j in range(2)]
        pm.Potential("logp", pm.math.logaddexp(*parts), dims="p")
    private = pmp.privatize(model, records="p", domain={"y": pmp.Ball(1.0)})
    return pmp.trim(private, box={"m": (-1.0, 1.0), "t": (0.5, 2.0)})


def variation_of_mixture(count=60):
    """The greatest that random records and parameters reach."""
    rng = np.random.default_rng(0)
    y = within(pmp.Ball(1.0), 2, 300, rng)
    m = rng.uniform(-1, 1, (count, 2, 2))
    m = np.where(rng.random(m.shape) < 0.7, np.sign(m), m)
    t = rng.choice([0.5, 2.0], count)
    square = ((y[:, None, None] - m) ** 2).sum(axis=-1)
    logs = np.logaddexp.reduce(-0.5 * t[:, None] * square, axis=-1)
    gaps = logs[:, :, None] - logs[:, None, :]
    return float((gaps.max(axis=0) - gaps.min(axis=0)).max())


@pytest.mark.audit
def test_squares_inside_another_function_are_bounded_by_length_too(monkeypatch):
    by_length = pmp.certify(mixture(), tolerance=0.3).range
    assert by_length >= variation_of_mixture()
    monkeypatch.setattr(
        "pymc_private.certificates.range_objective.replace_rows_by_norms",
        lambda value, columns, centered: (value, columns, False),
    )
    assert by_length < 0.95 * pmp.certify(mixture(), tolerance=0.3).range


def test_a_norm_that_is_too_small_is_caught(monkeypatch):
    """Planted fault in the numbers that take the place of a row."""
    monkeypatch.setattr(balls, "norm_graph", lambda vector, size: 0.1 * abs(vector).sum())
    monkeypatch.setattr(
        "pymc_private.certificates.range_bound.range_in_ball", lambda *given: np.inf
    )
    with pytest.raises(pmp.errors.NotCertified, match="contradicts a search"):
        pmp.certify(normal(2, pmp.Ball(1.0), (-1.0, 1.0), (0.5, 3.0)))


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "case", ["centered", "the mean aside", "an ellipsoid aside", "written out"]
)
def test_ell_is_exact_in_closed_form(case):
    size, ball, mean, scale, own, form = CASES[case]
    if np.ndim(ball.scale):
        ball = pmp.Ball(ball.radius, ball.center, 2.0)
    rng = np.random.default_rng(0)
    points = {"mu": rng.uniform(*mean, (5, size)), "s": rng.uniform(*scale, 5)}
    found = variation(normal(size, ball, mean, scale, own=own, form=form)).at(points)
    y = within(ball, size, 100_000, rng)
    for k, value in enumerate(found):
        logs = log_density(y, points["mu"][k], points["s"][k])
        assert logs.max() - logs.min() <= value <= (logs.max() - logs.min()) * 1.02


def test_at_one_point_what_a_record_says_alone_is_kept():
    """A box inside Theta_L compares records at one point: there a fixed vector does not cancel."""
    private = normal(2, pmp.Ball(1.0), (1.0, 2.0), (0.9, 1.1))
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    made = RangeObjective(record, private.sources, private.box, SUBSTITUTION_AT_ONE_POINT[0])
    bound = made.enclose(*made.roots()).upper[0]
    y = within(pmp.Ball(1.0), 2, 20_000, np.random.default_rng(0))
    logs = log_density(y, np.array([2.0, 2.0]), 0.9)
    assert logs.max() - logs.min() <= bound  # sqrt(2) times 2 / 0.81 each way; centered, a third


def test_theta_l_of_normal_rows_is_where_ell_is_at_most_l():
    private = normal(2, pmp.Ball(1.0), (-1.0, 1.0), (0.5, 3.0))
    limited = pmp.trim(private, lipschitz=1.0)
    assert pmp.certify(limited).range <= 2.0
    assert 0.0 < limited.prior_mass.lower < 1.0


def test_what_is_no_sum_of_squares_is_left_alone():
    with pm.Model(coords={"p": range(N), "k": range(2)}) as model:
        m = pm.Normal("m", 0, 1, dims="k")
        pm.Laplace("y", m, 1.0, observed=np.zeros((N, 2)), dims=("p", "k"))
    private = pmp.privatize(model, records="p", domain={"y": pmp.Ball(1.0)})
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    value, _, changed = replace_rows_by_norms(record.value, [], centered=True)
    assert value is record.value
    assert not changed
