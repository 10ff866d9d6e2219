"""Pooled scores of whole records: summaries of densities without private covariates (T34)."""
