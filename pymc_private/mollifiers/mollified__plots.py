"""Pictures of mollifiers. All but `costs` show what only the curator may see."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Sequence
from typing import Any, TYPE_CHECKING
from pymc_private.errors import Unsupported
from pymc_private.mollifiers.window__budget import promise
from pymc_private.mollifiers.references import Finite, Marginals
from pymc_private.mollifiers.window import Window
from pymc_private.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from pymc_private.mollifiers.mollified import Mollified
    from pymc_private.mollifiers.boosting_rounds import Round

BLUE, ORANGE, GRAY = "#3b6ea8", "#c8553d", "#9aa0a6"
SHARE = 0.05
"""Of the window that `costs` shows beside the symmetric one."""


def axes(ax: Any) -> Any:
    """Give these axes, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def laws(law: Mollified, ax: Any = None) -> Any:
    """Draw reference and mollified law: bars of categories, curves in 1-d, an image in 2-d."""
    ax = axes(ax)
    if isinstance(law.reference, Finite):
        _bars(law, law.reference, ax)
    elif law.reference.dimension == 1:
        _curves(law, ax)
    elif law.reference.dimension == 2:
        _image(law, ax)
    else:
        raise Unsupported("laws are drawn in one or two dimensions", got=law.reference.dimension)
    return ax


def _bars(law: Mollified, base: Finite, ax: Any) -> None:
    place = np.arange(len(base.mass))
    ax.bar(place - 0.2, base.mass, 0.4, color=GRAY, label="reference")
    ax.bar(place + 0.2, law.probabilities, 0.4, color=BLUE, label="mollified")
    if len(place) <= 30:
        ax.set_xticks(place, [str(label) for label in base.labels])
    ax.set_ylabel("probability")
    ax.legend(frameon=False)


def _curves(law: Mollified, ax: Any) -> None:
    x = _span(law, 0, 800)
    density = np.exp(law.reference.logpdf(x[:, None]))  # type: ignore[union-attr]
    ratio = np.exp(law.log_ratio(x))
    total = np.trapezoid(density * ratio, x) if law.kind == "tilt" else 1.0
    ax.plot(x, density, color=GRAY, label="reference")
    ax.plot(x, density * ratio / total, color=BLUE, label="mollified")
    ax.set_ylim(0.0, None)
    ax.set(xlabel="x", ylabel="density")
    ax.legend(frameon=False)


def _image(law: Mollified, ax: Any) -> None:
    x, y = _span(law, 0, 200), _span(law, 1, 200)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    ratio = law.log_ratio(grid).reshape(len(y), len(x))
    reach = np.abs(ratio).max()
    shown = ax.pcolormesh(x, y, ratio, cmap="RdBu_r", vmin=-reach, vmax=reach, rasterized=True)
    ax.figure.colorbar(shown, ax=ax, label="log Q/Q0 (nats)")
    ax.set(xlabel="x[0]", ylabel="x[1]", aspect="equal")


def _span(law: Mollified, axis: int, count: int) -> np.ndarray:
    base = law.reference
    if isinstance(base, Marginals):
        u = np.full((2, base.dimension), 0.5)
        u[:, axis] = 1e-5, 1.0 - 1e-5
        low, high = base.transport(u)[:, axis]
    else:
        low, high = np.quantile(base.pool(4096)[:, axis], [0.0, 1.0])  # type: ignore[union-attr]
    return np.linspace(low, high, count)


def rounds(made: Sequence[Round], ax: Any = None) -> Any:
    """Draw the gain of each round of boosting beside the least that its edges promise (T14)."""
    ax = axes(ax)
    place = np.arange(1, len(made) + 1)
    ax.bar(place - 0.2, [r.gain for r in made], 0.4, color=BLUE, label="realized gain")
    ax.bar(place + 0.2, [r.least_gain for r in made], 0.4, color=GRAY, label="promised by T14")
    ax.set_xticks(place)
    ax.set(xlabel="round", ylabel="nats")
    ax.legend(frameon=False)
    return ax


def costs(epsilon: float, delta: float, most: int, ax: Any = None) -> Any:
    """Draw what k draws of one law cost, by kind: a picture of prices, which reads no data.

    Parameters
    ----------
    epsilon : float, nats
        Of one draw.
    delta : float
    most : int
        The largest k.
    """
    ax = axes(ax)
    k = np.unique(np.geomspace(1, most, 25).astype(int))
    small = Window.asymmetric(epsilon, SHARE)
    roads: dict[str, tuple[str, str, Callable[[int], Guarantee]]] = {
        "k epsilon": (GRAY, "-", lambda n: Guarantee.pure(n * epsilon)),
        "clip (T15b)": (ORANGE, "-", lambda n: promise(Window.symmetric(epsilon), n)),
        f"clip, window={SHARE:g} (T15b)": (ORANGE, "--", lambda n: promise(small, n)),
        "tilt, MBDE (T15a)": (BLUE, "-", lambda n: Guarantee.bounded_range_of(epsilon, n)),
    }
    for name, (color, line, price) in roads.items():
        cost = [price(int(n)).epsilon(delta) for n in k]
        ax.loglog(k, cost, color=color, linestyle=line, label=name)
    ax.set(xlabel="draws", ylabel=f"epsilon at delta = {delta:g}")
    ax.legend(frameon=False)
    return ax
