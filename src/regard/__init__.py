"""regard: a workbench for Transformers, for experiments that cannot quietly fool you.

The public names are loaded when first used, so `import regard` costs no torch.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
imported_at = time.time()
"Seconds since 1970."

if TYPE_CHECKING:
    from regard.api import (
        audit,
        compare,
        errors,
        evaluate,
        export_model,
        import_model,
        inspect,
        judge,
        ledger,
        lesson,
        load,
        plan,
        predict,
        report,
        sweep,
        train,
        validate,
    )
    from regard.api.text_classifier import TextClassifier
    from regard.attention.attend import attend
    from regard.attention.masks import mask
    from regard.audits.audited import audited
    from regard.core.errors import UserError
    from regard.runs.models.loaded_model import LoadedModel
    from regard.runs.recipe import Recipe

_HOMES = {
    "TextClassifier": "regard.api.text_classifier:TextClassifier",
    "LoadedModel": "regard.runs.models.loaded_model:LoadedModel",
    "Recipe": "regard.runs.recipe:Recipe",
    "UserError": "regard.core.errors:UserError",
    "attend": "regard.attention.attend:attend",
    "audit": "regard.api:audit",
    "audited": "regard.audits.audited:audited",
    "compare": "regard.api:compare",
    "errors": "regard.api:errors",
    "evaluate": "regard.api:evaluate",
    "export_model": "regard.api:export_model",
    "import_model": "regard.api:import_model",
    "inspect": "regard.api:inspect",
    "judge": "regard.api:judge",
    "ledger": "regard.api:ledger",
    "lesson": "regard.api:lesson",
    "load": "regard.api:load",
    "mask": "regard.attention.masks.mask",
    "plan": "regard.api:plan",
    "predict": "regard.api:predict",
    "report": "regard.api:report",
    "sweep": "regard.api:sweep",
    "train": "regard.api:train",
    "validate": "regard.api:validate",
}

__all__ = [
    "LoadedModel",
    "Recipe",
    "TextClassifier",
    "UserError",
    "__version__",
    "attend",
    "audit",
    "audited",
    "compare",
    "errors",
    "evaluate",
    "export_model",
    "import_model",
    "inspect",
    "judge",
    "ledger",
    "lesson",
    "load",
    "mask",
    "plan",
    "predict",
    "report",
    "sweep",
    "train",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return __all__
