"""Private posterior sampling of PyMC models: `calibrate` a plan, then `sample` it once.

Imports: release, samplers, certificates, models, ledger, privacy, analysis, errors.
"""
