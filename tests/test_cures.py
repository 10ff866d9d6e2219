"""The first errors of a new user: what a message tells to write is run as it is printed."""

from __future__ import annotations

import ast
import re
from collections import Counter

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import PymcPrivateError, did_you_mean, suggest_arguments
from pymc_private.models import suggestions
from pymc_private.models.domains import as_domain

pytestmark = pytest.mark.usefixtures("quick")

N = 40
CODE = re.compile(r"(?:private = )?pmp\.[\w.]+\(")


def calls_in(message: str) -> list[str]:
    """The calls of the package that a message prints, each up to its closing parenthesis."""
    found = []
    for match in CODE.finditer(message):
        depth, end = 1, match.end()
        while depth and end < len(message):
            depth += {"(": 1, ")": -1}.get(message[end], 0)
            end += 1
        found.append(message[match.start() : end])
    return found


def run(code: str, **names: object) -> dict[str, object]:
    """The names that code leaves, the value of its last expression among them as `value`."""
    space = {"pmp": pmp, "pm": pm, "np": np, **names}
    body = ast.parse(code).body
    if isinstance(body[-1], ast.Expr):
        body[-1] = ast.Assign([ast.Name("value", ast.Store())], body[-1].value)
    exec(compile(ast.fix_missing_locations(ast.Module(body, [])), "<printed>", "exec"), space)
    return space


def message_of(call, kind: type[Exception] = PymcPrivateError) -> str:
    with pytest.raises(kind) as refused:
        call()
    return str(refused.value)


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def line(**dims: str) -> pm.Model:
    """A regression, its arrays in data variables with a dim."""
    with pm.Model(coords={"person": range(N)}) as model:
        x = pm.Data("x", random().random(N), dims="person")
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", slope * x, 1, observed=random(1).normal(size=N), dims="person")
    return model


def groups() -> pm.Model:
    """A varying intercept of four groups, all arrays written into the model, without dims."""
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=4)
        slope = pm.Normal("slope", 0, 1)
        mean = effect[random().integers(0, 4, N)] + slope * random().random(N)
        pm.Normal("y", mean, 1, observed=random(1).normal(size=N))
    return model


def flagged(levels: int = 3) -> pm.Model:
    """A truth value and an index in data variables with a dim."""
    with pm.Model(coords={"person": range(N), "site": range(levels)}) as model:
        smoker = pm.Data("smoker", random().random(N) < 0.5, dims="person")
        site = pm.Data("site_of", random().integers(0, levels, N), dims="person")
        age = pm.Data("age", random().integers(18, 90, N), dims="person")
        effect = pm.Normal("effect", 0, 1, dims="site")
        rate = effect[site] + pm.Normal("slope", 0, 1) * smoker + 0.01 * age
        pm.Bernoulli("ill", logit_p=rate, observed=random(1).integers(0, 2, N), dims="person")
    return model


def categories() -> pm.Model:
    """A regression on categories, whose number is the length of a dim."""
    with pm.Model(coords={"person": range(N), "kind": range(3)}) as model:
        slope = pm.Normal("slope", 0, 1, dims="kind")
        x = pm.Data("x", random().random(N), dims="person")
        y = pm.Data("y_data", random(1).integers(0, 3, N), dims="person")
        pm.Categorical("y", logit_p=x[:, None] * slope, observed=y, dims="person")
    return model


def rows_of_counts(total: object = 5) -> pm.Model:
    """Rows of counts over three categories."""
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", np.ones(3))
        drawn = random().multinomial(5, [0.2, 0.3, 0.5], N)
        pm.Multinomial("y", pm.Data("total", 5) if total is None else total, shares, observed=drawn)
    return model


def items() -> pm.Model:
    """Answers of persons to items, the persons' abilities integrated out."""
    with pm.Model(coords={"person": range(N), "item": range(3)}) as model:
        ability = pm.Normal("ability", 0, 1, dims="person")
        hard = pm.Normal("hard", 0, 1, dims="item")
        right = random().integers(0, 2, (N, 3))
        rate = ability[:, None] - hard
        pm.Bernoulli("y", logit_p=rate, observed=right, dims=("person", "item"))
    return pmp.marginalize(model, "ability", points=5)


# A list of two is no domain.


@pytest.mark.parametrize("pair", [[-1, 1], [0.0, 1.0]])
def test_a_list_of_two_is_refused_with_both_ways_to_write_it(pair):
    refusal = message_of(
        lambda: pmp.privatize(line(), records="person", domain={"x": pair, "y": (-3, 3)})
    )
    assert "a tuple (or pmp.Interval) for an interval, a set (or pmp.Categories)" in refusal
    written = re.search(r"write (\(.*?\)) for .* or (\{.*?\}) for", refusal)
    interval, categories = (ast.literal_eval(part) for part in written.groups())
    assert interval == tuple(pair)
    assert categories == set(pair)
    domain = {"x": interval, "y": (-3, 3)}
    assert pmp.privatize(line(), records="person", domain=domain).domain["x"]


# privatize prints a call to paste.

GIVEN = {
    "line": (line, {}),
    "line, records": (line, {"records": "person"}),
    "line, one domain": (
        line,
        {"records": "person", "domain": {"x": pmp.Interval(0, np.float64(1))}},
    ),
    "line, public": (line, {"records": "person", "public": ["x"]}),
    "flagged, sets": (
        flagged,
        {"records": "person", "domain": {"smoker": {1, 0}, "site_of": frozenset(range(3))}},
    ),
    "line, add_remove": (line, {"records": "person", "neighbors": "add_remove"}),
    "groups": (groups, {}),
    "groups, axis": (groups, {"records": {"y": 0}}),
    "groups, one domain": (groups, {"records": {"y": 0}, "domain": {"y": (-3, 3)}}),
    "groups, public": (groups, {"records": {"y": 0}, "constants": "public"}),
    "flagged": (flagged, {}),
    "categories": (categories, {"records": "person"}),
    "rows of counts": (rows_of_counts, {"records": {"y": 0}}),
    "rows of counts, n of data": (lambda: rows_of_counts(None), {"records": {"y": 0}}),
    "items": (items, {}),
}


@pytest.mark.thin(8)
@pytest.mark.parametrize("given", GIVEN)
def test_the_printed_call_runs_and_once_filled_in_makes_a_private_model(given):
    make, arguments = GIVEN[given]
    model, refusal = make(), message_of(lambda: pmp.privatize(make(), **arguments))
    (call,) = [code for code in calls_in(refusal) if code.startswith("pmp.privatize(")]
    if "..." in call:
        following = message_of(lambda: run(call, model=model))
        assert following != refusal
        assert "replace ... by numbers" in following
    filled = call.replace("pmp.Interval(..., ...)", "pmp.Interval(-3, 90)")
    filled = filled.replace("pmp.Counts(...)", "pmp.Counts(5)")
    private = run(filled, model=model)["value"]
    assert isinstance(private, pmp.PrivateModel)
    for name, domain in arguments.get("domain", {}).items():
        kept = next(source.domain for source in private.sources if source.name == name)
        assert kept == as_domain(domain)
    assert private.neighbors == arguments.get("neighbors", "substitute")


@pytest.mark.parametrize(
    "domain",
    [
        pmp.Interval(np.zeros(2), [1, 2.5]),
        pmp.Ball(1.5, center=np.array([0.5, 1.0])),
        pmp.Categories(range(3)),
        pmp.Simplex(),
        pmp.Counts(5),
    ],
)
def test_a_declared_domain_is_printed_as_code(domain):
    code = suggestions._as_code({"x": domain, 'a "name"': (0, np.int64(1))})
    value = run(code)["value"]
    assert repr(value["x"].bounds((2,))) == repr(domain.bounds((2,)))
    assert type(value["x"]) is type(domain)
    assert value['a "name"'] == (0, 1)


def test_without_dims_the_call_names_an_axis_and_the_constants():
    refusal = message_of(lambda: pmp.privatize(groups()))
    assert 'records={"y": 0}' in refusal
    names = list(pmp.constants(groups())["name"])
    assert len(names) == 2
    assert all(f'"{name}": pmp.' in refusal for name in names)
    assert refusal.count("pmp.Categories(range(4))") == 1


def test_arrays_written_into_a_model_are_told_apart_by_what_they_meet():
    refusal = message_of(lambda: pmp.privatize(groups()))
    kinds = {"effect": "int64", "slope": "float64"}
    for name, kind in kinds.items():
        assert re.search(rf"constant_\d  shape .*{kind}  constant; .*read beside {name}\n", refusal)


def test_a_category_that_was_not_declared_is_one_of_a_named_variable():
    domain = {"x": {0}, "y": (-3, 3)}
    refusal = message_of(lambda: pmp.privatize(line(), records="person", domain=domain))
    assert refusal.startswith("'x': the data contain a value that is not among the declared")


def test_domains_are_suggested_from_types_and_use_alone():
    def asked(model):
        return message_of(lambda: pmp.privatize(model))

    refusal = asked(flagged())
    assert '"smoker": {0, 1}' in refusal
    assert '"site_of": pmp.Categories(range(3))' in refusal
    assert '"age": pmp.Interval(..., ...)' in refusal
    assert '"site_of": {0, 1}' in asked(flagged(levels=2))
    other = flagged()
    for name in ("smoker", "site_of", "age"):
        variable = other[name]
        variable.set_value(np.zeros_like(variable.get_value()))
    assert asked(other) == refusal


def test_a_likelihood_of_categories_or_counts_suggests_their_domain():
    def asked(model):
        return message_of(lambda: pmp.privatize(model, records={"y": 0}))

    refusal = message_of(lambda: pmp.privatize(categories(), records="person"))
    assert '"y_data": pmp.Categories(range(3))' in refusal
    assert '"y": pmp.Counts(5)' in asked(rows_of_counts())
    assert '"y": pmp.Counts(...)' in asked(rows_of_counts(None))
    assert '"y": pmp.Interval(..., ...)' in asked(rows_of_counts(np.full(N, 5)))


def test_a_count_is_no_row_of_counts():
    with pm.Model(coords={"person": range(N)}) as model:
        pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=np.arange(N) % 3, dims="person")
    domain = {"y": pmp.Counts(7)}
    refusal = message_of(lambda: pmp.privatize(model, records="person", domain=domain))
    assert "got: a single number per record" in refusal
    (interval,) = re.findall(r"pmp\.Interval\(.*?\)", refusal)
    assert run(interval)["value"] == pmp.Interval(0, 7)
    assert "pmp.Categories(range(k))" in refusal
    for rows in (np.full((N, 3), 0.5), np.ones((N, 3))):
        with pm.Model(coords={"person": range(N)}) as model:
            pm.Normal("y", pm.Normal("mean", 0, 1), 1, observed=rows)
        refusal = message_of(lambda: pmp.privatize(model, records={"y": 0}, domain=domain))
        assert "got: " in refusal
        assert "what to do: " in refusal


@pytest.mark.audit
def test_what_is_summed_over_leaves_the_support_of_the_outcome():
    """PyMC would cut 7.9 off, so {0, 1} is stated of whole numbers alone."""
    private = pmp.privatize(items(), records="person")
    assert [source.domain for source in private.sources] == [pmp.Categories([0, 1])]
    with pm.Model(coords={"person": range(N)}) as model:
        kind = pm.Bernoulli("kind", 0.3, dims="person")
        y = pm.Data("y_data", random().random(N), dims="person")
        pm.Bernoulli("y", pm.Beta("rate", 1, 1) * kind, observed=y, dims="person")
    shared = pmp.marginalize(model, "kind")
    assert "y_data" in message_of(lambda: pmp.privatize(shared, records="person"))


def test_a_wrong_name_is_answered_by_the_nearest_one():
    assert "did you mean 'person'?" in message_of(lambda: pmp.privatize(line(), records="persn"))
    domain = {"x": (0, 1), "yy": (-3, 3)}
    refusal = message_of(lambda: pmp.privatize(line(), records="person", domain=domain))
    assert "did you mean 'y'" in refusal


# Keywords that do not exist.


def calibrate(private, *, epsilon, delta=0.0, draws=1):
    return private


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: pmp.privatize(line(), record="person"), "did you mean 'records'?"),
        (lambda: pmp.privatize(line(), records="person", domains={}), "did you mean 'domain'?"),
        (lambda: pmp.privatize(line(), "person"), "takes 1 argument by position (model), got 2"),
        (lambda: pmp.trim(None, masses=0.9), "did you mean 'mass'?"),
        (lambda: pmp.trim(None, 0.9), "give the others by name: box=, mass=, lipschitz="),
        (lambda: pmp.temper(None, pow=0.5), "did you mean 'power'?"),
        (lambda: pmp.certify(None, tol=0.5), "did you mean 'tolerance'?"),
        (lambda: pmp.certify(), "certify(): missing a required argument: 'private'"),
        (lambda: pmp.sample(None, 1000), "sample() takes 1 argument by position (what), got 2"),
        (lambda: pmp.clip(None, low=1), "did you mean 'lower'?"),
        (lambda: pmp.report(None, led=1), "did you mean 'ledger'?"),
        (lambda: pmp.answer(None, responce=1), "did you mean 'responses'?"),
        (lambda: pmp.load(file=1), "allowed: path"),
        (lambda: pmp.compare(None, data=1), "did you mean 'idata'?"),
        (lambda: suggest_arguments(calibrate)(None, eps=1), "did you mean 'epsilon'?"),
        (lambda: suggest_arguments(calibrate)(None, 1000), "by name: epsilon=, delta=, draws="),
    ],
)
def test_an_unknown_keyword_is_answered_by_the_nearest_one(call, said):
    assert said in message_of(call, TypeError)


def test_a_number_of_draws_is_not_what_sample_takes_first():
    assert "did you mean sample(plan), of a plan made with draws=1000?" in message_of(
        lambda: pmp.sample(1000, epsilon=1), pmp.errors.DomainError
    )


def test_a_keyword_that_is_like_none_is_answered_by_all():
    assert did_you_mean("eps", ["epsilon", "delta"]) == "; did you mean 'epsilon'?"
    assert did_you_mean("zzz", ["epsilon", "delta"]) == "; allowed: epsilon, delta"


def test_arguments_are_still_errors_of_the_function_itself():
    assert suggest_arguments(calibrate)(3, epsilon=1) == 3
    with pytest.raises(TypeError, match="inner"):
        suggest_arguments(_raising)(1)


def _raising(value):
    raise TypeError("inner")


# compare, and NUTS.


@pytest.fixture(scope="module")
def release():
    private = pmp.privatize(line(), records="person", domain={"x": (0, 1), "y": (-3, 3)})
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=8, clip=False)
    return pmp.sample(plan, random_seed=1, progressbar=False)


@pytest.mark.audit
def test_compare_says_what_it_takes(release):
    both_public = message_of(lambda: pmp.compare(release, release), pmp.errors.DomainError)
    assert "Two releases are public" in both_public
    for pair in ((release.to_arviz(), release), (release, None), (1, 2)):
        refusal = message_of(lambda pair=pair: pmp.compare(*pair), pmp.errors.DomainError)
        assert "curator only" in refusal
        assert "a Release or draws of summary.model(), then an InferenceData" in refusal
    idata = release.to_arviz()
    (code,) = [c for c in calls_in(refusal) if "compare" in c]
    assert "CURATOR ONLY" in repr(run(code, release=release, idata=idata)["value"])


def test_nuts_says_what_to_state_and_why():
    from pymc_private.samplers.nuts import check_nuts

    private = pmp.privatize(line(), records="person", domain={"x": (0, 1), "y": (-3, 3)})
    for tv in (None, 0.0, 1, float("nan"), "small", True):
        refusal = message_of(
            lambda tv=tv: check_nuts(private, tv, "pymc", 1), pmp.errors.DomainError
        )
    assert "the guarantee does not hold" in refusal
    (code,) = calls_in(refusal)
    nuts = run(code)["value"]
    assert (1 + np.e) * 10 * nuts.tv <= 1e-6 / 10
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=10, sampler=nuts, clip=False)
    assert "stated" in plan.summary()
    assert "required" in repr(pmp.samplers.Nuts())
    assert eval(repr(nuts), {"Nuts": pmp.samplers.Nuts}) == nuts


# What certify advises.


def cutpoints(entries: int) -> pm.Model:
    with pm.Model(coords={"person": range(N)}) as model:
        x = pm.Data("x", random().random(N), dims="person")
        slope = pm.Normal("slope", 0, 1)
        cuts = pm.Normal(
            "cuts", 0, 2, shape=entries, initval=np.arange(entries),
            transform=pm.distributions.transforms.ordered,
        )  # fmt: skip
        levels = random().integers(0, entries + 1, N)
        pm.OrderedLogistic("y", eta=slope * x, cutpoints=cuts, observed=levels, dims="person")
    return model


def mixed() -> pm.Model:
    """A mixture, whose centers may meet."""
    with pm.Model() as model:
        weight, ordered = pm.Beta("weight", 2, 2), pm.distributions.transforms.ordered
        mu = pm.Normal("mu", 0, 1, shape=2, initval=[-1, 1], transform=ordered)
        both = pm.math.stack([weight, 1 - weight])
        pm.NormalMixture("y", w=both, mu=mu, sigma=1.0, observed=random().normal(size=N))
    return model


def centered() -> pm.Model:
    with pm.Model(coords={"person": range(N), "site": range(2)}) as model:
        site = pm.Data("site_of", random().integers(0, 2, N), dims="person")
        scale = pm.HalfNormal("scale", 1)
        effect = pm.Normal("effect", 0, scale, dims="site")
        pm.Normal("y", effect[site], 1, observed=random(1).normal(size=N), dims="person")
    return model


def advised(private: pmp.PrivateModel) -> list[str]:
    with pytest.raises(pmp.errors.NotCertified) as refused:
        pmp.certify(private)
    assert "calibrate" in refused.value.cure
    return calls_in(refused.value.cure)


@pytest.mark.audit
def test_where_calibrate_trims_by_itself_the_cure_says_so():
    domain = {"site_of": {0, 1}, "y": (-3, 3)}
    private = pmp.privatize(centered(), records="person", domain=domain)
    by_mass, by_box = advised(private)
    assert "mass=0.99" in by_mass
    assert '"effect": (-5, 5)' in by_box
    assert np.isfinite(pmp.certify(run(by_mass, private=private)["value"]).range)
    trimmed = run(by_box, private=private)["private"]
    assert np.isfinite(pmp.certify(trimmed).range)
    for each in (private, trimmed):
        assert pmp.calibrate(each, epsilon=1, delta=1e-6).guarantee


@pytest.mark.audit
@pytest.mark.parametrize("entries", [2, 3])
def test_ordered_cutpoints_get_a_box_and_no_mass(entries):
    private = pmp.privatize(cutpoints(entries), records="person", domain={"x": (0, 1)})
    (by_box,) = advised(private)
    assert "mass" not in by_box
    refusal = message_of(lambda: pmp.calibrate(private, epsilon=1, delta=1e-6, clip=False))
    assert by_box in refusal
    assert "mass=0.99" not in refusal
    trimmed = run(by_box, private=private)["private"]
    assert np.isfinite(pmp.certify(pmp.trim(trimmed, mass=0.99)).range)
    assert pmp.calibrate(trimmed, epsilon=1, delta=1e-6).guarantee


@pytest.mark.audit
def test_boxes_of_ordered_entries_that_touch_are_refused_at_once(monkeypatch):
    def searched(*_):
        raise AssertionError("no search is of use here")

    monkeypatch.setattr("pymc_private.certificates.certify.bound_range", searched)
    private = pmp.privatize(cutpoints(2), records="person", domain={"x": (0, 1)})
    touching = pmp.trim(private, box={"cuts": ([-6, 0], [0, 6]), "slope": (-2, 2)})
    with pytest.raises(pmp.errors.NotCertified, match="leave a gap") as refused:
        pmp.certify(touching)
    (code,) = calls_in(refused.value.cure)
    monkeypatch.undo()
    apart = run(code, private=touching)["private"]
    assert np.isfinite(pmp.certify(apart).range)
    fine = pmp.privatize(mixed(), records={"y": 0}, domain={"y": (-3, 3)})
    together = {"mu": ([-2, 0], [0, 2]), "weight": (0.1, 0.9)}
    assert np.isfinite(pmp.certify(pmp.trim(fine, box=together)).range)


def test_a_value_without_probability_is_cured_by_leaving_the_domain_out_or_a_clip():
    with pm.Model(coords={"person": range(N)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=random().integers(0, 2, N), dims="person")
    wide = pmp.privatize(model, records="person", domain={"y": (0, 2)})
    with pytest.raises(pmp.errors.NotCertified, match="leave the domain of y out") as refused:
        pmp.certify(wide)
    (code,) = calls_in(refused.value.cure)
    clipped = run(code, private=wide, lower=-3.0, upper=0.0)["value"]
    assert np.isfinite(pmp.certify(clipped).range)
    assert pmp.privatize(model, records="person").domain


# Censored times.


def survival(kind: str, times, upper, dim: bool) -> pm.Model:
    """The idiom of the field: the bound of a record is its time if censored, else infinite."""
    with pm.Model(coords={"person": range(len(times))} if dim else None) as model:
        lifetime = _lifetime(kind)
        dims = {"dims": "person"} if dim else {}
        pm.Censored("t", lifetime, lower=None, upper=upper, observed=times, **dims)
    return model


def _lifetime(kind: str):
    level = pm.Normal("level", 1, 0.5)
    if kind == "weibull":
        return pm.Weibull.dist(pm.Uniform("shape", 0.8, 1.5), pm.math.exp(level))
    if kind == "geometric":
        return pm.Geometric.dist(pm.math.sigmoid(level))
    return pm.Exponential.dist(pm.math.exp(-level))


@pytest.mark.audit
@pytest.mark.parametrize("dim", [True, False])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("kind", ["exponential", "weibull", "geometric"])
def test_censored_times_are_told_how_to_be_written(kind, given, dim):
    times = random().geometric(0.3, N).clip(1, 10)
    times = times.astype(int if kind == "geometric" else float)
    event = random(1).random(N) < 0.6
    upper = np.where(event, np.inf, times)
    model = survival(kind, times, upper, dim)
    (name,) = pmp.constants(model, records="person" if dim else {"t": 0})["name"]
    domain = {"t": (1, 10), name: (1, 10)} if given else {}
    records = "person" if dim else {"t": 0}
    refusal = message_of(lambda: pmp.privatize(model, records=records, domain=domain))
    assert "they say who was censored" in refusal
    assert "drop incomplete records" not in refusal
    assert "constants" not in refusal
    inside, after = re.search(r"( +event = .*)# outside the model:\n(.*)", refusal, re.S).groups()
    lines = [row.strip() for row in inside.splitlines()]
    lifetime, lines = [r for r in lines if "..." in r], [r for r in lines if "..." not in r]
    assert len(lifetime) == 1
    with pm.Model(coords={"person": range(N)} if dim else None) as written:
        names = {"t": times, "upper": upper, "lifetime": _lifetime(kind)}
        run("\n".join(lines), **names)
    point = model.initial_point()
    same = written.compile_logp()(point), model.compile_logp()(point)
    np.testing.assert_allclose(*same, rtol=1e-6)
    if not given:
        assert "replace ... by numbers" in message_of(lambda: run(after.strip(), model=written))
    code = after.strip().replace("pmp.Interval(..., ...)", "(1, 10)")
    private = run(code, model=written)["private"]
    assert set(private.domain) == {"t_data", "event"}
    certificate = pmp.certify(pmp.trim(private, mass=0.95))
    assert 0 < certificate.searched <= certificate.range < np.inf
    if kind == "exponential":
        assert pmp.calibrate(private, epsilon=1, delta=1e-6).guarantee


def test_infinite_bounds_in_a_data_variable_are_told_the_same():
    times = random().exponential(5, N).clip(0.1, 10)
    upper = np.where(random(1).random(N) < 0.6, np.inf, times)
    with pm.Model(coords={"person": range(N)}) as model:
        bound = pm.Data("bound", upper, dims="person")
        pm.Censored("t", _lifetime(""), lower=None, upper=bound, observed=times, dims="person")
    domain = {"t": (0.1, 10), "bound": (0.1, 10)}
    refusal = message_of(lambda: pmp.privatize(model, records="person", domain=domain))
    assert "the upper bounds of the censored variable 't'" in refusal


def test_bounds_that_are_claimed_public_say_what_this_claims():
    times = random().exponential(5, N).clip(0.1, 10)
    upper = np.where(random(1).random(N) < 0.6, np.inf, times)
    model = survival("", times, upper, dim=True)
    for public in ({"constants": "public"}, {"public": ["constant_0"]}):
        private = pmp.privatize(model, records="person", domain={"t": (0.1, 10)}, **public)
        assert "the upper bounds of 't' are public, and so is who was censored" in private.claims


def test_finite_bounds_of_each_record_are_declared_as_before():
    times = random().exponential(5, N).clip(0.1, 10)
    with pm.Model(coords={"person": range(N)}) as model:
        pm.Censored(
            "t", _lifetime(""), lower=None, upper=np.full(N, 10.0), observed=times, dims="person"
        )
    domain = {"t": (0.1, 10), "constant_0": (10, 10)}
    assert pmp.privatize(model, records="person", domain=domain).domain["constant_0"]


# Every message of these files that prints code.

FILES = (
    *(f"models/{n}" for n in ("declare", "private_model", "domains", "suggestions", "bambi")),
    *(f"models/{n}" for n in ("distributions", "data_variables")),
    *(f"certificates/{n}" for n in ("certify", "restrict", "certificate", "terms")),
    *("samplers/method", "samplers/nuts", "report/comparison"),
)
PRINTED = {
    "models/declare": 1,  # domain={"age": pmp.Interval(18, 99)}
    "models/private_model": 2,  # privatize, and the names of what makes a private model
    "models/domains": 7,  # a list of two; without numbers; what is no row of counts, four times
    "models/suggestions": 10,  # three domains to fill in, five in words, call, censored model
    "certificates/certify": 2,  # clip, twice
    "certificates/restrict": 2,  # trim by mass, and by a box
    "samplers/nuts": 1,
    "report/comparison": 2,  # the second is what tests/summaries/test_whole_road.py does
}
"""Texts with code, each run by a test of this file."""


def printed_code(root, name: str) -> int:
    """How many texts in a file, docstrings apart, print a call of the package."""
    tree = ast.parse((root / "pymc_private" / f"{name}.py").read_text())
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef)
    documented = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(tree)
        if isinstance(node, holders) and ast.get_docstring(node)
    }
    alone = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    inner = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
    texts = [
        ast.unparse(n)
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant | ast.JoinedStr)
        and id(n) not in inner | alone
        and (isinstance(n, ast.JoinedStr) or isinstance(n.value, str))
        and getattr(n, "value", None) not in documented
    ]
    return sum("pmp." in text for text in texts)


def test_every_message_that_prints_code_is_run_here(root):
    counts = Counter({name: printed_code(root, name) for name in FILES})
    assert {name: count for name, count in counts.items() if count} == PRINTED


def test_the_remaining_printed_calls_run():
    refusal = message_of(lambda: pmp.privatize(line(), records="person", domain=[("x", (0, 1))]))
    (written,) = re.findall(r"domain=(\{.*\})", refusal)
    assert run(written)["value"] == {"age": pmp.Interval(18, 99)}
    refusal = message_of(lambda: pmp.certify(line()))
    (code,) = [c for c in calls_in(refusal) if c.startswith("private = ")]
    assert "domain=" in message_of(lambda: run(code, model=line()))
    filled = code.replace("records=...", 'records="person"')
    filled = filled.replace("domain=...", 'domain={"x": (0, 1), "y": (-3, 3)}')
    assert isinstance(run(filled, model=line())["private"], pmp.PrivateModel)
    for blank in (
        lambda: pmp.Interval(0, ...),
        lambda: pmp.Categories([...]),
        lambda: pmp.Counts(...),
    ):
        (code,) = calls_in(message_of(blank))
        assert run(code)["value"]


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda private: pmp.calibrate(private, eps=1), "did you mean 'epsilon'"),
        (lambda private: pmp.sample(private, eps=1), "did you mean 'epsilon'"),
        (lambda private: pmp.sample(private, domains={}), "did you mean 'domain'"),
    ],
)
def test_unknown_keywords_of_plans_and_draws_name_the_nearest(call, hint):
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=np.zeros(30, int))
    with pytest.raises(TypeError, match=hint):
        call(pmp.privatize(model, records={"y": 0}))
