"""A mean on a small reference, with value and derivatives of a large one at one point.

Likelihoods take the mean of what was released, as a function of the parameters, on few records
that are made up, since they are evaluated often. With m_N on these, and value m_W and derivatives W
at theta^ of many,

    m(theta) = m_W + S (m_N(theta) - m_N(theta^)) + (W - S N) (theta - theta^),    S = W N^-1,

N the derivatives of m_N there. Means of clipped numbers are bounded. Were all of W - N a term
linear in theta, as with S = I, that term would take over away from theta^: posteriors had second
modes. So S does all that its bounds allow, and the linear term is mostly 0.
"""

from __future__ import annotations

import numpy as np

MOST_STRETCH = 4.0
"""S stretches no direction by more than this, nor less than its inverse."""


def stretch(wide: np.ndarray, narrow: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S of derivatives `wide` and `narrow`, shapes (p, p), and what it leaves, wide - S narrow."""
    whole = np.linalg.lstsq(narrow.T, wide.T, rcond=None)[0].T
    left, sizes, right = np.linalg.svd(whole)
    found = (left * np.clip(sizes, 1.0 / MOST_STRETCH, MOST_STRETCH)) @ right
    return found, wide - found @ narrow
