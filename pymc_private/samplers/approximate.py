"""Samplers at a distance from the posterior: proved for the proximal one, stated for NUTS."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.terms import Terms
from pymc_private.privacy.printing import number
from pymc_private.samplers.engine import spread
from pymc_private.samplers.linear import plan_schedule, public_constants, whiten
from pymc_private.samplers.linear_data import make_structure
from pymc_private.samplers.method import PROVED, REAL, Draws, Progress
from pymc_private.samplers.nuts import SEED_BITS, check_nuts, sample_nuts
from pymc_private.samplers.proximal import sample_proximal
from pymc_private.samplers.randomness import Uniform, round_open, round_to_grid
from pymc_private.samplers.strict.fit import form_of, plan_strict, strict_draws


@dataclass(frozen=True)
class Proximal:
    """Log-concave posteriors of many parameters, at a proved distance that is fixed in advance.

    Parameters
    ----------
    tv : float
        Total variation t of each draw from the posterior. Smaller than about 1e-10 is beyond what
        doubles can do.
    strict : bool
        Whether the claim is proved in floating point: t grows by a public t_fp.

    References
    ----------
    Chen, Chewi, Salim and Wibisono (2022); theory T21.
    """

    tv: float = 1e-10
    strict: bool = False
    name = "proximal"

    def claim(self, private: PrivateModel) -> str:
        """Proved, with t."""
        if self.strict:
            total = number(self.terms(private).tv)
            return f"{PROVED}, each draw within t = {total} of the posterior in total variation"
        return f"{REAL}, each draw within t = {self.tv:g} of the posterior in total variation"

    def check(self, private: PrivateModel) -> None:
        """See `linear.public_constants`; steps are counted with the power, in `terms`."""
        if not 0.0 < self.tv < 1.0:
            raise DomainError("tv is a total variation", got=self.tv, allowed="0 < tv < 1")
        public_constants(private)
        if self.strict:
            form_of(private)

    def terms(self, private: PrivateModel) -> Terms:
        """T18 and T21: the number of steps is public."""
        if self.strict:
            return _strict_terms(private, self.tv)
        schedule, is_prior = plan_schedule(private, self.tv), whiten(private).start.is_prior
        return Terms(
            tv=self.tv,
            theorem="T18, T21",
            assumption=f"{schedule.steps} steps of the proximal sampler from "
            f"{'the prior' if is_prior else 'a normal law on the region'}, each drawn "
            "exactly; floating-point errors are not in t",
        )

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """Some eight passes over the records per step; with bounds beside them, twice as many."""
        if self.strict:
            return 2.0 * Proximal(self.tv).seconds(private, draws)
        steps = plan_schedule(private, self.tv).steps
        size = sum(int(np.prod(shape)) for shape in private.shapes.values())
        return 1.0 + steps * (1e-3 + draws * private.n * (8e-10 * size + 5e-8))

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Uniform,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `proximal.sample_proximal`, `strict.chains.sample_strict`."""
        if self.strict:
            if executor is None:
                return strict_draws(private, draws, randomness, progress, tv=self.tv)
            work = partial(strict_draws, tv=self.tv)
            return spread(work, private, draws, randomness, progress, executor)
        if executor is not None:
            work = partial(_proximal_draws, tv=self.tv)
            return spread(work, private, draws, randomness, progress, executor)
        return _proximal_draws(private, draws, randomness, progress, tv=self.tv)


def _strict_terms(private: PrivateModel, tv: float) -> Terms:
    schedule, lost = plan_strict(private, tv)
    return Terms(
        tv=(tv + lost.tv) * (1.0 + 1e-12),
        strict=True,
        theorem="T18, T21",
        assumption=f"{schedule.steps} steps of the proximal sampler from the prior, whose centers "
        f"and scales are doubles; floating point costs {number(lost.tv)} of t",
    )


def _proximal_draws(
    private: PrivateModel,
    draws: int,
    randomness: Uniform,
    progress: Progress = lambda done: None,
    *,
    tv: float,
) -> Draws:
    structure, white = make_structure(private)
    schedule = plan_schedule(private, tv)
    values = white.back(sample_proximal(structure, schedule, draws, randomness, progress))
    scale = np.sqrt((white.matrix**2).sum(axis=0))
    found, start = {}, 0
    for name, shape in private.shapes.items():
        part = slice(start, start + int(np.prod(shape)))
        start = part.stop
        lower, upper = (np.ravel(end) for end in (private.box[name].lower, private.box[name].upper))
        if np.isfinite(lower).all() and np.isfinite(upper).all():
            rounded = round_to_grid(values[:, part], lower, upper)
        else:
            rounded = np.clip(round_open(values[:, part], scale[part]), lower, upper)
        found[name] = rounded.reshape(draws, *shape)
    return found


@dataclass(frozen=True)
class Nuts:
    """One fresh run of NUTS per draw; the promise is conditional on a distance you state.

    Parameters
    ----------
    tv : float
        Total variation t between the end of each run and the posterior. Nobody can prove it; it
        costs delta (1 + e^epsilon) t per draw.
    backend : {"pymc", "nutpie", "numpyro", "blackjax"}
    tune : int
        Length of a run.
    states_per_run : int
        1; several states of one chain are refused.

    References
    ----------
    Theory T18 and T19.
    """

    tv: float | None = None
    backend: str = "pymc"
    tune: int = 1000
    states_per_run: int = 1
    name = "nuts"

    def claim(self, private: PrivateModel) -> str:
        """Never proved."""
        return f"conditional on t = {self.tv:g}, which is stated and not proved"

    def check(self, private: PrivateModel) -> None:
        """See `nuts.check_nuts`."""
        check_nuts(private, self.tv, self.backend, self.states_per_run)

    def terms(self, private: PrivateModel) -> Terms:
        """T18."""
        return Terms(
            tv=float(self.tv or 1.0),
            claimed=True,
            theorem="T18",
            assumption=f"each draw is the last state of a fresh run of NUTS ({self.backend}, "
            f"{self.tune} steps) and within t = {self.tv:g} of the posterior in total variation: "
            "stated, not proved; the back end's own generator starts from "
            f"{SEED_BITS[self.backend]} bits of the operating system",
        )

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """Some gradients per step."""
        size = sum(int(np.prod(shape)) for shape in private.shapes.values())
        return 10.0 + draws * self.tune * 10 * (2e-5 + 1e-9 * private.n * size)

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Uniform,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `nuts.sample_nuts`."""
        work = partial(sample_nuts, backend=self.backend, tune=self.tune)
        return spread(work, private, draws, randomness, progress, executor)
