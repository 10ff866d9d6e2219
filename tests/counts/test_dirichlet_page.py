"""The blocks of docs/dirichlet.md run in turn, on one ledger that they spend to the end."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm

PAGE = Path(__file__).parents[2] / "docs" / "dirichlet.md"


def patients(n=600):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(18, 80, n),
            "outcome": rng.choice(["no", "yes"], n),
        }
    )


def test_the_page_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pm, "sample", lambda: pm.modelcontext(None).point_logps())
    frame = patients()
    names = {"frame": frame, "new": frame.drop(columns="outcome").head()}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)
    account = names["ledger"]
    assert len(account.entries) == 3
    assert 2.9 < account.spent.epsilon <= 3
    assert names["scale"] == 2.0  # one family: a record that is replaced leaves a cell for another
    assert set(names["idata"]) == {"rate", "true", "seen_well", "seen_ill"}
    assert np.isfinite(list(names["idata"].values())).all()
