"""The privacy report on a release: its sections and sentences, as text and as one HTML page."""

from __future__ import annotations

import base64
import io
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_private.certificates.terms import VERIFIED_ARITHMETIC
from pymc_private.errors import DomainError, Incompatible, suggest_arguments
from pymc_private.models import compat
from pymc_private.models.bambi import formula_name
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import describe_neighbors
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.release import display, estimates
from pymc_private.release.allowed import as_float
from pymc_private.release.learned import learned_lines, model_lines, relative_widths
from pymc_private.release.release import Release
from pymc_private.release.storage import write_atomically
from pymc_private.report import plots, render, summary_sections
from pymc_private.report.render import (
    WIDTH,
    BulletList,
    FieldList,
    Picture,
    ReportTable,
    Section,
    Verbatim,
    as_text,
)
from pymc_private.report.theorems import theorem_text
from pymc_private.summaries.summary import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 60
"""Elements in the table of the posterior."""
SUMMARY_COLUMNS = {"mean": "mean", "sd": "sd", "mcse": "mcse_mean", "5%": "lower", "95%": "upper"}
"""Titles in the table of the posterior, and the columns of its summary."""
OPTIONAL = ("of prior", "error ≤")
"""Columns that are left out where nothing is known."""
UNBOUNDED = "no public range bounds the variable, as the box of a trimmed prior does"
DPI = 150
PAGE_SUFFIXES = (".html", ".htm", "")
NEIGHBOR_CHANGES = {
    "substitute": "one {unit} is replaced by any other that the domain allows; "
    "how many there are is public",
    "any": "the whole data set is replaced by any other, of any size",
    "add_remove": "one {unit} is added or removed; how many there are is protected too",
}
NOT_COVERED = (
    "The guarantee covers the draws in this release. It does not cover what else a fitted model "
    "carries: observed and constant data, log-likelihoods, energies, step sizes, acceptance and "
    "divergences, warm-up draws, starting points.",
    "Run time, retries, a run that was stopped, and seeds: none of them may be published.",
    "Predictions that use private covariates. Predictions on fresh public covariates are free.",
    "Choices made after looking at the data: scaling by its mean or range, priors and domains "
    "set from it, a number of draws picked from diagnostics, a model picked from several. "
    "Each voids the claim.",
    "A second budget on the same data: budgets add up, whoever holds them.",
    "What is true of the population. A record can be guessed from what the posterior teaches "
    "about everyone, whether or not that record took part.",
)
REAL_ARITHMETIC_ASSUMPTION = (
    "Arithmetic on real numbers is assumed, and random bits that nobody knows."
)
RANDOMNESS_ASSUMPTION = "Random bits that nobody knows are assumed."


@dataclass(frozen=True, repr=False)
class Report:
    """A finished report.

    Attributes
    ----------
    text : str
        Plain text, for a terminal or a log.
    html : str
        A complete page: inline style and pictures, no script, nothing fetched.
    fragment : str
        The same as an ``article``, as notebooks show it.
    """

    text: str
    html: str
    fragment: str

    def save(self, path: str | os.PathLike[str] = "report.html") -> Path:
        """Write the page, whole or not at all; an older one is replaced.

        Raises
        ------
        DomainError
            The name has another ending than ``.html`` or ``.htm``.
        """
        suffix = Path(path).suffix.lower()
        if suffix not in PAGE_SUFFIXES:
            raise DomainError(
                "A report is saved as a web page.",
                got=f"a file that ends in {suffix}",
                allowed=" or ".join(PAGE_SUFFIXES[:2]) + ", or no ending",
                do="save it as .html; a browser prints it as PDF, and word processors open it",
            )
        return write_atomically(path, self.html.encode("utf-8"))

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.fragment


@suggest_arguments
def report(release: Release | Summary, ledger: Any = None) -> Report:
    """Report on a release: promise, assumptions, budget and posterior (or summary), side by side.

    Everything in it is public or computed from the released draws, so it may be published with
    them. It shows which charges were made, never when or which were drawn to the end.

    Parameters
    ----------
    release : Release or Summary
    ledger : Ledger, optional
        For the account of spent and left; else the facts of the release say what they know.

    Returns
    -------
    Report

    Raises
    ------
    DomainError
        Not a release, or not a ledger.
    Incompatible
        The ledger counts other neighbors than the release.
    """
    if not isinstance(release, Release | Summary):
        raise DomainError(
            "A report is about a release.",
            got=type(release).__name__,
            do="pmp.load(path) for a saved one",
        )
    if ledger is not None and not hasattr(ledger, "neighbors"):
        raise DomainError(
            "The account is that of a ledger.",
            got=type(ledger).__name__,
            do="pmp.Ledger.open(path) opens one; report(release).save(path) writes a file",
        )
    if ledger is not None and ledger.neighbors != release.guarantee.neighbors:
        raise Incompatible(
            "Ledger and release speak of different neighbors.",
            got=ledger.neighbors,
            allowed=release.guarantee.neighbors,
        )
    shown: Any = release  # sections read facts, guarantee and fingerprint, which both have
    what = "Noisy summary" if _is_summary(shown) else display.distribution_name(shown).capitalize()
    title = release.facts.get("name") or what
    sections = report_sections(shown, ledger)
    assumptions = display.assumptions(shown)
    body = render.fragment(
        title, _subtitle(shown), _headline(shown), claim_text(shown), assumptions, sections,
        alarm=not release.private, learned=[text for _, text in _told_rows(shown)],
    )  # fmt: skip
    return Report(
        _report_text(title, shown, sections), render.page(f"{title}: privacy report", body), body
    )


def _is_summary(release: Any) -> bool:
    return isinstance(release, Summary)


def _told_rows(release: Any) -> Sequence[tuple[str, str]]:
    """What the draws or the summary tell, and first of which model, if not of the one written."""
    if _is_summary(release):
        return [("learned", text) for text in summary_sections.told_lines(release)]
    models, learned = model_lines(release), learned_lines(release)
    return [("model", text) for text in models] + [("learned", text) for text in learned]


def _headline(release: Release) -> str:
    """Epsilon and delta, or that the release is not private."""
    if not release.private:
        return display.guarantee_line(release)
    epsilon, delta = display.stated_epsilon_delta(release)
    epsilon_text, delta_text = (_superscript(format_number(v)) for v in (epsilon, delta))
    return f"ε = {epsilon_text} nats,  δ = {delta_text}"


def _superscript(number: str) -> str:
    """Write 1e-6 as 10⁻⁶."""
    mantissa, e, exponent = number.partition("e")
    if not e:
        return number
    raised = exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if mantissa == "1" else f"{mantissa}·10{raised}"


def _subtitle(release: Release) -> str:
    if _is_summary(release):
        return summary_sections.subtitle(release)  # type: ignore[arg-type]
    names = ", ".join(
        display.describe_variable(array) for array in release.posterior.data_vars.values()
    )
    return f"{format_count(release.posterior.sizes['draw'], 'draw')} of {names}"


def _report_text(title: str, release: Release, sections: Sequence[Section]) -> str:
    head = [
        f"Privacy report: {title}",
        _subtitle(release),
        *map(as_text, (FieldList((row,)) for row in _told_rows(release))),
        "",
        display.guarantee_line(release),
    ]
    if release.private:
        assumptions = display.assumptions(release) or (display.ONLY_ASSUMED,)
        head += [f"claim: {claim_text(release)}", as_text(FieldList(tuple(
            ("assuming" if i == 0 else "", text) for i, text in enumerate(assumptions)
        )))]  # fmt: skip
    parts = ["\n".join(head)]
    for section in sections:
        texts = [text for text in map(as_text, section.blocks) if text]
        if texts:
            parts.append("\n".join([section.title, "-" * len(section.title), *texts]))
    rule = "=" * WIDTH
    return f"{rule}\n" + "\n\n".join(parts) + f"\n{rule}"


def report_sections(release: Release, ledger: Any = None) -> list[Section]:
    """List the sections of the report on a release, those without content left out."""
    candidates = (
        _meaning_section(release),
        _budget_section(release, ledger),
        *_content_sections(release),
        _curve_section(release),
        _terms_section(release),
        _certificate_section(release),
        Section("Not covered", (BulletList(not_covered(release)),)),
        _origin_section(release),
        _citations_section(release),
    )
    return [section for section in candidates if section.blocks]


def _content_sections(release: Any) -> tuple[Section, ...]:
    """What was released: a posterior and its draws, or a summary and its mechanism."""
    if _is_summary(release):
        return (
            summary_sections.posterior_section(release),
            summary_sections.released_section(release),
            summary_sections.mechanism_section(release),
        )
    return _posterior_section(release), _draws_section(release)


def _meaning_section(release: Release) -> Section:
    return Section("What this means", (BulletList(plain_meaning(release)),))


def _budget_section(release: Release, ledger: Any) -> Section:
    if not release.private:
        free = "A seeded run charges nothing: it is outside every budget, and not private."
        return Section("Budget", (BulletList((free,)),), beside=True)
    charges, spent, budget = _charges_and_totals(release, ledger)
    rows = [
        (label, *_epsilon_and_delta(guarantee, release))
        for label, guarantee in charges
        if isinstance(guarantee, Guarantee)
    ]
    blocks: list[Any] = [_render_picture(
        partial(plots.plot_budget, release, ledger),
        "What is spent and what is left, as shares of the budget."
        if ledger is not None
        else "This release as a share of the budget.",
        narrow=False,
    )]  # fmt: skip
    if caveat := _ledger_note(release, ledger):
        blocks.insert(0, BulletList((caveat,)))
    if rows:
        note = "Each charge alone; together they may cost less than their sum."
        head = ("charge", "epsilon", "delta")
        blocks.append(ReportTable(head, tuple(rows), note if len(rows) > 1 else ""))
    if texts := [(label, text) for label, text in charges if isinstance(text, str)]:
        blocks.append(FieldList(tuple(texts)))
    totals = [("spent", spent, True), ("budget", budget, True)]
    if ledger is not None:
        totals.insert(1, ("left", tuple(ledger.left), False))
    pairs = [(title, _amount_text(amount, up=up)) for title, amount, up in totals if amount]
    if data := getattr(ledger, "data", ""):
        pairs.append(("data", data))
    if parts := _parts_of_delta(ledger):
        pairs.append(("parts of delta", parts))
    blocks.append(FieldList(tuple(pairs)))
    return Section("Budget", tuple(blocks), beside=True)


ADDED = {"zcdp": "zCDP", "approximate": "sums of epsilons and deltas"}
"""Accounting methods of a ledger that need a delta, in words."""


def _parts_of_delta(ledger: Any) -> str:
    """How a ledger divides delta, which explains why only a part of it is spent."""
    methods = {} if ledger is None else ledger.methods
    shares = {name: m.share for name, m in methods.items() if m.share and m.spent is not None}
    if len(shares) < 2:
        return ""
    parts = ", ".join(
        f"{format_number(v, up=False)} for {ADDED[k]}" for k, v in shares.items() if k in ADDED
    )
    return (
        f"{parts}: each accounting method has a part of its own; spent is told by the one of the "
        "smallest epsilon, at its part"
    )


def _ledger_note(release: Release, ledger: Any) -> str:
    """A caveat where the ledger is not known to hold the charge of this release."""
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


def _charges_and_totals(
    release: Release, ledger: Any
) -> tuple[list[tuple[str, Guarantee | str]], Any, Any]:
    """Charges, spent and budget: from the ledger if there is one, else from the facts."""
    if ledger is not None:
        entries = [(entry.label, entry.guarantee) for entry in ledger.entries]
        return entries, tuple(ledger.spent), tuple(ledger.budget)
    charges = [
        (charge["label"], _stored_guarantee(charge["guarantee"]))
        for charge in release.facts.get("charges", [])
    ]
    budget = release.facts.get("budget")
    return charges, None, budget and (budget["epsilon"], budget["delta"])


def _stored_guarantee(stored: str | dict[str, Any]) -> Guarantee | str:
    return stored if isinstance(stored, str) else Guarantee.from_dict(stored)


def _epsilon_and_delta(guarantee: Guarantee, release: Release) -> tuple[str, str]:
    """Epsilon and delta of one charge, at the delta of the release."""
    delta = as_float(release.facts.get("delta", 0))
    return format_number(guarantee.epsilon(delta)), format_number(delta)


def _amount_text(amount: Iterable[float | str | Fraction], *, up: bool) -> str:
    epsilon, delta = amount
    return f"epsilon {format_number(epsilon, up=up)}, delta {format_number(delta, up=up)}"


def _posterior_section(release: Release) -> Section:
    frame = compat.summarize_posterior(release.posterior)
    names = [str(name) for name in release.posterior.data_vars]
    widths = np.concatenate([relative_widths(release, name) for name in names])
    bound = np.concatenate([
        np.ravel(np.asarray(estimates.mean(release, name).error)) for name in names
    ])  # fmt: skip
    bound = np.where(np.isinf(bound), np.nan, bound)
    unbounded = np.isnan(bound)
    columns = {title: frame[key].to_numpy() for title, key in SUMMARY_COLUMNS.items()}
    columns |= {"of prior": widths, "error ≤": bound}
    labels = list(frame.index[:MAX_ROWS])
    shown = {t: c for t, c in columns.items() if t not in OPTIONAL or not np.isnan(c).all()}
    rows = display.element_rows(labels, *shown.values(), digits=3)
    note = _posterior_note(release, "of prior" in shown, float(unbounded.mean()))
    more = len(frame) - len(labels)
    note += f" {format_count(more, 'more element')} in release.posterior." if more else ""
    table = ReportTable(("", *shown), tuple(map(tuple, rows)), note)
    exact = display.distribution_name(release).endswith("posterior")
    return Section("Posterior" if exact else "Estimates", (table,), beside=True)


def _posterior_note(release: Release, widths: bool, unbounded: float) -> str:
    """What the columns of the table are; `unbounded` is the share of means without a bound."""
    notes = [
        f"Of {display.sampled_distribution(release)}.",
        "mcse: Monte Carlo standard error by ArviZ, a dash if there are too few draws.",
    ]
    if widths:
        notes.append(
            "of prior: width of the draws in widths of the prior, on the scale on which the prior "
            "is normal."
        )
    if unbounded < 1:
        dash = f"; a dash where {UNBOUNDED}" if unbounded else ""
        notes.append(f"error: the mean is off by no more, with confidence 0.95 (Hoeffding){dash}.")
    else:
        notes.append(f"The error of a mean has no bound: {UNBOUNDED}.")
    return " ".join(notes)


def _draws_section(release: Release) -> Section:
    picture = _render_picture(
        partial(plots.plot_posterior, release),
        "The released draws.",
    )
    return Section("Draws", (picture,))


def _curve_section(release: Release) -> Section:
    if not release.private:
        return Section("Privacy curve", ())
    _, delta = display.stated_epsilon_delta(release)
    picture = _render_picture(
        partial(plots.plot_curve, release.guarantee, delta=delta),
        "The guarantee holds at every point on the curve at once.",
    )
    return Section("Privacy curve", (FieldList(accounting_facts(release)), picture))


def _terms_section(release: Release) -> Section:
    facts = release.facts
    rows = [
        ("records", _fact_text(facts.get("records"))),
        ("domain", _fact_text(_by_formula_name(facts.get("domain")))),
        ("trim", _fact_text(facts.get("trim"))),
        ("power", _power_text(facts.get("power"))),
        ("clip", _fact_text(facts.get("clip"))),
        ("grid", _fact_text(facts.get("grid"))),
        ("withheld", display.withheld_variables(release) or "nothing"),
    ]
    return Section("Terms", (FieldList(tuple((title, text) for title, text in rows if text)),))


def _certificate_section(release: Release) -> Section:
    text = release.facts.get("certificate")
    return Section("Certificate", (Verbatim(text),) if text else ())


def _origin_section(release: Release) -> Section:
    facts = release.facts
    versions = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    rows = (
        ("sampler", facts.get("sampler", "")),
        ("model", facts.get("model", "")),
        ("release", release.fingerprint),
        ("ledger head", facts.get("ledger_head", "")),
        ("versions", versions),
    )
    return Section("Origin", (FieldList(tuple((title, text) for title, text in rows if text)),))


def _citations_section(release: Release) -> Section:
    text = release.cite()
    return Section("To cite", (Verbatim(text),) if text else ())


def _by_formula_name(domain: Any) -> Any:
    """The domains by the names that the formula of a Bambi model has for its data."""
    if not isinstance(domain, Mapping):
        return domain
    return {formula_name(str(name)) or name: value for name, value in domain.items()}


def _fact_text(value: Any) -> str:
    """Write a fact for people: dicts as lines, lists as sentences."""
    if value is None or value == "":
        return ""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_fact_text(item)}" for key, item in value.items())
    if isinstance(value, list):
        texts = ", ".join(map(_fact_text, map(_collapse_equal, value)))
        return texts if all(isinstance(item, str) for item in value) else f"[{texts}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _power_text(value: Any) -> str:
    """Write an exact power as people read it, and as it is."""
    if value is None:
        return ""
    short, exact = f"{as_float(value):.4g}", str(value)
    return short if short == exact else f"{short} (exactly {exact})"


def _collapse_equal(value: Any) -> Any:
    """Write the bounds of a box once if they are the same for all elements."""
    if not isinstance(value, list):
        return value
    inner = [_collapse_equal(item) for item in value]
    return inner[0] if inner and all(item == inner[0] for item in inner) else inner


def _render_picture(draw: Callable[..., Figure], caption: str, *, narrow: bool = True) -> Picture:
    """A picture for light and dark pages, and narrow ones where a wide one would not be read."""
    wide = _png(draw(dark=False)), _png(draw(dark=True))
    if not narrow:
        return Picture(wide, wide, caption)
    small = partial(draw, width=plots.NARROW)
    return Picture(wide, (_png(small(dark=False)), _png(small(dark=True))), caption)


def _png(figure: Figure) -> str:
    """Render without the date, host or path that metadata could tell."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, transparent=True, metadata={"Software": None})
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def not_covered(release: Release) -> tuple[str, ...]:
    """Sentences on what no guarantee covers, and what this one assumes of arithmetic."""
    if _is_summary(release):
        rest = NOT_COVERED[1:]
        return (*summary_sections.SUMMARY_NOT_COVERED, *rest, RANDOMNESS_ASSUMPTION)
    verified = VERIFIED_ARITHMETIC in release.guarantee.assumptions
    return (*NOT_COVERED, RANDOMNESS_ASSUMPTION if verified else REAL_ARITHMETIC_ASSUMPTION)


def neighbors_sentence(release: Release) -> str:
    """The pairs of data sets that the draws do not tell apart."""
    records = release.facts.get("records")
    unit = f"record ({records})" if isinstance(records, str) and records else "record"
    neighbors = release.guarantee.neighbors
    change = NEIGHBOR_CHANGES.get(neighbors) or describe_neighbors(neighbors)
    return f"Neighbors: {change.format(unit=unit)}."


def plain_meaning(release: Release) -> tuple[str, ...]:
    """The meaning of epsilon and delta in plain words, rounded up."""
    what, these = ("summary", "this summary") if _is_summary(release) else ("draws", "these draws")
    if not release.private:
        return (
            "The noise of this summary came from a known seed, so anyone can take it off: it "
            "protects nobody and must stay with the curator."
            if what == "summary"
            else "These draws came from a known seed, so they are a fixed function of the data: "
            "they protect nobody and must stay with the curator.",
        )
    epsilon, delta = display.stated_epsilon_delta(release)
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    additive = f", plus {format_number(delta)} in probability" if delta else ""
    return (
        neighbors_sentence(release),
        f"Whatever is computed from {these} becomes at most {format_number(factor)} times "
        f"as likely through such a change{additive}.",
        "Someone who knows everything else, and has narrowed the data down to two neighbors, "
        f"tells from the {what} which one it is with probability at most "
        f"{percent_text(guessing_probability(release))} (50% is a blind guess).",
    )


def guessing_probability(release: Release) -> float:
    """Bound on the probability to tell apart two neighbors that were equally likely before.

    (1 + TV) / 2, where TV is delta(0), and at most (e^epsilon - 1 + 2 delta) / (e^epsilon + 1)
    at the stated (epsilon, delta).
    """
    epsilon, delta = display.stated_epsilon_delta(release)
    advantage = math.tanh(epsilon / 2) + 2 * delta / (math.exp(min(epsilon, 700)) + 1)
    return (1 + min(1.0, advantage, release.guarantee.delta(0.0))) / 2


def percent_text(probability: float) -> str:
    """A probability in percent, rounded up to a tenth."""
    return f"{min(100.0, math.ceil(probability * 1000 - 1e-9) / 10):g}%"


def claim_text(release: Release) -> str:
    """How much of the guarantee is proved."""
    if not release.private:
        return display.NOT_PRIVATE
    if _is_summary(release):
        return summary_sections.label(release)  # type: ignore[arg-type]
    return release.facts.get("claim") or "no claim stated"


def accounting_facts(release: Release) -> tuple[tuple[str, str], ...]:
    """The accounting method that gives the stated epsilon, and the theorem it starts from."""
    _, delta = display.stated_epsilon_delta(release)
    return (
        ("accounting", release.guarantee.accounting_method(delta)),
        ("theorem", theorem_text(release.guarantee.theorem)),
    )
