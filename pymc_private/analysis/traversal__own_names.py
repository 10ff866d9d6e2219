"""Which classes are PyMC's and PyTensor's own: a name alone proves nothing."""

from __future__ import annotations

import sys

LIBRARIES = ("pymc", "pytensor")


def own_name(thing: object) -> str:
    """Name of an object's class, if PyMC or PyTensor has it under this name.

    ``pm.CustomDist(..., class_name="NormalRV")`` makes a class of that name, in PyMC's own module,
    with a density of the user's. What is known of PyMC's must not be said of it.

    Returns
    -------
    str
        The plain name, or one that no library's class can have.
    """
    kind = type(thing)
    if thing is None:
        return kind.__name__
    home = sys.modules.get(kind.__module__)
    is_own = kind.__module__.split(".")[0] in LIBRARIES
    if is_own and getattr(home, kind.__name__, None) is kind:
        return kind.__name__
    return f"{kind.__name__} of the user's"
