"""Corpora that need no network: each is one file here, a function that yields texts.

    @BUILTIN.add("python-docs", generated=False, identity=...)
    def python_docs() -> Iterator[Text]: ...

`generated` says whether a program made the texts up, which every report repeats; `identity` gives
(name, size, SHA-256) of what the texts are made from, so that a change makes a new token cache.
"""

from __future__ import annotations

from regard.catalog import Catalog

BUILTIN = Catalog("corpus", home="regard.text.builtin")
