"""A recorder takes the attention weights of one pass through a model, each under its name.

Names say where an attention stands, blocks counted from 0: `block.3.attention`; in an
encoder-decoder `encoder.block.0.attention`, `decoder.block.0.cross_attention`.
Shapes: b batch, h heads, i query, j key.
"""

from __future__ import annotations

from torch import Tensor


class AttentionRecorder:
    """Passed along by the parts of a model; each attention leaves its weights here."""

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] = {}
        "(b,h,i,j) by name, in the order of the pass."
        self.without: list[str] = []
        "Attentions that were asked and have no weights to give."
        self._before = ""

    def inside(self, part: str) -> AttentionRecorder:
        """The same record, as a part of the model sees it: its names begin with `part`."""
        inner = AttentionRecorder()
        inner.weights, inner.without = self.weights, self.without
        inner._before = f"{self._before}{part}."
        return inner

    def take(self, name: str, weights: Tensor | None) -> None:
        whole = self._before + name
        if whole in self.weights or whole in self.without:
            raise ValueError(f"{whole} is recorded already: each pass takes a recorder of its own")
        if weights is None:
            self.without.append(whole)
        else:
            self.weights[whole] = weights


def inside(recorder: AttentionRecorder | None, part: str) -> AttentionRecorder | None:
    """What to pass on to a part, where there is a recorder at all."""
    return None if recorder is None else recorder.inside(part)
