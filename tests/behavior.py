"""Behavior on record: certificates, plans, guarantees, ledgers and seeded releases of the zoo.

``python -m tests.behavior record FILE`` writes what the package does now; ``compare FILE FILE``
lists what differs between two such files. Numbers are written to the last bit, texts whole, so a
change that only moves or renames code leaves a file as it was. Values depend on the installed
PyMC, so compare files of one environment.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from benchmarks.distributions import TABLE
from benchmarks.zoo import ZOO, N
from pymc_private.estimators import DirichletNaiveBayes
from tests.certificates.glms import GLMS
from tests.models.sequences import SEQUENCES

Case = tuple[str, Callable[[], Any]]


def digest(array: Any) -> str:
    """Shape and hash of an array's bytes."""
    values = np.ascontiguousarray(array)
    return f"{values.shape} {values.dtype} {hashlib.sha256(values.tobytes()).hexdigest()[:16]}"


def certified(private: Any) -> dict[str, Any]:
    """A certificate with all that it says."""
    certificate = pmp.certify(private)
    return {
        "range": certificate.range.hex(),
        "gdp": certificate.gdp,
        "searched": certificate.searched,
        "claims": certificate.claims,
        "text": repr(certificate).split("\n"),
        "private": repr(private).split("\n"),
    }


def planned(private: Any, **asked: Any) -> dict[str, Any]:
    """A plan, its price, and draws from a seed."""
    plan = pmp.calibrate(private, **asked)
    release = pmp.sample(plan, random_seed=7, progressbar=False)
    return {
        "summary": plan.summary().split("\n"),
        "guarantee": plan.guarantee.to_dict(),
        "fingerprint": plan.fingerprint,
        "frontier": repr(plan.frontier).split("\n"),
        **released(release),
    }


def released(release: Any) -> dict[str, Any]:
    """Draws, facts and the report of a release."""
    return {
        "draws": {name: digest(array) for name, array in release.posterior.items()},
        "facts": json.loads(json.dumps(release.facts, default=str)),
        "promise": release.guarantee.to_dict(),
        "repr": repr(release).split("\n"),
        "report": str(pmp.report(release)).split("\n"),
    }


def certificates() -> Iterator[Case]:
    """Certificates of every family of models in the tests."""
    for group, models in (("zoo", ZOO), ("distribution", TABLE)):
        for one in models:
            data = one.data(np.random.default_rng(1), N)
            yield (
                f"certificate/{group}/{one.name}",
                lambda one=one, data=data: certified(one.privatize(data)),
            )
    for one in SEQUENCES:
        values = one.draw(np.random.default_rng(1))
        yield (
            f"certificate/sequence/{one.name}",
            lambda one=one, values=values: certified(one.privatize(values)),
        )
    for one in GLMS:
        yield f"certificate/glm/{one.name}", lambda one=one: certified(one.private())


def plans() -> Iterator[Case]:
    """Plans and seeded draws: as calibrate chooses, and by each sampler."""
    chosen = ("logistic", "poisson", "bernoulli", "normal mean", "mixture", "softmax", "censored")
    for one in ZOO:
        if one.name in chosen:
            private = one.privatize(one.data(np.random.default_rng(1), N))
            asked = {"epsilon": 1, "delta": 1e-6, "draws": 3}
            yield f"plan/{one.name}", lambda p=private, a=asked: planned(p, **a)
    clipped = next(e for e in ZOO if e.name == "student t")
    private = clipped.privatize(clipped.data(np.random.default_rng(1), N))
    yield "plan/clipped", lambda: planned(pmp.clip(private, -4.0), epsilon=1, delta=1e-6, draws=2)
    kinds = {
        "boxes": ("normal mean", {"epsilon": 2, "sampler": "boxes"}),
        "grid": ("bernoulli", {"epsilon": 2, "sampler": "grid"}),
        "proximal": ("logistic", {"epsilon": 1, "delta": 1e-6, "sampler": "proximal"}),
    }
    for name, (model, asked) in kinds.items():
        one = next(e for e in ZOO if e.name == model)
        private = one.privatize(one.data(np.random.default_rng(2), N))
        yield f"plan/{name}", lambda p=private, a=asked: planned(p, draws=2, **a)


def conjugate_model(n: int = 60) -> Any:
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("y", p, observed=np.arange(n) % 3 == 0)
    return pmp.privatize(model, records={"y": 0})


def mechanisms() -> Iterator[Case]:
    """Conjugate draws, tables of counts, mollifiers and an estimator, all from seeds."""
    rng = np.random.default_rng(3)
    table = rng.integers(0, 50, (4, 5))
    yield "conjugate", lambda: planned(conjugate_model(), epsilon=1, delta=1e-6, draws=2)
    for method in ("exact", "noisy", "auto"):
        yield (
            f"dirichlet/{method}",
            lambda m=method: released(
                pmp.dirichlet(table, epsilon=1, delta=1e-6, method=m, draws=3, random_seed=5)
            ),
        )
    yield (
        "noisy_counts",
        lambda: released(
            pmp.counts.noisy_counts({"t": table}, epsilon=0.5, delta=1e-6, random_seed=5)
        ),
    )
    yield "mollify", lambda: mollified()
    x = rng.integers(0, 3, (200, 4))
    y = (x[:, 0] + rng.integers(0, 2, 200)) % 3
    yield "naive_bayes", lambda: naive_bayes(x, y)


def mollified() -> dict[str, Any]:
    target, reference = np.array([0.7, 0.2, 0.1]), np.full(3, 1 / 3)
    law = pmp.mollify(target, reference, 1.0)
    return {
        "probabilities": np.asarray(law.probabilities).tolist(),
        "guarantee": law.guarantee(4).to_dict(),
        **released(law.sample(4, random_seed=3)),
    }


def naive_bayes(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    model = DirichletNaiveBayes(1.0, 1e-6, [range(3)] * 4, classes=range(3), random_state=4)
    model.fit(x, y)
    return {
        "probabilities": digest(model.predict_proba(x)),
        "guarantee": model.guarantee_.to_dict(),
    }


def ledgers() -> Iterator[Case]:
    yield "ledger", ledger_file


def ledger_file() -> dict[str, Any]:
    """All rows of a ledger's file but times and random numbers, and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.sqlite"
        ledger = pmp.Ledger(path, epsilon=5, delta=1e-5)
        for guarantee in (
            pmp.Guarantee.pure(0.5),
            pmp.Guarantee.approximate(0.25, 1e-7),
            pmp.Guarantee.gdp_of(0.1),
            pmp.Guarantee.zcdp_of(0.01),
        ):
            ledger.charge(guarantee, "a charge", delta=1e-7)
        with sqlite3.connect(path) as connection:
            schema = [row[0] for row in connection.execute("select sql from sqlite_master")]
        entries = [
            {"label": e.label, "guarantee": e.guarantee.to_dict(), "roads": repr(e.guarantee)}
            for e in ledger.entries
        ]
        left, spent = ledger.left, ledger.spent
        return {
            "schema": schema,
            "entries": entries,
            "left": repr(left),
            "spent": repr(spent),
            "verified": repr(ledger.verify()),
        }


def outcome(case: Callable[[], Any]) -> Any:
    """What a case gives, or the error that it ends in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return case()
        except Exception as error:
            return {"error": type(error).__name__, "text": str(error).split("\n")}


def record(path: str) -> None:
    """Write the behavior of every case."""
    found = {}
    for group in (ledgers, mechanisms, plans, certificates):
        for name, case in group():
            found[name] = outcome(case)
            print(name, found[name].get("error", ""), flush=True)
    Path(path).write_text(json.dumps(found, indent=1, default=repr, sort_keys=True))


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Places where two recorded values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{place}[{i}]")
    elif before != after:
        yield f"{place}\n    {before!r}\n    {after!r}"


def compare(first: str, second: str) -> int:
    """Print what differs; the number of differences."""
    found = list(
        differences(json.loads(Path(first).read_text()), json.loads(Path(second).read_text()))
    )
    print("\n".join(found) or "nothing differs")
    return len(found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"]:
        record(sys.argv[2])
    else:
        sys.exit(min(compare(*sys.argv[2:4]), 100))
