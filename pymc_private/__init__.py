"""Differentially private posterior sampling for PyMC models.

An existing model in, private draws and an honest report out::

    private = pmp.privatize(model, records="woman", domain={"X": pmp.Ball(1.0)})
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=10)
    release = pmp.sample(plan, ledger=pmp.Ledger("study.sqlite", epsilon=2, delta=1e-5))
    pmp.report(release)
"""

import importlib
import logging
from types import ModuleType

from pymc_private import errors, privacy
from pymc_private.errors import (
    BudgetExceeded,
    DomainError,
    Incompatible,
    NotCertified,
    PrivacyWarning,
    Unsupported,
)
from pymc_private.mechanisms.answers import Answer, answer
from pymc_private.mechanisms.calibrate import calibrate
from pymc_private.mechanisms.posterior import sample
from pymc_private.mechanisms.release import Release, load
from pymc_private.models.ball import Ball
from pymc_private.models.certificate import Certificate, certify
from pymc_private.models.clip import clip
from pymc_private.models.constants import constants
from pymc_private.models.counts import Counts
from pymc_private.models.domain import Categories, Interval, Simplex
from pymc_private.models.lint import LintReport, lint
from pymc_private.models.plan import Plan
from pymc_private.models.private_model import PrivateModel, privatize
from pymc_private.models.scale import Scale
from pymc_private.models.temper import temper
from pymc_private.models.trim import trim
from pymc_private.privacy import Guarantee, Ledger
from pymc_private.report import Report, compare, report
from pymc_private.samplers.diagnostics import CuratorDiagnostics, diagnose
from pymc_private.samplers.method import Boxes, Conjugate, Grid, Nuts, Proximal

__version__ = "0.1.0"

# What privatize tells is for the log; without a handler Python would print it to the cell.
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> ModuleType:
    """Load the audits when they are first asked for: nothing else rests on them."""
    if name == "audit":
        return importlib.import_module("pymc_private.audit")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Answer",
    "Ball",
    "Boxes",
    "BudgetExceeded",
    "Categories",
    "Certificate",
    "Conjugate",
    "Counts",
    "CuratorDiagnostics",
    "DomainError",
    "Grid",
    "Guarantee",
    "Incompatible",
    "Interval",
    "Ledger",
    "LintReport",
    "NotCertified",
    "Nuts",
    "Plan",
    "PrivacyWarning",
    "PrivateModel",
    "Proximal",
    "Release",
    "Report",
    "Scale",
    "Simplex",
    "Unsupported",
    "answer",
    "calibrate",
    "certify",
    "clip",
    "compare",
    "constants",
    "diagnose",
    "errors",
    "lint",
    "load",
    "privacy",
    "privatize",
    "report",
    "sample",
    "temper",
    "trim",
]
