"""Noisy summaries: one noisy statistic of the records, and a PyMC model of its noise (T30-T36).

Imports: counts, release, samplers, certificates, models, ledger, privacy, analysis.
"""
