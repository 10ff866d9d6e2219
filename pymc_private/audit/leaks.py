"""What a published object holds besides the draws: data, their copies, and what depends on them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.audit.contents import Leaf, contents
from pymc_private.errors import DomainError
from pymc_private.privacy.printing import number

TELLTALE = {
    "lp|logp|log_likelihood|loglik|energy|energy_error|max_energy_error|potential": (
        "log densities of the data"
    ),
    "seed|random_seed|random_state|rng|rng_state": "a seed: whoever has it replays the draws",
    "sampling_time|created_at|perf_counter_start|perf_counter_diff|process_time_diff|duration": (
        "times: how long a draw took depends on the data"
    ),
    "step_size|step_size_bar|tree_depth|n_steps|acceptance_rate|diverging|accepted|tuning_steps": (
        "a sampler's statistics depend on the data"
    ),
}
"""Last names of parts that depend on the data, whatever they hold."""
GROUPS = ("observed_data", "constant_data", "predictions_constant_data", "log_likelihood")
LIKELY = 1e-6
"""Values that agree by chance more often than this are no leak."""


@dataclass(frozen=True)
class Leak:
    """One thing that should not be there.

    Parameters
    ----------
    where : str
        Path within the object.
    what : str
    coincidence : float
        Probability that values fixed without the data agree with them as well, if every value
        between the ends of the data, in decimal steps of theirs, were as likely as any other; 0
        where it is no matter of chance.
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

    Three questions. Are the secrets in it: as they are, in another order, scaled, or as a sum, mean
    or deviation? Does a part bear the name of something that depends on the data? And if a twin is
    given, the same thing made from *the same draws* on neighboring data: which parts differ?

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

    Examples
    --------
    >>> secret = np.array([3.1, 2.7, 5.5, 0.4])
    >>> print(release_leaks({"mean": 2.925, "n": 4, "x": [0.1]}, {"y": secret}))
    ReleaseLeaks: 1 of 3 parts
      mean: equals the mean of 'y'
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
    for names, what in TELLTALE.items():
        if steps[-1].lower() in names.split("|"):
            return [Leak(part.path, what)]
    for group in GROUPS:
        if group in steps[:-1] and "attrs" not in steps:
            return [Leak(part.path, f"is in {group}, a group for the data")]
    return []


def _numbers(name: str, secret: Any) -> np.ndarray:
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
        leak = _column_in(part.path, label, column, values)
        if leak is not None:
            leaks.append(leak)
    return leaks


def _column_in(path: str, label: str, secret: np.ndarray, values: np.ndarray) -> Leak | None:
    """A column of the data in an array: as it is, reordered, scaled, or as a statistic."""
    levels, n = _levels(secret), len(secret)
    chance = float(levels) ** -n if levels > 1 else 1.0
    flat = values.ravel()
    places = _windows(values, n) if n > 1 else []
    if places and chance * len(places) < LIKELY:
        if any(np.array_equal(window, secret) for window in places):
            return Leak(path, f"holds {label}", chance * len(places))
        if any(_affine(window, secret) for window in places):
            return Leak(path, f"holds {label}, shifted or scaled", chance * len(places))
    orders = math.factorial(n) if n < 150 else math.inf
    rare = n > 2 and flat.size == n and chance * orders < LIKELY
    if rare and np.array_equal(np.sort(flat), np.sort(secret)):
        return Leak(path, f"holds {label} in another order", chance * orders)
    return _statistic(path, label, secret, flat)


def _levels(secret: np.ndarray) -> float:
    """How many values there could be: the decimal steps between the ends of those there are."""
    width = float(np.ptp(secret))
    for digits in range(13):
        step = 10.0**-digits
        if np.allclose(np.round(secret / step) * step, secret, rtol=0.0, atol=1e-14):
            return 1.0 + width / step
    return 1.0 + width * 1e12


def _windows(values: np.ndarray, n: int) -> list[np.ndarray]:
    """The rows along each axis of the right length, and the whole if it fits."""
    rows = []
    for axis, size in enumerate(values.shape):
        if size == n:
            rows += list(np.moveaxis(values, axis, -1).reshape(-1, n)[:64])
    return rows + ([values.ravel()] if values.size == n else [])


def _affine(window: np.ndarray, secret: np.ndarray) -> bool:
    if len(np.unique(secret)) < 3 or np.ptp(window) == 0.0 or not np.isfinite(window).all():
        return False
    return bool(abs(np.corrcoef(window, secret)[0, 1]) > 1.0 - 1e-12)


def _statistic(path: str, label: str, secret: np.ndarray, flat: np.ndarray) -> Leak | None:
    """A lone number that equals a sum, mean or deviation, where it is not a round number."""
    if flat.size != 1 or not np.isfinite(flat[0]):
        return None
    known = {
        "mean": secret.mean(), "sum": secret.sum(),
        "standard deviation": secret.std(), "sample deviation": secret.std(ddof=1),
    }  # fmt: skip
    for word, value in known.items():
        close = abs(flat[0] - value) <= 1e-9 * abs(value)
        if close and value != 0.0 and round(float(value), 1) != float(value):
            return Leak(path, f"equals the {word} of {label}")
    return None


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
