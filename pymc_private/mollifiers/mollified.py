"""`Mollified`: a distribution near the data and never far from a public one, and its release.

The object is the curator's: its probabilities, densities and plots are functions of the data.
`Mollified.sample` charges a ledger, then draws and releases (T15a-d). Of the plots all but
`plot_costs` show what only the curator may see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Unpack

import numpy as np
import xarray as xr

from pymc_private.errors import DomainError, Unsupported
from pymc_private.ledger.ledger import Ledger
from pymc_private.models import compat
from pymc_private.mollifiers.mollified_distributions import (
    RejectionTarget,
    check_rejection_effort,
    rejection_draws,
)
from pymc_private.mollifiers.references import FiniteReference, QuantileReference, Reference
from pymc_private.mollifiers.window import Window, clip_guarantee
from pymc_private.privacy import cards
from pymc_private.privacy.argument_kinds import DOUBLES
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import ANY
from pymc_private.privacy.plots import axes_or_new
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.privacy.validation import check_count, check_delta, check_flags, refuse_mask
from pymc_private.release import charge
from pymc_private.release.charge import (
    ReleaseJob,
    ReleaseKeywords,
    ReleaseOptions,
    takes_release_keywords,
)
from pymc_private.release.draws_job import draws_job
from pymc_private.release.release import Release
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness

FIXED_ASSUMPTION = (
    "the reference distribution, the window and the number of draws are fixed without the data"
)
TIMING_ASSUMPTION = (
    "nobody learns how long a draw took, for the number of its trials depends on the data"
)
HULL_THEOREM = "convexity of the hull (Husain, Cranko and Nock 2019)"


class Mollified:
    """A distribution Q near the data and within a window around a public reference Q0.

    Made by `mollify`, for the curator: its probabilities, densities and estimate are functions of
    the data. Only what `sample` returns may be released.

    Attributes
    ----------
    epsilon : float, nats
        The cost of one draw.
    kind : str
        ``"clip"``: Q/Q0 lies in `window`, exactly normalized. ``"tilt"``: Q is the reference times
        a weight whose logarithm has range epsilon / 2; its normalizer is neither known nor needed,
        and many draws cost far less.
    window : Window
        Of log Q/Q0; of a tilt, of the log weight.
    reference : Reference

    Notes
    -----
    *Guarantee.* Whatever the target was, one draw is `epsilon`-differentially private between any
    two data sets; k draws from one Q cost `guarantee(k)`. Conditions: the reference and the window
    are fixed without the data (the caller's claim), Q is normalized exactly or a tilt (checked when
    it is made), draws are exact (rejection). Theory T15a-d.
    """

    def __init__(
        self,
        distribution: RejectionTarget,
        reference: Reference | FiniteReference,
        epsilon: float,
        window: Window,
        kind: str,
        log_ratio: Callable[[np.ndarray], np.ndarray] | None = None,
        draws: int | None = None,
        delta: float = 0.0,
    ) -> None:
        self._distribution, self._log_ratio = distribution, log_ratio
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
        found = finite.mass * np.exp(self._distribution.log_weight(np.arange(len(finite.mass))))
        return found / found.sum()

    def log_ratio(self, x: Any) -> np.ndarray:
        """log Q/Q0 at points (categories, of a finite reference); for the curator's eyes.

        Of a tilt: of its weight, before normalization.
        """
        if isinstance(self.reference, FiniteReference):
            return self._distribution.log_weight(self.reference.positions(np.atleast_1d(x)))
        if self._log_ratio is None:
            raise Unsupported(
                "the density ratio to the reference is not known as a function",
                got="log_ratio=None, on a reference that is not finite",
                allowed="distributions as mollify returns them",
                do="make it by mollify(target, reference, epsilon)",
            )
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
                "the normalizing constant of a tilt is not known, and with it its density",
                do="log_ratio(x) gives its weight; kind='clip' has a density",
            )
        if isinstance(self.reference, FiniteReference):
            with np.errstate(divide="ignore"):
                mass = np.log(self.reference.mass[self.reference.positions(np.atleast_1d(x))])
            return mass + self.log_ratio(x)
        return self.reference.logpdf(self._rows(x)) + self.log_ratio(x)

    def guarantee(self, draws: int = 1, neighbors: str = ANY) -> Guarantee:
        """Guarantee for that number of draws, fixed in advance.

        Parameters
        ----------
        draws : int
        neighbors : str
            ``"any"``: any two data sets, a guarantee that composes only with others of its kind.
            ``"substitute"`` or ``"add_remove"``: its consequence for one record, which can be
            charged with others.
        """
        count = check_count(draws, "the number of draws")
        keywords: dict[str, Any] = {"neighbors": ANY, "assumptions": (FIXED_ASSUMPTION,)}
        if self.kind == "tilt":
            keywords = keywords | {
                "theorem": "T15a, T3",
                "assumptions": (FIXED_ASSUMPTION, TIMING_ASSUMPTION),
            }
            return Guarantee.bounded_range_of(self.epsilon, count, **keywords).restated(neighbors)
        if self.kind == "hull":
            guarantee = count * Guarantee.pure(self.epsilon, theorem=HULL_THEOREM, **keywords)
        else:
            guarantee = clip_guarantee(self.window, count, **keywords)
        return guarantee.restated(neighbors)

    @takes_release_keywords
    def sample(
        self,
        draws: int | None = None,
        *,
        ledger: Ledger | None = None,
        neighbors: str = ANY,
        delta: float | None = None,
        progressbar: bool = True,
        **options: Unpack[ReleaseKeywords],
    ) -> Release:
        """Charge, then draw and release.

        Parameters
        ----------
        draws : int
            Default: those that `total` planned, else one.
        ledger : Ledger, optional
            Default: that of the context, else one in memory, with a warning. Its neighbors must be
            those of the guarantee: "any", or say ``neighbors="substitute"`` to charge a budget for
            single records.
        neighbors : str
            As in `guarantee`.
        delta : float, optional
            At which the guarantee is stated, and charged to the approximate account of a ledger.
            Default: that of `total`, else 0.
        progressbar : bool
        **options
            ``name=``, ``data_version=``, ``save=``, ``again=``, ``random_seed=``: see
            `pymc_private.sample`.

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
        count = check_count(planned if draws is None else draws, "the number of draws")
        if self.draws is not None and count > self.draws:
            raise DomainError(
                "the total was planned for fewer draws",
                got=count,
                allowed=f"at most {self.draws}",
                do="mollify again with total=(epsilon, delta, draws)",
            )
        check_rejection_effort(self._distribution, count)
        stated = self.delta if delta is None else check_delta(delta)
        check_flags(progressbar=progressbar)
        job = self._job(count, neighbors, stated, options.get("name"), progressbar)
        return charge.publish(job, ReleaseOptions(ledger, **options))

    def _job(
        self, draws: int, neighbors: str, delta: float, name: str | None, progressbar: bool
    ) -> ReleaseJob[Release]:
        """The job of `charge.publish`."""
        guarantee, shapes = self.guarantee(draws, neighbors), self.reference.shapes
        facts = self._facts() | {"draws": draws}
        reference = getattr(self.reference, "fingerprint", self.reference.text)
        shown = {key: facts[key] for key in ("model", "domain")}
        fixed = guarantee.to_dict(), delta, draws
        width = sum(math.prod(shape) for shape in shapes.values())

        def drawn(seed: int | None) -> np.ndarray:
            randomness = SystemRandomness() if seed is None else SeededRandomness.from_seed(seed)
            with charge.suppress_warnings(), charge.progress_bar(draws, progressbar) as progress:
                return rejection_draws(self._distribution, draws, randomness, progress)

        return draws_job(
            guarantee,
            delta,
            key=repr((fixed, reference, dict(shapes), shown)),
            label=format_count(draws, "draw"),
            another="another distribution",
            name=name,
            draw=drawn,
            contents=lambda values: (named_draws(values, shapes), facts),
            made_up=lambda: np.zeros((draws, width)),
        )

    def _facts(self) -> dict[str, Any]:
        """What is public: nothing here was computed from the data."""
        labels = self.reference.labels if isinstance(self.reference, FiniteReference) else None
        names = labels is not None and "category" in self.reference.shapes
        return {
            "sampler": "rejection from the reference distribution",
            "claim": "exact",
            "distribution": "mollified distribution",
            "grid": "none: draws are the reference's own numbers, all of which stay possible",
            "model": f"{self.kind} of width {format_number(self.epsilon)} around "
            f"{self.reference.text}, log ratio in {self.window}",
            "ranges": getattr(self.reference, "ranges", None),
            "domain": {"category": [str(label) for label in labels or ()]} if names else {},
        }

    def _rows(self, x: Any) -> np.ndarray:
        d = self.reference.dimension
        refuse_mask(x, "points")
        rows = np.asarray(DOUBLES.of(x, "x", "a density"), float)
        return rows.reshape(-1, 1) if d == 1 else np.atleast_2d(rows)

    def _finite(self, what: str) -> FiniteReference:
        if not isinstance(self.reference, FiniteReference):
            raise Unsupported(
                f"a continuous distribution has no {what}", do="use logpdf(x) or log_ratio(x)"
            )
        return self.reference

    def plot(self, ax: Any = None) -> Any:
        """Plot reference and mollified distribution, for the curator; see `plot_distributions`."""
        return plot_distributions(self, ax)

    def __repr__(self) -> str:
        rows = [
            f"Mollified ({self.kind}): one draw costs {format_number(self.epsilon)} nats, "
            "between any two data sets",
            f"  reference: {self.reference.text}",
            f"  window: log Q/Q0 in {self.window}",
            "  for the curator: only what sample() returns may leave",
        ]
        if self.draws is not None:
            rows.insert(
                1,
                f"  planned: {format_count(self.draws, 'draw')}, "
                f"delta = {format_number(self.delta)}",
            )
        return "\n".join(rows)

    def __reduce__(self) -> tuple:
        # Estimates are local functions, and a reference may be a PyMC model.
        return compat.unpickle, (compat.pickle_state((type(self), self.__dict__)),)

    def __deepcopy__(self, memo: dict) -> Mollified:
        rebuild, (payload,) = self.__reduce__()
        return rebuild(payload)

    def _repr_html_(self) -> str:
        return cards.html_text(repr(self))


def named_draws(values: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> xr.Dataset:
    """The numbers of each draw as variables of a posterior."""
    variables, start = {}, 0
    for name, shape in shapes.items():
        width = math.prod(shape)
        part = values[:, start : start + width].reshape(1, len(values), *shape)
        dims = [f"{name}_dim_{i}" for i in range(len(shape))]
        variables[name] = (("chain", "draw", *dims), part)
        start += width
    return xr.Dataset(variables)


TAIL = 0.0025
"""Mass of the reference on either side of what is plotted: heavy tails would hide the rest."""
BLUE, ORANGE, GRAY = "#3b6ea8", "#c8553d", "#9aa0a6"
EXAMPLE_SHARE = 0.05
"""Of the window that `plot_costs` shows beside the symmetric one."""


def plot_distributions(mollified: Mollified, ax: Any = None) -> Any:
    """Plot reference and mollified distribution: bars, curves in 1-d, an image in 2-d."""
    base = mollified.reference
    if not isinstance(base, FiniteReference) and base.dimension > 2:
        raise Unsupported(
            "distributions are plotted in one or two dimensions",
            got=f"{base.dimension} dimensions",
            allowed="1 or 2",
            do="draw from it, and plot pairs of coordinates",
        )
    ax = axes_or_new(ax)
    if isinstance(base, FiniteReference):
        _bars(mollified, base, ax)
    elif base.dimension == 1:
        _curves(mollified, ax)
    else:
        _log_ratio_image(mollified, ax)
    return ax


def _bars(mollified: Mollified, base: FiniteReference, ax: Any) -> None:
    positions = np.arange(len(base.mass))
    ax.bar(positions - 0.2, base.mass, 0.4, color=GRAY, label="reference")
    ax.bar(positions + 0.2, mollified.probabilities, 0.4, color=BLUE, label="mollified")
    if len(positions) <= 30:
        ax.set_xticks(positions, [str(label) for label in base.labels])
    ax.set_ylabel("probability")
    ax.legend(frameon=False)


def _curves(mollified: Mollified, ax: Any) -> None:
    x = _plot_grid(mollified, 0, 800)
    density, found = _densities(mollified, x)
    if mollified.kind == "tilt":
        found /= np.exp(mollified.log_ratio(_reference_points(mollified))).mean()
    ax.plot(x, density, color=GRAY, label="reference")
    ax.plot(x, found, color=BLUE, label="mollified")
    ax.set_ylim(0.0, None)
    ax.set(xlabel="x", ylabel="density")
    ax.legend(frameon=False)


def _densities(mollified: Mollified, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Densities of the reference and, up to its mass, of the mollified distribution."""
    density = np.exp(mollified.reference.logpdf(x[:, None]))  # type: ignore[union-attr]
    return density, density * np.exp(mollified.log_ratio(x))


def _log_ratio_image(mollified: Mollified, ax: Any) -> None:
    x, y = _plot_grid(mollified, 0, 200), _plot_grid(mollified, 1, 200)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    ratio = mollified.log_ratio(grid).reshape(len(y), len(x))
    reach = np.abs(ratio).max()
    shown = ax.pcolormesh(x, y, ratio, cmap="RdBu_r", vmin=-reach, vmax=reach, rasterized=True)
    ax.figure.colorbar(shown, ax=ax, label="log Q/Q0 (nats)")
    ax.set(xlabel="x[0]", ylabel="x[1]", aspect="equal")


def _reference_points(mollified: Mollified, count: int = 4096) -> np.ndarray:
    """Points of a reference in one dimension that stand for equal shares of its mass."""
    base = mollified.reference
    if isinstance(base, QuantileReference):
        return base.transport(((np.arange(count) + 0.5) / count)[:, None])[:, 0]
    return np.asarray(base.pool(count)[:, 0])  # type: ignore[union-attr]


def _plot_grid(mollified: Mollified, axis: int, count: int) -> np.ndarray:
    base = mollified.reference
    if isinstance(base, QuantileReference):
        u = np.full((2, base.dimension), 0.5)
        u[:, axis] = TAIL, 1.0 - TAIL
        low, high = base.transport(u)[:, axis]
    else:
        low, high = np.quantile(base.pool(4096)[:, axis], [TAIL, 1.0 - TAIL])  # type: ignore[union-attr]
    return np.linspace(low, high, count)


def plot_costs(epsilon: float, delta: float, most: int, ax: Any = None) -> Any:
    """Plot the cost of k draws of one distribution by kind; reads no data.

    Parameters
    ----------
    epsilon : float, nats
        Of one draw.
    delta : float
    most : int
        The largest k.
    """
    k = np.unique(np.geomspace(1, most, 25).astype(int))
    small = Window.asymmetric(epsilon, EXAMPLE_SHARE)
    guarantees: dict[str, tuple[str, str, Callable[[int], Guarantee]]] = {
        "k epsilon": (GRAY, "-", lambda n: Guarantee.pure(n * epsilon)),
        "clip (T15b)": (ORANGE, "-", lambda n: clip_guarantee(Window.symmetric(epsilon), n)),
        f"clip, window={EXAMPLE_SHARE:g} (T15b)": (
            ORANGE,
            "--",
            lambda n: clip_guarantee(small, n),
        ),
        "tilt, MBDE (T15a)": (BLUE, "-", lambda n: Guarantee.bounded_range_of(epsilon, n)),
    }
    costs = {
        name: [guarantee_of(int(n)).epsilon(delta) for n in k]
        for name, (_, _, guarantee_of) in guarantees.items()
    }
    ax = axes_or_new(ax)
    for name, (color, line, _) in guarantees.items():
        ax.loglog(k, costs[name], color=color, linestyle=line, label=name)
    ax.set(xlabel="draws", ylabel=f"epsilon at delta = {delta:g}")
    ax.legend(frameon=False)
    return ax
