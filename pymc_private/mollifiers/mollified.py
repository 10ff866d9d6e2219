"""Mollified: a law close to the data and never far from a public one, one draw of which is safe."""

from __future__ import annotations

import os
import numpy as np
from collections.abc import Callable
from typing import Any
from pymc_private.errors import DomainError, Unsupported
from pymc_private.release.charge import Where
from pymc_private.mollifiers import mollified__publish
from pymc_private.mollifiers.window__budget import promise
from pymc_private.mollifiers.mollified_distributions import Law, check_effort, draw
from pymc_private.mollifiers.references import Finite, Reference
from pymc_private.mollifiers.window import Window
from pymc_private.release.release import Release
from pymc_private.models import compat
from pymc_private.privacy.validation import probability, refuse_mask, whole
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.neighbors__neighbors import ANY
from pymc_private.privacy.rounding__printing import counted, number

FIXED = "the reference law, the window and the number of draws are fixed without the data"
TIMED = "nobody learns how long a draw took, for the number of its trials depends on the data"
HULL = "convexity of the hull (Husain, Cranko and Nock 2019)"


class Mollified:
    """A law Q that any data set could nearly have had, made by `mollify`.

    It is the curator's: its probabilities, densities and estimate are functions of the data. What
    may leave is what `sample` returns.

    Attributes
    ----------
    epsilon : float, nats
        What one draw costs.
    kind : str
        ``"clip"``: Q/Q0 lies in `window`, exactly normalized. ``"tilt"``: Q is the reference times
        a weight whose logarithm has range epsilon / 2; its normalizer is neither known nor needed,
        and many draws cost far less.
    window : Window
        Of log Q/Q0; of a tilt, of the log weight.
    reference : Reference

    Notes
    -----
    *Promise.* Whatever the target was, one draw is `epsilon`-differentially private between any
    two data sets; k draws from one Q cost `guarantee(k)`. Conditions: the reference and the window
    are fixed without the data (the caller's claim), Q is normalized exactly or a tilt (checked when
    it is made), draws are exact (rejection). Theory T15a-d.
    """

    def __init__(
        self,
        law: Law,
        reference: Reference | Finite,
        epsilon: float,
        window: Window,
        kind: str,
        log_ratio: Callable[[np.ndarray], np.ndarray] | None = None,
        draws: int | None = None,
        delta: float = 0.0,
    ) -> None:
        self._law, self._log_ratio = law, log_ratio
        self.reference, self.epsilon, self.window, self.kind = reference, epsilon, window, kind
        self.draws, self.delta = draws, delta

    @property
    def probabilities(self) -> np.ndarray:
        """Q on the categories of a finite reference; for the curator's eyes.

        Raises
        ------
        Unsupported
            The reference is not finite.
        """
        finite = self._finite("probabilities")
        found = finite.mass * np.exp(self._law.log_weight(np.arange(len(finite.mass))))
        return found / found.sum()

    def log_ratio(self, x: Any) -> np.ndarray:
        """log Q/Q0 at points (categories, of a finite reference); for the curator's eyes.

        Of a tilt: of its weight, before normalization.
        """
        if isinstance(self.reference, Finite):
            return self._law.log_weight(self.reference.positions(np.atleast_1d(x)))
        if self._log_ratio is None:
            raise Unsupported("this law has no ratio that could be evaluated elsewhere")
        return self._log_ratio(self._rows(x))

    def logpdf(self, x: Any) -> np.ndarray:
        """log Q at points; for the curator's eyes. Of a pool: up to the pool's Monte Carlo error.

        Raises
        ------
        Unsupported
            The normalizer of a tilt is not known.
        """
        if self.kind == "tilt":
            raise Unsupported(
                "a tilt has no known normalizer",
                do="log_ratio(x) gives its weight; kind='clip' has a density",
            )
        if isinstance(self.reference, Finite):
            with np.errstate(divide="ignore"):
                mass = np.log(self.reference.mass[self.reference.positions(np.atleast_1d(x))])
            return mass + self.log_ratio(x)
        return self.reference.logpdf(self._rows(x)) + self.log_ratio(x)

    def guarantee(self, draws: int = 1, neighbors: str = ANY) -> Guarantee:
        """Promise for so many draws, fixed in advance.

        Parameters
        ----------
        draws : int
        neighbors : str
            ``"any"``: any two data sets, a promise that adds only to its like. ``"substitute"`` or
            ``"add_remove"``: what follows from it for one record, to be charged with others.
        """
        count = whole(draws, "the number of draws")
        words: dict[str, Any] = {"neighbors": ANY, "assumptions": (FIXED,)}
        if self.kind == "tilt":
            words = words | {"theorem": "T15a, T3", "assumptions": (FIXED, TIMED)}
            return Guarantee.bounded_range_of(self.epsilon, count, **words).restated(neighbors)
        if self.kind == "hull":
            made = count * Guarantee.pure(self.epsilon, theorem=HULL, **words)
        else:
            made = promise(self.window, count, **words)
        return made.restated(neighbors)

    def sample(
        self,
        draws: int | None = None,
        *,
        ledger: Ledger | None = None,
        neighbors: str = ANY,
        delta: float | None = None,
        name: str | None = None,
        data_version: str = "",
        save: str | os.PathLike[str] | None = None,
        again: bool = False,
        random_seed: int | None = None,
        progressbar: bool = True,
    ) -> Release:
        """Charge, then draw and release.

        Parameters
        ----------
        draws : int
            Default: those that `total` planned, else one.
        ledger : Ledger, optional
            Default: that of the context, else one in memory, with a warning. Its neighbors must be
            those of the promise: "any", or say ``neighbors="substitute"`` to charge a budget for
            single records.
        neighbors : str
            As in `guarantee`.
        delta : float, optional
            At which the promise is stated, and enters a ledger's road "approximate". Default: that
            of `total`, else 0.
        name, data_version, save, again, random_seed, progressbar
            As in `pymc_private.sample`.

        Returns
        -------
        Release
            The draws, the guarantee and public facts; no density, no estimate, no count of trials.

        Raises
        ------
        BudgetExceeded, Incompatible
            Nothing was charged.
        Unsupported
            Rejection would take too long, judged from epsilon and draws alone.
        """
        planned = self.draws or 1
        count = whole(planned if draws is None else draws, "the number of draws")
        if self.draws is not None and count > self.draws:
            raise DomainError(
                "the total was planned for fewer draws",
                got=count,
                allowed=f"at most {self.draws}",
                do="mollify again with total=(epsilon, delta, draws)",
            )
        check_effort(self._law, count)
        stated = self.delta if delta is None else probability(delta)
        plan = mollified__publish.Plan(
            guarantee=self.guarantee(count, neighbors),
            delta=stated,
            draws=count,
            reference=getattr(self.reference, "fingerprint", self.reference.text),
            shapes=self.reference.shapes,
            facts=self._facts(),
            values=lambda randomness, progress: draw(self._law, count, randomness, progress),
        )
        where = Where(ledger, name, data_version, save, again, random_seed)
        return mollified__publish.publish(plan, where, progressbar)

    def _facts(self) -> dict[str, Any]:
        """What is public: nothing here was computed from the data."""
        labels = self.reference.labels if isinstance(self.reference, Finite) else None
        names = labels is not None and "category" in self.reference.shapes
        return {
            "sampler": "rejection from the reference law",
            "claim": "exact",
            "law": "mollified law",
            "grid": "none: draws are the reference's own numbers, all of which stay possible",
            "model": f"{self.kind} of width {number(self.epsilon)} around {self.reference.text}, "
            f"log ratio in {self.window}",
            "ranges": getattr(self.reference, "ranges", None),
            "domain": {"category": [str(label) for label in labels or ()]} if names else {},
        }

    def _rows(self, x: Any) -> np.ndarray:
        d = self.reference.dimension
        refuse_mask(x, "points")
        rows = np.asarray(x, float)
        return rows.reshape(-1, 1) if d == 1 else np.atleast_2d(rows)

    def _finite(self, what: str) -> Finite:
        if not isinstance(self.reference, Finite):
            raise Unsupported(f"a continuous law has no {what}", do="use logpdf(x) or log_ratio(x)")
        return self.reference

    def plot(self, ax: Any = None) -> Any:
        """Draw reference and mollified law, for the curator's eyes; see `plots.laws`."""
        from pymc_private.mollifiers.mollified__plots import laws

        return laws(self, ax)

    def __repr__(self) -> str:
        rows = [
            f"Mollified ({self.kind}): one draw costs {number(self.epsilon)} nats, between any two "
            "data sets",
            f"  reference: {self.reference.text}",
            f"  window: log Q/Q0 in {self.window}",
            "  for the curator: only what sample() returns may leave",
        ]
        if self.draws is not None:
            rows.insert(
                1, f"  planned: {counted(self.draws, 'draw')}, delta = {number(self.delta)}"
            )
        return "\n".join(rows)

    def __reduce__(self) -> tuple:
        # Estimates are local functions, and a reference may be a PyMC model.
        return compat.unpickle, (compat.dumps((type(self), self.__dict__)),)

    def __deepcopy__(self, memo: dict) -> Mollified:
        rebuild, (payload,) = self.__reduce__()
        return rebuild(payload)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"
