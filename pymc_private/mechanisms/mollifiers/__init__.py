"""Mollified sampling: draws from a law that any data set could nearly have had (T14, T15).

Imports: privacy, samplers.randomness, the Release; PyMC in `reference_pymc` and `synthesize` only.
"""
