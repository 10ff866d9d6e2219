"""What a report says, section by section, before it is set as text or HTML."""

from __future__ import annotations

import base64
import io
import numpy as np
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any
from matplotlib.figure import Figure
from pymc_private.release import display, estimates
from pymc_private.release.allowed import as_float
from pymc_private.release.release import Release
from pymc_private.models import compat
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding__printing import counted
from pymc_private.report import plots, report__words
from pymc_private.report.render import Picture, Points, Rows, Section, Table, Verbatim

MOST_ROWS = 60
DPI = 150


def sections_of(release: Release, ledger: Any = None) -> list[Section]:
    """List the sections of the report on a release, those without content left out."""
    candidates = (
        _meaning(release),
        _budget(release, ledger),
        _posterior_table(release),
        _draws(release),
        _curve(release),
        _terms(release),
        _certificate(release),
        Section("Not covered", (Points(report__words.not_covered(release)),)),
        _origin(release),
        _citations(release),
    )
    return [section for section in candidates if section.blocks]


def _meaning(release: Release) -> Section:
    return Section("What this means", (Points(report__words.meaning(release)),))


def _budget(release: Release, ledger: Any) -> Section:
    if not release.private:
        free = "A seeded run charges nothing: it is outside every budget, and not private."
        return Section("Budget", (Points((free,)),), beside=True)
    charges, spent, budget = _account(release, ledger)
    rows = [
        (label, *_price(guarantee, release))
        for label, guarantee in charges
        if isinstance(guarantee, Guarantee)
    ]
    blocks: list[Any] = [_picture(
        lambda dark: plots.plot_budget(release, ledger, dark=dark),
        "What is spent and what is left, as shares of the budget."
        if ledger is not None
        else "This release as a share of the budget.",
    )]  # fmt: skip
    if said := _whose(release, ledger):
        blocks.insert(0, Points((said,)))
    if rows:
        note = "Each charge alone; together they may cost less than their sum."
        head = ("charge", "epsilon", "delta")
        blocks.append(Table(head, tuple(rows), note if len(rows) > 1 else ""))
    if told := [(label, text) for label, text in charges if isinstance(text, str)]:
        blocks.append(Rows(tuple(told)))
    totals = [("spent", spent, True), ("budget", budget, True)]
    if ledger is not None:
        totals.insert(1, ("left", tuple(ledger.left), False))
    pairs = [(title, _pair(amount, up=up)) for title, amount, up in totals if amount]
    if data := getattr(ledger, "data", ""):
        pairs.append(("data", data))
    blocks.append(Rows(tuple(pairs)))
    return Section("Budget", tuple(blocks), beside=True)


def _whose(release: Release, ledger: Any) -> str:
    """Say so if the ledger's account is not known to be that of this release."""
    head = release.facts.get("ledger_head")
    if ledger is None or head in {entry.head for entry in ledger.entries}:
        return ""
    if head is None:
        return (
            "This release names no ledger: whether one of these charges paid for it is not known."
        )
    return (
        "This release is not in this ledger: another one paid for it, on top of what stands here."
    )


def _account(release: Release, ledger: Any) -> tuple[list[tuple[str, Guarantee | str]], Any, Any]:
    """Give charges, spent and budget: from the ledger if there is one, else from the facts."""
    if ledger is not None:
        entries = [(entry.label, entry.guarantee) for entry in ledger.entries]
        return entries, tuple(ledger.spent), tuple(ledger.budget)
    charges = [
        (charge["label"], _guarantee_of(charge["guarantee"]))
        for charge in release.facts.get("charges", [])
    ]
    budget = release.facts.get("budget")
    return charges, None, budget and (budget["epsilon"], budget["delta"])


def _guarantee_of(stored: str | dict[str, Any]) -> Guarantee | str:
    return stored if isinstance(stored, str) else Guarantee.from_dict(stored)


def _price(guarantee: Guarantee, release: Release) -> tuple[str, str]:
    """Give epsilon and delta of one charge, at the delta of the release."""
    delta = as_float(release.facts.get("delta", 0))
    return display.number(guarantee.epsilon(delta)), display.number(delta)


def _pair(amount: Iterable[float | str | Fraction], *, up: bool) -> str:
    epsilon, delta = amount
    return f"epsilon {display.number(epsilon, up=up)}, delta {display.number(delta, up=up)}"


def _posterior_table(release: Release) -> Section:
    frame = compat.summary(release.posterior)
    bound = np.concatenate([
        np.ravel(np.asarray(estimates.mean(release, str(name)).error))
        for name in release.posterior.data_vars
    ])  # fmt: skip
    columns = [frame[name].to_numpy() for name in ("mean", "sd", "mcse_mean", "lower", "upper")]
    labels, law = list(frame.index[:MOST_ROWS]), display.law_of(release)
    rows = display.element_rows(labels, *columns, bound, digits=3)
    more = len(frame) - len(labels)
    note = (
        f"Of {display.drawn_from(release)}. mcse: Monte Carlo standard error by ArviZ, a dash if "
        "there are too few draws. error: the mean is off by no more, with confidence 0.95 "
        "(Hoeffding)." + (f" {counted(more, 'more element')} in release.posterior." if more else "")
    )
    table = Table(("", "mean", "sd", "mcse", "5%", "95%", "error ≤"), tuple(map(tuple, rows)), note)
    return Section("Posterior" if law.endswith("posterior") else "Estimates", (table,), beside=True)


def _draws(release: Release) -> Section:
    picture = _picture(
        lambda dark: plots.plot_posterior(release, dark=dark),
        "The released draws.",
    )
    return Section("Draws", (picture,))


def _curve(release: Release) -> Section:
    if not release.private:
        return Section("Privacy curve", ())
    _, delta = display.stated(release)
    picture = _picture(
        lambda dark: plots.plot_curve(release.guarantee, delta=delta, dark=dark),
        "The guarantee holds at every point on the curve at once.",
    )
    return Section("Privacy curve", (Rows(report__words.backing(release)), picture))


def _terms(release: Release) -> Section:
    facts = release.facts
    rows = [
        ("records", _flat(facts.get("records"))),
        ("domain", _flat(facts.get("domain"))),
        ("trim", _flat(facts.get("trim"))),
        ("power", _power(facts.get("power"))),
        ("clip", _flat(facts.get("clip"))),
        ("grid", _flat(facts.get("grid"))),
        ("withheld", display.withheld(release) or "nothing"),
    ]
    return Section("Terms", (Rows(tuple((title, text) for title, text in rows if text)),))


def _certificate(release: Release) -> Section:
    text = release.facts.get("certificate")
    return Section("Certificate", (Verbatim(text),) if text else ())


def _origin(release: Release) -> Section:
    facts = release.facts
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    rows = (
        ("sampler", facts.get("sampler", "")),
        ("model", facts.get("model", "")),
        ("release", release.fingerprint),
        ("ledger head", facts.get("ledger_head", "")),
        ("versions", versions),
    )
    return Section("Origin", (Rows(tuple((title, text) for title, text in rows if text)),))


def _citations(release: Release) -> Section:
    text = release.cite()
    return Section("To cite", (Verbatim(text),) if text else ())


def _flat(value: Any) -> str:
    """Write a fact for people: dicts as lines, lists as sentences."""
    if value is None or value == "":
        return ""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_flat(item)}" for key, item in value.items())
    if isinstance(value, list):
        texts = ", ".join(map(_flat, map(_one_of_equals, value)))
        return texts if all(isinstance(item, str) for item in value) else f"[{texts}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _power(value: Any) -> str:
    """Write an exact power as people read it, and as it is."""
    if value is None:
        return ""
    short, exact = f"{as_float(value):.4g}", str(value)
    return short if short == exact else f"{short} (exactly {exact})"


def _one_of_equals(value: Any) -> Any:
    """Write the ends of a box once if they are the same for all elements."""
    if not isinstance(value, list):
        return value
    inner = [_one_of_equals(item) for item in value]
    return inner[0] if inner and all(item == inner[0] for item in inner) else inner


def _picture(draw: Callable[[bool], Figure], caption: str) -> Picture:
    return Picture(_png(draw(False)), _png(draw(True)), caption)


def _png(figure: Figure) -> str:
    """Render without the date, host or path that metadata could tell."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, transparent=True, metadata={"Software": None})
    return base64.b64encode(buffer.getvalue()).decode("ascii")
