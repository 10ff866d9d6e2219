"""To dp-accounting's events and back; where both libraries can say a number, they agree."""

from __future__ import annotations

import math
import warnings

import pytest

from pymc_private.errors import Unsupported
from pymc_private.privacy import Guarantee
from pymc_private.privacy.dp_accounting import from_event, to_event

library = pytest.importorskip("dp_accounting", reason="needs the extra pld")


def theirs(event, delta: float, **relation) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountant = library.pld.PLDAccountant(**relation)
        accountant.compose(event)
        return accountant.get_epsilon(delta)


@pytest.mark.thin(8)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
def test_both_libraries_agree_on_gaussians(mu, delta):
    ours = Guarantee.jointly(*[Guarantee.gdp_of(mu, neighbors="add_remove")] * 3)
    other = theirs(to_event(ours), delta)
    assert other * (1 - 1e-3) <= ours.epsilon(delta) <= other * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_both_convolutions_agree_on_laplace_noise(delta):
    """Their own grid of the Laplace law lies below our pure promise of it."""
    event = library.SelfComposedDpEvent(library.LaplaceDpEvent(10.0), 20)
    read = from_event(event, neighbors="add_remove")
    assert theirs(event, delta) <= read.epsilon(delta) <= 2.0


def test_both_convolutions_agree_on_randomized_response():
    noise = 2 / (1 + math.exp(0.1))
    # A self-composed event would do, but version 0.6 forgets its count for this mechanism.
    event = library.ComposedDpEvent([library.RandomizedResponseDpEvent(noise, 2)] * 20)
    relation = library.NeighboringRelation.REPLACE_ONE
    other = theirs(event, 1e-6, neighboring_relation=relation)
    self_composed = library.SelfComposedDpEvent(library.RandomizedResponseDpEvent(noise, 2), 20)
    ours = from_event(self_composed).epsilon(1e-6)
    assert ours == pytest.approx(other, rel=2e-3)


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "one",
    [
        Guarantee.pure(0.5),
        Guarantee.bounded_range_of(0.2, 5),
        Guarantee.mollifier_of(0.3, 4),
        20 * Guarantee.pure(0.1) + Guarantee.gdp_of(0.2),
    ],
)
def test_what_goes_out_is_never_less(one):
    for delta in (1e-3, 1e-6):
        assert theirs(to_event(one), delta) >= one.epsilon(delta) * (1 - 1e-6)


@pytest.mark.parametrize(
    "one",
    [
        Guarantee.gdp_of(0.25, neighbors="add_remove"),
        Guarantee.zcdp_of(0.02, neighbors="add_remove"),
        3 * Guarantee.gdp_of(2.0, neighbors="add_remove")
        + Guarantee.zcdp_of(0.5, neighbors="add_remove"),
    ],
)
def test_there_and_back(one):
    back = from_event(to_event(one), neighbors="add_remove")
    assert back.neighbors == "add_remove"
    assert back.epsilon(1e-6) == pytest.approx(one.epsilon(1e-6), rel=1e-9)


def test_events_of_others():
    laplace = library.LaplaceDpEvent(4.0)
    assert from_event(laplace, neighbors="add_remove").pure_epsilon == 0.25
    assert from_event(laplace).pure_epsilon == 0.5  # a substituted record counts twice
    response = library.RandomizedResponseDpEvent(0.5, 4)  # the truth with 1 - .5 * 3 / 4
    assert from_event(response).pure_epsilon == pytest.approx(math.log(5), rel=1e-12)
    assert from_event(library.NoOpDpEvent()).pure_epsilon == 0.0
    assert from_event(library.NonPrivateDpEvent()).epsilon(0.5) == math.inf
    assert from_event(library.GaussianDpEvent(0.0)).epsilon(0.5) == math.inf
    with pytest.raises(Unsupported, match="no equivalent here"):
        from_event(library.PoissonSampledDpEvent(0.1, library.GaussianDpEvent(1.0)))
    with pytest.raises(Unsupported):
        from_event(library.ZCDpEvent(0.1, xi=0.5))


@pytest.mark.parametrize(
    "one",
    [Guarantee.approximate(0.1, 1e-6), Guarantee.dirichlet_of(0.5, 2.0), Guarantee.rdp_of(8, 0.1)],
)
def test_what_has_no_event_is_refused(one):
    with pytest.raises(Unsupported, match="no event"):
        to_event(one)


def test_no_promise_stays_none():
    assert theirs(to_event(Guarantee.none("a seed")), 1e-6) == math.inf
