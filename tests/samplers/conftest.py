"""Draws are tested here, not how far bounds are refined."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _quick(quick):
    """Refine bounds only a little."""
