"""Parameters at which one record can do little: ell(theta), its tail, Theta_L and boxes in it."""


