"""A plan in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.private_model__told import clip_words
from pymc_private.privacy.neighbors import changed
from pymc_private.privacy.rounding__printing import counted, number

if TYPE_CHECKING:
    from pymc_private.posterior.plan import Plan

LITTLE = 0.05
"""Below this share of the records' information a plan says loudly that little is kept."""


def summary_of(plan: Plan) -> Iterator[str]:
    """Lines: the price, what is kept, what is proved, the region, and warnings."""
    spent = plan.guarantee.epsilon(plan.delta)
    kind = "conditional" if plan.certificate.terms.claimed else "proved"
    yield (
        f"{counted(plan.draws, f'{kind} draw')} ({plan.sampler}) for epsilon = {number(spent, 6)} "
        f"of {number(plan.epsilon, 6)}, delta = {number(plan.delta, 6)}; "
        f"{plan.guarantee.road(plan.delta)}"
    )
    yield f"keeps {_kept(plan)}"
    if plan.chosen.clipped:
        yield (
            "WARNING: CLIPPED, so this is another model: records that it finds unlikely count "
            "less. The ends were chosen on simulated records"
        )
    yield _bound(plan)
    terms = plan.certificate.terms
    if str(terms) != "exact":
        yield f"sampler: {replace(terms, slack=terms.slack * plan.private.power)}"
    if _is_mute(plan):
        yield "WARNING: a grid of a single point: every draw is that point, whatever the data"
    elif terms.is_coarse:
        yield (
            f"WARNING: a coarse grid, {counted(terms.points, 'point')} along each continuous "
            f"coordinate: a draw tells a parameter to 1/{terms.points} of its box at best"
        )
    if plan.strict:
        yield f"in floating point; not taken: {'; '.join(plan.fallen)}"
    yield from _region(plan)
    if math.isfinite(plan.chosen.information) and not _is_mute(plan):
        yield from _judged(plan)
    if float(plan.private.power) < LITTLE:
        yield (
            "WARNING: little information is kept; fewer draws, a smaller box, a narrower "
            "domain, a larger budget or clip=True might keep more"
        )


def _is_mute(plan: Plan) -> bool:
    """Whether there is a single point that draws could be."""
    kinds = [str(v.type.dtype) for v in plan.private.graph.parameters.values()]
    return plan.certificate.terms.points == 1 and all(kind.startswith("float") for kind in kinds)


def _kept(plan: Plan) -> str:
    power = number(plan.private.power, 6)
    if _is_mute(plan):
        return f"no information of any record: there is nothing to draw (power {power})"
    if plan.n is None:
        share = float(plan.private.power)
        return f"{share:.3g} of the information of each record (power {power})"
    kept = plan.records_kept
    worth = f"{kept:.0f}" if kept >= 1 else f"{kept:.2g}"
    return f"the information of {worth} of {counted(plan.n, 'record')} (power {power})"


def _bound(plan: Plan) -> str:
    """What is proved of one record."""
    pair = plan.certificate.charged_pair
    if pair is not None:
        return f"the worst pair of posteriors: {pair.words(plan.certificate.power)}"
    if math.isinf(plan.certificate.range):
        return f"one exact draw is {number(plan.certificate.mu, 6)}-GDP (T7)"
    return (
        f"{changed(plan.private.neighbors)} the tempered log-likelihood by a range of at most "
        f"{number(plan.certificate.range, 6)} nats"
    )


def _region(plan: Plan) -> Iterator[str]:
    """Where the parameters may lie, and between which ends log-likelihoods count."""
    private = plan.private
    if private.region:
        mass = plan.chosen.mass
        held = f"; prior mass about {mass:g}" if mass else ""
        yield f"prior restricted to {', '.join(_region_words(private))}{held}"
    if private.theta_l is not None:
        counted = private.__dict__.get("prior_mass")  # when it was trimmed
        keeps = f"; keeps {counted}" if counted is not None else ""
        yield f"and to {private.theta_l.words}{keeps}"
    if private.graph.clip is not None:
        yield f"clipped: {clip_words(private.graph)}"


def _judged(plan: Plan) -> Iterator[str]:
    """What the choice rests on, and what the other numbers of draws would leave."""
    chosen, ways = plan.chosen, sum(row.draws == plan.draws for row in plan.frontier)
    best = f", the best of {ways} ways" if ways > 1 else ""
    if plan.whole > 0:
        learned = f"{chosen.information:.3g} of {plan.whole:.3g} nats{best}"
        yield f"expected to learn {learned} ({plan.judged})"
    else:  # no score differs from zero, which says nothing of the whole box
        yield (
            "what draws teach could not be judged: near no prior draw does the log-likelihood of "
            f"the records vary ({plan.judged})"
        )
    others = [row for row in plan.frontier if row.chosen and row.draws != plan.draws]
    if others:
        kept = ", ".join(f"{counted(row.draws, 'draw')}: {_left(row, plan.n)}" for row in others)
        yield f"with other numbers of draws (plan.at): {kept}"


def _left(row: object, n: int | None) -> str:
    power = float(row.power * row.private.power)  # type: ignore[attr-defined]
    return f"{power:.3g} of each record" if n is None else counted(round(power * n), "record")


def _region_words(private: PrivateModel) -> list[str]:
    return [
        f"{name} in [{float(b.lower.min()):.4g}, {float(b.upper.max()):.4g}]"
        for name, b in private.region.items()
    ]
