"""Sequences: records that several factor rows read, each with its neighbors."""

from __future__ import annotations

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.certificates import range_bound, record_bounds
from pymc_private.errors import DomainError, NotCertified, Unsupported
from pymc_private.models import record_likelihood
from pymc_private.models.fingerprint import model_fingerprint
from pymc_private.models.sequences import row_identity, windows
from pymc_private.models.sequences import windows as windows__slices
from tests.models.sequences import BY_NAME, SEQUENCES, N, log_density, random_point

QUICK = ("started chain", "AR(1)", "padded lag")
ALL = [
    s.name if s.name in QUICK else pytest.param(s.name, marks=pytest.mark.audit) for s in SEQUENCES
]


@pytest.fixture(scope="module")
def certified():
    """Give private model and certificate of a sequence, made once."""
    made = {}

    def give(name):
        if name not in made:
            sequence = BY_NAME[name]
            private = sequence.privatize(sequence.draw(np.random.default_rng(1)))
            certificate = pmp.certify(private, tolerance=sequence.ceiling - 1, progressbar=False)
            made[name] = private, certificate
        return made[name]

    return give


def worst_variation(private, sequence, trials, seed=0):
    """The greatest variation of the log ratio of neighbors over random ones and parameters."""
    rng, value = np.random.default_rng(seed), log_density(private)
    points = [random_point(private, rng) for _ in range(16)]
    worst = 0.0
    for _ in range(trials):
        one = sequence.draw(rng, N)
        other = one.copy()
        place = rng.integers(N)
        other[place] = sequence.draw(rng, N)[place]
        gaps = [value(one, point) - value(other, point) for point in points]
        worst = max(worst, max(gaps) - min(gaps))
    return worst


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", ALL)
def test_no_neighbors_escape_the_certificate(name, certified):
    private, certificate = certified(name)
    found = worst_variation(private, BY_NAME[name], 40)
    assert 0.2 * certificate.range < found <= certificate.range * (1 + 1e-12)
    assert certificate.searched <= certificate.range


@pytest.mark.audit
def test_no_neighbors_of_any_sequence_escape(certified):
    for name, sequence in BY_NAME.items():
        private, certificate = certified(name)
        found = worst_variation(private, sequence, 120, seed=7)
        assert found <= certificate.range * (1 + 1e-12), name


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ALL)
def test_the_bound_is_near_the_truth(name, certified):
    sequence, (_, certificate) = BY_NAME[name], certified(name)
    assert certificate.tightness <= sequence.ceiling
    if sequence.exact is not None:
        assert sequence.exact <= certificate.range <= sequence.exact * 1.01


def test_a_chain_of_length_four_against_every_neighbor():
    """All pairs of neighboring chains and a grid of transition probabilities: R is exact."""
    sequence = BY_NAME["started chain"]  # the start is a fair coin: it reads no parameter
    private = sequence.privatize(np.array([0, 1, 1, 0]))
    certificate = pmp.certify(private, progressbar=False)
    grid = np.linspace(0.1, 0.9, 9)
    stay = np.array(list(itertools.product(grid, grid)))
    logs = np.log(np.stack([np.stack([stay[:, 0], 1 - stay[:, 0]], 1),
                            np.stack([1 - stay[:, 1], stay[:, 1]], 1)], 1))  # fmt: skip
    worst = 0.0
    for chain in itertools.product((0, 1), repeat=4):
        for place in range(4):
            other = [1 - s if k == place else s for k, s in enumerate(chain)]
            gap = sum(
                logs[:, a, b] - logs[:, c, d]
                for a, b, c, d in zip(chain, chain[1:], other, other[1:], strict=False)
            )
            worst = max(worst, gap.max() - gap.min())
    assert worst == pytest.approx(4 * np.log(9), rel=1e-12)
    assert worst <= certificate.range <= worst * (1 + 1e-9)


def test_the_range_of_an_autoregression_is_that_of_the_formula(certified):
    """g = (x' - x) [(x + x')(1 + rho^2) - 2 rho (before + after)] / (2 s^2), by its corners."""
    _, certificate = certified("AR(1)")
    ends = [-1.0, 1.0]
    exact = 0.0
    grid = np.linspace(-1, 1, 21)
    for rest in (-2.0, 0.0, 2.0):
        for x, other in itertools.product(grid, ends):
            g = [
                (other - x) * ((x + other) * (1 + rho**2) - 2 * rho * rest) / (2 * s**2)
                for rho in np.linspace(-0.9, 0.9, 19)
                for s in (0.5, 2.0)
            ]
            exact = max(exact, max(g) - min(g))
    assert exact <= certificate.range <= exact * 1.06


@pytest.mark.thin(6)
@pytest.mark.parametrize("name", [s.name for s in SEQUENCES])
def test_the_factor_rows_add_up_to_the_models_own_density(name):
    sequence, rng = BY_NAME[name], np.random.default_rng(3)
    y = sequence.draw(rng)
    private = sequence.privatize(y)
    point, value = random_point(private, rng), log_density(private)
    graph = private.graph
    given = {graph.parameters[k]: np.asarray(v) for k, v in point.items()}
    given |= {graph.data[s.name]: s.values() for s in private.sources}
    total = graph.record.sum() + graph.prior
    found = total.eval(given, mode="FAST_COMPILE", on_unused_input="ignore")
    assert found == pytest.approx(value(y, point), rel=1e-9)


@pytest.mark.parametrize("name", ["started chain", "AR(1)"])
def test_the_certificate_tells_how_many_rows_read_a_record(name, certified):
    private, certificate = certified(name)
    words = f"each record is read by up to {BY_NAME[name].readers} factor rows"
    assert words in repr(certificate)
    assert any("is read by" in line for line in certificate.trail)
    assert "T24" in certificate.theorem
    assert "some factor rows read several records" in repr(private)


@pytest.mark.audit
def test_an_exponent_that_repeats_a_row_counts_each_time():
    """-(x - mu b)^2 three times over: written out, the squares counted once."""

    def build(y):
        y, mu = pm.Data("y", y, dims="t"), pm.Normal("mu")
        pm.Potential("fit", -((y[1:, None] - mu * y[:-1, None]) ** np.array([2.0, 2.0, 2.0])))

    with pm.Model(coords={"t": range(N)}) as model:
        build(np.zeros(N))
    private = pmp.privatize(model, records="t", domain={"y": (-1, 1)})
    private = pmp.trim(private, box={"mu": (-1, 1)})
    # 3 (4 |mu x (before + after)| and mu^2 x^2) at x = 1, y = -1, neighbors 1, mu = 1 and -1.
    assert pmp.certify(private, tolerance=0.3, progressbar=False).range >= 48.0


@pytest.mark.audit
def test_a_part_of_a_factor_that_reads_one_record_has_its_name():
    with pm.Model(coords={"t": range(N)}) as model:
        y, mu = pm.Data("y", np.zeros(N), dims="t"), pm.Normal("mu")
        pm.Potential("fit", (mu * y[1:] * y[:-1]).sum() - (mu * y).sum())
    private = pmp.privatize(model, records="t", domain={"y": (-1, 1)})
    found = pmp.certify(pmp.trim(private, box={"mu": (-1, 1)}), progressbar=False)
    assert "3 factor rows (3 of fit)" in found.coupling


# ---- planted faults ----------------------------------------------------------------------


def quick(sequence, values):
    return pmp.certify(sequence.privatize(values), tolerance=0.3, progressbar=False).range


def test_a_forgotten_factor_row_is_caught(monkeypatch):
    """Were the row that reads a record as a predecessor left out, the search would beat R."""
    sequence = BY_NAME["started chain"]
    y = sequence.draw(np.random.default_rng(1))
    private = sequence.privatize(y)
    found = worst_variation(private, sequence, 40)
    monkeypatch.setattr(record_bounds._FactorReader, "reads", lambda r, k: r.offset == 1)
    assert quick(sequence, y) < found


def reversed_pairs(y):
    y = pm.Data("y", y, dims="t")
    pm.Potential("fit", -0.5 * (y[1:] - pm.Normal("rho") * y[::-1][1:]) ** 2)


def strided(y):
    y = pm.Data("y", y, dims="t")
    pm.Potential("fit", -0.5 * (y[::2] - pm.Normal("rho") * y[1::2]) ** 2)


def one_for_all(y):
    y = pm.Data("y", y, dims="t")
    pm.Potential("fit", -0.5 * (y[1:] - pm.Normal("rho") * y[0]) ** 2)


@pytest.mark.parametrize("build", [reversed_pairs, strided, one_for_all])
def test_a_label_rule_that_guesses_wrong_is_caught_by_the_marks(build, monkeypatch):
    """Everything is taken for a slice from the start on; that it is not the same graph is seen."""
    from tests.models.sequences import Sequence

    sequence = Sequence(build.__name__, build, 0, {"rho": (-0.9, 0.9)})
    y = sequence.draw(np.random.default_rng(2))
    with pytest.raises(NotCertified):
        sequence.privatize(y)
    monkeypatch.setattr(windows__slices, "find_shift", _any_shift)
    with pytest.raises(NotCertified):
        sequence.privatize(y)


def _any_shift(labels, count):
    """An unsound label rule: what reads records reads its own."""
    read = windows__slices.is_labeled(labels)
    return (
        windows__slices.Shift(0, 0) if read and labels.ndim and len(labels) in (count, N) else None
    )


def test_without_the_marks_the_wrong_guess_would_be_certified_too_low(monkeypatch):
    """The proof is needed: without it every row seems to read its own record alone."""
    from tests.models.sequences import Sequence

    sequence = Sequence("reversed", reversed_pairs, 0, {"rho": (-0.9, 0.9)})
    y = sequence.draw(np.random.default_rng(2))
    monkeypatch.setattr(windows__slices, "find_shift", _any_shift)
    monkeypatch.setattr(windows.WindowSplitter, "_is_same_function", lambda *_: True)
    monkeypatch.setattr(windows.WindowSplitter, "_is_row_wise", lambda *_: True)
    for module in (record_likelihood, row_identity):
        monkeypatch.setattr(module, "is_row_wise", lambda *_: True)
    monkeypatch.setattr(record_likelihood, "_rows_are_equivalent", lambda *_: True)
    private = sequence.privatize(y, constants="public")
    certified = pmp.certify(private, tolerance=0.3, progressbar=False).range
    assert certified < worst_variation(private, sequence, 40)


# ---- what remains refused ----------------------------------------------------------------


def refusal(build, **keywords):
    values = np.linspace(-0.9, 0.9, N)
    with pm.Model(coords={"t": range(N)}) as model:
        build(values)
    with pytest.raises((NotCertified, DomainError, Unsupported)) as caught:
        pmp.privatize(model, records="t", domain={"y": (-1, 1)}, **keywords)
    return str(caught.value)


def rolled(y):
    y = pm.Data("y", y, dims="t")
    pm.Potential("fit", -((y - pm.Normal("mu") * pt.roll(y, 1)) ** 2))


def sorted_neighbors(y):
    y = pt.sort(pm.Data("y", y, dims="t"))
    pm.Potential("fit", -((y[1:] - pm.Normal("mu") * y[:-1]) ** 2))


def cumulated(y):
    y = pt.cumsum(pm.Data("y", y, dims="t"))
    pm.Potential("fit", -((y[1:] - pm.Normal("mu") * y[:-1]) ** 2))


def order_from_a_parameter(y):
    y, k = pm.Data("y", y, dims="t"), pm.DiscreteUniform("k", 1, 2)
    pm.Potential("fit", -((y[k:] - y[:-k]) ** 2).sum())


def order_from_the_data(y):
    y = pm.Data("y", y, dims="t")
    k = pt.cast(1 + (y[0] > 0), "int64")
    pm.Potential("fit", -((y[k:] - pm.Normal("mu")) ** 2).sum())


def centered(y):
    y = pm.Data("y", y, dims="t")
    r = y - y.mean()
    pm.Potential("fit", -((r[1:] - pm.Normal("mu") * r[:-1]) ** 2).sum())


def product(y):
    y = pm.Data("y", y, dims="t")
    pm.Potential("fit", pt.log1p(pt.prod(y[1:] * y[:-1]) ** 2) * pm.HalfNormal("s"))


def list_of_terms(y):
    y, mu = pm.Data("y", y, dims="t"), pm.Normal("mu")
    terms = [-((y[k] - mu * weight) ** 2) for k, weight in enumerate(np.linspace(0, 1, N))]
    pm.Potential("fit", pt.stack(terms).sum())


def two_blocks(y):
    y, mu = pm.Data("y", y, dims="t"), pm.Normal("mu")
    pm.Potential("fit", -((y[:3] - mu) ** 2).sum() - ((y[3:] + mu) ** 2).sum())


MIXING = {
    rolled: "different records are computed differently",  # the first reads the last
    sorted_neighbors: "the factor 'fit' reads several records at once",
    cumulated: "the factor 'fit' reads several records at once",
    order_from_a_parameter: "size of a part of the model depends on the records or on a parameter",
    order_from_the_data: "size of a part of the model depends on the records or on a parameter",
    centered: "the factor 'fit' reads several records at once",
    product: "the factor 'fit' reads several records at once",
    list_of_terms: "different records are computed differently",
    two_blocks: "different records are computed differently",
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("build", MIXING, ids=lambda build: build.__name__)
def test_rows_that_meet_in_any_other_way_are_refused(build):
    text = refusal(build)
    assert MIXING[build] in text
    assert "what to do" in text


def test_a_lag_written_into_the_model_is_no_neighbor():
    """Two plain arrays are two variables: the certifier cannot know that one is the other's lag."""

    def build(y):
        pm.Normal("y", pm.Normal("rho") * y[:-1], 1.0, observed=y[1:])

    with pm.Model(coords={"t": range(N)}) as model:
        build(np.linspace(-0.9, 0.9, N))
    with pytest.raises(DomainError, match="constant_0"):
        pmp.privatize(model, records={"y": 0}, domain={"y": (-1, 1)})


def test_add_remove_is_refused_in_a_sequence_with_a_cure():
    sequence = BY_NAME["AR(1)"]
    with pytest.raises(Unsupported, match=r"(?s)added to a sequence.*substitute"):
        sequence.privatize(np.zeros(N), neighbors="add_remove")


def test_one_parameter_for_each_transition_is_refused():
    def build(y):
        y = pm.Data("y", y, dims="t")
        pm.Normal("step", pm.Normal("rho", shape=N - 1) * y[:-1], 1.0, observed=y[1:])

    assert "'rho' has one entry per record" in refusal(build)


# ---- clip, temper, units -----------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["started chain", pytest.param("own factor", marks=pytest.mark.audit)]
)
def test_a_clipped_factor_row_adds_its_width_twice(name, monkeypatch):
    monkeypatch.setattr(range_bound, "BOX_EFFORT", 60.0)
    sequence = BY_NAME[name]
    private = pmp.clip(sequence.privatize(sequence.draw(np.random.default_rng(1))), -1, -0.9)
    certificate = pmp.certify(private, progressbar=False)
    assert certificate.range <= 2 * sequence.readers * 0.1 * (1 + 1e-9)
    assert "T25" in certificate.theorem
    assert "each factor row's log-likelihood in [-1, -0.9]" in repr(certificate)


@pytest.mark.audit
def test_a_clip_of_black_boxes_in_a_sequence_needs_no_rule(monkeypatch):
    monkeypatch.setattr(range_bound, "BOX_EFFORT", 60.0)

    def score(y):
        y = pm.Data("y", y, dims="t")
        pm.Potential("fit", pm.Normal("mu") * pt.erfcinv(1 + y[1:] * y[:-1]))

    with pm.Model(coords={"t": range(N)}) as model:
        score(np.linspace(-0.9, 0.9, N))
    private = pmp.privatize(model, records="t", domain={"y": (-1, 1)})
    clipped = pmp.clip(private, -2, 0)
    assert pmp.certify(clipped, progressbar=False).range == pytest.approx(8.0)


@pytest.mark.audit
def test_units_and_powers_scale_the_range(certified):
    sequence, (_, whole) = BY_NAME["started chain"], certified("started chain")
    units = sequence.privatize(np.arange(N) % 2, records_per_unit=3)
    found = pmp.certify(pmp.temper(units, 0.5), progressbar=False)
    assert found.range == pytest.approx(1.5 * whole.range, rel=1e-9)


def test_nothing_of_a_sequence_reads_its_data(monkeypatch):
    monkeypatch.setattr(range_bound, "BOX_EFFORT", 60.0)
    monkeypatch.setattr(range_bound, "SEARCH_EFFORT", 60.0)
    sequence = BY_NAME["random walk"]
    first, second = (sequence.privatize(sequence.draw(np.random.default_rng(k))) for k in (1, 2))
    for source in second.sources:
        source.variable.set_value(np.full(source.shape, np.nan))
    assert model_fingerprint(first) == model_fingerprint(second)
    reports = [pmp.certify(p, progressbar=False) for p in (first, second)]
    assert repr(reports[0]) == repr(reports[1])


# ---- whole sequences as records ----------------------------------------------------------


@pytest.mark.parametrize("walk", [False, pytest.param(True, marks=pytest.mark.audit)])
def test_a_whole_sequence_as_the_record_is_ordinary(walk, monkeypatch):
    monkeypatch.setattr(range_bound, "BOX_EFFORT", 60.0)
    monkeypatch.setattr(range_bound, "SEARCH_EFFORT", 60.0)
    series = np.random.default_rng(4).uniform(-1, 1, (5, 4))
    with pm.Model(coords={"person": range(5), "time": range(4)}) as model:
        rho, start = pm.Normal("rho", 0, 0.3, shape=1), pm.Normal.dist(0, 1)
        if walk:
            steps = {"mu": rho[0], "sigma": 1.0, "init_dist": start}
            pm.GaussianRandomWalk("y", **steps, observed=series, dims=("person", "time"))
        else:
            start = pm.Normal.dist(0, 1, shape=(5, 1))
            pm.AR("y", rho, sigma=1.0, init_dist=start, observed=series, dims=("person", "time"))
    private = pmp.privatize(model, records="person", domain={"y": (-1, 1)})
    assert not private.graph.windows
    certificate = pmp.certify(pmp.trim(private, box={"rho": (-0.9, 0.9)}), progressbar=False)
    rng, value = np.random.default_rng(5), log_density(private)
    worst = 0.0
    for _ in range(40):
        other = series.copy()
        other[2] = rng.choice([-1.0, 1.0], 4)
        gaps = [value(series, {"rho": [r]}) - value(other, {"rho": [r]}) for r in (-0.9, 0.0, 0.9)]
        worst = max(worst, max(gaps) - min(gaps))
    assert worst <= certificate.range < np.inf
