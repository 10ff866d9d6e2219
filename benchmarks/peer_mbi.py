"""A law estimated by mbi's mirror descent from noisy margins, in an environment of its own (JAX).

``python -m venv peer; peer/bin/pip install mbi`` and then
``python -m benchmarks.classification --mbi peer/bin/python``. Arrays in, arrays out: noisy counts
of the class and of every feature by class, their standard deviation and the public number of
records; out come the margins of the estimated law.
"""

import sys
import warnings

import numpy as np


def main() -> None:
    warnings.simplefilter("ignore")
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import Domain, estimation, marginal_loss

    source, target = sys.argv[1:3]
    held = np.load(source)
    names = [name for name in held.files if name not in ("sd", "total")]
    sizes = {name: held[name].shape[-1] for name in names}
    domain = Domain(names, [sizes[name] for name in names])
    asked = [
        marginal_loss.LinearMeasurement(
            held[name].ravel(),
            (name,) if name == "target" else ("target", name),
            stddev=float(held["sd"]),
        )
        for name in names
    ]
    model = estimation.MirrorDescent().estimate(
        domain, asked, known_total=float(held["total"]), iters=1000
    )
    found = {}
    for name in names:
        clique = (name,) if name == "target" else ("target", name)
        table = np.maximum(np.asarray(model.project(clique).datavector()), 1e-300)
        table = table.reshape(held[name].shape)
        found[name] = table / table.sum(axis=-1, keepdims=True)
    np.savez(target, **found)


if __name__ == "__main__":
    main()
