from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from regard.data.corpus import Data, open_corpus
from regard.tasks.qa.subject_mentions import PretrainingText, find_names

names = st.lists(st.sampled_from(["ada", "bo", "lind"]), min_size=1, max_size=3).map(tuple)


@given(st.sets(names), st.lists(names, max_size=5))
def test_names_are_found_as_consecutive_words(
    searched: set[tuple[str, ...]], texts: list[tuple[str, ...]]
) -> None:
    found = find_names(searched, iter(" ".join(words) for words in texts))
    lines = [f" {' '.join(words)} " for words in texts]
    assert found == {name for name in searched if any(f" {' '.join(name)} " in x for x in lines)}


def test_case_and_punctuation_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "lives.txt"
    file.write_text("\n".join(["Ada-Marie O'Lind, a painter.", *(f"Line {n}." for n in range(99))]))
    text = PretrainingText(Data(corpus=str(file)))
    assert text.mentions(["ada marie o’lind", "Marie", "Ada Marie Lind", "", "?!"]) == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_only_the_train_split_of_pretraining_is_searched(tmp_path: Path) -> None:
    file = tmp_path / "lives.txt"
    people = [f"Person{n}" for n in range(60)]
    file.write_text("\n".join(f"{name} was born." for name in people))
    data = Data(corpus=str(file), dev=0.2, test=0.2)
    train = {line.split()[0] for line in open_corpus(data).texts("train")}
    assert 20 < len(train) < 55
    assert PretrainingText(data).mentions(people) == [name in train for name in people]


def test_mentions_are_cached(tmp_path: Path) -> None:
    file = tmp_path / "lives.txt"
    file.write_text("\n".join(f"Person{n} was born." for n in range(60)))
    text = PretrainingText(Data(corpus=str(file)))
    before = text.mentions(["Person1", "Nobody"])
    file.unlink()
    assert text.mentions(["Nobody", "Person1"]) == before[::-1]
