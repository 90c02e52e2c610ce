"""Files that an environment loses while an image is built."""

from pathlib import Path

from docker import environment


def test_files_are_dropped_and_records_tell_what_is_left(tmp_path: Path) -> None:
    for name in ("pack/a.py", "pack/b.pyi", "pack/tests/test_a.py", "sklearn/__init__.py", "sklearn/svm/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "pack-1.dist-info").mkdir()
    record = tmp_path / "pack-1.dist-info" / "RECORD"
    record.write_text("pack/a.py,sha256=x,9\npack/b.pyi,,\npack/tests/test_a.py,,\npack-1.dist-info/RECORD,,\n")
    environment.drop(tmp_path, ("**/*.pyi", "**/tests/**/*", "sklearn/**/*"))
    environment.shorten_records(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["pack-1.dist-info/RECORD", "pack/a.py", "sklearn/__init__.py"]
    assert not (tmp_path / "pack" / "tests").exists()
    assert record.read_text().splitlines() == ["pack/a.py,sha256=x,9", "pack-1.dist-info/RECORD,,"]
