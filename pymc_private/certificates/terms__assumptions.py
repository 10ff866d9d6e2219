"""What every promise about draws from a posterior assumes, whatever draws them."""

from __future__ import annotations

ASSUMPTIONS = (
    "prior, domain, region, power, number of draws, every number and array written into the "
    "model and every label were fixed without looking at the data",
    "records that are found to enter the model alike do so: their expressions are compared by "
    "marks of 64 bits, which agree by chance for one pair in 2^64",
)
