"""The user's model, of which a private model is a copy: whether it has changed since.

`privatize` copies, so that a later prior, potential or outcome of the user's model is not in the
copy, nor in what is planned and released of it. Who adds one expects it there; a release that
lacks it would be paid for nothing. Data that are set later belong to the user's model alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import ReferenceType, WeakKeyDictionary, ref

import pymc as pm

_ORIGINALS: WeakKeyDictionary[pm.Model, Original] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Original:
    """A model as it was copied.

    Attributes
    ----------
    model : weak reference to pymc.Model
    factors : tuple of str
        Its free and observed variables and its potentials.
    """

    model: ReferenceType[pm.Model]
    factors: tuple[str, ...]


def factor_names(model: pm.Model) -> tuple[str, ...]:
    """Names of free and observed variables and of potentials."""
    return tuple(v.name for v in (*model.free_RVs, *model.observed_RVs, *model.potentials))


def remember_original(copy: pm.Model, model: pm.Model) -> None:
    """Note of which model this is a copy."""
    _ORIGINALS[copy] = Original(ref(model), factor_names(model))


def changed_factors(copy: pm.Model) -> tuple[str, ...]:
    """Factors that were added to the user's model, or removed from it, since it was copied."""
    original = _ORIGINALS.get(copy)
    model = original.model() if original is not None else None
    if original is None or model is None:
        return ()
    return tuple(sorted(set(factor_names(model)) ^ set(original.factors)))
