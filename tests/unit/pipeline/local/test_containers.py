"""Stages in containers of a real Docker engine: exit status, logs, mounts, signals, mistakes; requests that fail."""

import dataclasses
import functools
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.core import container_images
from components.core.errors import ConfigError, TransientError
from components.core.stage import cache_key, cli
from pipeline import step_table
from pipeline.local.containers import Containers, mount_words
from pipeline.local.docker_client import Docker, Image, explained
from pipeline.local.processes import copy_lines
from pipeline.local.session import Session, session
from tests.programs import until
from tests.unit.pipeline.conftest import Desk, is_running
from tests.unit.pipeline.shell_steps import Shell

BASE = "python:3.11-slim-bookworm"
VERSION_LABEL = "org.opencontainers.image.version"
NAME = "test-python"
IMAGE = container_images.image(NAME)
NO_VALUES = dict.fromkeys(step_table.PARAMETERS, "")


def docker(*words: str) -> str:
    process = subprocess.run([Docker().program, *words], capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


@pytest.fixture(scope="module")
def engine() -> str:
    """A Docker engine with a small image under our own name."""
    try:
        Docker().platform()
    except (ConfigError, TransientError):
        pytest.skip("no Docker engine: install and start Docker, then `make images`")
    if Docker().image(BASE) is None:
        pytest.skip(f"no image {BASE}: docker pull {BASE}")
    container = docker("create", BASE)
    label = f"LABEL {VERSION_LABEL}={container_images.VERSION}"
    docker("commit", "--change", label, container, IMAGE)
    docker("rm", container)
    return IMAGE


def run(desk: Desk, script: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run a pipeline of one script in a container."""
    desk.define(Shell(script=script, image=NAME))
    return desk.run("--runner", "docker", *flags)


def running(desk: Desk) -> list[str]:
    """The containers of a desk's runs that still exist, running or not."""
    return docker("ps", "--all", "--quiet", "--filter", f"label=wgan-gp-pipeline.root={desk.root}").split()


@pytest.mark.docker
def test_fifty_containers_that_fail_at_once_are_fifty_failures(engine: str, desk: Desk) -> None:
    step: Any = Shell(image=NAME)
    executor = Containers([step], [], desk.folder, NO_VALUES)
    log = desk.folder / "log"
    with session(desk.root, Docker().program) as opened, open(log, "wb", buffering=0) as file:
        executor.begin(opened)
        copy, command = functools.partial(copy_lines, file=file, show=print), ["sh", "-c", "echo last word; exit 3"]
        codes = [executor.run(step, command, copy) for _ in range(50)]
    assert codes == [3] * 50
    assert log.read_text() == "last word\n" * 50


@pytest.mark.docker
@pytest.mark.parametrize(
    ("end", "code", "words"), [("exit 65", 65, "exit code 65"), ("kill -9 $$", 137, "ended by SIGKILL")]
)
def test_failure_is_reported_with_its_status_and_nothing_stays(
    engine: str, desk: Desk, end: str, code: int, words: str
) -> None:
    result = run(desk, f"echo no luck >&2; {end}")
    assert result.returncode == code
    assert words in result.stderr
    assert "shell | no luck" in result.stderr
    assert desk.log() == "no luck\n"
    task = desk.tasks()["shell"]
    assert (task["state"], task["exit_code"], task["attempts"]) == ("failed", code, 1)
    assert task["image"] == f"{IMAGE}@{docker('image', 'inspect', '--format', '{{.Id}}', IMAGE)}"
    assert running(desk) == []


@pytest.mark.docker
def test_what_a_container_may_do(engine: str, desk: Desk) -> None:
    script = """
        set +e
        (touch /here) 2>/dev/null && echo root is writable
        touch /tmp/here || echo tmp is not writable
        grep -q '^CapEff:[[:space:]]*0000000000000000$' /proc/self/status || echo capabilities
        grep -q '^NoNewPrivs:[[:space:]]*1$' /proc/self/status || echo new privileges
        ls /sys/class/net; id -u; pwd; printf "$WGAN_IMAGE" > "$2"
    """
    result = run(desk, script)
    assert result.returncode == 0, result.stderr
    log = desk.log().splitlines()
    assert log == ["lo", str(os.getuid()), str(Path.cwd())]
    assert desk.tasks()["shell"]["outputs"]["out"].startswith(f"{IMAGE}@sha256:")
    assert (desk.root / "history" / "0001" / "shell").stat().st_uid == os.getuid()


@pytest.mark.docker
def test_what_a_container_is_given(engine: str, desk: Desk) -> None:
    script = """
        set +e
        cat /given/here; (echo x > /given/here) 2>/dev/null && echo writable
        echo y > /kept/made
        echo "$PLAIN $SECRET"; id -u; df -k /dev/shm | tail -1 | awk '{print $2}'; ls /sys/class/net | tr '\\n' ' '
        cat "$GOOGLE_APPLICATION_CREDENTIALS"
        printf ok > "$2"
    """
    source, target = desk.folder / 'given, "here"', desk.folder / "kept"
    source.mkdir()
    (source / "here").write_text("given\n")
    for folder in (target, desk.root):
        folder.mkdir()
        folder.chmod(0o777)
    (desk.folder / "key.json").write_text("key\n")
    desk.environment["SECRET"] = "hidden"  # noqa: S105
    mount = shlex.quote(mount_words(str(source), "/given"))
    options = f"--mount {mount} -v {target}:/kept -v {desk.folder}/key.json:/key.json:ro -e PLAIN=a=b -e SECRET "
    options += "--user 12345:0 --shm-size 1m --network bridge -e GOOGLE_APPLICATION_CREDENTIALS=/key.json --rm"
    result = run(desk, script.replace('> "$2"', "> /dev/null"), f"--docker-options={options}")
    log = desk.log().splitlines()
    assert log == ["given", "a=b hidden", "12345", "1024", "eth0 lo key"], result.stderr
    assert (target / "made").stat().st_uid == 12345
    assert "hidden" not in result.stderr.replace("| a=b hidden", "")


@pytest.mark.docker
def test_second_signal_kills_a_container_that_does_not_end(engine: str, desk: Desk) -> None:
    script = "trap 'echo not yet' TERM; echo begun; while :; do sleep 0.1; done"
    desk.define(Shell(script=script, image=NAME))
    process = desk.start("--runner", "docker")
    for word in ("begun", "not yet"):
        desk.wait_for(process, word)
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert running(desk) == []


@pytest.mark.docker
def test_the_container_of_a_killed_runner_is_removed(engine: str, desk: Desk) -> None:
    desk.define(Shell(script="trap '' TERM; echo begun; sleep 300", image=NAME))
    process = desk.start("--runner", "docker")
    desk.wait_for(process, "begun")
    assert len(running(desk)) == 1
    process.kill()
    process.communicate(timeout=60)
    until(lambda: running(desk) == [])


@pytest.mark.docker
def test_a_run_removes_containers_of_dead_runs_and_of_no_other(engine: str, desk: Desk) -> None:
    def left_by(run: Path) -> str:
        labels = ["--label", f"wgan-gp-pipeline.root={desk.root}", "--label", f"wgan-gp-pipeline.run={run}"]
        return docker("run", "--detach", *labels, IMAGE, "sleep", "300")

    with session(desk.root, Docker().program) as other:
        alive, dead = left_by(other.folder), left_by(desk.root / ".tmp-run-dead")
        try:
            result = run(desk, 'printf ok > "$2"')
            assert result.returncode == 0, result.stderr
            assert docker("ps", "--quiet", "--no-trunc", "--filter", f"id={alive}") == alive
            assert docker("ps", "--all", "--quiet", "--filter", f"id={dead}") == ""
        finally:
            docker("rm", "--force", alive)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("inherited", "chosen", "expected"), [(0o002, "", "027"), (0o077, "", "077"), (0o077, "002", "002")]
)
def test_the_umask_and_the_temporary_folder_are_the_runs(
    engine: str, desk: Desk, inherited: int, chosen: str, expected: str
) -> None:
    desk.environment[cli.UMASK] = chosen
    os.umask(inherited)
    result = run(desk, 'echo "$TMPDIR $WGAN_UMASK"; touch "$TMPDIR/file"; printf ok > "$2"')
    assert result.returncode == 0, result.stderr
    (line,) = desk.log().splitlines()
    folder, umask = line.split()
    assert umask == expected
    assert Path(folder).parent == desk.root
    assert not Path(folder).exists()


# An engine whose containers are folders; each command that has a file `slow-COMMAND` waits until that is removed.
ENGINE = """#!/bin/sh
cd '{folder}'
echo "$1 $$" >> asked
for last; do :; done
while [ -e "slow-$1" ]; do sleep 0.02; done
case "$1" in
    version) echo linux/amd64 ;;
    image) echo '[{{"Id": "sha256:1", "Os": "linux", "Architecture": "amd64", "Config": {config}}}]' ;;
    create)
        while [ "$1" != --name ]; do shift; done
        mkdir "containers/$2"; echo "$2" ;;
    start) touch "containers/$last/running"; while [ -e "containers/$last/running" ]; do sleep 0.02; done ;;
    inspect) echo exited 143 ;;
    kill) rm "containers/$last/running" ;;
    rm) rm -r "containers/$last" || {{ echo "Error response from daemon: No such container: $last" >&2; exit 1; }} ;;
esac
"""


Slow = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def slow(desk: Desk) -> Iterator[Slow]:
    processes = []

    def started(command: str) -> "subprocess.Popen[str]":
        client, config = desk.folder / "docker", {"Labels": {VERSION_LABEL: container_images.VERSION}}
        client.write_text(ENGINE.format(folder=desk.folder, config=json.dumps(config)))
        client.chmod(0o755)
        (desk.folder / "containers").mkdir()
        (desk.folder / f"slow-{command}").touch()
        desk.environment["DOCKER"] = str(client)
        desk.define(Shell(image=NAME))
        process = desk.start("--runner", "docker")
        processes.append(process)
        until(lambda: command in asked(desk))
        return process

    yield started
    for process in processes:
        process.kill()
        process.communicate()


def asked(desk: Desk) -> dict[str, int]:
    """Return the process of each command that the slow engine was asked last."""
    file = desk.folder / "asked"
    lines = file.read_text().splitlines() if file.exists() else []
    return {command: int(pid) for command, pid in map(str.split, lines)}


@pytest.mark.parametrize(("command", "never_asked"), [("create", "start"), ("start", "wait")])
def test_an_interrupted_run_goes_no_further_than_what_docker_does(
    desk: Desk, slow: Slow, command: str, never_asked: str
) -> None:
    process = slow(command)
    process.send_signal(signal.SIGINT)
    desk.wait_for(process, "waiting for shell", stage="")
    (desk.folder / f"slow-{command}").unlink()
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert never_asked not in asked(desk)
    assert not list((desk.folder / "containers").iterdir())
    assert " E " not in desk.shown()


@pytest.mark.parametrize("command", ["create", "start", "kill"])
def test_the_second_signal_ends_a_run_whose_docker_does_not_answer(desk: Desk, slow: Slow, command: str) -> None:
    process = slow(command if command != "kill" else "start")
    (desk.folder / f"slow-{command}").touch()
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        desk.wait_for(process, "waiting for shell", stage="")
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not any(is_running(pid) for pid in asked(desk).values())
    assert not list((desk.folder / "containers").iterdir())
    assert desk.shown().count(" killed\n") == 1
    assert " E " not in desk.shown()


def image(name: str, platform: str = "linux/amd64", version: str = container_images.VERSION, **code: str) -> Image:
    return Image(container_images.image(name), "sha256:1", platform, version, code)


def set_images(monkeypatch: pytest.MonkeyPatch, *images: Image) -> None:
    by_reference = {image.name: image for image in images}
    monkeypatch.setattr(Docker, "platform", lambda self: "linux/amd64")
    monkeypatch.setattr(Docker, "image", lambda self, reference: by_reference.get(reference))


def test_the_code_that_keys_cover_is_the_images_or_this_working_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = next(step for step in step_table.steps() if step.stage == "train")

    def code(dev: bool = False, **labels: str) -> str:
        set_images(monkeypatch, image(train.image, **labels))
        return Containers([train], [], tmp_path, NO_VALUES, dev).code(train)

    assert code(train="c") == "c"
    assert code(train="c", dev=True) == cache_key.source_digest("train")
    assert code() == "sha256:1"


def test_images_that_cannot_run_are_reported_all_at_once_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_images(monkeypatch, image("train-gpu", "linux/arm64"), image("train", version=""), image("good"))
    names = ("preprocess", "train-gpu", "train", "good", "good")
    steps = [dataclasses.replace(step, image=name) for step, name in zip(step_table.STEPS, names, strict=False)]
    with pytest.raises(ConfigError) as raised:
        Containers(steps, [], tmp_path, NO_VALUES)
    named = ["preprocess:", "train-gpu: linux/arm64 linux/amd64", "train: version"]
    for problem, words in zip(raised.value.problems, named, strict=True):
        assert all(word in problem for word in words.split()), problem


def test_no_engine_and_no_client(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.environment["DOCKER"] = "no-such-docker"
    result = run(desk, "exit 0")
    assert result.returncode == 64
    assert "no-such-docker" in result.stderr
    if not shutil.which(Docker().program):
        pytest.skip("no Docker client: install Docker")
    del desk.environment["DOCKER"]
    desk.environment["DOCKER_HOST"] = "tcp://127.0.0.1:1"
    result = run(desk, "exit 0")
    assert result.returncode == 75
    assert "tcp://127.0.0.1:1" in result.stderr
    assert not desk.root.exists()


def test_what_lies_behind_a_link_is_seen_by_the_name_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there" / "deep").mkdir(parents=True)
    (tmp_path / "there" / "images").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "there" / "deep")
    monkeypatch.chdir(tmp_path / "here")
    # The kernel follows the link before the dots; in a container, which has no link, the dots go back in the name.
    assert Path("link/../images").is_dir()
    set_images(monkeypatch, image("cpu"))
    step = dataclasses.replace(step_table.STEPS[0], image="cpu")
    executor = Containers([step], [], tmp_path / "runs", NO_VALUES | {"source": "link/../images"})
    executor.session = Session(tmp_path, reaper=None)  # type: ignore[arg-type]
    mount = f"type=bind,source={tmp_path}/there/images,target={tmp_path}/here/images,readonly"
    assert mount in executor._words(step, ["stage"], "name")


def test_an_engine_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which(Docker().program):
        pytest.skip("no Docker client: install Docker")
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(TransientError, match="within 1 s"):
            Docker().ask("version", seconds=1.0)


def test_complaints_are_one_line() -> None:
    assert str(explained("Error: one\n\nline two\nSee 'docker create --help'.\n")) == "Docker: Error: one line two"
    assert str(explained("")).isprintable()
    denied = explained("permission denied while trying to connect to unix:///var/run/docker.sock: connection refused")
    full = explained("Error response from daemon: write /var/lib/x: no space left on device.\n")
    assert (type(denied), "join its group" in str(denied)) == (ConfigError, True)
    assert (type(full), "docker system prune" in str(full)) == (TransientError, True)
