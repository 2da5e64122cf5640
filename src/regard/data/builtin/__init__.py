"""Built-in data sets, available offline: each file has a function that yields texts or records.

    @BUILTIN.add("python-docs", generated=False, identity=...)
    def python_docs() -> Iterator[Text]: ...

    @BUILTIN.add("opinions", generated=True, identity=..., columns=("text", "label"))
    def opinions() -> Iterator[dict[str, Any]]: ...

`generated` marks synthetic text; every report mentions it. `identity` is (name, size, SHA-256) of
what the texts are made from, so that a change leads to a new token cache. With `columns`, each dict
has these keys and, if the set defines them, `split` ("train", "dev" or "test") and `group`
(rows of one group stay in the same split).
"""

from __future__ import annotations

from regard.core.catalog import Catalog

BUILTIN = Catalog("corpus", home="regard.data.builtin")
