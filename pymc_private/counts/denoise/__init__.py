"""Posteriors of counts and probabilities given noisy counts (T26).

All of it is post-processing, which costs nothing.
"""
