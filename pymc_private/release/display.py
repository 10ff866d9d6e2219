"""Text, HTML and attribute representations of releases, guarantees and estimates.

Numbers of a guarantee are rounded outward by `privacy.rounding`; estimates are rounded to
nearest. Whatever is shown of a seeded release says NOT PRIVATE.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Context
from typing import TYPE_CHECKING

from pymc_private.privacy.cards import Row
from pymc_private.privacy.rounding import STATED_SUFFIX, format_count, format_decimal, format_number
from pymc_private.release.allowed import ReleaseContents, as_float, dump_json

if TYPE_CHECKING:
    import numpy as np

NOT_PRIVATE = "NOT PRIVATE"
ONLY_ASSUMED = (
    "choices made without looking at the data, and random bits that nobody knows; nothing else"
)
"""What every guarantee assumes, where its own list is empty."""


def format_estimate(value: float, digits: int = 4) -> str:
    """Write an estimate in a few significant digits, rounded to nearest; NaN is a dash."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    return format_decimal(Context(prec=digits).create_decimal(repr(float(value))).normalize())


def stated_epsilon_delta(release: ReleaseContents) -> tuple[float, float]:
    """The (epsilon, delta) of a release, at the delta its facts name (else 0)."""
    delta = as_float(release.facts.get("delta", 0))
    return release.guarantee.epsilon(delta), delta


def guarantee_line(release: ReleaseContents) -> str:
    """State the guarantee of a release in one line."""
    if not release.private:
        return f"{NOT_PRIVATE}: {'; '.join(assumptions(release)) or 'epsilon is infinite'}"
    epsilon, delta = stated_epsilon_delta(release)
    at = f"delta = {format_number(delta)}" if delta else "delta = 0 (pure)"
    return f"epsilon = {format_number(epsilon)} nats at {at}"


def distribution_name(release: ReleaseContents) -> str:
    """The distribution of the draws: "private posterior", unless the facts name another."""
    return str(release.facts.get("distribution", "private posterior"))


def sampled_distribution(release: ReleaseContents) -> str:
    """The distribution that the draws follow exactly, about which error bounds hold.

    That of the sampler: it may be within a distance of the posterior, or on a grid.
    """
    name, guarantee = f"the {distribution_name(release)}", release.guarantee
    if not release.private:  # a seeded release has no guarantee to read it from
        return f"{name}, as near as the sampler comes to it"
    theorems = re.split("[,;] ", guarantee.theorem)
    distance = max(
        (float(event.value) for event in guarantee.events if event.kind == "distance"), default=0
    )
    if distance > 0:
        proved = str(release.facts.get("claim", "")).startswith("proved")
        mark = "" if proved else STATED_SUFFIX
        return f"a distribution within {format_number(distance)} of {name} in total variation{mark}"
    if "T29" in theorems:
        return f"a distribution near {name}, on the sampler's grid"
    return f"{name} on the sampler's grid" if "T15c" in theorems else name


def assumptions(release: ReleaseContents) -> tuple[str, ...]:
    """The assumptions of the guarantee."""
    return tuple(release.guarantee.assumptions)


def describe_variable(array: object) -> str:
    """Describe one draw of a variable: ``beta (feature: 3)``, or ``alpha``."""
    dims = [(d, n) for d, n in array.sizes.items() if d not in ("chain", "draw")]  # type: ignore[attr-defined]
    inside = ", ".join(f"{dim}: {size}" for dim, size in dims)
    return f"{array.name} ({inside})" if inside else str(array.name)  # type: ignore[attr-defined]


def release_rows(release: ReleaseContents) -> list[Row]:
    """The rows of a release card, as (title, text)."""
    facts, guarantee = release.facts, release.guarantee
    from pymc_private.release.learned import learned_lines, model_lines

    rows = [
        ("model", "\n".join(model_lines(release))),
        ("learned", "\n".join(learned_lines(release))),
        ("guarantee", guarantee_line(release)),
        *(_guarantee_rows(release) if release.private else ()),
        ("neighbors", guarantee.neighbors),
        ("sampler", facts.get("sampler", "")),
        (
            "holds",
            ", ".join(describe_variable(array) for array in release.posterior.data_vars.values()),
        ),
        ("withheld", withheld_variables(release)),
    ]
    return [(title, text) for title, text in rows if text]


def _guarantee_rows(release: ReleaseContents) -> list[Row]:
    """The basis of the guarantee: assumptions in full, claim, theorem."""
    return [
        ("assumes", "\n".join(assumptions(release)) or ONLY_ASSUMED),
        ("claim", release.facts.get("claim", "")),
        ("theorem", release.guarantee.theorem or "not proved"),
    ]


def withheld_variables(release: ReleaseContents) -> str:
    """The variables that were left out, marking those that could not be computed."""
    failed = set(release.facts.get("uncomputed", ()))
    return ", ".join(
        f"{name} (could not be computed at every draw)" if name in failed else name
        for name in release.facts.get("withheld", ())
    )


def release_title(release: ReleaseContents) -> str:
    """The title of a release: its name and number of draws."""
    name = f" {release.facts['name']!r}" if release.facts.get("name") else ""
    mark = "" if release.private else f" {NOT_PRIVATE}:"
    return f"Release{name}:{mark} {format_count(release.posterior.sizes['draw'], 'draw')}"


def release_attributes(release: ReleaseContents) -> dict[str, str]:
    """Text attributes for ArviZ and netCDF, without time, machine or seed."""
    facts, guarantee = release.facts, release.guarantee
    epsilon, delta = stated_epsilon_delta(release)
    flat = {
        "private": "yes" if release.private else guarantee_line(release),
        "epsilon": repr(float(epsilon)),
        "delta": repr(float(delta)),
        "theorem": guarantee.theorem,
        "neighbors": guarantee.neighbors,
        "assumptions": "; ".join(assumptions(release)) or "none",
        "claim": facts.get("claim", "") if release.private else NOT_PRIVATE,
        "versions": ", ".join(f"{k} {v}" for k, v in facts.get("versions", {}).items()),
    }
    for key in (
        "name",
        "sampler",
        "records",
        "model",
        "grid",
        "power",
        "clip",
        "withheld",
        "ledger_head",
    ):
        if facts.get(key):
            flat[key] = _attribute_text(facts[key])
    return flat


def _attribute_text(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return value if isinstance(value, str) else dump_json(value)


def element_rows(labels: Sequence[str], *columns: np.ndarray, digits: int = 4) -> list[list[str]]:
    """Pair labels with columns of estimates, ready for :func:`text_table`."""
    return [
        [label, *(format_estimate(float(column[i]), digits) for column in columns)]
        for i, label in enumerate(labels)
    ]
