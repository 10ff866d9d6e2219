"""Real values of the named composites, and the boxes on which their rules have something to say."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.math as psm
from flint import arb, ctx

from pymc_private.analysis.intervals import ops
from tests.analysis.truth import softplus

FAR = 130


def with_bits(bits: int, value) -> arb:
    before, ctx.prec = ctx.prec, bits
    try:
        return value()
    finally:
        ctx.prec = before


def log_sigmoid_gap(z: arb, g: arb) -> arb:
    """By its definition, with enough bits for the difference."""
    if not g > 0 or abs(z) > 800 or g > 800:
        return arb.nan()

    def value() -> arb:
        return (1 / (1 + (-z - g).exp()) - 1 / (1 + (-z).exp())).log()

    return with_bits(4000, value)


def log_phi_gap(z: arb, g: arb) -> arb:
    """By its definition, with enough bits for the difference."""
    if not g > 0 or abs(z) > FAR or g > FAR:
        return arb.nan()

    def value() -> arb:
        root = arb(2).sqrt()
        return (((-z - g) / root).erfc() / 2 - (-z / root).erfc() / 2).log()

    return with_bits(4000, value)


def log_phi_between(a: arb, b: arb) -> arb:
    if not a > b or abs(a) > FAR or abs(b) > FAR:
        return arb.nan()

    def value() -> arb:
        root = arb(2).sqrt()
        return (((-a) / root).erfc() / 2 - ((-b) / root).erfc() / 2).log()

    return with_bits(4000, value)


def log_add_exp(x: arb, y: arb) -> arb:
    top, least = (x, y) if x > y else (y, x)
    return top + softplus(least - top)


def power_step(x: arb, b: arb) -> arb:
    if not x > 0 or not b > 0:
        return arb.nan()
    return with_bits(2000, lambda: (x + 1) ** b - x**b)


def log_phi(z: arb) -> arb:
    """By its definition, with enough bits for the distance from one."""
    if abs(z) > FAR:
        return arb.nan()
    return with_bits(4000, lambda: ((-z / arb(2).sqrt()).erfc() / 2).log())


def mills(z: arb) -> arb:
    if abs(z) > FAR:
        return arb.nan()

    def value() -> arb:
        density = (-z * z / 2).exp() / (2 * arb.pi()).sqrt()
        return density / ((-z / arb(2).sqrt()).erfc() / 2)

    return with_bits(4000, value)


def mills_slope(z: arb) -> arb:
    return with_bits(4000, lambda: -mills(z) * (z + mills(z))) if abs(z) < FAR else arb.nan()


REAL = {
    ops.LogAddExp: log_add_exp,
    ops.LogPhi: log_phi,
    ops.InverseMills: mills,
    ops.InverseMillsSlope: mills_slope,
    ops.LogSigmoidGap: log_sigmoid_gap,
    ops.LogPhiGap: log_phi_gap,
    ops.LogPhiBetween: log_phi_between,
    ops.PowerStep: power_step,
}


def fit(kind: type, place: int, low: np.ndarray, high: np.ndarray) -> tuple:
    """Where an argument has a domain of its own, most boxes lie in it."""
    tops = low == low
    if kind is psm.BetaInc and place < 2:  # Arb's answers are slow from here on
        return tuple(np.where((end > 60) & (end < 3e3), 60, end) for end in (low, high))
    if kind is psm.BetaInc:
        inside = [np.where(end > 50, 1.0, -np.expm1(-np.clip(end, 0, 50))) for end in (low, high)]
        return np.where(low >= 0, inside[0], low), np.where(low >= 0, inside[1], high)
    usual = tops & (np.arange(len(low)) % 10 > 0)[:, None]
    sides = {(ops.LogSigmoidGap, 1): 1, (ops.LogPhiGap, 1): 1}
    sides |= {(ops.LogPhiBetween, 0): 1, (ops.LogPhiBetween, 1): -1}
    sides |= {(ops.PowerStep, 0): 1, (ops.PowerStep, 1): 1}
    side = sides.get((kind, place), 0)
    if not side:
        return low, high
    ends = np.sort(side * np.abs(np.stack([low, high])), axis=0)
    return np.where(usual, ends[0], low), np.where(usual, ends[1], high)
