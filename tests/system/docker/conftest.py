"""Containers hardened like a cluster's, in which the tests of the images run everything."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from docker.build import Engine
from tests.system.docker import required

# As in a cluster, without a network, and as an unknown user, whose results the tests read.
HARDENED = (*required.HARDENED, "--network", "none", "--user", "12345:0", "--env", "WGAN_UMASK=022")

Run = Callable[..., subprocess.CompletedProcess[str]]


def log_of(client: str, container: str) -> str:
    done = subprocess.run([client, "logs", container], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def client() -> str:
    """The Docker client; skip without a reachable engine."""
    return required.client()


@pytest.fixture(scope="session")
def engine(client: str) -> Engine:
    return Engine()


@pytest.fixture(scope="session", params=["preprocess", "train-cpu"])
def image(request: pytest.FixtureRequest, client: str) -> str:
    """Each of the two images that every machine can run; skip a missing one."""
    return required.image(client, request.param)


@pytest.fixture(scope="session")
def preprocess_image(client: str) -> str:
    return required.image(client, "preprocess")


@pytest.fixture(scope="session")
def train_image(client: str) -> str:
    return required.image(client, "train-cpu")


@pytest.fixture(scope="session")
def run(client: str) -> Run:
    """Run a hardened container to its end: `run(image, *words, program="embed", options=(...))`.

    `program` replaces the image's own entry point.
    """

    def run_container(
        image: str, *words: object, program: str = "", options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        command = [client, "run", "--rm", *HARDENED, *options]
        command += ["--entrypoint", "python", image, "-m", "components", program] if program else [image]
        return subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=600, check=False)

    return run_container


@pytest.fixture(scope="session")
def python(engine: Engine) -> Callable[[str, str], str]:
    """Return the output of a Python program in a hardened container of an image."""
    hardened = ("run", "--rm", *HARDENED, "--entrypoint", "python")
    return lambda image, program: engine.read(*hardened, image, "-c", program)


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    folder.chmod(0o777)
    for parent in folder.parents[:2]:  # pytest's own are for their owner alone
        parent.chmod(0o755)
    return folder
