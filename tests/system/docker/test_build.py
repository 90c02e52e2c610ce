"""A mistake with Docker is one line with the remedy; images are pushed and found again by digest."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core import container_images, errors
from components.core.errors import ConfigError
from docker import build
from docker import environment as image_environment
from docker.build import Engine
from tests import servers


def client_that(folder: Path, script: str) -> dict[str, str]:
    path = folder / "docker"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"DOCKER": str(path), "PATH": "/usr/bin:/bin"}


def complaint(environment: dict[str, str], capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and the one line that is printed."""
    code = build.main(["images", *words], environment)
    (line,) = capsys.readouterr().err.splitlines()
    return code, line


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("echo 'Got permission denied while trying to connect to unix:///x' >&2; exit 1", "usermod -aG docker"),
        ('[ "$1" = version ] && { echo 28.2.2; exit 0; }; exit 1', "buildx"),
    ],
)
def test_no_engine(script: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = complaint(client_that(tmp_path, script), capsys)
    assert code == errors.BAD_CONFIGURATION
    assert named in line


def test_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With an old client, which has BuildKit built in, and needs no plugin."""
    script = '[ "$1" = version ] && { echo 20.10.24; exit 0; }; echo "write /x: no space left on device"; exit 1'
    assert build.main(["images"], client_that(tmp_path, script)) == errors.TRANSIENT
    assert "docker system prune" in capsys.readouterr().err.splitlines()[-1]


def test_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    named = "there is no train; there are preprocess, train-cpu, train-gpu, train-tpu"
    for environment, words, text in (({}, ["train"], named), ({"BUILD_OPTIONS": "'"}, [], "BUILD_OPTIONS")):
        code, line = complaint(environment, capsys, *words)
        assert (code, text in line) == (errors.BAD_CONFIGURATION, True)


def test_the_base_of_published_images_is_pinned(tmp_path: Path) -> None:
    assert re.fullmatch(r"python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}", build.pinned_base())
    (tmp_path / "base.env").write_text("BASE=python:3.11-slim-bookworm\n")
    with pytest.raises(ConfigError, match=r"base\.env"):
        build.pinned_base(tmp_path / "base.env")


def test_the_worker_is_of_beams_version() -> None:
    """Boot, the SDK's image and the library are of one release."""
    lock = (build.ROOT / "requirements" / "preprocess.txt").read_text()
    (version,) = re.findall(r"^apache-beam==(\S+)", lock, re.MULTILINE)
    assert f"ARG BEAM_SDK=apache/beam_python3.11_sdk:{version}\n" in (build.ROOT / "docker" / "Dockerfile").read_text()
    assert f"\nBEAM_VERSION := {version}\n" in (build.ROOT / "Makefile").read_text()


def test_files_are_dropped_and_records_tell_what_is_left(tmp_path: Path) -> None:
    for name in ("pack/a.py", "pack/b.pyi", "pack/tests/test_a.py", "sklearn/__init__.py", "sklearn/svm/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "pack-1.dist-info").mkdir()
    record = tmp_path / "pack-1.dist-info" / "RECORD"
    record.write_text("pack/a.py,sha256=x,9\npack/b.pyi,,\npack/tests/test_a.py,,\npack-1.dist-info/RECORD,,\n")
    image_environment.drop(tmp_path, ("**/*.pyi", "**/tests/**/*", "sklearn/**/*"))
    image_environment.shorten_records(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["pack-1.dist-info/RECORD", "pack/a.py", "sklearn/__init__.py"]
    assert not (tmp_path / "pack" / "tests").exists()
    assert record.read_text().splitlines() == ["pack/a.py,sha256=x,9", "pack-1.dist-info/RECORD,,"]


@pytest.mark.parametrize("registry", ["https://host/path", "host/path/", "-x", "a b"])
def test_what_is_no_registry(registry: str) -> None:
    engine = object.__new__(Engine)  # is not asked
    with pytest.raises(ConfigError, match=re.escape(repr(registry))):
        build.push(engine, ("preprocess",), registry)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("no docker-registry: apt-get install docker-registry")
    port = servers.free_port()
    config = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (tmp_path / "registry.json").write_text(json.dumps(config))
    with servers.running([program, "serve", tmp_path / "registry.json"], port, tmp_path / "registry.log"):
        yield f"127.0.0.1:{port}"


@pytest.mark.docker
def test_what_is_pushed_is_pulled_by_its_digest_and_runs(
    engine: Engine, client: str, preprocess_image: str, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "PUSHED", tmp_path / "images.json")
    pushed = build.push(engine, ("preprocess",), f"{registry}/team/wgan")
    assert json.loads((tmp_path / "images.json").read_text()) == pushed
    assert pushed == {
        "schema_version": 1,
        "version": container_images.VERSION,
        "revision": build.revision(),
        "images": {"preprocess": pushed["images"]["preprocess"]},
    }
    reference = pushed["images"]["preprocess"]
    assert re.fullmatch(re.escape(f"{registry}/team/wgan/preprocess@sha256:") + "[0-9a-f]{64}", reference)
    engine.read("rmi", f"{registry}/team/wgan/preprocess:{container_images.VERSION}")
    try:
        command = [client, "run", "--rm", "--pull", "always", reference, "--help"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Downloaded" in done.stderr or "up to date" in done.stderr
        assert "python -m components preprocess" in done.stdout
    finally:
        subprocess.run([client, "rmi", reference], capture_output=True, check=False)
