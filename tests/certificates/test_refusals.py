"""What is refused: the right error, what to do, and never a data value."""

from __future__ import annotations

import logging
import traceback

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.certificates import range_bound
from pymc_private.errors import BudgetExceeded, DomainError, NotCertified, Unsupported

N = 12
SECRET = 7.123456789
Y = np.linspace(-1, 1, N)
Y[3] = SECRET
DOMAIN = {"y": (-2, 2)}


@pytest.fixture(autouse=True, scope="module")
def _quick():
    """Refine bounds only a little: how far is not what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        for effort in ("BOX_EFFORT", "ROW_EFFORT", "SEARCH_EFFORT"):
            patch.setattr(range_bound, effort, 60.0)
        yield


def model_of(build, n=N, **coords):
    """The model that `build` adds to a context with a records dim."""
    with pm.Model(coords={"i": range(n)} | coords) as model:
        build()
    return model


def normal(observed=Y, **keywords):
    """A normal mean; the fewest lines that make a model."""

    def build():
        pm.Normal("y", pm.Normal("mu", 0, 1), 1.0, observed=observed, **{"dims": "i"} | keywords)

    return model_of(build, len(observed))


def refused(kind, action, *words, complete=True):
    """The error of `action`: of its kind, helpful, and without a data value in its chain."""
    with pytest.raises(kind) as caught:
        action()
    error = caught.value
    assert type(error) is kind
    text = str(error)
    for word in words:
        assert word in text
    if complete:
        assert "what to do" in text
    assert any(line in text for line in ("  got: ", "  allowed: "))
    text = "".join(traceback.format_exception(error)) + repr(error)
    assert "7.123" not in text
    assert "7123" not in text
    return text


# ---- declarations ------------------------------------------------------------------------


def test_a_missing_domain_lists_every_variable_and_a_snippet():
    def build():
        x = pm.Data("X", np.full((N, 3), SECRET))
        pm.Bernoulli("y", logit_p=x @ pm.Normal("b", shape=3), observed=np.arange(N) % 2, dims="i")

    text = refused(
        DomainError, lambda: pmp.privatize(model_of(build), records="i"), "X", "shape (12, 3)"
    )
    assert "implied support Categories(values=(0.0, 1.0))" in text
    assert 'pmp.privatize(model, records="i", domain={"X": pmp.Interval(..., ...)})' in text


def test_without_records_the_variables_are_listed():
    refused(DomainError, lambda: pmp.privatize(normal()), "say what one record is", "shape (12,)")


@pytest.mark.parametrize("records", ["person", {"z": 0}, {"y": 1}, {"y": -1}, {}, 3, {"y": "i"}])
def test_a_wrong_dim_names_the_right_ones(records):
    refused(
        DomainError,
        lambda: pmp.privatize(normal(), records=records, domain=DOMAIN),
        complete=isinstance(records, str),
    )


def test_the_records_of_all_variables_are_as_many():
    def build():
        pm.Normal("y", pm.Normal("mu"), 1, observed=np.zeros(N))
        pm.Normal("z", 0, 1, observed=np.zeros(N + 1))

    action = lambda: pmp.privatize(model_of(build), records={"y": 0, "z": 0}, domain={})  # noqa: E731
    refused(DomainError, action, "y: 12", "z: 13", complete=False)


@pytest.mark.parametrize("n", [0, 1])
def test_no_records_or_a_single_one_are_too_few(n):
    action = lambda: pmp.privatize(normal(np.full(n, SECRET)), records="i", domain=DOMAIN)  # noqa: E731
    refused(DomainError, action, f"{n} along the records axis")


@pytest.mark.parametrize(
    ("keywords", "word"),
    [
        ({"domain": DOMAIN | {"z": (0, 1)}}, "z"),
        ({"domain": DOMAIN | {"constant_3": (0, 1)}}, "constant_3"),
        ({"domain": DOMAIN, "public": ["z"]}, "z"),
        ({"domain": DOMAIN, "constants": "secret"}, "private, public"),
        ({"domain": {"y": 3}}, "not a domain"),
        ({"domain": {"y": pmp.Simplex}}, "not a domain"),
        ({"domain": {"y": (2, -2)}}, "lower <= upper"),
        ({"domain": {"y": (0, np.inf)}}, "finite"),
        ({"domain": {"y": (0, np.nan)}}, "finite"),
        ({"domain": {"y": set()}}, "at least one"),
        ({"domain": {"y": {0, np.nan}}}, "finite"),
        ({"domain": {"y": {"low", "high"}}}, "codes"),
        ({"domain": {"y": pmp.Interval([0, 1], [2, 3])}}, "do not fit"),
        ({"domain": {"y": pmp.Ball(1)}}, "one row of numbers per record"),
        ({"domain": {"y": pmp.Simplex()}}, "one row of numbers per record"),
    ],
)
def test_unknown_names_and_impossible_domains_are_refused(keywords, word):
    action = lambda: pmp.privatize(normal(), records="i", **keywords)  # noqa: E731
    refused(DomainError, action, word, complete=False)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
def test_a_ball_has_a_positive_radius(bad):
    refused(DomainError, lambda: pmp.Ball(bad), "radius > 0")
    refused(DomainError, lambda: pmp.Ball(1, scale=[1, bad]), "scale > 0")


def test_one_array_under_two_names_takes_one_domain():
    def build():
        data = pm.Data("data", np.arange(N) % 2, dims="i")
        pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=data)
        pm.Normal("z", pm.Normal("nu"), 1, observed=data)

    model = model_of(build)
    two = {"data": pmp.Interval(-2, 2), "z": pmp.Interval(np.array(-3.0), 3)}
    refused(DomainError, lambda: pmp.privatize(model, records="i", domain=two), "two domains")
    for name in ("data", "y", "z"):
        private = pmp.privatize(model, records="i", domain={name: (-2, 2)})
        assert [s.name for s in private.sources] == ["data"]
    same = {"y": pmp.Interval(-2, 2), "z": pmp.Interval(np.array(-2.0), 2)}
    assert len(pmp.privatize(model, records="i", domain=same).sources) == 1


def test_a_domain_for_what_is_public_is_a_mistake():
    def build():
        table, group = pm.Data("table", np.ones(5)), pm.Data("g", np.arange(N) % 5, dims="i")
        pm.Normal("y", pm.Normal("mu") * table[group], 1, observed=Y, dims="i")

    model, domain = model_of(build), DOMAIN | {"g": range(5)}
    both = domain | {"table": (0, 1)}
    refused(DomainError, lambda: pmp.privatize(model, records="i", domain=both), "table")
    claims = pmp.privatize(model, records="i", domain=domain).claims
    assert claims == ("'table' is public",)
    action = lambda: pmp.privatize(model, records="i", domain=domain, public=["g"])  # noqa: E731
    refused(DomainError, action, "got: g")


def test_constants_along_the_records_want_a_domain_or_a_claim():
    offset = Y.copy()

    def build():
        pm.Normal("y", pm.Normal("mu") + offset, 1, observed=np.zeros(N), dims="i")

    model = model_of(build)
    refused(DomainError, lambda: pmp.privatize(model, records="i", domain=DOMAIN), "constant_0")
    assert pmp.constants(model)["name"].tolist() == ["constant_0"]
    private = pmp.privatize(model, records="i", domain=DOMAIN | {"constant_0": (-1, 1)})
    assert private.claims == ()
    public = pmp.privatize(model, records="i", domain=DOMAIN, constants="public")
    assert any("constant_0" in claim for claim in public.claims)


@pytest.mark.parametrize("what", [3, "model", pm.Model])
def test_what_is_no_model_is_refused(what):
    refused(
        DomainError,
        lambda: pmp.privatize(what, records="i"),
        "pm.Model or a bambi.Model",
        complete=False,
    )


def test_no_model_at_all_is_refused():
    with pytest.raises(DomainError, match="with model:"):
        pmp.privatize(records="i")


# ---- data --------------------------------------------------------------------------------


def test_data_outside_an_interval_are_clipped_in_a_copy_and_only_logged(caplog, capsys):
    model = normal()
    with caplog.at_level(logging.INFO, logger="pymc_private"):
        private = pmp.privatize(model, records="i", domain=DOMAIN)
    assert private.sources[0].values().max() == 2.0
    assert model["y"] in model.observed_RVs
    assert model.rvs_to_values[model["y"]].data.max() == SECRET
    assert "1 of 12 rows of y clipped" in caplog.text
    assert "7.12" not in caplog.text
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""


def test_rows_outside_a_ball_move_in_along_their_ray():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [1e308, 1e308], [-5.0, 0.0], [0.0, 0.0]])
    inside = pmp.Ball(1.0).clip(rows, 0)
    assert np.allclose(inside[[0, 1, 3]], [[0.6, 0.8], [0.3, 0.4], [-1, 0]])
    assert np.isfinite(inside).all()
    for ball in (pmp.Ball(0.5, center=1e9), pmp.Ball(2.0, center=[5, -5], scale=[1e-7, 1e5])):
        clipped = ball.clip(rows, 0)
        bound = ball.bounds((2,))
        assert np.all(bound.lower <= clipped)
        assert np.all(clipped <= bound.upper)
        z = (clipped.astype(np.longdouble) - bound.within.center) / bound.within.scale
        assert np.all(np.sqrt((z**2).sum(axis=1)) <= bound.within.radius)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_data_are_refused_at_privatize(bad):
    observed = Y.copy()
    observed[5] = bad
    action = lambda: pmp.privatize(normal(observed), records="i", domain=DOMAIN)  # noqa: E731
    refused(DomainError, action, "NaN or infinite")


@pytest.mark.parametrize("name", ["x", "constant_0"])
def test_nan_in_a_predictor_is_refused_at_privatize(name):
    x = Y.copy()
    x[5] = np.nan

    def build():
        data = pm.Data("x", Y, dims="i") if name == "x" else x  # PyMC itself refuses NaN there
        pm.Normal("y", pm.Normal("b") * data, 1, observed=np.zeros(N), dims="i")

    model = model_of(build)
    if name == "x":
        model["x"].set_value(x)
    action = lambda: pmp.privatize(model, records="i", domain=DOMAIN | {name: (-1, 1)})  # noqa: E731
    refused(DomainError, action, f"'{name}' holds NaN")


def test_an_unknown_category_is_refused_and_not_quoted():
    def build():
        pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=np.array([0, 1, 7123]), dims="i")

    action = lambda: pmp.privatize(model_of(build, 3), records="i", domain={"y": {0, 1, 2}})  # noqa: E731
    refused(DomainError, action, "not among the declared categories", "'other'")


def test_whole_numbers_are_clipped_to_whole_numbers_of_the_interval():
    def private(low, high):
        def build():
            pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=np.arange(5), dims="i")

        return pmp.privatize(model_of(build, 5), records="i", domain={"y": (low, high)})

    assert private(0.5, 3.5).sources[0].values().tolist() == [1, 1, 2, 3, 3]
    refused(DomainError, lambda: private(0.2, 0.8), "no number of the variable's type")


def test_imputed_records_are_refused():
    observed = Y.copy()
    observed[4] = np.nan
    with pytest.warns(UserWarning, match="(?i)imput"):
        model = normal(np.ma.masked_invalid(observed))
    refused(Unsupported, lambda: pmp.privatize(model, records="i", domain=DOMAIN), "imputes")


def test_minibatches_are_refused():
    def build():
        pm.Normal("y", pm.Normal("mu"), 1, observed=pm.Minibatch(Y, batch_size=4), total_size=N)

    action = lambda: pmp.privatize(model_of(build), records={"y": 0}, domain=DOMAIN)  # noqa: E731
    refused(Unsupported, action, "minibatch")


@pytest.mark.filterwarnings("ignore")
def test_simulators_are_refused():
    def simulate(rng, mu, size=None):
        return rng.normal(mu, 1, size=size)

    def build():
        pm.Simulator("y", simulate, pm.Normal("mu"), epsilon=1, observed=Y)

    action = lambda: pmp.privatize(model_of(build), records={"y": 0}, domain=DOMAIN)  # noqa: E731
    refused(Unsupported, action, "simulator")


# ---- records that are not apart ----------------------------------------------------------


def gaussian_process():
    process = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.Gamma("length", 2, 1)))
    process.marginal_likelihood("y", X=np.arange(N)[:, None], y=Y, sigma=1.0)


def mean_inside():
    y, mu = pm.Data("y", Y, dims="i"), pm.Normal("mu")
    pm.Potential("fit", -((y - y.mean() - mu) ** 2))


def z_score_inside():
    x = pm.Data("x", Y, dims="i")
    mean = pm.Normal("b") * (x - x.mean()) / x.std()
    pm.Normal("y", mean, 1, observed=np.zeros(N), dims="i")


def reversed_rows():
    y = pm.Data("y", Y, dims="i")
    pm.Potential("fit", -((y - pm.Normal("mu") * y[::-1]) ** 2))


def sorted_rows():
    y = pm.Data("y", Y, dims="i")
    pm.Potential("fit", -((pt.sort(y) - pm.Normal("mu")) ** 2))


def cumulated():
    y = pm.Data("y", Y, dims="i")
    pm.Potential("fit", -((pt.cumsum(y) - pm.Normal("mu")) ** 2))


def observed_mean_in_a_potential():
    y = pm.Normal("y", pm.Normal("mu"), 1.0, observed=Y, dims="i")
    pm.Potential("fit", -(y.mean() ** 2))


def column_against_row():
    x, y = pm.Data("x", Y[:, None], dims=("i", "one")), pm.Data("y", Y, dims="i")
    pm.Potential("fit", -((y - pm.Normal("mu") * x) ** 2))


def public_column_against_row():
    column = pt.as_tensor(np.arange(N, dtype=float)[:, None])
    y = pm.Data("y", Y, dims="i")
    pm.Potential("fit", -((y - pm.Normal("mu") * column) ** 2))


def outer_index():
    logits = pm.Normal("b", shape=(1, 3)) * pm.Data("x", Y, dims="i")[:, None]
    choice = pm.Data("y", np.arange(N) % 3, dims="i")
    pm.Potential("fit", pm.math.log_softmax(logits, axis=1)[np.arange(N)[:, None], choice])


def index_on_the_second_axis():
    group = pm.Data("y", np.arange(N) % 5, dims="i")
    pm.Potential("fit", -(pm.Normal("a", shape=(N, 5))[:, group] ** 2))


def mask():
    y, a = pm.Data("y", Y, dims="i"), pm.Normal("a", shape=N)
    pm.Potential("fit", -(a[y > 0] ** 2))


def rows_moved_by_a_parameter():
    y, shift = pm.Data("y", Y, dims="i"), pm.DiscreteUniform("shift", 0, 3)
    moved = y[(pt.arange(N) + shift) % N]
    pm.Potential("fit", -((moved - pm.Normal("mu") * pt.arange(N)) ** 2))


def own_index_of_another_row():
    y, other = pm.Data("y", Y, dims="i"), pm.Data("other", np.arange(N)[::-1].copy(), dims="i")
    pm.Potential("fit", -((y[other] - pm.Normal("mu")) ** 2))


COUPLED = [
    gaussian_process,
    mean_inside,
    z_score_inside,
    reversed_rows,
    sorted_rows,
    cumulated,
    observed_mean_in_a_potential,
    column_against_row,
    public_column_against_row,
    outer_index,
    index_on_the_second_axis,
    mask,
    rows_moved_by_a_parameter,
    own_index_of_another_row,
]


@pytest.mark.thin(10)
@pytest.mark.parametrize("build", COUPLED, ids=lambda build: build.__name__)
def test_records_that_are_not_apart_are_refused(build):
    model = model_of(build, one=range(1))
    names = {v.name for v in (*model.data_vars, *model.observed_RVs)} - {"z"}
    domain = {name: (-2, 2) if name != "other" else range(N) for name in names}
    records = "i" if any("i" in (d or ()) for d in model.named_vars_to_dims.values()) else {"y": 0}
    action = lambda: pmp.privatize(model, records=records, domain=domain, constants="public")  # noqa: E731
    refused(NotCertified, action, "got: ")


def test_a_gaussian_process_is_refused_though_its_inputs_are_declared():
    domain = {"y": (-2, 2), "constant_0": (0, N)}
    action = lambda: pmp.privatize(model_of(gaussian_process), records={"y": 0}, domain=domain)  # noqa: E731
    refused(NotCertified, action, "'y'")


@pytest.mark.parametrize("statistic", [lambda x: x.std(), lambda x: x[0], lambda x: x.max()])
def test_a_prior_that_reads_the_data_is_refused(statistic):
    def build():
        x = pm.Data("x", Y, dims="i")
        b = pm.Normal("b", 0, 1 + statistic(x) ** 2)
        pm.Normal("y", b * x, 1, observed=np.zeros(N), dims="i")

    action = lambda: pmp.privatize(  # noqa: E731
        model_of(build), records="i", domain=DOMAIN | {"x": (-1, 1)}
    )
    refused(NotCertified, action, "prior of 'b' reads the private data")


@pytest.mark.parametrize("keywords", [{"dims": "i"}, {"shape": (N,)}, {"shape": (2, N)}])
def test_a_parameter_per_record_is_refused(keywords):
    def build():
        a = pm.Normal("a", 0, 1, **keywords)
        pm.Normal("y", a.reshape((-1, N)).sum(axis=0), 1, observed=Y, dims="i")

    action = lambda: pmp.privatize(model_of(build), records="i", domain=DOMAIN)  # noqa: E731
    refused(Unsupported, action, "'a' has one entry per record")


def test_as_many_groups_as_records_are_no_parameters_of_single_records():
    def build():
        group = pm.Data("g", np.arange(N), dims="i")
        pm.Normal("y", pm.Normal("a", shape=N)[group], 1, observed=Y, dims="i")

    private = pmp.privatize(model_of(build), records="i", domain=DOMAIN | {"g": range(N)})
    trimmed = pmp.trim(private, box={"a": (-1, 1)})
    assert np.isfinite(pmp.certify(trimmed, tolerance=3).range)


def hidden_in_a_distribution(offset):
    def draw(mu, size):
        return pm.Normal.dist(mu + offset, 1, size=size)

    pm.CustomDist("y", pm.Normal("mu"), dist=draw, observed=np.zeros(N), dims="i")


def flattened(offset):
    table = pt.as_tensor(np.repeat(offset, 2)).reshape((N, 2))
    pm.Normal("y", pm.Normal("mu") * table.sum(axis=1), 1, observed=np.zeros(N), dims="i")


def shifted(offset):
    before = pt.concatenate([[0.0], pt.as_tensor(offset[:-1])])
    pm.Normal("y", pm.Normal("mu") * before, 1, observed=np.zeros(N), dims="i")


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (hidden_in_a_distribution, "inner graph"),
        (flattened, "read row by row"),
        (shifted, "read row by row"),
    ],
)
def test_arrays_read_row_by_row_are_found_wherever_they_hide(build, why):
    model = model_of(lambda: build(Y))
    action = lambda: pmp.privatize(model, records="i", domain=DOMAIN)  # noqa: E731
    refused(DomainError, action, why, "pm.Data")
    public = pmp.privatize(model, records="i", domain=DOMAIN, constants="public")
    assert any("public" in claim for claim in public.claims)


def test_lookup_tables_and_columns_are_not_taken_for_records():
    def build():
        group = pm.Data("g", np.arange(N) % 5, dims="i")
        x = pm.Data("X", np.zeros((N, 3)))
        mean = pm.Normal("mu") * pt.as_tensor(np.arange(5.0))[group] + (x * np.arange(3.0)).sum(1)
        pm.Normal("y", mean, 1, observed=Y, dims="i")

    domain = DOMAIN | {"g": range(5), "X": pmp.Ball(1)}
    private = pmp.privatize(model_of(build), records="i", domain=domain)
    assert not private.graph.rows_differ


def test_a_distance_matrix_has_no_row_of_one_record():
    def build():
        distances = pm.Data("D", np.zeros((N, N)), dims=("i", "i"))
        pm.Normal("y", pm.Normal("b") * distances.sum(axis=1), 1, observed=Y, dims="i")

    action = lambda: pmp.privatize(  # noqa: E731
        model_of(build), records="i", domain=DOMAIN | {"D": (0, 1)}
    )
    refused(DomainError, action, "along two axes", "D")


@pytest.mark.filterwarnings("ignore:Random variables")
def test_a_random_draw_inside_the_likelihood_is_refused():
    def build():
        pm.Normal("y", pm.Normal("mu") + pm.Normal.dist(0, 1), 1, observed=Y, dims="i")

    model = model_of(build)
    refused(NotCertified, lambda: pmp.privatize(model, records="i", domain=DOMAIN), "random draw")


# ---- certify, trim, temper, calibrate ----------------------------------------------------


def test_an_unbounded_likelihood_names_what_to_bound():
    def build():
        pm.StudentT("y", nu=4, mu=pm.Normal("mu", 0, 1), sigma=1, observed=np.zeros(N), dims="i")

    private = pmp.privatize(model_of(build), records="i", domain=DOMAIN)
    text = refused(NotCertified, lambda: pmp.certify(private), "mu", "trim")
    assert "bound mu" in text


def test_a_pole_at_the_edge_of_the_domain_is_named():
    def build():
        pm.Gamma("y", pm.Gamma("a", 2, 1), 1.0, observed=np.ones(N), dims="i")

    private = pmp.privatize(model_of(build), records="i", domain={"y": (0, 5)})
    trimmed = pmp.trim(private, box={"a": (0.5, 3)})
    refused(NotCertified, lambda: pmp.certify(trimmed), "smaller domain for y")


@pytest.mark.thin(4)
@pytest.mark.parametrize("group", [range(6), (0, 70), (4, 9)])
def test_an_index_that_leaves_its_array_is_not_certified(group):
    def build():
        index = pm.Data("g", np.full(N, 4), dims="i")
        pm.Normal("y", pm.Normal("a", shape=5)[index], 1, observed=np.zeros(N), dims="i")

    private = pmp.privatize(model_of(build), records="i", domain=DOMAIN | {"g": group})
    trimmed = pmp.trim(private, box={"a": (-1, 1)})
    refused(NotCertified, lambda: pmp.certify(trimmed), "smaller domain for g")


@pytest.fixture(scope="module")
def trimmable():
    """Give a model with a free scale, a simplex and a discrete variable."""

    def build():
        mu, s = pm.Normal("mu", shape=2), pm.HalfNormal("s", 1)
        p, k = pm.Dirichlet("p", np.ones(3)), pm.Poisson("k", 2)
        pm.Normal("y", mu[0] + mu[1] + k, s, observed=Y, dims="i")
        pm.Categorical("c", p, observed=np.arange(N) % 3, dims="i")

    return pmp.privatize(model_of(build), records="i", domain=DOMAIN)


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("keywords", "word"),
    [
        ({}, "exactly one"),
        ({"box": {"mu": (0, 1)}, "mass": 0.9}, "exactly one"),
        ({"mass": 0.0}, "0 < mass < 1"),
        ({"mass": 1.0}, "0 < mass < 1"),
        ({"mass": np.nan}, "0 < mass < 1"),
        ({"box": {"nu": (0, 1)}}, "nu"),
        ({"box": {"mu": (1, 0)}}, "empty"),
        ({"box": {"mu": (1, 1)}}, "empty"),
        ({"box": {"mu": (0, np.nan)}}, "NaN"),
        ({"box": {"mu": 3}}, "(lower, upper)"),
        ({"box": {"mu": ([0, 0, 0], 1)}}, "shape (2,)"),
        ({"box": {"mu": ([-np.inf, 0], 1)}}, "open for some"),
        ({"box": {"s": (-3, -1)}}, "empty"),
        ({"box": {"p": (0.0, 0.3)}}, "empty"),
        ({"box": {"p": (0.5, 0.9)}}, "empty"),
    ],
)
def test_bad_boxes_and_masses_are_refused(trimmable, keywords, word):
    refused(DomainError, lambda: pmp.trim(trimmable, **keywords), word, complete=False)


def test_a_discrete_variable_has_no_box(trimmable):
    refused(Unsupported, lambda: pmp.trim(trimmable, box={"k": (0, 4)}), "'k'")


@pytest.mark.parametrize("power", [0, -1, 1.5, np.nan, np.inf])
def test_a_power_lies_in_the_unit_interval(trimmable, power):
    refused(DomainError, lambda: pmp.temper(trimmable, power), "0 < power <= 1")


@pytest.fixture(scope="module")
def bernoulli():
    """Give a model that costs 4.4 a draw."""

    def build():
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=np.arange(N) % 2, dims="i")

    return pmp.trim(pmp.privatize(model_of(build), records="i"), box={"p": (0.1, 0.9)})


@pytest.mark.parametrize(
    ("keywords", "word"),
    [
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-9}, "delta"),
        ({"delta": np.nan}, "delta"),
        ({"draws": 0}, "draws"),
        ({"draws": -3}, "draws"),
        ({"draws": 1.5}, "draws"),
        ({"draws": True}, "draws"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": np.inf}, "epsilon"),
        ({"epsilon": np.nan}, "epsilon"),
    ],
)
def test_budgets_out_of_range_are_refused(bernoulli, keywords, word):
    action = lambda: pmp.calibrate(bernoulli, **{"epsilon": 1.0} | keywords)  # noqa: E731
    refused(DomainError, action, word, complete=False)


def test_a_budget_too_small_is_refused_where_tempering_is_not_allowed(bernoulli):
    action = lambda: pmp.calibrate(bernoulli, epsilon=1.0, delta=1e-6, draws=2, temper=False)  # noqa: E731
    text = refused(BudgetExceeded, action, "fewer draws", "R = 4.39")
    assert "epsilon 1 at delta 1e-6" in text
    with pytest.raises(BudgetExceeded) as caught:
        action()
    assert caught.value.asked[0] > caught.value.left[0] == 1
    assert pmp.calibrate(bernoulli, epsilon=9.0, draws=2, temper=False).private.power == 1


@pytest.mark.audit
def test_a_model_that_no_sampler_covers_is_refused():
    def build():
        mean = pm.math.tanh(pm.Normal("b", shape=9).sum())
        pm.Normal("y", mean, 1, observed=Y, dims="i")

    private = pmp.privatize(model_of(build), records="i", domain=DOMAIN)
    refused(Unsupported, lambda: pmp.calibrate(private, epsilon=1.0), "9 scalar parameters")


def test_initial_values_in_the_model_are_welcome():
    def build():
        mu, s = pm.Normal("mu", initval=0.3), pm.HalfNormal("s", initval="prior")
        nu = pm.HalfNormal("nu", initval=np.array(2.0))
        pm.Normal("y", mu + nu, s, observed=np.zeros(N), dims="i")

    model = model_of(build)
    starts = dict(model.rvs_to_initial_values)
    private = pmp.privatize(model, records="i", domain=DOMAIN)
    assert model.rvs_to_initial_values == starts
    trimmed = pmp.trim(private, box={"mu": (-1, 1), "s": (0.5, 2)})
    assert np.log(2.0) == pytest.approx(trimmed.model.initial_point()["nu_log__"])
    boxed = pmp.trim(trimmed, box={"nu": (0, 1)})
    assert pmp.calibrate(boxed, epsilon=1.0, clip=False).sampler == "boxes"


def test_no_pytensor_error_quotes_a_value():
    """Whatever an Op says when it fails, the error that leaves does not repeat it."""

    def build():
        y = pm.Data("y", Y, dims="i")
        picked = pm.Normal("a", shape=3)[pt.cast(y, "int64")]
        pm.Potential("fit", pytensor.raise_op.Assert("all of them")(picked, pt.all(y < 3)))

    private = pmp.privatize(model_of(build), records="i", domain={"y": (0, 9)})
    refused(NotCertified, lambda: pmp.certify(pmp.trim(private, box={"a": (-1, 1)})))
