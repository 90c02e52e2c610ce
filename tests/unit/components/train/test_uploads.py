"""Checkpoints on their way into a bucket: their order, outages, and the view of another machine."""

import functools
import itertools
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from components.core.artifacts import checkpoints, training_log
from components.core.errors import Superseded, TransientError
from components.core.storage import buckets
from components.core.storage.location import COMMITTED, Location
from components.train import uploads
from components.train.uploads import Uploads
from tests.fakes.gcs.server import Request, Server
from tests.faults.soak.served import die_at_every_request, dies
from tests.inputs import artifacts
from tests.inputs.damages import damages

URI = "gs://b/training"
KEEP = 2
NEWEST = functools.partial(checkpoints.kept, count=KEEP)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "SECONDS_BETWEEN_ATTEMPTS", 0.02)


def train_to(step: int, weight: float = 0.5) -> Path:
    """Do a training's work at a step: a row of the log, a sample, a checkpoint, retention."""
    folder = Location.of(URI).path
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    training_log.append(folder / training_log.METRICS, {"step": step})
    (folder / "samples" / f"step-{step:010d}.png").write_bytes(b"picture of %d" % step)
    save(step, folder, weight)
    checkpoints.keep(folder, NEWEST)
    return folder


def train_and_send(sending: Uploads, *steps: int, weight: float = 0.5) -> Path:
    for step in steps:
        folder = train_to(step, weight)
        sending.saved(step, NEWEST)
    return folder


def save(step: int, location: Path, weight: float) -> None:
    checkpoints.save(location, artifacts.checkpoint(step), {"weight": np.full(3, weight * step)})


def forget() -> None:
    shutil.rmtree(Location.of("gs://b").path)


def in_bucket() -> list[int]:
    return uploads._steps_in_bucket(Location.of(URI))


def test_another_machine_goes_on_where_this_one_stopped(bucket: Server) -> None:
    sending = Uploads(Location.of(URI))
    with sending.running():
        location = train_and_send(sending, 1, 2, 3)
    assert in_bucket() == [2, 3]
    newest = checkpoints.newest(location)
    log = (location / training_log.METRICS).read_bytes()
    forget()
    uploads.fetch(Location.of(URI))
    assert checkpoints.newest(location) == newest
    (checkpoints.step_folder(location, 3) / "state.npz").write_bytes(b"")
    uploads.fetch(Location.of(URI))  # again, as the mirror is damaged
    assert checkpoints.newest(location) == newest
    assert checkpoints.steps(location) == [3]
    training_log.go_back(location, 3, checkpoints.step_folder(location, 3))
    assert (location / training_log.METRICS).read_bytes() == log
    pictures = [name for name in bucket.contents() if name.endswith(".png")]
    assert pictures == [f"training/samples/step-{step:010d}.png" for step in (1, 2, 3)]


@pytest.mark.usefixtures("no_retries")
def test_an_outage_delays_sending_and_nothing_else(
    bucket: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "REQUEST_SECONDS", 3600.0)
    caplog.set_level("INFO")
    trained = threading.Event()

    def hold(request: Request) -> None:
        trained.wait()

    sending = Uploads(Location.of(URI))
    with sending.running():
        train_and_send(sending, 1)
        bucket.before = hold
        train_and_send(sending, 2, 3, 4)
        bucket.outage(True)
        trained.set()
        while "ERROR" not in [record.levelname for record in caplog.records]:
            time.sleep(0.01)
        bucket.outage(False)
    assert bucket.fired
    assert in_bucket() == [3, 4]
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


@pytest.mark.usefixtures("no_retries")
def test_an_outage_that_lasts_to_the_end_is_reported_and_nothing_is_lost(bucket: Server) -> None:
    sending = Uploads(Location.of(URI))

    def trained() -> None:
        with sending.running():
            assert checkpoints.steps(train_and_send(sending, 1)) == [1]
            bucket.outage(True)
            train_and_send(sending, 2)

    with pytest.raises(TransientError, match="gs://b/training/"):
        trained()
    bucket.outage(False)
    location = Location.of(URI).path
    uploads.fetch(Location.of(URI))
    assert checkpoints.steps(location) == [1, 2]
    uploads.send_all(Location.of(URI), KEEP)
    assert in_bucket() == [1, 2]


def test_a_training_that_goes_back_takes_back_what_it_had_sent(bucket: Server) -> None:
    """A rollback: neither checkpoints nor rows of later steps stay."""
    location = Location.of(URI).path
    sending = Uploads(Location.of(URI))
    with sending.running():
        train_and_send(sending, 1, 2, 3)
        while 3 not in in_bucket():
            time.sleep(0.01)
        shutil.rmtree(checkpoints.step_folder(location, 3))
        training_log.go_back(location, 2, checkpoints.step_folder(location, 2))
        sending.went_back(2)
        training_log.append(location / training_log.METRICS, {"step": 3, "again": True})
        (location / "samples" / "step-0000000003.png").write_bytes(b"another")
        save(3, location, 0.25)
        sending.saved(3, NEWEST)
    objects = bucket.contents()
    forget()
    uploads.fetch(Location.of(URI))
    again = checkpoints.step_folder(location, 3)
    assert checkpoints.load_state(again)["weight"].tolist() == [0.75] * 3
    assert training_log.read(again / training_log.METRICS) == [{"step": 1}, {"step": 2}, {"step": 3, "again": True}]
    assert objects["training/samples/step-0000000003.png"] == b"another"
    assert in_bucket() == [2, 3]


def test_the_same_checkpoint_with_a_log_of_another_speed_is_sent_already(bucket: Server) -> None:
    """A retry beside the zombie that it replaces, on the same hardware: the log of the first stays."""
    location = train_to(1)
    uploads.send_all(Location.of(URI), KEEP)
    before, asked = bucket.contents(), len(bucket.writes())
    uploads.send_all(Location.of(URI), KEEP)
    assert len(bucket.writes()) == asked
    forget()
    location.mkdir(parents=True)
    training_log.append(location / training_log.METRICS, {"step": 1, "images_per_second": 2})
    save(1, location, 0.5)
    uploads.send_all(Location.of(URI), KEEP)
    assert bucket.contents() == before


def test_a_superseded_training_stops_at_its_next_checkpoint_and_the_first_of_a_step_stands(bucket: Server) -> None:
    """A retry beside the zombie that it replaces, on hardware that rounds differently."""
    train_to(1)
    uploads.send_all(Location.of(URI), KEEP)
    forget()
    before = bucket.contents()
    sending = Uploads(Location.of(URI))

    def trained() -> None:
        with sending.running():
            for step in itertools.count(1):
                train_and_send(sending, step, weight=0.25)
                time.sleep(0.01)

    with pytest.raises(Superseded, match=r"gs://b/training .* step 1;") as raised:
        trained()
    assert raised.value.exit_code == 73
    kept = {name: content for name, content in bucket.contents().items() if not name.endswith(".png")}
    assert kept == {name: content for name, content in before.items() if not name.endswith(".png")}


def test_another_machine_goes_back_to_what_the_bucket_has(bucket: Server) -> None:
    for step in (1, 2, 3, 4):
        location = train_to(step)
        uploads.send_all(Location.of(URI), 0)
    forget()
    uploads.fetch(Location.of(URI))
    assert checkpoints.steps(location) == [4]
    uploads.fetch(Location.of(URI), 3)
    assert checkpoints.steps(location) == [3, 4]
    asked = len(bucket.requests)
    uploads.fetch(Location.of(URI), 3)
    assert {request.method for request in bucket.requests[asked:]} == {"GET"}
    assert not any("/step-0000000003/" in request.path for request in bucket.requests[asked:])
    uploads.fetch(Location.of(URI), 0)
    assert checkpoints.steps(location) == [3, 4]


def test_a_damaged_checkpoint_in_the_bucket_is_named_passed_over_and_made_again(
    bucket: Server, caplog: pytest.LogCaptureFixture
) -> None:
    location = Location.of(URI).path
    for step in (1, 2):
        train_to(step)
    uploads.send_all(Location.of(URI), KEEP)
    whole = bucket.contents()
    names = ("state.npz", checkpoints.MANIFEST, COMMITTED)
    checked = [name for name in whole if "/step-0000000002/" in name and name.rpartition("/")[2] in names]
    assert len(checked) == 3
    for name in checked:
        for how, left in damages(whole[name]).items():
            if left is not None:
                buckets.put(f"gs://b/{name}", left)
            else:
                del bucket.objects["b"][name]
            caplog.clear()
            forget()
            uploads.fetch(Location.of(URI))
            assert Path(name).name in caplog.text or (name, left) == (f"training/step-0000000002/{COMMITTED}", None)
            newest = checkpoints.newest(location)
            assert newest is not None
            assert newest[1].step == 1
            training_log.go_back(location, 1, newest[0])
            train_to(2)
            uploads.send_all(Location.of(URI), KEEP)
            assert bucket.contents() == whole, (name, how)


def test_death_at_every_request_of_an_upload(bucket: Server) -> None:
    """Another machine finds a whole checkpoint with a log that reaches it."""
    train_to(1)
    uploads.send_all(Location.of(URI), KEEP)
    before, location = dict(bucket.objects["b"]), Location.of(URI).path

    def trial(at: int, acted: bool) -> bool:
        bucket.objects["b"].clear()
        bucket.objects["b"].update(before)
        forget()
        uploads.fetch(Location.of(URI))
        training_log.go_back(location, 1, checkpoints.step_folder(location, 1))
        train_to(2)
        died = dies(bucket, at, acted, uploads.send_all, Location.of(URI), KEEP)
        forget()
        uploads.fetch(Location.of(URI))
        newest = checkpoints.newest(location)
        assert newest is not None
        assert newest[1].step == (2 if "training/step-0000000002/committed.json" in bucket.contents() else 1)
        steps = range(1, newest[1].step + 1)
        assert training_log.read(newest[0] / training_log.METRICS) == [{"step": step} for step in steps]
        return died

    assert die_at_every_request(trial) > 15
