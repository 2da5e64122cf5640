from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from regard.data.corpus import Data, open_corpus
from regard.tasks.qa.subject_mentions import SeenText, names_found

names = st.lists(st.sampled_from(["ada", "bo", "lind"]), min_size=1, max_size=3).map(tuple)


@given(st.sets(names), st.lists(names, max_size=5))
def test_a_name_is_found_exactly_where_its_words_stand_in_a_row(
    wanted: set[tuple[str, ...]], texts: list[tuple[str, ...]]
) -> None:
    found = names_found(wanted, iter(" ".join(words) for words in texts))
    lines = [f" {' '.join(words)} " for words in texts]
    assert found == {name for name in wanted if any(f" {' '.join(name)} " in x for x in lines)}


def test_case_and_punctuation_do_not_count_but_words_do(tmp_path: Path) -> None:
    file = tmp_path / "lives.txt"
    file.write_text("\n".join(["Ada-Marie O'Lind, a painter.", *(f"Line {n}." for n in range(99))]))
    text = SeenText(Data(corpus=str(file)))
    assert text.tells_of(["ada marie o’lind", "Marie", "Ada Marie Lind", "", "?!"]) == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_what_fell_into_dev_of_the_pretraining_was_not_seen(tmp_path: Path) -> None:
    file = tmp_path / "lives.txt"
    people = [f"Person{n}" for n in range(60)]
    file.write_text("\n".join(f"{name} was born." for name in people))
    data = Data(corpus=str(file), dev=0.2, test=0.2)
    trained = {line.split()[0] for line in open_corpus(data).texts("train")}
    assert 20 < len(trained) < 55
    assert SeenText(data).tells_of(people) == [name in trained for name in people]


def test_a_second_question_about_the_same_person_reads_nothing(tmp_path: Path) -> None:
    file = tmp_path / "lives.txt"
    file.write_text("\n".join(f"Person{n} was born." for n in range(60)))
    text = SeenText(Data(corpus=str(file)))
    before = text.tells_of(["Person1", "Nobody"])
    file.unlink()
    assert text.tells_of(["Nobody", "Person1"]) == before[::-1]
