"""What a published object holds besides the draws: data, their copies, and what depends on them."""

from __future__ import annotations

import re
import numpy as np
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from pymc_private.audit.leaks__contents import Leaf, contents
from pymc_private.audit.leaks__copies import copy_of, summary_of
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import refuse_mask
from pymc_private.privacy.rounding__printing import number

TELLTALE = {
    "lp|lp__|logp|log_prob|logprob|log_density|log_posterior|target_log_prob|log_lik|loglik|"
    "log_likelihood|energy|energy__|energy_error|max_energy_error|potential|potential_energy": (
        "log densities of the data"
    ),
    "seed|seeds|random_seed|random_state|rng|rng_key|rng_state": (
        "a seed: whoever has it replays the draws"
    ),
    "sampling_time|created_at|perf_counter_start|perf_counter_diff|process_time_diff|duration": (
        "times: how long a draw took depends on the data"
    ),
    "step_size|step_size_bar|stepsize|stepsize__|tree_depth|treedepth|treedepth__|n_steps|"
    "num_steps|n_leapfrog|n_leapfrog__|acceptance_rate|accept_prob|mean_accept_prob|accept_stat|"
    "accept_stat__|diverging|divergent|divergent__|accepted|tuning_steps|reached_max_treedepth|"
    "index_in_trajectory|smallest_eigval|largest_eigval|adapt_state": (
        "a sampler's statistics depend on the data"
    ),
}
"""Last names of parts that depend on the data, whatever they hold."""
GROUPS = ("observed_data", "constant_data", "predictions_constant_data", "log_likelihood")


@dataclass(frozen=True)
class Leak:
    """One thing that should not be there.

    Parameters
    ----------
    where : str
        Path within the object.
    what : str
    coincidence : float
        Probability that values fixed without the data agree with them as well, at most, if every
        value between the ends of the data, in decimal steps of theirs, were as likely as any other;
        0 where it is no matter of chance. A lone number that equals a mean or the like is told
        whatever the probability: of data in coarse steps many numbers do.
    """

    where: str
    what: str
    coincidence: float = 0.0


@dataclass(frozen=True)
class ReleaseLeaks:
    """What a published object holds besides the draws.

    Parameters
    ----------
    found : tuple of Leak
    looked_at : int
        Arrays, numbers and texts looked at.
    """

    found: tuple[Leak, ...]
    looked_at: int

    @property
    def leaks(self) -> bool:
        """Whether anything was found; nothing found proves nothing."""
        return bool(self.found)

    def __repr__(self) -> str:
        if not self.found:
            return f"ReleaseLeaks(nothing found in {self.looked_at} parts)"
        lines = [
            f"  {leak.where}: {leak.what}"
            + (f" (chance: {number(leak.coincidence)})" if leak.coincidence else "")
            for leak in self.found
        ]
        return "\n".join([f"ReleaseLeaks: {len(self.found)} of {self.looked_at} parts", *lines])


def release_leaks(
    published: Any,
    secrets: Mapping[str, Any] | None = None,
    *,
    twin: Any = None,
    draws: tuple[str, ...] = (),
) -> ReleaseLeaks:
    """Look through anything that is about to be published.

    Three questions. Are the secrets in it: as they are, in another order, scaled, rounded, or as a
    sum, mean, deviation or variance? Does a part bear the name of something that depends on the
    data? And if a twin is given, the same thing made from *the same draws* on neighboring data:
    which parts differ?

    Parameters
    ----------
    published : object
        InferenceData, DataTree, Dataset, Release, dict, list, data frame, array, text, any plain
        object, or the path of a netCDF or JSON file.
    secrets : mapping of str to array, shape (n, ...), optional
        The private variables.
    twin : object, optional
        What would have been published of neighboring data with these very draws; what differs is a
        leak for certain.
    draws : tuple of str
        Parts of a path that may differ although the draws are meant to be the same.

    Returns
    -------
    ReleaseLeaks

    Raises
    ------
    DomainError
        Neither secrets nor a twin; a secret that is no array of numbers.

    Notes
    -----
    Finding nothing proves nothing: functions, what lies more than 12 levels deep, and what was
    computed from several columns are not looked at, and only a twin shows what bears another name.

    Examples
    --------
    >>> secret = np.array([3.1, 2.7, 5.5, 0.4])
    >>> print(release_leaks({"mean": 2.925, "n": 4, "x": [0.1]}, {"y": secret}))
    ReleaseLeaks: 1 of 3 parts
      mean: equals the mean of 'y' (chance: 0.1154)
    """
    if secrets is None and twin is None:
        raise DomainError("nothing to compare with", do="give the secrets, a twin, or both")
    parts = contents(published)
    found = [leak for part in parts for leak in _named(part)]
    for name, secret in (secrets or {}).items():
        array = _numbers(name, secret)
        found += [leak for part in parts for leak in _of_secret(part, name, array)]
    if twin is not None:
        found += _different(parts, contents(twin), draws)
    unique = {(leak.where, leak.what): leak for leak in found}
    return ReleaseLeaks(tuple(unique.values()), len(parts))


def _named(part: Leaf) -> list[Leak]:
    steps = re.split(r"[./]", part.path)
    while len(steps) > 1 and (steps[-1] == "values" or steps[-1].startswith("[")):
        steps.pop()  # a part of the thing that bears the name
    for names, what in TELLTALE.items():
        if steps[-1].lower() in names.split("|"):
            return [Leak(part.path, what)]
    for group in GROUPS:
        if group in steps[:-1] and "attrs" not in steps:
            return [Leak(part.path, f"is in {group}, a group for the data")]
    return []


def _numbers(name: str, secret: Any) -> np.ndarray:
    refuse_mask(secret, f"numbers of the secret {name!r}")
    array = np.asarray(secret)
    if array.dtype.kind not in "iufb" or array.ndim == 0:
        raise DomainError(f"the secret {name!r} is an array of numbers", got=str(array.dtype))
    return array.astype(float)


def _of_secret(part: Leaf, name: str, secret: np.ndarray) -> list[Leak]:
    values = part.numbers
    if values is None:
        return []
    columns = secret.reshape(len(secret), -1).T
    named = [f"{name!r}"] if len(columns) == 1 else [
        f"column {k} of {name!r}" for k in range(len(columns))
    ]  # fmt: skip
    leaks = []
    for label, column in zip(named, columns, strict=True):
        found = copy_of(column, values) or summary_of(column, values, part.is_single)
        if found is not None:
            leaks.append(Leak(part.path, found[0].format(label), found[1]))
    return leaks


def _different(parts: list[Leaf], twins: list[Leaf], draws: tuple[str, ...]) -> list[Leak]:
    mine, other = ({leaf.path: leaf for leaf in leaves} for leaves in (parts, twins))
    leaks = []
    for path in dict.fromkeys([*mine, *other]):
        if any(name in path for name in draws):
            continue
        if path not in mine or path not in other:
            leaks.append(Leak(path, "is there for one of the neighbors only"))
        elif not mine[path].same_as(other[path]):
            leaks.append(Leak(path, "differs between neighbors although the draws are the same"))
    return leaks
