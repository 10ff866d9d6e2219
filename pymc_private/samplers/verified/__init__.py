"""Proximal sampler verified in floating point: doubles propose, Arb balls decide open cases.

It computes the ideal iteration of T21 for real numbers, started at a state of doubles. Its
noise is that of uniform numbers of which further bits can be drawn at any time. Beside every
double runs a bound of its distance from the real number (`arithmetic`, `kernel`); a comparison
that the bound leaves open is repeated in ball arithmetic with more bits, until it is decided.
So every acceptance is the ideal one, and the released draw is the ideal one, rounded. What
remains is the rounding of the state between two steps, by at most a public omega, which costs
t_fp (`admission`).
"""
