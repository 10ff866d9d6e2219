"""What released draws tell against the prior: post-processing of the draws and public facts.

A release of posterior draws has quantiles of its prior among its facts. By them each draw is
written on the scale on which its prior is standard normal, where the prior has width 1 whatever
its shape. The variance of the draws on that scale, geometric mean over parameters, is the share of
the prior variance that is left. Its interval takes posteriors to be normal on that scale and is
no privacy claim; fewer than `FEWEST_DRAWS` draws have no width worth telling.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, ndtri

from pymc_private.privacy.rounding import format_count
from pymc_private.release.allowed import PRIOR_SCORES, ReleaseContents, as_float

FEWEST_DRAWS = 5
"""Of fewer draws the width is not told: its interval would span more than a factor of 4.5."""
CONFIDENCE = 0.9
SCALE_ERROR = 0.1
"""Prior widths by which the scale may be off: between its quantiles it is taken as linear."""
WEAK_SHARE = 0.2
"""Below this share of the prior variance draws are hardly told from draws of the prior."""

CLIPPED_MODEL_TEXT = "CLIPPED, SO THIS IS ANOTHER MODEL: records that it finds unlikely count less"
"""What log-likelihoods of records between bounds make of a model."""


@dataclass(frozen=True)
class Learned:
    """What draws tell about the parameters that the prior did not.

    Attributes
    ----------
    share : float
        Share of the prior variance of a parameter that is removed; below 0 if draws are wider.
    lower, upper : float
        Interval of the share, probability `CONFIDENCE` where posteriors are normal.
    draws : int
    moved : bool
        Whether the draws of some parameter lie elsewhere than the prior's would.
    """

    share: float
    lower: float
    upper: float
    draws: int
    moved: bool

    @property
    def is_like_prior(self) -> bool:
        """Whether these draws are hardly distinguishable from as many draws of the prior."""
        return self.share < WEAK_SHARE and not self.moved


def what_was_learned(release: ReleaseContents) -> Learned | None:
    """Compare the draws with their prior; None without quantiles of it, or of few draws.

    Elements whose prior is a point, and variables that are whole numbers, are left out.
    """
    scores = np.array([column for _, column in prior_scores(release)])
    if not scores.size or scores.shape[1] < FEWEST_DRAWS:
        return None
    count = scores.shape[1]
    variances = np.maximum(scores.var(axis=1, ddof=1), 1e-12)
    left = math.exp(float(np.log(variances).mean()))
    tail = (1.0 - CONFIDENCE) / 2.0
    # quantiles of chi-squared with count - 1 degrees of freedom
    low, high = (
        left * (count - 1) / (2.0 * float(gammaincinv((count - 1) / 2.0, p)))
        for p in (1.0 - tail, tail)
    )
    far = -ndtri((1.0 - CONFIDENCE) / (2.0 * len(scores))) / math.sqrt(count) + SCALE_ERROR
    moved = bool((np.abs(scores.mean(axis=1)) > far).any())
    return Learned(1.0 - left, 1.0 - high, 1.0 - low, count, moved)


def prior_scores(release: ReleaseContents) -> Iterator[tuple[str, np.ndarray]]:
    """The draws of each element on the scale where its prior is standard normal, by variable."""
    for name, known in release.facts.get("prior_quantiles", {}).items():
        if name not in release.posterior.data_vars:
            continue
        values = release.posterior[name].values[0]
        columns = values.reshape(len(values), -1)
        quantiles = np.asarray(known, float).reshape(len(PRIOR_SCORES), -1)
        for k in range(columns.shape[1]):
            knots, first = np.unique(quantiles[:, k], return_index=True)
            if len(knots) == len(PRIOR_SCORES):
                yield name, np.interp(columns[:, k], knots, np.take(PRIOR_SCORES, first))


def relative_widths(release: ReleaseContents, name: str) -> np.ndarray:
    """Standard deviation of the draws of each element, in prior widths; NaN where unknown."""
    columns = [column for key, column in prior_scores(release) if key == name]
    size = int(np.prod(release.posterior[name].shape[2:]))
    if len(columns) != size or release.posterior.sizes["draw"] < FEWEST_DRAWS:
        return np.full(size, math.nan)
    return np.array([column.std(ddof=1) for column in columns])


def scored_model_text(beta: float) -> str:
    """What a beta-divergence in place of the log-density makes of a model."""
    return (
        f"BETA-DIVERGENCE (beta = {beta:.6g}) IN PLACE OF THE LIKELIHOOD, SO THIS IS ANOTHER "
        "MODEL: records that it finds unlikely count less, and widths are not those of its "
        "posterior"
    )


def model_lines(release: ReleaseContents) -> tuple[str, ...]:
    """Warnings that draws are those of another model than the one written."""
    clip, beta = release.facts.get("clip"), release.facts.get("beta")
    return (
        *((f"WARNING: {CLIPPED_MODEL_TEXT}",) if clip is not None else ()),
        *((f"WARNING: {scored_model_text(as_float(beta))}",) if beta is not None else ()),
    )


def learned_lines(release: ReleaseContents) -> tuple[str, ...]:
    """Sentences on what was learned, and on what was expected; none without public facts."""
    found, expected = what_was_learned(release), release.facts.get("expected_share")
    lines = [] if found is None else [_learned_sentence(found, release.private)]
    count = release.posterior.sizes["draw"]
    if expected is not None:
        share = as_float(expected)
        text = f"expected before the draw: {share:.0%} of the prior variance of a parameter removed"
        if share < WEAK_SHARE:
            text = f"WARNING: draws were expected to hardly differ from the prior's; {text}"
        if found is None and count < FEWEST_DRAWS:
            text += f" ({format_count(count, 'draw')} cannot show a width)"
        lines.append(text)
    return tuple(lines)


def _learned_sentence(found: Learned, private: bool) -> str:
    """One sentence on the draws against the prior."""
    percent = round(100 * CONFIDENCE)
    low, high = max(found.lower, 0.0), max(found.upper, 0.0)
    interval = f"{percent}% interval {low:.0%} to {high:.0%}, for near-normal posteriors"
    if found.is_like_prior:
        return (
            f"WARNING: these {found.draws} draws are hardly distinguishable from draws of the "
            f"prior (share of its variance removed: {max(found.share, 0.0):.0%}; {interval})"
        )
    width = math.sqrt(max(1.0 - found.share, 0.0))
    if found.share < WEAK_SHARE:
        return (
            f"these draws lie elsewhere than the prior's and are about as wide "
            f"({width:.2f} prior widths; {interval} of its variance removed)"
        )
    owner = "private posterior" if private else "posterior"
    return (
        f"{found.share:.0%} of the prior variance of a parameter is removed ({interval}): its "
        f"{owner} is {width:.2f} times as wide as its prior"
    )
