"""Changes to an environment while an image is built: dropped files, stripped symbols, compiled modules."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from docker import environment, seal


def test_files_are_dropped_and_records_tell_what_is_left(tmp_path: Path) -> None:
    for name in ("pack/a.py", "pack/b.pyi", "pack/tests/test_a.py", "sklearn/__init__.py", "sklearn/svm/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "pack-1.dist-info").mkdir()
    record = tmp_path / "pack-1.dist-info" / "RECORD"
    record.write_text("pack/a.py,sha256=wrong,3\npack/b.pyi,,\npack/tests/test_a.py,,\npack-1.dist-info/RECORD,,\n")
    environment.drop(tmp_path, ("**/*.pyi", "**/tests/**/*", "sklearn/**/*"))
    environment.rewrite_records(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["pack-1.dist-info/RECORD", "pack/a.py", "sklearn/__init__.py"]
    assert not (tmp_path / "pack" / "tests").exists()
    rows = record.read_text().splitlines()
    assert rows[1:] == ["pack-1.dist-info/RECORD,,"]
    assert rows[0].startswith("pack/a.py,sha256=")
    assert rows[0].endswith(",9")


def test_libraries_without_symbols_do_the_same(tmp_path: Path) -> None:
    """google_crc32c, really stripped: it is loaded, and computes the same."""
    for name in ("google_crc32c", "google_crc32c.libs"):
        shutil.copytree(Path(sysconfig.get_path("purelib"), name), tmp_path / name)
    libraries = list(tmp_path.rglob("*.so*"))
    before = sum(path.stat().st_size for path in libraries)
    for path in libraries:
        environment.cut_symbols(path)
    assert len(libraries) == 2
    assert sum(path.stat().st_size for path in libraries) < before
    program = "import google_crc32c as c; print(c.__file__, c.implementation, hex(c.value(b'123456789')))"
    command, variables = [sys.executable, "-P", "-c", program], {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / "google_crc32c" / "__init__.py"), "c", "0xe3069283"]
    bytes_cut = [path.read_bytes() for path in libraries]
    for path in libraries:
        environment.cut_symbols(path)
    assert [path.read_bytes() for path in libraries] == bytes_cut


def test_what_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"\x7fELF" + bytes(60))
    with pytest.raises(SystemExit, match=r"x\.so"):
        environment.cut_symbols(tmp_path / "x.so")


def test_a_sealed_folder_is_the_same_whoever_made_it_and_when(tmp_path: Path) -> None:
    states = []
    for number, mask in enumerate((0o022, 0o077)):
        folder = tmp_path / str(number) / "app"  # compiled under the same name below
        before = os.umask(mask)
        try:
            folder.mkdir(parents=True)
            (folder / "module.py").write_text("NAMES = {'a', 'b', 'c'}\nprint('x' in {'q', 'w', 'e', 'r'})\n")
            (folder / "run").write_text("#!/bin/sh\n")
            (folder / "run").chmod(0o700 if mask == 0o077 else 0o755)
            (folder / "link").symlink_to("module.py")
        finally:
            os.umask(before)
        location = tmp_path / "app"
        folder.rename(location)
        subprocess.run(
            [sys.executable, seal.__file__, str(location)], check=True, env=os.environ | {"PYTHONHASHSEED": ""}
        )
        entries = sorted(location.rglob("*"))
        states.append(
            [
                (path.name, oct(path.lstat().st_mode), path.lstat().st_mtime, path.is_file() and path.read_bytes())
                for path in (location, *entries)
            ]
        )
        location.rename(folder)
    assert states[0] == states[1]
    assert any(name.endswith(".pyc") for name, *_ in states[0])
    assert {time for _, _, time, _ in states[0]} == {float(seal.EPOCH)}
