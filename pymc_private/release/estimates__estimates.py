"""An estimate with its error: value, bounds, standard error, and the words that go with them."""

from __future__ import annotations

import numpy as np
import xarray as xr
from dataclasses import dataclass
from typing import Any, TYPE_CHECKING
from pymc_private.release import display

if TYPE_CHECKING:
    from pymc_private.release.release import Release

SAMPLE_DIMS = ("chain", "draw")


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """An estimate from released draws and how far off it may be.

    Attributes
    ----------
    value : xarray.DataArray or float
        The estimate.
    error : xarray.DataArray or float
        No element is further from the truth under the private posterior, with probability
        ``confidence`` for all elements at once. Infinite where nothing is known (see ``note``).
    lower, upper : xarray.DataArray or float
        The same statement as an interval, which may be shorter on one side.
    mcse : xarray.DataArray or float
        Monte Carlo standard error, the usual estimate; no bound.
    what, method, note : str
        What is estimated, which inequality bounds it, what to know besides.
    draws : int
        Number of independent draws.
    confidence : float
        Probability that all bounds hold.
    """

    what: str
    value: Any
    error: Any
    lower: Any
    upper: Any
    mcse: Any
    draws: int
    confidence: float
    method: str
    note: str = ""

    def __float__(self) -> float:
        return float(self.value)

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate with the interval that holds the truth, element by element."""
        from pymc_private.release.plots import estimates

        return estimates(self, ax)

    def _rows(self) -> list[display.Row]:
        rows = [("bound", self.method), ("draws", str(self.draws)), ("note", self.note)]
        if not isinstance(self.value, xr.DataArray):
            rows.insert(0, ("value", _line(self)))
        return [(title, text) for title, text in rows if text]

    def _table(self) -> str:
        if not isinstance(self.value, xr.DataArray):
            return ""
        columns = [
            np.ravel(np.asarray(part))
            for part in (self.value, self.error, self.lower, self.upper, self.mcse)
        ]
        rows = display.element_rows(labels_of(self), *columns)
        return display.table(("", "estimate", "error", "lower", "upper", "mcse"), rows)

    def __repr__(self) -> str:
        return "\n".join(filter(None, (display.text_card(self.what, self._rows()), self._table())))

    def _repr_html_(self) -> str:
        rows = self._rows()
        if isinstance(self.value, xr.DataArray):
            rows.insert(0, ("values", self._table()))
        return display.html_card(self.what, rows, alarm=display.NOT_PRIVATE in self.what)


def shaped(
    release: Release,
    what: str,
    array: xr.DataArray,
    columns: tuple[np.ndarray, ...],
    *,
    delta: float,
    elements: int,
    inequality: str,
    note: str,
    levels: np.ndarray | None = None,
) -> Estimate:
    """Give flat columns (value, lower, upper, mcse) the shape and labels of the variable."""
    value, lower, upper, mcse = columns
    with np.errstate(invalid="ignore"):
        error = np.maximum(value - lower, upper - value)
    shape = array.shape[2:]
    dims, coords = array.dims[2:], array.drop_vars(SAMPLE_DIMS, errors="ignore").coords
    if levels is not None:
        shape, dims = (len(levels), *shape), ("quantile", *dims)
        coords = {**coords, "quantile": levels}  # type: ignore[assignment]

    def label(part: np.ndarray) -> xr.DataArray | float:
        if shape == ():
            return float(part.item())
        return xr.DataArray(part.reshape(shape), dims=dims, coords=coords, name=array.name)

    mark = "" if release.private else f" ({display.NOT_PRIVATE})"
    return Estimate(
        what=what + mark,
        value=label(value),
        error=label(error),
        lower=label(lower),
        upper=label(upper),
        mcse=label(mcse),
        draws=release.posterior.sizes["draw"],
        confidence=1 - delta,
        method=_method(inequality, 1 - delta, elements, display.drawn_from(release)),
        note=note,
    )


def labels_of(estimate: Estimate) -> list[str]:
    """Name the elements of an estimate."""
    if not isinstance(estimate.value, xr.DataArray):
        return [estimate.what]
    from pymc_private.models.compat import element_labels

    return list(element_labels(estimate.value))


def _method(inequality: str, confidence: float, elements: int, law: str) -> str:
    together = f" for all {elements} elements together" if elements > 1 else ""
    return (
        f"{inequality}, confidence {display.estimate_number(confidence)}{together}, "
        f"for independent draws of {law}"
    )


def _line(estimate: Estimate) -> str:
    write = display.estimate_number
    return (
        f"{write(estimate.value)}, error at most {write(estimate.error)} "
        f"[{write(estimate.lower)}, {write(estimate.upper)}], mcse {write(estimate.mcse)}"
    )
