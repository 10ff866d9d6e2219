"""Private tables of counts.

What one record is in them, noise on them, and posteriors of probabilities given noisy counts.
Imports: release, samplers, ledger, privacy.
"""
