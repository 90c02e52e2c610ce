"""Whole or not at all: also on a full disk, or with two writers at once; tests/faults/disk kills writers."""

import os
import stat
import threading
from pathlib import Path

import pytest

from components.core.errors import DataError, describe_os_error
from components.core.storage import atomic_files


@pytest.mark.parametrize("content", [b"{", b"\xff", b"", b"[" * 100_000, b"1" * 5000], ids=range(5))
def test_json_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    for name in ("a.json", "b.json", "a.json/b.json"):
        with pytest.raises(DataError, match=str(tmp_path)):
            atomic_files.read_json(tmp_path / name, "thing")


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_files_and_folders_have_the_modes_that_the_umask_allows(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        atomic_files.write_file(tmp_path / "made" / "file", b"content")
        with atomic_files.new_folder(tmp_path / "made" / "folder", "done") as folder:
            # As TensorFlow makes folders, and `tempfile` files.
            (folder / "inner").mkdir()
            (folder / "inner").chmod(0o755)
            (folder / "inner" / "data").touch(0o600)
            atomic_files.write_file(folder / "done", b"")
            atomic_files.make_unique(folder, "note-")
        with atomic_files.only_one(tmp_path / "made"):
            pass
    finally:
        os.umask(before)
    paths = [tmp_path / "made", *(tmp_path / "made").rglob("*")]
    assert len(paths) == 8
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == (0o777 if path.is_dir() else 0o666) & ~umask, path


def test_json_is_readable_and_refuses_what_json_cannot_say(tmp_path: Path) -> None:
    atomic_files.write_json(tmp_path / "a.json", {"b": [1, 2.5], "a": "é"})
    assert (tmp_path / "a.json").read_text(encoding="utf-8").startswith('{\n  "a": "é",\n')
    assert atomic_files.read_json(tmp_path / "a.json", "thing") == {"a": "é", "b": [1, 2.5]}
    with pytest.raises(ValueError, match="JSON compliant"):
        atomic_files.write_json(tmp_path / "a.json", float("nan"))
    assert atomic_files.read_json(tmp_path / "a.json", "thing")["a"] == "é"


def test_a_full_disk_is_reported_with_the_place(tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="No space left") as caught,
        atomic_files.new_folder(tmp_path / "place", "done.json"),
    ):
        Path("/dev/full").write_bytes(b"x")
    assert describe_os_error(caught.value) == f"No space left on device: {tmp_path / 'place'}"
    assert list(tmp_path.iterdir()) == []


def test_what_a_living_process_is_filling_is_not_swept(tmp_path: Path) -> None:
    with atomic_files.new_folder(tmp_path / "folder", "done") as slow:
        (slow / "done").write_bytes(b"slow")
        atomic_files.sweep(tmp_path)
        assert (slow / "done").read_bytes() == b"slow"
    assert (tmp_path / "folder" / "done").read_bytes() == b"slow"


def test_what_was_swept_in_spite_of_its_lock_never_gets_its_place(tmp_path: Path) -> None:
    location = tmp_path / "folder"

    def make() -> None:
        with atomic_files.new_folder(location, "done") as folder:
            folder.rename(f"{folder}-dead")
            (folder / "done").write_bytes(b"")

    with pytest.raises(FileNotFoundError) as caught:
        make()
    assert describe_os_error(caught.value) == f"No such file or directory: {location}"
    assert not location.exists()


def test_a_folder_around_that_of_an_artifact_names_it(tmp_path: Path) -> None:
    atomic_files.write_json(tmp_path / "KEY" / "a.json", {})
    with pytest.raises(DataError, match=f"^no thing at {tmp_path}: a.json is missing; {tmp_path}/KEY has it$"):
        atomic_files.read_json(tmp_path / "a.json", "thing")


def test_only_one_holds_a_folder_and_others_wait(tmp_path: Path) -> None:
    order = []

    def second() -> None:
        with atomic_files.only_one(tmp_path):
            order.append("second")

    with atomic_files.only_one(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
