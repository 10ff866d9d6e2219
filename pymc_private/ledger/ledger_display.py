"""Text and HTML of a ledger, and the message of a refused charge.

What is spent is rounded up and what is left rounded down, so no printed number understates the
cost.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from pymc_private.errors import BudgetExceeded, PymcPrivateError
from pymc_private.ledger.entry import ChargeCost, Entry, Header
from pymc_private.ledger.filter import (
    ChargeTotals,
    MethodStatus,
    method_statuses,
    remaining,
    smallest_spent,
    units_text,
)
from pymc_private.ledger.sqlite import LedgerState
from pymc_private.privacy import cards
from pymc_private.privacy.accounting import Budget
from pymc_private.privacy.neighbors import describe_neighbors
from pymc_private.privacy.rounding import format_number

SHOWN_CHARGES = 30
"""A longer ledger shows the latest."""
BAR_WIDTH = 40
"""Characters."""
NEGLIGIBLE_EPSILON = Fraction(1, 10**9)
"""An epsilon of so few nats says nothing about the charge."""
NOTHING_LEFT = (
    "nothing is left for this charge, however small. Queries on a release, and sample() with the "
    "name and plan of one, cost nothing"
)
COST_ADVICE = (
    ". A calibrated plan costs its whole epsilon, of a summary or of however few draws; of draws "
    "charged at cost, take fewer, or trim or temper more"
)
METHOD_TITLES = {
    "pure": "pure: epsilons add",
    "zcdp": "zCDP: rhos add",
    "approximate": "approximate: epsilons and deltas add",
}


def ledger_text(place: str, state: LedgerState, notes: str) -> str:
    """Ledger as text."""
    entries, rows = state.entries, _summary_rows(state, notes)
    width = max(len(name) for name, _ in rows)
    lines = [_title(place, entries), f"  {_bar(spent_share(state))}"]
    lines += [f"  {name:<{width}}  {value}" for name, value in rows]
    if entries:
        table = _charge_table(entries[-SHOWN_CHARGES:])
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        for row in table:
            cells = (cell.ljust(size) for cell, size in zip(row, widths, strict=True))
            lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(filter(None, [*lines, f"  {_hidden_text(entries)}".rstrip()]))


def ledger_html(place: str, state: LedgerState, notes: str) -> str:
    """Ledger as HTML that takes its colors from the page."""
    share = _percent(spent_share(state))
    text = f"{share} of epsilon spent"
    bar = (
        f'<div role="img" aria-label="{text}" title="{text}" style="height:.55rem;max-width:24rem;'
        f'margin:.3rem 0;border:1px solid {cards.ACCENT}"><div style="height:100%;'
        f'background:{cards.ACCENT};width:{share}"></div></div>'
    )
    title, rows = _title(place, state.entries), _summary_rows(state, notes)
    return cards.html_card(title, rows, above=bar, below=_charges_html(state.entries))


def _charges_html(entries: Sequence[Entry]) -> str:
    if not entries:
        return ""
    head, *body = _charge_table(entries[-SHOWN_CHARGES:])
    return cards.html_table(head, body, left=True) + _hidden_text(entries)


def unreadable_text(place: str, error: PymcPrivateError) -> str:
    """Text of a ledger that cannot be read; safe as HTML too."""
    return html.escape(f"Ledger ({place}): cannot be read. {error.problem}", quote=False)


def _title(place: str, entries: Sequence[Entry]) -> str:
    return f"Ledger ({place}): {len(entries)} charge{'' if len(entries) == 1 else 's'}"


def _summary_rows(state: LedgerState, notes: str) -> list[tuple[str, str]]:
    header = state.header
    statuses = method_statuses(state.totals, header)
    spent = smallest_spent(statuses, only_open=True) or header.budget
    rows = [
        ("budget", f"{budget_text(header.budget, up=False)}: the public claim after adaptive work"),
        ("spent", f"{budget_text(spent)} (bookkeeping)"),
        ("left", budget_text(remaining(header.budget, spent), up=False)),
        ("unreleased", _unreleased(state.entries)),
        ("neighbors", describe_neighbors(header.neighbors)),
        ("units", units_text(state.entries)),
        ("data", header.data),
        ("place", notes),
        ("delta", _shares_text(header, state.totals)),
        *((METHOD_TITLES[name], _status_text(status)) for name, status in statuses.items()),
    ]
    return [row for row in rows if row[1]]


def _shares_text(header: Header, totals: ChargeTotals) -> str:
    """How delta is divided over the accounting methods, where that is yet to be fixed."""
    if header.shares is not None or totals.charges or not header.budget.delta:
        return ""
    return "divided over the accounting methods by the first charge, as it needs"


def _status_text(status: MethodStatus) -> str:
    if status.closed_by is not None:
        return f"no longer used: charge {status.closed_by} has no bound of this kind"
    if status.spent is None:
        return "proves nothing"
    share = f" of {format_number(status.share, up=False)}" if status.name == "approximate" else ""
    return f"{budget_text(status.spent)}{share}{'' if status.open else ' (over)'}"


def _unreleased(entries: Sequence[Entry]) -> str:
    """Charges without a release on record, in words."""
    found = [entry.number for entry in entries if not entry.released]
    if not found:
        return ""
    named = ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
    return (
        f"{len(found)} of {len(entries)} (charge {named}): spent, and wasted unless the draw still "
        "runs or was released without store()"
    )


def spent_share(state: LedgerState) -> float:
    """Part of epsilon that is spent, in [0, 1]."""
    budget = state.header.budget
    spent = smallest_spent(method_statuses(state.totals, state.header), only_open=True) or budget
    if spent.epsilon >= budget.epsilon:
        return 1.0
    return min(math.nextafter(1.0, 0.0), float(spent.epsilon / budget.epsilon))


def _bar(part: float) -> str:
    """Bar of what is spent, rounded up; full only if all is."""
    filled = BAR_WIDTH if part == 1.0 else min(BAR_WIDTH - 1, math.ceil(part * BAR_WIDTH))
    return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {_percent(part)} of epsilon spent"


def _percent(part: float) -> str:
    return "100%" if part == 1.0 else f"{min(99.9, math.ceil(part * 1000) / 10):.3g}%"


def _charge_table(entries: Iterable[Entry]) -> list[tuple[str, ...]]:
    """Table of charges as text, header first."""
    table: list[tuple[str, ...]] = [
        ("", "day", "label", "pure", "rho", "approximate", "release"),
    ]
    for entry in entries:
        cost, pair_i = entry.cost, entry.cost.approximate
        shown = entry.label if entry.name is None else f"{entry.label} [{entry.name}]"
        table.append(
            (
                str(entry.number),
                entry.day,
                shown,
                "-" if cost.pure is None else format_number(cost.pure),
                "-" if cost.zcdp is None else format_number(cost.zcdp),
                "-"
                if pair_i is None
                else f"({format_number(pair_i[0])}, {format_number(pair_i[1])})",
                "kept" if entry.completed else "released" if entry.released else "none",
            )
        )
    return table


def _hidden_text(entries: Sequence[Entry]) -> str:
    hidden = len(entries) - SHOWN_CHARGES
    return f"... and {hidden} earlier, in .entries" if hidden > 0 else ""


def budget_text(budget: Budget, *, up: bool = True) -> str:
    """A pair (epsilon, delta) in words."""
    epsilon, delta = (format_number(part, up=up) for part in budget)
    return f"epsilon = {epsilon} nats, delta = {delta}"


def budget_exceeded(header: Header, totals: ChargeTotals, cost: ChargeCost) -> BudgetExceeded:
    """Error of a refused charge: why, in numbers, and what would fit."""
    budget, before = header.budget, method_statuses(totals, header)
    spent = smallest_spent(before, only_open=True) or budget
    requested, left = _requested(header, totals, cost), remaining(budget, spent)
    after = method_statuses(totals.plus(cost), header)
    limit = format_number(budget.epsilon, up=False)
    return BudgetExceeded(
        "The ledger refuses this charge whole; nothing was spent.",
        asked=requested,
        spent=spent,
        left=left,
        got=f"asked {budget_text(requested)}; spent {budget_text(spent)}; "
        f"left {budget_text(left, up=False)}, of {budget_text(budget, up=False)}; "
        f"neighbors: {header.neighbors}",
        allowed=f"one accounting method within epsilon = {limit}. With this charge: "
        + "; ".join(f"{name} {_status_text(status)}" for name, status in after.items()),
        do=_advice(header, before, after),
    )


def _requested(header: Header, totals: ChargeTotals, cost: ChargeCost) -> Budget:
    """Cost of a charge by itself under the method that takes the least.

    At a large delta a method may take next to nothing for it, which would not say what was
    requested: then the cost under the first method that does.
    """
    first = cost if totals.first is None else totals.first
    statuses = method_statuses(replace(ChargeTotals().plus(cost), first=first), header)
    least = smallest_spent(statuses, only_open=False)
    proofs = [status.spent for status in statuses.values() if status.spent is not None]
    telling = [spent for spent in proofs if spent.epsilon > NEGLIGIBLE_EPSILON]
    if least is not None and least.epsilon <= NEGLIGIBLE_EPSILON and telling:
        return telling[0]
    return least or header.budget


def _advice(
    header: Header, before: Mapping[str, MethodStatus], after: Mapping[str, MethodStatus]
) -> str:
    """Description of a charge that would fit, from the statuses before and after this one."""
    budget = header.budget
    taking = {name for name, status in after.items() if status.closed_by is None}
    entered = [status for name, status in before.items() if status.open and name in taking]
    rooms = [budget.epsilon - s.spent.epsilon for s in entered if s.spent is not None]
    if not rooms:
        names = " or ".join(f"'{name}'" for name, status in before.items() if status.open)
        if not names:
            return NOTHING_LEFT
        return f"a guarantee of another kind: one that the method {names} takes"
    if not max(rooms) > 0:
        return NOTHING_LEFT
    changes = []
    new, old = (statuses.get("approximate") for statuses in (after, before))
    if new and old and new.spent and old.spent and new.spent.delta > new.share:
        left = format_number(max(new.share - old.spent.delta, Fraction(0)), up=False)
        changes.append(
            f"a smaller delta (left for such charges: {left}; how delta is divided is fixed by "
            "shares= or the first charge)"
        )
        if new.spent.epsilon <= budget.epsilon:
            return changes[0]
    changes.insert(0, f"a smaller epsilon (left: {format_number(max(rooms), up=False)} nats)")
    return " and ".join(changes) + COST_ADVICE
