"""Private models of PyMC: records, domains, likelihoods of one record, plans.

A `PrivateModel` is a PyMC model together with the neighbor relation: what one record is and every
value it could have. This package reads the model (`declare`, `record_graph`), isolates the
log-likelihood of one record (`record_likelihood`) and describes priors and plans; the bounds that
certify a release are proved in `certificates`.

Imports: privacy, analysis, errors; PyMC.
"""

from pymc_private.models.lint import LintReport

__all__ = ["LintReport"]
