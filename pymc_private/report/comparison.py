"""Comparison of private with non-private posterior draws, for the curator only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_private.errors import DomainError, suggest_arguments
from pymc_private.models import compat
from pymc_private.privacy import cards
from pymc_private.release import display
from pymc_private.release.chain_draws import as_draws, is_chain
from pymc_private.release.release import Release

WARNING = "CURATOR ONLY, NOT PRIVATE: this table reads the data and must not be published"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Means and standard deviations, private and not.

    Attributes
    ----------
    frame : pandas.DataFrame
        Columns ``private_mean, private_sd, other_mean, other_sd, shift``; shift is the
        difference of the means in units of the non-private standard deviation. Of three
        posteriors also ``summary_mean, summary_sd, summary_shift``.
    """

    frame: pd.DataFrame

    def __repr__(self) -> str:
        columns = [self.frame[name].to_numpy() for name in self.frame]
        rows = display.element_rows(list(self.frame.index), *columns)
        return f"{WARNING}\n{cards.text_table(('', *self.frame.columns), rows)}"

    def _repr_html_(self) -> str:
        return cards.html_card(WARNING, [("", repr(self).partition("\n")[2])], alarm=True)


@suggest_arguments
def compare(release: Any, idata: Any, summary: Any = None) -> Comparison:
    """Put private draws beside ordinary posterior draws of the same model.

    Parameters
    ----------
    release : Release, or draws of ``summary.model()``
    idata : InferenceData, DataTree or xarray.Dataset
        Not private; its variables and elements are matched by name.
    summary : InferenceData, DataTree or xarray.Dataset, optional
        Draws of ``summary.model()``, beside those of a release.

    Returns
    -------
    Comparison
        Marked as not private wherever it is shown.

    Raises
    ------
    DomainError
        `release` holds no private draws, `idata` is a release, or they share no variable.
    """
    other = _plain_draws(release, idata)
    private = [as_draws(one).posterior for one in (release, summary) if one is not None]
    shared = [set(map(str, one.data_vars)) for one in private]
    names = [name for name in private[0].data_vars if name in other.data_vars]
    names = [name for name in names if all(str(name) in held for held in shared)]
    if not names:
        raise DomainError(
            "The two have no variable in common.",
            got=", ".join(map(str, other.data_vars)),
            allowed=", ".join(map(str, private[0].data_vars)),
        )
    plain = compat.summarize_posterior(other[names])
    tables = [compat.summarize_posterior(one[names]) for one in private]
    rows = tables[0].index
    for table in (*tables[1:], plain):
        rows = rows.intersection(table.index, sort=False)
    return Comparison(_side_by_side([table.loc[rows] for table in tables], plain.loc[rows]))


def _side_by_side(tables: list[pd.DataFrame], plain: pd.DataFrame) -> pd.DataFrame:
    """Means, standard deviations and shifts of one or two private posteriors and the plain one."""
    columns = {"private_mean": tables[0]["mean"], "private_sd": tables[0]["sd"]}
    if len(tables) > 1:
        columns |= {"summary_mean": tables[1]["mean"], "summary_sd": tables[1]["sd"]}
    columns |= {"other_mean": plain["mean"], "other_sd": plain["sd"]}
    with np.errstate(divide="ignore", invalid="ignore"):
        for name, table in zip(("shift", "summary_shift"), tables, strict=False):
            columns[name] = (table["mean"] - plain["mean"]) / plain["sd"]
    return pd.DataFrame(columns)


def _plain_draws(release: Any, idata: Any) -> xr.Dataset:
    """The draws that are not private; refuses all but a release and such draws."""
    private = isinstance(release, Release) or is_chain(release)
    if private and not isinstance(idata, Release):
        try:
            return compat.to_dataset(idata)
        except (TypeError, ValueError, KeyError, OSError):  # ArviZ: no container of draws
            pass
    if hasattr(release, "model") and hasattr(release, "released"):
        raise DomainError(
            "compare puts draws beside draws, and a summary has none of its own",
            got=type(release).__name__,
            allowed="draws of summary.model(), then those of the original model",
            do="with summary.model(): draws = pm.sample(); then pmp.compare(draws, idata)",
        )
    raise DomainError(
        "compare puts a release beside draws of the same model that are not private: it is for "
        "the curator only, and not for two releases",
        got=f"{type(release).__name__} and {type(idata).__name__}",
        allowed="a Release or draws of summary.model(), then an InferenceData, DataTree or "
        "xarray.Dataset of pm.sample",
        do="with model: idata = pm.sample(); then pmp.compare(release, idata). Two releases are "
        "public, and need no such care: put release.mean(name) or release.posterior of each side "
        "by side",
    )
