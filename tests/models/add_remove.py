"""Random potentials under add/remove, and what one record more does to them.

A potential is drawn as an expression in x (n records in [-1, 1]) and t (in [-1, 2]): sums, means,
shapes, repeats and broadcasts of parts that read single records. Each is a function of (x, t) that
works on PyTensor variables, so that the same expression is privatized and searched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

import pymc_private as pmp

LOW, HIGH = -1.0, 2.0
Part = Callable[[Any, Any], Any]


def _of_t(rng: np.random.Generator) -> tuple[str, Part]:
    return _one(
        rng,
        [
            ("t", lambda x, t: t),
            ("t**2", lambda x, t: t**2),
            ("exp(t)", lambda x, t: pt.exp(t)),
            ("1.7", lambda x, t: pt.constant(1.7)),
        ],
    )


def _of_record(rng: np.random.Generator) -> tuple[str, Part]:
    """One entry per record."""
    name, inner = _of_t(rng)
    return _one(
        rng,
        [
            ("x", lambda x, t: x),
            (f"x*{name}", lambda x, t: x * inner(x, t)),
            (f"(x*t+{name})", lambda x, t: x * t + inner(x, t)),
            ("softplus(x*t)", lambda x, t: pt.softplus(x * t)),
            (f"ones(n)*{name}", lambda x, t: pt.ones(x.shape[0]) * inner(x, t)),
            (f"full_like({name})", lambda x, t: pt.ones_like(x) * inner(x, t)),
            ("(x-t)**2", lambda x, t: (x - t) ** 2),
            ("x*n", lambda x, t: x * x.shape[0]),
            ("x-mean(x)", lambda x, t: x - x.mean()),
            ("x/n", lambda x, t: x / x.shape[0]),
        ],
    )


def _of_all(rng: np.random.Generator) -> tuple[str, Part]:
    """One number of all records."""
    name, part = _of_record(rng)
    of_t, inner = _of_t(rng)
    return _one(
        rng,
        [
            (f"sum({name})", lambda x, t: pt.sum(part(x, t))),
            (f"{name}.sum()*{of_t}", lambda x, t: part(x, t).sum() * inner(x, t)),
            (f"dot(x,{name})", lambda x, t: pt.dot(x, part(x, t))),
            (f"dot(ones(n),{name})", lambda x, t: pt.dot(pt.ones(x.shape[0]), part(x, t))),
            (f"n*{of_t}", lambda x, t: x.shape[0] * inner(x, t)),
            (f"size*{of_t}", lambda x, t: x.size * inner(x, t)),
            (f"prod(shape)*{of_t}", lambda x, t: x.shape.astype("float64").prod() * inner(x, t)),
            (f"concatenate({name},x)", lambda x, t: pt.concatenate([part(x, t), x]).sum()),
            (f"sum(stack(x,{name}),0)@w", lambda x, t: _weighted(x, part(x, t))),
            (f"mean({name})", lambda x, t: pt.mean(part(x, t))),
            (f"sum({name})/n", lambda x, t: pt.sum(part(x, t)) / x.shape[0]),
            (f"sum({name})/sqrt(n)", lambda x, t: pt.sum(part(x, t)) / pt.sqrt(x.shape[0])),
            (f"log(n)*{of_t}", lambda x, t: pt.log(x.shape[0]) * inner(x, t)),
            (f"repeat({name},2)", lambda x, t: pt.repeat(part(x, t), 2).sum()),
            (f"sum({name})**2", lambda x, t: pt.sum(part(x, t)) ** 2),
            (f"max({name})", lambda x, t: pt.max(part(x, t))),
            (f"n*sum({name})", lambda x, t: x.shape[0] * pt.sum(part(x, t))),
            (f"arange(n)*{of_t}", lambda x, t: (pt.arange(x.shape[0]) * inner(x, t)).sum()),
            (f"alloc({of_t},n)", lambda x, t: pt.alloc(inner(x, t), x.shape[0], 2).sum()),
            (f"{of_t}", lambda x, t: inner(x, t)),
        ],
    )


def _weighted(x: Any, row: Any) -> Any:
    return (pt.stack([x, row], axis=1).sum(axis=0) * np.array([0.5, -2.0])).sum()


def _one(rng: np.random.Generator, choices: list[tuple[str, Part]]) -> tuple[str, Part]:
    return choices[rng.integers(len(choices))]


def potential(seed: int) -> tuple[str, Part]:
    """A potential: its name, and the function of (x, t)."""
    rng = np.random.default_rng(seed)
    first, f = _of_all(rng)
    second, g = _of_all(rng)
    kind = rng.integers(4)
    if kind == 0:
        name, rows = _of_record(rng)
        return name, rows
    if kind == 1:
        return f"{first} + {second}", lambda x, t: f(x, t) + g(x, t)
    if kind == 2:
        return f"-({first} - 0.3*{second})", lambda x, t: -(f(x, t) - 0.3 * g(x, t))
    return f"{first} / 1.5", lambda x, t: f(x, t) / 1.5


def private_potential(part: Part, n: int) -> Any:
    """The potential as a private model, beside an observed outcome of n records."""
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(n))
        t = pm.Uniform("t", LOW, HIGH)
        pm.Potential("p", part(x, t))
        pm.Normal("y", t, 1.0, observed=np.zeros(n))
    domain = {"x": (-1, 1), "y": (-1, 1)}
    return pmp.privatize(model, records={"x": 0, "y": 0}, domain=domain, neighbors="add_remove")


def widest_addition(part: Part, seed: int) -> float:
    """The most that one record more was seen to move the log-likelihood, over t: a lower bound."""
    x, t = pt.vector("x"), pt.scalar("t")
    rng, value = np.random.default_rng(seed), pt.sum(part(x, t))
    value = pytensor.function([x, t], value, mode="FAST_COMPILE", on_unused_input="ignore")
    grid, widest = np.linspace(LOW, HIGH, 13), 0.0
    for k in range(8):
        few = rng.uniform(-1, 1, rng.integers(1, 6))
        new, y = (1.0, -1.0, 0.0, rng.uniform(-1, 1))[k % 4], (1.0, -1.0)[k % 2]
        moved = [value(np.append(few, new), at) - value(few, at) for at in grid]
        widest = max(widest, np.ptp(np.asarray(moved) - 0.5 * (y - grid) ** 2))
    return float(widest)
