"""The sentences of a report: what is protected, what an attacker gains, what is not covered."""

from __future__ import annotations

import math
from pymc_private.release import display
from pymc_private.release.release import Release
from pymc_private.certificates.terms import STRICT
from pymc_private.privacy.neighbors__neighbors import in_words

NEIGHBORS = {
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
REAL_NUMBERS = "Arithmetic on real numbers is assumed, and random bits that nobody knows."
FLOATS = "Random bits that nobody knows are assumed."


def not_covered(release: Release) -> tuple[str, ...]:
    """Say what no guarantee covers, and what this one assumes of arithmetic."""
    strict = STRICT in release.guarantee.assumptions
    return (*NOT_COVERED, FLOATS if strict else REAL_NUMBERS)


def protected(release: Release) -> str:
    """Say between which datasets the draws cannot tell."""
    records = release.facts.get("records")
    unit = f"record ({records})" if isinstance(records, str) and records else "record"
    neighbors = release.guarantee.neighbors
    change = NEIGHBORS.get(neighbors) or in_words(neighbors)
    return f"Neighbors: {change.format(unit=unit)}."


def meaning(release: Release) -> tuple[str, ...]:
    """Say in plain words what the numbers mean, rounded against us."""
    if not release.private:
        return (
            "These draws came from a known seed, so they are a fixed function of the data: "
            "they protect nobody and must stay with the curator.",
        )
    epsilon, delta = display.stated(release)
    factor = math.exp(epsilon) if epsilon < 700 else math.inf
    slip = f", plus {display.number(delta)} in probability" if delta else ""
    return (
        protected(release),
        f"Whatever is computed from these draws becomes at most {display.number(factor)} times "
        f"as likely through such a change{slip}.",
        "Someone who knows everything else, and has narrowed the data down to two neighbors, "
        "tells from the draws which one it is with probability at most "
        f"{percent(guessing(release))} (50% is a blind guess).",
    )


def guessing(release: Release) -> float:
    """Bound the chance to tell two neighbors apart that were equally likely before.

    (1 + TV) / 2, where TV is delta(0), and at most (e^epsilon - 1 + 2 delta) / (e^epsilon + 1)
    at the stated (epsilon, delta).
    """
    epsilon, delta = display.stated(release)
    advantage = math.tanh(epsilon / 2) + 2 * delta / (math.exp(min(epsilon, 700)) + 1)
    return (1 + min(1.0, advantage, release.guarantee.delta(0.0))) / 2


def percent(probability: float) -> str:
    """Write a probability in percent, rounded up to a tenth."""
    return f"{min(100.0, math.ceil(probability * 1000 - 1e-9) / 10):g}%"


def claim(release: Release) -> str:
    """Say how much of the guarantee is proved."""
    if not release.private:
        return display.NOT_PRIVATE
    return release.facts.get("claim") or "no claim stated"


def backing(release: Release) -> tuple[tuple[str, str], ...]:
    """Name the accounting that gives the stated epsilon, and the theorem it starts from."""
    _, delta = display.stated(release)
    return (
        ("road", release.guarantee.road(delta)),
        ("theorem", release.guarantee.theorem or "not proved"),
    )
