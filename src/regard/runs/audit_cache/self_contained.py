"""Whether a user's Python file does the same wherever it runs: nothing outside decides.

A file that imports other packages, reads a file or asks for the environment, the time or chance may
do something else tomorrow with the same source. The scan is conservative: what it does not know
counts as something outside.
"""

from __future__ import annotations

import ast
import sys

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
ASKING_VERBS = ("fetch", "from_file", "getenv", "load", "open", "read")
"So begin functions that bring something in: `open_memmap`, `read_text`."
OUTSIDE_MODULES = {*sys.stdlib_module_names, *sys.builtin_module_names} - {*SAME_EVERYWHERE}
"Torch and others import these, and have them as attributes: `torch.os.environ`."

CHANGES = {"setattr", "delattr"}
"Changes what its argument names."


def is_self_contained(source: bytes) -> bool:
    """Whether the file imports and names only what is the same everywhere."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return all(_is_the_same(node) for node in ast.walk(tree))


def leaves_nothing_behind(source: bytes) -> bool:
    """Whether the file, executed again in the same process, finds everything as the first time: it
    is self-contained, and changes nothing of the packages it imports."""
    if not is_self_contained(source):
        return False
    nodes = [*ast.walk(ast.parse(source))]
    foreign = {alias.asname or alias.name for node in nodes for alias in _imports(node)}
    for node in nodes:  # another name for something foreign
        if isinstance(node, ast.Assign) and _root(node.value) in foreign:
            foreign |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return not any(
        (isinstance(node, ast.Name) and node.id in CHANGES)
        or (
            isinstance(node, ast.Attribute | ast.Subscript)
            and not isinstance(node.ctx, ast.Load)
            and _root(node) in foreign
        )
        for node in nodes
    )


def _imports(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import | ast.ImportFrom) else []


def _root(node: ast.AST) -> str:
    """`torch` of `torch.nn.functional.softmax`; of anything but such a chain, nothing."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_the_same(node: ast.AST) -> bool:
    match node:
        case ast.Import():
            return all(_is_known(alias.name) for alias in node.names)
        case ast.ImportFrom():
            names = [alias.name for alias in node.names]
            return not node.level and _is_known(node.module or "") and not any(map(_asks, names))
        case ast.Name():
            return node.id not in ASKS_OUTSIDE
        case ast.Attribute():
            return not _asks(node.attr)
    return True


def _asks(name: str) -> bool:
    """Whether an attribute of a package may be, or lead to, something outside."""
    return name in _OUTSIDE or name.startswith(ASKING_VERBS)


_OUTSIDE = OUTSIDE_ATTRIBUTES | ASKS_OUTSIDE | OUTSIDE_MODULES


def _is_known(module: str) -> bool:
    first, *steps = module.split(".")
    return first in SAME_EVERYWHERE and not any(map(_asks, steps))
