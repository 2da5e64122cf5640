"""Hidden patches come back whole from what is shown and what is told."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from regard.objectives.masked_patches import HIDDEN, chosen_patches, hidden_in, hide, reveal


@given(count=st.integers(1, 20), share=st.floats(0.01, 0.99), seed=st.integers(0, 99))
def test_what_is_shown_and_told_is_the_image(count: int, share: float, seed: int) -> None:
    patches = np.random.default_rng(seed).random((count, 3)).astype(np.float32)
    chosen = chosen_patches(count, share=share, generator=np.random.default_rng(seed))
    shown, told = hide(patches, chosen)
    assert len(chosen) == len(set(chosen.tolist())) == max(1, round(share * count))
    assert (np.diff(chosen) > 0).all()
    assert (shown[chosen] == HIDDEN).all()
    assert np.array_equal(hidden_in(shown), chosen)
    assert np.array_equal(reveal(shown, told), patches)
    untouched = np.setdiff1d(np.arange(count), chosen)
    assert np.array_equal(shown[untouched], patches[untouched])


def test_every_patch_has_its_turn() -> None:
    generator = np.random.default_rng(0)
    drawn = [chosen_patches(16, share=0.25, generator=generator) for _ in range(400)]
    times = np.bincount(np.concatenate(drawn), minlength=16)
    assert times.sum() == 1600
    assert (abs(times - 100) < 40).all()  # 100 each, give or take 8.7
