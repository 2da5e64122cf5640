"""The documentation of the running Python: reference topics and standard-library docstrings.

Real English prose and code, about 290,000 words without duplicates, available offline. Sources are
parsed with `ast`, never imported. A document is a paragraph; its group is the topic, or the module
or module-level object whose docstrings hold it, so that no docstring straddles train and test. The
text varies with the Python version; its identity hashes every source file.
"""

from __future__ import annotations

import ast
import re
import sysconfig
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path

from regard.core.errors import UserError
from regard.core.process.garbage_collection import paused_collection
from regard.data.builtin import BUILTIN, Row
from regard.data.readers.lines import paragraphs

# Tests and bundled applications are not documentation, encodings are tables, and the rest is not
# Python's own or differs between builds of one version.
SKIPPED = {
    *("test", "tests", "idle_test", "idlelib", "lib2to3", "encodings", "turtledemo", "ensurepip"),
    *("site-packages", "dist-packages", "lib-dynload", "pydoc_data", "__pycache__", "__phello__"),
}
SKIPPED_STARTS = ("config-", "_sysconfigdata")
RULE = re.compile(r"^\s*([*=~^#+\"'`-])\1{2,}\s*$")
"A line that only underlines a title."
LAYOUT = re.compile(r"^(>>>|\.\.\.|[-*+•|] |\d+[.)] |\S+ +--? |\S*\s{3,}\S|[|+])|\S {3,}\S")
"A line whose layout matters: code, list items, tables."

Owned = tuple[str, str]
"(group, docstring)"


def library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def files() -> list[Path]:
    """Every file that is read, and this one, which shapes the text."""
    return [Path(__file__), *_files()]


@BUILTIN.add("python-docs", generated=False, files=files)
def python_docs() -> Iterator[Row]:
    """The reference topics and standard-library docstrings of the running Python."""
    groups: dict[str, str] = {}
    with paused_collection():
        for group, docstring in _docstrings():
            for paragraph in paragraphs(docstring.expandtabs().splitlines()):
                text = tidy(paragraph)
                if any(map(str.isalpha, text)):
                    groups.setdefault(text, group)
    if not groups:
        raise UserError(
            "this Python has neither its sources nor its topics on disk",
            topic="data",
            where="python-docs",
            hint="Use an ordinary installation of Python, or give a file of text.",
        )
    for text, group in groups.items():
        yield {"text": text, "group": group}


def tidy(paragraph: str) -> str:
    """Wrapped prose becomes one line; code, lists and tables keep their layout."""
    rows = [row.rstrip() for row in paragraph.split("\n") if not RULE.match(row)]
    rows = textwrap.dedent("\n".join(rows)).split("\n")
    wrapped = all(len(row) >= 40 for row in rows[:-1])
    if wrapped and not any(row.startswith(" ") or LAYOUT.search(row) for row in rows):
        return " ".join(" ".join(rows).split())
    return "\n".join(rows)


def _files() -> list[Path]:
    """The topics, then every module, sorted by path."""
    root = library()
    topics = root / "pydoc_data" / "topics.py"
    return [topics] * topics.exists() + list(_modules(root))


def _modules(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name in SKIPPED or entry.name.startswith(SKIPPED_STARTS):
            continue
        if entry.suffix == ".py":
            yield entry
        elif entry.is_dir():
            yield from _modules(entry)


def _docstrings() -> Iterator[Owned]:
    for file in _files():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in old modules are not the user's
            tree = ast.parse(file.read_bytes())
        if file.parent.name == "pydoc_data":
            yield from _topics(tree)
        else:
            yield from _module(tree, _dotted(file))


def _topics(tree: ast.Module) -> Iterator[Owned]:
    """`topics = {name: text, …}`"""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for name, text in sorted(ast.literal_eval(node).items()):
                yield f"topic {name}", text


def _module(tree: ast.Module, name: str) -> Iterator[Owned]:
    for node, owner in [(tree, name), *_definitions(tree.body, name)]:
        if docstring := ast.get_docstring(node):
            yield owner, docstring


Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(body: list[ast.stmt], owner: str) -> Iterator[tuple[Definition, str]]:
    """Classes and functions at any depth, each with its module-level owner."""
    for node in body:
        if isinstance(node, Definition):
            inner_owner = owner if ":" in owner else f"{owner}:{node.name}"
            yield node, inner_owner
            yield from _definitions(node.body, inner_owner)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            for inner in (getattr(node, field, []) for field in ("body", "orelse", "finalbody")):
                yield from _definitions(inner, owner)
            for handler in getattr(node, "handlers", []):
                yield from _definitions(handler.body, owner)


def _dotted(file: Path) -> str:
    parts = file.relative_to(library()).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
