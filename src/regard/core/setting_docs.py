"""The string under a settings field documents it: read from the source, when somebody asks.

pydantic's `use_attribute_docstrings` reads the source of every class while it is imported, which
cost a third of regard's own import time; most imports show no help text.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache


def setting_docs(cls: type) -> dict[str, str]:
    """The documentation of each field of a settings class, its bases included, by field name."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if "__annotations__" in vars(base):
            docs |= _own_docs(base)
    return docs


@cache
def _own_docs(cls: type) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # built in, or defined where no source is kept
        return {}
    definition = ast.parse(source).body[0]
    assert isinstance(definition, ast.ClassDef)
    docs = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(doc))),
            ):
                docs[name] = inspect.cleandoc(doc)
    return docs
