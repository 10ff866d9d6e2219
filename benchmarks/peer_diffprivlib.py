"""diffprivlib's GaussianNB, in an environment of its own: it needs an older scikit-learn.

``python -m venv dpl; dpl/bin/pip install diffprivlib==0.6.6 scikit-learn==1.5.2`` and then
``python -m benchmarks.classification --diffprivlib dpl/bin/python``. Arrays in, arrays out.
"""

import sys
import warnings

import numpy as np


def main() -> None:
    from diffprivlib.models import GaussianNB

    source, target, eps, rep = sys.argv[1:5]
    held = np.load(source)
    X, y, train, test, ends = (held[k] for k in ("X", "y", "train", "test", "ends"))
    model = GaussianNB(
        epsilon=float(eps), bounds=(np.zeros_like(ends), ends), random_state=int(rep)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train])
        proba = model.predict_proba(X[test])
    full = np.full((len(test), int(held["classes"])), 1e-300)
    full[:, model.classes_.astype(int)] = np.maximum(np.nan_to_num(proba), 1e-300)
    np.save(target, np.log(full))


if __name__ == "__main__":
    main()
