"""Choice of the sampler with the strongest claim that fits a model.

It reads the structure of the model and no data. The order is conjugate, rejection, proximal;
the grid joins where a claim in floating point is required or a parameter is discrete.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from pymc_private.certificates.terms import EXACT_TERMS
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import cards
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.samplers.method import Boxes, Conjugate, Grid, Method, Nuts, Proximal
from pymc_private.samplers.rejection import LARGEST_DIMENSION

AUTO = "auto"
NOT_PROVED_IN_FLOATING_POINT = "no claim in floating point is proved here"
ONLY_IN_REAL_ARITHMETIC = "its claim is one of real arithmetic"
SAMPLERS_BY_NAME: dict[str, Any] = {
    "conjugate": Conjugate,
    "boxes": Boxes,
    "proximal": Proximal,
    "grid": Grid,
    "nuts": Nuts,
}
"""Samplers a user may name."""
AUTO_ORDER: tuple[Method, ...] = (Conjugate(), Boxes(), Proximal())
"""Tried in this order: proved in floating point, exact in real arithmetic, at a proved distance."""
PURE_FORMS: dict[str, Method] = {Proximal.name: Proximal(pure=True)}
"""By name, the form that a sampler takes where delta is zero."""


def choose_sampler(
    private: PrivateModel, sampler: Any = AUTO, *, strict: bool = False, pure: bool = False
) -> Method:
    """Choose the named sampler, or the one with the strongest claim that fits. Reads no data.

    Parameters
    ----------
    private : PrivateModel
    sampler : str or Method
        ``"auto"``, a name, or a sampler with its options, such as ``pmp.samplers.Grid(points=64)``.
    strict : bool
        Whether the claim must hold in floating point.
    pure : bool
        Whether delta is zero.

    Returns
    -------
    Method

    Raises
    ------
    Unsupported
        None fits, or the named one does not, with the reason.
    DomainError
        No such sampler.
    """
    if not _is_auto(sampler):
        named = _strict_form(_resolve(sampler, pure), strict)
        named.check(private)
        if strict and not named.terms(private).strict:
            raise _unproved(f"strict=True with {named.name}", "sampler='grid', or strict=False")
        return named
    reasons = []
    for one in (*AUTO_ORDER, Grid()) if strict or _has_discrete(private) else AUTO_ORDER:
        method = _strict_form(PURE_FORMS.get(one.name, one) if pure else one, strict)
        try:
            method.check(private)
            _check_not_coarse(method, private)
            if strict and not method.terms(private).strict:
                raise Unsupported(ONLY_IN_REAL_ARITHMETIC)
            return method
        except Unsupported as error:
            reasons.append((method.name, error))
    if strict:
        raise _no_strict_sampler(private, dict(reasons), pure)
    raise _no_sampler_fits(private, dict(reasons))


def check_sampler(sampler: Any) -> None:
    """Refuse an argument that names no sampler (`DomainError`)."""
    if not _is_auto(sampler):
        _resolve(sampler, pure=False)


def _is_auto(sampler: Any) -> bool:
    """Whether the choice is left to the package; arrays compare with text entry by entry."""
    return isinstance(sampler, str) and sampler == AUTO


@dataclass(frozen=True)
class SamplerCandidate:
    """A sampler and its claim, rough time or refusal for one model.

    Parameters
    ----------
    name : str
    claim : str
        Empty where it does not fit.
    seconds : float
        Rough estimate; NaN where it does not fit, or where the number of records is protected.
    why_not : str
    """

    name: str
    claim: str
    seconds: float
    why_not: str = ""

    def __str__(self) -> str:
        if self.why_not:
            return f"{self.name}: {self.why_not}"
        time = "" if math.isnan(self.seconds) else f", {_rough_duration(self.seconds)}"
        return f"{self.name}, {self.claim}{time}"


class SamplerTable(tuple[SamplerCandidate, ...]):
    """Samplers for one model, which print as a table."""

    __slots__ = ()

    def _rows(self) -> list[tuple[str, str, str]]:
        return [
            (one.name, _time_text(one.seconds) or "-", one.why_not or one.claim) for one in self
        ]

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[k]) for row in [*rows, TABLE_HEAD]) for k in (0, 1)]
        return "\n".join(
            f"{name:<{widths[0]}}  {time:<{widths[1]}}  {text}"
            for name, time, text in (TABLE_HEAD, *rows)
        )

    def _repr_html_(self) -> str:
        return cards.html_table(TABLE_HEAD, self._rows(), left=True)


TABLE_HEAD = ("sampler", "time", "claim, or why it does not apply")


def _time_text(seconds: float) -> str:
    """A rough time; empty where it is not known."""
    return "" if math.isnan(seconds) else _rough_duration(seconds)


def sampling_time(private: PrivateModel, method: Method, draws: int) -> str:
    """The expected time of the draws; empty where the number of records is protected."""
    return "" if private.neighbors == ADD_REMOVE else _time_text(method.seconds(private, draws))


def sampler_candidates(
    private: PrivateModel, draws: int, pure: bool = False, strict: bool = False
) -> SamplerTable:
    """Every sampler, with its claim and a rough time, or why it does not fit. Reads no data."""
    found = []
    for name in SAMPLERS_BY_NAME:
        method = _strict_form(_resolve(name, pure), strict)
        try:
            method.check(private)
            if not method.terms(private).strict and strict:
                raise Unsupported(ONLY_IN_REAL_ARITHMETIC)
            # A time would reveal about how many records there are.
            protected = private.neighbors == ADD_REMOVE
            seconds = math.nan if protected else method.seconds(private, draws)
            found.append(SamplerCandidate(method.name, method.claim(private), seconds))
        except (Unsupported, DomainError) as error:
            found.append(SamplerCandidate(method.name, "", float("nan"), error.problem))
    return SamplerTable(found)


def _resolve(sampler: Any, pure: bool) -> Method:
    if isinstance(sampler, str) and sampler in SAMPLERS_BY_NAME:
        return (
            PURE_FORMS[sampler] if pure and sampler in PURE_FORMS else SAMPLERS_BY_NAME[sampler]()
        )
    is_class = isinstance(sampler, type)  # a class has the methods, too
    if isinstance(sampler, Method) and not is_class:
        return sampler
    raise DomainError(
        "no such sampler",
        got=f"the class {sampler.__name__}" if is_class else repr(sampler)[:60],
        allowed=", ".join([AUTO, *SAMPLERS_BY_NAME])
        + ", or one with its options, as pmp.samplers.Grid(points=64)",
    )


def _strict_form(method: Method, strict: bool) -> Method:
    """The form of a sampler whose claim holds in floating point, if it has one."""
    return replace(method, strict=True) if strict and isinstance(method, Proximal) else method


def _has_discrete(private: PrivateModel) -> bool:
    return any(not str(v.type.dtype).startswith("float") for v in private.graph.parameters.values())


def _fits(method: Method, private: PrivateModel) -> bool:
    try:
        method.check(private)
    except Unsupported:
        return False
    return True


def _check_not_coarse(method: Method, private: PrivateModel) -> None:
    """Refuse a grid too coarse to be useful, unless it is named."""
    terms = method.terms(private) if isinstance(method, Grid) else EXACT_TERMS
    if terms.is_coarse:
        raise Unsupported(
            "its grid would be coarse",
            got=f"{terms.points} points along each coordinate",
            allowed="finer grids, which fit the memory for fewer parameters",
            do="sampler='grid' takes it all the same; pmp.samplers.Grid(points=) sets its size",
        )


def _no_sampler_fits(private: PrivateModel, reasons: dict[str, Unsupported]) -> Unsupported:
    """The most useful refusal: that of rejection for few parameters, else that of proximal."""
    boxes, proximal = reasons[Boxes.name], reasons[Proximal.name]
    size = sum(math.prod(shape) for shape in private.shapes.values())
    if size <= LARGEST_DIMENSION:
        return boxes
    return Unsupported(
        "no sampler with a proof fits this model",
        got=f"{size} scalar parameters; {proximal.problem}: {_message_line(proximal, 'got')}",
        allowed=f"at most {LARGEST_DIMENSION} parameters (boxes), conjugate models, or log-concave "
        "posteriors (proximal)",
        do=_message_line(proximal, "do")
        + "; or pmp.samplers.Nuts(tv=...), whose claim is conditional",
    )


def _no_strict_sampler(
    private: PrivateModel, reasons: dict[str, Unsupported], pure: bool
) -> Unsupported:
    """Why no sampler has a claim in floating point, one by one, and which change gives one."""
    said = [f"{name}: {_one_line(error)}" for name, error in reasons.items()]
    own, _, _ = _message_line(reasons[Proximal.name], "do").partition("sampler='grid'")
    own = own.replace("; or strict=False", "")
    cures = [own.removesuffix("; or ")] if own and not pure else []
    if pure and _fits(Proximal(strict=True), private):
        cures.append("a delta above zero: sampler='proximal' is proved in floating point then")
    if _fits(Grid(), private):
        cures.append("sampler='grid', as coarse as it is")
    return _unproved("; ".join(said), "; or ".join([*cures, "strict=False"]))


def _unproved(got: str, do: str) -> Unsupported:
    return Unsupported(
        NOT_PROVED_IN_FLOATING_POINT,
        got=got,
        allowed="conjugate models drawn one coordinate at a time; sampler='proximal' for logistic, "
        "linear and Poisson regression with Normal priors, and a delta; sampler='grid' in few "
        "dimensions",
        do=f"{do} and its assumption of real arithmetic",
    )


def _one_line(error: Unsupported) -> str:
    """A refusal in one line."""
    got = _message_line(error, "got")
    if error.problem.startswith(NOT_PROVED_IN_FLOATING_POINT):
        return got
    return f"{error.problem} ({got})" if got else error.problem


def _message_line(error: Unsupported, name: str) -> str:
    title = {"got": "  got: ", "do": "  what to do: "}[name]
    lines = [line for line in str(error).splitlines() if line.startswith(title)]
    return lines[0].removeprefix(title) if lines else ""


def _rough_duration(seconds: float) -> str:
    """A rough time in words."""
    for most, words in ((2, "seconds"), (60, "under a minute"), (3600, "under an hour")):
        if seconds <= most:
            return words
    return f"about {seconds / 3600:.0f} hours"
