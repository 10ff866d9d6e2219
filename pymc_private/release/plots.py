"""Plots of answers and estimates: the value found and its error bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pymc_private.privacy.plots import axes_or_new
from pymc_private.release.display import NOT_PRIVATE, format_estimate

ACCENT, INK, ALARM, BAND = "#2b6298", "#1f2328", "#b3261e", 0.22
MOST_LINES = 30


class AnswerLike(Protocol):
    """What the plots read of an `Answer`."""

    @property
    def query(self) -> Any:
        """The query answered."""

    @property
    def response(self) -> Any:
        """The response of highest expected utility."""

    @property
    def expected_utility(self) -> float:
        """Its mean utility over the draws."""

    @property
    def loss_bound(self) -> float:
        """The bound on its loss."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Public bounds of the utility."""

    @property
    def scores(self) -> tuple[tuple[Any, float], ...]:
        """Expected utility of every response tried."""

    @property
    def private(self) -> bool:
        """Whether the release was private."""


class EstimateLike(Protocol):
    """What the plots read of an `Estimate`."""

    @property
    def what(self) -> str:
        """What is estimated."""

    @property
    def value(self) -> Any:
        """The estimate."""

    @property
    def lower(self) -> Any:
        """Its lower bound."""

    @property
    def upper(self) -> Any:
        """Its upper bound."""

    @property
    def mcse(self) -> Any:
        """Its Monte Carlo standard error."""

    @property
    def confidence(self) -> float:
        """Probability that all bounds hold."""

    @property
    def element_names(self) -> list[str]:
        """A name for each element."""


def plot_utilities(answer: AnswerLike, ax: Any = None) -> Any:
    """Draw the expected utility of each response tried, and the band of half the loss bound.

    With the stated confidence every response's expected utility under the private posterior lies
    in its band; so a response whose band overlaps with the best may be the best.

    Parameters
    ----------
    answer : Answer
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    if all(isinstance(response, float) for response, _ in answer.scores) and answer.scores:
        return _utility_curve(answer, ax)
    best = sorted(answer.scores, key=lambda pair: -pair[1])[:MOST_LINES]
    names = [str(response) for response, _ in best]
    values = np.array([score for _, score in best])
    low, high = _loss_band(answer, values)
    ax = _dot_rows(ax, names, values, low, high, first=True)
    ax.set_xlabel(_utility_label(low, high))
    _title(ax, f"answer: {answer.response!r}, {_loss_text(answer)}", answer.private)
    return ax


def plot_answers(answers: Sequence[AnswerLike], ax: Any = None) -> Any:
    """Draw the expected utility of each answer, and the band of half its loss bound."""
    shown = list(answers)[:MOST_LINES]
    values = np.array([answer.expected_utility for answer in shown])
    bands = [_loss_band(answer, value) for answer, value in zip(shown, values, strict=True)]
    low, high = (np.array([band[k] for band in bands]) for k in (0, 1))
    ax = _dot_rows(ax, [f"{a.query!r}: {a.response!r}" for a in shown], values, low, high)
    ax.set_xlabel(_utility_label(low, high))
    more = f" (the first {MOST_LINES})" if len(answers) > MOST_LINES else ""
    _title(ax, f"{len(answers)} answers{more}", all(answer.private for answer in answers))
    return ax


def plot_estimate(estimate: EstimateLike, ax: Any = None) -> Any:
    """Draw an estimate's elements with the interval that holds the truth, and the usual mcse."""
    names = estimate.element_names
    value, low, high, mcse = (
        np.ravel(np.asarray(part, float))[:MOST_LINES]
        for part in (estimate.value, estimate.lower, estimate.upper, estimate.mcse)
    )
    ax = _dot_rows(ax, names[:MOST_LINES], value, low, high)
    for k, (x, error) in enumerate(zip(value, mcse, strict=True)):
        if math.isfinite(error):
            ax.plot([x - error, x + error], [k, k], color=ACCENT, lw=2.5, zorder=3)
    percent = f"{100 * estimate.confidence:g}%"
    seen = {
        f"shaded: holds the value under the distribution drawn from, {percent}": _has_band(
            low, high
        ),
        "line: one mcse": np.isfinite(mcse).any(),
    }
    ax.set_xlabel("; ".join(text for text, shown in seen.items() if shown))
    _title(ax, estimate.what.replace(f" ({NOT_PRIVATE})", ""), NOT_PRIVATE not in estimate.what)
    return ax


def _utility_curve(answer: AnswerLike, ax: Any) -> Any:
    """Plot utility against numeric responses."""
    ax = axes_or_new(ax, 6.0, 3.4)
    positions, values = (np.array(part) for part in zip(*sorted(answer.scores), strict=True))
    marker = "o-" if len(positions) <= MOST_LINES else "-"
    ax.plot(positions, values, marker, color=ACCENT, ms=4, label="by the draws")
    low, high = _loss_band(answer, values)
    if np.isfinite(low).all():
        ax.fill_between(
            positions, low, high, color=ACCENT, alpha=BAND, lw=0, label="holds the truth"
        )
    ax.plot([answer.response], [answer.expected_utility], "D", color=INK, ms=6, label="answer")
    ax.set(xlabel="response", ylabel="expected utility")
    ax.legend(frameon=False, fontsize="small")
    _title(ax, f"answer: {format_estimate(answer.response)}, {_loss_text(answer)}", answer.private)
    _hide_spines(ax)
    return ax


def _loss_band(answer: AnswerLike, values: Any) -> tuple[Any, Any]:
    """The band that holds all expected utilities together: half the loss bound on either side."""
    low, high = answer.bounds
    if answer.loss_bound >= high - low:
        return np.full_like(values, low), np.full_like(values, high)
    half = answer.loss_bound / 2
    return np.clip(values - half, low, high), np.clip(values + half, low, high)


def _has_band(low: Any, high: Any) -> bool:
    """Whether any row has a band: an end that is not finite leaves it out."""
    return bool((np.isfinite(low) & np.isfinite(high)).any())


def _utility_label(low: Any, high: Any) -> str:
    """What is plotted; nothing of a band where there is none."""
    band = "; the shaded band holds the truth" if _has_band(low, high) else ""
    return f"expected utility{band}"


def _loss_text(answer: AnswerLike) -> str:
    if math.isinf(answer.loss_bound):
        return "loss not bounded"
    return f"loss at most {format_estimate(answer.loss_bound)}"


def _dot_rows(
    ax: Any,
    names: Sequence[str],
    values: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    first: bool = False,
) -> Any:
    """One row per name: a dot, and a band where both its bounds are finite."""
    ax = axes_or_new(ax, 6.4, 1.2 + 0.3 * max(len(names), 2))
    for k, (x, left, right) in enumerate(zip(values, low, high, strict=True)):
        if math.isfinite(left) and math.isfinite(right):
            ax.barh(k, right - left, 0.62, left, color=ACCENT, alpha=BAND, lw=0)
        ax.plot([x], [k], "D" if first and k == 0 else "o", color=ACCENT, ms=5)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.use_sticky_edges = False
    ax.margins(x=0.05)
    _hide_spines(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def _title(ax: Any, text: str, private: bool) -> None:
    mark = "" if private else f"{NOT_PRIVATE}: "
    ax.set_title(mark + text, loc="left", fontsize="medium", color=INK if private else ALARM)


def _hide_spines(ax: Any) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
