"""Sign flips: a permutation test of paired differences (Fisher, 1935).

    p = fraction of the 2^S choices of signs with  |Σ ± d_s| ≥ |Σ d_s|

Exact for differences that are symmetric about 0 under the null, whatever their distribution: no
normality is assumed. The smallest p it can give is 2 / 2^S, so it needs 6 seeds for 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MAX_ENUMERATED = 15
"With more seeds, 2^14 random choices of signs are drawn."


def smallest_p(seeds: int) -> float:
    """The p of differences that all have one sign."""
    return min(1.0, 2.0 ** (1 - seeds))


def sign_flip_p(differences: Sequence[float]) -> float:
    """Two-sided p of a mean of zero."""
    # Sorted, so that random signs do not depend on the order of the seeds.
    values = np.sort(np.abs(np.asarray(differences, dtype=np.float64)))
    observed = abs(float(np.sum(differences)))
    seeds = len(values)
    enough = observed - 1e-9 * float(values.sum())
    if seeds <= MAX_ENUMERATED:
        # The sign of one difference is fixed: flipping all of them changes no absolute sum.
        codes = np.arange(2 ** (seeds - 1))[:, None]
        signs = 1 - 2 * ((codes >> np.arange(seeds)) & 1)
        return float((np.abs(signs @ values) >= enough).mean())
    flips = 2**14
    signs = 1 - 2 * np.random.default_rng(0).integers(0, 2, size=(flips, seeds))
    # The observed signs are one of the choices.
    return float((1 + (np.abs(signs @ values) >= enough).sum()) / (1 + flips))
