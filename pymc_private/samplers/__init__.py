"""How a draw is made: samplers with a claim each, and the choice among them.

Imports: models, analysis, errors. A sampler can be read without knowing privacy.
"""


