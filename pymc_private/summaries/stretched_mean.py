"""A mean on a small reference, with value and derivatives of a large one at one point.

Likelihoods take the mean of what was released, as a function of the parameters, on few records
that are made up, since they are evaluated often. With m_N on these, and value m_W and derivatives W
at theta^ of many,

    m(theta) = m_W + S (m_N(theta) - m_N(theta^)) + (W - S N) (theta - theta^),    S = W N^-1,

N the derivatives of m_N there. Means of clipped numbers are bounded. Were all of W - N a term that
is linear in theta, as with S = I, that term would take over away from theta^, and posteriors could
have second modes. So S does all that its bounds allow; mostly nothing is left that is linear.
"""

from __future__ import annotations

import numpy as np

MOST_STRETCH = 4.0
"""S stretches no direction by more than this, nor less than its inverse."""
LEAST_OF_LARGEST = 1e-6
"""Singular values of N below this share of the largest count as 0, its columns being scaled to
those of W; before S is bounded, it leaves such directions."""


def stretch(wide: np.ndarray, narrow: np.ndarray) -> np.ndarray:
    """S = I + (W - N) N^+ of W `wide` and N `narrow`, shapes (p, p): W N^-1 if there is one.

    I where they are not finite.
    """
    if not (np.isfinite(wide).all() and np.isfinite(narrow).all()):
        return np.eye(len(narrow))
    sizes = np.linalg.norm(np.concatenate([wide, narrow]), axis=0)
    sizes[sizes == 0.0] = 1.0
    wide, narrow = wide / sizes, narrow / sizes  # units of the parameters are of no account
    inverse = np.linalg.pinv(narrow, rcond=LEAST_OF_LARGEST)
    whole = np.eye(len(narrow)) + (wide - narrow) @ inverse
    left, stretches, right = np.linalg.svd(whole)
    return np.asarray((left * np.clip(stretches, 1.0 / MOST_STRETCH, MOST_STRETCH)) @ right)
