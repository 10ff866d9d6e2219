"""Support of an outcome, read from observed variables and domains."""

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import Unsupported
from pymc_private.summaries.density.outcome_support import outcome_support

N = 30
RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 1.0, N)
TRIALS = RNG.integers(1, 9, N)
HALF = (X > 0.5).astype(int)
BOUNDS = {"x": (0, 1), "y": (0, 20)}


def support_of(likelihood, y, domain=None, public=()):
    """The support of `y ~ likelihood(x, slope)`."""
    with pm.Model(coords={"row": range(N)}) as model:
        x = pm.Data("x", X, dims="row")
        slope = pm.Normal("slope")
        likelihood(x, slope, {"observed": pm.Data("seen", y, dims="row"), "dims": "row"})
    private = pmp.privatize(model, records="row", domain=domain or BOUNDS, public=public)
    outcome = next(s for s in private.sources if "y" in (s.name, *s.aliases))
    return outcome_support(private, outcome)


def test_ends_of_continuous_families():
    families = {
        (-np.inf, np.inf): lambda x, b, o: pm.Normal("y", b * x, 1.0, **o),
        (0.0, np.inf): lambda x, b, o: pm.Gamma("y", 2.0, pm.math.exp(b * x), **o),
        (0.0, 1.0): lambda x, b, o: pm.Beta("y", mu=pm.math.sigmoid(b * x), nu=5.0, **o),
    }
    for ends, family in families.items():
        support = support_of(family, X, {"x": (0, 1), "y": (0.01, 0.99)})
        assert (support.kind, support.ends, support.atoms) == ("continuous", ends, ())
        assert (support.lower, support.upper) == ends
        assert support.domain == (0.01, 0.99)


def test_listed_and_whole_outcomes():
    binary = support_of(lambda x, b, o: pm.Bernoulli("y", logit_p=b * x, **o), HALF, {"x": (0, 1)})
    assert (binary.kind, binary.levels) == ("finite", (0.0, 1.0))
    ordinal = support_of(
        lambda x, b, o: pm.OrderedLogistic("y", eta=b * x, cutpoints=[-1.0, 1.0], **o),
        HALF,
        {"x": (0, 1)},
    )
    assert ordinal.levels == (0.0, 1.0, 2.0)
    count = support_of(lambda x, b, o: pm.Poisson("y", pm.math.exp(b * x), **o), HALF)
    assert (count.kind, count.lower, count.upper, count.atoms) == ("integer", 0.0, np.inf, (0.0,))
    many = support_of(
        lambda x, b, o: pm.Binomial("y", n=500, logit_p=b * x, **o), HALF, {"x": (0, 1)}
    )
    assert (many.kind, many.atoms) == ("integer", (0.0, 500.0))


def test_mixtures_hurdles_and_zero_inflation():
    mixed = support_of(
        lambda x, b, o: pm.NormalMixture("y", [0.5, 0.5], pm.math.stack([b, -b]), 1.0, **o), X
    )
    assert (mixed.kind, mixed.modes, mixed.atoms) == ("continuous", 2, ())
    hurdle = support_of(lambda x, b, o: pm.HurdleGamma("y", 0.5, 2.0, pm.math.exp(b * x), **o), X)
    assert (hurdle.kind, hurdle.atoms, hurdle.ends) == ("continuous", (0.0,), (0.0, np.inf))
    inflated = support_of(
        lambda x, b, o: pm.ZeroInflatedPoisson("y", 0.5, pm.math.exp(b * x), **o), HALF
    )
    assert (inflated.kind, inflated.atoms, inflated.modes) == ("integer", (0.0,), 1)


def censored(upper):
    def likelihood(x, slope, options):
        bound = pm.Data("end", upper, dims="row") if np.ndim(upper) else upper
        law = pm.Weibull.dist(2.0, pm.math.exp(slope * x))
        pm.Censored("y", law, lower=None, upper=bound, **options)

    return likelihood


def test_censoring_at_one_bound_and_truncation():
    support = support_of(censored(0.8), np.minimum(X, 0.8))
    assert (support.atoms, support.upper, support.ends) == ((0.8,), 0.8, (0.0, np.inf))
    cut = support_of(
        lambda x, b, o: pm.Truncated(
            "y", pm.Gamma.dist(2.0, pm.math.exp(b * x)), lower=None, upper=3.0, **o
        ),
        X,
    )
    assert (cut.atoms, cut.upper, cut.ends) == ((), 3.0, (0.0, np.inf))


@pytest.mark.parametrize("is_private", [True, False])
def test_censoring_at_a_bound_of_each_record(is_private):
    ends = X + 0.5
    if is_private:
        support = support_of(censored(ends), X, BOUNDS | {"end": (0, 2)})
    else:
        support = support_of(censored(ends), X, public=["end"])
    (name,) = support.row_upper.inputs
    rows = {name: np.array([0.7, 1.2])}
    place = support.at(2, rows)
    assert np.array_equal(place.upper, [[0.7], [1.2]])
    assert np.array_equal(place.atoms, [[0.7], [1.2]])
    with pytest.raises(ValueError, match="entries are needed"):
        support.at(2)


def test_private_bounds_are_described_without_reading_them():
    with pm.Model(coords={"row": range(N)}) as model:
        x = pm.Data("x", X, dims="row")
        censored(X + 0.5)(x, pm.Normal("slope"), {"observed": X, "dims": "row"})
    private = pmp.privatize(model, records="row", domain=BOUNDS | {"end": (0, 2)})

    def reads(*_, **__):
        raise AssertionError("private data were read")

    for source in private.sources:
        source.variable.get_value = reads
    outcome = next(s for s in private.sources if s.name == "y")
    assert outcome_support(private, outcome).differs_by_row


def test_trials_of_each_record_bound_a_binomial_outcome():
    def likelihood(x, slope, options):
        trials = pm.Data("trials", TRIALS, dims="row")
        pm.Binomial("y", n=trials, logit_p=slope * x, **options)

    support = support_of(likelihood, HALF, public=["trials"])
    (name,) = support.row_upper.inputs
    place = support.at(3, {name: np.array([4, 7, 1])})
    assert np.array_equal(place.atoms, [[0, 4], [0, 7], [0, 1]])


def test_a_density_that_the_user_wrote_may_have_two_peaks():
    def likelihood(x, slope, options):
        def log_density(y, mean):
            near, far = (pm.logp(pm.Normal.dist(c * mean, 0.5), y) for c in (1.0, -1.0))
            return pm.math.logaddexp(near, far) - np.log(2.0)

        pm.CustomDist("y", slope * x, logp=log_density, **options)

    support = support_of(likelihood, X)
    assert (support.kind, support.modes, support.ends) == ("continuous", 2, (-np.inf, np.inf))


def test_a_support_that_moves_with_parameters_is_refused():
    with pytest.raises(Unsupported, match="depends on parameters"):
        support_of(lambda x, b, o: pm.Uniform("y", 0.0, 1.0 + b**2, **o), X)
