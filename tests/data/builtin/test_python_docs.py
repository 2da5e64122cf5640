"""python-docs: documentation of this Python, in a fixed order, grouped by owner."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import defaultdict

import pytest

from regard.data.builtin import BUILTIN, content_identity, read_rows
from regard.data.builtin.python_docs import python_docs, tidy
from regard.data.corpus import SPLITS, Data, open_corpus


def test_registered_as_real_text() -> None:
    assert BUILTIN.get("python-docs").properties["generated"] is False
    assert not open_corpus(Data(corpus="python-docs")).generated


def test_size_and_no_duplicates() -> None:
    texts = [document["text"] for document in read_rows(BUILTIN.get("python-docs"))]
    assert 200_000 < sum(len(text.split()) for text in texts) < 600_000
    assert len(set(texts)) == len(texts)
    assert all("\n\n" not in text and text == text.rstrip() for text in texts)


def test_documents_are_grouped_by_topic_module_and_class() -> None:
    groups = defaultdict(list)
    for document in read_rows(BUILTIN.get("python-docs")):
        groups[document["group"]].append(document["text"])
    assert any("debugging assertions" in text for text in groups["topic assert"])
    assert any("JSON" in text for text in groups["json"])
    # a method's docstring belongs to its class
    assert any("Format the specified record as text" in t for t in groups["logging:Formatter"])
    assert not any(group.startswith(("test", "idlelib")) for group in groups)


def test_groups_never_straddle_splits() -> None:
    owner = {
        document["text"]: document["group"] for document in read_rows(BUILTIN.get("python-docs"))
    }
    corpus = open_corpus(Data(corpus="python-docs"))
    groups = {split: {owner[text] for text in corpus.texts(split)} for split in SPLITS}
    assert not groups["train"] & groups["dev"]
    assert not groups["train"] & groups["test"]
    assert not groups["dev"] & groups["test"]
    assert min(map(len, groups.values())) > 50


@pytest.mark.long
def test_another_process_reads_the_same_without_imports() -> None:
    program = (
        "import sys, hashlib;"
        "from regard.data.builtin.python_docs import python_docs;"
        "d = hashlib.sha256(repr(list(python_docs())).encode()).hexdigest();"
        "print(d, 'this' in sys.modules or 'tkinter' in sys.modules)"
    )
    ours = hashlib.sha256(repr(list(python_docs())).encode()).hexdigest()
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True
    ).stdout
    assert printed.decode().split() == [ours, "False"]


def test_identity_is_stable_and_a_sha256() -> None:
    size, digest = content_identity(BUILTIN.get("python-docs"))
    assert len(digest) == 64
    assert size > 1_000_000
    assert content_identity(BUILTIN.get("python-docs")) == (size, digest)


def test_prose_is_unwrapped_and_layout_is_kept() -> None:
    prose = "An identifier occurring as an atom is a name.  See section\nIdentifiers for more."
    assert tidy(prose) == (
        "An identifier occurring as an atom is a name. See section Identifiers for more."
    )
    assert tidy("   >>> 1 + 1\n   2") == ">>> 1 + 1\n2"
    assert tidy("Title\n*****") == "Title"
    code = "if x:\n    return [a_rather_long_name_of_something_else, another]"
    assert tidy(code) == code
    table = (
        "name        the name of the thing that is described\nvalue       what it is worth to you"
    )
    assert tidy(table) == table
