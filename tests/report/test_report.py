"""A report tells the whole promise, in text and on one self-contained page."""

from __future__ import annotations

import html
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from pymc_private.certificates.terms import VERIFIED_ARITHMETIC
from pymc_private.errors import DomainError, Incompatible
from pymc_private.ledger.ledger import Ledger
from pymc_private.models import compat
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.release.release import Release
from pymc_private.report import (
    Report,
    compare,
    plot_budget,
    plot_curve,
    plot_posterior,
    report,
)
from pymc_private.report.report import (
    NOT_COVERED,
    RANDOMNESS_ASSUMPTION,
    REAL_ARITHMETIC_ASSUMPTION,
    guessing_probability,
    not_covered,
    percent_text,
)

PREMISE = "each draw is exact & fresh"


def released(draws: int = 10, *, private: bool = True, size: int = 3, **more: object) -> Release:
    rng = np.random.default_rng(2)
    posterior = xr.Dataset(
        {
            "beta": (("chain", "draw", "feature"), rng.uniform(-1, 1, (1, draws, size))),
            "k": (("chain", "draw"), rng.integers(0, 3, (1, draws))),
        },
        coords={"feature": [f"f{i}" for i in range(size)]},
    )
    guarantee = (
        Guarantee.bounded_range_of(0.1, draws=draws, theorem="T1, T3", assumptions=(PREMISE,))
        if private
        else Guarantee.none("seeded run")
    )
    facts = {
        "name": "main <study>", "sampler": "boxes", "claim": "proved (real arithmetic)",
        "delta": 1e-6, "records": "woman", "domain": {"X": "Ball(1.0)"}, "power": 0.25,
        "trim": {"beta": [-1, 1]}, "withheld": ["eta"], "grid": "2^-20 of the box",
        "model": "ab" * 32, "versions": {"pymc": "6.4.0"}, "ranges": {"beta": [-1, 1]},
        "certificate": "range R <= 0.1 nats\n  softplus & dot",
        "budget": {"epsilon": "2", "delta": "1/100000"},
        "charges": [{"label": "main: 10 draws", "guarantee": guarantee.to_dict()}],
    }  # fmt: skip
    return Release(posterior, guarantee, facts | more, private)


def in_memory_ledger(*guarantees: Guarantee) -> Ledger:
    ledger = Ledger(epsilon=2, delta=1e-5)
    for i, guarantee in enumerate(guarantees):
        ledger.charge(guarantee, f"charge {i}")
    return ledger


def visible(page: str) -> str:
    """The words of a page, without pictures, tags and style."""
    without = re.sub(r"<style>.*?</style>|<[^>]+>", " ", page.replace("<wbr>", ""), flags=re.DOTALL)
    return html.unescape(without)


@pytest.fixture(autouse=True, scope="module")
def _small() -> None:
    """Set pictures in few pixels; `test_rendering` looks at those of a page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["pymc_private.report.report"], "DPI", 30)
        yield


@pytest.fixture(scope="module")
def got() -> Report:
    """Report the ordinary release, once."""
    return report(released())


@pytest.fixture
def unpainted(monkeypatch) -> None:
    """Draw the pictures of a report but do not set them in pixels: only words are tested."""
    monkeypatch.setattr(sys.modules["pymc_private.report.report"], "_png", lambda figure: "")


def test_text_and_page_tell_the_same_promise(got) -> None:
    one = released()
    for words in (" ".join(got.text.split()), " ".join(visible(got.html).split())):
        for part in (
            PREMISE, "proved (real arithmetic)", "T1, T3", "main <study>", "record (woman)",
            "Ball(1.0)", "softplus & dot", "eta", "0.25", "2^-20", "ab" * 32, "pymc 6.4.0",
            "main: 10 draws", "beta[f0]", "mcse", one.fingerprint, "dong2020optimal",
            *NOT_COVERED,
        ):  # fmt: skip
            assert part in words, part
    assert repr(got) == got.text
    assert got._repr_html_() in got.html


def test_real_numbers_are_assumed_only_where_floats_are_not_proved() -> None:
    plain = released()
    strict = replace(
        plain.guarantee, assumptions=(*plain.guarantee.assumptions, VERIFIED_ARITHMETIC)
    )
    proved = Release(plain.posterior, strict, plain.facts)
    assert not_covered(plain)[-1] == REAL_ARITHMETIC_ASSUMPTION
    assert not_covered(proved)[-1] == RANDOMNESS_ASSUMPTION
    assert not_covered(proved)[:-1] == NOT_COVERED


def test_assumptions_and_claim_are_set_as_large_as_epsilon(got) -> None:
    found = re.findall(r'<p class="loud[^"]*">(.*?)</p>', got.html)
    loud = [html.unescape(text) for text in found]
    assert loud[0].startswith("ε = ")
    assert "δ = 10⁻⁶" in loud[0]
    assert loud[1:] == ["proved (real arithmetic)", PREMISE]


def test_epsilon_is_rounded_up(got) -> None:
    one = released()
    shown = float(re.search(r"epsilon = ([\d.]+) nats", got.text).group(1))
    assert one.guarantee.epsilon(1e-6) <= shown <= one.guarantee.epsilon(1e-6) * 1.002


def test_the_page_is_self_contained_and_has_no_script(got, tmp_path) -> None:
    with pytest.raises(DomainError, match=r"ends in \.docx"):
        got.save(tmp_path / "report.docx")
    assert not list(tmp_path.iterdir())
    path = got.save(tmp_path / "report.html")
    page = path.read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert not re.search(r"<script|<link|javascript:|\son\w+=|@import|url\(", page)
    sources = re.findall(r'(?:src|srcset|href)="([^"]{1,30})', page)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert page.count("<figure>") == 3
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert all(alt for alt in re.findall(r'alt="([^"]*)"', page))


@pytest.mark.usefixtures("unpainted")
def test_names_from_the_model_cannot_inject_markup() -> None:
    evil = "<img src=x onerror=alert(1)>"
    page = report(released(name=evil, certificate=evil, domain={evil: evil})).html
    assert evil not in page
    assert html.escape(evil) in page


def test_reports_of_equal_releases_are_equal_and_carry_no_time(got) -> None:
    assert got == report(Release.from_bytes(released().to_bytes()))
    assert not re.search(r"created_at|\b20\d\d-\d\d-\d\d\b|\d\d:\d\d:\d\d", got.text)


@pytest.mark.usefixtures("unpainted")
def test_the_ledger_gives_charges_spent_and_left() -> None:
    one = released()
    ledger = in_memory_ledger(one.guarantee, Guarantee.pure(0.125))
    got = report(one, ledger)
    for words in (got.text, visible(got.html)):
        for part in ("charge 0", "charge 1", "0.125", "spent", "left", "budget", "epsilon 2"):
            assert part in words, part
    assert "main: 10 draws" not in got.text
    left = float(re.search(r"left +epsilon ([\d.]+)", got.text).group(1))
    assert left <= float(ledger.left.epsilon)


@pytest.mark.usefixtures("unpainted")
def test_boxes_and_charges_told_as_text_are_written_for_people() -> None:
    trim = {"beta": [[-1, -1, -1], [1, 1, 1]], "k": [0, 2], "s": [[0, 1], 2]}
    charges = [{"label": "main", "guarantee": "one draw, 0.25-DP"}]
    text = report(released(trim=trim, charges=charges, power="1/3")).text
    assert "0.3333 (exactly 1/3)" in text
    for part in ("beta: [-1, 1]", "k: [0, 2]", "s: [[0, 1], 2]", "main  one draw, 0.25-DP"):
        assert part in text


@pytest.mark.usefixtures("unpainted")
def test_parts_of_delta_explain_what_is_spent_of_it() -> None:
    """Half of delta is spent, since the other half is another accounting method's."""
    one = released()
    ledger = Ledger(epsilon=2, delta=1e-5)
    ledger.charge(Guarantee.gdp_of(0.1), "summary", delta=1e-6)
    assert 0 < ledger.spent.delta < ledger.budget.delta
    words = " ".join(report(one, ledger).text.split())
    assert "5e-6 for zCDP, 5e-6 for sums of epsilons and deltas: each accounting method" in words
    pure = Ledger(epsilon=2)
    pure.charge(Guarantee.pure(0.125), "pure")
    assert "parts of delta" not in report(one, pure).text


@pytest.mark.audit
@pytest.mark.usefixtures("unpainted")
def test_a_ledger_that_did_not_pay_for_the_release_says_so() -> None:
    paid, other = (in_memory_ledger(released().guarantee) for _ in range(2))
    one = released(ledger_head=paid.entries[0].head)
    paid.charge(Guarantee.pure(0.125), "later")
    pairs = (one,), (one, paid), (one, other), (released(), other)
    reports = [report(*given) for given in pairs]
    for words in (lambda got: got.text, lambda got: visible(got.html)):
        *told, elsewhere, unnamed = (" ".join(words(got).split()) for got in reports)
        assert not any("this ledger" in text or "names no ledger" in text for text in told)
        assert "This release is not in this ledger" in elsewhere
        assert "names no ledger" in unnamed


def test_a_ledger_of_other_neighbors_is_refused() -> None:
    other = Ledger(epsilon=1, neighbors="add_remove")
    with pytest.raises(Incompatible, match="different neighbors"):
        report(released(), other)


@pytest.mark.usefixtures("unpainted")
def test_a_seeded_release_is_marked_on_text_page_and_plots() -> None:
    got = report(released(private=False))
    assert "NOT PRIVATE: " in got.text
    loud = re.findall(r'<p class="loud[^"]*">(.*?)</p>', got.html)
    assert len(loud) == 1
    assert loud[0].startswith("NOT PRIVATE")
    assert "proved (real arithmetic)" not in got.text
    assert "proved (real arithmetic)" not in visible(got.html)
    seeded = released(private=False)
    for figure in (plot_posterior(seeded), plot_budget(seeded), plot_curve(seeded.guarantee)):
        assert "NOT PRIVATE" in _texts(figure)


def _texts(figure: Figure) -> str:
    texts = [text.get_text() for text in figure.texts]
    if figure.get_suptitle():
        texts.append(figure.get_suptitle())
    for axes in figure.axes:
        texts += [text.get_text() for text in axes.texts]
        texts += [axes.get_title(loc) for loc in ("left", "center", "right")]
    return "\n".join(texts)


def _spills(figure: Figure) -> float:
    """By how many inches anything drawn leaves the picture."""
    figure.draw_without_rendering()
    drawn = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return max(-drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height)


@pytest.mark.thin(4)
@pytest.mark.parametrize(("draws", "dark"), [(1, False), (2, True), (10, False), (61, True)])
def test_plots_fit_their_labels_at_any_number_of_draws(draws, dark) -> None:
    one = released(draws)
    ledger = in_memory_ledger(Guarantee.pure(0.125))
    for figure in (
        plot_posterior(one, dark=dark), plot_budget(one, dark=dark),
        plot_budget(one, ledger, dark=dark), plot_curve(one.guarantee, delta=1e-6, dark=dark),
    ):  # fmt: skip
        assert isinstance(figure, Figure)
        assert _spills(figure) < 0.01


@pytest.mark.parametrize("width", [7.4, 3.9])
def test_long_labels_are_shortened_to_fit(width) -> None:
    data = xr.Dataset(
        {
            "a_parameter": (
                ("chain", "draw", "level"),
                np.random.default_rng(1).uniform(size=(1, 9, 3)),
            )
        },
        coords={"level": [f"{letter} very long label of a level of a factor" for letter in "abc"]},
    )
    figure = plot_posterior(Release(data, Guarantee.pure(1.0), {}), width=width)
    titles = [axes._left_title for axes in figure.axes if axes.get_visible()]
    assert [t.get_text()[:3] + t.get_text()[-2:] for t in titles] == ["a_pr]"] * 3
    assert _spills(figure) < 0.01
    boxes = [title.get_window_extent() for title in titles]
    assert not any(a.overlaps(b) for k, a in enumerate(boxes) for b in boxes[:k])


def test_every_draw_is_a_dot_when_they_are_few() -> None:
    figure = plot_posterior(released(10))
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert sorted(dots[0].get_xdata()) == sorted(released(10).posterior["beta"].values[0, :, 0])
    assert np.unique(np.column_stack(dots[0].get_data()), axis=0).shape == (10, 2)


def test_plots_say_how_many_elements_they_leave_out() -> None:
    figure = plot_posterior(released(5, size=20))
    assert "9 more elements" in _texts(figure)
    assert len([axes for axes in figure.axes if axes.get_visible()]) == 12


def test_plots_leave_pyplot_alone() -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    report(released())
    assert plt.get_fignums() == before


def test_the_curve_in_the_plot_is_the_guarantee() -> None:
    guarantee = released().guarantee
    axes = plot_curve(guarantee).axes[0]
    best = next(line for line in axes.lines if line.get_linewidth() > 2)
    epsilon, delta = (np.asarray(side)[40] for side in best.get_data())
    assert delta == pytest.approx(guarantee.delta(float(epsilon)))


@pytest.mark.thin(6)
@pytest.mark.parametrize(
    ("guarantee", "delta"),
    [
        (Guarantee.pure(2.0), 0.0),
        (Guarantee.approximate(1.0, 1e-3), 1e-3),
        (Guarantee.zcdp_of(0.05), 1e-6),
        (Guarantee.gdp_of(0.5), 1e-6),
        (Guarantee.bounded_range_of(0.1, draws=200), 1e-6),
        (Guarantee.bounded_range_of(0.1) + Guarantee.gdp_of(1.0), 1e-6),
        (Guarantee.pure(0.0), 0.0),
    ],
)
def test_every_kind_of_guarantee_has_a_curve_that_shows_its_point(guarantee, delta) -> None:
    axes = plot_curve(guarantee, delta=delta).axes[0]
    assert 0 <= guarantee.epsilon(delta) <= axes.get_xlim()[1] * 1.0001
    assert len(axes.get_legend().get_texts()) >= 1
    assert _spills(axes.figure) < 0.01


@pytest.mark.usefixtures("unpainted")
def test_the_guessing_bound_is_exact_for_randomized_response() -> None:
    """A pure epsilon lets one guess right with probability e^epsilon / (1 + e^epsilon)."""
    posterior = xr.Dataset({"x": (("chain", "draw"), np.zeros((1, 1)))})
    one = Release(posterior, Guarantee.pure(1.0), {})
    assert guessing_probability(one) == pytest.approx(np.e / (1 + np.e))
    assert percent_text(guessing_probability(one)) == "73.2%"
    assert "73.2%" in report(one).text


def test_a_release_with_hardly_any_facts_still_has_a_report() -> None:
    posterior = xr.Dataset({"x": (("chain", "draw"), np.zeros((1, 1)))})
    got = report(Release(posterior, Guarantee.pure(0.5), {}))
    assert "epsilon = 0.5 nats at delta = 0 (pure)" in got.text
    assert "not proved" in got.text
    assert "choices made without looking" in got.text


def test_only_a_release_has_a_report() -> None:
    with pytest.raises(DomainError, match="about a release"):
        report(SimpleNamespace(posterior=None))


def test_only_a_ledger_has_an_account() -> None:
    posterior = xr.Dataset({"x": (("chain", "draw"), np.zeros((1, 1)))})
    with pytest.raises(DomainError, match="that of a ledger"):
        report(Release(posterior, Guarantee.pure(0.5), {}), "report.html")


def test_compare_is_marked_as_not_private_and_matches_elements_by_name() -> None:
    one = released(50)
    rng = np.random.default_rng(9)
    plain = xr.Dataset(
        {
            "beta": (("chain", "draw", "feature"), rng.normal(size=(2, 100, 2))),
            "extra": (("chain", "draw"), rng.normal(size=(2, 100))),
        },
        coords={"feature": ["f2", "f0"]},
    )
    got = compare(one, compat.to_arviz(plain))
    assert list(got.frame.index) == ["beta[f0]", "beta[f2]"]
    assert got.frame["other_mean"]["beta[f2]"] == pytest.approx(float(plain["beta"][..., 0].mean()))
    mine = float(one.posterior["beta"].sel(feature="f2").mean())
    assert got.frame["private_mean"]["beta[f2]"] == pytest.approx(mine)
    assert repr(got).startswith("CURATOR ONLY, NOT PRIVATE")
    assert "CURATOR ONLY, NOT PRIVATE" in got._repr_html_()
    with pytest.raises(DomainError, match="in common"):
        compare(one, plain[["extra"]])


@pytest.mark.parametrize("delta", [0.0, 1e-15, 1e-6])
def test_the_curve_shows_the_point_that_the_heading_states(delta) -> None:
    guarantee = Guarantee.bounded_range_of(0.3, draws=2)
    axes = plot_curve(guarantee, delta=delta).axes[0]
    (point,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert point.get_xdata()[0] == guarantee.epsilon(delta)
    assert point.get_xdata()[0] <= axes.get_xlim()[1]
    shown = [text.get_text() for text in axes.get_legend().get_texts()]
    assert any(text.startswith("epsilon ") for text in shown)
    for line in axes.lines:  # what a legend names is seen
        inside = np.asarray(line.get_ydata(), float) >= axes.get_ylim()[0]
        assert (
            line.get_label().startswith("_")
            or line.get_label() not in shown
            or inside.any()
            or (line.get_linestyle() == ":")
        )


def test_the_legend_names_a_band_only_where_one_is_drawn() -> None:
    def named(one: Release) -> list[str]:
        (legend,) = plot_posterior(one).legends
        return [text.get_text() for text in legend.get_texts()]

    assert any("lies here" in text for text in named(released()))
    bare = released(ranges=None, trim={})
    assert not any("lies here" in text for text in named(bare))


@pytest.mark.usefixtures("unpainted")
def test_an_error_without_bound_is_a_dash_with_a_word_why() -> None:
    some, none = (
        " ".join(report(released(ranges=ranges, trim={})).text.split())
        for ranges in ({"k": [0, 2]}, None)
    )
    assert "a dash where no public range bounds the variable" in some
    assert "error ≤" in some
    assert "The error of a mean has no bound: no public range bounds the variable" in none
    assert "error ≤" not in none
    for text in (some, none):
        assert "infinite" not in text
        assert "docs/theory.md" in text


def test_the_legend_says_that_a_band_goes_on_beyond_the_panel() -> None:
    def names(one: Release) -> str:
        (legend,) = plot_posterior(one).legends
        return " ".join(text.get_text() for text in legend.get_texts())

    wide = released(ranges={"beta": [-50, 50]}, trim={})
    assert "beyond an edge that the band touches" in names(wide)
    assert "beyond an edge" not in names(released(2000))


@pytest.mark.usefixtures("unpainted")
def test_a_warning_is_set_in_the_color_of_one(got) -> None:
    clipped = report(released(clip=[-6, 0])).html
    assert re.search(r'<p class="alarm">WARNING: CLIPPED', clipped)
    assert '<p class="alarm">' not in got.html
