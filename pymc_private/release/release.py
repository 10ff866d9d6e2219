"""The `Release` class: private draws, their guarantee and public facts, and nothing else.

A release is a frozen value. Its posterior and facts are checked against the allow-lists of
`release.allowed`, and facts that promise more than the guarantee proves are refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from pymc_private.errors import DomainError, Incompatible, PointsElsewhere, suggest_arguments
from pymc_private.privacy import cards
from pymc_private.privacy.argument_kinds import GUARANTEE, MAPPING
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.validation import check_file_path, check_flags
from pymc_private.release import citations, display, estimates, storage
from pymc_private.release.allowed import (
    as_float,
    check_facts,
    check_posterior,
    content_fingerprint,
    dump_json,
)
from pymc_private.release.publishable import Publishable

if TYPE_CHECKING:
    from pymc_private.release.estimates import Estimate
    from pymc_private.release.predict import Prediction
    from pymc_private.release.utilities import FunctionOfDraws

EPSILON_TOLERANCE = 1e-9
"""Relative difference of epsilon that is rounding: platforms differ in the last digits of a log."""


class Release(Publishable):
    """Draws that may be published, with their privacy guarantee.

    A frozen value: its attributes are copies over read-only arrays; equal content means equal
    objects, equal hashes and, saved, equal bytes. Reading it, answering from it and passing it on
    are post-processing and cost nothing.

    Parameters
    ----------
    posterior : xarray.Dataset
        Variables with dims ``chain`` (size 1), ``draw``, ... Checked against an allow-list:
        see ``release.allowed.check_posterior``.
    guarantee : Guarantee
        What publishing these draws reveals at most.
    facts : mapping
        Public facts: see ``release.allowed.check_facts``.
    private : bool
        False for a seeded run; then the guarantee is ``Guarantee.none(reason)`` and everything
        printed, plotted or saved says NOT PRIVATE.

    Raises
    ------
    DomainError
        Something in the posterior or the facts is not on the list, or facts and guarantee
        disagree.
    """

    __slots__ = ("_facts", "_fingerprint", "_guarantee", "_posterior", "_private")

    _facts: dict[str, Any]
    _posterior: xr.Dataset

    def __init__(
        self,
        posterior: xr.Dataset,
        guarantee: Guarantee,
        facts: Mapping[str, Any],
        private: bool = True,
    ) -> None:
        check_flags(private=private)
        guarantee = GUARANTEE.of(guarantee, "guarantee", "a release")
        plain = check_facts(MAPPING.of(facts, "facts", "a release"))
        checked = check_posterior(posterior, records=plain.get("records"))
        _refuse_contradictions(checked, guarantee, plain, private)
        for field, value in (
            ("_posterior", checked),
            ("_guarantee", guarantee),
            ("_facts", plain),
            ("_private", bool(private)),
        ):
            object.__setattr__(self, field, value)
        digest = content_fingerprint(checked, dump_json(storage.release_header(self)))
        object.__setattr__(self, "_fingerprint", digest)

    @property
    def posterior(self) -> xr.Dataset:
        """The draws, dims chain = 1, draw, ...; the arrays are read-only."""
        return self._posterior.copy(deep=False)

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts about the run (a copy)."""
        return check_facts(self._facts)

    def to_arviz(self, chains: int = 1) -> Any:
        """Give a plain InferenceData (ArviZ 0.x) or DataTree (1.x): the group ``posterior`` only.

        Parameters
        ----------
        chains : int
            Independent draws may be called several chains, for plots that want them; must
            divide the number of draws.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            Writable copies; the guarantee as text in ``posterior.attrs``.
        """
        from pymc_private.models.compat import to_arviz

        return to_arviz(storage.annotated_posterior(self, chains).copy(deep=True))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Save as netCDF for :func:`load` and ``az.from_netcdf``, whole or not at all.

        A file that already holds an equal release stays as it is.

        Raises
        ------
        Incompatible
            The file exists and holds something else (unless ``overwrite``).
        """
        return storage.save(self, path, overwrite=overwrite)

    def to_bytes(self) -> bytes:
        """Give the content of :meth:`save` as bytes."""
        return storage.to_bytes(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> Release:
        """Restore a release from its bytes; raises Incompatible if they are not one."""
        arguments, expected = storage.parse(content)
        try:
            release = cls(**arguments)
        except (DomainError, Incompatible) as cause:
            raise storage.damaged_error() from cause
        if release.fingerprint != expected:
            raise storage.damaged_error()
        return release

    def summary(self) -> str:
        """The release in plain text, as it prints: first what the draws tell beside the prior."""
        return repr(self)

    def cite(self) -> str:
        """BibTeX for the theorems that this guarantee rests on."""
        return citations.cite(self._guarantee.theorem, self._facts.get("citations", ()))

    def mean(self, name: str, *, delta: float = 0.05) -> Estimate:
        """Posterior mean of each element of a variable, with a bound: see ``estimates.mean``."""
        return estimates.mean(self, name, delta=delta)

    def quantile(self, name: str, q: float | Sequence[float], *, delta: float = 0.05) -> Estimate:
        """Posterior quantiles with a bound: see ``estimates.quantile``."""
        return estimates.quantile(self, name, q, delta=delta)

    def interval(self, name: str, prob: float = 0.9, *, delta: float = 0.05) -> Estimate:
        """Endpoints of the central interval, with bounds: see ``estimates.interval``."""
        return estimates.interval(self, name, prob, delta=delta)

    def prob(self, event: FunctionOfDraws, *, delta: float = 0.05) -> Estimate:
        """Posterior probability of an event, a function of the draws or an expression.

        With exact bounds: see ``estimates.prob``.
        """
        return estimates.prob(self, event, delta=delta)

    def predict(
        self,
        what: str | None = None,
        *,
        model: Any = None,
        bounds: tuple[float, float] | None = None,
        delta: float = 0.05,
        **covariates: Any,
    ) -> Prediction:
        """Predict at public covariates, from the model or a skeleton: see ``predict.predict``."""
        from pymc_private.release.predict import predict

        return predict(self, what, model=model, bounds=bounds, delta=delta, **covariates)

    def __reduce__(self) -> Any:
        return Release, (self._posterior, self._guarantee, self._facts, self._private)

    def __repr__(self) -> str:
        return cards.text_card(display.release_title(self), display.release_rows(self))

    def _repr_html_(self) -> str:
        return cards.html_card(
            display.release_title(self), display.release_rows(self), alarm=not self._private
        )


@suggest_arguments
def load(path: str | os.PathLike[str]) -> Release:
    """Load a release that `Release.save` wrote.

    Raises
    ------
    DomainError
        No path of a file.
    FileNotFoundError
        No such file.
    Incompatible
        The file is not a release, or is damaged.
    """
    return Release.from_bytes(read_saved_file(path))


def read_saved_file(path: str | os.PathLike[str]) -> bytes:
    """The content of a file that should hold a release; raises as `load` does."""
    file = check_file_path(path, "the place of a release")
    if file.is_dir():
        raise DomainError(
            "this is a folder, not a release",
            got=file.name,
            do="name the file in it that Release.save wrote",
        )
    return file.read_bytes()


def check_release(thing: Any) -> Release:
    """Refuse anything but a `Release`."""
    if isinstance(thing, Release):
        return thing
    raise DomainError(
        "answers are computed from a release",
        got=type(thing).__name__,
        allowed="a Release, as sample, dirichlet or load return it; or draws of MCMC given a "
        "summary, with the dims chain and draw",
        do=thing._elsewhere.get("sample") if isinstance(thing, PointsElsewhere) else None,
    )


def _refuse_contradictions(
    posterior: xr.Dataset, guarantee: Guarantee, facts: dict[str, Any], private: bool
) -> None:
    """Refuse facts that claim more privacy than the guarantee, or that describe other draws."""
    epsilon = guarantee.epsilon(as_float(facts.get("delta", 0)))
    if private and epsilon == float("inf"):
        raise DomainError(
            "A private release has a finite epsilon at its delta.",
            got=f"infinite at delta = {facts.get('delta', 0)}",
            do="name a larger facts['delta'], or private=False for a seeded run",
        )
    if not private and guarantee.delta(1.0) < 1:
        raise DomainError(
            "A release that is not private carries no privacy guarantee.",
            got="private=False with a finite guarantee",
            do="Guarantee.none(reason)",
        )
    stated = as_float(facts.get("epsilon", "inf"))
    if private and stated < epsilon * (1 - EPSILON_TOLERANCE):
        raise DomainError(
            "The facts claim more privacy than the guarantee proves.",
            got=f"epsilon = {facts['epsilon']} stated, {epsilon!r} proved",
            do="state guarantee.epsilon(delta)",
        )
    if facts.get("neighbors", guarantee.neighbors) != guarantee.neighbors:
        raise Incompatible(
            "Facts and guarantee speak of different neighbors.",
            got=facts["neighbors"],
            allowed=guarantee.neighbors,
        )
    if facts.get("draws", posterior.sizes["draw"]) != posterior.sizes["draw"]:
        raise DomainError(
            "The facts count other draws than the release holds.",
            got=facts["draws"],
            allowed=posterior.sizes["draw"],
        )
    leaked = sorted(set(facts.get("withheld", ())) & set(posterior.data_vars))
    if leaked:
        do = f"posterior.drop_vars({leaked})"
        raise DomainError("A withheld variable is among the draws.", got=", ".join(leaked), do=do)
