"""Attention maps: a recorder collects the attention weights of one forward pass by name.

Names give the module path, blocks counted from 0: `block.3.attention`; in an encoder-decoder
`encoder.block.0.attention`, `decoder.block.0.cross_attention`.
Shapes: b batch, h heads, i query, j key.
"""

from __future__ import annotations

from torch import Tensor


class AttentionRecorder:
    """Passed down through the modules of a model; each attention records its weights here."""

    def __init__(self) -> None:
        self.weights: dict[str, Tensor] = {}
        "(b,h,i,j) by name, in the order of the forward pass."
        self.missing: list[str] = []
        "Attentions that compute no weights."
        self._prefix = ""

    def scope(self, name: str) -> AttentionRecorder:
        """The same record for a submodule: its names are prefixed with `name`."""
        inner = AttentionRecorder()
        inner.weights, inner.missing = self.weights, self.missing
        inner._prefix = f"{self._prefix}{name}."
        return inner

    def record(self, name: str, weights: Tensor | None) -> None:
        path = self._prefix + name
        if path in self.weights or path in self.missing:
            raise ValueError(f"{path} is recorded already: use a new recorder for each pass")
        if weights is None:
            self.missing.append(path)
        else:
            self.weights[path] = weights


def scoped(recorder: AttentionRecorder | None, name: str) -> AttentionRecorder | None:
    """The recorder to pass to a submodule, if there is one."""
    return None if recorder is None else recorder.scope(name)
