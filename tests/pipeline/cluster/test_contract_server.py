"""The contract server answers as the recorded Kubeflow Pipelines server, and keeps what its own parts promise."""

import datetime
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import croniter
import kfp
import kfp_server_api
import pytest
import requests
import yaml
from hypothesis import given
from hypothesis import strategies as st
from kfp_server_api.exceptions import ApiException

from pipeline.profiles import KFP
from tests.contract_server import cron, json_check, json_text, listing
from tests.contract_server.left_out import LEFT_OUT, OTHER_WORDS
from tests.contract_server.refusals import Refusal
from tests.contract_server.server import Answer, HangUp, Request, Server, serving
from tests.pipeline.packages import package_of

# What the client says whenever it is made.
pytestmark = pytest.mark.filterwarnings("ignore:This client only works with Kubeflow Pipeline:FutureWarning")

ROOT = Path(__file__).parents[3]
PROBE = Path(os.environ.get("KFP_PROBE_DIR", "none"))
API = "/apis/v2beta1"
SPEC = {
    "components": {"comp-train": {"executorLabel": "exec-train"}},
    "deploymentSpec": {"executors": {"exec-train": {"container": {"image": "none", "args": ["{{$}}"]}}}},
    "pipelineInfo": {"name": "tiny"},
    "root": {
        "dag": {"tasks": {"train": {"componentRef": {"name": "comp-train"}, "taskInfo": {"name": "train"}}}},
        "inputDefinitions": {"parameters": {"steps": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3.0}}},
    },
    "schemaVersion": "2.1.0",
    "sdkVersion": "kfp-2.16.1",
}
WEEKLY = {"cron_schedule": {"cron": "0 0 3 * * 1"}}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def ask(server: Server, method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, f"{server.url}{API}{path}", json=body, headers=headers, timeout=10)


def refused(answer: requests.Response) -> tuple[int, int, str]:
    """Status, code and message of an answer that is an error."""
    found = answer.json()
    return answer.status_code, found["code"], found["message"]


def upload(server: Server, *documents: dict[str, Any], name: str = "tiny") -> dict[str, Any]:
    """Uploads a pipeline and answers with its newest version's reference."""
    client = kfp.Client(server.url, namespace="kubeflow-of-tests")
    text = "---\n".join(yaml.safe_dump(document) for document in documents)
    with requests.Session() as session:
        session.trust_env = False
        files = {"uploadfile": ("tiny.yaml", text)}
        url = f"{server.url}{API}/pipelines/upload"
        answer = session.post(url, params={"name": name}, files=files, timeout=10)
    assert answer.status_code == 200, answer.text
    version = client.list_pipeline_versions(answer.json()["pipeline_id"]).pipeline_versions[0]
    return {"pipeline_id": version.pipeline_id, "pipeline_version_id": version.pipeline_version_id}


def start_run(server: Server, **fields: Any) -> dict[str, Any]:
    answer = ask(server, "POST", "/runs", {"display_name": "run", "pipeline_spec": SPEC, **fields})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def schedule(server: Server, **fields: Any) -> dict[str, Any]:
    body = {"display_name": "Every Monday", "mode": "ENABLE", "max_concurrency": "1", "trigger": WEEKLY}
    answer = ask(server, "POST", "/recurringruns", {**body, "pipeline_spec": SPEC, **fields})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


# The recorded questions


def normalised(text: str, tag: str) -> str:
    """A body without what is new each time: ids, times, tags, random names."""
    text = re.sub("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<id>", text).replace(tag, "<tag>")
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", "<time>", text)
    return re.sub(r"\b[cj][0-9a-f]{8}\b", "<name>", text)


def sorted_lists(value: Any) -> Any:
    """JSON whose lists are sorted: things of one second are listed in no order."""
    if isinstance(value, dict):
        return {key: sorted_lists(item) for key, item in value.items()}
    return sorted((sorted_lists(item) for item in value), key=json.dumps) if isinstance(value, list) else value


def same_answer(real: dict[str, Any], body: str, tag: str) -> bool:
    """Whether an answer is the recorded one beyond status and code; records are cut off somewhere."""
    here = normalised(body, tag)
    if "message" in real:
        found = json.loads(here)
        inner = [detail["message"] for detail in found["details"]]
        start = normalised(real["message"], tag)[:300]
        return found["message"].startswith(start) and inner == ([real["innermost"]] if "innermost" in real else [])
    if "error_message" in real:
        return bool(json.loads(here)["error_message"] == real["error_message"])
    recorded = normalised(real["body"], tag)
    try:
        return bool(sorted_lists(json.loads(recorded)) == sorted_lists(json.loads(here)))
    except ValueError:
        recorded, here = recorded.replace(" ", ""), here.replace(" ", "")
        return (len(recorded) > 200 and here.startswith(recorded)) or recorded == here


@pytest.mark.skipif(not PROBE.is_dir(), reason="no answers of a Kubeflow server: set KFP_PROBE_DIR to their folder")
def test_answers_as_the_recorded_server(server: Server, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    command = [sys.executable, "-W", "ignore", str(PROBE / "probe.py"), server.url, str(answers)]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    differ = {line for line, following in itertools.pairwise(lines) if following.startswith("    real ")}
    assert differ == set(LEFT_OUT)
    assert lines[-1] == f"177 cases, {177 - len(differ)} as the real server, {len(differ)} otherwise"
    assert server.hangs == ["upload of bad.yaml, which is no YAML"]

    real = [json.loads(line) for line in (PROBE / "answers.jsonl").read_text().splitlines()]
    here = [json.loads(line) for line in answers.read_text().splitlines()]
    tag = re.search("tiny ([0-9a-f]{6})", here[2]["body"])
    assert tag
    other = {
        case["case"]
        for case, answer in zip(real, here, strict=True)
        if not same_answer(case, answer["body"], tag[1]) and case["case"] not in LEFT_OUT
    }
    # Whether two things are of one second is chance, so those cases may also agree.
    assert other <= set(OTHER_WORDS)
    assert {case for case in OTHER_WORDS if case not in other} <= {
        case for case, reason in OTHER_WORDS.items() if "second" in reason
    }


# Parts that people get wrong


def cron_field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    # croniter takes a range of one, such as `0-0`, for all of them.
    ends = st.tuples(number, number).filter(lambda both: both[0] != both[1])
    span = ends.map(lambda both: f"{min(both)}-{max(both)}")
    part = st.one_of(
        st.just("*"),
        number.map(str),
        span,
        st.integers(1, most).map(lambda step: f"*/{step}"),
        st.tuples(span, st.integers(1, most)).map(lambda both: f"{both[0]}/{both[1]}"),
    )
    return st.lists(part, min_size=1, max_size=3).map(",".join)


CRON = st.tuples(*(cron_field(*ends) for ends in ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)))).map(" ".join)


@given(CRON)
def test_cron_is_read_as_croniter_reads_it(expression: str) -> None:
    read, _ = croniter.croniter.expand(expression, second_at_beginning=True)
    seconds_first = [read[-1], *read[:-1]]
    bounds = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    wanted = [
        set(range(least, most + 1)) if "*" in values else set(values)
        for values, (least, most) in zip(seconds_first, bounds, strict=True)
    ]
    assert cron.fields(expression) == wanted


def mistyped(expression: str, at: int, character: str) -> str:
    at %= len(expression) + 1
    return expression[:at] + character + expression[at:]


@given(st.builds(mistyped, CRON, st.integers(0, 200), st.sampled_from("0123456789*/-,?LW#a ")))
def test_cron_refuses_what_croniter_refuses(expression: str) -> None:
    """Only that way round: croniter knows more (`L`, `#`, Sunday as 7, ranges that wrap)."""
    try:
        cron.check(expression)
    except Refusal:
        return
    # Go's library takes these and makes nothing of what is odd in them.
    odd = re.search(r"[*?][^*?/, ]*-|\?.|,,|(^| ),|,( |$)", expression)
    if not odd and len(expression.split()) == 6:
        assert croniter.croniter.is_valid(expression, second_at_beginning=True)


@pytest.mark.parametrize(
    ("expression", "reading"),
    [
        ("0 9 * * *", [{0}, {9}, set(range(24)), set(range(1, 32)), set(range(1, 13)), set(range(7))]),
        ("0 9 * * 1-5", [{0}, {9}, set(range(24)), set(range(1, 32)), set(range(1, 6)), set(range(7))]),
        ("0 0 9 ? * 2-6", [{0}, {0}, {9}, set(range(1, 32)), set(range(1, 13)), set(range(2, 7))]),
        ("0 0 9 * jan MON-fri", [{0}, {0}, {9}, set(range(1, 32)), {1}, set(range(1, 6))]),
        ("5/20 0 0 1 1 0-0", [{5, 25, 45}, {0}, {0}, {1}, {1}, {0}]),
    ],
)
def test_cron_is_read_from_the_seconds_on(expression: str, reading: list[set[int]]) -> None:
    assert cron.fields(expression) == reading


ITEMS = st.lists(st.tuples(st.integers(0, 3), st.text("abAB", max_size=2)), max_size=30).map(
    lambda found: [
        {"run_id": f"{at * 7919 % 1000:03}", "display_name": name, "created_at": f"2026-01-01T00:00:0{second}Z"}
        for at, (second, name) in enumerate(found)
    ]
)


@given(ITEMS, st.integers(1, 12), st.sampled_from(["", "created_at desc", "name", "name asc"]), st.booleans())
def test_pages_hold_every_item_once(items: list[listing.Item], size: int, order: str, repeated: bool) -> None:
    wanted = json.dumps({"predicates": [{"operation": "IS_SUBSTRING", "key": "name", "stringValue": "a"}]})
    options = {"page_size": str(size), "sort_by": order, "filter": wanted}
    seen: list[listing.Item] = []
    query = options
    while True:
        shown, count, token = listing.page(listing.RUNS, items, query, "")
        seen += shown
        if not token:
            break
        assert len(shown) == size
        # A client may say the order and the filter again or leave them to the token.
        query = {**(options if repeated else {"page_size": str(size)}), "page_token": token}
    matching = [item for item in items if "a" in item["display_name"].lower()]
    assert count == len(matching)
    assert sorted(item["run_id"] for item in seen) == sorted(item["run_id"] for item in matching)
    field = "display_name" if order.startswith("name") else "created_at"
    places = [item[field] for item in seen]
    assert places == sorted(places, reverse=order.endswith("desc"))
    if count > size and not order.startswith("name"):
        first = listing.page(listing.RUNS, items, options, "")[2]
        with pytest.raises(Refusal, match="page token does not match"):
            listing.page(listing.RUNS, items, {**options, "sort_by": "name", "page_token": first}, "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, 1, "\t"]))
def test_json_is_read_as_json_reads_it(value: Any, indent: Any) -> None:
    assert json_text.parse(json.dumps(value, indent=indent)).value == value


@given(JSON, st.integers(0, 1000), st.characters(codec="utf-8"))
def test_what_is_no_json_is_refused(value: Any, at: int, character: str) -> None:
    text = json.dumps(value, ensure_ascii=False)
    broken = text[: at % (len(text) + 1)] + character + text[at % (len(text) + 1) :]
    try:
        expected = json.loads(broken, parse_constant=lambda name: pytest.fail(name))
    except ValueError:
        with pytest.raises(json_text.NotJson):
            json_text.parse(broken)
    else:
        assert json_text.parse(broken).value == expected


def run_body(name: str, parameters: dict[str, Any], seconds: int) -> kfp_server_api.V2beta1RecurringRun:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=seconds)
    return kfp_server_api.V2beta1RecurringRun(
        display_name=name,
        runtime_config=kfp_server_api.V2beta1RuntimeConfig(parameters=parameters, pipeline_root="gs://bucket"),
        trigger=kfp_server_api.V2beta1Trigger(
            periodic_schedule=kfp_server_api.V2beta1PeriodicSchedule(start_time=start, interval_second="60")
        ),
        mode="ENABLE",
        max_concurrency="1",
        no_catchup=True,
    )


BODIES = st.builds(run_body, st.text(), st.dictionaries(st.text(), JSON, max_size=3), st.integers(0, 10**8)).map(
    lambda body: kfp_server_api.ApiClient().sanitize_for_serialization(body)
)


@given(BODIES)
def test_what_the_client_sends_is_accepted(sent: dict[str, Any]) -> None:
    found = json_check.body(json.dumps(sent).encode(), "V2beta1RecurringRun")
    assert found == sent


@given(BODIES, st.sampled_from(["", "runtime_config", "trigger"]), st.text("xyz", min_size=1), JSON)
def test_a_field_that_the_api_lacks_is_refused(sent: dict[str, Any], within: str, name: str, value: Any) -> None:
    (sent[within] if within else sent)[name] = value
    text = json.dumps(sent)
    with pytest.raises(Refusal) as raised:
        json_check.body(text.encode(), "V2beta1RecurringRun")
    # Texts within may look like the field; it is always the last in its object.
    place = re.search(r"\(line 1:(\d+)\)", str(raised.value))
    assert place
    assert text[int(place[1]) - 1 :].startswith(json.dumps(name))
    assert str(raised.value).endswith(f'unknown field "{name}"')


# What happens without a request


def test_a_run_is_what_is_reported_of_it(server: Server) -> None:
    client = kfp.Client(server.url, namespace="kubeflow-of-tests")
    run_id = start_run(server)["run_id"]
    server.set_run(run_id, "RUNNING", {"train": "RUNNING"})
    server.set_run(run_id, "FAILED", {"train": ("FAILED", "OOMKilled"), "publish": "SKIPPED"})
    run = client.get_run(run_id)
    assert [status.state for status in run.state_history] == ["PENDING", "RUNNING", "FAILED"]
    assert run.finished_at.year > 1970
    tasks = {task.display_name: task for task in run.run_details.task_details}
    assert (tasks["train"].state, tasks["train"].error.message) == ("FAILED", "OOMKilled")
    assert [status.state for status in tasks["train"].state_history] == ["RUNNING", "FAILED"]
    assert tasks["train"].child_tasks[0].pod_name == tasks["executor"].pod_name
    assert tasks["train"].parent_task_id == tasks["root"].task_id
    assert {"root-driver", "train-driver", "publish-driver"} <= set(tasks)
    assert (tasks["publish"].state, tasks["publish"].child_tasks) == ("SKIPPED", None)

    assert ask(server, "POST", f"/runs/{run_id}:retry").status_code == 200
    run = client.get_run(run_id)
    assert (run.state, run.state_history, run.finished_at.year) == ("RUNNING", None, 1970)
    server.set_run(run_id, "SUCCEEDED")
    assert refused(ask(server, "POST", f"/runs/{run_id}:retry"))[:2] == (409, 10)
    assert refused(ask(server, "POST", f"/runs/{run_id}:terminate"))[:2] == (400, 3)


def test_a_terminated_run_fails(server: Server) -> None:
    run_id = start_run(server)["run_id"]
    server.set_run(run_id, "RUNNING")
    assert ask(server, "POST", f"/runs/{run_id}:terminate").status_code == 200
    assert ask(server, "GET", f"/runs/{run_id}").json()["state"] == "CANCELING"
    server.set_run(run_id, "RUNNING")
    assert ask(server, "GET", f"/runs/{run_id}").json()["state"] == "FAILED"


def test_schedules_start_runs_and_their_end_kills_them(server: Server) -> None:
    recurring_run_id = schedule(server)["recurring_run_id"]
    paused = schedule(server, mode="DISABLE")["recurring_run_id"]
    (run_id,) = server.tick()
    run = ask(server, "GET", f"/runs/{run_id}").json()
    assert "state" not in run
    assert run["recurring_run_id"] == recurring_run_id
    assert re.fullmatch(r"everymonday\w{5}-1-\d+", run["display_name"])
    assert server.tick() == []  # one at a time
    server.set_run(run_id, "SUCCEEDED")
    (second,) = server.tick()

    assert ask(server, "DELETE", f"/recurringruns/{paused}").status_code == 200
    assert server.killed_runs == []
    assert ask(server, "DELETE", f"/recurringruns/{recurring_run_id}").status_code == 200
    assert server.killed_runs == [second]
    assert ask(server, "GET", f"/runs/{second}").json()["state"] == "FAILED"
    assert ask(server, "GET", f"/runs/{run_id}").json()["state"] == "SUCCEEDED"
    assert server.tick() == []


def test_archiving_an_experiment_cannot_be_undone(server: Server) -> None:
    """Its runs stay archived and its recurring runs disabled; new runs in it are let in."""
    experiment_id = ask(server, "POST", "/experiments", {"display_name": "old"}).json()["experiment_id"]
    run_id = start_run(server, experiment_id=experiment_id)["run_id"]
    recurring_run_id = schedule(server, experiment_id=experiment_id)["recurring_run_id"]
    for verb in ("archive", "unarchive"):
        assert ask(server, "POST", f"/experiments/{experiment_id}:{verb}").status_code == 200
        assert ask(server, "GET", f"/runs/{run_id}").json()["storage_state"] == "ARCHIVED"
        assert ask(server, "GET", f"/recurringruns/{recurring_run_id}").json()["status"] == "DISABLED"
        assert start_run(server, experiment_id=experiment_id)["storage_state"] == "AVAILABLE"
    assert server.tick() == []


def test_a_recurring_run_without_a_version_follows_the_newest(server: Server) -> None:
    reference = upload(server, SPEC)
    follows = {"pipeline_version_reference": {"pipeline_id": reference["pipeline_id"]}}
    body = {"display_name": "nightly", "mode": "ENABLE", "max_concurrency": "1", "trigger": WEEKLY, **follows}
    assert ask(server, "POST", "/recurringruns", body).status_code == 200
    (run_id,) = server.tick()
    assert server.store.runs[run_id]["pipeline_version_reference"] == reference


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"components": {}}, "comp-train"),
        ({"deploymentSpec": {"executors": {}}}, "exec-train"),
        (
            {
                "root": {
                    "dag": {
                        "tasks": {
                            "a": {"componentRef": {"name": "comp-train"}, "dependentTasks": ["b"]},
                            "b": {"componentRef": {"name": "comp-train"}, "dependentTasks": ["a"]},
                        }
                    }
                }
            },
            "cycle",
        ),
    ],
)
def test_some_packages_upload_and_never_run(server: Server, change: dict[str, Any], cause: str) -> None:
    reference = upload(server, SPEC | change)
    body = {"display_name": "run", "pipeline_version_reference": reference}
    status, code, message = refused(ask(server, "POST", "/runs", body))
    assert (status, code) == (500, 13)
    assert cause in message


def test_an_old_server_does_not_know_new_settings() -> None:
    settings = {"exec-train": {"securityContext": {"runAsNonRoot": True}}}
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": settings}}}}
    with serving(version="2.14.3") as server:
        reference = upload(server, SPEC, platform)
        body = {"display_name": "run", "pipeline_version_reference": reference}
        status, code, message = refused(ask(server, "POST", "/runs", body))
        assert (status, code) == (500, 13)
        assert message.endswith('proto: (line 1:2): unknown field "securityContext"')
        assert ask(server, "GET", "/healthz").json()["tag_name"] == "2.14.3-contract-server"
    with serving() as server:
        reference = upload(server, SPEC, platform)
        body = {"display_name": "run", "pipeline_version_reference": reference}
        assert ask(server, "POST", "/runs", body).status_code == 200


# The gate


def test_a_token_and_a_cookie_are_asked_for() -> None:
    right = "right"
    with serving(token=right, cookie="session=1") as server:
        assert refused(ask(server, "GET", "/healthz"))[:2] == (401, 16)
        assert refused(ask(server, "GET", "/runs", Authorization="Bearer wrong", Cookie="session=1"))[:2] == (401, 16)
        assert refused(ask(server, "GET", "/runs", Authorization="Bearer right"))[:2] == (401, 16)
        client = kfp.Client(server.url, existing_token=right, cookies="a=b; session=1", namespace="of-tests")
        assert client.list_runs().total_size is None


def test_users_and_namespaces_are_kept_apart() -> None:
    user = {"kubeflow-userid": "ada@example.com"}
    with serving(multi_user=True, namespaces=("team-a", "team-b")) as server:
        assert ask(server, "GET", "/healthz").json()["multi_user"] is True
        assert refused(ask(server, "GET", "/experiments"))[:2] == (401, 16)
        assert refused(ask(server, "GET", "/experiments", **user))[:2] == (400, 3)
        status, code, message = refused(ask(server, "GET", "/experiments?namespace=team-c", **user))
        assert (status, code) == (403, 7)
        assert "User 'ada@example.com' is not authorized with reason" in message
        experiments = [
            ask(server, "POST", "/experiments", {"display_name": "x", "namespace": name}, **user).json()
            for name in ("team-a", "team-b")
        ]
        body = {"display_name": "run", "pipeline_spec": SPEC, "experiment_id": experiments[0]["experiment_id"]}
        assert ask(server, "POST", "/runs", body, **user).json()["service_account"] == "default-editor"
        assert ask(server, "GET", "/runs?namespace=team-a", **user).json()["total_size"] == 1
        assert ask(server, "GET", "/runs?namespace=team-b", **user).json() == {}
        assert refused(ask(server, "GET", "/runs", **user))[:2] == (400, 3)
        recurring = {"display_name": "weekly", "max_concurrency": "1", "trigger": WEEKLY, "pipeline_spec": SPEC}
        found = ask(server, "POST", "/recurringruns", recurring | {"namespace": "team-b"}, **user).json()
        assert found["namespace"] == "team-b"
        elsewhere = recurring | {"namespace": "team-c"}
        assert refused(ask(server, "POST", "/recurringruns", elsewhere, **user))[:2] == (403, 7)
        client = kfp.Client(server.url, cookies="any=1", namespace="team-b")
        assert client.get_experiment(experiment_name="x").experiment_id == experiments[1]["experiment_id"]


def test_it_is_served_below_a_path() -> None:
    with serving(prefix="/api/v1/namespaces/kubeflow/services/ml-pipeline:8888/proxy") as server:
        assert kfp.Client(server.url).get_kfp_healthz().multi_user is False
        assert server.requests[0].path == f"{API}/healthz"
        above = requests.get(server.url.removesuffix("/proxy") + f"{API}/healthz", timeout=10)
        assert above.status_code == 404


def test_it_says_that_it_is_no_kubeflow(server: Server) -> None:
    answer = ask(server, "GET", "/healthz")
    assert "no Kubeflow" in answer.headers["Server"]
    assert "no Kubeflow" in answer.json()["commit_sha"]


def test_a_hook_may_hang_up_before_and_after_and_answer_instead(server: Server) -> None:
    def hang_up(request: Request) -> None:
        if request.method == "POST":
            raise HangUp

    body = {"display_name": "mine"}
    names = {"Default"}
    for hook in ("before", "after"):
        setattr(server, hook, hang_up)
        with pytest.raises(requests.ConnectionError):
            ask(server, "POST", "/experiments", body)
        setattr(server, hook, None)
        names |= {"mine"} if hook == "after" else set()
        assert {item["display_name"] for item in server.store.experiments.values()} == names

    def unavailable(request: Request) -> None:
        raise Answer(503, "upstream connect error", "text/plain")

    server.before = unavailable
    client = kfp.Client(server.url, namespace="of-tests")
    with pytest.raises(ApiException) as raised:
        client.get_run("any")
    assert (raised.value.status, raised.value.body) == (503, "upstream connect error")
    assert [request.number for request in server.requests] == list(range(1, len(server.requests) + 1))


def test_a_mistake_in_a_hook_is_not_swallowed() -> None:
    def mistaken(request: Request) -> None:
        raise KeyError(request.path)

    def serve_with_it() -> int:
        with serving() as server:
            server.before = mistaken
            return ask(server, "GET", "/healthz").status_code

    with pytest.raises(KeyError, match="healthz"):
        serve_with_it()


@pytest.mark.parametrize("profile", ["cpu", "gpu-l4-4", "tpu-v5e-4-spot"])
def test_our_packages_run_on_it(server: Server, profile: str) -> None:
    """The recorded server took this kind as well, for runs and for recurring runs."""
    documents = list(yaml.safe_load_all(package_of(profile, KFP)))
    reference = upload(server, *documents)
    parameters = {
        name: {"STRING": "", "NUMBER_INTEGER": 1, "NUMBER_DOUBLE": 0.5, "BOOLEAN": True}[parameter["parameterType"]]
        for name, parameter in documents[0]["root"]["inputDefinitions"]["parameters"].items()
        if "defaultValue" not in parameter
    }
    body = {"pipeline_version_reference": reference, "runtime_config": {"parameters": parameters}}
    assert ask(server, "POST", "/runs", {"display_name": "once", **body}).status_code == 200
    weekly = {"display_name": "weekly", "max_concurrency": "1", "trigger": WEEKLY, **body}
    assert ask(server, "POST", "/recurringruns", weekly).status_code == 200
    stored = server.store.versions[reference["pipeline_version_id"]]["pipeline_spec"]
    assert ("platform_spec" in stored) == (len(documents) == 2)
