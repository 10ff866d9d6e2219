"""Parts of every charged summary: noise, records, rehearsal on made-up ones, and public facts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_private.errors import NotInformative, PrivacyWarning
from pymc_private.ledger import Ledger
from pymc_private.models.data_clipping import clip_to_domain
from pymc_private.models.fingerprint import declaration_fingerprint
from pymc_private.models.made_up_records import (
    corner_records,
    simulated_records,
    stand_in_models,
    uniform_records,
)
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import temporary_records
from pymc_private.models.verdict import WEAK_SHARE
from pymc_private.privacy import Guarantee
from pymc_private.privacy.rounding import format_count
from pymc_private.release.draws_job import promised_guarantee, publication_facts
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness
from pymc_private.summaries.exact_totals import Totals
from pymc_private.summaries.noise import CHUNK, LatticeNoise, SimulatedNoise
from pymc_private.summaries.protocol import Records, Released, SummaryNoise
from pymc_private.summaries.record_table import ArrayRecords
from pymc_private.summaries.rehearse import Rehearsal, rehearse_summary
from pymc_private.summaries.scores.pilot_part import PilotPart
from pymc_private.summaries.summary import Summary
from pymc_private.summaries.summary_plan import (
    LABEL,
    LEAST_NATS,
    SummaryPlan,
    summary_improvements,
)
from pymc_private.summaries.tables.coins import drawn_coins

COIN_SEED = 37
"""Sets the coins of a seeded release apart from its noise."""


def private_noise(private: PrivateModel) -> SummaryNoise:
    """Noise for a charged release, from the operating system's randomness."""
    return LatticeNoise(SystemRandomness(), private.neighbors, private.records_per_unit)


def seeded_noise(private: PrivateModel, seed: int | Sequence[int]) -> SummaryNoise:
    """Noise that anyone can compute: not private."""
    rng = np.random.default_rng(seed)
    return SimulatedNoise(rng, private.neighbors, private.records_per_unit)


def made_up_noise(private: PrivateModel) -> SummaryNoise:
    """Noise of a public seed for a rehearsal, made as that of a charged release."""
    randomness = SeededRandomness.from_seed(0)
    return LatticeNoise(randomness, private.neighbors, private.records_per_unit)


def refuse_uninformative(plan: SummaryPlan) -> None:
    """Refuse to charge for a summary that is expected to tell next to nothing."""
    nats = plan.nats
    if not nats >= LEAST_NATS:
        got = f"{nats:.2g} nats about {format_count(plan.mechanism.parameters.size, 'parameter')}"
        allowed = f"at least {LEAST_NATS:g} nat"
    elif plan.verdict == "prior":
        got = f"expected to remove {plan.information:.2g} of the prior variance of a parameter"
        allowed = f"at least {WEAK_SHARE}"
    else:
        return
    raise NotInformative(
        "this summary would hardly tell more than the prior; nothing was charged",
        got=got,
        allowed=f"{allowed}, or accept_prior=True",
        do=f"what may tell more: {', '.join(summary_improvements(plan))}",
    )


def warn_of_another_ledger(summary: Summary, ledger: Ledger | None, what: str) -> None:
    """Warn where what follows on a summary is charged to a ledger that did not pay for it.

    Called by a function of the user. Without any ledger the charge itself warns.

    Parameters
    ----------
    summary : Summary
    ledger : Ledger or None
        Default: that of the context.
    what : str
        What is charged now: "round" or "check".
    """
    ledger = ledger if ledger is not None else Ledger.current()
    paid = summary.facts.get("ledger_head")
    if ledger is None or not summary.private or any(e.head == paid for e in ledger.entries):
        return
    warnings.warn(
        f"this ledger was not charged for the summary, only for this {what}: what it says was "
        "spent lacks the summary, though both are of the same records. The guarantee of both "
        "together is told right. Pass the ledger that paid for the summary",
        PrivacyWarning,
        stacklevel=3,
    )


def rehearse_release(
    plan: Any,
    release: Callable[[Records, SummaryNoise], Released],
    build: Callable[[Released], Summary],
) -> Rehearsal:
    """Rehearse on made-up records all that a charged release does.

    Parameters
    ----------
    plan : SummaryPlan or RefinementPlan
        Has the model and the mechanism of the summary.
    release : callable
        Records and noise to what leaves.
    build : callable
        What leaves to a summary.
    """

    def clipped_release(private: PrivateModel) -> Released:
        clip_to_domain(private, "summarize")
        return release(repeated_records(private), made_up_noise(private))

    kinds = (simulated_records, uniform_records, corner_records)
    with temporary_records(plan.private.graph):
        stand_ins = stand_in_models(plan.private, kinds)
        return rehearse_summary(plan, stand_ins, clipped_release, build)


def records_of(private: PrivateModel) -> dict[str, np.ndarray]:
    """The private data by name of the source, records along the first axis."""
    return {s.name: np.moveaxis(np.asarray(s.values()), s.axis, 0) for s in private.sources}


def clipped_records_of(
    private: PrivateModel,
    table: Records | None,
    caller: str,
    part: PilotPart | None = None,
    seed: int | Sequence[int] | None = None,
) -> Records:
    """The records to read after a charge: of a table, or the model's own, clipped once more.

    Where pilots read a `part` of the model's own, which of them is drawn anew (T37).
    """
    if table is not None:
        return table
    clip_to_domain(private, caller)
    records = records_of(private)
    if part is None:
        return records
    apart = COIN_SEED, *np.atleast_1d(0 if seed is None else seed).tolist()  # not that of the noise
    rng = None if seed is None else np.random.default_rng(apart)
    count = len(next(iter(records.values())))
    return ArrayRecords(records, drawn_coins(count, part.threshold, rng))


@dataclass(frozen=True, eq=False)
class RepeatedRecords(ArrayRecords):
    """Some records, whose exact totals are those of as many times more of them."""

    times: int = 1

    def sum_up(self, work: Any, size: int) -> Totals:
        """As of `protocol.RecordTable`."""
        return [[self.times * value for value in one] for one in super().sum_up(work, size)]


def repeated_records(private: PrivateModel) -> Records:
    """Records of a stand-in; placeholder rows are repeated to about a chunk of them.

    Their totals are of about as many as the table has, which a likelihood of counts knows.
    """
    records = records_of(private)
    if private.table_rows is None:
        return records
    rows = np.arange(min(private.table_rows, CHUNK)) % private.n
    repeated = {name: values[rows] for name, values in records.items()}
    return RepeatedRecords(repeated, times=private.table_rows // len(rows))


@dataclass(frozen=True)
class Together:
    """What was charged for a summary, alone or with others.

    Attributes
    ----------
    guarantee : Guarantee
        Of all that was charged at once.
    delta : float
        At which a ledger was charged.
    facts : mapping
        Public facts of the others.
    """

    guarantee: Guarantee
    delta: float
    facts: Mapping[str, Any] = field(default_factory=dict)


def build_summary(
    plan: SummaryPlan,
    released: Mapping[str, np.ndarray],
    name: str | None,
    ledger_facts: Mapping[str, Any] | None,
    together: Together | None = None,
) -> Summary:
    """The summary with public facts; without those of a ledger it is a seeded one.

    `together`: what was charged, if it was charged with others.
    """
    model, mechanism = plan.private, plan.mechanism
    charged = together or Together(plan.guarantee, plan.charged_delta)
    guarantee = promised_guarantee(charged.guarantee, ledger_facts)
    cautions = [{"text": c.text, "refuse": c.refuse} for c in mechanism.warnings(released)]
    coverage = plan.found_coverage
    facts = {
        "method": plan.method,
        "claim": "proved (in floating point)",
        "label": LABEL,
        "asked": plan.epsilon,
        "records": model.records,
        "domain": model.domain,
        "n": plan.n,
        "guess": plan.guess,
        "trim": {k: [b.lower.tolist(), b.upper.tolist()] for k, b in model.region.items()},
        "mechanism": dict(mechanism.facts),
        "parameters": list(mechanism.parameters.names),
        "size": int(mechanism.parameters.size),
        "information": _finite(plan.nats),
        "share": _finite(plan.information),
        "verdict": plan.verdict,
        "coverage": None if coverage is None else coverage.facts,
        "cautions": cautions,
        "withheld": [],
        "model": plan.structure,
        "declaration": declaration_fingerprint(model),
    }
    facts |= dict(charged.facts) | publication_facts(guarantee, charged.delta, name, ledger_facts)
    return Summary(released, guarantee, facts, private=ledger_facts is not None)


def _finite(value: float) -> float:
    """A number for JSON: what is not known is 0."""
    return float(value) if np.isfinite(value) else 0.0
