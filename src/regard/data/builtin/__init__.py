"""Data that needs no network: each set is one file here, a function that yields texts or records.

    @BUILTIN.add("python-docs", generated=False, identity=...)
    def python_docs() -> Iterator[Text]: ...

    @BUILTIN.add("opinions", generated=True, identity=..., columns=("text", "label"))
    def opinions() -> Iterator[dict[str, Any]]: ...

`generated` says whether a program made the texts up, which every report repeats; `identity` gives
(name, size, SHA-256) of what the texts are made from, so that a change makes a new token cache.
With `columns`, each dict holds these, and where the set has them `part` ("train", "dev" or "test",
of a split of its own) and `group` (rows of one group always stay in the same part).
"""

from __future__ import annotations

from regard.core.catalog import Catalog

BUILTIN = Catalog("corpus", home="regard.data.builtin")
