"""Reports and cards in a real browser: nothing is cut off, on paper, in the dark, on a telephone.

Chromium renders each page in a frame of a given width, and a script of the test (the pages have
none) measures it. What lies in an element that scrolls by itself is not cut off.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.report import render

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
pytestmark = [
    pytest.mark.audit,
    pytest.mark.skipif(not BROWSER, reason="no Chromium is on PATH to render the pages with"),
]
WIDTHS = (400, 1200)
MEASURE = """<script>addEventListener("load", () => {
  const seen = document.querySelector("iframe").contentDocument;
  const width = seen.documentElement.clientWidth, out = [];
  const scrolls = (e) => e && (["auto", "scroll"].includes(seen.defaultView.getComputedStyle(e)
    .overflowX) || scrolls(e.parentElement));
  for (const e of seen.body.querySelectorAll("*"))
    if (e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement))
      out.push(e.tagName + ": " + e.textContent.slice(0, 60));
  const pictures = [...seen.images].map((i) => [i.naturalWidth, i.clientWidth]);
  const found = {width, scroll: seen.documentElement.scrollWidth, out, pictures,
    paper: seen.defaultView.getComputedStyle(seen.body).backgroundColor};
  document.body.innerHTML = "<pre>" + encodeURIComponent(JSON.stringify(found)) + "</pre>";
});</script>"""


def run_browser(folder: Path, *options: str) -> str:
    """Run Chromium without a window on a profile of its own."""
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}", *options,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def measured(page: str, width: int, folder: Path, *, dark: bool = False) -> dict:
    """Sizes of a page in a frame of a width, and what sticks out of it."""
    from urllib.parse import unquote

    frame = f'<iframe style="border:0" width="{width}" height="900" srcdoc="{html.escape(page)}">'
    path = folder / "frame.html"
    path.write_text(f"<!doctype html><body>{frame}</iframe>{MEASURE}", "utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    shown = run_browser(folder, scheme, "--window-size=1400,1000", "--dump-dom", path.as_uri())
    return json.loads(unquote(re.search(r"<pre>(.*?)</pre>", shown)[1]))


@cache
def pages() -> dict[str, str]:
    """Every kind of page: reports of a summary and of draws, and the cards of a notebook."""
    rng = np.random.default_rng(3)
    n = 1500
    x, y = rng.uniform(-1, 1, (n, 2)), rng.integers(0, 2, n)
    coords = {"person": range(n), "feature": ["a_feature_with_a_long_name", "another_long_name"]}
    with pm.Model(coords=coords) as model:
        X = pm.Data("X", x / np.sqrt(2), dims=("person", "feature"))
        slope = pm.Normal("slope", 0, 1, dims="feature")
        pm.Bernoulli("y", logit_p=X @ slope, observed=y, dims="person")
    private = pmp.privatize(model, records="person", domain={"X": pmp.Ball(1.0)})
    trimmed = pmp.trim(private, mass=0.95)
    ledger = pmp.Ledger(epsilon=3, delta=1e-5, data="made-up persons")
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary")
    summary = pmp.summarize(plan, ledger=ledger, name="summary", progressbar=False)
    boxed = pmp.calibrate(trimmed, epsilon=1, delta=1e-6, draws=4, sampler="boxes")
    release = pmp.sample(boxed, ledger=ledger, name="draws", progressbar=False, accept_prior=True)
    cards = {
        "private model": private, "certificate": pmp.certify(trimmed), "plan": boxed,
        "summary plan": plan, "summary": summary, "release": release, "ledger": ledger,
        "guarantee": release.guarantee, "mean": pmp.mean(release, "slope"),
        "lint": pmp.lint(model, records="person"),
    }  # fmt: skip
    found = {name: render.page(name, card._repr_html_()) for name, card in cards.items()}
    for one in (summary, release):
        found[f"report on {one.facts['name']}"] = pmp.report(one, ledger).html
    return found


def test_the_measure_finds_what_sticks_out(tmp_path) -> None:
    found = measured('<p style="width:600px">wide</p>', 400, tmp_path)
    assert found["out"] == ["P: wide"]
    assert found["scroll"] > found["width"] == 400


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_of_a_page(width, tmp_path) -> None:
    for name, page in pages().items():
        found = measured(page, width, tmp_path)
        assert not found["out"], name
        assert found["scroll"] <= found["width"], name


@pytest.mark.parametrize("dark", [False, True])
def test_reports_fit_their_pictures_and_their_paper_to_the_page(dark, tmp_path) -> None:
    for name in ("report on summary", "report on draws"):
        wide, narrow = (
            measured(pages()[name], width, tmp_path, dark=dark) for width in (1200, 400)
        )
        assert (
            narrow["paper"]
            == wide["paper"]
            == ("rgb(21, 24, 28)" if dark else "rgb(255, 255, 255)")
        )
        for found in (wide, narrow):
            assert all(0 < shown <= 1.001 * found["width"] for _, shown in found["pictures"])
        # A telephone gets pictures drawn for it, the budget bar aside.
        small = [a[0] < b[0] for a, b in zip(narrow["pictures"], wide["pictures"], strict=True)]
        assert small == [False, *[True] * (len(small) - 1)]


def test_a_printed_report_has_a_few_pages(tmp_path) -> None:
    for name in ("report on summary", "report on draws"):
        source, printed = tmp_path / "report.html", tmp_path / "report.pdf"
        source.write_text(pages()[name], "utf-8")
        run_browser(tmp_path, f"--print-to-pdf={printed}", source.as_uri())
        document = printed.read_bytes()
        assert document.startswith(b"%PDF")
        assert 3 <= len(re.findall(rb"/Type\s*/Page\b", document)) <= 8
