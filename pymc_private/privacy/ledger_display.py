"""How a ledger prints: what is spent rounded up, what is left rounded down, never finer."""

from __future__ import annotations

import html as markup
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from pymc_private.errors import BudgetExceeded, PymcPrivateError
from pymc_private.privacy.ledger_entry import Cost, Entry, Header
from pymc_private.privacy.ledger_exact import Budget
from pymc_private.privacy.ledger_filter import Road, remaining, standing, tally
from pymc_private.privacy.neighbors import in_words
from pymc_private.privacy.printing import number
from pymc_private.privacy.rounding import float_up

if TYPE_CHECKING:
    import pandas as pd

ROADS = {
    "pure": "pure: epsilons add",
    "zcdp": "zCDP: rhos add",
    "approximate": "approximate: epsilons and deltas add",
}
COLUMNS = ("number", "day", "label", "name", "pure", "rho", "epsilon_i", "delta_i", "completed")
CELL = "padding:.1rem 1rem .1rem 0;text-align:left;vertical-align:top"


def pair(budget: Budget, *, up: bool = True) -> str:
    """Write (epsilon, delta) in words."""
    epsilon, delta = (number(part, up=up) for part in budget)
    return f"epsilon = {epsilon} nats, delta = {delta}"


def refusal(header: Header, costs: Sequence[Cost], cost: Cost) -> BudgetExceeded:
    """Say why a charge is refused, in numbers, and what would fit."""
    budget = header.budget
    spent = standing(tally(costs, header), only_open=True) or budget
    wanted = standing(tally([cost], header), only_open=False) or budget
    left = remaining(budget, spent)
    roads = tally([*costs, cost], header)
    return BudgetExceeded(
        "The ledger refuses this charge whole; nothing was spent.",
        asked=wanted,
        spent=spent,
        left=left,
        got=f"asked {pair(wanted)}; spent {pair(spent)}; left {pair(left, up=False)}, of "
        f"{pair(budget, up=False)}; neighbors: {header.neighbors}",
        allowed=f"one road within epsilon = {number(budget.epsilon, up=False)}. With this charge: "
        + "; ".join(f"{name} {_stand(road)}" for name, road in roads.items()),
        do="fewer draws, or trim or temper more. Shares of delta are fixed when a ledger is made; "
        "a study yet to begin could divide its delta differently",
    )


def _stand(road: Road) -> str:
    if road.closed_by is not None:
        return f"closed by charge {road.closed_by}, which has no such bound"
    if road.spent is None:
        return "proves nothing"
    share = f" of {number(road.share, up=False)}" if road.name == "approximate" else ""
    return f"{pair(road.spent)}{share}{'' if road.open else ' (over)'}"


def _rows(header: Header, entries: Sequence[Entry]) -> list[tuple[str, str]]:
    roads = tally([entry.cost for entry in entries], header)
    spent = standing(roads, only_open=True) or header.budget
    rows = [
        ("budget", f"{pair(header.budget, up=False)}: the public claim after adaptive work"),
        ("spent", f"{pair(spent)} (bookkeeping)"),
        ("left", pair(remaining(header.budget, spent), up=False)),
        ("neighbors", in_words(header.neighbors)),
        ("data", header.data),
        *((ROADS[name], _stand(road)) for name, road in roads.items()),
    ]
    return [row for row in rows if row[1]]


def _title(place: str, entries: Sequence[Entry]) -> str:
    return f"Ledger ({place}): {len(entries)} charge{'' if len(entries) == 1 else 's'}"


def _charges(entries: Iterable[Entry]) -> list[tuple[str, ...]]:
    """Give the table of charges as text, head first."""
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
                "-" if cost.pure is None else number(cost.pure),
                "-" if cost.zcdp is None else number(cost.zcdp),
                "-" if pair_i is None else f"({number(pair_i[0])}, {number(pair_i[1])})",
                "kept" if entry.completed else "none",
            )
        )
    return table


def text(place: str, header: Header, entries: Sequence[Entry]) -> str:
    """Print a ledger as text."""
    rows = _rows(header, entries)
    width = max(len(name) for name, _ in rows)
    lines = [_title(place, entries), *(f"  {name:<{width}}  {said}" for name, said in rows)]
    if entries:
        table = _charges(entries)
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        for row in table:
            cells = (cell.ljust(size) for cell, size in zip(row, widths, strict=True))
            lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(lines)


def html(place: str, header: Header, entries: Sequence[Entry]) -> str:
    """Print a ledger as HTML that takes its colors from the page."""
    facts = "".join(
        f'<tr><th scope="row" style="{CELL};font-weight:500;opacity:.65">{markup.escape(name)}</th>'
        f'<td style="{CELL}">{markup.escape(said)}</td></tr>'
        for name, said in _rows(header, entries)
    )
    return (
        '<div style="border-left:3px solid #3b6ea8;padding:.3rem 0 .3rem .9rem">'
        f'<div style="font-weight:600">{markup.escape(_title(place, entries))}</div>'
        f'<table style="border-collapse:collapse;margin:.2rem 0 0">{facts}</table>'
        f"{_charges_html(entries)}</div>"
    )


def unreadable(place: str, error: PymcPrivateError) -> str:
    """Print a ledger that cannot be read; the text is safe as HTML too."""
    return markup.escape(f"Ledger ({place}): cannot be read. {error.problem}", quote=False)


def _charges_html(entries: Sequence[Entry]) -> str:
    if not entries:
        return ""
    head, *body = _charges(entries)
    heads = "".join(
        f'<th scope="col" style="{CELL};font-weight:500;opacity:.65">{title}</th>' for title in head
    )
    lines = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{markup.escape(cell)}</td>' for cell in row) + "</tr>"
        for row in body
    )
    return (
        '<table style="border-collapse:collapse;margin:.5rem 0 0">'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    )


def frame(entries: Iterable[Entry]) -> pd.DataFrame:
    """List charges as a table of doubles, rounded up; NaN where a charge has no such bound."""
    import pandas as pd

    def rounded(value: Fraction | None) -> float:
        return float("nan") if value is None else float_up(value)

    rows = []
    for entry in entries:
        epsilon, delta = entry.cost.approximate or (None, None)
        costs = (entry.cost.pure, entry.cost.zcdp, epsilon, delta)
        own = (entry.number, entry.day, entry.label, entry.name)
        rows.append((*own, *map(rounded, costs), entry.completed))
    return pd.DataFrame(rows, columns=list(COLUMNS)).set_index("number")
