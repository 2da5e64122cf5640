"""Masked patches: some patches of an image are masked, and predicted from the rest.

    image  ─►  visible: masked patches hold −1, which no pixel is      targets: their pixel values

Pure functions of (patches, generator), as objectives are; a task packs them into its rows, since
they mask pixel values and not tokens. He et al., 2022 (masked autoencoders). Shapes: p patches,
k values a patch, n masked patches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.batch import Ints

MASKED_VALUE = -1.0
"Replaces each value of a masked patch; pixels are between 0 and 1."

Floats = NDArray[np.float32]


def choose_patches(patches: int, *, masking_rate: float, generator: np.random.Generator) -> Ints:
    """(n): indices of the patches to mask, in order; at least one, and the same number each
    time."""
    count = min(patches, max(1, round(masking_rate * patches)))
    return np.sort(generator.permutation(patches)[:count])


def mask_patches(patches: Floats, masked: Ints) -> tuple[Floats, Floats]:
    """(p,k), (n) -> visible (p,k) and targets (n,k)"""
    visible = patches.copy()
    visible[masked] = MASKED_VALUE
    return visible, patches[masked]


def restore_patches(visible: Floats, targets: Floats) -> Floats:
    """The inverse of `mask_patches`."""
    patches = visible.copy()
    patches[masked_indices(visible)] = targets
    return patches


def masked_indices(visible: Floats) -> Ints:
    """(n): indices of the masked patches."""
    return np.flatnonzero((visible == MASKED_VALUE).all(axis=1))
