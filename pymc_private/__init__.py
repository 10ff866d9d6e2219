"""Differentially private inference for PyMC models.

An existing model in, a private posterior and an honest report out::

    private = pmp.privatize(model, records="woman", domain={"X": pmp.Ball(1.0)})
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary")
    summary = pmp.summarize(plan, ledger=pmp.Ledger("study.sqlite", epsilon=2, delta=1e-5))
    with summary.model():
        idata = pm.sample()

or, for private draws of the posterior itself, ``calibrate(..., draws=10)`` and ``sample``.

Here are the names of this way. More is in `samplers`, `queries`, `counts`, `mollifiers`,
`summaries`, `criticism`, `estimators`, `planning`, `audit`, `certificates`, `privacy` (every
formula) and `errors`.
"""

import importlib
import logging
import warnings
from typing import Any

try:  # ArviZ 0.23 speaks of itself at the first import of each day
    _known = list(warnings.filters)
    warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
    _own = [each for each in warnings.filters if each not in _known]
    importlib.import_module("pymc")
finally:  # what other packages filter as they load stays
    warnings.filters[:] = [each for each in warnings.filters if each not in _own]  # type: ignore[index]
    del _known, _own

from pymc_private import (
    certificates,
    counts,
    errors,
    mollifiers,
    privacy,
    queries,
    samplers,
    summaries,
)
from pymc_private.certificates.beta_divergence import beta_divergence
from pymc_private.certificates.certificate import Certificate
from pymc_private.certificates.certify import certify
from pymc_private.certificates.clip import clip
from pymc_private.certificates.restrict import temper, trim
from pymc_private.counts.dirichlet import dirichlet
from pymc_private.ledger import Ledger
from pymc_private.models.declare import constants
from pymc_private.models.domains import Ball, Categories, Counts, Interval, Scale, Simplex
from pymc_private.models.lint import lint
from pymc_private.models.marginalize import marginalize
from pymc_private.models.metric import Metric
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.mollifiers.mollify import mollify
from pymc_private.posterior.calibrate import calibrate
from pymc_private.posterior.plan import Plan
from pymc_private.posterior.sample import sample
from pymc_private.privacy import Guarantee
from pymc_private.queries import answer, mean, predict, prob, quantile
from pymc_private.release.release import Release
from pymc_private.report import compare, report
from pymc_private.summaries.refine import refine
from pymc_private.summaries.summarize import summarize
from pymc_private.summaries.summary import Summary, load
from pymc_private.summaries.summary_plan import SummaryPlan

__version__ = "0.1.0"

# What privatize tells is for the log; without a handler Python would print it to the cell.
logging.getLogger(__name__).addHandler(logging.NullHandler())

_ROOMS = (samplers, queries, counts, mollifiers, summaries, certificates, privacy, errors)


def __getattr__(name: str) -> Any:
    """Load what takes a while when it is first asked for; say where other names are."""
    if name in ("audit", "criticism", "estimators", "planning"):
        return importlib.import_module(f"pymc_private.{name}")
    if name in ("check", "check_plan"):
        return getattr(importlib.import_module("pymc_private.criticism"), name)
    if name == "MollifiedBoosting":  # of the room mollifiers; loads scikit-learn
        return mollifiers.MollifiedBoosting
    message = f"module {__name__!r} has no attribute {name!r}"
    for room in _ROOMS:
        if getattr(getattr(room, name, None), "__module__", "").startswith(__name__):
            message += f"; it is {room.__name__}.{name}"
            break
    raise AttributeError(message)


__all__ = [
    "Ball",
    "Categories",
    "Certificate",
    "Counts",
    "Guarantee",
    "Interval",
    "Ledger",
    "Metric",
    "Plan",
    "PrivateModel",
    "Release",
    "Scale",
    "Simplex",
    "Summary",
    "SummaryPlan",
    "answer",
    "beta_divergence",
    "calibrate",
    "certify",
    "check",
    "check_plan",
    "clip",
    "compare",
    "constants",
    "dirichlet",
    "lint",
    "load",
    "marginalize",
    "mean",
    "mollify",
    "predict",
    "privatize",
    "prob",
    "quantile",
    "refine",
    "report",
    "sample",
    "summarize",
    "temper",
    "trim",
]
