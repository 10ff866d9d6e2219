"""Records of a ledger: canonical JSON lines and the hash chain.

A ledger consists of a header (budget, shares, neighbors, data) and of charges, each stored as
one line of canonical JSON with exact rationals (`privacy.validation`). The hash of a charge
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
from typing import Any

from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy.accounting import Budget
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import check_neighbors
from pymc_private.privacy.validation import (
    check_one_line,
    exact_decimal,
    parse_rational,
    rational_text,
)

METHODS_WITH_SHARE = ("zcdp", "approximate")
"""Accounting methods that need a share of delta; "pure" needs none."""
LONGEST_KEY = 4000
ChargeRow = tuple[int, str, str]
"""Number, body and hash of a stored charge."""


@dataclass(frozen=True)
class ChargeCost:
    """What one charge adds to each accounting method; None where the method cannot take it.

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
    """Terms fixed when a ledger is made: budget, shares, neighbors, the data in words.

    ``shares`` is None where the first charge divides delta (`ledger.filter.delta_shares`).
    ``token`` is random, so that two ledgers of one budget do not share a chain.
    """

    budget: Budget
    shares: tuple[tuple[str, Fraction], ...] | None
    neighbors: str
    data: str
    day: str
    token: str

    def terms(self) -> dict[str, Any]:
        """Terms that must agree when the ledger is opened again."""
        return {
            "epsilon": rational_text(self.budget.epsilon),
            "delta": rational_text(self.budget.delta),
            "shares": None
            if self.shares is None
            else {method: rational_text(share) for method, share in self.shares},
            "neighbors": self.neighbors,
            "data": self.data,
        }

    def to_json(self) -> str:
        """Write the header as canonical JSON."""
        return canonical_json(self.terms() | {"day": self.day, "token": self.token})

    @classmethod
    def from_json(cls, text: str) -> Header:
        """Read :meth:`to_json` back."""
        fields = json.loads(text)
        stated = {} if fields["shares"] is None else fields["shares"]
        shares = {method: parse_rational(share) for method, share in stated.items()}
        texts = [fields[name] for name in ("neighbors", "data", "day", "token")]
        epsilon, delta = parse_rational(fields["epsilon"]), parse_rational(fields["delta"])
        sound = epsilon > 0 and 0 <= delta < 1 and sum(shares.values()) <= delta
        sound = sound and set(shares) <= set(METHODS_WITH_SHARE)
        sound = sound and min(shares.values(), default=0) >= 0
        if not sound or not all(isinstance(value, str) for value in texts):
            raise ValueError("no header that a ledger writes")
        check_neighbors(fields["neighbors"])
        return cls(
            Budget(epsilon, delta),
            None
            if fields["shares"] is None
            else tuple(
                (method, shares[method]) for method in METHODS_WITH_SHARE if method in shares
            ),
            *texts,
        )

    @property
    def largest_shares(self) -> dict[str, Fraction]:
        """The most of delta that each method with a share can come to have."""
        if self.shares is not None:
            return dict(self.shares)
        return dict.fromkeys(METHODS_WITH_SHARE, self.budget.delta)


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
    cost : ChargeCost
        What the charge added to each accounting method.
    line : str
        The charge as JSON, as it is hashed; :attr:`guarantee` reads its part.
    head : str
        The chain's hash up to and including this charge.
    completed : bool
        Whether the ledger keeps the release this charge paid for.
    released : bool
        Whether a release is on record at all. A charge without one is spent all the same: its draw
        was interrupted, still runs, or was not reported to the ledger.
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
        return Guarantee.from_dict(json.loads(self.line)["guarantee"])


def make_header(
    epsilon: object,
    delta: object,
    neighbors: str,
    shares: Mapping[str, object] | None,
    data: str,
    token: str,
) -> Header:
    """Check a budget and the shares of delta that are stated, if any.

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
    fixed: dict[str, Fraction] = {}
    if shares is None:
        pass
    elif isinstance(shares, Mapping) and set(shares) <= set(METHODS_WITH_SHARE):
        fixed = {
            method: exact_decimal(share, f"The share of {method}")
            for method, share in shares.items()
        }
    else:
        raise DomainError(
            "Unknown accounting methods.", got=shares, allowed="{'zcdp': a, 'approximate': b}"
        )
    if sum(fixed.values()) > budget.delta:
        raise DomainError(
            "The shares add up to more than delta.",
            got=", ".join(f"{method}: {share}" for method, share in fixed.items()),
            allowed=f"a sum of at most delta = {budget.delta}",
        )
    # A method without a share of delta proves nothing that pure does not.
    kept = tuple((method, fixed[method]) for method in METHODS_WITH_SHARE if fixed.get(method))
    stated = None if shares is None and budget.delta else kept  # without delta nothing to divide
    data = check_one_line(data, "data", empty=True)
    return Header(budget, stated, check_neighbors(neighbors), data, utc_today(), token)


def check_terms_agree(requested: Header, found: Header, place: str) -> None:
    """Refuse to open a ledger with other terms; data and shares left unstated agree with any.

    Raises
    ------
    Incompatible
        Budget, shares, neighbors or data differ.
    """
    expected, actual = requested.terms(), found.terms()
    expected["data"] = expected["data"] or actual["data"]
    if expected["shares"] is None:
        expected["shares"] = actual["shares"]
    elif actual["shares"] is None:
        actual["shares"] = "by the first charge"
    unlike = [term for term in actual if expected[term] != actual[term]]
    if unlike:
        raise Incompatible(
            f"The ledger {place} has other terms.",
            got=", ".join(f"{term} {expected[term]}" for term in unlike),
            allowed=", ".join(f"{term} {actual[term]}" for term in unlike),
            do="Ledger.open(path) takes what is there; a second budget for the same data adds up",
        )


def check_texts(label: object, name: object, key: object) -> None:
    """Refuse a label, name or key that is not one line of bounded length."""
    check_one_line(label, "label")
    if name is not None:
        check_one_line(name, "name")
    if key is not None:
        check_one_line(key, "key", longest=LONGEST_KEY)


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
    fields = json.loads(body)
    pair = fields["approximate"]
    cost = ChargeCost(
        None if fields["pure"] is None else parse_rational(fields["pure"]),
        None if fields["zcdp"] is None else parse_rational(fields["zcdp"]),
        None if pair is None else Budget(*map(parse_rational, pair)),
    )
    amounts = (cost.pure, cost.zcdp, *(cost.approximate or ()))
    texts = [
        fields["label"],
        fields["day"],
        *(fields[w] for w in ("name", "key") if fields[w] is not None),
    ]
    malformed = not all(isinstance(value, str) for value in texts) or not isinstance(
        fields["guarantee"], dict
    )
    if (
        malformed
        or type(fields["number"]) is not int
        or any(amount < 0 for amount in amounts if amount is not None)
    ):
        raise ValueError("no charge that a ledger writes")
    return Entry(
        number=fields["number"],
        label=fields["label"],
        day=fields["day"],
        name=fields["name"],
        key=fields["key"],
        cost=cost,
        line=body,
        head=head,
    )


def canonical_json(value: object) -> str:
    """JSON in the one form that is hashed: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def utc_today() -> str:
    """Date in UTC, ISO format."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def chain_hash(head: str, text: str) -> str:
    """Hash of a line and of the hash before it; the header follows the empty text."""
    return hashlib.sha256(f"{head}\n{text}".encode()).hexdigest()


def check_chain_start(header: str, head: str) -> str:
    """Give the first hash of the chain.

    Raises
    ------
    Incompatible
        The header was edited.
    """
    if head != chain_hash("", header):
        raise tampering_error("its budget or its terms were edited")
    return head


def check_chain(head: str, rows: Sequence[ChargeRow], first: int, last: int) -> tuple[str, ...]:
    """Check charges that follow the hash ``head``, and give the hash after each of them.

    ``first`` is the number of the first of them, ``last`` the highest number ever given to a
    charge.

    Raises
    ------
    Incompatible
        Something was edited, deleted, inserted or moved.
    """
    heads = []
    for expected, (number, body, stored) in enumerate(rows, start=first):
        if number != expected:
            raise tampering_error(f"charge {expected} is missing")
        head = chain_hash(head, body)
        if stored != head:
            raise tampering_error(f"charge {expected} was edited or moved")
        heads.append(head)
    if last != first + len(rows) - 1:
        raise tampering_error(f"charges after number {first + len(rows) - 1} are missing")
    return tuple(heads)


def tampering_error(what: str) -> Incompatible:
    """Error of a ledger that can no longer be trusted."""
    return Incompatible(
        "The ledger was tampered with or damaged.",
        got=what,
        do="restore an untouched copy; until then treat the whole budget as spent",
    )
