"""Differential privacy: guarantees, accounting and the formulas behind them.

A `Guarantee` states what a release reveals. The functions listed in `__all__` are the formulas of
the theory, under their index names and argument orders, with the T-number of each. No result is
below the truth: epsilons, deltas and divergences are rounded up, what a budget affords is rounded
down.

Imports: errors; NumPy, SciPy, python-flint.
"""

from pymc_private.privacy.accounting import Budget
from pymc_private.privacy.accounting_comparison import EpsilonComparison, compare
from pymc_private.privacy.approximate_sampling import (
    approx_delta,
    approx_delta_n,
    proximal_steps,
    proximal_steps_to,
    purified_log_kl,
    rounding_tv,
    winf_gdp_mu,
    winf_pure_eps,
)
from pymc_private.privacy.beta_gamma_pairs import (
    beta_pair_alpha,
    beta_pair_delta,
    beta_pair_eps,
    beta_pair_rdp,
    gamma_pair_delta,
    gamma_pair_eps,
    gamma_pair_rdp,
)
from pymc_private.privacy.bounded_range import br_delta, br_eps, br_tv, br_zcdp_tight
from pymc_private.privacy.conjugate import (
    gamma_rate_delta,
    gamma_rate_rdp,
    normal_gamma_rdp,
    normal_mean_mu,
)
from pymc_private.privacy.dirichlet import (
    DirichletPlan,
    beta_pair_delta_two_draws,
    dirichlet_expected_kl,
    dirichlet_kl_tail_bound,
    dirichlet_plan,
    dirichlet_population_tv,
    dirichlet_rdp,
    dirichlet_sample_size,
    plot_sample_size,
    ponnoprat_r,
    ponnoprat_rdp,
)
from pymc_private.privacy.dp_accounting import from_event, to_event
from pymc_private.privacy.gaussian import discrete_gaussian_delta, gdp_delta, gdp_eps
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.inverse import (
    draws_affordable,
    mollifier_affordable,
    mu_affordable,
    power_affordable,
    range_affordable,
    rho_affordable,
)
from pymc_private.privacy.mollifier import (
    mbde_drop_bound,
    mbde_theta_sum,
    mode_capture_bound,
    moll_delta,
    moll_delta_k,
    mollify,
    mollify_gain,
)
from pymc_private.privacy.query_errors import (
    dkw_halfwidth,
    psaqr_dialogue_loss,
    psaqr_loss,
    psaqr_net_loss,
)
from pymc_private.privacy.renyi import rdp_to_delta, rdp_to_eps, zcdp_to_delta, zcdp_to_eps
from pymc_private.privacy.stochastic_lipschitz import (
    bayes_net_row_eps,
    beta_bernoulli_C,
    beta_binomial_c,
    exp_exp_C,
    laplace_C,
    normal_var_C,
    sl_eps,
    sl_kl_bound,
    sl_tv_bound,
)

__all__ = [
    "Budget",
    "DirichletPlan",
    "EpsilonComparison",
    "Guarantee",
    "approx_delta",
    "approx_delta_n",
    "bayes_net_row_eps",
    "beta_bernoulli_C",
    "beta_binomial_c",
    "beta_pair_alpha",
    "beta_pair_delta",
    "beta_pair_delta_two_draws",
    "beta_pair_eps",
    "beta_pair_rdp",
    "br_delta",
    "br_eps",
    "br_tv",
    "br_zcdp_tight",
    "compare",
    "dirichlet_expected_kl",
    "dirichlet_kl_tail_bound",
    "dirichlet_plan",
    "dirichlet_population_tv",
    "dirichlet_rdp",
    "dirichlet_sample_size",
    "discrete_gaussian_delta",
    "dkw_halfwidth",
    "draws_affordable",
    "exp_exp_C",
    "from_event",
    "gamma_pair_delta",
    "gamma_pair_eps",
    "gamma_pair_rdp",
    "gamma_rate_delta",
    "gamma_rate_rdp",
    "gdp_delta",
    "gdp_eps",
    "laplace_C",
    "mbde_drop_bound",
    "mbde_theta_sum",
    "mode_capture_bound",
    "moll_delta",
    "moll_delta_k",
    "mollifier_affordable",
    "mollify",
    "mollify_gain",
    "mu_affordable",
    "normal_gamma_rdp",
    "normal_mean_mu",
    "normal_var_C",
    "plot_sample_size",
    "ponnoprat_r",
    "ponnoprat_rdp",
    "power_affordable",
    "proximal_steps",
    "proximal_steps_to",
    "psaqr_dialogue_loss",
    "psaqr_loss",
    "psaqr_net_loss",
    "purified_log_kl",
    "range_affordable",
    "rdp_to_delta",
    "rdp_to_eps",
    "rho_affordable",
    "rounding_tv",
    "sl_eps",
    "sl_kl_bound",
    "sl_tv_bound",
    "to_event",
    "winf_gdp_mu",
    "winf_pure_eps",
    "zcdp_to_delta",
    "zcdp_to_eps",
]
