"""A server that echoes credentials: none is shown, logged or written, in any form or part."""

import base64
import html
import json
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from components.core import errors
from pipeline.cluster import backend, redaction, run_commands, waiting
from pipeline.cluster.kubeflow.schedules import KubeflowBackend
from tests.fakes.kubeflow.server import Answer, Request, Server, serving
from tests.unit.pipeline.cluster.conftest import submission_for
from tests.unit.pipeline.conftest import wgan

pytestmark = pytest.mark.usefixtures("bare_desk")

_TOKEN = "eyJhbGciOi.J9+pay/load==" + "0123456789abcdef" * 8
_SESSION = "MTcwMDAwMDAwMHxzZXNzaW9u"
_PASSWORD = "correct-horse+battery"  # noqa: S105
_FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "URL": lambda text: urllib.parse.quote(text, safe=""),
    "URL in a URL": lambda text: urllib.parse.quote(urllib.parse.quote(text)),
    "HTML": lambda text: html.escape(text).replace("+", "&#43;").replace("=", "&#x3D;"),
    "JSON": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
}
_AROUND = st.text("zZ", max_size=9)
_OTHERS = st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="zZ")


@pytest.fixture(autouse=True)
def forget_secrets() -> Iterator[None]:
    yield
    redaction._secrets.clear()


@given(st.lists(_OTHERS, min_size=8, unique=True).map("".join), _AROUND, _AROUND)
@pytest.mark.parametrize("form", _FORMS)
def test_a_known_secret_alone_is_removed_in_every_form(form: str, secret: str, before: str, after: str) -> None:
    redaction._secrets.clear()
    redaction.know(secret)
    write = _FORMS[form]
    shown = redaction.redacted(write(f"{before}{secret}{after}"))
    if "base64" in form:
        digits = len(write(before + secret + after)) - len(shown.replace("***", ""))
        assert digits * 6 > (len(secret) - 2) * 8 + 4, "less than one character is left at either end"
    else:
        assert shown == f"{write(before)}***{write(after)}"


def assert_redacted(text: str) -> None:
    """Assert that a text hides something, and holds no part of a secret, in any form."""
    parts = [secret[at : at + 8] for secret in (_TOKEN, _SESSION, _PASSWORD) for at in range(len(secret) - 7)]
    assert [part for part in parts for write in _FORMS.values() if write(part).rstrip("=")[1:-1] in text] == []
    assert "***" in text


@pytest.fixture
def flags(server: Server, tmp_path: Path) -> list[str]:
    for name, text in (("token", _TOKEN), ("cookie", f"authservice_session={_SESSION}; theme=dark")):
        (tmp_path / name).write_text(text)
    return ["--host", server.url, "--token-file", str(tmp_path / "token"), "--cookie-file", str(tmp_path / "cookie")]


def credentials(request: Request, form: str) -> str:
    """Return the credentials of a request, behind so many words that a message is cut within them."""
    headers = "; ".join(filter(None, (request.headers["Authorization"], request.headers["Cookie"])))
    return f"{'refused ' * 30}{_FORMS[form](headers)}"


def echoing(kind: str, text: str) -> Answer:
    if kind == "redirect":
        answer = Answer(302, "", "text/html")
        answer.headers = {**answer.headers, "Location": f"/login?from={text}"}
        return answer
    if kind == "type":
        return Answer(200, "<html>", text)
    body = f"<html><p>{text}</html>" if kind == "html" else json.dumps({"message": text, "error_message": text})
    return Answer(500 if kind == "upload" else 403, body, "text/html" if kind == "html" else "application/json")


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        *(("json", form) for form in _FORMS),
        *(("html", "HTML"), ("redirect", "URL"), ("upload", "plain"), ("type", "base64")),
    ],
)
def test_an_answer_that_echoes_the_credentials(server: Server, flags: list[str], kind: str, form: str) -> None:
    def echo(request: Request) -> None:
        raise echoing(kind, credentials(request, form))

    server.before = echo
    ended = wgan("status", *flags)
    assert ended.returncode in (errors.BAD_CONFIGURATION, errors.TRANSIENT)
    assert server.requests
    assert_redacted(ended.stdout + ended.stderr)


@pytest.mark.parametrize("form", ["plain", "base64"])
def test_a_run_whose_failure_echoes_the_credentials(
    server: Server, flags: list[str], runs: KubeflowBackend, packages: Path, form: str, tmp_path: Path
) -> None:
    """Its message is in the log of --wait, in the table, in JSON, and in the record of the run."""
    root = tmp_path / "root"
    run_id = runs.submit(submission_for("kfp", packages, str(root))).run_id
    (root / "records" / run_id).mkdir(parents=True)

    def echo(request: Request) -> None:
        if request.method == "GET" and "/runs/" in request.path:
            server.set_run(run_id, "FAILED", {"train": ("FAILED", credentials(request, form))})

    server.before = echo
    for words, code in (("--wait", waiting.FAILED), ("--json", errors.OK)):
        ended = wgan("status", run_id, words, *flags)
        assert ended.returncode == code
        assert_redacted(ended.stdout + ended.stderr)
    assert_redacted("\n".join(path.read_text() for path in root.rglob("*") if path.is_file()))


def test_a_defect_and_a_password_of_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The context's login is sent as Basic, the server makes it the name of a run, and a traceback shows that."""
    prefix = "/api/v1/namespaces/kubeflow/services/ml-pipeline:http/proxy"

    def fail(runs: list[backend.RunStatus], as_json: bool) -> None:
        raise RuntimeError(runs[0].name)

    with serving(prefix=prefix) as proxied:

        def echo(request: Request) -> None:
            if request.path.endswith("/runs"):
                sent = request.headers["Authorization"]
                login = base64.b64decode(sent.removeprefix("Basic ")).decode()
                run = {"run_id": "x", "display_name": f"{sent} {login} {urllib.parse.quote(login)}"}
                raise Answer(200, json.dumps({"runs": [run]}))

        proxied.before = echo
        kubeconfig = {
            "clusters": [{"name": "c", "cluster": {"server": proxied.url.removesuffix(prefix)}}],
            "users": [{"name": "u", "user": {"username": "somebody", "password": _PASSWORD}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        monkeypatch.setattr(run_commands, "_print_runs", fail)
        ended = wgan("status", "--kube-context", "here")
    assert ended.returncode == errors.DEFECT, ended.stderr
    assert "Traceback" in ended.stderr
    assert_redacted(ended.stderr + ended.stdout)


@pytest.mark.parametrize("words", [[], ["--host", "somebody:{}@h"], ["--host", "http://somebody:{}@h"]])
def test_a_password_in_the_address_is_not_shown(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KF_PIPELINES_ENDPOINT", f"https://somebody:{_PASSWORD}@kubeflow.example")
    ended = wgan("status", *(word.format(_PASSWORD) for word in words))
    assert (ended.returncode, _PASSWORD in ended.stdout + ended.stderr) == (errors.BAD_CONFIGURATION, False)


def test_variables_and_urls_are_redacted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SOME_TOKEN", _TOKEN)
    with redaction.redacted_output():
        print(_TOKEN, f"https://me:{_PASSWORD}@proxy:80", "gs://bucket/a:b@c")
        print("-", _TOKEN, file=sys.stderr)
    assert capsys.readouterr() == ("*** https://***@proxy:80 gs://bucket/a:b@c\n", "- ***\n")
