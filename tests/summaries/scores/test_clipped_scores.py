"""T36 (a), (b), (c): bounds for any record and quadrature, mean zero, slope B, second moment."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_private.summaries.scores import clipped_scores
from pymc_private.summaries.scores.clipped_scores import (
    ClippedScore,
    clip_rows,
    orthonormal_frame,
    row_cholesky,
    score_center,
    score_rows,
)
from pymc_private.summaries.scores.pilot import model_at_point, score_mean
from pymc_private.summaries.scores.score_bounds import score_quantiles
from tests.summaries.score_models import Logistic, NegativeBinomial, Normal, Poisson, StudentT

RNG = np.random.default_rng(11)
ROWS = {"x": RNG.uniform(-1, 1, (60, 3))}
PRIOR = np.zeros(4), np.ones(4)
WITH_SCALE = np.zeros(5), np.ones(5)
LAWS = [
    Logistic(*PRIOR),
    Poisson(*PRIOR),
    Normal(*WITH_SCALE, points=1201),  # psi has kinks, which a coarse rule differentiates badly
    StudentT(*WITH_SCALE),
    NegativeBinomial(*WITH_SCALE),
]
THETA = np.array([-0.4, 0.9, -0.7, 0.3, -0.5])
SHARES = (0.2, 0.6, 0.9, 0.999)


def framed(model):
    theta = THETA[: model.parameters.size]
    scored = score_rows(model, theta, ROWS)
    weights = np.full(60, 1 / 60)
    metric, _ = scored.metric(weights)
    return theta, metric, scored.framed(metric)


def bounds(frame):
    return score_quantiles(frame, np.ones(60), SHARES)


def asymmetry(frame, clipped):
    """|E psi| / C, the largest over rows."""
    psi = clipped.psi(frame.scored.values)
    mean = np.sqrt((((psi * frame.mass).sum(axis=2)) ** 2).sum(axis=0))
    return mean.max() / clipped.bound


@pytest.mark.thin(2)
@pytest.mark.parametrize("model", LAWS, ids=lambda model: type(model).__name__)
def test_clipped_scores_have_mean_zero_and_their_curvature_is_the_slope(model):
    theta, metric, frame = framed(model)
    weights = np.ones(60)
    for bound in bounds(frame):
        clipped = clip_rows(frame, bound)
        assert asymmetry(frame, clipped) < 1e-8
        curvature, second = clipped.moments(weights)
        assert np.linalg.eigvalsh(curvature - second)[0] > -1e-9 * np.trace(curvature)
        # d E_theta psi / d theta at theta_t is W^-1 times B: by the nodes' own scores, and by
        # differences of theta.
        at = model_at_point(model, theta, ROWS)
        found = score_mean(clipped, at, weights)
        np.testing.assert_allclose(found.slope @ metric, curvature, atol=2e-6 * curvature.max())
        step = 1e-4 * np.eye(len(theta))
        moved = [
            [
                score_mean(clipped, model_at_point(model, theta + s * e, ROWS), weights).mean
                for e in step
            ]
            for s in (1, -1)
        ]
        slope = (np.array(moved[0]) - np.array(moved[1])).T / 2e-4
        # The nodes of a t model leave 1% of its tails out of a derivative.
        np.testing.assert_allclose(slope, found.slope, atol=0.02 * np.abs(found.slope).max())


def test_the_mean_as_a_center_is_a_fault_that_shows():
    _, _, frame = framed(LAWS[1])
    bound = bounds(frame)[1]
    clipped = clip_rows(frame, bound)
    mean = (frame.scores * frame.mass).sum(axis=2)
    faulty = SimpleNamespace(**{**vars(clipped), "center": mean})
    psi = type(clipped).psi(faulty, frame.scored.values)
    assert np.abs((psi * frame.mass).sum(axis=2)).max() > 1e-3 * bound


def test_the_closed_form_of_two_values_is_what_newton_finds():
    scores = RNG.normal(size=(2, 300, 2))
    p = RNG.beta(0.4, 0.4, 300)
    mass = np.stack([1 - p, p], axis=1)
    third = np.concatenate([scores, scores[:, :, :1]], axis=2)
    none = np.column_stack([mass, np.zeros(300)])
    for bound in (0.05, 0.5, 2.0):
        closed, found = score_center(scores, mass, bound), score_center(third, none, bound)
        for center in (closed, found):
            away = scores - center[:, :, None]
            psi = away * np.minimum(1, bound / np.sqrt((away**2).sum(axis=0)))
            assert np.abs((psi * mass).sum(axis=2)).max() < 1e-8 * bound


def test_a_search_from_other_centers_ends_at_the_same():
    scores, mass = RNG.standard_t(3, size=(2, 200, 7)), RNG.dirichlet(np.ones(7), 200)
    for bound in (0.2, 1.0, 5.0):
        plain = score_center(scores, mass, bound)
        near = score_center(scores, mass, bound, score_center(scores, mass, 2.0 * bound))
        np.testing.assert_allclose(near, plain, atol=1e-7 * bound)


def blocks_do_not_matter(monkeypatch, nodes):
    """Whether rows have the same bits in blocks of any size."""
    rng = np.random.default_rng(12)
    scores, mass = rng.normal(size=(2, 25, nodes)), rng.dirichlet(np.ones(nodes), 25)
    frame = SimpleNamespace(scores=scores, mass=mass, valid=np.ones(25, dtype=bool))
    whole = clip_rows(frame, 0.5, 0.3)
    same = True
    for block in 1, 3 * nodes, 20 * nodes:
        monkeypatch.setattr(clipped_scores, "BLOCK", block)
        found = clip_rows(frame, 0.5, 0.3)
        near = clip_rows(frame, 0.4, 0.3, near=whole)
        for name in ("center", "curvature", "second", "weight"):
            same &= np.array_equal(getattr(found, name), getattr(whole, name))
            assert np.isfinite(getattr(near, name)).all()
    return same


@pytest.mark.parametrize("nodes", [2, 7])
def test_rows_that_are_taken_together_do_not_change_a_bit(monkeypatch, nodes):
    assert blocks_do_not_matter(monkeypatch, nodes)


def last_rows_again(own, mass):
    """A block begins at the last row of the block before, and ends a row early."""
    return [slice(max(k.start - 1, 0), k.stop - 1) for k in own(mass)]


def other_order(own, mass):
    return own(mass)[::-1]


def shared_center(own, scores, mass, *others):
    """Centers move with the scores of their block."""
    return own(scores, mass, *others) + 1e-15 * scores.mean()


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("row_blocks", last_rows_again),
        ("row_blocks", other_order),
        ("_newton_center", shared_center),
    ],
)
def test_a_fault_at_the_border_of_blocks_is_caught(monkeypatch, name, fault):
    own = getattr(clipped_scores, name)
    # what NumPy finds is meant
    monkeypatch.setattr(clipped_scores, "has_compiled_centers", lambda _: False)
    monkeypatch.setattr(clipped_scores, name, lambda *given: fault(own, *given))
    try:
        same = blocks_do_not_matter(monkeypatch, 7)
    except (ValueError, AssertionError, IndexError):  # too few centers, or none
        same = False
    assert not same


WILD = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e154, 1e20, 0.0]


class WrongNodes(Normal):
    """A quadrature that knows nothing of the density."""

    def nodes(self, predictors, rows):
        rng = np.random.default_rng(5)
        shape = (len(predictors), 7)
        values = rng.normal(size=shape) * 10.0 ** rng.integers(-8, 8, shape)
        return self.as_nodes(values, rng.random(shape))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the models of the tests themselves
@pytest.mark.parametrize("model", [*LAWS, WrongNodes(*WITH_SCALE)], ids=lambda v: type(v).__name__)
def test_no_record_adds_more_than_the_bounds(model):
    theta, metric, frame = framed(model)
    bound = float(bounds(frame)[1])
    weight_bound = 0.4 * float(np.sqrt((clip_rows(frame, bound).curvature ** 2).sum((1, 2))).max())
    score = ClippedScore(model, theta, metric, bound, weight_bound)
    n = len(WILD) ** 2
    x = np.stack([np.tile(WILD, len(WILD)), np.full(n, 0.2), np.full(n, -0.3)], axis=1)
    y = np.repeat(WILD, len(WILD))
    terms, factors = score.terms({"x": x}, y), score.curvature_factors({"x": x})
    curvature = np.swapaxes(factors, 1, 2) @ factors
    assert np.isfinite(terms).all()
    assert np.linalg.norm(terms, axis=1).max() <= bound * (1 + 1e-12)
    assert np.linalg.norm(curvature, axis=(1, 2)).max() <= weight_bound * (1 + 1e-12)
    least = np.linalg.eigvalsh(curvature)[:, 0]
    assert least.min() >= -1e-12 * weight_bound
    undefined = ~np.isfinite(x[:, 0]) | np.isnan(y)
    assert not terms[undefined].any()
    assert not curvature[~np.isfinite(x[:, 0])].any()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_term_is_a_function_of_its_record_to_the_last_bit():
    for model in LAWS:
        theta, metric, frame = framed(model)
        score = ClippedScore(model, theta, metric, float(bounds(frame)[1]), 0.5)
        y = model.draw(theta, ROWS, np.random.default_rng(3))
        terms, curvature = score.terms(ROWS, y), score.curvature_factors(ROWS)
        order = np.random.default_rng(4).permutation(60)
        wild = np.array(ROWS["x"][order])
        beside = np.arange(60) % 3 == 0
        wild[beside] = 1e300
        moved = score.terms({"x": wild}, y[order])
        moved_curvature = score.curvature_factors({"x": wild})
        # The models of these tests use matrix products for predictors; those of models do not.
        exact = model.predictors(theta, ROWS)[order] == model.predictors(theta, {"x": wild})
        same = ~beside & exact.all(axis=1)
        assert same.sum() > 20
        np.testing.assert_array_equal(moved[same], terms[order][same])
        np.testing.assert_array_equal(moved_curvature[same], curvature[order][same])


def test_frames_are_orthonormal_where_directions_depend_on_each_other():
    directions = RNG.normal(size=(50, 4, 6))
    directions[:20, 2] = directions[:20, 0] + 1e-9 * directions[:20, 2]
    directions[20:30, 1] = 2 * directions[20:30, 0]
    directions[30:35] = 0.0
    basis, triangle = orthonormal_frame(directions)
    np.testing.assert_allclose(np.einsum("nji,njp->nip", triangle, basis), directions, atol=1e-11)
    products = basis @ np.swapaxes(basis, 1, 2)
    diagonal = np.einsum("nii->ni", products)
    off = products - diagonal[:, :, None] * np.eye(4)
    assert np.abs(off).max() < 1e-12
    assert np.minimum(np.abs(diagonal), np.abs(diagonal - 1)).max() < 1e-12


@pytest.mark.parametrize(("m", "rank"), [(4, 1), (5, 2), (6, 1), (6, 2), (8, 2), (8, 7)])
def test_factors_of_singular_matrices_are_theirs(m, rank):
    """A pivot of rounding alone, divided by its root, gave matrices 1e15 times as large."""
    rng = np.random.default_rng(6)
    roots = rng.normal(size=(20_000, m, rank)) * rng.choice([1e-3, 1.0, 30.0], (20_000, m, 1))
    matrices = roots @ np.swapaxes(roots, 1, 2)
    lower = row_cholesky(matrices)
    gap = np.linalg.norm(lower @ np.swapaxes(lower, 1, 2) - matrices, axis=(1, 2))
    assert (gap / np.linalg.norm(matrices, axis=(1, 2))).max() < 1e-5
