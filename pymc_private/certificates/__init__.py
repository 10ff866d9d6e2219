"""Certificates: proved bounds on how much one record can change a log-likelihood.

`certify` proves the range R (T1) and, where the posterior is log-concave or conjugate, a
Gaussian bound (T7, T22) or an exact dominating pair (T13). `restrict` (trim, temper), `clip` and
`beta_divergence` change a model so that such a bound is finite. Nothing in this package reads data.
"""

from pymc_private.certificates.lipschitz.tail import LipschitzTail, lipschitz_tail

__all__ = ["LipschitzTail", "lipschitz_tail"]
