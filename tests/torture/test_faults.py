"""The layers that do harm do it: careless writes are lost, what is made elsewhere is seen late."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.torture.browser import MARK, check_page, document
from tests.torture.harness import Failure
from tests.torture.network_folder import LONGEST_DELAY, machine
from tests.torture.power import lose_power, recording

from regard.core.files import write_text

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


def disks(tmp_path: Path, write: Callable[[Path, str], None]) -> set[str | None]:
    """What may stand in a file after `write` replaced it and power was lost."""
    root, store = tmp_path / "root", tmp_path / "store"
    root.mkdir()
    store.mkdir()
    (root / "file").write_text("old")
    with recording(root, store) as recorder:
        write(root / "file", "new text")
        recorder.write()
    found: set[str | None] = set()
    for seed in range(100):
        lose_power(root, store, random.Random(seed))
        file = root / "file"
        found.add(file.read_text() if file.is_file() else None)
    return found


def careless(file: Path, text: str) -> None:
    """Renamed before its content is safe."""
    file.with_name("half").write_text(text)
    file.with_name("half").replace(file)


def test_a_file_that_is_renamed_before_it_is_synced_may_be_empty(tmp_path: Path) -> None:
    found = disks(tmp_path, careless)
    assert {"old", "new text", ""} <= found
    assert any(one is not None and one not in ("old", "new text") for one in found)


def test_an_atomic_write_that_returned_is_there(tmp_path: Path) -> None:
    assert disks(tmp_path, write_text) == {"new text"}


def test_removals_and_new_folders_are_lost_until_their_folder_is_synced(tmp_path: Path) -> None:
    def write(file: Path, text: str) -> None:
        file.unlink()
        file.with_name("folder").mkdir()
        (file.with_name("folder") / "inner").write_text(text)

    assert disks(tmp_path, write) == {"old", None}


def test_what_another_machine_makes_is_seen_late_and_what_this_one_makes_at_once(
    tmp_path: Path,
) -> None:
    theirs, own = tmp_path / "theirs", tmp_path / "own"
    with machine("here", tmp_path, locks="refused", late=True):
        assert not theirs.exists()
        os.system(f"touch {theirs}")  # another process knows nothing of the layer
        own.write_text("x")
        assert not theirs.exists()
        assert own.exists()
        assert theirs.read_bytes() == b"", "opening asks the server"
        time.sleep(2 * LONGEST_DELAY)
        assert theirs.exists()


@pytest.mark.parametrize(
    "text", ["<p>fine</p>", f"<{MARK}>", f"<p {MARK}=1>", "<script>1</script>"]
)
def test_markup_that_became_an_element_is_found(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.torture.browser.find_browser", lambda: None)
    page = tmp_path / "page.html"
    page.write_text(f"<html><body>{text}</body></html>")
    assert text in document(page, tmp_path)
    if text == "<p>fine</p>":
        check_page(page, tmp_path)
        return
    with pytest.raises(Failure, match="believed"):
        check_page(page, tmp_path)
