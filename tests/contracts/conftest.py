from collections.abc import Iterator

import pytest

from tests import servers


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = servers.written_in_go("fake-gcs-server", "FAKE_GCS_VERSION", "github.com/fsouza/fake-gcs-server\t")
    port = servers.free_port()
    address = f"127.0.0.1:{port}"
    arguments = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    arguments += ["-public-host", address, "-external-url", f"http://{address}", "-log-level", "error"]
    with servers.running([program, *arguments], port, tmp_path_factory.mktemp("emulator") / "log"):
        yield f"http://{address}"
