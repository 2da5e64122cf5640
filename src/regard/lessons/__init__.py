"""Lessons: small experiments that check one claim by computing it, each with one chart.

To add a lesson, write a function into any file of `lessons/topics/`:

    from regard.lessons import Lesson, LessonTable, Range, Seed, lesson, line_chart, near

    @lesson("average-of-two", topic="attention by hand")
    def average_of_two(*, beta: Annotated[float, Range(1, 50)] = 20, seed: Seed = 0) -> Lesson:
        \"\"\"Which query returns the average of two values?

        With orthonormal keys, q = β(k_a + k_b) gives … (the claim, and why it holds, in two or
        three sentences).\"\"\"
        …
        return Lesson(
            table=LessonTable(("β", "error"), rows),
            chart=line_chart(rows_of_dicts, x="β", y="error", log="y"),
            caption="One sentence: what the chart shows.",
            checks=[near("weight on a and b", weights.sum(), 1, within=1e-6)],
            see_also=["attention/attend.py", "recipes/masking.toml"],
        )

A lesson calls the library (`attend`, masks, kinds, …) and never copies a formula. Its keyword
arguments carry ranges, so that `--set beta=20` and a page's slider can check them. A lesson that
trains declares `duration="a minute"`; its tests are marked long. Its exercise, if any, follows in
the same file under `@exercise("average-of-two")`: see `lessons/exercise.py`.
"""

from regard.lessons.draws import rounded_normal, standard_normal
from regard.lessons.exercise import (
    EXERCISES,
    Answer,
    ExerciseSheet,
    Heatmap,
    Mark,
    Slot,
    exercise,
    mark_mask,
    max_difference,
)
from regard.lessons.lesson import (
    ChartFunction,
    Check,
    Lesson,
    LessonTable,
    above,
    below,
    equal,
    near,
)
from regard.lessons.lesson_charts import bar_chart, heatmap, line_chart
from regard.lessons.parameters import Parameter, Range, Seed, declared_parameters
from regard.lessons.registry import LESSONS, LessonInfo, lesson, lesson_info, lessons_by_topic
from regard.lessons.run_lesson import LessonRun, run_lesson

__all__ = [
    "EXERCISES",
    "LESSONS",
    "Answer",
    "ChartFunction",
    "Check",
    "ExerciseSheet",
    "Heatmap",
    "Lesson",
    "LessonInfo",
    "LessonRun",
    "LessonTable",
    "Mark",
    "Parameter",
    "Range",
    "Seed",
    "Slot",
    "above",
    "bar_chart",
    "below",
    "declared_parameters",
    "equal",
    "exercise",
    "heatmap",
    "lesson",
    "lesson_info",
    "lessons_by_topic",
    "line_chart",
    "mark_mask",
    "max_difference",
    "near",
    "rounded_normal",
    "run_lesson",
    "standard_normal",
]
