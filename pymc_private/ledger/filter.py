"""Fully adaptive privacy filter over several accounting methods (T23).

Each accounting method (pure, zCDP, approximate) has a share of the ledger's delta, fixed when
the ledger is made or by its first charge. A charge is admitted if afterwards at least one
method still proves the budget.

Proof. Totals only grow, so every course of events ends inside some method that still proves
the budget. Collect in S_j those that end inside method j. The mechanism that stops when method
j would be left agrees with the real one on S_j, so P(B and S_j) <= e^epsilon Q(B and S_j) +
delta_j; add over j. Because the shares add up to at most delta, the whole is (epsilon,
delta)-private however the queries were chosen. Taking the smallest epsilon over the methods at
the *full* delta is wrong when later queries depend on earlier answers. The first charge depends on
no answer under this ledger, so given whatever the analyst knew before it, shares that it fixes
are constants.

Also here: the check that a stored charge costs no less than its own guarantee says, which the
hash chain alone cannot show.

References
----------
.. [1] T23. Single accounting methods: R. Rogers, A. Roth, J. Ullman, S. Vadhan (2016), Privacy
   odometers and filters; V. Feldman, T. Zrnic (2021), Individual privacy accounting via a
   Renyi filter; J. Whitehouse, A. Ramdas, R. Rogers, S. Wu (2023), Fully-adaptive composition.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from pymc_private.errors import DomainError, Incompatible, PrivacyWarning, PymcPrivateError
from pymc_private.ledger.entry import METHODS_WITH_SHARE, ChargeCost, Entry, Header, tampering_error
from pymc_private.privacy import renyi
from pymc_private.privacy.accounting import Budget
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding import float_down, float_up
from pymc_private.privacy.validation import exact_cost, exact_decimal

METHODS = ("pure", *METHODS_WITH_SHARE)
COST_SLACK = 1 + Fraction(1, 10**9)
"""Another version of this package may round otherwise."""
ROUNDING_LEFT = Fraction(1, 10**12)
"""A share of the budget that is left by rounding, and buys nothing."""


def canonical_guarantee(guarantee: Guarantee) -> Guarantee:
    """Copy a guarantee through its stored form, so that no override of a subclass counts.

    Raises
    ------
    DomainError
        It is no guarantee.
    """
    if not isinstance(guarantee, Guarantee):
        raise DomainError(
            "A ledger charges guarantees.",
            got=type(guarantee).__name__,
            do="Guarantee.pure(epsilon), for example",
        )
    return Guarantee.from_dict(Guarantee.to_dict(guarantee))


def charge_cost(guarantee: Guarantee, delta: object, header: Header) -> ChargeCost:
    """Fix what a charge adds to each accounting method of a ledger.

    ``delta`` says where on its curve the guarantee enters the method "approximate".

    Raises
    ------
    DomainError
        ``delta`` is needed and missing, or not in [0, 1).
    Incompatible
        Unlike neighbors, or a guarantee that no method can take.
    """
    _check_same_neighbors(guarantee, header)
    shares = header.largest_shares
    pure = exact_cost(guarantee.exact_pure, "pure epsilon")
    rho = exact_cost(guarantee.zcdp, "rho") if "zcdp" in shares else None
    approximate = _approximate_cost(guarantee, pure, delta, shares.get("approximate"))
    if (pure, rho, approximate) == (None, None, None):
        raise Incompatible(
            "No accounting method of this ledger can take this guarantee.",
            got="; ".join(guarantee.assumptions) or "no finite epsilon by any of them",
            allowed="a finite bound on one of: " + ", ".join(("pure", *shares)),
            do="a ledger with delta > 0 and a share of it for the method that fits, or a larger "
            "delta=; what is not private cannot be charged",
        )
    return ChargeCost(pure, rho, approximate)


def _check_same_neighbors(guarantee: Guarantee, header: Header) -> None:
    if guarantee.neighbors != header.neighbors:
        raise Incompatible(
            "The charge and the ledger have different neighbors.",
            got=guarantee.neighbors,
            allowed=header.neighbors,
            do=f"a ledger of its own: Ledger(..., neighbors={guarantee.neighbors!r}); "
            "or a release for the neighbors of this one",
        )


def _approximate_cost(
    guarantee: Guarantee, pure: Fraction | None, delta: object, share: Fraction | None
) -> Budget | None:
    """Fix the one (epsilon_i, delta_i) that enters the method "approximate"."""
    at = None if delta is None else exact_decimal(delta, "delta")
    if at is not None and at >= 1:
        raise DomainError("delta is out of range.", got=delta, allowed="0 <= delta < 1")
    if share is None:
        return None
    if at is None and pure is None:
        if guarantee.exact_epsilon(share) == math.inf:
            return None
        raise DomainError(
            "This guarantee has no pure epsilon, so the ledger needs the delta at which the method "
            "'approximate' takes it.",
            got="delta = None",
            do="charge(..., delta=1e-9), say; the deltas of all charges must fit that method's "
            f"share, at most {float_down(share):.4g}. Or delta=0, which gives it up for good",
        )
    if at is None or at == 0:
        return None if pure is None else Budget(pure, Fraction(0))
    # A guarantee made for the double next to the stated delta may need that one: then that much is
    # charged.
    for delta_i in (at, max(at, Fraction(float(at)))):
        epsilon = exact_cost(guarantee.exact_epsilon(delta_i), "epsilon")
        if epsilon is not None:
            return Budget(epsilon, delta_i)
    return None


@dataclass(frozen=True)
class MethodStatus:
    """What the charges come to under one accounting method.

    Attributes
    ----------
    name : str
        "pure" (epsilons add), "zcdp" (rhos add) or "approximate" (epsilons and deltas add).
    share : Fraction
        The part of the ledger's delta that belongs to this method.
    total : Fraction
        Sum of the charges: epsilon in nats, or rho for "zcdp". Up to ``closed_by`` only.
    spent : Budget or None
        The (epsilon, delta) this method alone proves so far; None where it proves nothing.
    open : bool
        Whether the method still proves the budget.
    closed_by : int or None
        Number of the charge that the method could not take. A closed method stays closed.
    """

    name: str
    share: Fraction
    total: Fraction
    spent: Budget | None
    open: bool
    closed_by: int | None


@dataclass(frozen=True)
class MethodTotal:
    """Sum of the charges under one method, up to the first that it could not take."""

    total: Fraction = Fraction(0)
    closed_by: int | None = None

    def plus(self, cost: Fraction | None, number: int) -> MethodTotal:
        """Add the charge of that number."""
        if self.closed_by is not None:
            return self
        return MethodTotal(self.total, number) if cost is None else MethodTotal(self.total + cost)


@dataclass(frozen=True)
class ChargeTotals:
    """Exact totals of all charges under each method, so that the next charge is quickly added.

    ``first`` is the cost of the first charge, which may fix the shares of delta.
    """

    charges: int = 0
    pure: MethodTotal = MethodTotal()
    zcdp: MethodTotal = MethodTotal()
    approximate: MethodTotal = MethodTotal()
    deltas: Fraction = Fraction(0)
    first: ChargeCost | None = None

    def plus(self, cost: ChargeCost) -> ChargeTotals:
        """Add one charge."""
        number, pair = self.charges + 1, cost.approximate
        return ChargeTotals(
            number,
            self.pure.plus(cost.pure, number),
            self.zcdp.plus(cost.zcdp, number),
            self.approximate.plus(None if pair is None else pair.epsilon, number),
            self.deltas if pair is None else self.deltas + pair.delta,
            cost if self.first is None else self.first,
        )

    def statuses(self, header: Header) -> Iterator[MethodStatus]:
        """Status of each method of a ledger, the cheapest to judge first."""
        shares = delta_shares(header, self.first)
        yield _method_status("pure", self.pure, Fraction(0), _pure_spent, header)
        if "approximate" in shares:
            share, deltas = shares["approximate"], self.deltas
            yield _method_status(
                "approximate", self.approximate, share, lambda e, _: Budget(e, deltas), header
            )
        if "zcdp" in shares:
            yield _method_status("zcdp", self.zcdp, shares["zcdp"], _zcdp_spent, header)

    def proves_budget(self, header: Header) -> bool:
        """Whether some method still proves the budget."""
        return any(status.open for status in self.statuses(header))


@lru_cache(maxsize=256)
def _stated_shares(header: Header, first: ChargeCost | None) -> tuple[tuple[str, Fraction], ...]:
    """Shares of delta by method, those without any left out."""
    if header.shares is not None:
        return header.shares
    delta = header.budget.delta
    halves = tuple((method, delta / 2) for method in METHODS_WITH_SHARE)
    if first is None:
        return halves
    pair = first.approximate
    if pair is None or pair.delta > delta:
        approximate = Fraction(0)
    elif first.zcdp is None:
        approximate = delta
    elif ChargeTotals().plus(first).proves_budget(replace(header, shares=halves)):
        return halves
    else:
        approximate = max(pair.delta, delta / 2)
    found = {"zcdp": delta - approximate, "approximate": approximate}
    return tuple((method, found[method]) for method in METHODS_WITH_SHARE if found[method])


def delta_shares(header: Header, first: ChargeCost | None) -> dict[str, Fraction]:
    """Shares of delta by method: as stated, or as the cost of the first charge fixes them (T23).

    Where none were stated: a method that the first charge closes gets nothing and the other one
    all of delta. Where both can take it, each gets half, unless that charge fits only with more
    for "approximate", which then gets as much as the charge needs. The first charge is made
    before any release of this ledger exists, so the shares depend on no answer.

    Parameters
    ----------
    header : Header
    first : ChargeCost or None
        Of the first charge; None if there is none yet.
    """
    return dict(_stated_shares(header, first))


def sum_costs(costs: Iterable[ChargeCost], start: ChargeTotals | None = None) -> ChargeTotals:
    """Add charges to what was charged before."""
    totals = ChargeTotals() if start is None else start
    for cost in costs:
        totals = totals.plus(cost)
    return totals


def method_statuses(
    costs: Iterable[ChargeCost] | ChargeTotals, header: Header
) -> dict[str, MethodStatus]:
    """Status of each accounting method of a ledger after these charges, by name."""
    totals = costs if isinstance(costs, ChargeTotals) else sum_costs(costs)
    found = {status.name: status for status in totals.statuses(header)}
    return {name: found[name] for name in METHODS if name in found}


def _method_status(
    name: str,
    sums: MethodTotal,
    share: Fraction,
    convert: Callable[[Fraction, Fraction], Budget | None],
    header: Header,
) -> MethodStatus:
    spent = None if sums.closed_by is not None else convert(sums.total, share)
    fits = spent is not None and spent.epsilon <= header.budget.epsilon and spent.delta <= share
    return MethodStatus(name, share, sums.total, spent, fits, sums.closed_by)


def _pure_spent(total: Fraction, share: Fraction) -> Budget:
    """Sum of pure epsilons."""
    return Budget(total, share)


def _zcdp_spent(total: Fraction, share: Fraction) -> Budget | None:
    """Sum of the rhos, converted once, at the method's own share of delta (T4)."""
    if total == 0:
        return Budget(Fraction(0), Fraction(0))
    rho, delta = float_up(total), float_down(share)
    if delta == 0 or math.isinf(rho):
        return None
    # The conversion rounds up; one more double covers the last operation of its own rounding.
    epsilon = math.nextafter(renyi.zcdp_to_eps(rho, delta), math.inf)
    return None if not epsilon < math.inf else Budget(Fraction(max(epsilon, 0.0)), share)


def proves_budget(costs: Iterable[ChargeCost], header: Header) -> bool:
    """Whether some method still proves the budget after these charges."""
    return sum_costs(costs).proves_budget(header)


def smallest_spent(statuses: Mapping[str, MethodStatus], *, only_open: bool) -> Budget | None:
    """Smallest (epsilon, delta) among the methods. Bookkeeping, not a public claim."""
    proofs = (status.spent for status in statuses.values() if status.open or not only_open)
    return min((proof for proof in proofs if proof is not None), default=None)


def remaining(budget: Budget, spent: Budget) -> Budget:
    """Budget less what is spent, in both coordinates; nothing where rounding alone is left."""
    left = budget.epsilon - spent.epsilon
    if 0 < left < budget.epsilon * ROUNDING_LEFT:
        left = left * 0
    return Budget(left, budget.delta - spent.delta)


def check_costs(entries: Iterable[Entry], header: Header) -> None:
    """Check that each charge costs what its own guarantee says, as far as that is quickly known.

    Raises
    ------
    Incompatible
        One was charged for less.
    """
    checked: dict[tuple[Guarantee, ChargeCost], None] = {}
    for entry in entries:
        try:
            guarantee = entry.guarantee
        except PymcPrivateError as error:
            raise tampering_error(f"charge {entry.number} holds no guarantee") from error
        if (guarantee, entry.cost) in checked:
            continue
        checked[guarantee, entry.cost] = None
        if guarantee.neighbors != header.neighbors or not _covers_guarantee(entry.cost, guarantee):
            raise tampering_error(f"charge {entry.number} costs less than its guarantee")


def _covers_guarantee(cost: ChargeCost, guarantee: Guarantee) -> bool:
    pair, pure = cost.approximate, guarantee.exact_pure
    enough = cost.pure is None or pure <= cost.pure * COST_SLACK
    enough = enough and (cost.zcdp is None or guarantee.zcdp <= cost.zcdp * COST_SLACK)
    if pair is None or not enough:
        return enough
    if pair.delta == 0:
        return pure <= pair.epsilon * COST_SLACK
    # A curve may take seconds; sums of stated pairs take no time.
    stated = all(event.kind == "approximate" for event in guarantee.events)
    return not stated or guarantee.exact_epsilon(pair.delta) <= pair.epsilon * COST_SLACK


# ---- units that own several records -----------------------------------------------------------
OWNED = re.compile(r"\bunit owns at most (\d+) records")
"""How guarantees state it, the first words of an assumption."""


def records_of_unit(assumptions: Iterable[str]) -> int:
    """Records that the unit of a guarantee may own, as its assumptions state them; 1 otherwise."""
    found = (OWNED.search(text) for text in assumptions)
    return max((int(one.group(1)) for one in found if one), default=1)


def _records_of_charge(entry: Entry) -> int:
    return records_of_unit(json.loads(entry.line)["guarantee"]["assumptions"])


def warn_of_other_units(entries: Sequence[Entry], guarantee: Guarantee) -> None:
    """Warn if a charge protects other units than the charge before it; called before it is made.

    A release with ``records_per_unit=3`` protects a person with three records, one without a single
    record. Their sum is a bound for a single record, and none for a person (T24).

    Warns
    -----
    PrivacyWarning
        The units, and what the sums hold for. Where warnings are errors nothing is charged.
    """
    if not entries:
        return
    before = _records_of_charge(entries[-1])
    now = records_of_unit(guarantee.assumptions)
    if now != before:
        warnings.warn(
            f"this charge protects units of {now} and the one before it units of {before} records: "
            f"what the ledger adds up holds for {_units(min(now, before))}, not for larger ones. "
            "Declare records_per_unit in every model of these data, or keep ledgers apart",
            PrivacyWarning,
            stacklevel=3,
        )


def units_text(entries: Sequence[Entry]) -> str:
    """What the sums hold for, in words; none where all charges protect single records."""
    found = {_records_of_charge(entry) for entry in entries}
    if found <= {1}:
        return ""
    several = " (charges protect units of different size)" if len(found) > 1 else ""
    return f"sums hold for {_units(min(found))}{several}"


def _units(records: int) -> str:
    return "a single record" if records == 1 else f"a unit of at most {records} records"
