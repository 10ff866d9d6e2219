"""Samplers at a distance from the posterior: proved for the proximal one, stated for NUTS."""

from __future__ import annotations

import numpy as np
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.certificates.terms import Terms
from pymc_private.privacy.validation import as_whole, is_number
from pymc_private.privacy.rounding__printing import counted, number
from pymc_private.samplers.executors import spread
from pymc_private.samplers.proximal_target__linear import Whitening, concave, plan_schedule, public_constants, whiten
from pymc_private.samplers.proximal_target__linear_data import make_structure
from pymc_private.samplers.method__method import Draws, PROVED, Progress, REAL
from pymc_private.samplers.nuts import SEED_BITS, check_nuts, sample_nuts
from pymc_private.samplers.proximal import Schedule, sample_proximal
from pymc_private.samplers.purification import check_purified, public_grid, purified_schedule, purified_terms
from pymc_private.samplers.randomness import Uniform, round_open, round_to_grid
from pymc_private.samplers.verified.admission import form_of, plan_strict, strict_draws

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
    pure : bool
        Whether to promise a pure epsilon and no delta: draws end on a public grid, and many more
        steps bring them so near to the posterior that a uniform point once in 2**30 draws makes up
        for the rest. `tv` is not asked then. `calibrate` and `sample` take this form where delta is
        zero.
    bits : int
        Fineness of that grid: some 2**bits points along each coordinate's box. The default is below
        a thousandth of the prior's standard deviation; steps grow in proportion.

    References
    ----------
    Chen, Chewi, Salim and Wibisono (2022); Lin, Wang, Ma and Wang (2025); theory T21, T29.
    """

    tv: float = 1e-10
    strict: bool = False
    pure: bool = False
    bits: int = 12
    name = "proximal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", as_whole(self.bits))

    def claim(self, private: PrivateModel) -> str:
        """Proved: with t, or pure."""
        if self.strict:
            total = number(self.terms(private).tv)
            return f"{PROVED}, each draw within t = {total} of the posterior in total variation"
        if self.pure:
            return f"{REAL}, a pure promise on a public grid"
        return f"{REAL}, each draw within t = {self.tv:g} of the posterior in total variation"

    def check(self, private: PrivateModel) -> None:
        """See `linear.public_constants`; steps are counted with the power, in `terms`."""
        if not (is_number(self.tv) and 0.0 < self.tv < 1.0):
            raise DomainError("tv is a total variation", got=repr(self.tv), allowed="0 < tv < 1")
        if self.strict and self.pure:
            raise Unsupported(
                "a pure promise of the proximal sampler is not proved in floating point",
                got="strict=True and pure=True",
                allowed="strict=True with a delta; sampler='grid' for both, in few dimensions",
                do="a small delta, or strict=False",
            )
        if self.pure:
            check_purified(private, self.bits)
        public_constants(private)
        if self.strict:
            form_of(private)

    def terms(self, private: PrivateModel) -> Terms:
        """T18, or T29, and T21: the number of steps is public."""
        if self.strict:
            return _strict_terms(private, self.tv)
        if self.pure:
            return purified_terms(private, self.bits)
        schedule, is_prior = plan_schedule(private, self.tv), whiten(private).start.is_prior
        return Terms(
            tv=self.tv,
            theorem="T18, T21",
            assumption=f"{counted(schedule.steps, 'step')} of the proximal sampler from "
            f"{'the prior' if is_prior else 'a normal law on the region'}, each drawn "
            "exactly; floating-point errors are not in t",
        )

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """Some passes per step over the predictors of all records (benchmarks/samplers.py)."""
        if self.strict:
            return 2.0 * Proximal(self.tv).seconds(private, draws)
        steps = self._schedule(private).steps
        size = sum(int(np.prod(shape)) for shape in private.shapes.values())
        rows = private.n * sum(len(p.smooth) for p in concave(private).predictors)
        return 1.0 + steps * (3e-4 + draws * rows * (8e-10 * size + 1.1e-7))

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
            work = partial(_proximal_draws, method=self)
            return spread(work, private, draws, randomness, progress, executor)
        return _proximal_draws(private, draws, randomness, progress, method=self)

    def _schedule(self, private: PrivateModel) -> Schedule:
        if self.pure:
            return purified_schedule(private, self.bits)
        return plan_schedule(private, self.tv)


def _strict_terms(private: PrivateModel, tv: float) -> Terms:
    schedule, lost = plan_strict(private, tv)
    return Terms(
        tv=(tv + lost.tv) * (1.0 + 1e-12),
        strict=True,
        theorem="T18, T21",
        assumption=f"{counted(schedule.steps, 'step')} of the proximal sampler from the prior, "
        f"whose centers and scales are doubles; floating point costs {number(lost.tv)} of t, for "
        "IEEE doubles and functions of NumPy and SciPy that are right to 2**-47",
    )


def _proximal_draws(
    private: PrivateModel,
    draws: int,
    randomness: Uniform,
    progress: Progress = lambda done: None,
    *,
    method: Proximal,
) -> Draws:
    structure, white = make_structure(private)
    schedule = method._schedule(private)
    values = white.back(sample_proximal(structure, schedule, draws, randomness, progress))
    if method.pure:
        values = public_grid(private, white, method.bits).mixed(values, randomness)
    else:
        values = _rounded(private, white, values)
    found, start = {}, 0
    for name, shape in private.shapes.items():
        stop = start + int(np.prod(shape))
        found[name] = values[:, start:stop].reshape(draws, *shape)
        start = stop
    return found


def _rounded(private: PrivateModel, white: Whitening, values: np.ndarray) -> np.ndarray:
    scale = np.sqrt((white.matrix**2).sum(axis=0))
    found, start = [], 0
    for name, shape in private.shapes.items():
        part = slice(start, start + int(np.prod(shape)))
        start = part.stop
        lower, upper = (np.ravel(end) for end in (private.box[name].lower, private.box[name].upper))
        if np.isfinite(lower).all() and np.isfinite(upper).all():
            found.append(round_to_grid(values[:, part], lower, upper))
        else:
            found.append(np.clip(round_open(values[:, part], scale[part]), lower, upper))
    return np.concatenate(found, axis=1)


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
        if isinstance(self.tune, bool) or not isinstance(self.tune, int) or self.tune < 1:
            raise DomainError("tune= counts steps", got=repr(self.tune), allowed="1, 2, ...")
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
