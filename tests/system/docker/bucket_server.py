"""python -m tests.system.docker.bucket_server: serves the files in /data as gs://b/source, in a container.

The server listens on the loopback alone; port 8080 passes on what comes from the container's network. When it is
stopped, it prints the sha256 of each object as JSON.
"""

import hashlib
import json
import os
import signal
import socket
import threading
from pathlib import Path

from components.core.storage import buckets
from tests.fakes.gcs.server import serving

_DATA = Path("/data")


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with serving(page_size=1000) as server:
        server.create_bucket("b")
        os.environ["STORAGE_EMULATOR_HOST"] = server.url
        for path in filter(Path.is_file, _DATA.rglob("*")):
            buckets.create(f"gs://b/source/{path.relative_to(_DATA)}", path)
        door = socket.create_server(("", 8080))
        port = int(server.url.rpartition(":")[2])
        threading.Thread(target=_accept, args=(door, port), daemon=True).start()
        print(f"serving at {server.url}", flush=True)
        signal.sigwait({signal.SIGTERM})
        objects = server.objects["b"].items()
        print(json.dumps({name: hashlib.sha256(stored.content).hexdigest() for name, stored in objects}))


def _accept(door: socket.socket, port: int) -> None:
    while True:
        client, _ = door.accept()
        server = socket.create_connection(("127.0.0.1", port))
        for pair in ((client, server), (server, client)):
            threading.Thread(target=_pass_on, args=pair, daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while block := source.recv(1 << 16):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


if __name__ == "__main__":
    main()
