"""Posterior draws: from a private model and a budget to a release."""
