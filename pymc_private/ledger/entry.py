"""Records of a ledger: canonical JSON lines and the hash chain.

A ledger consists of a header (budget, shares, neighbors, data) and of charges, each stored as
one line of canonical JSON with exact rationals (`privacy.exact_numbers`). The hash of a charge
covers the hash before it and its own line; the chain starts from the header, so it covers the
budget too.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy.exact_numbers import (
    Budget,
    checked_text,
    exact_decimal,
    parse_rational,
    rational_text,
)
from pymc_private.privacy.neighbors import check_neighbors

if TYPE_CHECKING:
    from pymc_private.privacy.guarantee import Guarantee

METHODS_WITH_SHARE = (
    "zcdp",
    "approximate",
)  # the roads that need a share of delta; pure needs none
LONGEST_KEY = 4000


@dataclass(frozen=True)
class ChargeCost:
    """What one charge adds to each road; None where it cannot enter.

    Attributes
    ----------
    pure : Fraction or None
        Pure epsilon, nats.
    zcdp : Fraction or None
        rho of zero-concentrated differential privacy.
    approximate : Budget or None
        The one pair (epsilon_i, delta_i) fixed when the charge was made.
    """

    pure: Fraction | None = None
    zcdp: Fraction | None = None
    approximate: Budget | None = None


@dataclass(frozen=True)
class Header:
    """What is fixed when a ledger is made: budget, shares, neighbors, the data in words.

    ``token`` is random: two ledgers of one budget do not share a chain.
    """

    budget: Budget
    shares: tuple[tuple[str, Fraction], ...]
    neighbors: str
    data: str
    day: str
    token: str

    def terms(self) -> dict[str, Any]:
        """Give what must agree when the ledger is opened again."""
        return {
            "epsilon": rational_text(self.budget.epsilon),
            "delta": rational_text(self.budget.delta),
            "shares": {road: rational_text(share) for road, share in self.shares},
            "neighbors": self.neighbors,
            "data": self.data,
        }

    def to_json(self) -> str:
        """Write the header as canonical JSON."""
        return canonical_json(self.terms() | {"day": self.day, "token": self.token})

    @classmethod
    def from_json(cls, text: str) -> Header:
        """Read :meth:`to_json` back."""
        said = json.loads(text)
        shares = {road: parse_rational(share) for road, share in said["shares"].items()}
        words = [said[word] for word in ("neighbors", "data", "day", "token")]
        epsilon, delta = parse_rational(said["epsilon"]), parse_rational(said["delta"])
        sound = epsilon > 0 and 0 <= delta < 1 and sum(shares.values()) <= delta
        sound = (
            sound
            and set(shares) <= set(METHODS_WITH_SHARE)
            and min(shares.values(), default=0) >= 0
        )
        if not sound or not all(isinstance(word, str) for word in words):
            raise ValueError("no header that a ledger writes")
        check_neighbors(said["neighbors"])
        return cls(
            Budget(epsilon, delta),
            tuple((road, shares[road]) for road in METHODS_WITH_SHARE if road in shares),
            *words,
        )


@dataclass(frozen=True)
class Entry:
    """One charge, as written in the ledger.

    Attributes
    ----------
    number : int
        Place in the ledger, from 1.
    label, day : str
        What the charge was for, and the day it was made (UTC; nothing finer is kept).
    name, key : str or None
        The name of the release and the fingerprint of the plan that draws it.
    cost : Cost
        What the charge added to each road.
    line : str
        The charge as JSON, as it is hashed; :attr:`guarantee` reads its part.
    head : str
        The chain's hash up to and including this charge.
    completed : bool
        Whether the ledger keeps the release this charge paid for.
    released : bool
        Whether a release is on record at all. A charge without one is spent all the same: its draw
        was interrupted, still runs, or nobody told the ledger.
    """

    number: int
    label: str
    day: str
    name: str | None
    key: str | None
    cost: ChargeCost
    line: str
    head: str
    completed: bool = False
    released: bool = False

    @property
    def guarantee(self) -> Guarantee:
        """The whole guarantee of the charge, with theorem and assumptions."""
        from pymc_private.privacy.guarantee import Guarantee

        return Guarantee.from_dict(json.loads(self.line)["guarantee"])


def make_header(
    epsilon: object,
    delta: object,
    neighbors: str,
    shares: Mapping[str, object] | None,
    data: str,
    token: str,
) -> Header:
    """Check a budget and fix the shares of its roads (half of delta each if none are given).

    Raises
    ------
    DomainError
        epsilon is not above 0, delta not in [0, 1), the shares add up to more than delta, or
        there are no such neighbors.
    """
    budget = Budget(exact_decimal(epsilon, "epsilon"), exact_decimal(delta, "delta"))
    if budget.epsilon == 0 or budget.delta >= 1:
        raise DomainError(
            "This is no budget.",
            got=f"epsilon = {epsilon}, delta = {delta}",
            allowed="epsilon > 0 and 0 <= delta < 1",
        )
    if shares is None:
        given = dict.fromkeys(METHODS_WITH_SHARE, budget.delta / 2)
    elif isinstance(shares, Mapping) and set(shares) <= set(METHODS_WITH_SHARE):
        given = {
            road: exact_decimal(share, f"The share of {road}") for road, share in shares.items()
        }
    else:
        raise DomainError("Unknown roads.", got=shares, allowed="{'zcdp': a, 'approximate': b}")
    if sum(given.values()) > budget.delta:
        raise DomainError(
            "The shares add up to more than delta.",
            got=", ".join(f"{road}: {share}" for road, share in given.items()),
            allowed=f"a sum of at most delta = {budget.delta}",
        )
    # A road without a share of delta proves nothing that pure does not.
    kept = tuple((road, given[road]) for road in METHODS_WITH_SHARE if given.get(road))
    data = checked_text(data, "data", empty=True)
    return Header(budget, kept, check_neighbors(neighbors), data, utc_today(), token)


def check_terms_agree(asked: Header, found: Header, place: str) -> None:
    """Refuse to open a ledger as something it is not; data left unnamed agree with any.

    Raises
    ------
    Incompatible
        Budget, shares, neighbors or data differ.
    """
    wants, has = asked.terms(), found.terms()
    wants["data"] = wants["data"] or has["data"]
    odd = [term for term in has if wants[term] != has[term]]
    if odd:
        raise Incompatible(
            f"The ledger {place} has other terms.",
            got=", ".join(f"{term} {wants[term]}" for term in odd),
            allowed=", ".join(f"{term} {has[term]}" for term in odd),
            do="Ledger.open(path) takes what is there; a second budget for the same data adds up",
        )


def check_texts(label: object, name: object, key: object) -> None:
    """Refuse a label, name or key that is not one line of bounded length."""
    checked_text(label, "label")
    if name is not None:
        checked_text(name, "name")
    if key is not None:
        checked_text(key, "key", longest=LONGEST_KEY)


def write_charge(
    number: int,
    label: str,
    name: str | None,
    key: str | None,
    cost: ChargeCost,
    terms: Mapping[str, Any],
) -> str:
    """Write the immutable part of a charge as canonical JSON."""
    pair = cost.approximate
    return canonical_json(
        {
            "number": number,
            "label": label,
            "day": utc_today(),
            "name": name,
            "key": key,
            "pure": None if cost.pure is None else rational_text(cost.pure),
            "zcdp": None if cost.zcdp is None else rational_text(cost.zcdp),
            "approximate": None if pair is None else [rational_text(part) for part in pair],
            "guarantee": terms,
        }
    )


def read_charge(body: str, head: str) -> Entry:
    """Read :func:`write_charge` back."""
    said = json.loads(body)
    pair = said["approximate"]
    cost = ChargeCost(
        None if said["pure"] is None else parse_rational(said["pure"]),
        None if said["zcdp"] is None else parse_rational(said["zcdp"]),
        None if pair is None else Budget(*map(parse_rational, pair)),
    )
    sums = (cost.pure, cost.zcdp, *(cost.approximate or ()))
    words = [said["label"], said["day"], *(said[w] for w in ("name", "key") if said[w] is not None)]
    odd = not all(isinstance(word, str) for word in words) or not isinstance(
        said["guarantee"], dict
    )
    if odd or type(said["number"]) is not int or any(part < 0 for part in sums if part is not None):
        raise ValueError("no charge that a ledger writes")
    return Entry(
        number=said["number"],
        label=said["label"],
        day=said["day"],
        name=said["name"],
        key=said["key"],
        cost=cost,
        line=body,
        head=head,
    )


def canonical_json(value: object) -> str:
    """Write JSON in the one way that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def utc_today() -> str:
    """Give the day in UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


ChargeRow = tuple[int, str, str]  # number, body, hash


def chain_hash(head: str, text: str) -> str:
    """Extend the chain of hashes by one line; the header extends the empty text."""
    return hashlib.sha256(f"{head}\n{text}".encode()).hexdigest()


def check_chain_start(header: str, head: str) -> str:
    """Give the first head of a chain.

    Raises
    ------
    Incompatible
        The header was edited.
    """
    if head != chain_hash("", header):
        raise tampering_error("its budget or its terms were edited")
    return head


def check_chain(head: str, rows: Sequence[ChargeRow], first: int, last: int) -> tuple[str, ...]:
    """Give the heads that charges add to a chain.

    Parameters
    ----------
    head : str
        The hash before them.
    rows : sequence of (number, body, hash)
        The charges, by number.
    first, last : int
        The number of the first of them, and the highest number ever given to a charge.

    Raises
    ------
    Incompatible
        Something was edited, deleted, inserted or moved.
    """
    heads = []
    for place, (number, body, stored) in enumerate(rows, start=first):
        if number != place:
            raise tampering_error(f"charge {place} is missing")
        head = chain_hash(head, body)
        if stored != head:
            raise tampering_error(f"charge {place} was edited or moved")
        heads.append(head)
    if last != first + len(rows) - 1:
        raise tampering_error(f"charges after number {first + len(rows) - 1} are missing")
    return tuple(heads)


def tampering_error(what: str) -> Incompatible:
    """Say that a ledger can no longer be believed."""
    return Incompatible(
        "The ledger was tampered with or damaged.",
        got=what,
        do="restore an untouched copy; until then treat the whole budget as spent",
    )
