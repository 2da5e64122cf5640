"""Lessons: small runs whose claim is checked by numbers, each with one picture.

To add one, write a function into a file of `lessons/topics/` (any file there is found):

    @lesson("average-of-two", topic="attention by hand")
    def average_of_two(*, beta: Annotated[float, Range(1, 50)] = 20, seed: Seed = 0) -> Lesson:
        \"\"\"Which query returns the average of two values?

        With orthonormal keys, q = β(k_a + k_b) gives … (the claim, and why it holds, in two or
        three sentences).\"\"\"
        …
        return Lesson(
            table=LessonTable(("β", "error"), rows),
            chart=curves(rows_of_dicts, x="β", y="error", log="y"),
            caption="One sentence: what the chart shows.",
            checks=[near("weight on a and b", weights.sum(), 1, within=1e-6)],
            see=["attention/attend.py", "recipes/masking.toml"],
        )

It uses the real parts (`attend`, masks, kinds, …), never a copy of a formula. Its keyword arguments
carry ranges, so that `--set beta=20` and a page's slider know them. One that trains says
`takes="a minute"`; its tests are then not run among the quick ones. An exercise of the same name
stands beside it, under `@exercise("average-of-two")`: see `lessons/exercise.py`.
"""

from regard.lessons.lesson import Check, Lesson, LessonTable, above, below, equal, near
from regard.lessons.parameters import Parameter, Range, Seed, parameters
from regard.lessons.registry import LESSONS, LessonInfo, about, lesson, lessons_by_topic
from regard.lessons.run_lesson import LessonRun, run_lesson

__all__ = [
    "LESSONS",
    "Check",
    "Lesson",
    "LessonInfo",
    "LessonRun",
    "LessonTable",
    "Parameter",
    "Range",
    "Seed",
    "about",
    "above",
    "below",
    "equal",
    "lesson",
    "lessons_by_topic",
    "near",
    "parameters",
    "run_lesson",
]
