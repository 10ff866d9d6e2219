"""Differentially private inference for PyMC models.

An existing model in, a private posterior and an honest report out::

    private = pmp.privatize(model, records="woman", domain={"X": pmp.Ball(1.0)})
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary")
    summary = pmp.summarize(plan, ledger=pmp.Ledger("study.sqlite", epsilon=2, delta=1e-5))
    with summary.model():
        idata = pm.sample()

or, for private draws of the posterior itself, ``calibrate(..., draws=10)`` and ``sample``.
"""

import importlib
import logging
from typing import Any

from pymc_private.certificates.certificate import Certificate
from pymc_private.certificates.certify import certify
from pymc_private.certificates.clip import clip
from pymc_private.certificates.lipschitz.tail import LipschitzTail, lipschitz_tail
from pymc_private.certificates.restrict import temper, trim
from pymc_private.counts.dirichlet import count_posterior, dirichlet, noisy_counts
from pymc_private.errors import (
    BudgetExceeded,
    DomainError,
    Incompatible,
    NotCertified,
    NotInformative,
    PrivacyWarning,
    Unsupported,
)
from pymc_private.ledger import Ledger
from pymc_private.models.declare import constants
from pymc_private.models.domains import Ball, Categories, Counts, Interval, Scale, Simplex
from pymc_private.models.lint import LintReport, lint
from pymc_private.models.marginalize import marginalize
from pymc_private.models.metric import Metric
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.mollifiers import Box, Hull, LocalDraws, LocalSampler, Mollified, Window, mollify
from pymc_private.posterior.calibrate import calibrate
from pymc_private.posterior.plan import Plan
from pymc_private.posterior.sample import sample
from pymc_private.privacy import Guarantee
from pymc_private.release.answers import Answer, Answers, Dialogue, answer, choose
from pymc_private.release.chain_draws import mean, predict, prob, quantile
from pymc_private.release.release import Release
from pymc_private.release.utilities import Subsets
from pymc_private.report import Report, compare, report
from pymc_private.samplers.diagnostics import (
    CouplingEvidence,
    CuratorDiagnostics,
    coupling_evidence,
    diagnose,
)
from pymc_private.samplers.method import Boxes, Conjugate, Grid, Nuts, Proximal
from pymc_private.summaries.summarize import summarize
from pymc_private.summaries.summary import Summary, load
from pymc_private.summaries.summary_plan import SummaryPlan

__version__ = "0.1.0"

# What privatize tells is for the log; without a handler Python would print it to the cell.
logging.getLogger(__name__).addHandler(logging.NullHandler())


_LAZY = {"MollifiedBoosting": "boosting", "synthesize": "synthetic"}


def __getattr__(name: str) -> Any:
    """Load what takes a while, or what nothing else rests on, when it is first asked for."""
    if name in ("audit", "estimators", "planning"):
        return importlib.import_module(f"pymc_private.{name}")
    if name in _LAZY:
        room = importlib.import_module(f"pymc_private.mollifiers.{_LAZY[name]}")
        return getattr(room, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Answer",
    "Answers",
    "Ball",
    "Box",
    "Boxes",
    "BudgetExceeded",
    "Categories",
    "Certificate",
    "Conjugate",
    "Counts",
    "CouplingEvidence",
    "CuratorDiagnostics",
    "Dialogue",
    "DomainError",
    "Grid",
    "Guarantee",
    "Hull",
    "Incompatible",
    "Interval",
    "Ledger",
    "LintReport",
    "LipschitzTail",
    "LocalDraws",
    "LocalSampler",
    "Metric",
    "Mollified",
    "MollifiedBoosting",
    "NotCertified",
    "NotInformative",
    "Nuts",
    "Plan",
    "PrivacyWarning",
    "PrivateModel",
    "Proximal",
    "Release",
    "Report",
    "Scale",
    "Simplex",
    "Subsets",
    "Summary",
    "SummaryPlan",
    "Unsupported",
    "Window",
    "answer",
    "calibrate",
    "certify",
    "choose",
    "clip",
    "compare",
    "constants",
    "count_posterior",
    "coupling_evidence",
    "diagnose",
    "dirichlet",
    "errors",
    "lint",
    "lipschitz_tail",
    "load",
    "marginalize",
    "mean",
    "mollify",
    "noisy_counts",
    "predict",
    "privacy",
    "privatize",
    "prob",
    "quantile",
    "report",
    "sample",
    "summarize",
    "synthesize",
    "temper",
    "trim",
]
