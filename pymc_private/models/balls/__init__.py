"""Rows in a ball: what their entries amount to together."""
