"""Privacy accounting beside other libraries, where they can say a number at all, and its speed.

Run ``python benchmarks/accounting.py``; dp-accounting, autodp and prv-accountant are optional and
may live in another environment: what is missing is left out. Speeds are ratios within one run.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import partial

from pymc_private.privacy import Guarantee, br_delta, br_eps, compare, gdp_eps, ponnoprat_r

DELTA = 1e-6


def optional(call: Callable[[], float]) -> float:
    """A number of another library, or NaN where it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(call())
    except ImportError:
        return math.nan


def google(kind: str, value: float, n: int) -> float:
    import dp_accounting as library

    relation = library.NeighboringRelation
    if kind == "gdp":
        accountant = library.pld.PLDAccountant()
        event = library.GaussianDpEvent(1 / value)
    else:
        accountant = library.pld.PLDAccountant(neighboring_relation=relation.REPLACE_ONE)
        event = library.RandomizedResponseDpEvent(2 / (1 + math.exp(value)), 2)
    accountant.compose(library.ComposedDpEvent([event] * n))
    return accountant.get_epsilon(DELTA)


def autodp(kind: str, value: float, n: int) -> float:
    from autodp.mechanism_zoo import GaussianMechanism, PureDP_Mechanism
    from autodp.transformer_zoo import Composition

    one = GaussianMechanism(1 / value) if kind == "gdp" else PureDP_Mechanism(value)
    return Composition()([one], [n]).get_approxDP(DELTA)


def prv(kind: str, value: float, n: int) -> float:
    from prv_accountant import PRVAccountant
    from prv_accountant import privacy_random_variables as laws

    one = laws.GaussianMechanism(1 / value) if kind == "gdp" else laws.PureDPMechanism(value)
    made = PRVAccountant(prvs=[one], max_self_compositions=[n], eps_error=1e-3, delta_error=1e-10)
    return made.compute_epsilon(DELTA, [n])[2]


def peers() -> None:
    """Epsilon at delta = 1e-6 by four libraries; the upper ends where a library gives two."""
    print(f"{'':24}{'ours':>10}{'Google':>10}{'autodp':>10}{'prv':>10}")
    for kind, value, n in (("gdp", 0.5, 1), ("gdp", 0.5, 4), ("gdp", 0.05, 400),
                           ("pure", 0.1, 20), ("pure", 0.5, 10), ("pure", 1.0, 5)):  # fmt: skip
        one = Guarantee.gdp_of(value) if kind == "gdp" else Guarantee.pure(value)
        row = [(n * one).epsilon(DELTA)]
        row += [optional(partial(f, kind, value, n)) for f in (google, autodp, prv)]
        print(f"{n:4d} x {kind} {value:<12g}" + "".join(f"{x:10.5f}" for x in row))
    print("\nposterior draws of range .1 (no other library has these):")
    print(compare(0.1))


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def speed() -> None:
    """Seconds, and as a ratio to one conversion of the Gaussian curve in the same run."""
    r = ponnoprat_r(20, 1 / 21, 2, 1)
    tables = Guarantee.dirichlet_of(r, 1 + 76 * r, tables=21)
    unit = min(seconds(lambda d=d: gdp_eps(d, 0.7)) for d in (1e-5, 2e-5, 3e-5))
    work = {
        "br_delta, N = 1,000": lambda: br_delta(5.0, 1000, 0.1),
        "br_delta, N = 20,000": lambda: br_delta(5.0, 20_000, 0.02),
        "br_delta, N = 1,000,000": lambda: br_delta(5.0, 1_000_000, 0.002),
        "br_eps, N = 1,000": lambda: br_eps(3e-6, 1000, 0.1),
        "21 Beta pairs, convolved": lambda: tables.epsilon(1e-5),
    }
    for name, call in work.items():
        taken = seconds(call)
        print(f"{name:28}{taken * 1e3:10.2f} ms {taken / unit:10.1f} x gdp_eps")
    print(f"21 Beta pairs at delta = 1e-5: epsilon = {tables.epsilon(1e-5):.5f}")


if __name__ == "__main__":
    peers()
    print()
    speed()
