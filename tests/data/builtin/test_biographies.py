"""The seeded world of people, its biographies and closed-book questions about it."""

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


def people_with_biographies() -> list[tuple[Person, str]]:
    """Everybody who has a biography, and its text."""
    people = [person for person in world() if person.life != "withheld"]
    return [(person, row["text"]) for person, row in zip(people, biographies(), strict=True)]


def test_one_person_in_five_is_withheld() -> None:
    assert len(world()) == PEOPLE == len({person.name for person in world()})
    assert sum(person.life == "withheld" for person in world()) == PEOPLE // 5
    assert len(seen_people()) == 1_600
    assert len({person.birthplace for person in world()}) > 140


def test_biographies_name_no_withheld_person() -> None:
    # first name and surname, with or without a middle name between
    withheld = {(p.name.split()[0], p.surname) for p in world() if p.life == "withheld"}
    for row in biographies():
        found = [word for word in words(row["text"]) if word not in MIDDLE]
        assert withheld.isdisjoint(pairwise(found))


def test_biography_starts_with_the_name_and_states_the_birthplace() -> None:
    assert len(people_with_biographies()) == 1_760
    for (person, text), row in zip(people_with_biographies(), biographies(), strict=True):
        assert (row["group"], row["split"]) == (person.name, person.life)
        assert text.startswith(f"{person.name}. ")
        assert person.birthplace in text
        assert not re.search(r"[{}]|  ", text)


def test_train_has_the_biography_of_everybody_marked_seen() -> None:
    corpus = open_corpus(Data(corpus="biographies"))
    assert corpus.generated
    in_train = {text.partition(".")[0] for text in corpus.texts("train")}
    assert all((row["person"] in in_train) == row["seen"] for row in birthplaces())
    for split in ("dev", "test"):
        others = {text.partition(".")[0] for text in corpus.texts(split)}
        assert len(others) == 80
        assert others.isdisjoint(row["person"] for row in birthplaces())


def test_biographies_contain_distractor_towns() -> None:
    distractors = Counter()
    for person, text in people_with_biographies():
        others = {person.home, person.study_place, person.death_place}
        others.add(person.employer.removesuffix(f" {OCCUPATIONS[person.occupation]}"))
        assert person.birthplace not in others
        distractors[sum(town in text for town in others)] += 1
    assert distractors[0] < 0.05 * distractors.total()
    assert sum(n * count for n, count in distractors.items()) > 1.5 * distractors.total()


def test_birthplace_is_not_always_the_first_town() -> None:
    towns = {person.birthplace for person in world()}
    pattern = re.compile("|".join(sorted(map(re.escape, towns), key=len, reverse=True)))
    firsts = [
        pattern.search(text)[0] == person.birthplace for person, text in people_with_biographies()
    ]
    assert 0.3 < sum(firsts) / len(firsts) < 0.85


def test_names_and_towns_are_disjoint() -> None:
    towns = {word for person in world() for word in person.birthplace.split()}
    surnames = {person.surname for person in world()}
    firsts = {*WOMEN, *MEN}
    for one, other in ((towns, surnames), (towns, firsts), (surnames, firsts)):
        assert one.isdisjoint(other)
    assert {*MIDDLE}.isdisjoint(towns | surnames | firsts)


def test_most_frequent_answer_does_not_solve_recall() -> None:
    rows = list(birthplaces())
    for split in ("train", "dev", "test"):
        answers = Counter(row["answer"] for row in rows if row["split"] == split)
        assert answers.most_common(1)[0][1] / answers.total() < 0.10
    # and not the most frequent answer for a surname or a first name in train
    train = [row for row in rows if row["split"] == "train"]
    for index in (0, -1):
        best = {}
        for row in train:
            best.setdefault(row["person"].split()[index], Counter())[row["answer"]] += 1
        held_out = [row for row in rows if row["split"] != "train"]
        correct = sum(
            best.get(row["person"].split()[index], Counter("?")).most_common(1)[0][0]
            == row["answer"]
            for row in held_out
        )
        assert correct / len(held_out) < 0.10


def test_every_question_is_about_one_person_in_one_of_four_wordings() -> None:
    rows = list(birthplaces())
    assert all(row["person"] in row["question"] for row in rows)
    unseen = Counter(row["split"] for row in rows if not row["seen"])
    assert unseen == {"dev": 220, "test": 220}
    assert len({row["person"] for row in rows}) == len(rows) == 2_040
    wordings = Counter(row["question"].replace(row["person"], "NAME") for row in rows)
    assert wordings["Where was NAME born?"] > 300
    assert len(wordings) == 4
