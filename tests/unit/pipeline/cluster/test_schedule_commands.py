"""`wgan schedule`: without a file, and mistakes; see `test_story.py`."""

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.kubeflow.server import Server
from tests.unit.pipeline.cluster.conftest import Schedule, Write, recurring, wgan


def test_without_a_file_what_is_there_can_be_steered(
    write: Write, path: Path, server: Server, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(weekly={})
    schedule("apply")
    monkeypatch.chdir(path.parent / "..")
    for words, mode in ((["pause", "weekly"], "DISABLE"), (["resume", "weekly"], "ENABLE")):
        assert wgan("schedule", *words, "--target", "kfp", "--host", server.url).code == 0
        assert recurring(server)[0]["mode"] == mode
    assert "weekly    kfp     enabled" in wgan("schedule", "list", "--target", "kfp", "--host", server.url).out
    # Of two, one of which waits for its run, the file says which may start runs.
    server.tick()
    write(weekly={"cron": "0 7 * * 1"})
    schedule("apply")
    schedule("pause", "weekly")
    assert wgan("schedule", "resume", "weekly", "--target", "kfp", "--host", server.url).code == 64
    assert [live["mode"] for live in recurring(server)] == ["DISABLE", "DISABLE"]
    assert schedule("resume", "weekly")[:2] == (0, ["weekly: resumed"])
    assert [live["mode"] for live in recurring(server)] == ["DISABLE", "ENABLE"]


@pytest.mark.parametrize(
    ("words", "content", "named"),
    [
        (["apply"], {}, "--target kfp or vertex"),
        (["pause", "monthly"], {"weekly": {}}, "monthly"),
        (["apply"], {"weekly": {"cron": "0 0 9 * * 1"}}, "schedules.weekly.cron"),
        (["frobnicate"], {"weekly": {}}, "'frobnicate'"),
        (["pause"], {"weekly": {}}, "NAME"),
        (["apply", "--targt", "kfp"], {"weekly": {}}, "target?"),
    ],
)
def test_mistakes(
    write: Write, server: Server, schedule: Schedule, words: list[str], content: dict[str, Any], named: str
) -> None:
    write(**content)
    code, printed, logged = schedule(*words)
    assert (code, printed, len(logged)) == (64, [], 1)
    assert named in logged[0]
    assert all(request.method == "GET" for request in server.requests)


def test_nothing_is_sent_where_one_of_the_places_cannot(
    write: Write, server: Server, schedule: Schedule, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    write(weekly={}, nightly={"target": "vertex", "package": str(packages / "vertex.yaml")})
    code, _, logged = schedule("apply", "--location", "us-central1")
    assert (code, len(logged)) == (64, 1)
    assert "--project" in logged[0]
    assert server.requests == []
