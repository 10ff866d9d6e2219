"""Three posteriors of a public survey: without privacy, of a noisy summary, and ten draws."""

import tempfile
from pathlib import Path

import pymc_private as pmp
from pymc_private import demo
from pymc_private.models import compat


def draw():
    model = demo.fair_model()
    draws, plan = demo.plan_both(demo.declare_records(model))  # epsilon = 1, delta = 1e-6 each
    with tempfile.TemporaryDirectory() as folder:
        ledger = pmp.Ledger(Path(folder) / "fair.sqlite", epsilon=2, delta=1e-5)
        release = pmp.sample(draws, ledger=ledger, progressbar=False)
        summary = pmp.summarize(plan, ledger=ledger, progressbar=False)
        plain, noisy = (demo.sample_model(made) for made in (model, summary.model()))
    three = {
        "not private": compat.to_dataset(plain),
        demo.SUMMARY_NAME: compat.to_dataset(noisy),
        demo.DRAWS_NAME: release.posterior,
    }
    return demo.plot_posteriors(three)
