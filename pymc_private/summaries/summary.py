"""The `Summary` class: one noisy summary, its guarantee and public facts, and nothing else.

A summary is a frozen value, checked against the allow-lists of `summary_contents`. Its model is an
ordinary PyMC model in which no record is left; sampling it is post-processing and costs nothing.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pymc_private.errors import (
    DomainError,
    Incompatible,
    NotInformative,
    PointsElsewhere,
    suggest_arguments,
)
from pymc_private.models.fingerprint import declaration_fingerprint
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.verdict import share_text
from pymc_private.privacy import cards
from pymc_private.privacy.argument_kinds import GUARANTEE, MAPPING
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.privacy.validation import check_flags
from pymc_private.release import citations, display, storage
from pymc_private.release.allowed import as_float
from pymc_private.release.publishable import Publishable
from pymc_private.release.release import EPSILON_TOLERANCE, Release, read_saved_file
from pymc_private.summaries.protocol import Caution, Mechanism, Released
from pymc_private.summaries.summary_contents import (
    GROUP_OF_SEVERAL,
    check_released,
    check_summary_facts,
    damaged_summary,
    fingerprint_of,
    header_of,
    holds_group,
    parse_several,
    parse_summary,
    several_bytes,
    summary_bytes,
)
from pymc_private.summaries.summary_plan import structure_of

if TYPE_CHECKING:
    import pymc as pm

THEOREMS = {
    "scores": "T30, T31, T36",
    "records": "T30, T31, T34",
    "cells": "T30, T33",
    "sums": "T30, T31, T35",
}
"""Theorems of each kind of summary, for citations: a seeded one has no guarantee to name them."""

SAMPLE = "with summary.model(): idata = pm.sample()"
ELSEWHERE = {
    **dict.fromkeys(("sample", "posterior", "draws", "to_arviz"), SAMPLE),
    **{
        name: f"{SAMPLE}; then pmp.{name}(idata, ...)"
        for name in ("mean", "prob", "quantile", "predict", "answer")
    },
    "power_scaling": "pmp.criticism.power_scaling(summary, idata)",
    "report": "pmp.report(summary, ledger)",
    "refine": "pmp.refine(summary, epsilon=..., ledger=...)",
    "summary": "repr(summary); of its posterior, az.summary(idata) with draws of summary.model()",
    "load": "pmp.load(path)",
    "coverage": "plan.coverage(), before the release; its result is summary.facts['coverage']",
    "epsilon": "summary.guarantee.epsilon(delta)",
    "delta": "summary.guarantee.delta(epsilon)",
}
"""What to write in place of attributes that a summary has not."""


NOT_TESTED = (
    "hardly tested: scores are about as many as the coefficients that they are of, and a wrong "
    "model mostly passes. pmp.check_plan(summary, [...]) plans a check where one is known"
)
"""What scores say of the fit of their model."""
BETTER_SUMMARY = "more records, fewer parameters or a larger epsilon, in a new summary"
"""What may help where its warnings refuse a summary."""


class Summary(PointsElsewhere, Publishable):
    """A noisy summary that may be published, with its privacy guarantee.

    A frozen value: equal content means equal objects, equal hashes and, saved, equal bytes. While
    the session lasts it also knows the model it was made of, which is not saved with it.

    Parameters
    ----------
    released : mapping of str to array
        Everything numeric that leaves: noisy sums, and public constants of the likelihood.
    guarantee : Guarantee
        What publishing it reveals at most.
    facts : mapping
        Public facts: see ``summary_contents.SUMMARY_FACTS``.
    private : bool
        False for a seeded run; then the guarantee is ``Guarantee.none(reason)``.

    Raises
    ------
    DomainError
        Something is not on the list, or facts and guarantee disagree.
    """

    _elsewhere = ELSEWHERE
    __slots__ = ("_accepted", "_facts", "_fingerprint", "_guarantee", "_origin", "_private",
                 "_released")  # fmt: skip

    _accepted: bool
    _facts: dict[str, Any]
    _origin: tuple[PrivateModel, Mechanism] | None
    _released: Released

    def __init__(
        self,
        released: Mapping[str, np.ndarray],
        guarantee: Guarantee,
        facts: Mapping[str, Any],
        private: bool = True,
    ) -> None:
        check_flags(private=private)
        guarantee = GUARANTEE.of(guarantee, "guarantee", "a summary")
        facts = MAPPING.of(facts, "facts", "a summary")
        released = MAPPING.of(released, "released", "a summary")
        plain, arrays = check_summary_facts(facts), check_released(released)
        _refuse_contradictions(guarantee, plain, private)
        digest = fingerprint_of(arrays, header_of(plain, guarantee, bool(private)))
        for field, value in (
            ("_released", arrays), ("_guarantee", guarantee), ("_facts", plain),
            ("_private", bool(private)), ("_fingerprint", digest), ("_origin", None),
            ("_accepted", False),
        ):  # fmt: skip
            object.__setattr__(self, field, value)

    # ---- what it holds -------------------------------------------------------------------------
    @property
    def released(self) -> dict[str, np.ndarray]:
        """Everything numeric that was released, as read-only arrays by name."""
        return dict(self._released)

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts (a copy)."""
        return check_summary_facts(self._facts)

    @property
    def verdict(self) -> str:
        """Whether it was expected to be worth its budget: "informative", "weak" or "prior"."""
        return str(self._facts.get("verdict", ""))

    @property
    def warnings(self) -> tuple[Caution, ...]:
        """Reasons to distrust its posterior, found in what was released."""
        return tuple(Caution(**one) for one in self._facts.get("cautions", ()))

    # ---- its posterior -------------------------------------------------------------------------
    def model(self, private: PrivateModel | None = None, *, accept: bool = False) -> pm.Model:
        """An ordinary PyMC model whose posterior is that of the parameters given the summary.

        Names, dims, coords, priors and Deterministics are those of the original; there is no
        record in it. ``pm.sample`` of it costs nothing, however often and however long.

        Parameters
        ----------
        private : PrivateModel, optional
            Needed after `pmp.load`: a model of the same structure, as `privatize` returns it. Its
            data are not read and may be placeholders of the same shape. Default: the model that
            the summary was made of in this session.
        accept : bool
            Build it although a warning says that it cannot be used.

        Raises
        ------
        DomainError
            No model is at hand.
        Incompatible
            The model has another structure.
        NotInformative
            A warning refuses, and ``accept=True`` was not given.
        """
        from pymc_private.summaries.noise_aware_model import noise_aware_model

        self._refuse_unusable(accept)
        declared, mechanism = self.of_model(private)
        return noise_aware_model(declared, mechanism, self._released)

    def _refuse_unusable(self, accept: bool) -> None:
        """Refuse a posterior that the summary's own warnings refuse."""
        check_flags(accept=accept)
        if not (accept or self._accepted):
            refuse_unusable(
                self,
                "this summary says too little for its posterior to be trusted",
                f"{BETTER_SUMMARY}; or summary.model(accept=True)",
            )

    def predictive_model(self, private: PrivateModel | None = None, **covariates: Any) -> pm.Model:
        """A PyMC model of outcomes at public covariates, for draws of `model`. Free.

        The parameters are those of `model`, the outcomes are variables that nobody observed, and
        the covariates can be moved::

            with summary.predictive_model(x=[0.0, 0.5]):
                pm.sample_posterior_predictive(idata, var_names=["y"], predictions=True)
                pm.set_data({"x": [1.0, 2.0, 3.0]})

        Parameters
        ----------
        private : PrivateModel, optional
            As of `model`.
        **covariates : array
            *Public* values of the ``pm.Data`` that outcomes read; any number of rows.

        Raises
        ------
        DomainError
            A covariate is missing, unknown, or written into the model as an array.
        Unsupported
            The model has no outcome with a distribution.
        """
        from pymc_private.summaries.predictive_model import predictive_model

        return predictive_model(self.of_model(private)[0], covariates)

    def reuse(
        self,
        private: PrivateModel,
        *,
        original: PrivateModel | None = None,
        accept: bool = False,
    ) -> pm.Model:
        """The posterior of another model on this summary: nothing more is charged.

        A summary gives the likelihood of its parameters, whatever their prior. It serves every
        model that has these parameters by name and the same likelihood given them: another prior, a
        hierarchy above them, or some of them fixed or tied by ``pm.Deterministic``.

        Parameters
        ----------
        private : PrivateModel
            The other model, declared for the same records. Its data are not read and may be
            placeholders of the same shape.
        original : PrivateModel, optional
            The model the summary was made of. Needed after `pmp.load`.
        accept : bool
            Build it although a warning says that it cannot be used.

        Returns
        -------
        pymc.Model
            For ``pm.sample``, as of `model`.

        Raises
        ------
        DomainError
            No private model, or none of the summary at hand.
        Incompatible
            Other records, a parameter that has no name there, a prior with mass outside the support
            or region of the summary's model, or another likelihood at draws from the other prior.
        Unsupported
            A potential of the parameters, a public observation, or a prior without draws.
        NotInformative
            A warning refuses, and ``accept=True`` was not given.
        """
        from pymc_private.summaries.reuse import reused_model

        self._refuse_unusable(accept)
        return reused_model(private, *self.of_model(original), self._released)

    def of_model(self, private: PrivateModel | None) -> tuple[PrivateModel, Mechanism]:
        """The model and the mechanism; a model that is given must have the same structure."""
        if private is None:
            if self._origin is None:
                raise DomainError(
                    "a loaded summary holds no model",
                    got="private=None",
                    allowed="the PrivateModel it was made of, or one of the same structure",
                    do="summary.model(pmp.privatize(model, records=..., domain=...)); the data may "
                    "be placeholders of the same shape",
                )
            return self._origin
        if not isinstance(private, PrivateModel):
            raise DomainError(
                "a summary is read with a private model",
                got=type(private).__name__,
                allowed="what pmp.privatize returns",
                do="pmp.privatize(model, records=..., domain=...)",
            )
        if structure_of(private) != self._facts["model"]:
            _refuse_or_warn_of_another_model(private, self._facts)
        return private, self._mechanism_of(private)

    def _mechanism_of(self, private: PrivateModel) -> Mechanism:
        """The mechanism for a model of the same structure."""
        from pymc_private.summaries.choose_mechanism import rebuilt_mechanism, stored_request

        if self._origin is not None and self._origin[0] is private:
            return self._origin[1]
        facts = self._facts
        request = stored_request(private, facts, self._released)
        found: Any = rebuilt_mechanism(private, str(facts["method"]), request)
        for mu in (facts["mechanism"] or {}).get("refinements", ()):
            found = found.refined(as_float(mu))
        if not agree(found.facts, facts["mechanism"]):
            raise Incompatible(
                "here this summary would be made otherwise, so that its numbers cannot be read",
                got="other public numbers of the mechanism",
                allowed=f"those of the versions it was made by: {_versions_text(facts)}",
                do="install these versions, and load it there",
            )
        return cast(Mechanism, found)

    def with_origin(
        self, private: PrivateModel, mechanism: Mechanism, accepted: bool = False
    ) -> Summary:
        """The same summary, knowing its model in this session."""
        copy = Summary(self._released, self._guarantee, self._facts, self._private)
        object.__setattr__(copy, "_origin", (private, mechanism))
        object.__setattr__(copy, "_accepted", accepted)
        return copy

    # ---- stored --------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Save as netCDF for :func:`pymc_private.load`, whole or not at all.

        A file that already holds an equal summary stays as it is.

        Raises
        ------
        Incompatible
            The file exists and holds something else (unless ``overwrite``).
        """
        return storage.save(self, path, overwrite=overwrite)

    def to_bytes(self) -> bytes:
        """Give the content of :meth:`save` as bytes."""
        header = header_of(self._facts, self._guarantee, self._private)
        return summary_bytes(self._released, header, self._fingerprint, _attributes(self))

    @classmethod
    def from_bytes(cls, content: bytes) -> Summary:
        """Restore a summary from its bytes; raises Incompatible if they are not one."""
        arguments, expected = parse_summary(content)
        try:
            summary = cls(**arguments)
        except (DomainError, Incompatible) as cause:
            raise damaged_summary() from cause
        if summary.fingerprint != expected:
            raise damaged_summary()
        return summary

    def cite(self) -> str:
        """BibTeX for the theorems that guarantee and likelihood rest on."""
        theorems = f"{self._guarantee.theorem}, {THEOREMS.get(self._facts['method'], '')}"
        return citations.cite(theorems, self._facts.get("citations", ()))

    def __reduce__(self) -> Any:  # without the model, which holds the data
        return Summary, (self._released, self._guarantee, self._facts, self._private)

    def __repr__(self) -> str:
        return cards.text_card(summary_title(self), summary_rows(self))

    def _repr_html_(self) -> str:
        return cards.html_card(summary_title(self), summary_rows(self), alarm=not self._private)


class SummarySet:
    """Summaries that were released at once: one record of a ledger, one file.

    Parameters
    ----------
    summaries : iterable of Summary
    """

    def __init__(self, summaries: Iterable[Summary]) -> None:
        self.summaries = tuple(summaries)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Save as netCDF for :func:`pymc_private.load`, as `Summary.save`."""
        return storage.save(self, path, overwrite=overwrite)

    def to_bytes(self) -> bytes:
        """Give the content of :meth:`save` as bytes."""
        return several_bytes([summary.to_bytes() for summary in self.summaries])

    @classmethod
    def from_bytes(cls, content: bytes) -> SummarySet:
        """Restore summaries from their bytes; raises Incompatible if they are not such."""
        return cls(Summary.from_bytes(file) for file in parse_several(content))

    def __eq__(self, other: object) -> bool:
        return self.summaries == other.summaries if isinstance(other, SummarySet) else False

    def __hash__(self) -> int:
        return hash(self.summaries)


def refuse_unusable(summary: Summary, problem: str, do: str) -> None:
    """Refuse what rests on the posterior of a summary that its own warnings refuse."""
    refused = [caution.text for caution in summary.warnings if caution.refuse]
    if refused:
        raise NotInformative(problem, got="; ".join(refused), do=do)


@suggest_arguments
def load(path: str | os.PathLike[str]) -> Any:
    """Load what `Release.save`, `Summary.save` or `save=` of `summarize` wrote.

    Returns
    -------
    Release, Summary or list of Summary
        A list where several summaries were released at once.

    Raises
    ------
    DomainError
        No path of a file.
    FileNotFoundError
        No such file.
    Incompatible
        The file is neither, or is damaged.
    """
    content = read_saved_file(path)
    if content.startswith(b"{"):
        raise Incompatible(
            "This file is text, and no release or summary.",
            got="JSON, as of a saved check",
            allowed="a file that Release.save or Summary.save wrote",
            do="of a check: pmp.criticism.Check.load(path)",
        )
    if holds_group(content, GROUP_OF_SEVERAL):
        return list(SummarySet.from_bytes(content).summaries)
    return Summary.from_bytes(content) if holds_group(content) else Release.from_bytes(content)


SETTLING_PACKAGES = ("pymc", "pytensor")
"""Packages whose versions decide how a model is written as a graph."""
EXPECTATIONS = ("information", "compared", "unresolved_prior")
"""Facts of a mechanism that a machine may round otherwise, and no likelihood reads."""


def agree(found: Any, stored: Any) -> bool:
    """Whether public facts of a mechanism are the same, but for rounding and expectations."""
    if isinstance(found, Mapping) and isinstance(stored, Mapping):
        keys = set(found).difference(EXPECTATIONS)
        return keys == set(stored).difference(EXPECTATIONS) and all(
            agree(found[key], stored[key]) for key in keys
        )
    if isinstance(found, list | tuple) and isinstance(stored, list | tuple):
        same = len(found) == len(stored)
        return same and all(agree(*pair) for pair in zip(found, stored, strict=True))
    if isinstance(found, float) and isinstance(stored, int | float | str):
        return math.isclose(found, as_float(stored), rel_tol=1e-9, abs_tol=1e-12)
    return bool(found == stored)


def _refuse_or_warn_of_another_model(private: PrivateModel, facts: Mapping[str, Any]) -> None:
    """Refuse a model of another structure; where only versions may differ, say what is unknown."""
    made_by = facts.get("versions", {})
    other = [p for p in SETTLING_PACKAGES if made_by.get(p, "") != storage.package_version(p)]
    if not other or declaration_fingerprint(private) != facts.get("declaration"):
        raise Incompatible(
            "this model has another structure than the one that was summarized",
            got="another likelihood, prior, domain, number of records or declaration",
            allowed="the same model; only private values may differ",
            do="declare it as for the summary; placeholder data need the same shapes. With another "
            "prior of the same likelihood: summary.reuse(private), free",
        )
    here = ", ".join(f"{p} {storage.package_version(p)}" for p in other)
    warnings.warn(
        f"this summary was made by {_versions_text(facts)}, and here is {here}, which may write "
        "the same model otherwise: records, domain, parameters and their shapes are as declared, "
        "but likelihood and prior cannot be compared. Make sure that they are the same",
        UserWarning,
        stacklevel=4,
    )


def _versions_text(facts: Mapping[str, Any]) -> str:
    """The versions that decide how a model is written, as stored."""
    made_by = facts.get("versions", {})
    return ", ".join(f"{p} {made_by[p]}" for p in SETTLING_PACKAGES if p in made_by)


def summary_title(summary: Summary) -> str:
    """The title of a summary: its name, method and size."""
    facts = summary.facts
    name = f" {facts['name']!r}" if facts.get("name") else ""
    mark = "" if summary.private else f" {display.NOT_PRIVATE}:"
    return f"Summary{name}:{mark} {facts['method']} of {format_count(facts['size'], 'parameter')}"


def summary_rows(summary: Summary) -> list[cards.Row]:
    """The rows of a summary's card, what it tells first."""
    facts = summary.facts
    cautions = [f"{'REFUSED' if c.refuse else 'WARNING'}: {c.text}" for c in summary.warnings]
    rows = [
        ("tells", verdict_sentence(facts)),
        ("warnings", "\n".join(cautions)),
        ("guarantee", summary_guarantee_line(summary)),
        ("together", together_sentence(facts)),
        ("rounds", rounds_sentence(facts)),
        ("label", label_sentence(facts) if summary.private else display.NOT_PRIVATE),
        ("fit", NOT_TESTED if facts["method"] == "scores" else ""),
    ]
    if summary.private:
        rows += [
            ("assumes", "\n".join(summary.guarantee.assumptions) or display.ONLY_ASSUMED),
            ("theorem", summary.guarantee.theorem or "not proved"),
        ]
    rows += [
        ("neighbors", summary.guarantee.neighbors),
        ("parameters", ", ".join(facts["parameters"])),
        ("holds", ", ".join(_described(n, a) for n, a in summary.released.items())),
        ("next", "with summary.model(): pm.sample()"),
    ]
    return [(title, text) for title, text in rows if text]


def verdict_sentence(facts: Mapping[str, Any]) -> str:
    """What the summary was expected to tell before the data were read."""
    if not facts.get("verdict"):
        return "not known beforehand"
    return (
        f"{facts['verdict']}: was expected to remove {share_text(facts['share'])} of the prior "
        "variance of a parameter"
    )


def together_sentence(facts: Mapping[str, Any]) -> str:
    """What a summary says of those that were released with it; empty for one alone."""
    others = facts.get("together")
    if not others:
        return ""
    shared = f"; {others['shared']}" if others["shared"] else ""
    later = " and of the further rounds" if rounds_sentence(facts) else ""
    return (
        f"summary {others['position']} of {others['summaries']} that were released at once: the "
        f"guarantee is that of all of them{later}{shared}"
    )


def rounds_sentence(facts: Mapping[str, Any]) -> str:
    """What a refined summary says of its rounds; empty for a first release."""
    mechanism = facts["mechanism"] or {}
    rounds = mechanism.get("refinements", ())
    if not rounds:
        return ""
    laplace = mechanism.get("noise") == "discrete Laplace"
    sums = "epsilons add up" if laplace else "T30: squared mu add up"
    return (
        f"refined by {format_count(len(rounds), 'further round')}: the guarantee is that of the "
        f"first release and all rounds together ({sums}); each was charged by itself"
    )


def label_sentence(facts: Mapping[str, Any]) -> str:
    """How far privacy and posterior are proved, with the coverage that was simulated."""
    coverage = facts.get("coverage")
    found = "" if coverage is None else f"; {coverage['sentence']}"
    return f"{facts['label']}{found}"


def summary_guarantee_line(summary: Summary) -> str:
    """State the guarantee in one line."""
    if not summary.private:
        why = "; ".join(summary.guarantee.assumptions)
        return f"{display.NOT_PRIVATE}: {why or 'epsilon is infinite'}"
    delta = as_float(summary.facts["delta"])
    at = f"delta = {format_number(delta)}" if delta else "delta = 0 (pure)"
    return f"epsilon = {format_number(summary.guarantee.epsilon(delta))} nats at {at}"


def _described(name: str, array: np.ndarray) -> str:
    inside = ", ".join(map(str, array.shape))
    return f"{name} ({inside})" if inside else name


def _attributes(summary: Summary) -> dict[str, str]:
    """Readable attributes of the file, without time, machine or seed."""
    facts = summary.facts
    return {
        "private": "yes" if summary.private else summary_guarantee_line(summary),
        "guarantee": summary_guarantee_line(summary),
        "theorem": summary.guarantee.theorem,
        "neighbors": summary.guarantee.neighbors,
        "assumptions": "; ".join(summary.guarantee.assumptions) or "none",
        "method": str(facts["method"]),
        "label": label_sentence(facts),
        "model": str(facts["model"]),
        "versions": ", ".join(f"{k} {v}" for k, v in facts.get("versions", {}).items()),
    }


NEEDED_FACTS = ("method", "label", "mechanism", "parameters", "size", "n", "guess", "model",
                "epsilon", "delta", "asked")  # fmt: skip


def _refuse_contradictions(guarantee: Guarantee, facts: dict[str, Any], private: bool) -> None:
    """Refuse facts that are incomplete, or claim more privacy than the guarantee."""
    missing = [key for key in NEEDED_FACTS if key not in facts]
    if missing:
        raise DomainError(
            "the facts of a summary are incomplete",
            got="without " + ", ".join(missing),
            allowed=", ".join(NEEDED_FACTS),
            do="pmp.summarize makes a Summary; none is made by hand",
        )
    epsilon = guarantee.epsilon(as_float(facts["delta"]))
    if private and epsilon == float("inf"):
        raise DomainError(
            "a private summary has a finite epsilon at its delta",
            got="epsilon = inf",
            allowed="a finite epsilon, or private=False",
        )
    if not private and guarantee.delta(1.0) < 1:
        raise DomainError(
            "a summary that is not private carries no privacy guarantee",
            got="private=False with a finite guarantee",
            do="Guarantee.none(reason)",
        )
    if private and as_float(facts["epsilon"]) < epsilon * (1 - EPSILON_TOLERANCE):
        raise DomainError(
            "the facts claim more privacy than the guarantee proves",
            got=f"epsilon = {facts['epsilon']} stated, {epsilon!r} proved",
            allowed="facts['epsilon'] of at least what is proved",
        )
    if facts.get("neighbors", guarantee.neighbors) != guarantee.neighbors:
        raise Incompatible(
            "facts and guarantee speak of different neighbors",
            got=facts["neighbors"],
            allowed=guarantee.neighbors,
        )
