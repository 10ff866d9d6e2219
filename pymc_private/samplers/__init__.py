"""Posterior samplers, what is proved of each, and the choice among them.

Imports: models, analysis, errors. A sampler can be read without knowing differential privacy:
it states how far its draws are from the posterior, and the accounting prices that distance.
"""
