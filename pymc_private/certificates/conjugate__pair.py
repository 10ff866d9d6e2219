"""The exact price of untrimmed conjugate draws that no range prices: one pair of laws (T13).

Beta with Bernoulli or binomial records and Gamma with Poisson records, one scalar parameter;
Dirichlet with categorical records, or one-hot rows of them. Under add/remove, where records are
counted in one cell each. Nothing here reads data.
"""

from __future__ import annotations

import math
import numpy as np
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from pymc_private.certificates.conjugate_families import Conjugate
from pymc_private.certificates.conjugate__posterior import recognize
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import Guarantee
from pymc_private.privacy.dirichlet_tables__joint_pairs import guess_delta
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.rounding__printing import number

THEOREMS = {"gamma": "T10, T13", "beta": "T9, T13", "dirichlet": "T9", "cells": "T10"}
GAMMA_PAIRS = ("gamma", "cells")


@dataclass(frozen=True)
class ConjugatePair:
    """The two posteriors that differ most, with r = power times `shift`.

    Parameters
    ----------
    family : {"beta", "gamma", "dirichlet", "cells"}
        Beta(a + r, b) against Beta(a, b + r), or Gamma(a + r) against Gamma(a): of a Gamma
        posterior at any rate, or of the one cell that an added or removed record is counted in.
    shift : Fraction
        How far one record, or one unit, moves a parameter of the posterior at power one.
    shape : tuple of Fraction
        Prior parameters: (a, b) of a Beta law, the two least of a Dirichlet law, (a,) of a Gamma
        law, the least of any cell.
    """

    family: str
    shift: Fraction
    shape: tuple[Fraction, ...]

    def guarantee(self, power: Fraction, draws: int, **words: Any) -> Guarantee:
        """Promise for draws from one posterior at a power of its likelihood.

        *Promise*: the exact curve of the pair, whatever the other records are. Gamma: with a total
        t of the other counts the posteriors are Gamma(a + w (t + y)), of one rate, for n is public;
        adding a Gamma(w (t + min y)) variable to both sides gives them from Gamma(a + k) and
        Gamma(a), k <= r (T10), which Gamma(a + r) and Gamma(a) dominate by the monotonicity lemma
        (T13). Beta: successes and failures of a public total lie at [t, t + k] on a line of length
        w n m >= r; the lemma widens the step to r on that line, T9 takes the other counts away.
        Dirichlet: a replaced record moves w between two cells, which is T9 itself. Cells: an added
        record puts w into one, which is T10.
        """
        r = power * self.shift
        if self.family == "gamma":
            return Guarantee.gamma_of(r, self.shape[0], draws, **words)
        if self.family == "cells":  # a Gamma pair, by the neighbors among the words
            return Guarantee.dirichlet_of(r, self.shape[0], draws=draws, **words)
        least, more = sorted(self.shape)
        return Guarantee.dirichlet_of(r, least, draws=draws, beta=more, **words)

    def guess(self, power: Fraction | float, draws: int, epsilon: float) -> float:
        """About the delta at `epsilon` of so many draws, fast; either side of the truth."""
        r, shape = float(power * self.shift), [float(a) for a in sorted(self.shape)]
        relation = ADD_REMOVE if self.family in GAMMA_PAIRS else SUBSTITUTE
        return guess_delta(epsilon, r, shape[0], draws, relation, shape[-1])

    @property
    def theorem(self) -> str:
        """By number."""
        return THEOREMS[self.family]

    def words(self, power: Fraction) -> str:
        """What stands on a certificate."""
        r, low = number(power * self.shift, 6), [number(a, 6, up=False) for a in self.shape]
        if self.family in GAMMA_PAIRS:
            return f"Gamma({low[0]} + r) and Gamma({low[0]}), r = {r}; {self.theorem}"
        a, b = low
        return f"Beta({a} + r, {b}) and Beta({a}, {b} + r), r = {r}; {self.theorem}"


def conjugate_pair(private: PrivateModel) -> ConjugatePair | None:
    """Find the worst pair of a conjugate model, or None. Reads no data.

    Parameters
    ----------
    private : PrivateModel

    Returns
    -------
    ConjugatePair or None
        None for other families, trimmed parameters (T9 and T10 are about whole laws), several
        parameters, neighbors at a distance, and counts without an upper end. Units of several
        records only where all of them count on one line. Under add/remove only where a record is
        counted in one cell of a table.
    """
    plain = private.metric is None and not private.region and private.theta_l is None
    known = private.neighbors in (SUBSTITUTE, ADD_REMOVE)
    found = recognize(private) if plain and known else None
    if found is None:
        return None
    if private.neighbors == ADD_REMOVE:
        return _added(private, found)
    if private.n < private.records_per_unit:
        return None
    if found.family == "dirichlet":
        least = _prior_of_cells(private, found)[:2]
        return ConjugatePair("dirichlet", Fraction(1), least) if len(least) == 2 else None
    if found.family not in ("beta", "gamma") or private.shapes[found.names[0]]:
        return None
    if found.likelihood not in ("bernoulli", "binomial", "poisson"):
        return None
    shift = _width(private) * private.records_per_unit
    names = ("a", "b") if found.family == "beta" else ("a",)
    shape = tuple(Fraction(found.prior[name].item()) for name in names)
    return ConjugatePair(found.family, Fraction(shift), shape) if 0 < shift < math.inf else None


def _added(private: PrivateModel, found: Conjugate) -> ConjugatePair | None:
    """The pair of one record more in one cell; whatever the number of records is."""
    least = _prior_of_cells(private, found)[:1]
    return ConjugatePair("cells", Fraction(1), least) if least else None


def _prior_of_cells(private: PrivateModel, found: Conjugate) -> tuple[Fraction, ...]:
    """Prior parameters of the cells, the least first; none unless a record is counted in one."""
    one_hot = found.likelihood == "multinomial" and found.constants["trials"][()] == 1
    coin = found.likelihood == "bernoulli" and not private.sources[0].row_shape
    scalar = not private.shapes[found.names[0]]
    fits = (coin and scalar) or found.likelihood == "categorical" or one_hot
    if not fits or private.records_per_unit != 1:
        return ()
    return tuple(sorted(Fraction(a) for name in found.prior for a in np.ravel(found.prior[name])))


def _width(private: PrivateModel) -> Fraction | float:
    """How far the sum of one record's entries may lie from another's; whole, or infinite."""
    source = private.sources[0]
    ends = source.domain.bounds(source.row_shape)
    if not ends.is_finite:
        return math.inf
    widths = np.broadcast_to(np.subtract(ends.upper, ends.lower), source.row_shape)
    return sum((Fraction(math.ceil(width)) for width in np.ravel(widths)), Fraction(0))
