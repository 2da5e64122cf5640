"""Whether a user's Python file does the same wherever it runs: nothing outside decides.

A file that imports other packages, reads a file or asks for the environment, the time or chance may
do something else tomorrow with the same source. The scan is conservative: what it does not know
counts as something outside.
"""

from __future__ import annotations

import ast

SAME_EVERYWHERE = (
    *("__future__", "abc", "collections", "dataclasses", "enum", "functools", "itertools", "math"),
    *("numpy", "operator", "pydantic", "regard", "torch", "typing"),
)
"Packages whose versions regard knows, or of Python itself, that ask for nothing outside."
ASKS_OUTSIDE = {
    *("__builtins__", "__import__", "compile", "eval", "exec", "input", "open"),
    *("getattr", "globals", "id", "hash", "locals", "vars"),
}
OUTSIDE_ATTRIBUTES = {
    *("DataSource", "ctypeslib", "from_file", "fromfile", "genfromtxt", "hub", "load", "loadtxt"),
    *("memmap", "ops", "random", "utils", "initial_seed", "seed", "get_rng_state"),
    *("__class__", "__dict__", "__globals__", "__loader__", "__spec__", "__subclasses__"),
}
"Of torch, numpy and regard: what reads files, loads code, or draws."


def is_self_contained(source: bytes) -> bool:
    """Whether the file imports and names only what is the same everywhere."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return all(_is_the_same(node) for node in ast.walk(tree))


def _is_the_same(node: ast.AST) -> bool:
    match node:
        case ast.Import():
            return all(_is_known(alias.name) for alias in node.names)
        case ast.ImportFrom():
            names = {alias.name for alias in node.names}
            return not node.level and _is_known(node.module or "") and not names & _OUTSIDE
        case ast.Name():
            return node.id not in ASKS_OUTSIDE
        case ast.Attribute():
            return node.attr not in OUTSIDE_ATTRIBUTES
    return True


_OUTSIDE = OUTSIDE_ATTRIBUTES | ASKS_OUTSIDE


def _is_known(module: str) -> bool:
    steps = module.split(".")
    return steps[0] in SAME_EVERYWHERE and not _OUTSIDE & set(steps)
