"""The preprocess stage from a bucket into a bucket: time, memory, temporary files, requests and bytes.

    python -m benchmarks.data.preprocess_bucket --files 50000 --names 10000000

The bucket server of the tests runs in this process, so that seconds by the clock are those of both; processor seconds
are the stage's. Workers are threads of Beam (`--direct_running_mode=multi_threading`), whose rows are objects, as on a
cluster. Memory is the most that any process of the stage had; temporary files are all that it has in its TMPDIR, or has
open and removed from there, at one moment of those, 20 ms apart, at which it is looked at.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.data import preprocess
from benchmarks.lib import fashion_mnist, tables
from components.core.storage import buckets
from tests.fakes.gcs.server import Request, Server, serving
from tests.fakes.http import Answer
from tests.proofs.stages import command

_PAGE = 1000
_FILES_OF_WORKERS = 20_000
_COLUMNS = (
    "", "seconds", "ms of CPU an image", "requests an image", "kB read an image", "kB written an image", "MiB at most",
    "MB of temporary files",
)  # fmt: skip
_LIST = "from components.core.sources import sources; print(len(sources.list_source('gs://b/many').files))"


@dataclasses.dataclass
class Cost:
    """The cost of one run of the stage."""

    seconds: float
    cpu: float
    mebibytes: float
    temporary: float  # MB at most
    requests: int
    read: float  # MB
    written: float  # MB


class Meter:
    """Counts the bytes of content that a server sends and receives."""

    def __init__(self, server: Server) -> None:
        self.sent = self.taken = 0
        self._server = server

    def note(self, request: Request) -> None:
        """Count the content of one request."""
        self.taken += len(request.body) if "/upload/" in request.path else 0
        if request.query.get("alt") == "media":
            if wanted := request.headers.get("Range"):
                first, last = map(int, wanted.removeprefix("bytes=").split("-"))
                self.sent += last - first + 1
            else:
                name = urllib.parse.unquote(request.path.rpartition("/o/")[2])
                held = self._server.objects["b"].get(name)
                self.sent += len(held.content) if held else 0


def run(server: Server, words: list[str], answer: Callable[[Request], None] | None = None) -> Cost:
    """Run a command against a bucket server, or against another handler."""
    meter = Meter(server)
    server.requests.clear()
    server.before = answer or meter.note
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as log:
        environment = {**os.environ, "TMPDIR": scratch, "STORAGE_EMULATOR_HOST": server.url}
        started = time.monotonic()
        process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=log)
        peaks, ended = Peaks(), threading.Event()
        watch = threading.Thread(target=_watch, args=(Path(scratch), peaks, ended))
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        ended.set()
        watch.join()
        log.seek(0)
        if status:
            raise SystemExit(f"{' '.join(words)} ended with {os.waitstatus_to_exitcode(status)}: {log.read()[-2000:]}")
    server.before = None
    requests = len(server.requests)
    server.requests.clear()
    cpu, memory, files = usage.ru_utime + usage.ru_stime, peaks.memory / 1024, peaks.files / 1e6
    return Cost(seconds, cpu, memory, files, requests, meter.sent / 1e6, meter.taken / 1e6)


@dataclasses.dataclass
class Peaks:
    """The peaks of memory and of temporary files."""

    memory: int = 0  # KiB of one process
    files: int = 0  # bytes


def _watch(folder: Path, peaks: Peaks, ended: threading.Event) -> None:
    while not ended.wait(0.02):
        processes = [*_processes(folder)]
        # Not the usage that the system tells at the end, which has the memory of this process, the child's parent.
        peaks.memory = max([peaks.memory, *map(_peak_memory, processes)])
        peaks.files = max(peaks.files, sum(_sizes(folder, processes)))


def _processes(folder: Path) -> Iterator[Path]:
    """Yield the processes whose TMPDIR is a folder."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"TMPDIR={folder}\0".encode() in (process / "environ").read_bytes():
                yield process


def _peak_memory(process: Path) -> int:
    with contextlib.suppress(OSError):
        for line in (process / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def _sizes(folder: Path, processes: list[Path]) -> Iterator[int]:
    """Yield the sizes of the files below a folder, and of removed ones that processes still have open."""
    seen = set()
    for location in [*folder.rglob("*"), *(each for process in processes for each in _open_files(process, folder))]:
        with contextlib.suppress(OSError):
            found = location.stat()
            if location.is_file() and (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                yield found.st_size


def _open_files(process: Path, folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for handle in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if str(handle.readlink()).startswith(str(folder)):
                    yield handle


def put(server: Server, folder: Path, name: str, most: int | None = None) -> int:
    """Put the files of a folder into the bucket; return how many."""
    os.environ["STORAGE_EMULATOR_HOST"] = server.url
    paths = sorted(filter(Path.is_file, folder.rglob("*")))[:most]
    for path in paths:
        buckets.create(f"gs://b/{name}/{path.relative_to(folder)}", path)
    return len(paths)


def stage(server: Server, name: str, beam_options: str = "", **settings: object) -> Cost:
    """Run the stage on a source in the bucket."""
    words = command("preprocess", source=f"gs://b/{name}", dataset="gs://b/made", beam_options=beam_options, **settings)
    try:
        return run(server, words)
    finally:
        for stored in buckets.below("gs://b/made"):
            buckets.delete(stored)


def listing(server: Server, count: int) -> Cost:
    """List objects that the server invents, page by page."""

    def answer(request: Request) -> None:
        if request.query.get("prefix") != "many/":
            return
        first = int(request.query.get("pageToken") or 0)
        items = [
            {"bucket": "b", "name": f"many/{number:012}.png", "size": "1", "crc32c": "AAAAAA==", "generation": "1"}
            for number in range(first, min(first + _PAGE, count))
        ]
        more = {"nextPageToken": str(first + _PAGE)} if first + _PAGE < count else {}
        body = json.dumps({"kind": "storage#objects", "items": items, **more}).encode()
        raise Answer(200, body, {"Content-Type": "application/json"})

    return run(server, [sys.executable, "-c", _LIST], answer)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--names", type=int, default=10_000_000)
    given = parser.parse_args()
    files = fashion_mnist.BUILD / "preprocess" / f"files-{given.files}"
    preprocess.write_files(files, given.files)
    sources = {f"{given.files:,} PNG and JPEG files to 64x64x3": (files, given.files)}
    if idx := os.environ.get("FASHION_MNIST_DIR"):
        sources = {"Fashion-MNIST, IDX files": (Path(idx), 70_000), **sources}
    else:
        print("Fashion-MNIST left out: set FASHION_MNIST_DIR to the folder of its four files (*-ubyte.gz)")
    with serving(page_size=_PAGE) as server:
        server.create_bucket("b")
        rows = []
        for number, (what, (folder, images)) in enumerate(sources.items()):
            put(server, folder, f"source-{number}")
            rows.append([what, *_cells(stage(server, f"source-{number}"), images)])
        tables.show("From a bucket into a bucket, in the stage's process", _COLUMNS, rows)
        some = put(server, files, "some", _FILES_OF_WORKERS)
        rows = []
        for workers in (1, 2, 4):
            options = f"--direct_num_workers={workers} --direct_running_mode=multi_threading"
            rows.append([f"{workers}", *_cells(stage(server, "some", options, images_per_shard=1000), some)])
        tables.show(f"{some:,} of the files, by workers whose rows are objects", ["workers", *_COLUMNS[1:]], rows)
        if given.names:
            cost = listing(server, given.names)
            row = [f"{given.names:,}", *(f"{each:,.0f}" for each in (cost.seconds, cost.cpu, cost.mebibytes))]
            columns = ["names listed", "seconds", "CPU seconds", "MiB at most", "MB of temporary files"]
            tables.show("A listing", columns, [[*row, f"{cost.temporary:,.0f}"]])


def _cells(cost: Cost, images: int) -> list[str]:
    each = (cost.requests / images, 1e3 * cost.read / images, 1e3 * cost.written / images)
    shares = [f"{1e3 * cost.cpu / images:.2f}", *(f"{share:.3g}" for share in each)]
    return [f"{cost.seconds:.1f}", *shares, f"{cost.mebibytes:,.0f}", f"{cost.temporary:,.0f}"]


if __name__ == "__main__":
    main()
