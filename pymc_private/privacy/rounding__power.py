"""The power of a tempered likelihood as a double."""

from __future__ import annotations

import math
from fractions import Fraction

def float_down(power: Fraction) -> float:
    """Round a power towards more privacy, so that the certified range covers it."""
    nearest = float(power)
    return nearest if Fraction(nearest) <= power else math.nextafter(nearest, 0.0)
