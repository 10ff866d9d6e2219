"""How a promise is kept: releases, answers from them, and posterior sampling.

Imports: privacy, errors; `calibrate`, `posterior` and what they use also models and samplers.
"""


