r"""How much a posterior depends on its prior, and on the summary, by power-scaling. Free.

With the prior to a power alpha near 1 the posterior of a summary changes to

    p_alpha(theta | summary)  ~  p(theta)^alpha p(summary | theta),

and draws of p(theta | summary) become draws of it with weights p(theta)^(alpha - 1), smoothed at
their tails (PSIS). The sensitivity of a quantity is the slope in log2(alpha) of the cumulative
Jensen-Shannon distance between its two distributions (Kallioinen, Paananen, Buerkner and Vehtari
2024). The likelihood p(summary | theta), with the noise of the summary in it, is scaled likewise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pytensor.graph.traversal import ancestors

from pymc_private.criticism.plots import plot_power_scaling
from pymc_private.errors import DomainError, NotInformative
from pymc_private.models.compat import element_labels, flat_draws, smoothed_weights
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.cards import html_card, text_table
from pymc_private.privacy.rounding import format_count
from pymc_private.release.chain_draws import ChainDraws
from pymc_private.release.display import format_estimate
from pymc_private.summaries.density.batched import VectorizedFunction
from pymc_private.summaries.summary import Summary

ALPHAS = (0.99, 1.01)
"""Powers between which slopes are taken."""
NOTABLE = 0.05
"""Sensitivity worth a thought: that of a normal quantity that moves by .24 sd as alpha doubles."""
UNSTABLE = 0.7
"""Shape of the tail of weights above which they are not to be trusted."""
CHUNK = 500
"""Draws at which the likelihood is computed at once."""
FEWEST_DRAWS = 100


@dataclass(frozen=True, eq=False, repr=False)
class PowerScaling:
    """Sensitivity of posterior quantities to prior and summary.

    Attributes
    ----------
    names : tuple of str
        Elements of the variables.
    prior, likelihood : array, shape (elements,)
        Slopes of the cumulative Jensen-Shannon distance in log2(alpha).
    moves : array, shape (elements,)
        By how many posterior standard deviations the mean moves as the power of the prior doubles,
        to first order.
    scaled : tuple of str
        Free variables whose priors were scaled.
    """

    names: tuple[str, ...]
    prior: np.ndarray
    likelihood: np.ndarray
    moves: np.ndarray
    scaled: tuple[str, ...]

    @property
    def findings(self) -> tuple[str, ...]:
        """For each element what its two sensitivities say, or nothing."""
        return tuple(map(_finding, self.prior, self.likelihood))

    @property
    def sentence(self) -> str:
        """What was found, in a line."""
        loud = [name for name, prior in zip(self.names, self.prior, strict=True) if prior > NOTABLE]
        of = f"the priors of {', '.join(self.scaled)}"
        if not loud:
            count = format_count(len(self.names), "element")
            return f"none of {count} is sensitive to {of} (all below {NOTABLE:g})"
        return f"sensitive to {of}: {', '.join(loud)} (above {NOTABLE:g})"

    def to_frame(self) -> pd.DataFrame:
        """One row for each element."""
        columns = {
            "prior": self.prior,
            "likelihood": self.likelihood,
            "mean moves": self.moves,
            "finding": self.findings,
        }
        return pd.DataFrame(columns, index=list(self.names))

    def plot(self, ax: Any = None) -> Any:
        """Plot both sensitivities of each element.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
        """
        return plot_power_scaling(self, NOTABLE, ax)

    def __repr__(self) -> str:
        head, *rows = self._cells()
        return f"PowerScaling: {self.sentence}\n{text_table(head, rows)}"

    def _repr_html_(self) -> str:
        rows = [(row[0], ", ".join(filter(None, row[1:]))) for row in self._cells()[1:]]
        return html_card(f"Power-scaling: {self.sentence}", rows)

    def _cells(self) -> list[list[str]]:
        head = ["", "prior", "likelihood", "mean moves", ""]
        numbers = zip(self.names, self.prior, self.likelihood, self.moves, strict=True)
        return [head] + [
            [name, *(format_estimate(float(v), 2) for v in values), finding]
            for (name, *values), finding in zip(numbers, self.findings, strict=True)
        ]


def power_scaling(
    summary: Summary,
    draws: Any,
    *,
    prior: Sequence[str] | None = None,
    var_names: Sequence[str] | None = None,
    private: PrivateModel | None = None,
) -> PowerScaling:
    """Sensitivity of the posterior of a summary to its prior and its likelihood; free.

    Parameters
    ----------
    summary : Summary
    draws : InferenceData, DataTree or xarray.Dataset of ``summary.model()``
    prior : sequence of str, optional
        Free variables whose priors are scaled; default: those whose priors read no other one, so
        that of a hierarchy the distribution of its effects stays as it is.
    var_names : sequence of str, optional
        Variables of the draws, Deterministics too, whose sensitivity is told; default: all.
    private : PrivateModel, optional
        Needed after `load`, as of `Summary.model`; its data are not read.

    Returns
    -------
    PowerScaling

    Raises
    ------
    DomainError
        No such variable, draws that lack a free variable or are fewer than 100, or draws that come
        with data.
    NotInformative
        The weights are too uneven for these draws.

    Notes
    -----
    Priors are those of the summary's own model: draws of `Summary.reuse` under another prior are
    reweighted by the wrong one, which nothing in them shows.

    A sensitivity to the prior above .05 is a reason to look; with one to the likelihood above .05
    too, both pull, perhaps apart; with one below, the summary tells little. Prior densities are
    those of natural units.

    References
    ----------
    Kallioinen, Paananen, Buerkner and Vehtari (2024), Statistics and Computing 34, 57.
    """
    _refuse_no_summary(summary)
    _, mechanism = summary.of_model(private)
    chains = ChainDraws(draws)
    parameters = mechanism.parameters
    theta = _unconstrained(parameters, chains)
    scaled = _scaled_priors(parameters, prior)
    log_prior = log_priors(parameters, theta, scaled)
    likelihood = mechanism.log_likelihood(summary.released)
    parts = [theta[k : k + CHUNK] for k in range(0, len(theta), CHUNK)]
    log_likelihood = np.concatenate([likelihood(part) for part in parts])
    names, table = _quantities(chains, var_names)
    by_prior, by_likelihood = (_weights(logs) for logs in (log_prior, log_likelihood))
    return PowerScaling(
        names,
        np.array([sensitivity(column, by_prior) for column in table.T]),
        np.array([sensitivity(column, by_likelihood) for column in table.T]),
        np.array([_moves(column, log_prior) for column in table.T]),
        scaled,
    )


def log_priors(parameters: Any, theta: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Log prior densities of some variables in natural units, at vectors (S, p): shape (S,)."""
    model = parameters.model
    values = [model.rvs_to_values[model[name]] for name in parameters.names]
    terms = model.logp(vars=[model[name] for name in names], jacobian=False, sum=False)
    compute = VectorizedFunction(values, [term.sum() for term in terms])
    found = compute(*parameters.split(theta).values())
    return np.asarray(sum(np.broadcast_to(one, (len(theta),)) for one in found), dtype=float)


def sensitivity(values: np.ndarray, weights: Sequence[np.ndarray]) -> float:
    """The slope of the cumulative Jensen-Shannon distance in log2(alpha), between `ALPHAS`."""
    slopes = [
        max(distance(values, w), distance(-values, w)) / abs(np.log2(alpha))
        for w, alpha in zip(weights, ALPHAS, strict=True)
    ]
    return float(np.mean(slopes))


def distance(values: np.ndarray, weights: np.ndarray) -> float:
    """The cumulative Jensen-Shannon distance between draws and the same draws with weights.

    Nguyen and Vreeken (2015), in bits, of distribution functions P and Q instead of densities, as a
    share of its largest value; the root makes it a metric.
    """
    order = np.argsort(values)
    widths = np.diff(values[order])
    p = np.arange(1, len(values)) / len(values)
    q = np.cumsum(weights[order] / weights.sum())[:-1]
    reach = float((p + q) @ widths)
    if reach == 0.0:
        return 0.0
    middle = np.log2(0.5 * (p + q))
    gap = 0.5 / np.log(2.0) * float((q - p) @ widths)
    first = float(widths @ (p * (np.log2(p) - middle))) + gap
    second = float(widths @ (q * (np.log2(np.maximum(q, 1e-300)) - middle))) - gap
    return float(np.sqrt((max(first, 0.0) + max(second, 0.0)) / reach))


def _weights(logs: np.ndarray) -> list[np.ndarray]:
    """Smoothed weights of both powers; refuses uneven ones."""
    found = []
    for alpha in ALPHAS:
        weights, shape = smoothed_weights((alpha - 1.0) * logs)
        if not (np.isfinite(weights).all() and shape <= UNSTABLE):
            raise NotInformative(
                "these draws cannot be weighted to those of another power",
                got=f"a tail of weights of shape {shape:.2g}",
                allowed=f"{UNSTABLE:g} or less",
                do="more draws; a summary that tells more",
            )
        found.append(weights)
    return found


def _moves(values: np.ndarray, log_prior: np.ndarray) -> float:
    """d mean / d log2(alpha) in posterior standard deviations: a covariance with log p(theta)."""
    sd = float(values.std())
    away = log_prior - log_prior.mean()
    return float(np.log(2.0) * np.mean(away * (values - values.mean())) / sd) if sd else 0.0


def _finding(prior: float, likelihood: float) -> str:
    if prior <= NOTABLE:
        return ""
    if likelihood <= NOTABLE:
        return "strong prior, or a summary that tells little"
    return "prior and summary both pull: perhaps apart"


# ---- the draws ---------------------------------------------------------------------------------
def _unconstrained(parameters: Any, chains: ChainDraws) -> np.ndarray:
    """The draws of the free variables as vectors, shape (S, p)."""
    drawn = chains.posterior.data_vars
    missing = [name for name in parameters.names if name not in drawn]
    count = chains.posterior.sizes["draw"]
    if missing or count < FEWEST_DRAWS:
        raise DomainError(
            "sensitivity is computed from draws of all free variables of summary.model()",
            got=f"none of {', '.join(missing)}" if missing else f"{count} draws",
            allowed=f"{', '.join(parameters.names)}, {FEWEST_DRAWS} draws or more",
            do="with summary.model(): idata = pm.sample()",
        )
    values = {name: drawn[name].values[0] for name in parameters.names}
    return np.asarray(parameters.unconstrained(values))


def _scaled_priors(parameters: Any, asked: Sequence[str] | None) -> tuple[str, ...]:
    """Free variables whose priors are scaled."""
    if asked is None:
        model = parameters.model
        return tuple(name for name in parameters.names if not _reads_another(model, name))
    names = _listed(asked)
    _refuse_unknown(names, parameters.names, "a free variable")
    return names


def _reads_another(model: Any, name: str) -> bool:
    """Whether the prior of a free variable reads another one."""
    others = set(model.free_RVs) - {model[name]}
    return bool(others.intersection(ancestors([model[name]])))


def _quantities(
    chains: ChainDraws, var_names: Sequence[str] | None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of all elements, and their draws, shape (S, elements)."""
    drawn = chains.posterior.data_vars
    wanted = tuple(map(str, drawn)) if var_names is None else _listed(var_names)
    _refuse_unknown(wanted, list(map(str, drawn)), "a variable of the draws")
    labels = [label for name in wanted for label in element_labels(drawn[name])]
    table = np.concatenate([flat_draws(drawn[name]) for name in wanted], axis=1).astype(float)
    return tuple(labels), table


def _listed(names: Any) -> tuple[Any, ...]:
    """One name or several as a tuple; what is no list of them counts as one that is unknown."""
    return (names,) if isinstance(names, str) or not np.iterable(names) else tuple(names)


def _refuse_unknown(names: Sequence[Any], known: Sequence[str], what: str) -> None:
    unknown = [str(name) for name in names if not (isinstance(name, str) and name in known)]
    if unknown or not names:
        raise DomainError(
            f"sensitivity names {what}",
            got=", ".join(unknown) or "an empty list",
            allowed=", ".join(known),
        )


def _refuse_no_summary(summary: Any) -> None:
    if not isinstance(summary, Summary):
        raise DomainError(
            "power-scaling is of the posterior of a summary",
            got=type(summary).__name__,
            allowed="what pmp.summarize returns",
            do="pmp.criticism.power_scaling(summary, idata)",
        )
