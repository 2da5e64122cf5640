"""The public functions, named as the commands: these parse arguments, call them, and print.

run = regard.train("recipes/mini-gpt.toml")             regard.report(run.folder)
model = regard.load(run.folder)
model.generate(["The list"])                            model.loss(["One sentence."])
outcome = regard.compare("recipes/masking.toml")        outcome.verdicts, outcome.estimates()

A notebook shows runs, studies, evaluations, audits, ledgers, lessons and masks as their pages do.
Progress is shown in a notebook or a terminal unless an `observer` is given; `SILENT` shows none.
"""

from __future__ import annotations

from regard.core.process.garbage_collection import uncollected_imports

with uncollected_imports():
    from regard.api.arguments import catalogs, load_parts
    from regard.api.evaluation import errors, evaluate
    from regard.api.experiments import memory_per_rank, report, train, validate
    from regard.api.judging import judge
    from regard.api.lessons import lesson
    from regard.api.models import (
        audit,
        export_model,
        import_model,
        inspect,
        ledger,
        load,
        predict,
    )
    from regard.api.studies import compare, plan, sweep
    from regard.core.html_display import HtmlDisplay

__all__ = [
    "audit",
    "catalogs",
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
    "load_parts",
    "memory_per_rank",
    "plan",
    "predict",
    "report",
    "sweep",
    "train",
    "validate",
]


def _render_html(result: HtmlDisplay) -> str:
    from regard.reports.fragments import to_html

    return to_html(result)


HtmlDisplay.render_html = _render_html
