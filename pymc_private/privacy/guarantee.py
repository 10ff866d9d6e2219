"""Guarantees: what a list of mechanisms reveals at most, as a value that composes.

A `Guarantee` is a tuple of privacy events with a neighbor relation, the theorems that prove it and
its assumptions. Its class methods build one from stated parameters or a known mechanism; `+`, `n *`
and `jointly` compose (T23), `group` covers units of several records (T24). (epsilon, delta), zCDP,
GDP and Renyi divergences are read from it, by every accounting method that applies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy import accounting, cards
from pymc_private.privacy.event import PrivacyEvent, event_from_json, event_to_json
from pymc_private.privacy.neighbors import (
    ADD_REMOVE,
    ANY,
    SUBSTITUTE,
    check_neighbors,
    check_record_neighbors,
    describe_neighbors,
    implies_neighbors,
    rescale_to_distance,
)
from pymc_private.privacy.plots import plot_privacy_curves
from pymc_private.privacy.rounding import (
    arb_upper,
    decimal_up,
    format_number,
    real,
    root_up,
    sum_up,
)
from pymc_private.privacy.validation import (
    check_count,
    check_delta,
    check_nonnegative,
    check_open_unit,
    check_positive,
    check_renyi_order,
    double_down,
    double_up,
    exact_decimal,
    exact_fraction,
    exact_stated,
)

DISPLAYED_DELTA = Fraction(1, 10**6)
"""The representation of a guarantee gives epsilon at this delta."""


@dataclass(frozen=True)
class Guarantee:
    """What releasing the output of some mechanisms reveals at most.

    Build one with a class method, whose keywords include neighbors=, theorem= and assumptions=.
    ``a + b`` is sequential composition: the mechanism of b may be chosen after seeing the output of
    a, but its guarantee is fixed before; where that depends on the output too, use a `Ledger`
    (T23). ``n * a`` is n runs planned in advance, and ``jointly(a, b)`` a list declared in advance:
    these keep the exact curves of their parts. A sum has the assumptions of both parts; guarantees
    for different neighbor relations refuse to add. No number read from one is below the truth.

    A float that states epsilon or delta means the decimal it is written as (0.1 is 1/10; for the
    double itself pass its Fraction), and any text is the exact number that a ledger reads in it
    ("0.01", "1/3"). Every other number is the double or fraction it is: noise of scale 0.1 is made
    with the double, and its guarantee is rounded up from there.

    Attributes
    ----------
    events : tuple of PrivacyEvent
        The privacy events: one per mechanism, with its number of runs.
    neighbors : str
        ``"substitute"``, ``"add_remove"``; of the whole data set, ``"any"``; or a distance in a
        metric.
    theorem : str
        What proves the guarantee; empty if nothing is proved.
    assumptions : tuple of str
        Conditions under which it holds.
    planned : bool
        Whether all of it was declared before the first output was seen.

    Examples
    --------
    >>> draws = Guarantee.bounded_range_of(0.1, draws=10)
    >>> round(draws.pure_epsilon, 6), round(draws.epsilon(1e-6), 4), draws.accounting_method(1e-6)
    (1.0, 0.6286, 'exact curve of N draws (T3)')
    >>> round((draws + draws).epsilon(1e-6), 3), (draws + draws).accounting_method(1e-6)
    (1.015, 'zCDP (T4)')
    """

    events: tuple[PrivacyEvent, ...]
    neighbors: str = SUBSTITUTE
    theorem: str = ""
    assumptions: tuple[str, ...] = ()
    planned: bool = True

    def __post_init__(self) -> None:
        check_neighbors(self.neighbors)
        named = (self.assumptions,) if isinstance(self.assumptions, str) else self.assumptions
        _check_types("events", self.events, PrivacyEvent)
        _check_types("assumptions", named, str)
        for name, kind in (("theorem", str), ("planned", bool)):
            _check_types(name, (getattr(self, name),), kind)
        object.__setattr__(self, "events", tuple(self.events))
        object.__setattr__(self, "assumptions", tuple(dict.fromkeys(named)))

    # ---- stated guarantees ------------------------------------------------------------------
    @classmethod
    def pure(cls, epsilon: float, **options: Any) -> Guarantee:
        """Pure epsilon-differential privacy (nats)."""
        return cls._of(
            PrivacyEvent("pure", exact_stated(_parse_exact(epsilon, "epsilon"), "epsilon")),
            **options,
        )

    @classmethod
    def approximate(cls, epsilon: float, delta: float, **options: Any) -> Guarantee:
        """(epsilon, delta)-differential privacy."""
        epsilon, delta = _parse_exact(epsilon, "epsilon"), _parse_exact(delta, "delta")
        kind = "approximate" if check_delta(delta) > 0.0 else "pure"
        return cls._of(
            PrivacyEvent(kind, exact_stated(epsilon, "epsilon"), exact_stated(delta, "delta")),
            **options,
        )

    @classmethod
    def zcdp_of(cls, rho: float, **options: Any) -> Guarantee:
        """Rho-zero-concentrated differential privacy (Bun and Steinke 2016)."""
        return cls._of(PrivacyEvent("zcdp", _parse_up(rho, "rho")), **options)

    @classmethod
    def gdp_of(cls, mu: float, **options: Any) -> Guarantee:
        """Mu-Gaussian differential privacy (Dong, Roth and Su 2022)."""
        return cls._of(PrivacyEvent("gdp", _parse_up(mu, "mu")), **options)

    @classmethod
    def rdp_of(cls, order: float, rdp: float, **options: Any) -> Guarantee:
        """Renyi divergence of at most `rdp` nats at one order > 1 (Mironov 2017)."""
        order, rdp = _parse_exact(order, "order"), _parse_exact(rdp, "the divergence")
        check_renyi_order(order)  # what holds at an order holds below it
        return cls._of(
            PrivacyEvent("rdp", double_up(rdp, "the divergence"), shape=order), **options
        )

    @classmethod
    def none(cls, reason: str, **options: Any) -> Guarantee:
        """No guarantee at all, and the reason: every epsilon is infinite."""
        return cls._of(PrivacyEvent("none", math.inf), **({"assumptions": (reason,)} | options))

    # ---- mechanisms of this package ---------------------------------------------------------
    @classmethod
    def bounded_range_of(cls, R: float, draws: int = 1, **options: Any) -> Guarantee:
        """`draws` exact draws from one posterior whose record range is R nats (T1-T3).

        The number of draws is fixed in advance. Accounting: pure N R, zCDP N min(R^2/8, tight), and
        the exact curve of T3.
        """
        return cls._of(PrivacyEvent("bounded_range", _parse_up(R, "R"), 0.0, draws), **options)

    @classmethod
    def posterior_of(cls, R: float, mu: float, draws: int = 1, **options: Any) -> Guarantee:
        """`draws` exact draws of which a range R (T1), a mu (T7), or both are proved.

        What is not proved is infinite. Accounting: as in `bounded_range_of`, and sqrt(N) mu-GDP.
        """
        wide, up = (double_up(_parse_exact(v, n), n) for v, n in ((R, "R"), (mu, "mu")))
        if math.isinf(up):
            return cls.bounded_range_of(R, draws, **options)
        if math.isinf(wide):
            return cls._of(PrivacyEvent("gdp", up, 0.0, draws), **options)
        return cls._of(PrivacyEvent("bounded_range", wide, 0.0, draws, mu=up), **options)

    @classmethod
    def dirichlet_of(
        cls, r: float | Fraction, alpha: float | Fraction, tables: int = 1, draws: int = 1, *,
        beta: float | Fraction | None = None, **options: Any,
    ) -> Guarantee:  # fmt: skip
        """Draws from Dir(r f + alpha) of `tables` families of tables (T9-T11).

        Under substitution each family costs one Beta pair, whatever its number of tables; under
        addition or removal one Gamma pair. alpha is the least prior parameter of any cell; a public
        lower bound b on every count adds r b to it. There is no pure epsilon and no zCDP.

        beta, at least alpha, is the second least prior parameter, which makes one family under
        substitution cheaper: draws then cost the larger of the pair's two directions. Of several
        families each may have its own direction, so there alpha is used for both.
        """
        count = check_count(tables, "the number of tables") * check_count(
            draws, "the number of draws"
        )
        added = check_record_neighbors(options.get("neighbors", SUBSTITUTE)) == ADD_REMOVE
        r, alpha = _parse_exact(r, "r"), _parse_exact(alpha, "alpha")
        beta = None if beta is None else _parse_exact(beta, "beta")
        check_positive(r=r, alpha=alpha, **({} if beta is None else {"beta": beta}))
        check_positive(alpha=double_down(alpha))  # no double is as small
        if beta is not None and beta < alpha:
            raise DomainError(
                "alpha is the least prior parameter, and beta the second least",
                got=f"alpha={float(alpha):g}, beta={float(beta):g}",
                allowed="alpha <= beta",
            )
        other = 0.0 if added or tables != 1 or beta is None else double_down(beta)
        kind = "gamma_pair" if added else "beta_pair"
        pair = PrivacyEvent(kind, double_up(r, "r"), 0.0, count, double_down(alpha), other)
        return cls._of(pair, **options)

    @classmethod
    def gamma_of(
        cls, r: float | Fraction, alpha: float | Fraction, draws: int = 1, **options: Any
    ) -> Guarantee:
        """Draws from one Gamma posterior whose shape a record moves by at most r (T13).

        alpha is the prior's shape; the rate is the same whatever the records are. The worst pair is
        Gamma(alpha + r) against Gamma(alpha), in both directions. All draws have one direction in
        common; other releases may have the other: `+`, `*` and `jointly` allow for it. There is no
        pure epsilon.
        """
        check_record_neighbors(options.get("neighbors", SUBSTITUTE))
        r, alpha = _parse_exact(r, "r"), _parse_exact(alpha, "alpha")
        check_positive(alpha=alpha)
        return cls._of(
            PrivacyEvent("gamma_shift", double_up(r, "r"), 0.0, draws, double_down(alpha)),
            **options,
        )

    @classmethod
    def mollifier_of(
        cls, epsilon: float, draws: int = 1, *, top: float | None = None, **options: Any
    ) -> Guarantee:
        """Draws from a distribution within e^(+-epsilon/2) of a public one (T15b).

        It holds for any two data sets, and so for groups of any size. With `top`, log Q/Q0 lies in
        [top - epsilon, top]: see `moll_delta_k`.
        """
        width = _parse_up(epsilon, "epsilon")
        if top is None:
            return cls._of(PrivacyEvent("mollifier", width, 0.0, draws), **options)
        return cls._of(PrivacyEvent("window", width, 0.0, draws, top), **options)

    # ---- mechanisms of others ---------------------------------------------------------------
    @classmethod
    def laplace_of(cls, sensitivity: float, scale: float, **options: Any) -> Guarantee:
        """(Discrete) Laplace noise: epsilon = sensitivity / scale, l1 (Dwork et al. 2006)."""
        return cls._of(PrivacyEvent("pure", _exact_ratio(sensitivity, scale)), **options)

    @classmethod
    def gaussian_of(cls, sensitivity: float, sd: float, **options: Any) -> Guarantee:
        """Gaussian noise: (sensitivity / sd)-GDP, l2 (Dong, Roth and Su 2022)."""
        return cls._of(PrivacyEvent("gdp", _exact_ratio(sensitivity, sd)), **options)

    @classmethod
    def discrete_gaussian_of(cls, sensitivity: float, sigma: float, **options: Any) -> Guarantee:
        """Discrete Gaussian noise: zCDP of rho = sensitivity^2 / (2 sigma^2), l2.

        Canonne, Kamath and Steinke (2020), Theorem 4.
        """
        return cls._of(PrivacyEvent("zcdp", _exact_ratio(sensitivity, sigma) ** 2 / 2), **options)

    @classmethod
    def exponential_mechanism_of(cls, epsilon: float, **options: Any) -> Guarantee:
        """Exponential mechanism exp(epsilon u / (2 sensitivity)), of range epsilon.

        Durfee and Rogers (2019).
        """
        return cls._of(PrivacyEvent("bounded_range", _parse_up(epsilon, "epsilon")), **options)

    @classmethod
    def randomized_response_of(
        cls, truth: float | Fraction, levels: int = 2, **options: Any
    ) -> Guarantee:
        """Randomized response: the true level with probability `truth`, else uniformly another."""
        k = check_count(levels, "the number of levels")
        truth = _parse_exact(truth, "truth")
        check_open_unit(truth=truth)
        if k < 2 or (truth < 1.0 / k and truth < Fraction(1, k)):  # 1/3 is below the third
            raise DomainError(
                "truth is a probability from 1/levels on, of two levels or more",
                got=f"truth={truth}, levels={levels}",
                allowed="1/levels <= truth < 1",
            )
        odds = exact_fraction(truth) * (k - 1) / (1 - exact_fraction(truth))
        return cls._of(PrivacyEvent("pure", arb_upper(lambda: abs(real(odds).log()))), **options)

    @classmethod
    def noisy_counts_of(
        cls, tables: int, noise: float, distribution: str = "discrete_gaussian", **options: Any
    ) -> Guarantee:
        """All counts of some tables with independent noise in every cell (T26).

        A substituted record moves one unit between two cells of each table, an added one changes
        one cell. Discrete Gaussian noise has the exact curve of its cells, and their zCDP.

        Parameters
        ----------
        tables : int
            Tables that count every record once each; K + 1 for naive Bayes with K features.
        noise : float
            Standard deviation, or scale of the (discrete) Laplace distribution.
        distribution : {"discrete_gaussian", "gaussian", "laplace"}
        """
        each = (
            1 if check_record_neighbors(options.get("neighbors", SUBSTITUTE)) == ADD_REMOVE else 2
        )
        cells = each * check_count(tables, "the number of tables")
        if not isinstance(distribution, str):
            raise DomainError(
                "a distribution of noise has a name",
                got=type(distribution).__name__,
                allowed="'discrete_gaussian', 'gaussian', 'laplace'",
            )
        if distribution == "laplace":
            return cls.laplace_of(cells, noise, **options)
        ratio = _exact_ratio(1, noise) ** 2
        if distribution == "gaussian":
            return cls._of(PrivacyEvent("gdp", root_up(cells * ratio)), **options)
        if distribution == "discrete_gaussian":
            cell = PrivacyEvent("discrete_gaussian", root_up(ratio), count=cells)
            return cls._of(cell, **options)
        raise DomainError(
            "distribution= is not known",
            got=repr(distribution),
            allowed="discrete_gaussian, gaussian, laplace",
        )

    @classmethod
    def _of(cls, *events: PrivacyEvent, **options: Any) -> Guarantee:
        """Guarantee of events; options are neighbors=, theorem= and assumptions=."""
        return cls(events, **options)

    # ---- epsilon, delta and divergences -----------------------------------------------------
    @property
    def pure_epsilon(self) -> float:
        """Pure epsilon in nats, rounded up; inf where there is none."""
        return decimal_up(self.exact_pure)

    @property
    def exact_pure(self) -> Fraction | float:
        """Pure epsilon in nats before it is rounded: a Fraction, or inf."""
        return accounting.total_pure_epsilon(self.events)

    @property
    def zcdp(self) -> float:
        """Rho of zero-concentrated differential privacy; inf where there is none."""
        return sum_up(event.zcdp for event in self.events)

    @property
    def gdp(self) -> float:
        """Mu of Gaussian differential privacy; inf unless every event is Gaussian."""
        return accounting.total_mu(self.events)

    def rdp(self, order: float) -> float:
        """Renyi divergence of an order >= 1, nats, rounded up; inf where there is none."""
        check_renyi_order(order)
        at = math.inf if order == math.inf else order  # a Decimal may be infinite, too
        return sum_up(event.renyi(at) for event in self.events)

    def epsilon(self, delta: float = 0.0) -> float:
        """Smallest epsilon (nats) that any method proves at `delta` in [0, 1), rounded up."""
        return min(self._epsilons(delta).values())

    def accounting_method(self, delta: float = 0.0) -> str:
        """Name of the accounting method that proves `epsilon(delta)`."""
        found = self._epsilons(delta)
        return min(found, key=lambda name: found[name])

    def exact_epsilon(self, delta: Fraction | float = 0.0) -> Fraction | float:
        """`epsilon(delta)` before it is rounded: stated numbers add up exactly."""
        check_delta(delta)
        at = exact_stated(delta, "delta")
        return min(accounting.epsilon_by_method(self.events, at, planned=self.planned).values())

    def _epsilons(self, delta: float | Fraction) -> dict[str, float]:
        check_delta(delta)
        at = exact_stated(delta, "delta")
        found = accounting.epsilon_by_method(self.events, at, planned=self.planned)
        return {name: decimal_up(epsilon) for name, epsilon in found.items()}

    def delta(self, epsilon: float) -> float:
        """Smallest delta that any method proves at `epsilon` (nats), rounded up."""
        return min(self.delta_by_method(epsilon).values())

    def delta_by_method(self, epsilon: float) -> dict[str, float]:
        """Delta at `epsilon` (nats) by each accounting method that applies; rounded up."""
        at = exact_stated(epsilon, "epsilon")
        return accounting.delta_by_method(self.events, at, planned=self.planned)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Plot delta against epsilon by every accounting method: `plots.plot_privacy_curves`."""
        return plot_privacy_curves(self, ax, **options)

    # ---- composition ------------------------------------------------------------------------
    def __add__(self, other: Guarantee) -> Guarantee:
        return self._with(other, planned=False) if isinstance(other, Guarantee) else NotImplemented

    def _with(self, other: Guarantee, *, planned: bool) -> Guarantee:
        if self.neighbors != other.neighbors:
            raise Incompatible(
                "guarantees about different neighbors do not add",
                got=f"{self.neighbors} and {other.neighbors}",
                allowed="one neighbor relation",
                do="state both guarantees for the same relation; one about any two data sets holds "
                "for every relation: .restated(neighbors)",
            )
        theorem = "; ".join(dict.fromkeys(t for t in (self.theorem, other.theorem) if t))
        united = (*self.assumptions, *other.assumptions)
        events = (*self.events, *other.events)
        planned = planned or not (self.events and other.events)
        planned = planned and self.planned and other.planned
        return Guarantee(events, self.neighbors, theorem, united, planned)

    def __mul__(self, count: int) -> Guarantee:
        n = check_count(count, "the number of runs")
        return replace(self, events=tuple(event.runs(n) for event in self.events))

    __rmul__ = __mul__

    @classmethod
    def jointly(cls, *parts: Guarantee) -> Guarantee:
        """Releases all of which were declared before the first was made.

        Nothing about a later one may depend on the output of an earlier one. Then the losses of
        all dominating pairs convolve (T23), which proves a smaller epsilon than ``a + b``.
        """
        total = cls(()) if not parts else parts[0]
        if not all(isinstance(part, Guarantee) for part in parts):
            raise DomainError("parts are guarantees", got=repr(parts)[:80], allowed="Guarantee")
        for part in parts[1:]:
            total = total._with(part, planned=True)
        return total

    def group(self, k: int) -> Guarantee:
        """Guarantee of the same releases for units that own up to k records (T24).

        epsilon -> k epsilon, R -> k R, mu -> k mu, rho -> k^2 rho,
        (e, d) -> (k e, d (e^(k e) - 1) / (e^e - 1)).
        """
        if check_count(k, "the number of records of a unit") == 1 or self.neighbors == ANY:
            return self
        united = (*self.assumptions, f"a unit owns at most {k} records")
        events = tuple(event.group(int(k)) for event in self.events)
        return replace(self, events=events, assumptions=united)

    def restated(self, neighbors: str) -> Guarantee:
        """Same guarantee for a narrower neighbor relation, which this one implies.

        Raises
        ------
        Incompatible
            The relation of this guarantee does not imply the other.
        """
        if not implies_neighbors(self.neighbors, check_neighbors(neighbors)):
            raise Incompatible(
                "a guarantee about one record says nothing of another relation",
                got=f"{self.neighbors}, to be restated for {neighbors}",
                allowed=f"a guarantee for {ANY}",
            )
        return replace(self, neighbors=neighbors)

    def at(self, distance: float | Fraction) -> Guarantee:
        """Guarantee for data sets this far apart: see `neighbors.rescale_to_distance`."""
        events, relation = rescale_to_distance(self.events, self.neighbors, distance)
        return replace(self, events=events, neighbors=relation)

    def within(self, tv: float, runs: int = 1) -> Guarantee:
        """Guarantee of samplers that are only within `tv` of the distributions accounted for (T18).

        delta grows by (1 + e^epsilon) (1 - (1 - tv)^runs); no pure epsilon is left. That they are
        so close is an assumption unless a theorem says so.
        """
        far = PrivacyEvent("distance", double_up(tv, "the total variation"), count=runs)
        near = (
            f"each run draws within total variation {format_number(far.value, 6)} of the "
            "distribution that is accounted for"
        )
        united = (*self.assumptions, near)
        return replace(self, events=(*self.events, far), assumptions=united)

    # ---- storage and display ----------------------------------------------------------------
    def to_dict(self) -> dict[str, Any]:
        """Guarantee in plain JSON types; `from_dict` restores it exactly."""
        return {
            "events": [event_to_json(event) for event in self.events],
            "planned": self.planned,
            "neighbors": self.neighbors,
            "theorem": self.theorem,
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Guarantee:
        """Restore what `to_dict` gave.

        Raises
        ------
        Incompatible
            This is no stored guarantee.
        """
        if not isinstance(record, Mapping):
            raise Incompatible(
                "this is not a stored guarantee",
                got=type(record).__name__,
                allowed="what Guarantee.to_dict gave",
            )
        try:
            events = tuple(event_from_json(row) for row in record["events"])
            named = record["assumptions"]
            if isinstance(named, str):
                raise TypeError(named)
            words = (record["neighbors"], record["theorem"], tuple(named))
            return cls(events, *words, record["planned"])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise Incompatible(
                "this is not a stored guarantee",
                got="other entries",
                allowed="what Guarantee.to_dict gave",
            ) from error

    def __repr__(self) -> str:
        if any(event.kind == "none" for event in self.events):
            return f"Guarantee: NOT PRIVATE ({'; '.join(self.assumptions)})"
        rows = [
            f"Guarantee: {', '.join(map(str, self.events)) or 'nothing is released'}",
            f"  protects: {describe_neighbors(self.neighbors)}",
        ]
        if math.isfinite(self.pure_epsilon):
            rows.append(f"  epsilon = {format_number(self.pure_epsilon, 6)} (pure)")
        rows += [*self._approximate_row(), f"  proved by: {self.theorem or 'nothing stated'}"]
        return "\n".join(rows + [f"  assuming: {assumption}" for assumption in self.assumptions])

    def _approximate_row(self) -> list[str]:
        """Line with epsilon at a small delta: the one already fixed, where that is larger."""
        fixed = accounting.split_fixed_events(self.events)[2]
        if fixed >= 1:
            return ["  no epsilon: the deltas sum to 1 or more"]
        shown = max(DISPLAYED_DELTA, fixed)
        found = self._epsilons(shown)
        if not math.isfinite(min(found.values())) and fixed + DISPLAYED_DELTA < 1:
            shown = fixed + DISPLAYED_DELTA  # what has no pure epsilon needs some for itself
            found = self._epsilons(shown)
        name = min(found, key=lambda method: found[method])
        if name == accounting.PURE or not math.isfinite(found[name]):
            return []
        at = f"{format_number(found[name], 6)} at delta = {format_number(shown, 6)}"
        return [f"  epsilon = {at}; {name}"]

    def _repr_html_(self) -> str:
        return cards.html_text(repr(self))


def _parse_exact(value: Any, name: str) -> Any:
    """Text as the exact number it writes, as ledgers read it; anything else unchanged."""
    return exact_decimal(value, name) if isinstance(value, str) else value


def _parse_up(value: Any, name: str) -> float:
    """Number or text >= 0 as a double, rounded up."""
    return double_up(_parse_exact(value, name), name)


def _exact_ratio(sensitivity: float, noise: float) -> Fraction:
    """Sensitivity over noise, exact."""
    sensitivity, noise = _parse_exact(sensitivity, "sensitivity"), _parse_exact(noise, "noise")
    check_positive(noise=noise)
    check_nonnegative(sensitivity=sensitivity)
    if sensitivity == math.inf:
        raise DomainError(
            "the sensitivity is finite",
            got=sensitivity,
            allowed="0 <= sensitivity < inf",
            do="bound what one record can change, for example by clipping",
        )
    return exact_fraction(sensitivity) / exact_fraction(noise)


def _check_types(name: str, parts: Iterable[Any], kind: type) -> None:
    if not all(isinstance(part, kind) for part in parts):
        raise DomainError(
            f"{name}= holds something of another type",
            got=repr(parts)[:80],
            allowed=f"of type {kind.__name__}",
        )
