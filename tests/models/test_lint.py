"""lint: each rule catches its planted case, is silent on ordinary models, and quotes no data."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_private as pmp
from benchmarks.zoo import BY_NAME, N
from pymc_private.demo import fair_model

RNG = np.random.default_rng(20)
X = RNG.normal(3, 2, size=(60, 2))
Y = X @ [0.7, -0.2] + RNG.normal(size=60)
PERSONS = {"person": range(60)}


def linear(x=X, y=Y, mean=0.0, sd=2.5, noise=1.0):
    """A plain regression; tests plant one fault each."""
    with pm.Model(coords={"person": range(len(y))}) as model:
        data = pm.Data("X", x, dims=("person", "feature"))
        b = pm.Normal("b", mean, sd, shape=x.shape[1])
        s = pm.HalfNormal("s", noise)
        pm.Normal("y", data @ b, s, observed=y, dims="person")
    return model


def rules(report, severity=None):
    return {f.rule for f in report if severity in (None, f.severity)}


STATISTICS = {
    "mean of 'y'": Y.mean(),
    "minus the mean of 'y'": -Y.mean(),
    "sum of 'y'": Y.sum(),
    "sd of 'y'": Y.std(),
    "sd (n - 1) of 'y'": Y.std(ddof=1),
    "variance of 'y'": Y.var(),
    "median of 'y'": np.median(Y),
    "min of 'y'": Y.min(),
    "max of column 1 of 'X'": X[:, 1].max(),
    "0.05 quantile of 'y'": np.quantile(Y, 0.05),
    "0.75 quantile of 'y'": np.quantile(Y, 0.75),
    "2.5 sd of 'y'": 2.5 * Y.std(),
    "1 / sd of column 0 of 'X'": 1 / X[:, 0].std(),
    "2.5 sd of 'y' / sd of column 1 of 'X'": 2.5 * Y.std() / X[:, 1].std(),
    "sd of 'X' as a whole": X.std(),
}


@pytest.mark.parametrize("words", STATISTICS)
def test_a_statistic_in_a_prior_is_found(words):
    (found,) = pmp.lint(linear(mean=STATISTICS[words])).warnings
    assert (found.rule, found.where) == ("constant", "the prior of 'b'")
    assert words.removeprefix("minus the ") in found.message


def test_a_statistic_rounded_to_six_digits_is_found():
    assert rules(pmp.lint(linear(sd=float(f"{Y.std():.6g}")))) == {"constant"}
    assert not pmp.lint(linear(sd=float(f"{Y.std():.4g}")))


@pytest.mark.parametrize("place", ["array", "likelihood", "potential", "data", "mixture", "custom"])
def test_a_statistic_is_found_wherever_it_is_read(place):
    sd = Y.std()
    with pm.Model(coords=PERSONS) as model:
        scale = pm.Data("scale", sd) if place == "data" else 1.0
        mu = pm.Normal("mu", 0, [1.0, sd] if place == "array" else scale)
        if place == "mixture":
            parts = [pm.Normal.dist(mu[0] if mu.ndim else mu, sd), pm.Normal.dist(0, 1)]
            pm.Mixture("y", [0.3, 0.7], parts, observed=Y, dims="person")
        elif place == "custom":
            pm.CustomDist("y", mu, logp=lambda y, m: -(((y - m) / sd) ** 2), observed=Y)
        else:
            noise = sd if place == "likelihood" else 1.0
            pm.Normal("y", mu.sum(), noise, observed=Y, dims="person")
        if place == "potential":
            pm.Potential("pull", -((mu / sd) ** 2))
    (found,) = pmp.lint(model).warnings
    titles = {
        "array": "the prior of 'mu'",
        "data": "'scale', in the prior of 'mu'",
        "potential": "the potential 'pull'",
    }
    assert found.where == titles.get(place, "the likelihood of 'y'")


@pytest.mark.parametrize("number", [0, 1, 2.5, 100, 0.5, 1 / 3, np.pi, np.sqrt(2), 1e-3, 5 / 12])
def test_plain_numbers_are_never_reported(number):
    y = np.array([number - 1.0, number, number + 1.0] * 5)
    assert rules(pmp.lint(linear(x=X[:15], y=y, mean=number))) == set()


def test_the_number_of_records_is_a_hint_and_only_as_a_float():
    model = {n: linear(X[:n], Y[:n], noise=n / 1.0) for n in (9, 60)}
    assert not any(map(pmp.lint, model.values()))  # 60 and 9 are plain
    long = np.concatenate([X] * 3)[:137] + RNG.normal(size=(137, 2))
    y = RNG.normal(size=137)
    report = pmp.lint(linear(long, y, noise=137.0))
    assert [f.severity for f in report] == ["hint"]
    assert not pmp.lint(linear(long, y, noise=137))


def test_the_end_of_a_coarse_scale_is_a_hint():
    ages = RNG.choice([17.5, 22, 27, 32, 37, 42], size=60)
    report = pmp.lint(linear(y=ages, mean=17.5))
    assert [(f.rule, f.severity) for f in report] == [("constant", "hint")]


def test_a_declared_end_is_no_statistic():
    y = np.clip(Y, -np.sqrt(7), np.sqrt(7))
    with pm.Model(coords=PERSONS) as model:
        pm.Normal("y", pm.Uniform("m", -np.sqrt(7), np.sqrt(7)), 1, observed=y, dims="person")
    assert rules(pmp.lint(model), "warning") == {"constant"}
    private = pmp.privatize(model, records="person", domain={"y": (-np.sqrt(7), np.sqrt(7))})
    assert not pmp.lint(private)


def test_standardized_and_centered_columns_are_found():
    columns = {
        "scaled by the data's own mean and sd": (X - X.mean(0)) / X.std(0),
        "scaled by the data's own sd": X / X.std(0, ddof=1),
        "centered by the data's own mean": X - X.mean(0),
    }
    for words, x in columns.items():
        report = pmp.lint(linear(x=x))
        assert rules(report) == {"scaled"}
        (found,) = report.warnings
        assert words in found.message
        assert found.where == "column 0 of 'X', column 1 of 'X'"


def test_a_standardized_indicator_is_found_and_a_balanced_design_is_not():
    x = (np.arange(60) % 3 == 0).astype(float)[:, None]
    assert not pmp.lint(linear(x=x))
    assert rules(pmp.lint(linear(x=(x - x.mean()) / x.std()))) == {"scaled"}
    assert not pmp.lint(linear(x=np.tile([-np.sqrt(2), np.sqrt(2)], 30)[:, None]))


def test_a_column_that_was_standardized_in_numpy_and_baked_in_is_found():
    z = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    with pm.Model(coords=PERSONS) as model:
        pm.Normal("y", pm.Normal("b", 0, 1) * z, 1, observed=Y, dims="person")
    (found,) = pmp.lint(model, records="person").warnings
    assert found.where == "'constant_0'"
    assert "pmp.Scale" in found.fix


def test_min_max_scaling_is_a_hint():
    x = (X - X.min(0)) / np.ptp(X, axis=0)
    assert {(f.rule, f.severity) for f in pmp.lint(linear(x=x))} == {("scaled", "hint")}


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("public", [True, False])
def test_the_range_that_hsgp_bakes_in_is_found_and_its_cure_is_clean(shared, public):
    x = X[:, :1]
    with pm.Model(coords=PERSONS) as model:
        cov = pm.gp.cov.ExpQuad(1, ls=pm.Gamma("ls", 2, 1))
        if public:
            gp = pm.gp.HSGP(m=[4], L=[9.0], cov_func=cov)
            gp.prior_linearized(np.array([[-6.0], [12.0]]))
        else:
            gp = pm.gp.HSGP(m=[4], c=1.3, cov_func=cov)
        data = pm.Data("x", x) if shared else x
        phi, psd = gp.prior_linearized(data)
        b = pm.Normal("b", 0, 1, size=gp.n_basis_vectors)
        pm.Normal("y", phi @ (b * psd), 1, observed=Y, dims="person")
    report = pmp.lint(model)
    assert rules(report, "warning") == (set() if public else {"range"})


def test_the_middle_of_a_coarse_scale_is_a_hint():
    ages = RNG.choice([17.5, 22, 27, 32, 37, 42], size=60)
    with pm.Model(coords=PERSONS) as model:
        age = pm.Data("age", ages, dims="person")
        pm.Normal("y", pm.Normal("b", 0, 1) * (age - 29.75) / 12.25, 1, observed=Y, dims="person")
    assert {(f.rule, f.severity) for f in pmp.lint(model)} == {("range", "hint")}


def test_levels_learned_are_a_hint():
    labels = np.array(list("abcd"))[RNG.integers(0, 4, 60)]
    index, levels = pd.factorize(labels)

    def model(names):
        with pm.Model(coords=PERSONS | {"group": names}) as made:
            g = pm.Data("g", index, dims="person")
            a = pm.Normal("a", 0, 1, dims="group")
            pm.Normal("y", a[g], 1, observed=Y, dims="person")
        return made

    (found,) = pmp.lint(model(levels))
    assert (found.rule, found.severity, found.where) == ("levels", "hint", "'g'")
    assert not pmp.lint(model([*levels, "other"]))


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_a_lag_is_found(lag):
    late, early = Y[lag:], Y[:-lag]
    with pm.Model(coords={"person": range(60 - lag)}) as model:
        before = pm.Data("before", early, dims="person")
        pm.Normal("y", pm.Normal("b", 0, 1) * before, 1, observed=late, dims="person")
    (found,) = pmp.lint(model).warnings
    assert (found.rule, found.where) == ("lag", "'before'")
    assert "'y'" in found.message


@pytest.mark.parametrize("other", [Y, 3 * Y - 100, -Y])
def test_a_copy_is_a_hint_and_a_public_copy_a_warning(other):
    with pm.Model(coords=PERSONS) as model:
        twin = pm.Data("twin", other, dims="person")
        pm.Normal("y", pm.Normal("b", 0, 1) * twin, 1, observed=Y, dims="person")
    assert [(f.rule, f.severity) for f in pmp.lint(model)] == [("copy", "hint")]
    domain = {"y": (-100, 100), "twin": (-500, 500)}
    private = pmp.privatize(model, records="person", domain=domain)
    assert [(f.rule, f.severity) for f in pmp.lint(private)] == [("copy", "hint")]
    domain = {"y": (-100, 100)}
    private = pmp.privatize(model, records="person", domain=domain, public=["twin"])
    assert [(f.rule, f.severity) for f in pmp.lint(private)] == [("copy", "warning")]


def test_bambi_automatic_priors_and_centering_are_found():
    bmb = pytest.importorskip("bambi")
    table = pd.DataFrame({"y": Y, "x": X[:, 0]})
    report = pmp.lint(bmb.Model("y ~ x", table))
    assert rules(report) == {"automatic prior", "constant", "scaled"}
    places = {f.where for f in report if f.rule == "automatic prior"}
    assert places == {"the prior of 'Intercept'", "the prior of 'x'", "the prior of 'sigma'"}
    assert "center_predictors=False" in next(f.fix for f in report if f.rule == "scaled")


def test_bambi_with_a_binary_outcome_is_found_where_data_were_used():
    bmb = pytest.importorskip("bambi")
    table = pd.DataFrame({"y": (Y > 1).astype(int), "x": X[:, 0]})
    report = pmp.lint(bmb.Model("y ~ x", table, family="bernoulli", center_predictors=False))
    places = {f.where for f in report if f.rule == "automatic prior"}
    assert places == {"the prior of 'x'"}


@pytest.mark.parametrize("term", ["scale(x)", "bs(x, df=4)", "hsgp(x, m=4, c=1.5)", "(scale(x)|g)"])
@pytest.mark.parametrize("response", ["y", "scale(y)"])
def test_bambi_transforms_that_remember_the_data_are_found(term, response):
    bmb = pytest.importorskip("bambi")
    table = pd.DataFrame({"y": Y, "x": X[:, 0], "g": np.arange(60) % 3})
    report = pmp.lint(bmb.Model(f"{response} ~ {term} + np.exp(x)", table))
    places = {f.where for f in report if f.rule == "transform"}
    expected = {f"the term '{term.strip('()') if '|' in term else term}'"}
    assert places == expected | ({"the term 'scale(y)'"} if response != "y" else set())


def explicit_bambi():
    bmb = pytest.importorskip("bambi")
    priors = {
        "Intercept": bmb.Prior("Normal", mu=0, sigma=5),
        "x": bmb.Prior("Normal", mu=0, sigma=2.5),
        "sigma": bmb.Prior("HalfNormal", sigma=2),
    }
    table = pd.DataFrame({"y": Y, "x": X[:, 0]})
    return bmb.Model("y ~ x", table, priors=priors, auto_scale=False, center_predictors=False)


CLEAN = {
    "regression": linear,
    "of balls": lambda: linear(x=pmp.Scale([-6, -6], [12, 12])(X)),
    "bambi": explicit_bambi,
    "demo": fair_model,
    "integers": lambda: linear(x=np.round(X), y=np.round(Y)),
}


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", CLEAN)
def test_clean_models_are_silent(name):
    report = pmp.lint(CLEAN[name]())
    assert list(report) == []
    assert not report
    assert "proves nothing" in repr(report)


@pytest.mark.thin(6)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", BY_NAME)
def test_no_model_of_the_zoo_gets_a_warning(name, seed):
    entry = BY_NAME[name]
    model = entry.model(entry.data(np.random.default_rng(seed), N))
    keywords = {"records": "person"} | dict(entry.keywords)
    assert pmp.lint(model).warnings == ()
    if "y" in keywords["records"]:
        assert pmp.lint(model, records=keywords["records"]).warnings == ()


@pytest.mark.parametrize("name", ["linear", "hierarchical", "private offset", "dirichlet rows"])
def test_no_private_model_of_the_zoo_gets_a_warning(name, private):
    assert pmp.lint(private(name)).warnings == ()


def faulty():
    """A model with a fault for most rules."""
    z = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
    with pm.Model(coords=PERSONS | {"group": ["a", "b"]}) as model:
        x = pm.Data("x<1>", z, dims="person")
        g = pm.Data("g", (Y > 1).astype(int), dims="person")
        a = pm.Normal("a", Y.mean(), 2.5 * Y.std(), dims="group")
        middle = (Y.min() + Y.max()) / 2
        pm.Normal("y", a[g] + x * middle, Y.std(), observed=Y, dims="person")
        pm.Normal("again", x * pm.Normal("b"), 1, observed=np.roll(Y, 1), dims="person")
        pm.Normal("twin", 2 * pm.Normal("c"), 1, observed=2 * Y, dims="person")
    return model


def test_a_private_model_is_looked_at_along_its_own_records():
    domain = {"x<1>": (-9, 9), "g": {0, 1}, "y": (-99, 99), "again": (-99, 99), "twin": (-99, 99)}
    private = pmp.privatize(faulty(), records="person", domain=domain)
    found = rules(pmp.lint(private))
    assert found == rules(pmp.lint(faulty())) >= {"constant", "range", "scaled", "levels", "copy"}
    with pytest.raises(pmp.errors.DomainError, match="knows its records"):
        pmp.lint(private, records="person")


def test_a_report_quotes_no_number_of_the_data():
    report = pmp.lint(faulty())
    text = repr(report) + report._repr_html_() + report.to_frame().to_csv()
    # Numbers that stand there are multiples, digits, sizes or the code of a cure: all short.
    assert all(len(number) <= 4 for number in re.findall(r"\d[\d.]*", text))
    for value in [*Y, *X.ravel(), Y.mean(), Y.std(), (Y.min() + Y.max()) / 2]:
        assert f"{abs(value):.4g}"[:5].ljust(5, "0") not in text


def test_a_report_is_a_sequence_and_a_table():
    report = pmp.lint(faulty())
    assert report
    assert len(report) == len(list(report)) == len(report.to_frame())
    assert list(report.to_frame()) == ["rule", "severity", "where", "message", "fix"]
    severities = [f.severity for f in report]
    assert severities == sorted(severities, reverse=True)
    assert report[: len(report.warnings)] == report.warnings
    assert list(pmp.lint(linear()).to_frame()) == list(report.to_frame())
    for text in (
        repr(report),
        report._repr_html_(),
        pmp.lint.__doc__,
        pmp.models.LintReport.__doc__,
    ):
        assert "for the curator: not to be published" in text.lower()
    assert "x&lt;1&gt;" in report._repr_html_()
    assert "x<1>" not in report._repr_html_()


def test_nothing_else_in_the_package_calls_it(root):
    files = (root / "pymc_private").rglob("*.py")
    pattern = re.compile(r"models\.lint import (\([^)]*|[^\n(]*)\blint\b")
    callers = [f for f in files if pattern.search(f.read_text())]
    assert callers == [root / "pymc_private" / "__init__.py"]


def test_the_model_is_left_as_it_was():
    model = faulty()
    before = {v.name: v.get_value() for v in model.data_vars}
    names, graph = list(model.named_vars), model.str_repr()
    first = pmp.lint(model)
    assert pmp.lint(model) == first
    assert list(model.named_vars) == names
    assert model.str_repr() == graph
    for name, value in before.items():
        np.testing.assert_array_equal(model[name].get_value(), value)
    with model:
        assert pmp.lint() == first


@pytest.mark.parametrize("thing", [3, "model", np.zeros(3)])
def test_what_is_no_model_is_refused(thing):
    with pytest.raises(pmp.errors.DomainError):
        pmp.lint(thing)


@pytest.mark.parametrize("records", ["nowhere", {"y": 3}, {"z": 0}])
def test_records_that_are_not_there_are_refused(records):
    with pytest.raises(pmp.errors.DomainError):
        pmp.lint(linear(), records=records)


def test_without_a_model_or_data_there_is_nothing_to_say():
    with pytest.raises(pmp.errors.DomainError):
        pmp.lint()
    with pm.Model() as model:
        pm.Normal("mu", 0, 1.2345)
    assert not pmp.lint(model)


def test_a_distribution_without_a_density_does_no_harm():
    with pm.Model() as model:
        pm.CustomDist("y", 0.0, random=lambda m, rng=None, size=None: rng.normal(m), observed=Y)
    assert not pmp.lint(model)


def test_missing_and_infinite_entries_do_no_harm():
    x = X.copy()
    x[0, 0], x[1, 1] = np.nan, np.inf
    for mean in (0, x[1:, 0].mean()):
        model = linear(mean=mean)
        model["X"].set_value(x)
        assert rules(pmp.lint(model)) == ({"constant"} if mean else set())
