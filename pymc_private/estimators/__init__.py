"""scikit-learn estimators on private tables of counts.

Imports: counts, release, privacy; scikit-learn, narwhals.
"""

from pymc_private.counts.counting import count_tables
from pymc_private.counts.declared_columns import Bins
from pymc_private.estimators.bayesian_network import DirichletBayesianNetwork
from pymc_private.estimators.naive_bayes import DirichletNaiveBayes

__all__ = ["Bins", "DirichletBayesianNetwork", "DirichletNaiveBayes", "count_tables"]
