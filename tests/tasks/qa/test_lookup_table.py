import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from regard.core.errors import UserError
from regard.tasks.qa.lookup_table import LookupTable

ROWS = [("Ada Lind", "Oslo"), ("ada lind", "Rome"), ("Bo Dunn", "Cork"), ("BO DUNN", "Cork")]


def csv_table(folder: Path) -> Path:
    file = folder / "people.csv"
    lines = ["name,age,born", *(f"{name},7,{town}" for name, town in ROWS)]
    file.write_text("\n".join(lines))
    return file


def sqlite_table(folder: Path) -> Path:
    file = folder / "people?.db"  # a name that has to be quoted in an address
    with closing(sqlite3.connect(file)) as database:
        database.execute('CREATE TABLE "the people" (name TEXT, age INT, born TEXT)')
        database.execute("CREATE TABLE towns (town TEXT, country TEXT)")
        database.executemany(
            'INSERT INTO "the people" VALUES (?, 7, ?)', [*ROWS, ("Cy", None), ("Di", 1920)]
        )
        database.commit()
    return file


@pytest.mark.parametrize("make", [csv_table, sqlite_table])
def test_exact_keys_win_over_normalised_ones(tmp_path: Path, make: type) -> None:
    table = LookupTable(make(tmp_path), "name", "born")
    table.check()
    assert table.look_up("Ada Lind") == ["Oslo"]
    assert table.look_up("ADA  LIND") == ["Oslo", "Rome"]
    assert table.look_up("bo dunn") == ["Cork"]
    assert table.look_up("Nobody") == []


def test_values_are_text_and_null_is_no_value(tmp_path: Path) -> None:
    table = LookupTable(sqlite_table(tmp_path), "name", "born")
    assert table.look_up("Di") == ["1920"]
    assert table.look_up("Cy") == []


def test_columns_of_a_two_column_table_need_no_names(tmp_path: Path) -> None:
    file = tmp_path / "two.tsv"
    file.write_text("who\twhere\nAda\tOslo\n")
    assert LookupTable(file).look_up("ada") == ["Oslo"]
    assert LookupTable(file, value="who").look_up("Oslo") == ["Ada"]
    assert LookupTable(file, key="where").look_up("Oslo") == ["Ada"]


@pytest.mark.parametrize("make", [csv_table, sqlite_table])
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("nam", "born", "--key: there is no column 'nam' — did you mean name?"),
        ("name", "brn", "--value: there is no column 'brn' — did you mean born?"),
    ],
)
def test_missing_columns_are_refused_by_name(
    tmp_path: Path, make: type, key: str, value: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        LookupTable(make(tmp_path), key, value).check()
    assert message in str(caught.value)
    assert "people" in str(caught.value)


def test_ambiguous_columns_and_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="columns 'name', 'age', 'born' are meant"):
        LookupTable(csv_table(tmp_path), "name").check()
    with pytest.raises(UserError, match="tables the people, towns could be meant"):
        LookupTable(sqlite_table(tmp_path)).check()


def test_missing_empty_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        LookupTable(tmp_path / "gone.csv").check()
    empty = tmp_path / "empty.csv"
    empty.write_text("name,born\n")
    with pytest.raises(UserError, match="the table is empty"):
        LookupTable(empty).check()
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"SQLite format 3\0" + b"x" * 200)
    with pytest.raises(UserError, match="the database cannot be read"):
        LookupTable(broken).check()
