"""What the chain vouches for and no ledger writes: a charge below the price of its guarantee."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pymc_private.errors import PymcPrivateError
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.ledger.entry__ledger_chain import tampered
from pymc_private.ledger.entry import Cost, Entry, Header

SLACK = 1 + Fraction(1, 10**9)  # another version may round otherwise


def check_costs(entries: Iterable[Entry], header: Header) -> None:
    """Check that each charge costs what its own guarantee says, as far as that is quickly told.

    Raises
    ------
    Incompatible
        One was charged for less.
    """
    seen: dict[tuple[Guarantee, Cost], None] = {}
    for entry in entries:
        try:
            said = entry.guarantee
        except PymcPrivateError as error:
            raise tampered(f"charge {entry.number} holds no guarantee") from error
        if (said, entry.cost) in seen:
            continue
        seen[said, entry.cost] = None
        if said.neighbors != header.neighbors or not _covers(entry.cost, said):
            raise tampered(f"charge {entry.number} costs less than its guarantee")


def _covers(cost: Cost, said: Guarantee) -> bool:
    pair, pure = cost.approximate, said.exact_pure
    enough = cost.pure is None or pure <= cost.pure * SLACK
    enough = enough and (cost.zcdp is None or said.zcdp <= cost.zcdp * SLACK)
    if pair is None or not enough:
        return enough
    if pair.delta == 0:
        return pure <= pair.epsilon * SLACK
    # A curve may take seconds; sums of stated pairs take no time.
    stated = all(atom.kind == "approximate" for atom in said.atoms)
    return not stated or said.exact_epsilon(pair.delta) <= pair.epsilon * SLACK
