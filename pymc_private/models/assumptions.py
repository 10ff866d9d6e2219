"""What every promise about exact draws from a posterior assumes."""

from __future__ import annotations

ASSUMPTIONS = (
    "real arithmetic and ideal randomness: the draws are exact for real numbers, then rounded to a "
    "public grid",
    "prior, domain, region, power, number of draws, every other constant of the model and every "
    "label were fixed without looking at the data",
)
