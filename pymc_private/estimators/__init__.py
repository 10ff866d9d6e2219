"""scikit-learn estimators on the mechanisms for counts.

Imports: mechanisms, privacy; scikit-learn, narwhals.
"""

from pymc_private.estimators.bayesian_network import DirichletBayesianNetwork
from pymc_private.estimators.counting__columns import Bins
from pymc_private.estimators.counting import count_tables
from pymc_private.estimators.naive_bayes import DirichletNaiveBayes

__all__ = ["Bins", "DirichletBayesianNetwork", "DirichletNaiveBayes", "count_tables"]
