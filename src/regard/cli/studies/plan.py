"""`regard plan`: the trainings of a study as commands, for another scheduler."""

from __future__ import annotations

import sys

from regard.cli.console import AsJson, UserFiles, print_json, side_console
from regard.cli.studies.compare import Out, Seeds, StudyFile, parse_seeds


def plan(
    study: StudyFile,
    out: Out = None,
    seeds: Seeds = "",
    user_files: UserFiles = None,
    as_json: AsJson = False,
) -> None:
    """Print one command per training of a study that is left to run.

    Any scheduler can run them, in any order and in parallel, where it sees this folder. `regard
    compare STUDY` then collects and judges. Trials and initial models come first: then run `regard
    plan` again after them."""
    from regard import api
    from regard.evaluation.formatting import quantity
    from regard.progress.training_display import training_display

    with training_display(side_console()) as observer:
        planned = api.plan(
            study,
            out=out,
            seeds=parse_seeds(seeds),
            user_files=user_files or (),
            observer=observer,
        )
    if as_json:
        print_json(planned.as_dict())
        return
    waiting = [one for one in planned.trainings if not one.is_running]
    for one in waiting:
        print(one.line)
    running = len(planned.trainings) - len(waiting)
    still = f" ({running} more are running)" if running else ""
    text = (
        f"{quantity(len(waiting), 'trainings')}{still}"
        if planned.trainings
        else "every training has ended"
    )
    print(f"{text}; then: {planned.then}", file=sys.stderr)
