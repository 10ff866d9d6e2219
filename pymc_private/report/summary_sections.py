"""What a report says of a noisy summary alone: what it tells, what was released, what it covers."""

from __future__ import annotations

import math

from pymc_private.privacy.rounding import format_count
from pymc_private.report.render import BulletList, FieldList, ReportTable, Section
from pymc_private.summaries.summary import (
    Summary,
    label_sentence,
    rounds_sentence,
    together_sentence,
    verdict_sentence,
)

SUMMARY_NOT_COVERED = (
    "The guarantee covers the summary, and with it whatever is computed from the summary alone: "
    "its model, every draw of pm.sample on it, predictions at public covariates, other priors. It "
    "does not cover a fit of the original model to the data.",
)


def told_lines(summary: Summary) -> tuple[str, ...]:
    """What the summary was expected to tell, then reasons to distrust its posterior."""
    cautions = tuple(
        f"{'REFUSED' if caution.refuse else 'WARNING'}: {caution.text}"
        for caution in summary.warnings
    )
    return (f"Verdict: {verdict_sentence(summary.facts)}.", *cautions)


def subtitle(summary: Summary) -> str:
    """The method, and what the summary is about."""
    facts = summary.facts
    size = format_count(facts["size"], "parameter")
    return f"a noisy summary ({facts['method']}) of {size}: {', '.join(facts['parameters'])}"


def label(summary: Summary) -> str:
    """How far privacy and posterior are proved."""
    return label_sentence(summary.facts)


def released_section(summary: Summary) -> Section:
    """The arrays that were released, without their numbers."""
    rows = tuple(
        (name, " x ".join(map(str, array.shape)) or "1", str(math.prod(array.shape)))
        for name, array in summary.released.items()
    )
    note = "Noisy sums, and public constants of their likelihood: all that leaves."
    return Section("Released", (ReportTable(("array", "shape", "numbers"), rows, note),))


def posterior_section(summary: Summary) -> Section:
    """How to get a posterior, and what simulations found of it."""
    facts = summary.facts
    sentences = [
        "with summary.model(): pm.sample() gives draws of the parameters given the summary. It is "
        "post-processing: any number of draws, all diagnostics and predictions at public "
        "covariates may be published.",
        "The likelihood of the noisy sums is a normal approximation (central limit): privacy does "
        "not depend on it, the posterior does.",
    ]
    coverage = facts.get("coverage")
    if coverage is None:
        sentences.append("Not simulated: plan.coverage() tells how often its intervals hold.")
    else:
        more = f", {coverage['refused']} refused" if coverage["refused"] else ""
        sentences.append(f"Simulated before the data were read: {coverage['sentence']}{more}.")
    more_releases = filter(None, (together_sentence(facts), rounds_sentence(facts)))
    sentences += [f"{text[0].upper()}{text[1:]}." for text in more_releases]
    return Section("Posterior", (BulletList(tuple(sentences)),), beside=True)


def mechanism_section(summary: Summary) -> Section:
    """Public facts of the mechanism."""
    facts = summary.facts["mechanism"] or {}
    plain = {key: value for key, value in facts.items() if isinstance(value, str | int | float)}
    pairs = tuple((key.replace("_", " "), _text(value)) for key, value in plain.items())
    return Section("Mechanism", (FieldList(pairs),) if pairs else ())


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
