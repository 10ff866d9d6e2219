"""The command line: what each command prints, its exit codes, and what it keeps to itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest

import pymc_private as pmp
from pymc_private.command_line import (
    DOMAIN_FLAG,
    FAILED,
    MISUSED,
    REFUSED,
    build_parser,
    flags_for,
    main,
    show_answer,
)
from pymc_private.errors import DomainError

MODELS = """
import numpy as np
import pymc as pm
import pymc_private as pmp

tosses = np.arange(400) % 3 == 0
with pm.Model(coords={"toss": range(400)}) as coin:
    pm.Data("seen", tosses.astype(int), dims="toss")
    bias = pm.Beta("bias", 5, 5)
    pm.Bernoulli("heads", bias, observed=tosses.astype(int), dims="toss")

with pm.Model(coords={"person": range(50)}) as incomes:
    center = pm.Normal("center", 0, 1)
    pm.Normal("income", center, 1, observed=np.full(50, 8765.4321), dims="person")

with pm.Model(coords={"person": range(50)}) as walk:
    start = pm.Normal("start", 0, 1)
    wages = pm.Normal("wages", start, 1, dims="person", observed=np.full(50, 8765.4321))
    pm.Potential("mixed", (wages[1:] * wages.mean()).sum() * start)

print("imported")


def declared():
    return pmp.privatize(plain, records="toss")


with pm.Model(coords={"toss": range(400)}) as plain:
    bias = pm.Beta("bias", 5, 5)
    pm.Bernoulli("heads", bias, observed=tosses.astype(int), dims="toss")


def fails():
    raise ValueError("a row holds 8765.4321")
"""
SECRET = "8765"
TOLD = re.compile(rf"(?<![0-9a-f]){SECRET}(?![0-9a-f])")
"""No part of a hash."""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """Stand in a folder with a module of models, which no other test has imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.delitem(sys.modules, "study", raising=False)
    (tmp_path / "study.py").write_text(MODELS)


@pytest.fixture
def run(capsys):
    """Run one command: its exit code, what it printed and its errors; never a data value."""

    def command(*arguments):
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        assert not TOLD.search(said.out + said.err)
        return code, said.out, said.err

    return command


@pytest.mark.thin(4)
@pytest.mark.parametrize("address", ["study:declared", "study.py:declared", "study:plain"])
def test_certify_takes_a_declared_model_or_declares_one(run, address):
    words = ["--records", "toss"] if address.endswith("plain") else []
    code, out, _ = run("certify", address, "--trim", 0.95, "--json", *words)
    found = json.loads(out)
    assert code == 0
    assert found["range"] >= found["searched"] > 1.0
    assert found["neighbors"] == "substitute"
    assert "T1" in found["theorem"]


def test_certify_reads_domains_from_the_command_line(run):
    words = ("study:incomes", "--records", "person", "--domain", "income=-3,3", "--trim", "0.95")
    code, out, _ = run("certify", *words)
    assert code == 0
    assert "R = " in out
    wider = run("certify", *words, "--domain", "income=-6,6", "--json")
    narrow = run("certify", *words, "--json")
    assert json.loads(wider[1])["range"] > 1.5 * json.loads(narrow[1])["range"]


@pytest.mark.audit
@pytest.mark.parametrize("release", ["summary", "draws", "auto"])
def test_plan_says_what_a_release_would_tell_within_the_budget(run, release):
    code, out, _ = run(
        *("plan", "study:declared", "--epsilon", 1, "--delta", 1e-6, "--release", release, "--json")
    )
    found = json.loads(out)
    assert code == 0
    assert release in (found["release"], "auto")
    assert 0 < found["epsilon"] <= 1
    assert found["delta"] <= 1e-6
    assert 0 < found["information"] < 1
    assert found["summary"]


@pytest.mark.audit
def test_a_plan_of_too_small_a_budget_says_so_in_its_verdict(run):
    code, out, _ = run(
        *("plan", "study:declared", "--epsilon", 1e-3, "--release", "draws", "--json")
    )
    assert (code, json.loads(out)["verdict"]) == (0, "prior")


def test_refusals_are_one_paragraph_without_a_traceback(run):
    for words in (("study:incomes", "--records", "person"), ("study:walk", "--records", "person")):
        code, out, err = run("certify", *words)
        assert (code, out.replace("imported\n", "")) == (REFUSED, "")
        assert err.startswith("pymc-private certify: ")
        assert "Traceback" not in err
        assert "\n\n" not in err.strip()


def test_a_refusal_is_json_too_and_debug_shows_the_traceback(run):
    words = ("certify", "study:incomes", "--records", "person")
    code, out, err = run(*words, "--json", "--debug")
    found = json.loads(out)
    assert (code, found["exit"], found["error"]) == (REFUSED, REFUSED, "DomainError")
    assert "Traceback" in err
    assert found["flags"].startswith("--domain NAME=LOW,HIGH")


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("certify", "study:incomes", "--records", "person"), "--domain NAME=LOW,HIGH"),
        (("certify", "study:incomes"), "--records DIM"),
    ],
    ids=["domain", "records"],
)
def test_a_refusal_names_the_flags_that_cure_it(run, words, flag):
    """What is suggested in Python is said as a flag, too; and the flag does it."""
    _, _, err = run(*words)
    (line,) = [line for line in err.splitlines() if "on the command line: " in line]
    assert flag in line.split("command line: ")[1].split("; ")[-1]


@pytest.mark.parametrize(
    ("do", "flags"),
    [
        ("draws: calibrate(..., release='draws')", "--release draws"),
        ("declare neighbors='substitute'", "--neighbors substitute"),
        ("declare domains instead of public=", ""),
        ("pmp.trim(private, lipschitz=L), or box={...}", ""),
        ("pmp.trim(private, mass=0.99)", "--trim MASS"),
        ("declare pmp.Counts(10)", DOMAIN_FLAG),
        ("pm.Bernoulli", ""),
        ("privatize(model, records=...)", ""),  # it was given
    ],
)
def test_flags_are_those_that_do_what_is_suggested(do, flags):
    words = ["plan", "study:plain", "--records", "toss", "--epsilon", "1"]
    chosen = build_parser().parse_args(words)
    assert flags_for(DomainError("x", do=do), chosen) == flags
    chosen.is_declared = True
    assert flags_for(DomainError("x", do=do), chosen) == ""


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("certify", "study"), "write MODULE:NAME"),
        (("certify", "studie:coin"), "no module 'studie'"),
        (("certify", "studie.py:coin"), "no file"),
        (("certify", "study:coins"), "coin, incomes, walk, plain"),
        (("certify", "study:declared", "--records", "toss"), "declared already"),
        (("certify", "study:plain", "--domain", "heads=0"), "NAME=LOW,HIGH"),
        (("certify", "study:plain", "--domain", "heads=ball:x"), "ball:RADIUS"),
        (("report", "nothing.nc"), "nothing.nc"),
    ],
)
def test_a_misused_command_line_says_what_to_write(run, words, hint):
    code, _, err = run(*words)
    assert code == MISUSED
    assert hint in err
    assert "Traceback" not in err


def test_words_of_foreign_errors_are_shown_with_debug_alone(run, capsys):
    code, _, err = run("certify", "study:fails")
    assert code == FAILED
    assert "ValueError" in err
    assert main(["certify", "study:fails", "--debug"]) == FAILED
    assert SECRET in capsys.readouterr().err


def test_arguments_that_argparse_refuses_are_misuse(capsys):
    for words in ([], ["plan", "study:declared"], ["plan", "--epsilon", "much"], ["guess"]):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == MISUSED
    assert "usage: pymc-private" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["certify"], ["plan"], ["report"], ["ledger"], ["verify"]])
def test_help_states_the_exit_codes(capsys, words):
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--help"])
    assert stopped.value.code == 0
    assert "exit codes" in capsys.readouterr().out


@pytest.fixture
def ledger():
    """A ledger with one charge, and its head before it."""
    made = pmp.Ledger("study.sqlite", epsilon=2, data="tosses")
    before = made.head
    made.charge(pmp.Guarantee.pure(0.5), "one draw")
    return made, before


def test_verify_tells_a_chain_that_goes_on_from_one_that_does_not(run, ledger):
    made, before = ledger
    code, out, _ = run("verify", "study.sqlite", "--head", before)
    assert code == 0
    assert made.head in out
    found = run("verify", "study.sqlite", "--json")
    assert json.loads(found[1]) == {"intact": True, "head": made.head, "from": None}
    code, out, err = run("verify", "study.sqlite", "--head", "0" * 64)
    assert (code, out) == (REFUSED, "")
    assert "not intact" in err


@pytest.mark.parametrize("command", ["ledger", "verify", "report"])
def test_a_file_that_is_not_there_is_misuse_and_none_is_made(run, command, tmp_path):
    code, _, err = run(command, "nothing.sqlite")
    assert code == MISUSED
    assert "nothing.sqlite" in err
    assert not (tmp_path / "nothing.sqlite").exists()


def test_a_reader_that_stops_early_is_no_failure():
    """As of ``pymc-private ledger study.sqlite | head``."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as screen:
        show_answer("a long answer", screen)  # and nothing is raised when the file is closed


def test_a_saved_release_is_reported_with_its_ledger(run):
    counts = np.array([30, 20, 10])
    ledger = pmp.Ledger("counts.sqlite", epsilon=2, delta=1e-5, shares={"approximate": "1e-5"})
    pmp.dirichlet(counts, epsilon=1, delta=1e-5, ledger=ledger, name="one", save="one.nc")
    code, out, _ = run(
        *("report", "one.nc", "--ledger", "counts.sqlite", "--output", "page.html", "--json")
    )
    found = json.loads(out)
    assert (code, found["html"], found["private"]) == (0, "page.html", True)
    assert found["epsilon"] <= 1
    with open("page.html") as page:
        assert "<html" in page.read()


@pytest.mark.audit
def test_both_ways_to_start_it_are_the_same(root):
    scripts = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"pymc-private": "pymc_private.command_line:main"}
    command = [sys.executable, "-m", "pymc_private", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"pymc-private {pmp.__version__}\n")
