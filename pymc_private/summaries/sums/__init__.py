"""Noisy sums: summaries of conjugate families (T35)."""
