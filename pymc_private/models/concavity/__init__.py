"""Log-concave posteriors: what is proved of their slopes and curvatures (T7, T21, T22)."""
