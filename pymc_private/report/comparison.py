"""Comparison of private with non-private posterior draws, for the curator only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_private.errors import DomainError, suggest_arguments
from pymc_private.models import compat
from pymc_private.release import display
from pymc_private.release.release import Release

WARNING = "CURATOR ONLY, NOT PRIVATE: this table reads the data and must not be published"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Means and standard deviations, private and not.

    Attributes
    ----------
    frame : pandas.DataFrame
        Columns ``private_mean, private_sd, other_mean, other_sd, shift``; shift is the
        difference of the means in units of the non-private standard deviation.
    """

    frame: pd.DataFrame

    def __repr__(self) -> str:
        columns = [self.frame[name].to_numpy() for name in self.frame]
        rows = display.element_rows(list(self.frame.index), *columns)
        return f"{WARNING}\n{display.text_table(('', *self.frame.columns), rows)}"

    def _repr_html_(self) -> str:
        return display.html_card(WARNING, [("", repr(self).partition("\n")[2])], alarm=True)


@suggest_arguments
def compare(release: Release, idata: Any) -> Comparison:
    """Put a release beside ordinary posterior draws of the same model.

    Parameters
    ----------
    release : Release
    idata : InferenceData, DataTree or xarray.Dataset
        Not private; its variables and elements are matched by name.

    Returns
    -------
    Comparison
        Marked as not private wherever it is shown.

    Raises
    ------
    DomainError
        `release` is no release, `idata` is one, or the two share no variable.
    """
    other = _plain_draws(release, idata)
    names = [name for name in release.posterior.data_vars if name in other.data_vars]
    if not names:
        raise DomainError(
            "The two have no variable in common.",
            got=", ".join(map(str, other.data_vars)),
            allowed=", ".join(map(str, release.posterior.data_vars)),
        )
    private, plain = (
        compat.summarize_posterior(release.posterior[names]),
        compat.summarize_posterior(other[names]),
    )
    rows = private.index.intersection(plain.index, sort=False)
    private, plain = private.loc[rows], plain.loc[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = (private["mean"] - plain["mean"]) / plain["sd"]
    return Comparison(pd.DataFrame({
        "private_mean": private["mean"], "private_sd": private["sd"],
        "other_mean": plain["mean"], "other_sd": plain["sd"], "shift": shift,
    }))  # fmt: skip


def _plain_draws(release: Any, idata: Any) -> xr.Dataset:
    """The draws that are not private; refuses all but a release and such draws."""
    if isinstance(release, Release) and not isinstance(idata, Release):
        try:
            return compat.to_dataset(idata)
        except (TypeError, ValueError, KeyError):  # ArviZ: no container of draws
            pass
    raise DomainError(
        "compare puts a release beside draws of the same model that are not private: it is for "
        "the curator only, and not for two releases",
        got=f"{type(release).__name__} and {type(idata).__name__}",
        allowed="a Release, then an InferenceData, DataTree or xarray.Dataset of pm.sample",
        do="with model: idata = pm.sample(); then pmp.compare(release, idata). Two releases are "
        "public, and need no such care: put release.mean(name) or release.posterior of each side "
        "by side",
    )
