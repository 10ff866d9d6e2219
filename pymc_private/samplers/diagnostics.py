"""Curator diagnostics of convergence: evidence about a stated distance t, never a proof.

`diagnose` compares short fresh runs of NUTS with long ones. `coupling_evidence` couples pairs
of Metropolis chains, one L steps ahead of the other; once they meet they stay together. With
tau the meeting time of the leading chain,

    TV(distribution after k steps, posterior) <= E max(0, ceil((tau - L - k) / L))

(Biswas, Jacob and Vanetti 2019, Theorem 2.5, which assumes geometric tails of tau). The mean
over pairs estimates the right side. It is blind to what no chain has seen: where all chains
start near one mode of two, they meet soon and far from the posterior. Results are confidential
like the data.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from pymc.blocking import DictToArrayBijection

from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.compat import flat_draws, to_dataset
from pymc_private.models.placeholder_rows import require_own_records
from pymc_private.models.private_model import PrivateModel, require_private_model
from pymc_private.privacy.argument_kinds import SEED
from pymc_private.privacy.plots import axes_or_new
from pymc_private.privacy.validation import check_count, check_flags

CAUTION = (
    "For the curator: computed from the confidential data and covered by no guarantee. Not to be "
    "published, nor used to choose the model, the plan or its numbers."
)

SILENT_RUNS = {
    "cores": 1,
    "progressbar": False,
    "nuts_sampler": "pymc",
    "compute_convergence_checks": False,
}


@dataclass(frozen=True, eq=False)
class CuratorDiagnostics:
    """Convergence diagnostics of NUTS on the private model.

    Attributes
    ----------
    table : DataFrame
        r_hat and effective sample size of each scalar parameter.
    divergences : int
    gap : float
        Largest Kolmogorov distance, over the parameters, between last states of short fresh runs
        and the long ones.
    noise : float
        What that distance would be for exact draws from the posterior (95%, roughly).
    """

    table: pd.DataFrame
    divergences: int
    gap: float
    noise: float

    def __repr__(self) -> str:
        return (
            f"{CAUTION}\n{self.table}\ndivergences: {self.divergences}\nlast states of fresh runs "
            f"against long runs: largest distance of CDFs {self.gap:.3f} (noise {self.noise:.3f})"
        )


def diagnose(
    private: PrivateModel,
    *,
    tune: int = 1000,
    draws: int = 1000,
    chains: int = 4,
    fresh: int = 100,
    random_seed: int | None = None,
) -> CuratorDiagnostics:
    """Run NUTS on the private model and report diagnostics. Reads the data; charges nothing.

    The result is confidential like the data. A distance t that is stated after looking at it is a
    statement about this data set, and no proof.

    Parameters
    ----------
    private : PrivateModel
    tune, draws, chains : int
        As in `pm.sample`, for the long runs.
    fresh : int
        Number of short runs of which only the last state is kept, as in `pmp.samplers.Nuts`.
    random_seed : int, optional

    Returns
    -------
    CuratorDiagnostics
    """
    import arviz as az

    private = require_private_model(private)
    require_own_records(private, "a diagnosis")
    tune, draws = check_count(tune, "tune"), check_count(draws, "draws")
    chains, fresh = check_count(chains, "chains"), check_count(fresh, "fresh")
    random_seed = SEED.optional.of(random_seed, "random_seed", "a diagnosis")
    keywords = SILENT_RUNS | {"random_seed": random_seed, "model": private.model}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        long = pm.sample(draws, tune=tune, chains=chains, **keywords)
        short = pm.sample(1, tune=tune, chains=fresh, **keywords)
    names = list(private.shapes)
    posterior, last = to_dataset(long)[names], to_dataset(short)[names]
    gap = max(
        _kolmogorov_distance(flat_draws(posterior[name])[:, k], flat_draws(last[name])[:, k])
        for name in names
        for k in range(flat_draws(last[name]).shape[1])
    )
    rows = {
        name: {
            "r_hat": float(np.max(az.rhat(posterior)[name].values)),
            "ess_bulk": float(np.min(az.ess(posterior)[name].values)),
        }
        for name in names
    }
    divergences = int(np.sum(np.asarray(long["sample_stats"]["diverging"])))
    return CuratorDiagnostics(
        pd.DataFrame.from_dict(rows, orient="index"), divergences, gap, 1.36 / np.sqrt(fresh)
    )


def _kolmogorov_distance(one: np.ndarray, other: np.ndarray) -> float:
    """Largest distance between two empirical CDFs."""
    at = np.sort(np.concatenate([one, other]))
    cdfs = [np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (one, other)]
    return float(np.max(np.abs(cdfs[0] - cdfs[1])))


PILOT_STEPS = 40
"""Steps per parameter of each of the two pilot runs that estimate a covariance."""


@dataclass(frozen=True, eq=False)
class CouplingEvidence:
    """Meeting times of coupled Metropolis chains on the private model.

    Attributes
    ----------
    meetings : array, shape (pairs,)
        Time of the leading chain at which a pair met; inf where it had not after `most` steps.
    lag, most : int
    """

    meetings: np.ndarray
    lag: int
    most: int

    def bound(self, steps: int) -> tuple[float, float]:
        """Estimate of the bound on the total variation after so many steps, and its upper limit.

        The limit is two standard errors above, and at least 3 / pairs, the rule of three: rarer
        events are not seen in so many pairs. Both are 1 where some pair has not met.
        """
        late = np.maximum(0.0, np.ceil((self.meetings - self.lag - steps) / self.lag))
        pairs = len(late)
        if not np.all(np.isfinite(late)):
            return 1.0, 1.0
        mean, error = float(late.mean()), float(late.std(ddof=1)) / np.sqrt(pairs)
        return min(1.0, mean), min(1.0, max(mean + 2.0 * error, 3.0 / pairs))

    @property
    def table(self) -> pd.DataFrame:
        """`bound` at several numbers of steps."""
        last = self.most if np.isinf(self.meetings).any() else int(self.meetings.max())
        at = np.unique(np.geomspace(1, max(last, 2), 8).astype(int))
        rows = {int(k): self.bound(int(k)) for k in at}
        return pd.DataFrame.from_dict(rows, orient="index", columns=["estimate", "upper limit"])

    def plot(self, ax: Any = None) -> Any:
        """Draw the estimate and its upper limit against the number of steps.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_or_new(ax, 6.0, 3.5)
        table = self.table
        ax.plot(table.index, table["estimate"], label="estimate")
        ax.plot(table.index, table["upper limit"], "--", label="upper limit")
        ax.set(xscale="log", ylim=(0, 1.05), xlabel="Metropolis steps")
        ax.set(ylabel="bound on total variation", title="Confidential: for the curator")
        ax.legend(frameon=False)
        return ax

    def __repr__(self) -> str:
        lost = int(np.isinf(self.meetings).sum())
        missing = f"{lost} of {len(self.meetings)} pairs never met; " if lost else ""
        return (
            f"{CAUTION}\n{missing}bound on the distance of a Metropolis run, by its length, "
            f"estimated from {len(self.meetings)} coupled pairs:\n{self.table}\n"
            "NUTS is another chain: this says how hard the posterior is, not what t of a run is."
        )


def coupling_evidence(
    private: PrivateModel,
    *,
    pairs: int = 100,
    lag: int = 200,
    most: int = 5000,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> CouplingEvidence:
    """Couple Metropolis chains on the private model and record when they meet. Reads the data.

    Nothing is charged, and the result is confidential like the data. Chains start where PyMC starts
    runs (jittered initial points) and move on the scale on which PyMC samples.

    Parameters
    ----------
    private : PrivateModel
    pairs : int
        At least 2. The upper limit is never below 3 / pairs.
    lag : int
        L. Larger ones give smaller bounds and take longer.
    most : int
        Steps after which a pair is abandoned.
    random_seed : int, optional
    progressbar : bool

    Returns
    -------
    CouplingEvidence

    Raises
    ------
    DomainError
        Too few pairs, or no steps.
    Unsupported
        Discrete parameters.

    References
    ----------
    Biswas, Jacob and Vanetti (2019); Jacob, O'Leary and Atchade (2020) for the coupling.
    """
    private = require_private_model(private)
    require_own_records(private, "a coupling")
    check_flags(progressbar=progressbar)
    random_seed = SEED.optional.of(random_seed, "random_seed", "a coupling")
    pairs, lag, most = (
        check_count(*each) for each in ((pairs, "pairs"), (lag, "lag"), (most, "most"))
    )
    if pairs < 2 or most <= lag:
        raise DomainError(
            "coupling wants two pairs, a lag, and more steps than that",
            got=f"pairs={pairs}, lag={lag}, most={most}",
            allowed="pairs >= 2, 1 <= lag < most",
        )
    if any("float" not in v.type.dtype for v in private.graph.parameters.values()):
        raise Unsupported(
            "Metropolis moves of this kind need continuous parameters",
            got="a discrete parameter",
            allowed="continuous parameters only",
            do="sampler='grid', whose draws need no chain; or sum the discrete one out",
        )
    from rich.progress import track

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chains = _CoupledChains(private.model, np.random.default_rng(random_seed))
        rounds = track(range(pairs), "Coupled chains", transient=True, disable=not progressbar)
        found = [chains.meeting(lag, most) for _ in rounds]
    return CouplingEvidence(np.array(found), lag, most)


class _CoupledChains:
    """Coupled Metropolis chains with normal steps of one fixed covariance."""

    def __init__(self, model: pm.Model, rng: np.random.Generator) -> None:
        self.rng, self.model = rng, model
        self.point = model.initial_point()
        self.density = model.compile_logp()
        self.initial = DictToArrayBijection.map(self.point)
        size = len(self.initial.data)
        self.root = np.eye(size) * 0.5 / np.sqrt(size)
        for _ in range(2):  # pilot runs, whose states are not used again
            states = [self.start_state()]
            for _ in range(PILOT_STEPS * size + 400):
                states.append(self.move(*states[-1]))
            values = np.array([x for x, _ in states[len(states) // 3 :]])
            spread = np.atleast_2d(np.cov(values.T)) + 1e-10 * np.eye(size)
            self.root = np.linalg.cholesky(spread) * 2.38 / np.sqrt(size)

    def start_state(self) -> tuple[np.ndarray, float]:
        """A jittered initial point at which the density is not zero, and its log density."""
        for _ in range(100):
            x = self.initial.data + self.rng.uniform(-1, 1, len(self.initial.data))
            value = self.log_density(x)
            if np.isfinite(value):
                return x, value
        return self.initial.data, self.log_density(self.initial.data)

    def log_density(self, x: np.ndarray) -> float:
        """Log density of a raveled point; -inf where undefined."""
        raveled = type(self.initial)(x, self.initial.point_map_info)
        value = float(self.density(DictToArrayBijection.rmap(raveled)))
        return -np.inf if np.isnan(value) else value

    def move(self, x: np.ndarray, value: float) -> tuple[np.ndarray, float]:
        """One Metropolis step."""
        step = self.root @ self.rng.normal(size=len(x))
        return self._decide(x, value, x + step, np.log(self.rng.random()))

    def _decide(
        self, x: np.ndarray, value: float, proposal: np.ndarray, log_u: float
    ) -> tuple[np.ndarray, float]:
        proposed = self.log_density(proposal)
        return (proposal, proposed) if log_u < proposed - value else (x, value)

    def meeting(self, lag: int, most: int) -> float:
        """Meeting time of a pair, whose proposals follow the reflection-maximal coupling."""
        one, two = self.start_state(), self.start_state()
        for _ in range(lag):
            one = self.move(*one)
        for t in range(lag, most):
            if np.array_equal(one[0], two[0]):
                return float(t)
            difference = np.linalg.solve(self.root, one[0] - two[0])
            xi = self.rng.normal(size=len(difference))
            same = np.log(self.rng.random()) < -0.5 * difference @ (difference + 2.0 * xi)
            first = one[0] + self.root @ xi
            e = difference / np.linalg.norm(difference)
            second = first if same else two[0] + self.root @ (xi - 2.0 * (e @ xi) * e)
            log_u = np.log(self.rng.random())
            one, two = self._decide(*one, first, log_u), self._decide(*two, second, log_u)
        return np.inf
