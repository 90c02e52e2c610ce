"""Contents of the images, permissions, and what they must not contain."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from components.core import container_images, stages
from components.core.stage import cache_key
from docker import build, sbom
from docker.build import ROOT, Engine
from pipeline.local.docker_client import CODE_LABEL
from tests.programs import until
from tests.system.docker.conftest import HARDENED, log_of

pytestmark = pytest.mark.docker

Python = Callable[[str, str], str]


def test_the_code_is_that_of_this_checkout(python: Python, image: str) -> None:
    """Keys and lineage follow from the digest of the code, so a container's must equal the desk's."""
    stages = sorted(path.parent.name for path in (ROOT / "components").glob("*/config.py"))
    program = (
        "from components.core.stage.cache_key import source_digest\n"
        f"for stage in {stages}: print(stage, source_digest(stage))"
    )
    stage_digests = dict(line.split() for line in python(image, program).splitlines())
    assert stage_digests == {stage: cache_key.source_digest(stage) for stage in stages}


def test_nothing_in_it_may_be_written_and_no_file_changes_the_user(python: Python, image: str) -> None:
    """Even by the user's group, which is root's, on clusters that give each container its own user."""
    program = (
        "import os, stat\n"
        "for parent, folders, files in os.walk('/'):\n"
        "    for path in (os.path.join(parent, name) for name in (*folders, *files)):\n"
        "        status = os.lstat(path)\n"
        "        if path.startswith(('/opt/', '/app/')):\n"
        "            if status.st_uid or status.st_gid or (not os.path.islink(path) and status.st_mode & 0o022):\n"
        "                print(path, 'may be written')\n"
        "        if stat.S_ISREG(status.st_mode) and status.st_mode & 0o6000:\n"
        "            print(path, 'changes the user')\n"
        "    folders[:] = [name for name in folders if os.path.join(parent, name) not in ('/proc', '/sys')]"
    )
    assert python(image, program) == ""


def test_the_environment_holds_no_installer_no_tests_and_no_kfp(python: Python, image: str) -> None:
    program = (
        "import importlib.util as u, pathlib, sysconfig\n"
        "print([name for name in ('pip', 'setuptools', 'wheel', 'kfp', 'pytest', 'hypothesis', 'ruff', 'pipeline')"
        " if u.find_spec(name)], list(pathlib.Path(sysconfig.get_path('purelib')).rglob('tests/*.py')))"
    )
    assert python(image, program) == "[] []"


def test_there_is_no_compiler_and_nothing_that_a_build_kept(engine: Engine, image: str) -> None:
    program = (
        "import pathlib, pwd, shutil\n"
        "print([name for name in ('cc', 'gcc', 'g++', 'clang', 'ld', 'make') if shutil.which(name)],\n"
        "      [str(path) for place in ('/var/cache/apt', '/var/lib/apt/lists', pwd.getpwuid(0).pw_dir + '/.cache')\n"
        "       for path in pathlib.Path(place).glob('*')],\n"
        "      [place for place in ('/run/secrets', '/var/cache/pip', '/build', '/etc/pip.conf')\n"
        "       if pathlib.Path(place).exists()])"
    )
    as_root = ("run", "--rm", "--network", "none", "--user", "0:0", "--entrypoint", "python")  # may look everywhere
    assert engine.read(*as_root, image, "-c", program) == "[] [] []"


def test_modules_are_compiled_and_the_same_whenever_they_were(python: Python, image: str) -> None:
    """Unchecked hashes: Python ignores the source's time."""
    program = (
        "import importlib.util, struct\n"
        "for name in ('components.core.stage.cli', 'numpy', 'google.protobuf.message'):\n"
        "    path = importlib.util.find_spec(name).cached\n"
        "    print(struct.unpack('<I', open(path, 'rb').read()[4:8])[0])"
    )
    assert python(image, program).split() == ["1", "1", "1"]


def test_a_mounted_folder_does_not_shadow_the_code(engine: Engine, image: str, shared_folder: Path) -> None:
    (shared_folder / "components").mkdir(exist_ok=True)
    (shared_folder / "components" / "__init__.py").write_text("raise SystemExit('shadowed')")
    engine.read("run", "--rm", "--volume", f"{shared_folder}:/work", "--workdir", "/work", image, "--help")


def test_labels(engine: Engine, image: str) -> None:
    (inspected,) = json.loads(engine.read("image", "inspect", image))
    config = inspected["Config"]
    assert config["User"] == "10001:0"
    assert config["Entrypoint"][:2] == ["python", "-m"]
    label = {name.removeprefix("org.opencontainers.image."): text for name, text in config["Labels"].items()}
    assert label["title"] == image.split(":")[0]
    assert label["version"] == container_images.VERSION
    assert label["licenses"] == "Apache-2.0"
    assert json.loads(label[CODE_LABEL]) == {stage: cache_key.source_digest(stage) for stage in stages.MAKERS}
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", label["revision"])
    assert label["base.name"].startswith("python:3.11-slim-bookworm")
    assert not any(line.startswith("WGAN_IMAGE=") for line in config["Env"])


def test_nothing_of_this_network_is_in_its_history(engine: Engine, image: str) -> None:
    """Neither certificates, nor settings of pip, nor an index in the metadata."""
    history = engine.read("history", "--no-trunc", "--format", "{{.CreatedBy}}", image)
    assert "COPY" in history
    for word in ("BEGIN CERTIFICATE", "index-url", "index_url", "://", "ca-certificates"):
        assert word not in history, word


def test_the_bill_of_materials_lists_what_is_there(engine: Engine, python: Python, image: str) -> None:
    """In another way than it was made: by the modules that Python finds, and by dpkg-query."""
    name = image.split(":")[0].removeprefix("wgan/")
    text = (build.SBOMS / f"{name}.cdx.json").read_text(encoding="utf-8")
    bill = json.loads(text)
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == f"wgan/{name}"
    assert "timestamp" not in bill["metadata"]
    listed = {component["purl"].split("?")[0].replace("%2B", "+") for component in bill["components"]}

    program = (
        "import pathlib, sysconfig\n"
        "for path in pathlib.Path(sysconfig.get_path('purelib')).glob('*.dist-info'): print(path.name)"
    )
    folders = [line.removesuffix(".dist-info").rsplit("-", 1) for line in python(image, program).splitlines()]
    packages = {f"pkg:pypi/{re.sub('[-_.]+', '-', name).lower()}@{version}" for name, version in folders}
    lock = {"preprocess": "preprocess.txt", "train": "train-cpu.txt"}[name]
    locked = re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements" / lock).read_text(), re.MULTILINE)
    assert packages == {f"pkg:pypi/{name}@{version}" for name, version in locked}
    query = engine.read(
        *("run", "--rm", "--entrypoint", "dpkg-query", image, "--show", "--showformat", "${Package}@${Version}\\n")
    )
    packages |= {f"pkg:deb/debian/{line}".replace("%3A", ":") for line in query.splitlines()}
    assert {purl.replace("%3A", ":") for purl in listed if not purl.startswith("pkg:generic/")} == packages

    licensed = [component for component in bill["components"] if component.get("licenses")]
    assert len(licensed) > 0.8 * len(bill["components"])
    again = sbom.bill_of_materials(f"wgan/{name}", container_images.VERSION, build.contents(engine, image))
    assert again == text


def test_a_stopped_container_stops_in_order(client: str, engine: Engine, train_image: str) -> None:
    """The signal reaches Python, which is the container's first process, and the exit code says so."""
    waiting = "import sys, time; from components.core.stage import cli; import components.train.run as t"
    waiting += "; t.run = lambda config: (print('at work', file=sys.stderr), time.sleep(600))"
    waiting += "; sys.exit(cli.main('train', ['--dataset=/tmp/d', '--checkpoints=/tmp/c']))"
    container = engine.read("run", "--detach", *HARDENED, "--entrypoint", "python", train_image, "-c", waiting)
    try:
        until(lambda: "at work" in log_of(client, container), 60)
        engine.read("stop", "--time", "60", container)
        code = engine.read("inspect", "--format", "{{.State.ExitCode}}", container)
        log = log_of(client, container)
        assert code == "143", log  # 137, had it been killed after 60 s
        assert "train: terminated; " in log
    finally:
        engine.read("rm", "--force", container)


def test_no_shell_is_needed(engine: Engine, image: str) -> None:
    """The entry point is a program and its words, and so is what Kubeflow runs."""
    without = [word for shell in ("sh", "bash") for word in ("--volume", f"/dev/null:/bin/{shell}:ro")]
    engine.read("run", "--rm", *without, image, "--help")
