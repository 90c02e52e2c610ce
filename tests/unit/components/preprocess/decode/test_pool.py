"""A decoder that crashes, loops or takes all memory costs one image."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.artifacts.datasets import ImageShape
from components.core.data import pixels
from components.core.errors import TransientError
from components.preprocess.decode import pool
from tests.faults.damage.broken_decoder import SHAPE, broken_decoder, decode, png


@pytest.fixture(autouse=True)
def faulty(tmp_path: Path) -> Iterator[None]:
    with broken_decoder(tmp_path):
        yield


def decoded_here(content: bytes, shape: ImageShape = SHAPE) -> pixels.Decoded:
    return pixels.from_file(content, shape, "fill")


def child_processes() -> list[int]:
    return [int(child) for tasks in Path("/proc/self/task").glob("*/children") for child in tasks.read_text().split()]


def process_id() -> int:
    (worker,) = pool._idle
    return worker.process.pid


def test_what_ends_one_process_is_tried_once_more(tmp_path: Path) -> None:
    contents = [png(0), png(1, "once"), png(2)]
    assert decode(contents) == [decoded_here(content) for content in contents]
    assert (tmp_path / "once").exists()


def test_a_process_decodes_batch_after_batch_and_is_replaced_once_it_died() -> None:
    decode([png(0)])
    first = process_id()
    decode([png(1), b""], ImageShape(3, 3, 1), "stretch")
    assert process_id() == first
    decode([png(1, "segfault")])
    decode([png(1)])
    assert process_id() != first
    assert not Path(f"/proc/{first}").exists()
    os.kill(process_id(), signal.SIGKILL)  # while it has nothing to do
    assert decode([png(2)]) == [decoded_here(png(2))]


def test_processes_that_were_started_before_decode_what_comes() -> None:
    pool.start(images=2 * pool.IMAGES_AT_ONCE)
    started = {worker.process.pid for worker in pool._idle}
    assert len(started) == 2
    batches = dict(pool.decode_all([(number, [png(number)]) for number in range(2)], SHAPE, "fill", processes=2))
    assert batches == {number: [decoded_here(png(number))] for number in range(2)}
    assert {worker.process.pid for worker in pool._idle} == started


def test_batches_larger_than_pipes_in_both_directions() -> None:
    shape = ImageShape(300, 400, 3)
    contents = [png(number, shape=shape) for number in range(8)]
    assert sum(map(len, contents)) > 1 << 20
    assert decode(contents, shape) == [decoded_here(content, shape) for content in contents]


def test_batches_are_decoded_beside_each_other_and_yielded_as_they_are_done(tmp_path: Path) -> None:
    batches = [("waits", [png(0, "wait")]), ("good", [png(1)]), ("crashes", [png(3), png(4, "segfault"), png(5)])]
    results = pool.decode_all(batches, SHAPE, "fill", processes=3)
    done = dict([next(results), next(results)])
    assert done.keys() == {"good", "crashes"}
    first, crashed, last = done["crashes"]
    assert [first, last] == [decoded_here(png(3)), decoded_here(png(5))]
    assert isinstance(crashed, pixels.UndecodableImage)
    (tmp_path / "once").touch()
    assert [*results] == [("waits", [decoded_here(png(0))])]


def test_batches_that_nobody_waits_for_any_more_end_their_processes() -> None:
    others = {*child_processes()} - {decoder.process.pid for decoder in pool._idle}
    results = pool.decode_all([("sleeps", [png(0, "sleep")]), ("good", [png(1)])], SHAPE, "fill", processes=2)
    assert next(results)[0] == "good"
    (idle,), decoders = pool._idle, {*child_processes()} - others
    results.close()
    assert {*child_processes()} - others == {idle.process.pid}
    assert len(decoders) == 2


def test_a_process_that_cannot_start_is_no_fault_of_an_image(tmp_path: Path) -> None:
    (tmp_path / "faulty" / "sitecustomize.py").write_text("import os; os._exit(5)")
    with pytest.raises(TransientError, match="exit status 5; "):
        decode([png(0)])


def test_modules_of_the_working_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "faulty" / "sitecustomize.py").write_text("")
    (tmp_path / "json.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    assert decode([png(0)]) == [decoded_here(png(0))]


def test_nothing_is_left_when_the_parent_is_killed() -> None:
    program = (
        "import sys, time; from components.preprocess.decode import pool; "
        "from components.core.artifacts.datasets import ImageShape; "
        "[*pool.decode_all([(0, [b''])], ImageShape(1, 1, 1), 'fill', 1)]; "
        "(found,) = pool._idle; print(found.process.pid, flush=True); time.sleep(100)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = Path(f"/proc/{int(parent.stdout.readline())}")
    assert child.exists()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    while child.exists():
        time.sleep(0.05)
