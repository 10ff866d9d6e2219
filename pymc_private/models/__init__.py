"""What a model reveals: private models, certificates, trims, plans.

Imports: privacy, analysis, errors; PyMC.
"""


