"""Masked patches: visible patches and targets restore the image."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.objectives.masked_patches import (
    MASKED_VALUE,
    choose_patches,
    mask_patches,
    masked_indices,
    restore_patches,
)


@given(count=st.integers(1, 20), masking_rate=st.floats(0.01, 0.99), seed=st.integers(0, 99))
def test_visible_patches_and_targets_restore_the_image(
    count: int, masking_rate: float, seed: int
) -> None:
    patches = np.random.default_rng(seed).random((count, 3)).astype(np.float32)
    masked = choose_patches(count, masking_rate=masking_rate, generator=np.random.default_rng(seed))
    visible, targets = mask_patches(patches, masked)
    assert len(masked) == len(set(masked.tolist())) == max(1, round(masking_rate * count))
    assert (np.diff(masked) > 0).all()
    assert (visible[masked] == MASKED_VALUE).all()
    assert np.array_equal(masked_indices(visible), masked)
    assert np.array_equal(restore_patches(visible, targets), patches)
    unmasked = np.setdiff1d(np.arange(count), masked)
    assert np.array_equal(visible[unmasked], patches[unmasked])


def test_patches_are_masked_uniformly() -> None:
    generator = np.random.default_rng(0)
    drawn = [choose_patches(16, masking_rate=0.25, generator=generator) for _ in range(400)]
    counts = np.bincount(np.concatenate(drawn), minlength=16)
    assert counts.sum() == 1600
    assert (abs(counts - 100) < 40).all()  # 100 each, with a standard deviation of 8.7
