"""diffprivlib's GaussianNB, in an environment of its own: it needs an older scikit-learn.

``python -m venv dpl; dpl/bin/pip install diffprivlib==0.6.6 scikit-learn==1.5.2`` and then
``python -m benchmarks.classification --diffprivlib dpl/bin/python``. Arrays in, arrays out,
a line of input for each fit.
"""

import sys
import warnings

import numpy as np


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        source, target, eps, rep = line.split()
        np.savez(target, log_proba=log_proba(dict(np.load(source)), float(eps), int(rep)))
        print("done", flush=True)


def log_proba(held: dict[str, np.ndarray], eps: float, rep: int) -> np.ndarray:
    from diffprivlib.models import GaussianNB

    X, y, train, test, ends = (held[k] for k in ("X", "y", "train", "test", "ends"))
    model = GaussianNB(epsilon=eps, bounds=(np.zeros_like(ends), ends), random_state=rep)
    model.fit(X[train], y[train])
    full = np.full((len(test), int(held["classes"])), 1e-300)
    found = np.nan_to_num(model.predict_proba(X[test]))
    full[:, model.classes_.astype(int)] = np.maximum(found, 1e-300)
    return np.log(full)


if __name__ == "__main__":
    main()
