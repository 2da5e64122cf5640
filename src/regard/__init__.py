"""regard: a workbench for Transformers, for experiments that cannot quietly fool you.

The public names are loaded when first used, so `import regard` costs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from regard.api import (
        Loaded,
        audit,
        evaluate,
        export_model,
        import_model,
        inspect,
        ledger,
        load,
        predict,
        train,
    )
    from regard.attention import mask
    from regard.attention.attend import attend
    from regard.errors import UserError
    from regard.recipe import Recipe
    from regard.study.report import write_report as report

_HOMES = {
    "Loaded": "regard.api:Loaded",
    "Recipe": "regard.recipe:Recipe",
    "UserError": "regard.errors:UserError",
    "attend": "regard.attention.attend:attend",
    "audit": "regard.api:audit",
    "evaluate": "regard.api:evaluate",
    "export_model": "regard.api:export_model",
    "import_model": "regard.api:import_model",
    "inspect": "regard.api:inspect",
    "ledger": "regard.api:ledger",
    "load": "regard.api:load",
    "mask": "regard.attention.mask",
    "predict": "regard.api:predict",
    "report": "regard.study.report:write_report",
    "train": "regard.api:train",
}

__all__ = [
    "Loaded",
    "Recipe",
    "UserError",
    "__version__",
    "attend",
    "audit",
    "evaluate",
    "export_model",
    "import_model",
    "inspect",
    "ledger",
    "load",
    "mask",
    "predict",
    "report",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return __all__
