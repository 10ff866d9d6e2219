"""What a server receives of many users in the local model, and what it may conclude."""

from __future__ import annotations

import math
import numpy as np
from dataclasses import dataclass
from typing import TYPE_CHECKING
from pymc_private.errors import DomainError
from pymc_private.mollifiers.density_estimates import LogRatio, check_rows
from pymc_private.mollifiers.mollified_distributions__hull import Hull, project
from pymc_private.mollifiers.density_estimates__kernel import kernel_density
from pymc_private.mollifiers.references import Finite, Reference
from pymc_private.privacy.validation import inside_unit
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors__neighbors import ANY
from pymc_private.privacy.rounding__printing import number

if TYPE_CHECKING:
    from pymc_private.mollifiers.local_model import LocalSampler

@dataclass(frozen=True)
class LocalDraws:
    """One private draw of each user, and what may be concluded from them at no cost.

    Attributes
    ----------
    values : array, shape (n, d)
    sampler : LocalSampler
    private : bool
        False if a seed made them.
    """

    values: np.ndarray
    sampler: LocalSampler
    private: bool = True

    @property
    def guarantee(self) -> Guarantee:
        """What each user reveals, however many others there are."""
        if not self.private:
            return Guarantee.none("random_seed: anyone can recompute the draws", neighbors=ANY)
        return self.sampler.guarantee

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        cost = f"{number(self.sampler.epsilon)} nats for each user, whatever the others do"
        what = cost if self.private else "NOT private: made with a random_seed"
        return f"LocalDraws: one draw of each of {len(self)} users\n  {what}"

    def frequencies(self) -> np.ndarray:
        """Shares of the categories among the draws: they estimate the mean released law."""
        places = self._places()
        return np.bincount(places, minlength=len(self._base().mass)) / len(places)

    def aggregate(self, method: str = "auto") -> np.ndarray:
        """Estimate the mean of the users' laws over the categories of a finite reference.

        Parameters
        ----------
        method : {"auto", "plain", "unmix"}
            ``"plain"``: frequencies of the draws; shrunk toward the reference by the window, with
            little variance. ``"unmix"``: the mixture of channels under which the draws are most
            likely. Consistent for ``kind="response"``, and for users who hold one category each.
            ``"auto"``: unmix for ``"response"``, else plain.

        Returns
        -------
        array, shape (k,)
        """
        if method == "auto":
            method = "unmix" if self.sampler.kind == "response" else "plain"
        if method == "plain":
            return self.frequencies()
        if method != "unmix":
            raise DomainError("method=", got=repr(method), allowed="'auto', 'plain', 'unmix'")
        channel = self.sampler._channel
        return project(self.frequencies(), Hull(channel))

    def density(self) -> LogRatio:
        """Estimate the log density of continuous draws: their mean law, near the reference's."""
        return kernel_density(check_rows(self.values))

    def margin(self, beta: float = 0.05) -> float:
        """Give what every frequency is within of the mean released law, with probability 1 - beta.

        Hoeffding's inequality, over all k categories.
        """
        inside_unit(beta=beta)
        k = len(self._base().mass)
        return math.sqrt(math.log(2.0 * k / beta) / (2.0 * len(self)))

    def _base(self) -> Finite:
        return check_finite(self.sampler.reference)

    def _places(self) -> np.ndarray:
        base, column = self._base(), self.values[:, 0]
        return column.astype(np.int64) if base.numbers is None else base.positions(column)


def check_finite(reference: Reference | Finite) -> Finite:
    """Return a reference if it is finite.

    Raises
    ------
    DomainError
        It is not.
    """
    if not isinstance(reference, Finite):
        raise DomainError(
            "categories belong to a finite reference",
            got=reference.text,
            do="density() estimates the law of continuous draws",
        )
    return reference
