"""What users may give as a reference law, read as one."""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping, Sequence
from typing import Any
from scipy import stats
from pymc_private.mollifiers.references__black_box import BlackBox
from pymc_private.mollifiers.references import Finite, Marginals, Reference, describe

def as_reference(given: Any) -> Reference | Finite:
    """Read a reference law.

    Parameters
    ----------
    given : object
        Probabilities (array, or dict by label), a frozen SciPy law or a list of them, a public
        `Box`, a PyMC model (its prior) or variable, or whatever has ``logpdf`` (or
        ``score_samples``) and ``sample`` (or ``rvs``, ``resample``): a density fitted to public
        data, for example.

    Raises
    ------
    DomainError
        It is none of these.
    """
    if isinstance(given, Finite | Marginals | BlackBox) or hasattr(given, "shapes"):
        return given
    if isinstance(given, Mapping):
        return Finite(list(given.values()), list(given.keys()))
    if type(given).__module__.split(".")[0] in ("pymc", "pytensor"):
        from pymc_private.mollifiers.references__reference_pymc import of_pymc

        return of_pymc(given)
    if isinstance(given, Sequence) and len(given) and all(map(_has_quantiles, given)):
        return Marginals(given)
    if hasattr(getattr(given, "dist", None), "pmf"):
        return _from_discrete(given)
    if _has_quantiles(given):
        return Marginals([given])
    if type(given).__name__ == "multivariate_normal_frozen":
        return _from_normal(given)
    samples = any(hasattr(given, name) for name in ("sample", "rvs", "resample"))
    if samples and (hasattr(given, "logpdf") or hasattr(given, "score_samples")):
        return BlackBox(given)
    return Finite(given)


def _has_quantiles(law: Any) -> bool:
    inverse = hasattr(law, "ppf") or hasattr(law, "icdf")
    return inverse and hasattr(law, "cdf") and hasattr(law, "logpdf")


def _from_discrete(law: Any) -> Finite:
    """Take the support between the 2**-53 quantiles; beyond them the law is cut."""
    first, last = (int(law.ppf(q)) for q in (2.0**-53, 1.0 - 2.0**-53))
    values = np.arange(first, last + 1)
    finite = Finite(law.pmf(values) / law.pmf(values).sum(), values.tolist())
    finite.text = describe(law)
    return finite


def _from_normal(law: Any) -> Marginals:
    covariance = np.atleast_2d(law.cov)
    laws = [stats.norm()] * len(covariance)
    text = f"multivariate normal of dimension {len(covariance)}"
    return Marginals(laws, np.asarray(law.mean, float), np.linalg.cholesky(covariance), text)
