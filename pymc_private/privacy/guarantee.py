"""Guarantee: a promise as a frozen value that adds, with every road to (epsilon, delta)."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy import roads
from pymc_private.privacy.atoms import Atom, number_up, probability, total_mu, whole
from pymc_private.privacy.neighbors import SUBSTITUTE, check_neighbors, in_words
from pymc_private.privacy.rounding import sum_up, times_up

DELTA_SHOWN = 1e-6


@dataclass(frozen=True)
class Guarantee:
    """What releasing the output of some mechanisms reveals at most.

    Build one with a class method. ``a + b`` is sequential composition where b may have been chosen
    after seeing the output of a; ``n * a`` is n runs planned in advance, so that draws from one
    posterior keep their exact curve. Assumptions unite, so none is lost; unlike neighbor relations
    refuse to add. No number read from a guarantee is below the truth.

    Attributes
    ----------
    atoms : tuple of Atom
        The mechanisms.
    neighbors : str
        ``"substitute"`` or ``"add_remove"``.
    theorem : str
        Where the promise comes from; empty if nothing is proved.
    assumptions : tuple of str
        What it rests on.

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

    def __post_init__(self) -> None:
        check_neighbors(self.neighbors)
        named = (self.assumptions,) if isinstance(self.assumptions, str) else self.assumptions
        object.__setattr__(self, "atoms", tuple(self.atoms))
        object.__setattr__(self, "assumptions", tuple(dict.fromkeys(named)))

    # ---- constructors; words are neighbors=, theorem= and assumptions= ----------------------
    @classmethod
    def pure(cls, epsilon: float, **words: Any) -> Guarantee:
        """Promise pure epsilon-differential privacy (nats)."""
        return cls((Atom("pure", epsilon),), **words)

    @classmethod
    def approximate(cls, epsilon: float, delta: float, **words: Any) -> Guarantee:
        """Promise (epsilon, delta)-differential privacy."""
        kind = "approximate" if probability(delta) > 0.0 else "pure"
        return cls((Atom(kind, epsilon, delta),), **words)

    @classmethod
    def zcdp_of(cls, rho: float, **words: Any) -> Guarantee:
        """Promise rho-zero-concentrated differential privacy (Bun and Steinke 2016)."""
        return cls((Atom("zcdp", rho),), **words)

    @classmethod
    def gdp_of(cls, mu: float, **words: Any) -> Guarantee:
        """Promise mu-Gaussian differential privacy (Dong, Roth and Su 2022)."""
        return cls((Atom("gdp", mu),), **words)

    @classmethod
    def bounded_range_of(cls, R: float, draws: int = 1, **words: Any) -> Guarantee:
        """Promise for `draws` exact draws from one posterior whose record range is R nats (T1-T3).

        The number of draws is fixed in advance. Roads: pure N R, zCDP N min(R^2/8, tight), T3.
        """
        return cls((Atom("bounded_range", R, 0.0, draws),), **words)

    @classmethod
    def none(cls, reason: str, **words: Any) -> Guarantee:
        """No promise at all, and why: every epsilon is infinite."""
        return cls((Atom("none", math.inf),), **({"assumptions": (reason,)} | words))

    # ---- questions --------------------------------------------------------------------------
    @property
    def pure_epsilon(self) -> float:
        """Pure epsilon in nats; inf where there is none."""
        return sum_up(atom.pure for atom in self.atoms)

    @property
    def zcdp(self) -> float:
        """The rho of zero-concentrated privacy; inf where there is none."""
        return sum_up(atom.zcdp for atom in self.atoms)

    @property
    def gdp(self) -> float:
        """The mu of Gaussian privacy; inf unless every part is Gaussian."""
        return total_mu(self.atoms)

    def rdp(self, order: float) -> float:
        """Renyi divergence of an order >= 1, nats: at most min(order rho, pure epsilon)."""
        if not order >= 1.0:
            raise DomainError("a Renyi order is at least 1", got=order, allowed="order >= 1")
        return min(times_up(order, self.zcdp), self.pure_epsilon)

    def epsilon(self, delta: float = 0.0) -> float:
        """Smallest epsilon (nats) that a road proves at `delta` in [0, 1); rounded up."""
        return min(roads.epsilon_by_road(self.atoms, probability(delta)).values())

    def road(self, delta: float = 0.0) -> str:
        """Name the road that proves `epsilon(delta)`."""
        found = roads.epsilon_by_road(self.atoms, probability(delta))
        return min(found, key=lambda name: found[name])

    def delta(self, epsilon: float) -> float:
        """Smallest delta that a road proves at `epsilon` (nats); rounded up."""
        return min(self.roads(epsilon).values())

    def roads(self, epsilon: float) -> dict[str, float]:
        """Give delta at `epsilon` (nats) by the name of each road that is open; rounded up."""
        return roads.delta_by_road(self.atoms, number_up(epsilon, "epsilon"))

    # ---- algebra ----------------------------------------------------------------------------
    def __add__(self, other: Guarantee) -> Guarantee:
        if not isinstance(other, Guarantee):
            return NotImplemented
        if self.neighbors != other.neighbors:
            raise Incompatible(
                "promises about different neighbors do not add",
                got=f"{self.neighbors} and {other.neighbors}",
                allowed="one neighbor relation",
                do="state both promises for the same relation",
            )
        theorem = "; ".join(dict.fromkeys(t for t in (self.theorem, other.theorem) if t))
        united = (*self.assumptions, *other.assumptions)
        return Guarantee((*self.atoms, *other.atoms), self.neighbors, theorem, united)

    def __mul__(self, count: int) -> Guarantee:
        n = whole(count, "the number of runs")
        atoms = tuple(Atom(a.kind, a.value, a.delta, n * a.count) for a in self.atoms)
        return Guarantee(atoms, self.neighbors, self.theorem, self.assumptions)

    __rmul__ = __mul__

    def group(self, k: int) -> Guarantee:
        """Promise the same to units that own up to k records (T24).

        epsilon -> k epsilon, R -> k R, mu -> k mu, rho -> k^2 rho,
        (e, d) -> (k e, d (e^(k e) - 1) / (e^e - 1)).
        """
        if whole(k, "the number of records of a unit") == 1:
            return self
        united = (*self.assumptions, f"a unit owns at most {k} records")
        atoms = tuple(atom.group(int(k)) for atom in self.atoms)
        return Guarantee(atoms, self.neighbors, self.theorem, united)

    # ---- carrying it around -----------------------------------------------------------------
    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` restores it exactly."""
        atoms = [[a.kind, a.value.hex(), a.delta.hex(), a.count] for a in self.atoms]
        return {
            "atoms": atoms,
            "neighbors": self.neighbors,
            "theorem": self.theorem,
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Guarantee:
        """Restore `to_dict`.

        Raises
        ------
        Incompatible
            It is no stored guarantee.
        """
        try:
            atoms = tuple(
                Atom(kind, float.fromhex(value), float.fromhex(delta), count)
                for kind, value, delta, count in stored["atoms"]
            )
            words = (stored["neighbors"], stored["theorem"], tuple(stored["assumptions"]))
            return cls(atoms, *words)
        except (KeyError, TypeError, ValueError) as error:
            raise Incompatible("this is not a stored guarantee") from error

    def __repr__(self) -> str:
        if any(atom.kind == "none" for atom in self.atoms):
            return f"Guarantee: NOT PRIVATE ({'; '.join(self.assumptions)})"
        rows = [
            f"Guarantee: {', '.join(map(str, self.atoms)) or 'nothing is released'}",
            f"  protects: {in_words(self.neighbors)}",
        ]
        if math.isfinite(self.pure_epsilon):
            rows.append(f"  epsilon = {_short(self.pure_epsilon)} (pure)")
        shown = max(DELTA_SHOWN, roads.split(self.atoms)[2])
        found = roads.epsilon_by_road(self.atoms, shown)
        name = min(found, key=lambda road: found[road])
        if name != roads.PURE and math.isfinite(found[name]):
            rows.append(f"  epsilon = {_short(found[name])} at delta = {_short(shown)}; {name}")
        rows.append(f"  proved by: {self.theorem or 'nothing stated'}")
        return "\n".join(rows + [f"  assuming: {assumption}" for assumption in self.assumptions])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def _short(value: float) -> str:
    """Write six digits, rounded up unless they say the same."""
    text = f"{value:.6g}"
    return text if float(text) >= value * (1.0 - 1e-9) else f"{value * (1.0 + 5e-6):.6g}"
