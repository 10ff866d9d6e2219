"""Samplers as frozen values: a name, a claim, a price beyond exact draws, and the draws.

Rejection (`Boxes`) and `Conjugate` draw exactly, `Grid` exactly from the posterior on a public
finite grid. `Proximal` draws at a total variation distance from the posterior that is proved
and fixed in advance (T21; pure on a public grid, T29), `Nuts` at one that the user states and
nobody can prove (T18). A method reads data in `sample` alone; everything else uses public
facts.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from pymc_private.certificates.terms import EXACT_TERMS, SamplingTerms
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.rounding import format_count, format_number
from pymc_private.privacy.validation import as_python_int, is_number
from pymc_private.samplers.conjugate import STRICT_FAMILIES, conjugate_model, sample_conjugate
from pymc_private.samplers.executors import draw_in_parts
from pymc_private.samplers.grid import (
    TAU_BITS,
    GridScores,
    make_parameter_grid,
    points_per_coordinate,
    sample_grid,
)
from pymc_private.samplers.log_density import Target
from pymc_private.samplers.nuts import SEED_BITS, check_nuts, sample_nuts
from pymc_private.samplers.proximal import ProximalSchedule, sample_proximal
from pymc_private.samplers.proximal_target import (
    Whitening,
    make_posterior,
    plan_schedule,
    prove_log_concave,
    public_constants,
    whiten,
)
from pymc_private.samplers.purification import (
    check_purified,
    public_grid,
    purified_schedule,
    purified_terms,
)
from pymc_private.samplers.randomness import (
    Draws,
    Progress,
    Randomness,
    round_to_grid,
    round_unbounded,
)
from pymc_private.samplers.rejection import check_rejection, sample_by_rejection
from pymc_private.samplers.verified.admission import (
    plan_verified,
    recognize_verified,
    verified_draws,
)

REAL_ARITHMETIC, PROVED = "proved (real arithmetic)", "proved"
"""Claims: in real arithmetic with ideal uniform numbers, and in floating point."""


@runtime_checkable
class Method(Protocol):
    """A sampler with its options: a frozen value that enters a plan and its fingerprint."""

    @property
    def name(self) -> str:
        """One word."""

    def claim(self, private: PrivateModel) -> str:
        """What is known of the draws, in words."""

    def check(self, private: PrivateModel) -> None:
        """Refuse a model that cannot be drawn from, with `Unsupported`. Reads no data."""

    def terms(self, private: PrivateModel) -> SamplingTerms:
        """Cost of its distribution beyond exact draws, or `Unsupported`. Reads no data."""

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """A rough estimate of seconds on one core, from public facts."""

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Randomness,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """Independent draws by name, shape (draws, *shape), on a public grid. Reads the data."""


@dataclass(frozen=True)
class Boxes:
    """Exact rejection from interval envelopes: any certified model of few parameters."""

    name = "boxes"

    def claim(self, private: PrivateModel) -> str:
        """Exact in real arithmetic."""
        return REAL_ARITHMETIC

    def check(self, private: PrivateModel) -> None:
        """See `check_rejection`."""
        check_rejection(private)

    def terms(self, private: PrivateModel) -> SamplingTerms:
        """Exact."""
        return EXACT_TERMS

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """Cells grow with the dimension, evaluations linearly with n (benchmarks/boxes.py)."""
        size = sum(int(np.prod(shape)) for shape in private.shapes.values())
        cell = 1e-3 + 2e-6 * private.n
        return 0.5 + cell * (4.0**size + 0.1 * draws)

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Randomness,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `sample_by_rejection`. On an executor each part refines its own envelope."""
        if executor is not None:
            return draw_in_parts(_rejection_draws, private, draws, randomness, progress, executor)
        return _rejection_draws(private, draws, randomness, progress)


def _rejection_draws(
    private: PrivateModel,
    draws: int,
    randomness: Randomness,
    progress: Progress = lambda done: None,
) -> Draws:
    target = Target(private)
    points = sample_by_rejection(target, draws, randomness, progress)
    return target.unpack(round_to_grid(points, target.lower, target.upper))


@dataclass(frozen=True)
class Conjugate:
    """Closed-form posteriors: proved in floating point where one coordinate is drawn at a time."""

    name = "conjugate"

    def claim(self, private: PrivateModel) -> str:
        """Proved; for normal-gamma and multivariate normal posteriors in real arithmetic."""
        return PROVED if conjugate_model(private).family in STRICT_FAMILIES else REAL_ARITHMETIC

    def check(self, private: PrivateModel) -> None:
        """See `conjugate_model`."""
        conjugate_model(private)

    def terms(self, private: PrivateModel) -> SamplingTerms:
        """Exact."""
        return SamplingTerms(strict=conjugate_model(private).family in STRICT_FAMILIES)

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """Half a millisecond per coordinate, more where there are many records."""
        size = sum(int(np.prod(shape)) for shape in private.shapes.values())
        return 1e-6 * private.n + 5e-4 * draws * size * max(1.0, (private.n / 100) ** 0.5)

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Randomness,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `sample_conjugate`."""
        return sample_conjugate(private, draws, randomness, progress)


@dataclass(frozen=True)
class Grid:
    """The posterior on a public grid of points: proved in floating point, with pure epsilon.

    Parameters
    ----------
    points : int, optional
        Per continuous coordinate. Default: as many as make about 4,096 in all.
    """

    points: int | None = None
    name = "grid"

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", as_python_int(self.points))

    def claim(self, private: PrivateModel) -> str:
        """Proved in floating point."""
        return PROVED

    def check(self, private: PrivateModel) -> None:
        """See `make_parameter_grid` and `GridScores`."""
        if private.metric is not None or private.graph.windows:
            raise Unsupported(
                "the grid rounds the score of each factor row, which is priced per replaced record "
                "that one row reads",
                got=private.neighbors if private.metric is not None else "a sequence",
                allowed="neighbors='substitute' or 'add_remove', rows of one record each",
                do="sampler='boxes'",
            )
        GridScores(private, make_parameter_grid(private, self.points))

    def terms(self, private: PrivateModel) -> SamplingTerms:
        """Four times tau per record of a unit (theory page: floating point and randomness)."""
        slack = 4 * Fraction(1, 2**TAU_BITS) * private.records_per_unit
        count = format_count(len(make_parameter_grid(private, self.points).points), "point")
        each = points_per_coordinate(private, self.points)
        along = f", {each} along each continuous coordinate" if each else ""
        return SamplingTerms(
            slack=slack,
            discrete=True,
            points=each,
            strict=True,
            theorem="T15c",
            assumption=f"the prior lives on a public grid of {count}{along}",
        )

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """One evaluation of all points for each distinct record."""
        count = len(make_parameter_grid(private, self.points).points)
        return (1e-3 + 1e-6 * count) * private.n + 1e-6 * count * draws

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Randomness,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `sample_grid`."""
        return dict(sample_grid(private, draws, randomness, progress, self.points))


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
        for the difference. `tv` is not used then. `calibrate` and `sample` choose this form where
        delta is zero.
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
        object.__setattr__(self, "bits", as_python_int(self.bits))

    def claim(self, private: PrivateModel) -> str:
        """Proved, with t or pure."""
        if self.pure and not self.strict:
            return f"{REAL_ARITHMETIC}, a pure guarantee on a public grid"
        proved = PROVED if self.strict else REAL_ARITHMETIC
        t = format_number(self.terms(private).tv) if self.strict else f"{self.tv:g}"
        return f"{proved}, each draw within t = {t} of the posterior in total variation"

    def check(self, private: PrivateModel) -> None:
        """See `public_constants`; the number of steps depends on the power, see `terms`."""
        if not (is_number(self.tv) and 0.0 < self.tv < 1.0):
            raise DomainError("tv is a total variation", got=repr(self.tv), allowed="0 < tv < 1")
        if self.strict and self.pure:
            raise Unsupported(
                "a pure guarantee of the proximal sampler is not proved in floating point",
                got="strict=True and pure=True",
                allowed="strict=True with a delta; sampler='grid' for both, in few dimensions",
                do="a small delta, or strict=False",
            )
        if self.pure:
            check_purified(private, self.bits)
        public_constants(private)
        if self.strict:
            recognize_verified(private)

    def terms(self, private: PrivateModel) -> SamplingTerms:
        """T18 or T29, with T21: the number of steps is public."""
        if self.strict:
            return _verified_terms(private, self.tv)
        if self.pure:
            return purified_terms(private, self.bits)
        schedule, is_prior = plan_schedule(private, self.tv), whiten(private).reference.is_prior
        return SamplingTerms(
            tv=self.tv,
            theorem="T18, T21",
            assumption=f"{format_count(schedule.steps, 'step')} of the proximal sampler from "
            f"{'the prior' if is_prior else 'a normal distribution on the region'}, each drawn "
            "exactly; floating-point errors are not in t",
        )

    def seconds(self, private: PrivateModel, draws: int) -> float:
        """A few passes per step over the predictors of all records (benchmarks/samplers.py)."""
        if self.strict:
            return 2.0 * Proximal(self.tv).seconds(private, draws)
        steps = self._schedule(private).steps
        size = sum(int(np.prod(shape)) for shape in private.shapes.values())
        rows = private.n * sum(len(p.smooth) for p in prove_log_concave(private).predictors)
        return 1.0 + steps * (3e-4 + draws * rows * (8e-10 * size + 1.1e-7))

    def sample(
        self,
        private: PrivateModel,
        draws: int,
        randomness: Randomness,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `sample_proximal`, or `sample_verified` if strict."""
        if self.strict:
            if executor is None:
                return verified_draws(private, draws, randomness, progress, tv=self.tv)
            work = partial(verified_draws, tv=self.tv)
            return draw_in_parts(work, private, draws, randomness, progress, executor)
        if executor is not None:
            work = partial(_proximal_draws, method=self)
            return draw_in_parts(work, private, draws, randomness, progress, executor)
        return _proximal_draws(private, draws, randomness, progress, method=self)

    def _schedule(self, private: PrivateModel) -> ProximalSchedule:
        if self.pure:
            return purified_schedule(private, self.bits)
        return plan_schedule(private, self.tv)


def _verified_terms(private: PrivateModel, tv: float) -> SamplingTerms:
    schedule, cost = plan_verified(private, tv)
    steps = format_count(schedule.steps, "step")
    return SamplingTerms(
        tv=(tv + cost.tv) * (1.0 + 1e-12),
        strict=True,
        theorem="T18, T21",
        assumption=f"{steps} of the proximal sampler from the prior, whose centers and scales are "
        f"doubles; floating point costs {format_number(cost.tv)} of t, for IEEE doubles and "
        "functions of NumPy and SciPy that are right to 2**-47",
    )


def _proximal_draws(
    private: PrivateModel,
    draws: int,
    randomness: Randomness,
    progress: Progress = lambda done: None,
    *,
    method: Proximal,
) -> Draws:
    posterior, white = make_posterior(private)
    schedule = method._schedule(private)
    values = white.to_parameters(sample_proximal(posterior, schedule, draws, randomness, progress))
    if method.pure:
        values = public_grid(private, white, method.bits).mixed(values, randomness)
    else:
        values = _rounded_draws(private, white, values)
    found, start = {}, 0
    for name, shape in private.shapes.items():
        stop = start + int(np.prod(shape))
        found[name] = values[:, start:stop].reshape(draws, *shape)
        start = stop
    return found


def _rounded_draws(private: PrivateModel, white: Whitening, values: np.ndarray) -> np.ndarray:
    scale = np.sqrt((white.matrix**2).sum(axis=0))
    found, start = [], 0
    for name, shape in private.shapes.items():
        part = slice(start, start + int(np.prod(shape)))
        start = part.stop
        lower, upper = np.ravel(private.box[name].lower), np.ravel(private.box[name].upper)
        if np.isfinite(lower).all() and np.isfinite(upper).all():
            found.append(round_to_grid(values[:, part], lower, upper))
        else:
            found.append(np.clip(round_unbounded(values[:, part], scale[part]), lower, upper))
    return np.concatenate(found, axis=1)


@dataclass(frozen=True)
class Nuts:
    """One fresh run of NUTS per draw; the promise is conditional on a distance you state.

    Parameters
    ----------
    tv : float
        An assumption that you state: the total variation t between each draw and the posterior is
        at most this. Nobody can prove it, and it matters as much as epsilon: t is added to delta,
        (1 + e^epsilon) t per draw, and if the true distance is larger, the guarantee does not hold.
        Required, since a default would be an assumption that nobody made. A value of at most
        delta / (10 draws (1 + e^epsilon)) leaves nine tenths of delta: 2e-9 for epsilon = 1,
        delta = 1e-6 and 10 draws. `diagnose` shows what runs look like, and is no proof.
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

    def __repr__(self) -> str:
        tv = "... (required: the total variation you state)" if self.tv is None else repr(self.tv)
        return (
            f"Nuts(tv={tv}, backend={self.backend!r}, tune={self.tune!r}, "
            f"states_per_run={self.states_per_run!r})"
        )

    def claim(self, private: PrivateModel) -> str:
        """Never proved."""
        return f"conditional on t = {self.tv:g}, which is stated and not proved"

    def check(self, private: PrivateModel) -> None:
        """See `check_nuts`."""
        if isinstance(self.tune, bool) or not isinstance(self.tune, int) or self.tune < 1:
            raise DomainError("tune= counts steps", got=repr(self.tune), allowed="1, 2, ...")
        check_nuts(private, self.tv, self.backend, self.states_per_run)

    def terms(self, private: PrivateModel) -> SamplingTerms:
        """T18."""
        return SamplingTerms(
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
        randomness: Randomness,
        progress: Progress,
        executor: Executor | None = None,
    ) -> Draws:
        """See `sample_nuts`."""
        work = partial(sample_nuts, backend=self.backend, tune=self.tune)
        return draw_in_parts(work, private, draws, randomness, progress, executor)
