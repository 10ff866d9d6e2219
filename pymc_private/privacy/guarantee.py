"""Guarantee: a promise as a frozen value that adds, with every road to (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy.atoms import KINDS, Atom
from pymc_private.privacy.bounded_range import br_eps
from pymc_private.privacy.gaussian import gdp_delta, gdp_eps
from pymc_private.privacy.neighbors import SUBSTITUTE, check_neighbors, in_words
from pymc_private.privacy.renyi import zcdp_to_delta, zcdp_to_eps
from pymc_private.privacy.rounding import float_up, sum_up


@dataclass(frozen=True)
class Guarantee:
    """What releasing the output of some mechanisms reveals at most.

    Build one with a class method. ``a + b`` is sequential composition where b may have been chosen
    after seeing the output of a; ``n * a`` is n runs planned in advance. Assumptions unite, so none
    is lost; unlike neighbor relations refuse to add.

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
    >>> draws.pure_epsilon
    1.0
    >>> round(draws.epsilon(1e-6), 4)
    0.6286
    """

    atoms: tuple[Atom, ...]
    neighbors: str = SUBSTITUTE
    theorem: str = ""
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_neighbors(self.neighbors)
        object.__setattr__(self, "assumptions", tuple(dict.fromkeys(self.assumptions)))

    # ---- constructors -------------------------------------------------------------------
    @classmethod
    def pure(cls, epsilon: float, **words: Any) -> Guarantee:
        """Promise pure epsilon-differential privacy (nats)."""
        return cls((Atom("pure", _number(epsilon, "epsilon")),), **words)

    @classmethod
    def approximate(cls, epsilon: float, delta: float, **words: Any) -> Guarantee:
        """Promise (epsilon, delta)-differential privacy."""
        return cls((Atom("approximate", _number(epsilon, "epsilon"), _delta(delta)),), **words)

    @classmethod
    def zcdp_of(cls, rho: float, **words: Any) -> Guarantee:
        """Promise rho-zero-concentrated differential privacy."""
        return cls((Atom("zcdp", _number(rho, "rho")),), **words)

    @classmethod
    def gdp_of(cls, mu: float, **words: Any) -> Guarantee:
        """Promise mu-Gaussian differential privacy."""
        return cls((Atom("gdp", _number(mu, "mu")),), **words)

    @classmethod
    def bounded_range_of(cls, R: float, draws: int = 1, **words: Any) -> Guarantee:
        """`draws` exact draws from one posterior whose record range is R nats (T1-T3)."""
        if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
            raise DomainError("draws is a whole number >= 1", got=draws, allowed="1, 2, ...")
        return cls((Atom("bounded_range", _number(R, "R"), 0.0, draws),), **words)

    @classmethod
    def none(cls, reason: str, **words: Any) -> Guarantee:
        """No promise at all, and why."""
        return cls((Atom("none", math.inf),), **({"assumptions": (reason,)} | words))

    # ---- questions ----------------------------------------------------------------------
    @property
    def pure_epsilon(self) -> float:
        """Pure epsilon in nats; inf where there is none."""
        return sum_up(atom.pure for atom in self.atoms)

    @property
    def zcdp(self) -> float:
        """Return rho of zero-concentrated privacy; inf where there is none."""
        return sum_up(atom.zcdp for atom in self.atoms)

    @property
    def gdp(self) -> float:
        """Return mu of Gaussian privacy; inf unless every part is Gaussian."""
        total = sum_up(atom.gdp_squared for atom in self.atoms)
        return math.inf if math.isinf(total) else math.sqrt(total) * (1.0 + 1e-15)

    def rdp(self, order: float) -> float:
        """Renyi divergence of an order > 1, nats: at most min(rho order, pure epsilon)."""
        if not order > 1.0:
            raise DomainError("a Renyi order must exceed 1", got=order, allowed="order > 1")
        return min(self.zcdp * order * (1.0 + 1e-15), self.pure_epsilon)

    def epsilon(self, delta: float = 0.0) -> float:
        """Return the smallest epsilon (nats) any road proves at `delta`; rounded up."""
        return self._best_epsilon(_delta(delta))[0]

    def road(self, delta: float = 0.0) -> str:
        """Name the road that proves `epsilon(delta)`."""
        return self._best_epsilon(_delta(delta))[1]

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta any road proves at `epsilon`; rounded up."""
        return min(self.roads(_number(epsilon, "epsilon")).values())

    def roads(self, epsilon: float) -> dict[str, float]:
        """Give delta at `epsilon` by each road that is open."""
        rest, fixed_epsilon, fixed_delta = self._split()
        spare = epsilon - fixed_epsilon
        if spare < 0.0:
            return {"none": 1.0}
        if not rest:
            return {"basic composition": fixed_delta}
        found = {"pure": 0.0 if sum_up(a.pure for a in rest) <= spare else 1.0}
        rho, mu = sum_up(a.zcdp for a in rest), sum_up(a.gdp_squared for a in rest)
        if math.isfinite(rho):
            found["zCDP (T4)"] = zcdp_to_delta(rho, spare)
        if math.isfinite(mu):
            found["Gaussian curve (T4)"] = gdp_delta(spare, math.sqrt(mu) * (1.0 + 1e-15))
        if len(rest) == 1 and rest[0].kind == "bounded_range":
            delta, name = rest[0].curve(spare)
            found[name] = delta
        return {name: min(1.0, sum_up((d, fixed_delta))) for name, d in found.items()}

    def _split(self) -> tuple[list[Atom], float, float]:
        """Atoms with a curve, and the sums of those known by one (epsilon, delta) each."""
        rest = [atom for atom in self.atoms if atom.kind != "approximate"]
        fixed = [atom for atom in self.atoms if atom.kind == "approximate"]
        epsilon = sum_up(float_up(a.count * Fraction(a.value)) for a in fixed if a.value < math.inf)
        delta = sum_up(float_up(a.count * Fraction(a.delta)) for a in fixed)
        return rest, epsilon, delta

    def _best_epsilon(self, delta: float) -> tuple[float, str]:
        rest, fixed_epsilon, fixed_delta = self._split()
        spare = float(Fraction(delta) - Fraction(fixed_delta))
        if spare < 0.0:
            return math.inf, "delta is smaller than the deltas already fixed"
        spare = min(spare, math.nextafter(spare, 0.0)) if 0.0 < spare < delta else spare
        found: list[tuple[float, str]] = [(sum_up(a.pure for a in rest), "pure")]
        if rest and spare > 0.0:
            rho, mu = sum_up(a.zcdp for a in rest), sum_up(a.gdp_squared for a in rest)
            if math.isfinite(rho):
                found.append((zcdp_to_eps(rho, spare), "zCDP (T4)"))
            if math.isfinite(mu):
                found.append((gdp_eps(spare, math.sqrt(mu) * (1 + 1e-15)), "Gaussian curve (T4)"))
            if len(rest) == 1 and rest[0].kind == "bounded_range":
                exact = br_eps(spare, rest[0].count, rest[0].value)
                found.append((exact, "exact curve of N draws (T3)"))
        best, name = min(found, key=lambda pair: pair[0])
        if self.atoms and not rest:
            name = "basic composition"
        return sum_up((best, fixed_epsilon)), name

    # ---- algebra ------------------------------------------------------------------------
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
        return Guarantee(
            (*self.atoms, *other.atoms),
            self.neighbors,
            theorem,
            (*self.assumptions, *other.assumptions),
        )

    def __mul__(self, count: int) -> Guarantee:
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise DomainError("runs are a whole number >= 1", got=count, allowed="1, 2, ...")
        atoms = tuple(Atom(a.kind, a.value, a.delta, a.count * count) for a in self.atoms)
        return Guarantee(atoms, self.neighbors, self.theorem, self.assumptions)

    __rmul__ = __mul__

    def group(self, k: int) -> Guarantee:
        """Promise the same to units that own up to k records (T24).

        epsilon -> k epsilon, R -> k R, mu -> k mu, rho -> k^2 rho,
        (e, d) -> (k e, d (e^(k e) - 1) / (e^e - 1)).
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise DomainError("a unit owns a whole number of records >= 1", got=k)
        atoms = tuple(_grouped(atom, k) for atom in self.atoms)
        words = f"a unit owns at most {k} records" if k > 1 else ""
        extra = (words,) if words else ()
        return Guarantee(atoms, self.neighbors, self.theorem, (*self.assumptions, *extra))

    # ---- carrying it around -------------------------------------------------------------
    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` restores it exactly."""
        return {
            "atoms": [
                [a.kind, float(a.value).hex(), float(a.delta).hex(), a.count] for a in self.atoms
            ],
            "neighbors": self.neighbors,
            "theorem": self.theorem,
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Guarantee:
        """Restore `to_dict`; raises Incompatible if it is not one."""
        try:
            atoms = tuple(
                Atom(_kind(kind), float.fromhex(value), float.fromhex(delta), int(count))
                for kind, value, delta, count in stored["atoms"]
            )
            words = (stored["neighbors"], stored["theorem"], tuple(stored["assumptions"]))
        except (KeyError, TypeError, ValueError) as error:
            raise Incompatible("this is not a stored guarantee") from error
        return cls(atoms, *words)

    def __repr__(self) -> str:
        if any(atom.kind == "none" for atom in self.atoms):
            return f"Guarantee: NOT PRIVATE ({'; '.join(self.assumptions)})"
        numbers = ", ".join(_describe(atom) for atom in self.atoms)
        lines = [f"Guarantee: {numbers}", f"  protects: {in_words(self.neighbors)}"]
        if math.isfinite(self.pure_epsilon):
            lines.append(f"  epsilon = {self.pure_epsilon:.6g} (pure)")
        if math.isfinite(self.epsilon(1e-6)):
            lines.append(
                f"  epsilon = {self.epsilon(1e-6):.6g} at delta = 1e-06; {self.road(1e-6)}"
            )
        lines.append(f"  proved by: {self.theorem or 'nothing stated'}")
        lines += [f"  assuming: {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{repr(self).replace('&', '&amp;').replace('<', '&lt;')}</pre>"


def _describe(atom: Atom) -> str:
    words = {
        "pure": f"{atom.value:.6g}-DP",
        "approximate": f"({atom.value:.6g}, {atom.delta:.3g})-DP",
        "zcdp": f"{atom.value:.6g}-zCDP",
        "gdp": f"{atom.value:.6g}-GDP",
        "bounded_range": f"posterior draw of range {atom.value:.6g}",
    }[atom.kind]
    return words if atom.count == 1 else f"{atom.count} x {words}"


def _grouped(atom: Atom, k: int) -> Atom:
    if atom.kind == "none":
        return atom
    if atom.kind == "zcdp":
        return Atom(atom.kind, float_up(Fraction(atom.value) * k * k), 0.0, atom.count)
    value = float_up(Fraction(atom.value) * k)
    if atom.kind != "approximate":
        return Atom(atom.kind, value, 0.0, atom.count)
    ratio = float(k) if atom.value == 0 else math.expm1(value) / math.expm1(atom.value)
    return Atom(atom.kind, value, min(1.0, atom.delta * ratio * (1.0 + 1e-14)), atom.count)


def _kind(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(kind)
    return kind


def _number(value: float, name: str) -> float:
    if isinstance(value, bool) or not value >= 0:
        raise DomainError(f"{name} is a number >= 0", got=value, allowed=f"{name} >= 0")
    return float_up(Fraction(value)) if isinstance(value, Fraction | int) else float(value)


def _delta(value: float) -> float:
    if not 0.0 <= value < 1.0:
        raise DomainError("delta is a probability below 1", got=value, allowed="0 <= delta < 1")
    return float(value)
