"""How a ledger prints: what is spent rounded up, what is left rounded down, never finer."""

from __future__ import annotations

import html as markup
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pymc_private.errors import BudgetExceeded, PymcPrivateError
from pymc_private.ledger.entry import Cost, Entry, Header
from pymc_private.privacy.exact_numbers import Budget
from pymc_private.ledger.filter import Road, Totals, remaining, standing, tally
from pymc_private.ledger.sqlite import State
from pymc_private.privacy.neighbors__neighbors import in_words
from pymc_private.privacy.rounding__printing import number

SHOWN = 30  # charges; a longer ledger shows the latest
SPENT = (
    "nothing is left for this charge, however small. Queries on a release, and sample() with the "
    "name and plan of one, cost nothing"
)
AT_COST = (
    ". A calibrated plan costs its whole epsilon, however few its draws; of draws charged at cost, "
    "take fewer, or trim or temper more"
)
WIDTH = 40  # characters of the bar
ROADS = {
    "pure": "pure: epsilons add",
    "zcdp": "zCDP: rhos add",
    "approximate": "approximate: epsilons and deltas add",
}
CELL = "padding:.1rem 1rem .1rem 0;text-align:left;vertical-align:top"


def pair(budget: Budget, *, up: bool = True) -> str:
    """Write (epsilon, delta) in words."""
    epsilon, delta = (number(part, up=up) for part in budget)
    return f"epsilon = {epsilon} nats, delta = {delta}"


NOTHING = Fraction(1, 10**9)
"""An epsilon of so few nats does not say what a charge is."""


def refusal(header: Header, totals: Totals, cost: Cost) -> BudgetExceeded:
    """Say why a charge is refused, in numbers, and what would fit."""
    budget = header.budget
    spent = standing(tally(totals, header), only_open=True) or budget
    wanted = _asked(header, cost)
    left = remaining(budget, spent)
    roads = tally(totals.plus(cost), header)
    return BudgetExceeded(
        "The ledger refuses this charge whole; nothing was spent.",
        asked=wanted,
        spent=spent,
        left=left,
        got=f"asked {pair(wanted)}; spent {pair(spent)}; left {pair(left, up=False)}, of "
        f"{pair(budget, up=False)}; neighbors: {header.neighbors}",
        allowed=f"one road within epsilon = {number(budget.epsilon, up=False)}. With this charge: "
        + "; ".join(f"{name} {_stand(road)}" for name, road in roads.items()),
        do=_cure(header, tally(totals, header), roads),
    )


def _asked(header: Header, cost: Cost) -> Budget:
    """What a charge costs by itself on the road that takes the least.

    At a large delta a road may take next to nothing for it, which would not say what was asked:
    then on the first road that does.
    """
    roads = tally([cost], header)
    least = standing(roads, only_open=False)
    told = [r.spent for r in roads.values() if r.spent is not None and r.spent.epsilon > NOTHING]
    if least is not None and least.epsilon <= NOTHING and told:
        return told[0]
    return least or header.budget


def _cure(header: Header, before: Mapping[str, Road], after: Mapping[str, Road]) -> str:
    """Say what a charge that fits would look like; what asks for it, a ledger does not know."""
    budget = header.budget
    entered = [r for n, r in before.items() if r.open and after[n].closed_by is None]
    rooms = [budget.epsilon - r.spent.epsilon for r in entered if r.spent is not None]
    if not rooms:
        names = " or ".join(f"'{name}'" for name, road in before.items() if road.open)
        return f"a promise of another kind: one that the road {names} takes" if names else SPENT
    if not max(rooms) > 0:
        return SPENT
    cures = []
    near, was = (roads.get("approximate") for roads in (after, before))
    if near and was and near.spent and was.spent and near.spent.delta > near.share:
        left = number(max(near.share - was.spent.delta, Fraction(0)), up=False)
        cures.append(
            f"a smaller delta (left for such charges: {left}; shares of delta are fixed when a "
            "ledger is made)"
        )
        if near.spent.epsilon <= budget.epsilon:
            return cures[0]
    cures.insert(0, f"a smaller epsilon (left: {number(max(rooms), up=False)} nats)")
    return " and ".join(cures) + AT_COST


def _stand(road: Road) -> str:
    if road.closed_by is not None:
        return f"closed by charge {road.closed_by}, which has no such bound"
    if road.spent is None:
        return "proves nothing"
    share = f" of {number(road.share, up=False)}" if road.name == "approximate" else ""
    return f"{pair(road.spent)}{share}{'' if road.open else ' (over)'}"


def _rows(state: State, notes: str) -> list[tuple[str, str]]:
    header = state.header
    roads = tally(state.totals, header)
    spent = standing(roads, only_open=True) or header.budget
    rows = [
        ("budget", f"{pair(header.budget, up=False)}: the public claim after adaptive work"),
        ("spent", f"{pair(spent)} (bookkeeping)"),
        ("left", pair(remaining(header.budget, spent), up=False)),
        ("unreleased", _unreleased(state.entries)),
        ("neighbors", in_words(header.neighbors)),
        ("data", header.data),
        ("place", notes),
        *((ROADS[name], _stand(road)) for name, road in roads.items()),
    ]
    return [row for row in rows if row[1]]


def _unreleased(entries: Sequence[Entry]) -> str:
    """Name the charges that nothing came of, as far as the ledger was told."""
    found = [entry.number for entry in entries if not entry.released]
    if not found:
        return ""
    named = ", ".join(map(str, found[:8])) + (", ..." if len(found) > 8 else "")
    return (
        f"{len(found)} of {len(entries)} (charge {named}): spent, and wasted unless the draw still "
        "runs or was released without store()"
    )


def share(state: State) -> float:
    """Give the part of epsilon that is spent, in [0, 1]."""
    budget = state.header.budget
    spent = standing(tally(state.totals, state.header), only_open=True) or budget
    if spent.epsilon >= budget.epsilon:
        return 1.0
    return min(math.nextafter(1.0, 0.0), float(spent.epsilon / budget.epsilon))


def _bar(part: float) -> str:
    """Draw what is spent, rounded up; full only if all is."""
    filled = WIDTH if part == 1.0 else min(WIDTH - 1, math.ceil(part * WIDTH))
    return f"[{'#' * filled}{'.' * (WIDTH - filled)}] {_percent(part)} of epsilon spent"


def _percent(part: float) -> str:
    return "100%" if part == 1.0 else f"{min(99.9, math.ceil(part * 1000) / 10):.3g}%"


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
                "kept" if entry.completed else "released" if entry.released else "none",
            )
        )
    return table


def _earlier(entries: Sequence[Entry]) -> str:
    hidden = len(entries) - SHOWN
    return f"... and {hidden} earlier, in .entries" if hidden > 0 else ""


def text(place: str, state: State, notes: str) -> str:
    """Print a ledger as text."""
    entries, rows = state.entries, _rows(state, notes)
    width = max(len(name) for name, _ in rows)
    lines = [_title(place, entries), f"  {_bar(share(state))}"]
    lines += [f"  {name:<{width}}  {said}" for name, said in rows]
    if entries:
        table = _charges(entries[-SHOWN:])
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        for row in table:
            cells = (cell.ljust(size) for cell, size in zip(row, widths, strict=True))
            lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(filter(None, [*lines, f"  {_earlier(entries)}".rstrip()]))


def html(place: str, state: State, notes: str) -> str:
    """Print a ledger as HTML that takes its colors from the page."""
    facts = "".join(
        f'<tr><th scope="row" style="{CELL};font-weight:500;opacity:.65">{markup.escape(name)}</th>'
        f'<td style="{CELL}">{markup.escape(said)}</td></tr>'
        for name, said in _rows(state, notes)
    )
    said = f"{_percent(share(state))} of epsilon spent"
    return (
        '<div style="border-left:3px solid #3b6ea8;padding:.3rem 0 .3rem .9rem">'
        f'<div style="font-weight:600">{markup.escape(_title(place, state.entries))}</div>'
        f'<div role="img" aria-label="{said}" title="{said}" style="height:.55rem;max-width:24rem;'
        'margin:.3rem 0;border:1px solid #3b6ea8"><div style="height:100%;background:#3b6ea8;'
        f'width:{_percent(share(state))}"></div></div>'
        f'<table style="border-collapse:collapse;margin:.2rem 0 0">{facts}</table>'
        f"{_charges_html(state.entries)}</div>"
    )


def unreadable(place: str, error: PymcPrivateError) -> str:
    """Print a ledger that cannot be read; the text is safe as HTML too."""
    return markup.escape(f"Ledger ({place}): cannot be read. {error.problem}", quote=False)


def _charges_html(entries: Sequence[Entry]) -> str:
    if not entries:
        return ""
    head, *body = _charges(entries[-SHOWN:])
    heads = "".join(
        f'<th scope="col" style="{CELL};font-weight:500;opacity:.65">{title}</th>' for title in head
    )
    lines = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{markup.escape(cell)}</td>' for cell in row) + "</tr>"
        for row in body
    )
    return (
        '<table style="border-collapse:collapse;margin:.5rem 0 0">'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>{_earlier(entries)}"
    )
