"""Conjugate models: recognized in the graph, their posteriors and the exact prices of these."""
