"""Masked patches: some squares of an image are hidden, and told from the rest.

    image  ─►  shown: hidden patches hold −1, which no ink is          told: what they held

Pure functions of (patches, generator), as objectives are; a task packs them with its words, since
what they hide are numbers and not tokens. He et al., 2022. Shapes: p patches, k numbers in each, n
hidden patches.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regard.batch import Ints

HIDDEN = -1.0
"Stands for each number of a hidden patch; pixels are between 0 and 1."

Numbers = NDArray[np.float32]


def chosen_patches(patches: int, *, share: float, generator: np.random.Generator) -> Ints:
    """(n): which patches are hidden, in order; at least one, and always as many."""
    count = min(patches, max(1, round(share * patches)))
    return np.sort(generator.permutation(patches)[:count])


def hide(patches: Numbers, chosen: Ints) -> tuple[Numbers, Numbers]:
    """(p,k), (n) -> shown (p,k) and told (n,k)"""
    shown = patches.copy()
    shown[chosen] = HIDDEN
    return shown, patches[chosen]


def reveal(shown: Numbers, told: Numbers) -> Numbers:
    """The image again, from what was shown and what was to be told of it."""
    patches = shown.copy()
    patches[hidden_in(shown)] = told
    return patches


def hidden_in(shown: Numbers) -> Ints:
    """(n): which patches are hidden."""
    return np.flatnonzero((shown == HIDDEN).all(axis=1))
