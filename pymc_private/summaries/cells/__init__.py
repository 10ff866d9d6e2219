"""Noisy cells: summaries by counts of records in public cells (T33)."""
