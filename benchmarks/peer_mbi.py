"""A law estimated by mbi's mirror descent from noisy margins, in an environment of its own (JAX).

``python -m venv peer; peer/bin/pip install mbi`` and then
``python -m benchmarks.classification --mbi peer/bin/python``. Arrays in, arrays out: noisy counts
of the class and of every feature by class, their standard deviation and the public number of
records; out come the margins of the estimated law. A line of input for each fit, one process for
all: what JAX compiles for a set serves its other splits, a hundred times as fast as the first.
"""

import sys
import warnings

import numpy as np

PUBLIC = ("sd", "total")


def main() -> None:
    warnings.simplefilter("ignore")
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    for line in sys.stdin:
        source, target = line.split()
        np.savez(target, **margins(dict(np.load(source))))
        print("done", flush=True)


def margins(held: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    from mbi import Domain, estimation, marginal_loss

    cliques = {n: (n,) if n == "target" else ("target", n) for n in held if n not in PUBLIC}
    domain = Domain(list(cliques), [held[name].shape[-1] for name in cliques])
    asked = [
        marginal_loss.LinearMeasurement(held[name].ravel(), clique, stddev=float(held["sd"]))
        for name, clique in cliques.items()
    ]
    model = estimation.MirrorDescent().estimate(
        domain, asked, known_total=float(held["total"]), iters=1000
    )
    found = {}
    for name, clique in cliques.items():
        table = np.maximum(np.asarray(model.project(clique).datavector()), 1e-300)
        table = table.reshape(held[name].shape)
        found[name] = table / table.sum(axis=-1, keepdims=True)
    return found


if __name__ == "__main__":
    main()
