"""`wgan registry verify`, `promote`, `rollback` and `gc`, in folders and in buckets alike."""

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from components.core.artifacts import evaluations, models
from components.core.errors import DataError, Superseded, TransientError
from components.core.registry import registry
from components.core.storage import atomic_files, buckets
from components.core.storage.location import Location
from components.decide import run as decide
from components.decide.config import DecideConfig
from components.evaluate import inputs
from tests.fakes.gcs.server import HangUp, Request, Server
from tests.faults.candidates import Candidate, candidate
from tests.programs import umask
from tests.system.whole_runs import against_umask
from tests.unit.pipeline.conftest import Ended, ended

# A connection that a thread leaves open is left to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

VERSIONS = 5
Ask = Callable[..., Ended]


@pytest.fixture(scope="module")
def candidates(tmp_path_factory: pytest.TempPathFactory) -> list[Candidate]:
    """Each was compared with the one before it, which was published."""
    folder = tmp_path_factory.mktemp("candidates")
    chain = [candidate(folder / "1", 1)]
    for number in range(2, VERSIONS + 2):
        chain.append(candidate(folder / str(number), number, rival=(chain[-1].digest, number - 1)))
    return chain


@pytest.fixture(scope="module")
def published(candidates: list[Candidate], tmp_path_factory: pytest.TempPathFactory) -> Path:
    location = tmp_path_factory.mktemp("published") / "registry"
    for model in candidates[:VERSIONS]:
        model.publish(location)
    return location


@pytest.fixture(params=["folder", "bucket"])
def location(request: pytest.FixtureRequest, published: Path, tmp_path: Path, gcs: Server) -> str:
    """The registry, in a folder, or copied from there to a bucket."""
    if request.param == "folder":
        return str(shutil.copytree(published, tmp_path / "registry"))
    gcs.create_bucket("b")
    for path in published.rglob("*"):
        if path.is_file() and path.name != ".lock":
            buckets.create(f"gs://b/registry/{path.relative_to(published).as_posix()}", path)
    return "gs://b/registry"


@pytest.fixture
def ask(location: str) -> Ask:
    return lambda *words: ended("registry", *words, "--registry", location)


def write(location: str, name: str, content: bytes | None) -> None:
    """Change a file of the registry, or delete it, without its checks."""
    folder = Location.of(location)
    if content is not None:
        folder.replace(name, content, folder.content(name))
    elif folder.in_bucket:
        buckets.delete(folder.files()[name])
    else:
        (folder.path / name).unlink()


def champion(location: str) -> registry.Champion:
    return registry.read_pointer(location).champion


def test_verify_names_every_file_that_is_damaged_or_added(location: str, ask: Ask) -> None:
    answer = ask("verify")
    whole = [[str(number), "whole"] for number in range(1, VERSIONS)]
    assert [line.split() for line in answer.out.splitlines()[1:]] == [*whole, ["5", "champion", "whole"]]
    assert answer.code == 0
    for name, content in (
        ("2/variables/variables.data", b"variables/variables.dat_ of 2"),
        ("2/evaluation/metrics.json", b"{}"),
        ("2/evaluation/.hidden", b""),
        ("3/saved_model.pb", None),
        ("3/variables/more", b""),
        ("4/evaluation/verdict.json", b"{"),
    ):
        write(location, f"versions/{name}", content)
    answer = ask("verify")
    assert answer.code == 65
    states = [line.split()[-1] for line in answer.out.splitlines()[1:]]
    assert states == ["whole", "damaged", "damaged", "damaged", "whole"]
    logged = {line.split()[1]: line for line in answer.logged.splitlines() if line.startswith("version ")}
    assert all(name in logged["2"] for name in ("variables/variables.data", "evaluation/metrics.json", ".hidden"))
    assert all(name in logged["3"] for name in ("saved_model.pb", "variables/more"))
    assert "verdict.json" in logged["4"]
    listed = ask("list")
    assert (listed.code, "damaged" in listed.out) == (65, True)
    assert [ask("verify", number).code for number in (1, 2, 7)] == [0, 65, 65]
    write(location, "champion.json", b"{")
    answer = ask("verify")
    assert (answer.code, len(answer.out.splitlines())) == (65, VERSIONS + 1)
    assert "champion" in answer.logged


def test_verify_names_what_is_lost_and_folders_that_are_no_version(published: Path, location: str, ask: Ask) -> None:
    """A copied folder is found by its name, which counts as no other version, or as it was not published."""
    version = published / "versions/5"
    for copy in ("0", "01", "6", "Copy of 5", "٥"):
        for path in filter(Path.is_file, version.rglob("*")):
            write(location, f"versions/{copy}/{path.relative_to(version).as_posix()}", path.read_bytes())
    registry.remove(location, 2)
    assert registry.versions(location) == [1, 3, 4, 5, 6]
    answer = ask("verify")
    assert answer.code == 65
    assert [line.split()[0] for line in answer.out.splitlines()[1:] if "whole" in line] == ["1", "3", "4", "5"]
    strays = [f"versions/{copy} of" for copy in ("0", "01", "Copy of 5", "٥")]
    assert [line for line in ("version 2 of", *strays, "version 6 of") if line not in answer.logged] == []
    assert "versions/6" not in answer.logged


def test_verify_names_claims_and_the_history_of_champions(location: str, ask: Ask) -> None:
    damaged = {"claims/00000003": b"{}", "champions/00000002.json": None, "champions/00000004.json": b"{}"}
    for name, content in {**damaged, "versions/2/recipe.json": b"{}"}.items():
        write(location, name, content)
    answer = ask("verify")
    assert answer.code == 65
    assert [name for name in (*damaged, "version 2 of") if name not in answer.logged] == []


def test_verify_names_links(published: Path, tmp_path: Path) -> None:
    location = shutil.copytree(published, tmp_path / "registry")
    versions, elsewhere = location / "versions", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for number, name in ((2, "."), (3, "saved_model.pb"), (4, "variables")):
        path = versions / str(number) / name
        moved = path.rename(elsewhere / str(number))
        path.symlink_to(moved)
    damage = [registry.damage(str(location), number, champion(str(location))) for number in (1, 2, 3, 4)]
    assert [len(problems) for problems in damage] == [0, 1, 1, 1]
    assert all(name in problem for name, (problem,) in zip(("saved_model.pb", "variables"), damage[2:], strict=True))


def test_list_why_reproduce_and_promote(location: str, ask: Ask) -> None:
    answer = ask("list")
    assert [line.split()[:2] for line in answer.out.splitlines()[-2:]] == [["4", "4"], ["5", "champion"]]
    assert ask("why", 5).out.startswith("version     5, the champion\n")
    assert "# version 2: " in ask("reproduce", 2).out
    assert ask("promote", 2)[:3] == (0, "version 2 is the champion\n", [])
    promoted = champion(location)
    assert (promoted.version, promoted.revision, promoted.previous) == (2, 6, (1, 2, 3, 4, 5))
    assert ask("promote", 2).code == 0
    assert champion(location) == promoted
    assert ask("promote", 9).code == 65
    write(location, "versions/4/saved_model.pb", b"another")
    assert "saved_model.pb" in ask("promote", 4).logged
    version = registry.version_location(location, 3).require(models.MANIFEST, "model").path
    value = evaluations.Manifest.read(version / "evaluation").to_json()
    write(location, "versions/3/evaluation/verdict.json", atomic_files.sealed_json({**value, "verdict": "HOLD"}))
    answer = ask("promote", 3)
    assert (answer.code, "HOLD" in answer.logged) == (65, True)
    assert champion(location) == promoted
    assert ask("rollback")[0] == 0
    assert champion(location).version == 5


@pytest.mark.parametrize(("versions", "content"), [(1, None), (VERSIONS, b"{")])
def test_a_lost_champion_is_refused_everywhere_until_one_is_promoted(
    location: str, ask: Ask, candidates: list[Candidate], content: bytes | None, versions: int
) -> None:
    """Otherwise a worse model, compared with none, would be published as the first. Here the history is lost too."""
    for number in range(versions + 1, VERSIONS + 1):
        registry.remove(location, number)
    for revision in range(1, VERSIONS + 1):
        write(location, f"champions/{revision:08d}.json", None)
    write(location, registry.CHAMPION, content)
    remedy = "registry promote"
    for words in (["verify"], ["list"], ["why", 1], ["reproduce", 1], ["rollback"], ["gc", "--yes"]):
        answer = ask(*words)
        assert (answer.code, registry.CHAMPION in answer.logged, remedy in answer.logged) == (65, True, True), words
    for refused in (lambda: decide.run(decides(location)), lambda: candidates[0].publish(location)):
        with pytest.raises(DataError, match=remedy):
            refused()
    rival = inputs.read_champion(location)
    assert rival is not None
    assert (rival.digest, remedy in rival.problem) == ("unreadable", True)
    assert registry.versions(location) == [*range(1, versions + 1)]

    assert ask("promote", 1).code == 0
    moved = champion(location)
    assert (moved.version, moved.previous, moved.rolled_back) == (1, (), tuple(range(2, versions + 1)))
    assert [ask(*words).code for words in (["verify"], ["list"], ["gc"], ["rollback"])] == [0, 0, 0, 65]
    if versions > 1:  # rolled back before the loss, perhaps
        assert candidates[1].publish(location).reused
    assert champion(location) == moved
    assert decide.run(decides(location)).parameters["decision"] == "RUN"
    later = atomic_files.sealed_json({"schema_version": 3})  # of a later program
    for content, codes in ((b'{"version": 1}', [65, 0]), (later, [65, 65])):
        write(location, registry.CHAMPION, content)
        assert [ask(*words).code for words in (["list"], ["promote", 1])] == codes


@pytest.mark.parametrize("how", ["lost", "damaged", "older"])
def test_the_history_tells_what_a_lost_champion_was(location: str, ask: Ask, how: str) -> None:
    before, older = champion(location), Location.of(location).content("champions/00000004.json")
    write(location, registry.CHAMPION, {"lost": None, "damaged": b"{", "older": older}[how])
    answer = ask("verify")
    assert (answer.code, "registry promote 5" in answer.logged) == (65, True)
    with pytest.raises(DataError, match="registry promote 5"):
        registry.read_champion(location)
    assert ask("promote", 5).code == 0
    assert champion(location) == dataclasses.replace(before, revision=6)
    assert ask("verify").code == 0


def decides(location: str) -> DecideConfig:
    return DecideConfig(source="digits", registry=location, settings="")


def test_rollback_and_what_published_it_does_not_undo_it(location: str, ask: Ask, candidates: list[Candidate]) -> None:
    for number in (4, 3, 2, 1):
        code, out, *_ = ask("rollback")
        assert (code, re.findall(r"\d+", out)) == (0, [f"{number}", f"{number + 1}"])
    assert ask("rollback").code == 65
    oldest = champion(location)
    assert (oldest.version, oldest.revision, oldest.previous, oldest.rolled_back) == (1, 9, (), (2, 3, 4, 5))
    if not buckets.is_uri(location):
        assert against_umask(Path(location, registry.CHAMPION), umask() | 0o027) == {}
    again = candidates[1].publish(location)  # compared with version 1, which is champion again
    assert (again.reused, again.parameters["version"]) == (True, 2)
    assert champion(location) == oldest


def test_gc_prints_and_only_with_yes_removes(location: str, ask: Ask, candidates: list[Candidate]) -> None:
    assert ask("rollback")[0] == 0  # to version 4; 3 was before it
    answer = ask("gc", "--keep", 1)
    assert (answer.code, [line.split()[0] for line in answer.out.splitlines()[1:3]]) == (0, ["1", "2"])
    assert registry.versions(location) == [1, 2, 3, 4, 5]
    assert ask("gc", "--keep", 1, "--yes")[1].endswith("\nremoved: 2\n")
    assert registry.versions(location) == [3, 4, 5]
    kept = champion(location)
    assert (kept.version, kept.removed, kept.revision) == (4, (1, 2), 7)
    assert ask("gc", "--keep", 1, "--yes")[:3] == (0, "nothing to remove\n", [])
    assert champion(location) == kept
    assert [ask(*words).code for words in (("promote", 1), ("rollback",), ("rollback",))] == [65, 0, 65]
    assert [line.split()[0] for line in ask("list")[1].splitlines()] == ["version", "3", "4", "5"]
    assert ask("promote", 5)[0] == 0
    assert candidates[5].publish(location).parameters["version"] == 6  # no number is given twice
    assert ask("gc", "--keep", 0)[0] == 64


@pytest.mark.usefixtures("no_retries")
def test_every_verb_before_the_first_publication(
    location: str, tmp_path: Path, gcs: Server, candidates: list[Candidate]
) -> None:
    """Where there is no folder, an empty one, and one in which the first publication was interrupted."""
    empty = "gs://b/empty" if buckets.is_uri(location) else str(tmp_path / "empty")
    collect = ["gc", "--uncommitted", "--yes"]
    verbs = ["list", "why 1", "reproduce 1", "export 1 exported --license mit", "verify", "verify 1", "promote 1"]

    def codes() -> set[int]:
        answers = [ended("registry", *words.split(), "--registry", empty) for words in (*verbs, "rollback")]
        assert all(empty in answer.logged and "Traceback" not in answer.logged for answer in answers)
        return {answer.code for answer in answers}

    assert codes() == {65}
    if not buckets.is_uri(location):
        assert (ended("registry", *collect, "--registry", empty).code, Path(empty).exists()) == (65, False)
        Path(empty).mkdir()
    assert ended("registry", *collect, "--registry", empty)[:3] == (0, "nothing to remove\n", [])
    interrupt(candidates[0], empty, gcs)
    assert codes() == {65}
    assert ended("registry", *collect, "--registry", empty).out.endswith("\nremoved: 1\n")
    assert ended("registry", "list", "--registry", "gs://nowhere/registry").code == 64


def interrupt(one: Candidate, location: str, gcs: Server) -> str:
    """Publish until a process is killed: return the version with some of its files."""

    def fail(request: Request) -> None:
        if request.method == "POST" and b"saved_model.pb" in request.body:
            raise HangUp

    def fail_here(there: Location, sources: dict[str, Path]) -> None:
        if any("saved_model.pb" in name for name in sources):
            raise TransientError("killed")
        create(there, sources)

    create, gcs.before = Location.create, fail
    with mock.patch.object(Location, "create", fail_here), pytest.raises(TransientError):
        one.publish(location)
    gcs.before = None
    return str(max(registry.begun(location)))


def test_of_two_changes_at_once_one_fails(candidates: list[Candidate], bucket: Server) -> None:
    """A rollback between another command's read and write; a removal and a promotion among them."""
    location = "gs://b/registry"
    for model in candidates[:3]:
        model.publish(location)
    for words in (["promote", "1"], ["rollback"], ["gc", "--keep", "1", "--yes"]):

        def meanwhile(request: Request) -> None:
            if request.method == "POST":
                bucket.before = None
                pointer = registry.read_pointer(location)
                other = registry.read_version(location, 5 - pointer.champion.version)  # 2 and 3 in turn
                registry.move_champion(location, pointer, registry.crowned(pointer.champion, other))

        before = champion(location)
        bucket.before = meanwhile
        assert ended("registry", *words, "--registry", location).code == 73
        after = champion(location)
        assert (after.revision, after.version, after.removed) == (before.revision + 1, 5 - before.version, ())
        assert registry.versions(location) == [1, 2, 3]


@pytest.mark.usefixtures("no_retries")
def test_an_unfinished_publication_is_removed_and_can_begin_anew(
    location: str, ask: Ask, candidates: list[Candidate], gcs: Server
) -> None:
    name = interrupt(candidates[5], location, gcs)
    assert name == "6"
    assert [line.split()[0] for line in ask("gc").out.splitlines()[1:3]] == ["1", "2"]
    assert ask("gc", "--keep", 5)[:3] == (0, "nothing to remove\n", [])
    assert ask("gc", "--uncommitted", "--keep", 5)[1].splitlines()[1].split() == [name, "never", "finished"]
    assert ask("gc", "--uncommitted", "--keep", 5, "--yes")[1].endswith("\nremoved: 1\n")
    assert ask("gc", "--uncommitted", "--keep", 5)[:3] == (0, "nothing to remove\n", [])
    assert candidates[5].publish(location).parameters["version"] == 7
    assert champion(location).version == 7
    assert ask("verify")[0] == 0


def test_what_is_removed_while_it_is_published_never_becomes_champion(
    candidates: list[Candidate], bucket: Server
) -> None:
    location = "gs://b/registry"
    candidates[0].publish(location)

    def remove(request: Request) -> None:
        if request.method == "POST" and b"versions/2/MANIFEST.json" in request.body:
            bucket.before = None
            assert ended("registry", "gc", "--uncommitted", "--yes", "--registry", location).code == 0

    bucket.before = remove
    with pytest.raises(Superseded, match="version 2"):
        candidates[1].publish(location)
    assert [*registry.begun(location)] == [1, 2]  # it was committed without its files, and is no version
    assert registry.versions(location, champion(location)) == [1]
    assert ended("registry", "verify", "--registry", location).code == 0
    assert candidates[1].publish(location).parameters["version"] == 3
    assert ended("registry", "gc", "--yes", "--registry", location).code == 0
    assert [*registry.begun(location)] == [1, 3]


def test_a_removal_that_was_interrupted_is_finished(location: str, ask: Ask, gcs: Server) -> None:
    if not buckets.is_uri(location):  # champion.json says that it is gone, and it is not
        before = champion(location)
        dataclasses.replace(before, revision=before.revision + 1, removed=(2,)).write(Path(location))
        assert registry.versions(location, champion(location)) == [1, 3, 4, 5]
        assert ask("gc", "--keep", 5)[1].splitlines()[1].split() == ["2", "removed", "before,", "with", "files", "left"]
        assert ask("gc", "--keep", 5, "--yes")[0] == 0
        assert registry.versions(location) == [1, 3, 4, 5]
        return
    gcs.deny("storage.objects.delete", "registry/versions/2/variables")
    answer = ask("gc", "--yes")
    assert (answer.code, "storage.objects.delete" in answer.logged) == (64, True)
    assert registry.versions(location, registry.read_pointer(location).champion) == [3, 4, 5]
    gcs.denied.clear()
    deleted = [request.path.split("%2F")[-2:] for request in gcs.requests if request.method == "DELETE"]
    assert deleted[:2] == [["1", "MANIFEST.json"], ["1", "saved_model.pb"]]
    assert ask("gc", "--yes")[0] == 0
    assert [*registry.begun(location)] == [3, 4, 5]
