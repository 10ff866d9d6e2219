"""Bits of a row mixed with those of a key: the constants and steps of splitmix64."""

from __future__ import annotations

import numpy as np

FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""An odd number by which bits of a row are mixed."""


def mixed(values: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64 (Steele, Lea and Flood 2014): each bit depends on all bits."""
    values = (values ^ (values >> np.uint64(30))) * FIRST
    values = (values ^ (values >> np.uint64(27))) * SECOND
    return values ^ (values >> np.uint64(31))


def fold(found: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Hashes of rows with one more column, as splitmix64 mixes bits."""
    found = (found ^ column) * MIXER
    return found ^ (found >> np.uint64(31))
