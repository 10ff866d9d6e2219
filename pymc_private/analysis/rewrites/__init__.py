"""Rewrites of log-probability graphs into forms whose bounds are tight."""
