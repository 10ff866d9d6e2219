"""The proximal sampler proved in floating point: floats propose, balls decide what floats cannot.

What is computed is the ideal iteration of T21 for real numbers, started at a state of doubles. Its
noise is that of uniform numbers of which ever more bits can be known (`noise`). Beside every double
runs a bound of its distance from the real number (`running`, `kernel`); a comparison that the bound
leaves open is made again with balls of proved radius and more bits (`balls`), until it is decided.
So every acceptance is the ideal one, and the draw that leaves is the ideal one, rounded. What is
left is the rounding of the state between two steps, by at most a public omega (`price`).
"""


