"""Command line: ``python -m pymc_private``, the same as ``pymc-private``."""

from __future__ import annotations

import sys

from pymc_private.command_line import main

if __name__ == "__main__":
    sys.exit(main())
