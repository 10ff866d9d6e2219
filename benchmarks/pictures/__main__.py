"""Draw the pictures of docs/pictures.md, all or those that are named."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import time
from pathlib import Path

from benchmarks import pictures

IMAGES = Path(__file__).parents[2] / "docs" / "images" / "pictures"
NAMES = [module.name for module in pkgutil.iter_modules(pictures.__path__) if module.name[0] != "_"]

if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or NAMES:
        start = time.process_time()
        figure = importlib.import_module(f"benchmarks.pictures.{name}").draw()
        figure.savefig(IMAGES / f"{name}.png", dpi=110, metadata={"Software": None})
        print(f"{name}: {time.process_time() - start:.1f} CPU seconds")
