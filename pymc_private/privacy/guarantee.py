"""Guarantee: a promise as a frozen value that adds, with every road to (epsilon, delta)."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy import accounting, event__stored, neighbors as distances
from pymc_private.privacy.validation import number_up, order_of, probability, stated, whole
from pymc_private.privacy.event import Atom
from pymc_private.privacy.guarantee__constructors import Constructors
from pymc_private.privacy.neighbors__neighbors import ANY, SUBSTITUTE, check_neighbors, covers, in_words
from pymc_private.privacy.rounding__printing import number
from pymc_private.privacy.rounding import sum_up, written_up
from pymc_private.privacy.accounting__totals import total_mu, total_pure

DELTA_SHOWN = Fraction(1, 10**6)


@dataclass(frozen=True)
class Guarantee(Constructors):
    """What releasing the output of some mechanisms reveals at most.

    Build one with a class method. ``a + b`` is sequential composition: the mechanism of b may be
    chosen after seeing the output of a, but its promise is fixed before; where that depends on the
    output too, use a `Ledger` (T23). ``n * a`` is n runs planned in advance, and ``jointly(a, b)``
    a list declared in advance: these keep the exact curves of their parts. Assumptions unite, so
    none is lost; unlike neighbor relations refuse to add. No number read from it is below the
    truth.

    Attributes
    ----------
    atoms : tuple of Atom
        The mechanisms.
    neighbors : str
        ``"substitute"``, ``"add_remove"``; of the whole data set, ``"any"``; or a distance in a
        metric.
    theorem : str
        Where the promise comes from; empty if nothing is proved.
    assumptions : tuple of str
        What it rests on.
    planned : bool
        Whether all of it was declared before the first output was seen.

    Examples
    --------
    >>> draws = Guarantee.bounded_range_of(0.1, draws=10)
    >>> round(draws.pure_epsilon, 6), round(draws.epsilon(1e-6), 4), draws.road(1e-6)
    (1.0, 0.6286, 'exact curve of N draws (T3)')
    >>> round((draws + draws).epsilon(1e-6), 3), (draws + draws).road(1e-6)
    (1.015, 'zCDP (T4)')
    """

    atoms: tuple[Atom, ...]
    neighbors: str = SUBSTITUTE
    theorem: str = ""
    assumptions: tuple[str, ...] = ()
    planned: bool = True

    def __post_init__(self) -> None:
        check_neighbors(self.neighbors)
        named = (self.assumptions,) if isinstance(self.assumptions, str) else self.assumptions
        _check_parts("atoms", self.atoms, Atom)
        _check_parts("assumptions", named, str)
        for name, kind in (("theorem", str), ("planned", bool)):
            _check_parts(name, (getattr(self, name),), kind)
        object.__setattr__(self, "atoms", tuple(self.atoms))
        object.__setattr__(self, "assumptions", tuple(dict.fromkeys(named)))

    # ---- questions --------------------------------------------------------------------------
    @property
    def pure_epsilon(self) -> float:
        """Pure epsilon in nats, rounded up; inf where there is none."""
        return written_up(self.exact_pure)

    @property
    def exact_pure(self) -> Fraction | float:
        """Pure epsilon in nats before it is rounded: a Fraction, or inf."""
        return total_pure(self.atoms)

    @property
    def zcdp(self) -> float:
        """The rho of zero-concentrated privacy; inf where there is none."""
        return sum_up(atom.zcdp for atom in self.atoms)

    @property
    def gdp(self) -> float:
        """The mu of Gaussian privacy; inf unless every part is Gaussian."""
        return total_mu(self.atoms)

    def rdp(self, order: float) -> float:
        """Renyi divergence of an order >= 1, nats, rounded up; inf where there is none."""
        order_of(order)
        return sum_up(atom.renyi(order) for atom in self.atoms)

    def epsilon(self, delta: float = 0.0) -> float:
        """Smallest epsilon (nats) that a road proves at `delta` in [0, 1); rounded up."""
        return min(self._epsilons(delta).values())

    def road(self, delta: float = 0.0) -> str:
        """Name the road that proves `epsilon(delta)`."""
        found = self._epsilons(delta)
        return min(found, key=lambda name: found[name])

    def exact_epsilon(self, delta: Fraction | float = 0.0) -> Fraction | float:
        """Give `epsilon(delta)` before it is rounded: what was stated adds up exactly."""
        probability(delta)
        at = stated(delta, "delta")
        return min(accounting.epsilon_by_road(self.atoms, at, planned=self.planned).values())

    def _epsilons(self, delta: float | Fraction) -> dict[str, float]:
        probability(delta)
        at = stated(delta, "delta")
        found = accounting.epsilon_by_road(self.atoms, at, planned=self.planned)
        return {name: written_up(epsilon) for name, epsilon in found.items()}

    def delta(self, epsilon: float) -> float:
        """Smallest delta that a road proves at `epsilon` (nats); rounded up."""
        return min(self.roads(epsilon).values())

    def roads(self, epsilon: float) -> dict[str, float]:
        """Give delta at `epsilon` (nats) by the name of each road that is open; rounded up."""
        at = stated(epsilon, "epsilon")
        return accounting.delta_by_road(self.atoms, at, planned=self.planned)

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw delta against epsilon with every road; see `pymc_private.privacy.plots.curves`."""
        from pymc_private.privacy.plots import curves

        return curves(self, ax, **options)

    # ---- algebra ----------------------------------------------------------------------------
    def __add__(self, other: Guarantee) -> Guarantee:
        return self._with(other, planned=False) if isinstance(other, Guarantee) else NotImplemented

    def _with(self, other: Guarantee, *, planned: bool) -> Guarantee:
        if self.neighbors != other.neighbors:
            raise Incompatible(
                "promises about different neighbors do not add",
                got=f"{self.neighbors} and {other.neighbors}",
                allowed="one neighbor relation",
                do="state both promises for the same relation; one about any two data sets holds "
                "for every relation: .restated(neighbors)",
            )
        theorem = "; ".join(dict.fromkeys(t for t in (self.theorem, other.theorem) if t))
        united = (*self.assumptions, *other.assumptions)
        atoms = (*self.atoms, *other.atoms)
        planned = planned or not (self.atoms and other.atoms)
        planned = planned and self.planned and other.planned
        return Guarantee(atoms, self.neighbors, theorem, united, planned)

    def __mul__(self, count: int) -> Guarantee:
        n = whole(count, "the number of runs")
        return replace(self, atoms=tuple(atom.runs(n) for atom in self.atoms))

    __rmul__ = __mul__

    def group(self, k: int) -> Guarantee:
        """Promise the same to units that own up to k records (T24).

        epsilon -> k epsilon, R -> k R, mu -> k mu, rho -> k^2 rho,
        (e, d) -> (k e, d (e^(k e) - 1) / (e^e - 1)).
        """
        if whole(k, "the number of records of a unit") == 1 or self.neighbors == ANY:
            return self
        united = (*self.assumptions, f"a unit owns at most {k} records")
        atoms = tuple(atom.group(int(k)) for atom in self.atoms)
        return replace(self, atoms=atoms, assumptions=united)

    def restated(self, neighbors: str) -> Guarantee:
        """Promise the same for a narrower relation, as one of any two data sets, or of records.

        Raises
        ------
        Incompatible
            The promise is about no wider relation.
        """
        if not covers(self.neighbors, check_neighbors(neighbors)):
            raise Incompatible(
                "a promise about one record says nothing of another relation",
                got=f"{self.neighbors}, to be restated for {neighbors}",
                allowed=f"a promise for {ANY}",
            )
        return replace(self, neighbors=neighbors)

    def at(self, distance: float | Fraction) -> Guarantee:
        """Promise the same to data sets this far apart: see `distances.scaled`."""
        atoms, relation = distances.scaled(self.atoms, self.neighbors, distance)
        return replace(self, atoms=atoms, neighbors=relation)

    def within(self, tv: float, runs: int = 1) -> Guarantee:
        """Promise the same of samplers that are only within `tv` of the laws accounted for (T18).

        delta grows by (1 + e^epsilon) (1 - (1 - tv)^runs); no pure epsilon is left. That they are
        so close is an assumption unless a theorem says so.
        """
        far = Atom("distance", number_up(tv, "the total variation"), count=runs)
        near = f"each run is within total variation {number(far.value, 6)} of its law"
        united = (*self.assumptions, near)
        return replace(self, atoms=(*self.atoms, far), assumptions=united)

    # ---- carrying it around -----------------------------------------------------------------
    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` restores it exactly."""
        return {
            "atoms": [event__stored.write_atom(atom) for atom in self.atoms],
            "planned": self.planned,
            "neighbors": self.neighbors,
            "theorem": self.theorem,
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Guarantee:
        """Restore `to_dict`.

        Raises
        ------
        Incompatible
            It is no stored guarantee.
        """
        try:
            atoms = tuple(event__stored.read_atom(row) for row in record["atoms"])
            named = record["assumptions"]
            if isinstance(named, str):
                raise TypeError(named)
            words = (record["neighbors"], record["theorem"], tuple(named))
            return cls(atoms, *words, record.get("planned", len(atoms) < 2))
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise Incompatible("this is not a stored guarantee") from error

    def __repr__(self) -> str:
        if any(atom.kind == "none" for atom in self.atoms):
            return f"Guarantee: NOT PRIVATE ({'; '.join(self.assumptions)})"
        rows = [
            f"Guarantee: {', '.join(map(str, self.atoms)) or 'nothing is released'}",
            f"  protects: {in_words(self.neighbors)}",
        ]
        if math.isfinite(self.pure_epsilon):
            rows.append(f"  epsilon = {number(self.pure_epsilon, 6)} (pure)")
        rows += [*self._approximate_row(), f"  proved by: {self.theorem or 'nothing stated'}"]
        return "\n".join(rows + [f"  assuming: {assumption}" for assumption in self.assumptions])

    def _approximate_row(self) -> list[str]:
        """Say epsilon at a small delta: the one already fixed, where that is larger."""
        fixed = accounting.split(self.atoms)[2]
        if fixed >= 1:
            return ["  no epsilon: the deltas sum to 1 or more"]
        shown = max(DELTA_SHOWN, fixed)
        found = self._epsilons(shown)
        if not math.isfinite(min(found.values())) and fixed + DELTA_SHOWN < 1:
            shown = fixed + DELTA_SHOWN  # what has no pure epsilon needs some for itself
            found = self._epsilons(shown)
        name = min(found, key=lambda road: found[road])
        if name == accounting.PURE or not math.isfinite(found[name]):
            return []
        at = f"{number(found[name], 6)} at delta = {number(shown, 6)}"
        return [f"  epsilon = {at}; {name}"]

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def _check_parts(name: str, parts: Iterable[Any], kind: type) -> None:
    if not all(isinstance(part, kind) for part in parts):
        raise DomainError(f"{name}=", got=repr(parts)[:80], allowed=f"of type {kind.__name__}")
