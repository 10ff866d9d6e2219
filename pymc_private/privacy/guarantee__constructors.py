"""Guarantees of known mechanisms: ours, and other people's."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TYPE_CHECKING
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import exactly, inside_unit, not_negative, number_down, number_up, order_of, positive, probability, stated, whole
from pymc_private.privacy.event import Atom
from pymc_private.privacy.rounding__enclosure import real, upper
from pymc_private.privacy.exact_numbers import exact
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE, SUBSTITUTE, check_records
from pymc_private.privacy.rounding import root_up

if TYPE_CHECKING:
    from pymc_private.privacy.guarantee import Guarantee

class Constructors:
    """Class methods that build a guarantee; words are neighbors=, theorem= and assumptions=.

    A float that states epsilon or delta means the decimal it is written as (0.1 is 1/10), and any
    text is the exact number that a ledger reads in it ("0.01", "1/3"): pass a
    Fraction of it for the double itself. Every other number is the double or fraction it is: noise
    of scale 0.1 is made with the double, and its promise is rounded up from there.
    """

    @classmethod
    def _of(cls, *atoms: Atom, **words: Any) -> Guarantee:
        make: Any = cls
        return make(atoms, **words)

    # ---- stated promises --------------------------------------------------------------------
    @classmethod
    def pure(cls, epsilon: float, **words: Any) -> Guarantee:
        """Promise pure epsilon-differential privacy (nats)."""
        return cls._of(Atom("pure", stated(_read(epsilon, "epsilon"), "epsilon")), **words)

    @classmethod
    def approximate(cls, epsilon: float, delta: float, **words: Any) -> Guarantee:
        """Promise (epsilon, delta)-differential privacy."""
        epsilon, delta = _read(epsilon, "epsilon"), _read(delta, "delta")
        kind = "approximate" if probability(delta) > 0.0 else "pure"
        return cls._of(Atom(kind, stated(epsilon, "epsilon"), stated(delta, "delta")), **words)

    @classmethod
    def zcdp_of(cls, rho: float, **words: Any) -> Guarantee:
        """Promise rho-zero-concentrated differential privacy (Bun and Steinke 2016)."""
        return cls._of(Atom("zcdp", number_up(_read(rho, "rho"), "rho")), **words)

    @classmethod
    def gdp_of(cls, mu: float, **words: Any) -> Guarantee:
        """Promise mu-Gaussian differential privacy (Dong, Roth and Su 2022)."""
        return cls._of(Atom("gdp", number_up(_read(mu, "mu"), "mu")), **words)

    @classmethod
    def rdp_of(cls, order: float, rdp: float, **words: Any) -> Guarantee:
        """Promise a Renyi divergence of at most `rdp` nats at one order > 1 (Mironov 2017)."""
        order, rdp = _read(order, "order"), _read(rdp, "the divergence")
        order_of(order)  # what holds at an order holds below it
        return cls._of(Atom("rdp", number_up(rdp, "the divergence"), shape=order), **words)

    @classmethod
    def none(cls, reason: str, **words: Any) -> Guarantee:
        """No promise at all, and why: every epsilon is infinite."""
        return cls._of(Atom("none", math.inf), **({"assumptions": (reason,)} | words))

    # ---- our mechanisms ---------------------------------------------------------------------
    @classmethod
    def bounded_range_of(cls, R: float, draws: int = 1, **words: Any) -> Guarantee:
        """Promise for `draws` exact draws from one posterior whose record range is R nats (T1-T3).

        The number of draws is fixed in advance. Roads: pure N R, zCDP N min(R^2/8, tight), T3.
        """
        return cls._of(Atom("bounded_range", number_up(_read(R, "R"), "R"), 0.0, draws), **words)

    @classmethod
    def posterior_of(cls, R: float, mu: float, draws: int = 1, **words: Any) -> Guarantee:
        """Promise for `draws` exact draws of which a range R (T1), a mu (T7), or both are proved.

        What is not proved is infinite. Roads: those of `bounded_range_of`, and sqrt(N) mu-GDP.
        """
        R, mu = _read(R, "R"), _read(mu, "mu")
        if math.isinf(mu):
            return cls.bounded_range_of(R, draws, **words)
        up = number_up(mu, "mu")
        if math.isinf(R):
            return cls._of(Atom("gdp", up, 0.0, draws), **words)
        return cls._of(Atom("bounded_range", number_up(R, "R"), 0.0, draws, mu=up), **words)

    @classmethod
    def dirichlet_of(
        cls, r: float | Fraction, alpha: float | Fraction, tables: int = 1, draws: int = 1, *,
        beta: float | Fraction | None = None, **words: Any,
    ) -> Guarantee:  # fmt: skip
        """Promise for draws from Dir(r f + alpha) of so many families of tables (T9-T11).

        Under substitution each family costs one Beta pair, whatever its number of tables; under
        addition or removal one Gamma pair. alpha is the least prior parameter of any cell; a public
        lower bound b on every count adds r b to it. There is no pure epsilon and no zCDP.

        beta is the second least prior parameter, which makes one family under substitution cheaper:
        draws then cost the larger of the pair's two directions. Of several families each may have
        its own direction, so there alpha stands for both.
        """
        count = whole(tables, "the number of tables") * whole(draws, "the number of draws")
        added = check_records(words.get("neighbors", SUBSTITUTE)) == ADD_REMOVE
        r, alpha = _read(r, "r"), _read(alpha, "alpha")
        beta = None if beta is None else _read(beta, "beta")
        positive(r=r, alpha=alpha)
        other = 0.0 if added or tables != 1 or beta is None else number_down(beta)
        kind = "gamma_pair" if added else "beta_pair"
        pair = Atom(kind, number_up(r, "r"), 0.0, count, number_down(alpha), other)
        return cls._of(pair, **words)

    @classmethod
    def gamma_of(
        cls, r: float | Fraction, alpha: float | Fraction, draws: int = 1, **words: Any
    ) -> Guarantee:
        """Promise for draws from one Gamma posterior whose shape a record moves by at most r (T13).

        alpha is the prior's shape; the rate is the same whatever the records are. The worst pair is
        Gamma(alpha + r) against Gamma(alpha), in both directions. The draws take one of them
        together; other releases may take the other, which sums, multiples and lists allow for.
        There is no pure epsilon.
        """
        check_records(words.get("neighbors", SUBSTITUTE))
        r, alpha = _read(r, "r"), _read(alpha, "alpha")
        return cls._of(
            Atom("gamma_shift", number_up(r, "r"), 0.0, draws, number_down(alpha)), **words
        )

    @classmethod
    def mollifier_of(
        cls, epsilon: float, draws: int = 1, *, top: float | None = None, **words: Any
    ) -> Guarantee:
        """Promise for draws from one law within e^(+-epsilon/2) of a public one (T15b).

        It holds for any two data sets, and so for groups of any size. With `top`, log Q/Q0 lies in
        [top - epsilon, top]: see `moll_delta_k`.
        """
        epsilon = _read(epsilon, "epsilon")
        width = number_up(epsilon, "epsilon")
        if top is None:
            return cls._of(Atom("mollifier", width, 0.0, draws), **words)
        return cls._of(Atom("window", width, 0.0, draws, top), **words)

    # ---- other people's mechanisms ----------------------------------------------------------
    @classmethod
    def laplace_of(cls, sensitivity: float, scale: float, **words: Any) -> Guarantee:
        """Promise of (discrete) Laplace noise: sensitivity / scale, l1 (Dwork et al. 2006)."""
        return cls._of(Atom("pure", _ratio(sensitivity, scale)), **words)

    @classmethod
    def gaussian_of(cls, sensitivity: float, sd: float, **words: Any) -> Guarantee:
        """Promise of Gaussian noise: (sensitivity / sd)-GDP, l2 (Dong, Roth and Su 2022)."""
        return cls._of(Atom("gdp", _ratio(sensitivity, sd)), **words)

    @classmethod
    def discrete_gaussian_of(cls, sensitivity: float, sigma: float, **words: Any) -> Guarantee:
        """Promise of discrete Gaussian noise: sensitivity^2 / (2 sigma^2) of zCDP, l2.

        Canonne, Kamath and Steinke (2020), Theorem 4.
        """
        return cls._of(Atom("zcdp", _ratio(sensitivity, sigma) ** 2 / 2), **words)

    @classmethod
    def exponential_mechanism_of(cls, epsilon: float, **words: Any) -> Guarantee:
        """Promise of the exponential mechanism exp(epsilon u / (2 sensitivity)): range epsilon.

        Durfee and Rogers (2019).
        """
        return cls._of(
            Atom("bounded_range", number_up(_read(epsilon, "epsilon"), "epsilon")), **words
        )

    @classmethod
    def randomized_response_of(
        cls, truth: float | Fraction, levels: int = 2, **words: Any
    ) -> Guarantee:
        """Promise of the true one of some levels with probability `truth`, else any other alike."""
        k = whole(levels, "the number of levels")
        truth = _read(truth, "truth")
        inside_unit(truth=truth)
        if k < 2 or (truth < 1.0 / k and truth < Fraction(1, k)):  # 1/3 is below the third
            raise DomainError(
                "truth is a probability from 1/levels on, of two levels or more",
                got=f"truth={truth}, levels={levels}",
                allowed="1/levels <= truth < 1",
            )
        odds = exactly(truth) * (k - 1) / (1 - exactly(truth))
        return cls._of(Atom("pure", upper(lambda: abs(real(odds).log()))), **words)

    @classmethod
    def noisy_counts_of(
        cls, tables: int, noise: float, law: str = "discrete_gaussian", **words: Any
    ) -> Guarantee:
        """Promise of all counts of some tables with independent noise in every cell (T26).

        A substituted record moves one unit between two cells of each table, an added one changes
        one cell. Discrete Gaussian noise has the exact curve of its cells, and their zCDP.

        Parameters
        ----------
        tables : int
            Tables that count every record once each; K + 1 for naive Bayes with K features.
        noise : float
            Standard deviation, or scale of the (discrete) Laplace law.
        law : {"discrete_gaussian", "gaussian", "laplace"}
        """
        each = 1 if check_records(words.get("neighbors", SUBSTITUTE)) == ADD_REMOVE else 2
        cells = each * whole(tables, "the number of tables")
        if law == "laplace":
            return cls.laplace_of(cells, noise, **words)
        ratio = _ratio(1, noise) ** 2
        if law == "gaussian":
            return cls._of(Atom("gdp", root_up(cells * ratio)), **words)
        if law == "discrete_gaussian":
            cell = Atom("discrete_gaussian", root_up(ratio), count=cells)
            return cls._of(cell, **words)
        raise DomainError("law=", got=repr(law), allowed="discrete_gaussian, gaussian, laplace")

    @classmethod
    def jointly(cls, *parts: Guarantee) -> Guarantee:
        """Promise a list of releases all of which were declared before the first was made.

        Nothing about a later one may depend on what an earlier one gave. Then the losses of all
        exact pairs convolve (T23), which proves less epsilon than ``a + b``.
        """
        total = cls._of() if not parts else parts[0]
        if not all(isinstance(part, Constructors) for part in parts):
            raise DomainError("parts are guarantees", got=repr(parts)[:80], allowed="Guarantee")
        for part in parts[1:]:
            total = total._with(part, planned=True)
        return total


def _read(value: Any, name: str) -> Any:
    """Text as the exact number it writes, as ledgers read it; anything else as it is."""
    return exact(value, name) if isinstance(value, str) else value


def _ratio(sensitivity: float, noise: float) -> Fraction:
    """Sensitivity over noise, exactly."""
    sensitivity, noise = _read(sensitivity, "sensitivity"), _read(noise, "noise")
    positive(noise=noise)
    not_negative(sensitivity=sensitivity)
    if sensitivity == math.inf:
        raise DomainError("the sensitivity is finite", got=sensitivity)
    return exactly(sensitivity) / exactly(noise)
