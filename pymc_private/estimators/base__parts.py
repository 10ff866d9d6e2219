"""Several releases of the same tables, taken together: all of it post-processing."""

from __future__ import annotations

import numpy as np
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pymc_private.errors import Incompatible
from pymc_private.release.release import Release
from pymc_private.counts.denoise.shrinkage import alike_posterior
from pymc_private.counts.publish__contents import simplices
from pymc_private.counts.noise_plan import CountPlan
from pymc_private.counts.denoise.posterior__posterior import NoisyTable
from pymc_private.privacy import Guarantee
from pymc_private.privacy.neighbors__neighbors import SUBSTITUTE
from pymc_private.privacy.noisy_counts__noisy_counts import GAUSSIAN

OTHERS = (
    "no record of an update with new records was in an earlier fit or update, here or of a copy"
)


@dataclass(frozen=True)
class Part:
    """One release.

    Attributes
    ----------
    release : Release
    plan : CountPlan
    records : {"first", "new", "same"}
    so_far : Guarantee
        Of all parts up to this one.
    """

    release: Release
    plan: CountPlan
    records: str
    so_far: Guarantee


class Noisy:
    """Noisy counts of several parts: those of new records add, of the same records average."""

    def __init__(self, parts: Sequence[Part]) -> None:
        sums: list[tuple[dict[str, np.ndarray], float, float | None]] = []
        for part in parts:
            released = part.release.posterior  # each look at it is a copy
            values = {
                f.name: released.variables[f.variable].values[0, 0].astype(float)
                for f in part.plan.design.families
            }
            variance = part.plan.noise.sd**2 if part.plan.noise is not None else 0.0
            total = part.plan.design.total
            if not sums:
                sums = [(values, variance, total)]
                continue
            before, spread, size = sums[-1]
            if part.records == "same":
                weight = spread / (spread + variance)
                mixed = {k: (1 - weight) * before[k] + weight * v for k, v in values.items()}
                sums[-1] = (mixed, spread * variance / (spread + variance), size)
            else:
                added = {k: before[k] + v for k, v in values.items()}
                both = None if size is None or total is None else size + total
                sums[-1] = (added, spread + variance, both)
        values, variance, total = sums[-1]
        first = parts[0].plan
        law, scale = GAUSSIAN, variance**0.5
        if len(parts) == 1 and first.noise is not None:
            law, scale = first.noise.law, first.noise.scale
        noisy = {
            f.name: NoisyTable(np.round(values[f.name]).astype(np.int64), f.dims)
            for f in first.design.families
        }
        known = total if first.design.neighbors == SUBSTITUTE else None
        sd = variance**0.5
        self.posterior = alike_posterior(noisy, law, scale, sd, known, first.design.minimum)

    def mean(self) -> dict[str, np.ndarray]:
        """Posterior means."""
        return {name: table.mean() for name, table in self.posterior.items()}

    def draw(self, draws: int) -> dict[str, np.ndarray]:
        """Posterior draws."""
        generator = np.random.default_rng()
        return {n: simplices(t, draws, generator) for n, t in self.posterior.items()}


class Drawn:
    """Dirichlet draws of several parts, averaged by their number of records."""

    def __init__(self, parts: Sequence[Part]) -> None:
        sizes = [p.plan.design.total or 1.0 for p in parts]
        weights = np.array(sizes) / sum(sizes)
        released = [part.release.posterior for part in parts]  # each look at it is a copy
        self.draws = {
            f.name: sum(
                w * drawn.variables[f.variable].values[0]
                for w, drawn in zip(weights, released, strict=True)
            )
            for f in parts[0].plan.design.families
        }

    def mean(self) -> dict[str, np.ndarray]:
        """Means over the draws."""
        return {name: np.asarray(draws).mean(axis=0) for name, draws in self.draws.items()}

    def draw(self, draws: int) -> dict[str, np.ndarray]:
        """The draws there are."""
        return {name: np.asarray(drawn) for name, drawn in self.draws.items()}


def assuming(plan: CountPlan, said: tuple[str, ...]) -> CountPlan:
    """Add to what the promise of a plan rests on."""
    united = (*plan.guarantee.assumptions, *said)
    return replace(plan, guarantee=replace(plan.guarantee, assumptions=united))


def paid(parts: Sequence[Part]) -> frozenset[str]:
    """Give the ledger heads of the charges of all parts; a seeded part was never charged."""
    heads = (part.release.facts.get("ledger_head") for part in parts if part.release.private)
    return frozenset(str(head) for head in heads if head)


def _total(parts: Sequence[Part]) -> float | None:
    """Public number of records of all parts; None where it is protected."""
    totals = [p.plan.design.total for p in parts if p.records != "same"]
    return None if None in totals else float(sum(t for t in totals if t is not None))


def check_update(parts: Sequence[Part], plan: CountPlan, records: str) -> None:
    """Refuse, before it is charged, what could not be taken together with the tables there are.

    Raises
    ------
    Incompatible
        Other tables, noise and Dirichlet draws, other numbers of draws, or more or fewer records
        that are called the same.
    """
    if not parts:
        return
    before = parts[-1].plan
    if plan.design.families != before.design.families:
        raise Incompatible(
            "an update counts the tables of the fit; nothing was charged",
            got=", ".join(f.name for f in plan.design.families),
            allowed=", ".join(f.name for f in before.design.families),
            do="keep the declarations as they were, or fit anew",
        )
    if plan.guarantee.neighbors != before.guarantee.neighbors:
        raise Incompatible(
            "promises about different neighbors do not add; nothing was charged",
            got=f"neighbors='{plan.guarantee.neighbors}' after '{before.guarantee.neighbors}'",
            do="keep unit= and neighbors= as they were, or fit anew",
        )
    if (before.method == "noisy") != (plan.method == "noisy"):
        raise Incompatible(
            "noisy counts and Dirichlet draws do not mix; nothing was charged",
            got=f"{plan.method} after {before.method}",
            do="name one method= for all fits",
        )
    if records == "same" and plan.design.total != _total(parts):
        raise Incompatible(
            "counts of the same records are averaged, and these are more or fewer; nothing was "
            "charged",
            got=f"{plan.design.total:g} records",
            allowed=f"{_total(parts):g}",
            do='bring all records again; or those alone that are new, with records="new"; or fit '
            "another estimator",
        )
    if plan.method != "noisy" and before.draws != plan.draws:
        raise Incompatible(
            "draws are averaged one by one; nothing was charged",
            got=f"draws={plan.draws} after {before.draws}",
            do="take as many draws as before",
        )


def together(parts: Sequence[Part]) -> Noisy | Drawn:
    """Take all parts, of one method, as one."""
    return Noisy(parts) if parts[0].plan.method == "noisy" else Drawn(parts)
