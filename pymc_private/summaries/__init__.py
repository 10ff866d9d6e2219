"""Noisy summaries: one noisy statistic of the records, and a PyMC model of its noise (from T30 on).

Imports: counts, release, samplers, certificates, models, ledger, privacy, analysis.
"""
