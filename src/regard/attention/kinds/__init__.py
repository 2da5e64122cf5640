"""Every kind of attention, one file each. A kind's settings build its rule for a head's shape."""

from __future__ import annotations

from abc import ABC, abstractmethod

from regard.attention.rule import HeadShape, Rule
from regard.catalog import Catalog
from regard.settings import Settings

ATTENTION = Catalog("attention", home="regard.attention.kinds")


class AttentionKind(Settings, ABC):
    """Settings from which a rule is built."""

    @abstractmethod
    def build(self, shape: HeadShape) -> Rule: ...
