"""Noisy scores: summaries of models with one outcome in a record (T36)."""
