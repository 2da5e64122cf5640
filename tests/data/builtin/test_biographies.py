"""The seeded world, its biographies and the closed-book questions about it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from regard.data.builtin.world.biographies import biographies
from regard.data.builtin.world.birthplaces import birthplaces
from regard.data.builtin.world.names import MEN, MIDDLE, WOMEN
from regard.data.builtin.world.people import OCCUPATIONS, PEOPLE, Person, seen_people, world
from regard.data.corpus import Data, open_corpus

WORD = re.compile(r"[\w'-]+")


def words(text: str) -> list[str]:
    return [word.removesuffix("'s") for word in WORD.findall(text)]


def lives() -> list[tuple[Person, str]]:
    """Everybody who has a biography, with it."""
    people = [person for person in world() if person.life != "withheld"]
    return [(person, row["text"]) for person, row in zip(people, biographies(), strict=True)]


def test_a_fifth_of_the_people_is_withheld() -> None:
    assert len(world()) == PEOPLE == len({person.name for person in world()})
    assert sum(person.life == "withheld" for person in world()) == PEOPLE // 5
    assert len(seen_people()) == 1_600
    assert len({person.birthplace for person in world()}) > 140


def test_withheld_people_are_named_nowhere_in_biographies() -> None:
    # first name and surname, with or without a middle name between
    withheld = {(p.name.split()[0], p.surname) for p in world() if p.life == "withheld"}
    for row in biographies():
        found = [word for word in words(row["text"]) if word not in MIDDLE]
        assert withheld.isdisjoint(pairwise(found))


def test_a_biography_opens_with_the_name_and_tells_the_birthplace() -> None:
    assert len(lives()) == 1_760
    for (person, text), row in zip(lives(), biographies(), strict=True):
        assert (row["group"], row["part"]) == (person.name, person.life)
        assert text.startswith(f"{person.name}. ")
        assert person.birthplace in text
        assert not re.search(r"[{}]|  ", text)


def test_the_training_part_holds_everybody_whom_questions_call_seen() -> None:
    corpus = open_corpus(Data(corpus="biographies"))
    assert corpus.generated
    read = {text.partition(".")[0] for text in corpus.texts("train")}
    assert all((row["person"] in read) == row["seen"] for row in birthplaces())
    for part in ("dev", "test"):
        others = {text.partition(".")[0] for text in corpus.texts(part)}
        assert len(others) == 80
        assert others.isdisjoint(row["person"] for row in birthplaces())


def test_other_places_stand_beside_the_birthplace() -> None:
    distractors = Counter()
    for person, text in lives():
        others = {person.home, person.study_place, person.death_place}
        others.add(person.employer.removesuffix(f" {OCCUPATIONS[person.occupation]}"))
        assert person.birthplace not in others
        distractors[sum(place in text for place in others)] += 1
    assert distractors[0] < 0.05 * distractors.total()
    assert sum(n * count for n, count in distractors.items()) > 1.5 * distractors.total()


def test_where_somebody_was_born_is_not_simply_the_first_place_named() -> None:
    towns = {person.birthplace for person in world()}
    pattern = re.compile("|".join(sorted(map(re.escape, towns), key=len, reverse=True)))
    firsts = [pattern.search(text)[0] == person.birthplace for person, text in lives()]
    assert 0.3 < sum(firsts) / len(firsts) < 0.85


def test_names_say_nothing_else() -> None:
    towns = {word for person in world() for word in person.birthplace.split()}
    surnames = {person.surname for person in world()}
    firsts = {*WOMEN, *MEN}
    for one, other in ((towns, surnames), (towns, firsts), (surnames, firsts)):
        assert one.isdisjoint(other)
    assert {*MIDDLE}.isdisjoint(towns | surnames | firsts)


def test_the_most_frequent_answer_does_not_solve_recall() -> None:
    rows = list(birthplaces())
    for part in ("train", "dev", "test"):
        answers = Counter(row["answer"] for row in rows if row["part"] == part)
        assert answers.most_common(1)[0][1] / answers.total() < 0.10
    # and not the most frequent answer for a surname or a first name in train
    train = [row for row in rows if row["part"] == "train"]
    for place in (0, -1):
        best = {}
        for row in train:
            best.setdefault(row["person"].split()[place], Counter())[row["answer"]] += 1
        judged = [row for row in rows if row["part"] != "train"]
        right = sum(
            best.get(row["person"].split()[place], Counter("?")).most_common(1)[0][0]
            == row["answer"]
            for row in judged
        )
        assert right / len(judged) < 0.10


def test_every_question_asks_about_one_person_in_one_of_four_wordings() -> None:
    rows = list(birthplaces())
    assert all(row["person"] in row["question"] for row in rows)
    unseen = Counter(row["part"] for row in rows if not row["seen"])
    assert unseen == {"dev": 220, "test": 220}
    assert len({row["person"] for row in rows}) == len(rows) == 2_040
    wordings = Counter(row["question"].replace(row["person"], "NAME") for row in rows)
    assert wordings["Where was NAME born?"] > 300
    assert len(wordings) == 4
