"""Questions to a release, or to draws of a summary's model: each is post-processing, and free.

`mean`, `quantile`, `prob` and `predict` estimate, with the error of finitely many draws; `answer`
and `choose` give the response of the largest expected utility (T16), `Dialogue` one after the
other, `Subsets` among subsets.

Imports: release.
"""

from pymc_private.release.answers import Answer, Answers, Dialogue, answer, choose
from pymc_private.release.chain_draws import mean, predict, prob, quantile
from pymc_private.release.utilities import Subsets

__all__ = [
    "Answer",
    "Answers",
    "Dialogue",
    "Subsets",
    "answer",
    "choose",
    "mean",
    "predict",
    "prob",
    "quantile",
]
