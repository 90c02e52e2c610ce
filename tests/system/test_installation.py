"""The wheel, installed outside the checkout without extras; what the sdist contains."""

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from components.core.container_images import VERSION
from tests import programs

ROOT = Path(__file__).parents[2]
PACKAGES = ("components", "pipeline", "wgan_gp_pipeline")
BUILT = ("LICENSE", "README.md", *PACKAGES, "pyproject.toml")
# Verbs by the extra that they need.
VERBS = {
    "local": "run --source digits, plan --source digits, judge --samples drawn.npz --source digits",
    "pipeline": "compile, profiles, submit, status, logs 3f2a train, cancel 3f2a, retry 3f2a, schedule list",
    "cpu": "evaluate, sample --count 64, report compare a b, selfcheck",
}
LEFT_BEHIND = "core.1 notes.txt shapes/0001.png runs/demo/x.json pipeline/.x.swp components/trace.log"


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=cwd, check=False)


def build(source: Path, kind: str, folder: Path) -> Path:
    done = run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder, cwd=source)
    assert done.returncode == 0, done.stderr
    (built,) = folder.iterdir()
    return built


def tracked() -> list[str]:
    """Paths that git tracks, or would if they were added, and that still exist."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.split("\0")
    return [name for name in names if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files, and files that work leaves beside them."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in [*tracked(), "components/__pycache__/cli.cpython-311.pyc"]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes() if (ROOT / name).is_file() else b"")
    for name in LEFT_BEHIND.split():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"left behind")
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(checkout, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(checkout, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wgan(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment with the wheel and the packages that it needs without extras."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    (libraries,) = folder.glob("lib/python*/site-packages")
    uv = Path(sys.executable).with_name("uv")
    done = run(
        *(uv, "pip", "install", "--offline", "--no-index", "--no-deps", "--python", folder / "bin" / "python", wheel),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    (distribution,) = metadata.distributions(name="wgan-gp-pipeline", path=[str(libraries)])
    wanted, copied = _needed_by(distribution), set()
    while wanted:  # from the tests' environment, because the index may be out of reach
        name = wanted.pop()
        if name not in copied:
            copied.add(name)
            needed = metadata.distribution(name)
            wanted += _needed_by(needed)
            for file in needed.files or ():
                if ".." not in file.parts and "__pycache__" not in file.parts:
                    (libraries / file).parent.mkdir(parents=True, exist_ok=True)
                    (libraries / file).write_bytes(Path(str(needed.locate_file(file))).read_bytes())
    assert not copied & {"kfp", "numpy", "tensorflow-cpu"}
    return folder / "bin" / "wgan"


def _needed_by(distribution: metadata.Distribution) -> list[str]:
    needed = map(Requirement, distribution.requires or ())
    return [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]


def test_the_wheel_prints_version_and_help_without_extras(wgan: Path, tmp_path: Path) -> None:
    done = run(wgan, "--version", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"wgan {VERSION}\n", "")
    done = run(wgan, "--help", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    # Every verb of the list is tried below, or works without extras.
    listed = set(re.findall(r"^    ([a-z]+)\b", done.stdout, re.MULTILINE))
    tried = {line.split()[0] for lines in VERBS.values() for line in lines.split(", ")}
    assert listed == tried | {"open", "registry", "runs"}
    helps = [[verb, "--help"] for verb in sorted(listed)] + [
        [verb, "--help-all"] for verb in ("judge", "plan", "run", "submit")
    ]
    for (verb, _), ended in zip(helps, programs.in_forks(helps, tmp_path, wgan.with_name("python")), strict=True):
        assert (ended.code, ended.err, ended.out.startswith(f"usage: wgan {verb} ")) == (0, "", True), verb


def test_a_verb_names_its_missing_extra(wgan: Path, tmp_path: Path) -> None:
    verbs = [(extra, line.split()) for extra, lines in VERBS.items() for line in lines.split(", ")]
    results = programs.in_forks([words for _, words in verbs], tmp_path, wgan.with_name("python"))
    for (extra, words), done in zip(verbs, results, strict=True):
        assert (done.code, done.out) == (64, "")
        (line,) = done.err.splitlines()
        assert f" wgan {words[0]} " in line
        assert line.endswith(f"pip install 'wgan-gp-pipeline[{extra}]'")
    assert not list(tmp_path.iterdir())


def test_verbs_that_need_no_extra(wgan: Path, tmp_path: Path) -> None:
    """They read the package's own data files and a registry in a folder."""
    lines = ["run --runner docker", "registry list --registry registry", "runs", "open report"]
    ended = programs.in_forks([line.split() for line in lines], tmp_path, wgan.with_name("python"))
    assert [done.code for done in ended] == [64, 65, 65, 65]
    assert (ended[0].out, "--source" in ended[0].err) == ("", True)
    assert not any("Traceback" in done.err for done in ended)


def test_the_wheel_holds_every_tracked_file_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {name for name in tracked() if name.partition("/")[0] in PACKAGES}


def test_the_sdist_holds_tracked_files_alone(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    expected = {name for name in tracked() if name.partition("/")[0] in BUILT}
    assert names - {"PKG-INFO", ".gitignore"} == expected


def test_the_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "--extract", "--file", sdist, "--directory", tmp_path / "unpacked"], check=True)
    (source,) = (tmp_path / "unpacked").iterdir()
    assert build(source, "wheel", tmp_path / "built").read_bytes() == wheel.read_bytes()
