"""The command line: ``pymc-private`` and ``python -m pymc_private``.

Each command gives an `Outcome`: its text for the screen, and the same facts for ``--json``. What it
prints is made of model, domain, plans and releases alone; no command prints a data value, and only
``demo`` charges a ledger, its own.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import inspect
import io
import json
import math
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from pymc_private.errors import DomainError, PrivacyWarning, PymcPrivateError

DONE, REFUSED, MISUSED, FAILED, INTERRUPTED = 0, 1, 2, 3, 130
EXIT_CODES = """exit codes:
  0    done
  1    refused by the package, or a ledger that is not intact
  2    the command line, the module or a file was not understood or not found
  3    something else failed, such as the code of the module
  130  interrupted"""
MODEL_HELP = """MODULE:NAME, or FILE.py:NAME: a pmp.privatize(...) model, or an ordinary PyMC or
Bambi model with --records and --domain, or a function without arguments that returns either.
--domain takes NAME=LOW,HIGH  NAME=ball:RADIUS  NAME=categories:A,B,...  NAME=counts:TOTAL
NAME=simplex. Nothing is charged."""


DOMAIN_FLAG = "--domain NAME=LOW,HIGH (or categories:, counts:, ball:, simplex)"
FLAGS = {
    r"\bdomain=|\bpmp\.(Interval|Categories|Counts|Ball|Simplex)\b": DOMAIN_FLAG,
    r"\brecords=": "--records DIM",
    r"\bpublic=": "--public NAME",
    r"\bmass=": "--trim MASS",
    r"\brecords_per_unit=": "--records-per-unit K",
    r"\bneighbors=['\"](?P<value>\w+)": "--neighbors",
    r"\brelease=['\"](?P<value>\w+)": "--release",
}
"""Patterns of what errors suggest in Python, with the flag that does it."""


class Misuse(Exception):
    """A command line that cannot be understood, or what it names cannot be found."""


@dataclass(frozen=True)
class Outcome:
    """What a command found.

    Attributes
    ----------
    text : str
        For the screen.
    facts : dict or str
        The same as JSON, or as the value that is written as JSON.
    """

    text: str
    facts: Any = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code (`EXIT_CODES`).

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    chosen = build_parser().parse_args(arguments)
    screen = sys.stdout
    if isinstance(screen, io.TextIOWrapper):  # labels may hold what a terminal cannot show
        screen.reconfigure(errors="backslashreplace")
    try:
        with plain_warnings(chosen.debug), interpreted_graphs(), contextlib.ExitStack() as stack:
            if chosen.json:  # what the module prints must not mix with the answer
                stack.enter_context(contextlib.redirect_stdout(sys.stderr))
            outcome = chosen.run(chosen)
    except (Exception, KeyboardInterrupt) as error:
        if chosen.debug:
            traceback.print_exc()
        return report_failure(error, chosen, screen)
    answer = as_json(outcome.facts) if chosen.json else outcome.text
    if answer:
        show_answer(answer, screen)
    return DONE


def show_answer(answer: str, screen: Any) -> None:
    """Print; a reader that has seen enough (``| head``) closes the pipe, which is no failure."""
    try:
        print(answer, file=screen, flush=True)
    except BrokenPipeError:
        # What the interpreter would flush on its way out has nowhere to go either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), screen.fileno())


def report_failure(error: BaseException, chosen: argparse.Namespace, screen: Any) -> int:
    """Say in one paragraph what went wrong, as JSON too where that was wanted."""
    code, text = describe_failure(error)
    print(f"pymc-private {chosen.command}: {text}", file=sys.stderr)
    if flags := flags_for(error, chosen):
        print(f"  on the command line: {flags}", file=sys.stderr)
    if code == REFUSED and chosen.command in ("ledger", "verify"):
        print("the chain of charges is not intact, or this is no ledger", file=sys.stderr)
    if chosen.json:
        rows = {key: getattr(error, key, None) for key in ("got", "allowed", "do")}
        rows["flags"] = flags or None
        shown = {key: str(value) for key, value in rows.items() if value is not None}
        found = {"error": type(error).__name__, "problem": text.splitlines()[0], "exit": code}
        print(as_json(found | shown), file=screen)
    return code


def flags_for(error: BaseException, chosen: argparse.Namespace) -> str:
    """The flags that do what an error suggests in Python; empty if there are none.

    Left out are those that were given, what is to be done instead of something, and all of them
    where the module declares the model itself.
    """
    commands = ("certify", "plan")
    if chosen.command not in commands or not isinstance(error, PymcPrivateError):
        return ""
    if getattr(chosen, "is_declared", False):
        return ""
    suggested = re.sub(r"(instead|in place) of [^;,]*", "", f"{error.allowed} {error.do}")
    found = []
    for pattern, flag in FLAGS.items():
        match = re.search(pattern, suggested)
        option = flag.split()[0].removeprefix("--").replace("-", "_")
        known = hasattr(chosen, option) and (flag == DOMAIN_FLAG or not _is_given(chosen, option))
        if match and known:
            value = match.groupdict().get("value")
            found.append(f"{flag} {value}" if value else flag)
    return "; ".join(found)


def _is_given(chosen: argparse.Namespace, option: str) -> bool:
    """Whether an option that takes one value has it; the two that choose may be chosen anew."""
    return option not in ("neighbors", "release") and getattr(chosen, option) not in (None, [])


def describe_failure(error: BaseException) -> tuple[int, str]:
    """Exit code and text of an error; the words of foreign errors may quote data, and stay out."""
    if isinstance(error, PymcPrivateError):
        return REFUSED, str(error)
    if isinstance(error, Misuse | ImportError):
        return MISUSED, str(error)
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(error, OSError):
        return MISUSED, f"{error.strerror or type(error).__name__}: {error.filename}"
    name = type(error).__name__
    return FAILED, f"{name} was raised; --debug shows where, with words that may quote data"


@contextlib.contextmanager
def plain_warnings(debug: bool = False) -> Iterator[None]:
    """Show a warning as one line of words, without the place in the code.

    The words of other packages and of the user's module may quote data: --debug shows them.
    """

    def show(message: Warning | str, *place: Any, **other: Any) -> None:
        if debug or isinstance(message, PrivacyWarning):
            print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def interpreted_graphs() -> Iterator[None]:
    """Interpret graphs: to compile one that is evaluated once takes longer than the job.

    A mode that the user has chosen by ``PYTENSOR_FLAGS`` stays.
    """
    import pytensor

    if "mode=" in os.environ.get("PYTENSOR_FLAGS", ""):
        yield
        return
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


def as_json(facts: Any) -> str:
    """Facts as JSON: numbers that are not finite become null."""

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: finite(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [finite(inner) for inner in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return facts if isinstance(facts, str) else json.dumps(finite(facts), indent=1, allow_nan=False)


# ---- commands ------------------------------------------------------------------------------------


def run_demo(chosen: argparse.Namespace) -> Outcome:
    """Run the main job of the README."""
    from pymc_private.demo import demo

    demo(chosen.folder)
    return Outcome("", {"folder": str(chosen.folder)})


def run_certify(chosen: argparse.Namespace) -> Outcome:
    """Prove what one record can change."""
    import pymc_private as pmp

    certificate = pmp.certify(declared_model(chosen))
    strength = dict(zip(("m", "G"), certificate.gdp or (None, None), strict=True))
    facts = {
        "range": certificate.range,
        "searched": certificate.searched,
        "tolerance_reached": certificate.tolerance_reached,
        "gdp": strength if certificate.gdp else None,
        "mu": certificate.mu,
        "power": float(certificate.power),
        "neighbors": certificate.neighbors,
        "theorem": certificate.theorem,
        "claims": list(certificate.claims),
    }
    return Outcome(repr(certificate), facts)


def run_plan(chosen: argparse.Namespace) -> Outcome:
    """Plan a release within a budget; reads no data beyond declaring them."""
    import pymc_private as pmp

    words: dict[str, Any] = {"epsilon": chosen.epsilon, "delta": chosen.delta}
    if chosen.draws is not None:
        words["draws"] = chosen.draws
    plan: Any = pmp.calibrate(declared_model(chosen), release=chosen.release, **words)
    is_summary = isinstance(plan, pmp.SummaryPlan)
    if is_summary and chosen.coverage:
        plan.coverage(simulations=chosen.coverage, progressbar=False)
    delta = plan.charged_delta if is_summary else plan.delta
    facts = {
        "release": "summary" if is_summary else "draws",
        "method": plan.method if is_summary else plan.sampler,
        "draws": None if is_summary else plan.draws,
        "verdict": plan.verdict or None,
        "information": plan.information,
        "nats": plan.nats if is_summary else plan.chosen.information,
        "epsilon": plan.guarantee.epsilon(delta),
        "delta": delta,
        "neighbors": plan.guarantee.neighbors,
        "theorem": plan.guarantee.theorem,
        "assumptions": list(plan.guarantee.assumptions),
        "summary": plan.summary().splitlines(),
    }
    return Outcome(plan.summary(), facts)


def run_report(chosen: argparse.Namespace) -> Outcome:
    """Write the report on a saved release as one HTML page."""
    import pymc_private as pmp
    from pymc_private.ledger import Ledger
    from pymc_private.release.allowed import as_float

    release = pmp.load(chosen.file)
    ledger = Ledger.open(chosen.ledger, read_only=True) if chosen.ledger else None
    page = pmp.report(release, ledger)
    written = page.save(chosen.output or chosen.file.with_suffix(".html"))
    delta = as_float(release.facts.get("delta", 0))
    facts = {
        "html": str(written),
        "private": release.private,
        "epsilon": release.guarantee.epsilon(delta),
        "delta": delta,
        "neighbors": release.guarantee.neighbors,
        "theorem": release.guarantee.theorem,
        "assumptions": list(release.guarantee.assumptions),
        "text": page.text,
    }
    return Outcome(page.text, facts)


def run_ledger(chosen: argparse.Namespace) -> Outcome:
    """Print a ledger and check its chain; writes nothing."""
    ledger = verified_ledger(chosen)
    lines = (repr(ledger), f"  head {ledger.head}", "the chain of charges is intact")
    return Outcome("\n".join(lines), ledger.to_json())


def run_verify(chosen: argparse.Namespace) -> Outcome:
    """Check the chain of a ledger, and say nothing of its charges."""
    ledger = verified_ledger(chosen)
    known = " and goes on from the head you kept" if chosen.head else ""
    text = f"the chain of charges is intact{known}\nhead {ledger.head}"
    return Outcome(text, {"intact": True, "head": ledger.head, "from": chosen.head})


def verified_ledger(chosen: argparse.Namespace) -> Any:
    """The ledger of a file, opened for reading and verified."""
    from pymc_private.ledger import Ledger

    if not chosen.file.is_file():
        raise Misuse(f"there is no ledger {chosen.file}")
    ledger = Ledger.open(chosen.file, read_only=True)
    ledger.verify(chosen.head)
    return ledger


# ---- the model that is named ---------------------------------------------------------------------


def declared_model(chosen: argparse.Namespace) -> Any:
    """The private model that the command line names, trimmed as it says."""
    import pymc_private as pmp

    found = named_object(chosen.model)
    options = {
        "records": chosen.records,
        "domain": dict(map(read_domain, chosen.domain)) or None,
        "public": chosen.public or None,
        "neighbors": chosen.neighbors,
        "records_per_unit": chosen.records_per_unit,
    }
    said = {name: value for name, value in options.items() if value is not None}
    chosen.is_declared = isinstance(found, pmp.PrivateModel)
    if isinstance(found, pmp.PrivateModel):
        if said:
            raise Misuse(f"{chosen.model} is declared already: {', '.join(said)} cannot be given")
        private = found
    else:
        private = pmp.privatize(found, **said)
    return private if chosen.trim is None else pmp.trim(private, mass=chosen.trim)


def named_object(address: str) -> Any:
    """What ``MODULE:NAME`` names; a function is called."""
    place, colon, path = address.rpartition(":")
    if not colon or not place or not path:
        raise Misuse(f"got {address!r}; write MODULE:NAME, or FILE.py:NAME")
    module = imported(place)
    found: Any = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise Misuse(f"{place} has no {path!r}; {known_models(module)}")
        found = getattr(found, name)
    return found() if inspect.isroutine(found) else found


def imported(place: str) -> ModuleType:
    """A module by its name or its file; its own folder is searched for what it imports."""
    if not place.endswith(".py"):
        _search_first(Path.cwd())
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name and (place == error.name or place.startswith(f"{error.name}.")):
                raise Misuse(f"there is no module {place!r} here") from None
            raise
    file = Path(place).resolve()
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise Misuse(f"there is no file {place!r}")
    _search_first(file.parent)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def known_models(module: ModuleType) -> str:
    """The models of a module by name, as the end of a message."""
    import pymc as pm

    from pymc_private.models.private_model import PrivateModel

    names = [n for n, value in vars(module).items() if isinstance(value, pm.Model | PrivateModel)]
    return f"models there: {', '.join(names)}" if names else "there is no model in it"


def read_domain(text: str) -> tuple[str, Any]:
    """Name and domain of ``NAME=DOMAIN``."""
    from pymc_private.models.domains import Ball, Categories, Counts, Interval, Simplex

    name, equals, words = text.partition("=")
    kind, _, rest = words.partition(":")
    makers: dict[str, Callable[[str], Any]] = {
        "ball": lambda rest: Ball(float(rest)),
        "categories": lambda rest: Categories(map(number_or_label, rest.split(","))),
        "counts": lambda rest: Counts(int(rest)),
        "simplex": lambda rest: Simplex(),
    }
    try:
        if not equals or not name:
            raise ValueError(text)
        if kind in makers:
            return name, makers[kind](rest)
        low, high = map(float, words.split(","))
        return name, Interval(low, high)
    except DomainError:
        raise
    except ValueError:
        raise Misuse(
            f"--domain {text}: write NAME=LOW,HIGH, NAME=ball:RADIUS, NAME=categories:A,B, "
            "NAME=counts:TOTAL or NAME=simplex"
        ) from None


def number_or_label(text: str) -> int | float | str:
    """A category as the number it is written as, else as a label."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


# ---- arguments -----------------------------------------------------------------------------------


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    from pymc_private import __version__

    parser = argparse.ArgumentParser(
        prog="pymc-private",
        description="Differentially private inference for PyMC models.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pymc-private {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = add_command(commands, "demo", run_demo, "the Fair survey: ten draws and a noisy summary")
    demo.add_argument("--folder", type=Path, default=Path(), help="where to write (default: here)")
    certify = add_command(commands, "certify", run_certify, "prove what one record can change")
    add_model_arguments(certify)
    plan = add_command(commands, "plan", run_plan, "plan a release within a budget")
    add_model_arguments(plan)
    add_budget_arguments(plan)
    report = add_command(commands, "report", run_report, "report on a saved release, as HTML too")
    report.add_argument("file", type=Path)
    report.add_argument("--ledger", type=Path, help="for the account of spent and left")
    report.add_argument("--output", type=Path, help="the HTML file (default: beside the release)")
    for name, run, words in (
        ("ledger", run_ledger, "print a ledger and check its chain; writes nothing"),
        ("verify", run_verify, "check the chain of a ledger; writes nothing"),
    ):
        command = add_command(commands, name, run, words)
        command.add_argument("file", type=Path)
        command.add_argument("--head", help="a head you kept: the chain must go on from it")
    return parser


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], Outcome], words: str
) -> argparse.ArgumentParser:
    """Add a command with the options that all of them have."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=words,
        description=f"{words[0].upper()}{words[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON; other output to stderr")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=run)
    return parser


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what names a model and declares its records."""
    parser.description = f"{parser.description}\n\n{MODEL_HELP}"
    parser.add_argument("model", metavar="MODULE:NAME")
    parser.add_argument("--records", metavar="DIM", help="the dim whose entries are the records")
    parser.add_argument("--domain", metavar="NAME=DOMAIN", action="append", default=[])
    parser.add_argument("--public", metavar="NAME", action="append", default=[])
    parser.add_argument("--neighbors", choices=("substitute", "add_remove"))
    parser.add_argument("--records-per-unit", type=int, metavar="K")
    parser.add_argument("--trim", type=float, metavar="MASS", help="keep so much of the prior")


def add_budget_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what a plan is told."""
    parser.add_argument("--epsilon", type=float, required=True, help="nats")
    parser.add_argument("--delta", type=float, default=0.0, help="default: 0")
    parser.add_argument(
        "--release", choices=("summary", "draws", "auto"), default="auto", help="default: auto"
    )
    parser.add_argument("--draws", type=int, metavar="N", help="how many draws (default: 1)")
    parser.add_argument(
        "--coverage", type=int, metavar="N", default=0, help="simulations of a summary (default: 0)"
    )
