"""Charge, then draw, then release: the one order in which anything is published.

What is published is a `Release`, or another value that is stored and restored as one is.

`publish` takes a `ReleaseJob` (what a charge buys) and `ReleaseOptions` (who pays, and where
the release is kept). Whatever can fail without the data fails before the charge: the
destination is tried and the job is rehearsed without the data. After the charge a failure
shows only its type, because its text may depend on the data, and Ctrl-C says what became of
the charge. A release that was drawn and could not be stored is handed over in the error.
Refusals of the ledger and guarantees without a finite epsilon are explained, with a cure.
"""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypedDict, TypeVar

import numpy as np

from pymc_private.errors import (
    BudgetExceeded,
    DomainError,
    Incompatible,
    PrivacyWarning,
    PymcPrivateError,
    Unrepeatable,
    suggest_arguments,
)
from pymc_private.ledger import Entry, Ledger
from pymc_private.models.compat import is_notebook_without_bars
from pymc_private.privacy import Guarantee
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import check_flags, check_storable_text
from pymc_private.release import storage

Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., Any])


class Publication(Protocol):
    """What a charge buys: a value that can be written and, by its bytes, stored in a ledger."""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write a file, whole or not at all."""

    def to_bytes(self) -> bytes:
        """The content of that file."""


Published = TypeVar("Published", bound=Publication)


class ReleaseKeywords(TypedDict, total=False):
    """Keywords of every function that charges and releases; `sample` says what they mean."""

    name: str | None
    data_version: str
    save: str | os.PathLike[str] | None
    again: bool
    random_seed: int | None


def takes_release_keywords(function: Function) -> Function:
    """Decorate a function that takes `ReleaseKeywords`: of others it names the nearest."""
    return suggest_arguments(function, ReleaseKeywords.__annotations__)


@dataclass(frozen=True)
class ReleaseOptions:
    """Who pays, and where the release is kept.

    Attributes
    ----------
    ledger : Ledger or None
    name, data_version : str
    save : path or None
    again : bool
    random_seed : int or None
        Makes a release that is not private and charges nothing.
    covered : frozenset of str
        Heads of earlier charges for other records: no record is in both, so one guarantee protects
        each (parallel composition). If an equal guarantee was charged under one of them in this
        ledger, nothing more is charged; in another ledger it is charged in full.
    keep : bool
        Whether the ledger also keeps a release without a name; else it notes that there was one.
    """

    ledger: Ledger | None = None
    name: str | None = None
    data_version: str = ""
    save: str | os.PathLike[str] | None = None
    again: bool = False
    random_seed: int | None = None
    covered: frozenset[str] = frozenset()
    keep: bool = True

    def __post_init__(self) -> None:
        check_ledger(self.ledger)
        check_flags(again=self.again)
        if self.name is not None:
            check_storable_text(self.name, "the name of a release")
        check_storable_text(str(self.data_version), "data_version", empty=True)
        if self.save is not None and not isinstance(self.save, str | os.PathLike):
            raise DomainError(
                "save= is the path of a file; nothing was charged",
                got=type(self.save).__name__,
                do="save='release.nc', for example",
            )
        try:
            if self.random_seed is not None:  # private draws use no NumPy generator
                np.random.default_rng(self.random_seed)
        except (TypeError, ValueError):
            raise DomainError(
                "random_seed is a whole number; nothing was charged",
                got=repr(self.random_seed)[:60],
                allowed="0, 1, 2, ..., for draws that are NOT PRIVATE; None for private ones",
            ) from None

    @property
    def stored(self) -> bool:
        """Whether the release will be written anywhere."""
        return self.keep or self.name is not None or self.save is not None


def check_ledger(ledger: Any) -> None:
    """Refuse anything but a ledger, such as the path of one.

    Raises
    ------
    DomainError
        Nothing was charged.
    """
    if ledger is None or isinstance(ledger, Ledger):
        return
    is_path = isinstance(ledger, str | os.PathLike)
    path_text = f"{os.fspath(ledger)!r}" if is_path else ""
    raise DomainError(
        "this is no ledger; nothing was charged",
        got=f"{type(ledger).__name__} {path_text}".rstrip(),
        allowed="a pmp.Ledger",
        do=f"pmp.Ledger({path_text}, epsilon=..., delta=..., neighbors=...), or "
        f"pmp.Ledger.open({path_text}) if it is there already"
        if is_path
        else "pmp.Ledger('study.sqlite', epsilon=..., delta=..., neighbors=...)",
    )


@dataclass(frozen=True)
class ReleaseJob(Generic[Published]):
    """What a charge buys: a guarantee, a way to draw, and how to build the release.

    All of it is public but what `draw` reads.

    Attributes
    ----------
    guarantee : Guarantee
    delta : float
        At which a ledger enters the guarantee, where it has no pure epsilon.
    exact_delta : Fraction
        The same for a new ledger, which gets exactly what was proved.
    key : str
        Everything public that the draws depend on; a name belongs to one key.
    label : str
        Of the ledger entry, where there is no name.
    another : str
        What else a name may belong to, for the error: "another plan".
    rehearse : callable
        Fails where drawing, building or storing would fail after the charge. Reads no data
        but those of a table, which are checked as `privatize` checks those of a model.
    draw : callable
        ``(seed or None)`` to the draws. Reads the data.
    build : callable
        ``(draws, facts of the ledger or None)`` to a release; None: one that is not private.
    restore : callable
        What a ledger stored, as bytes, to what was published.
    depth : int
        Calls between the user and `publish`: the stack level of warnings.
    verb, kind : str
        The function that the user called and the class it returns, for messages.
    """

    guarantee: Guarantee
    delta: float
    exact_delta: Fraction
    key: str
    label: str
    another: str
    rehearse: Callable[[], None]
    draw: Callable[[int | None], Any]
    build: Callable[[Any, Mapping[str, Any] | None], Published]
    restore: Callable[[bytes], Published]
    depth: int = 1
    verb: str = "sample"
    kind: str = "Release"


def publish(job: ReleaseJob[Published], options: ReleaseOptions) -> Published:
    """Charge, then draw; what can fail without the data fails before the charge.

    With a seed: draw a release that is marked not private, and charge nothing.

    Raises
    ------
    BudgetExceeded, Incompatible, DomainError
        Nothing was charged.
    PymcPrivateError
        The draw failed after the charge; the cause is withheld.
    UnsavedRelease
        It was drawn, and could not be stored or saved; the error has it.
    """
    if options.random_seed is not None:
        storage.check_destination(options.save, overwrite=options.again)
        seeded = job.build(job.draw(options.random_seed), None)
        return _save_to_file(seeded, options, "nothing was charged: it is `release` of this error")
    ledger, at = _paying_ledger(job, options)
    key = f"{job.key}|{options.data_version}"
    stored = (
        None
        if options.again or options.name is None
        else _find_stored_release(ledger, options.name, key, job)
    )
    if stored is not None:
        return _save_to_file(stored, options, f"nothing more was charged; {kept_text(job)}")
    storage.check_destination(options.save, overwrite=options.again)
    price = _price(job, options, ledger, at)
    if math.isfinite(job.guarantee.epsilon(job.delta)):  # else the rehearsal says why it is not
        with _explained_refusal(job, ledger):
            ledger.check(price.cost, delta=price.at)
    interruptible(lambda: _rehearse(job), STOPPED_EARLY)
    with _explained_refusal(job, ledger):
        entry = interruptible(
            lambda: ledger.charge(
                price.cost, price.label, delta=price.at, name=options.name, key=key
            ),
            STOPPED_CHARGING,
        )
    release = interruptible(lambda: _draw_and_build(job, ledger, entry))
    interruptible(lambda: _store_in_ledger(release, ledger, entry, options), stopped_late_text(job))
    return _save_to_file(release, options, f"the charge stands; {kept_text(job)}", charged=True)


def _paying_ledger(
    job: ReleaseJob[Any], options: ReleaseOptions
) -> tuple[Ledger, float | Fraction | None]:
    """The ledger to charge (given, of the context, or a new one in memory), and at which delta.

    A ledger reads 0.1 as the decimal 1/10, as its user means it. A new one is made for exactly this
    guarantee, so it gets exactly the numbers that were proved.
    """
    ledger = options.ledger if options.ledger is not None else Ledger.current()
    if ledger is not None:
        return ledger, job.delta or None
    delta, guarantee = job.exact_delta, job.guarantee
    epsilon = guarantee.exact_epsilon(delta)
    if not math.isfinite(epsilon):
        raise infinite_epsilon_error(guarantee, job.delta)
    warnings.warn(
        "no ledger: this charge is forgotten when the session ends, and two such releases of the "
        "same data add up unseen; pass ledger=Ledger('study.sqlite', epsilon=..., delta=..., "
        f"neighbors={guarantee.neighbors!r})",
        PrivacyWarning,
        stacklevel=job.depth + 3,
    )
    shares = {"approximate": delta} if delta else None
    keywords: dict[str, Any] = {"neighbors": guarantee.neighbors, "shares": shares}
    return Ledger(epsilon=Fraction(epsilon), delta=delta, **keywords), delta or None


def _find_stored_release(
    ledger: Ledger, name: str, key: str, job: ReleaseJob[Published]
) -> Published | None:
    """The release that this name and key already paid for; None if the name is free."""
    entry = ledger.find(name, key)
    if entry is not None:
        return job.restore(ledger.fetch(entry))
    charged = ledger.names.get(name)
    if charged is None:
        return None
    unfinished = key in charged
    raise Incompatible(
        f"the name '{name}' belongs to "
        + ("a charge that is not completed" if unfinished else "another charge in this ledger"),
        got="the same plan and data_version; its release was stopped after the charge, or is still "
        "under way"
        if unfinished
        else f"{job.another} or data_version",
        allowed="one plan per name",
        do="choose another name, or again=True to charge anew",
    )


def _rehearse(job: ReleaseJob[Any]) -> None:
    """Fail where the release would fail after the charge, with the cure that fits the guarantee."""
    try:
        job.rehearse()
    except MemoryError:
        raise PymcPrivateError(
            "there is too little memory for a rehearsal of the release; nothing was charged",
            do="close what else is open, or ask for less: fewer draws or parameters, larger cells",
        ) from None
    except DomainError:
        if math.isfinite(job.guarantee.epsilon(job.delta)):
            raise
        raise infinite_epsilon_error(job.guarantee, job.delta) from None


class Price(NamedTuple):
    """What a job costs a ledger: guarantee, label, and the delta at which it is entered."""

    cost: Guarantee
    label: str
    at: float | Fraction | None


def _price(
    job: ReleaseJob[Any], options: ReleaseOptions, ledger: Ledger, at: float | Fraction | None
) -> Price:
    """The price of a job: nothing more where an equal one was paid for other records."""
    cost, label = job.guarantee, options.name or job.label
    if any(e.head in options.covered and e.guarantee.events == cost.events for e in ledger.entries):
        label = f"{label}: other records, priced in parallel"
        return Price(Guarantee((), cost.neighbors), label, None)  # no delta is charged either
    return Price(cost, label, at)


@contextlib.contextmanager
def _explained_refusal(job: ReleaseJob[Any], ledger: Ledger) -> Iterator[None]:
    """Explain the refusal of a ledger."""
    try:
        yield
    except BudgetExceeded as error:
        raise explain_refusal(error, job.guarantee, job.delta, ledger) from None


def _draw_and_build(job: ReleaseJob[Published], ledger: Ledger, entry: Entry) -> Published:
    """Draw, and build the release with the public facts of the ledger."""
    ledger_facts = {
        "charges": [{"label": e.label, "guarantee": e.guarantee.to_dict()} for e in ledger.entries],
        "budget": {"epsilon": str(ledger.budget.epsilon), "delta": str(ledger.budget.delta)},
        "ledger_head": entry.head,
    }
    drawn = hide_errors(lambda: job.draw(None))
    try:
        return job.build(drawn, ledger_facts)
    except MemoryError:
        raise PymcPrivateError(
            "there was too little memory for the release that was drawn; the charge stands",
            do="close what else is open; again=True draws and charges anew",
        ) from None


def _store_in_ledger(
    release: Publication, ledger: Ledger, entry: Entry, options: ReleaseOptions
) -> None:
    """Store a release in the ledger; if that fails, the error hands it over."""
    try:
        ledger.store(entry, release.to_bytes() if options.stored else None)
    except (OSError, MemoryError, PymcPrivateError) as error:
        problem = "the release was drawn and charged, but the ledger could not keep it"
        raise unsaved_release_error(release, error, problem, RELEASE_NOT_KEPT) from error


def _save_to_file(
    release: Published, options: ReleaseOptions, do: str, *, charged: bool = False
) -> Published:
    """Write the file of `save=`, if any; if that fails, the error hands the release over."""
    caught = (OSError, MemoryError, PymcPrivateError) if charged else (OSError, MemoryError)
    try:
        if options.save is not None:
            release.save(options.save, overwrite=options.again)
        return release
    except caught as error:
        problem = "the release was drawn, but it could not be saved"
        raise unsaved_release_error(release, error, problem, do) from error


def seeded_guarantee(guarantee: Guarantee) -> Guarantee:
    """The guarantee of a seeded release: none."""
    return Guarantee.none(
        "random_seed makes the draws a function of the data that anyone can recompute",
        neighbors=guarantee.neighbors,
    )


@contextlib.contextmanager
def suppress_warnings() -> Iterator[None]:
    """Show no warning: whether one is raised (an overflow, say) may depend on the data."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def progress_bar(
    total: int, show: bool, what: str = "private draws"
) -> Iterator[Callable[[int], None]]:
    """A progress bar on the curator's screen."""
    with progress_bars(show) as bar:
        yield bar(what, total)


@contextlib.contextmanager
def progress_bars(show: bool) -> Iterator[Callable[[str, int], Callable[[int], None]]]:
    """Bars on the curator's screen, each made of a text and a total, and told what is done."""
    if not show or is_notebook_without_bars():
        yield lambda what, total: lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns) as bars:

        def bar(what: str, total: int) -> Callable[[int], None]:
            task = bars.add_task(what, total=total)
            return lambda done: bars.update(task, completed=done)

        yield bar


STOPPED_EARLY = "Stopped before the charge: nothing was charged, and nothing was drawn."

STOPPED_CHARGING = (
    "Stopped while the charge was being written: nothing was drawn. Whether it is charged, the "
    "last of ledger.entries tells."
)

STOPPED = (
    "The draw was stopped. It is charged, nothing is released, and the ledger keeps the charge. "
    "Publishing the fact that it was stopped is not covered by the guarantee."
)


def stopped_late_text(job: ReleaseJob[Any]) -> str:
    """What became of a charge when storing what it bought was stopped."""
    return (
        f"Stopped after the draw was finished and charged, while its {job.kind.lower()} was being "
        "stored. The ledger keeps the charge, and the "
        f"{job.kind.lower()} too if it came to that: {job.verb}() with the same name and plan then "
        f"returns it free; without a name it is {job.kind}.from_bytes(ledger.fetch(entry)) for the "
        "last of ledger.entries."
    )


def kept_text(job: ReleaseJob[Any]) -> str:
    """Where to find what was published and could not be saved."""
    return (
        f"the ledger keeps the {job.kind.lower()}: save it elsewhere. It is `release` of this "
        f"error; {job.verb}() with the same name and plan returns it free; without a name it is "
        f"{job.kind}.from_bytes(ledger.fetch(entry)) for the last of ledger.entries"
    )


RELEASE_NOT_KEPT = (
    "the charge stands, and the ledger does not keep the release: save it, it is `release` of this "
    "error; drawing again would be charged again"
)


class StoppedDraw(KeyboardInterrupt):
    """Ctrl-C while a release is made; the message says whether it is charged, and what is kept."""


class UnsavedRelease(PymcPrivateError):
    """A release that was drawn and could not be stored.

    Attributes
    ----------
    release : Release or Summary
    """

    def __init__(self, problem: str, *, release: Any, **rows: object) -> None:
        self.release = release
        super().__init__(problem, **rows)


def unsaved_release_error(release: Any, error: Exception, problem: str, do: str) -> UnsavedRelease:
    """The error for a release that could not be kept; `do` says what became of the charge."""
    text = error.problem if isinstance(error, PymcPrivateError) else str(error)
    got = f"{type(error).__name__}: {text}"
    return UnsavedRelease(problem, release=release, got=got, do=do)


def interruptible(work: Callable[[], Result], message: str = STOPPED) -> Result:
    """Run work before or after a charge; on Ctrl-C say what was charged.

    Raises
    ------
    StoppedDraw
        Ctrl-C. A charge that was made stays.
    """
    with contextlib.suppress(KeyboardInterrupt):
        return work()
    # Raised outside the handler, the error has no context whose traceback could show data.
    raise StoppedDraw(message) from None


def hide_errors(work: Callable[[], Result]) -> Result:
    """Run charged work; of a failure show the type alone.

    Raises
    ------
    Unrepeatable
        A table did not give its rows again: all that is told is that, which the curator may know.
    PymcPrivateError
        It failed; the cause may depend on the data.
    """
    unrepeatable: Unrepeatable | None = None
    try:
        with suppress_warnings():
            return work()
    except KeyboardInterrupt:
        raise
    except Unrepeatable as error:
        unrepeatable, cause = error, ""
    except (
        BaseException
    ) as error:  # also SystemExit and panics of Rust, which bring texts of their own
        cause = type(error).__name__
    if unrepeatable is not None:
        raise Unrepeatable(
            f"{unrepeatable.problem}; the charge stands, and nothing is released",
            got=unrepeatable.got,
            allowed=unrepeatable.allowed,
            do=f"{unrepeatable.do}; with the same name, again=True charges anew. Publishing the "
            "failure is not covered by the guarantee",
        )
    raise PymcPrivateError(
        "the draw failed after it was charged; nothing is released",
        got=cause,
        do="the cause may depend on the data and is not shown; publishing the failure is not "
        "covered by the guarantee",
    ) from None


def explain_refusal(
    error: BudgetExceeded, guarantee: Guarantee, at: float, ledger: Ledger
) -> BudgetExceeded:
    """The ledger's refusal, explained if only the share of delta for such charges was too small."""
    account, budget = ledger.methods.get("approximate"), ledger.budget
    delta, epsilon = Fraction(repr(at)), guarantee.exact_epsilon(Fraction(at))
    if account is None or account.spent is None or not account.share < delta <= budget.delta:
        return error
    if not (math.isfinite(epsilon) and account.spent.epsilon + Fraction(epsilon) <= budget.epsilon):
        return error
    share, whole = (format_number(d, up=False) for d in (account.share, budget.delta))
    room = max(account.share - account.spent.delta, Fraction(0))
    cures = [f"Calibrate at delta = {format_number(room, up=False)}"] if room else []
    if not ledger.entries and ledger.shares is not None:
        cures.append(
            "make a ledger, if the study is yet to begin, without shares=: then its first charge "
            "divides delta as it needs"
        )
    return BudgetExceeded(
        error.problem,
        asked=error.asked,
        spent=error.spent,
        left=error.left,
        got=error.got,
        allowed=error.allowed,
        do=f"this plan is priced at delta = {at:g}, but of its delta = {whole} this ledger keeps "
        f"{share} for such plans, as shares= or its first charge fixed, and the rest for zCDP. "
        f"{'; or '.join(cures) or 'That share is spent'}",
    )


EXACT_SAMPLER_ADVICE = (
    "a sampler without a distance: in a box of few parameters sampler='boxes', in one of many "
    "sampler=pmp.samplers.Proximal(pure=True); or a delta above (1 + e^epsilon) t, what a distance "
    "t costs"
)
"""The cure where a sampler has a distance from the posterior and no delta pays for it."""

SMALLER_DISTANCE_ADVICE = (
    "a lower power, pmp.temper(private, ...), since a distance t costs (1 + e^epsilon) t of delta; "
    "or a smaller tv= of a sampler that need not be strict"
)
"""The cure where that distance costs more delta than there is."""

FINITE_RANGE_ADVICE = (
    "a box of the parameters, in which one is: pmp.trim(private, mass=0.99) or box={...}; or, for "
    "a log-concave posterior, a delta above zero and a low power: pmp.temper(private, ...)"
)


def infinite_epsilon_error(guarantee: Guarantee, delta: float) -> DomainError:
    """The error for a guarantee without a finite epsilon at a delta: the reason and a cure."""
    exact = [event for event in guarantee.events if event.kind != "distance"]
    bounded = all(math.isfinite(event.pure) for event in exact)
    got, do = f"delta = {format_number(delta)}", "a larger delta; or pmp.trim(private, mass=0.99)"
    if len(exact) < len(guarantee.events) and (bounded or delta):
        got += ", and a sampler that is only near the posterior"
        do = SMALLER_DISTANCE_ADVICE if delta else EXACT_SAMPLER_ADVICE
    elif not bounded and not delta:
        got, do = f"{got}, and no range is proved of what one record changes", FINITE_RANGE_ADVICE
    return DomainError(
        "these draws have no finite epsilon at this delta, so nothing was charged", got=got, do=do
    )
