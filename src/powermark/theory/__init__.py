"""The paper's formulas as functions, with numpy and scipy only, for scalars and arrays.

green_rate.py       Section 3.2: the token lemma, Theorem 3.5, and their inverses
distortion.py       Lemma 3.9: the KL, its slopes, its bounds and both roots in gamma
power.py            Section 3.3: size and power, exact, overdispersed and normal (Eq. 1)
bounds.py           Appendix A.6: gamma_star; the information limit
variance.py         Appendix C: the variance inflation c, estimated from counts
removal.py          Appendix B.7: expected z-scores after a block was replaced
required_length.py  how many tokens the exact test needs
beta.py             expectations under a Beta law
roots.py            bracketed roots, and a fixed point
"""

from powermark.theory.beta import beta_expectation
from powermark.theory.bounds import efficiency, gamma_star, information_limit
from powermark.theory.distortion import (
    bernoulli_kl,
    delta_from_kl,
    gamma_roots,
    gamma_zero,
    kl_bound,
    kl_divergence,
    kl_slope_delta,
    kl_slope_gamma,
    largest_kl,
    token_kl,
)
from powermark.theory.green_rate import (
    delta_from_gamma_prime,
    gamma_prime,
    gamma_prime_finite,
    token_green_rate,
)
from powermark.theory.power import (
    beta_binomial_power,
    binomial_tail,
    critical_count,
    normal_gamma_prime,
    normal_power,
    normal_required_length,
    normal_score,
    z_critical_count,
    z_score,
)
from powermark.theory.removal import clean_shift, full_sequence_shift, winmax_c_shift
from powermark.theory.required_length import required_length
from powermark.theory.variance import VarianceInflation, variance_inflation

__all__ = [
    "VarianceInflation",
    "bernoulli_kl",
    "beta_binomial_power",
    "beta_expectation",
    "binomial_tail",
    "clean_shift",
    "critical_count",
    "delta_from_gamma_prime",
    "delta_from_kl",
    "efficiency",
    "full_sequence_shift",
    "gamma_prime",
    "gamma_prime_finite",
    "gamma_roots",
    "gamma_star",
    "gamma_zero",
    "information_limit",
    "kl_bound",
    "kl_divergence",
    "kl_slope_delta",
    "kl_slope_gamma",
    "largest_kl",
    "normal_gamma_prime",
    "normal_power",
    "normal_required_length",
    "normal_score",
    "required_length",
    "token_green_rate",
    "token_kl",
    "variance_inflation",
    "winmax_c_shift",
    "z_critical_count",
    "z_score",
]
