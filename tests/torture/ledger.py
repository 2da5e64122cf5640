"""docs/reliability.json: how many trials of each target were run, when, and what they came to.

Trial n of a target is the same trial for ever, so a session goes on where the last one ended, and
the counts of several days and machines add up. docs/reliability.md is written from this file alone.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.torture.harness import FAILURES, Session

from regard.core.files import write_json, write_text

FILE = Path(__file__).parents[2] / "docs" / "reliability.json"
PAGE = FILE.with_suffix(".md")


def read() -> dict[str, Any]:
    if not FILE.is_file():
        return {"sessions": [], "found": []}
    table: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return table


def trials_done(target: str) -> int:
    """Number of the first trial that was not run yet."""
    return max(
        (one["last"] + 1 for one in read()["sessions"] if one["target"] == target), default=0
    )


def record(session: Session) -> None:
    """Add a session, and write the page."""
    table = read()
    table["sessions"].append(
        {
            "target": session.target,
            "date": datetime.now(UTC).date().isoformat(),
            "first": session.first,
            "last": session.last,
            "seconds": round(session.seconds),
            "outcomes": dict(session.outcomes.most_common()),
            "failures": session.failures,
        }
    )
    write_json(FILE, table)
    write_page()


def failed_trials(target: str) -> list[int]:
    """Numbers of the trials that failed when they were counted."""
    sessions = [one for one in read()["sessions"] if one["target"] == target]
    failures = [line.removeprefix(f"{target} ") for one in sessions for line in one["failures"]]
    return sorted({int(line.partition(":")[0]) for line in failures})


def record_repeated(session: Session) -> None:
    """How many of the trials that failed pass now; their first outcome stays in the counts."""
    table = read()
    kept = [one for one in table.get("repeated", []) if one["target"] != session.target]
    passed = session.outcomes.total() - len(session.failures)
    table["repeated"] = [*kept, {"target": session.target, "passed": passed}]
    write_json(FILE, table)
    write_page()


def write_page() -> None:
    write_text(PAGE, page())


def page() -> str:
    """docs/reliability.md"""
    from tests.torture.catalogue import find_targets

    table = read()
    sessions: list[dict[str, Any]] = table["sessions"]
    lines = [
        HEAD,
        "| target | trials | of | failed at first | since mended | what happened | dates |",
    ]
    lines.append("|---|---:|---:|---:|---:|---|---|")
    for target in find_targets():
        mine = [one for one in sessions if one["target"] == target.name]
        outcomes: dict[str, int] = {}
        for one in mine:
            for word, count in one["outcomes"].items():
                outcomes[word] = outcomes.get(word, 0) + count
        total, failed = sum(outcomes.values()), sum(outcomes.get(word, 0) for word in FAILURES)
        shown = ", ".join(f"{word} {count:,}" for word, count in outcomes.items())
        dates = sorted({one["date"] for one in mine})
        days = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else ""
        again = [one for one in table.get("repeated", []) if one["target"] == target.name]
        mended = sum(one["passed"] for one in again)
        lines.append(
            f"| {target.name}: {target.what} | {total:,} | {target.full:,} | {failed} | {mended} "
            f"| {shown or 'not run yet'} | {days} |"
        )
    lines += ["", "## What was found", ""]
    lines += [f"- {found}" for found in table["found"]] or ["- nothing yet"]
    return "\n".join(lines) + "\n" + TAIL


HEAD = """# Reliability

What was done to regard to make it lie, crash, hang or lose something. `make torture` runs it \
(`make torture TORTURE=0.01` takes minutes), `tests/torture/` holds it, and this page is written \
from docs/reliability.json. Trial n of a target always draws from the seed n; sessions go on where \
the last one ended, so counts add up over days and machines.

A trial fails if a damaged file is shown as good (believed), a command ends with a traceback, exit \
code 70 or a signal (crashed), there is no end in time (hung), or a run ends with other bits or \
less than without the fault (lost). All other words say what happened instead.
"""

TAIL = """
## What is not covered yet

Power loss and network folders are played by a layer below Python's own calls: it does not know a \
disk's cache, what libraries in C or Rust read late, or a server that answers wrongly. Studies are \
trained in one process here, as their workers are killed by the tests of the local engine alone. \
Nothing is done to other engines or to ranks.
"""
