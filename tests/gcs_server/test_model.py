"""The bucket server and a plain dict of objects, told the same at random: they always answer the same."""

import contextlib
import dataclasses
import json
import urllib.parse
from typing import Any

import requests
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.gcs_server.server import serving
from tests.gcs_server.store import crc32c

NAMES = ["a", "a/1", "a/b/1", "ä b"]
names = st.sampled_from(NAMES)
contents = st.binary(max_size=20)
# What a condition names: nothing, the live object, none, one that is gone, one that never was.
values = st.sampled_from(["unset", "live", "zero", "old", "never"])


@dataclasses.dataclass(frozen=True)
class Known:
    """What the model knows of an object."""

    content: bytes
    generation: int
    metageneration: int
    metadata: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Conditions, in the words of `values`; `excluded` is that of `ifGenerationNotMatch` if `negated`."""

    generation: str
    negated: bool
    metageneration: str
    metageneration_negated: bool


unset = st.just("unset")
# Few at once: each is the only one often enough to be what decides.
conditions = st.one_of(
    st.builds(Wanted, unset, st.just(False), unset, st.just(False)),
    st.builds(Wanted, values, st.booleans(), unset, st.just(False)),
    st.builds(Wanted, unset, st.just(False), values, st.booleans()),
    st.builds(Wanted, values, st.booleans(), values, st.booleans()),
)
NOTHING_WANTED = Wanted("unset", False, "unset", False)


class BucketAndDict(RuleBasedStateMachine):
    """Requests as they travel, without a client in between."""

    def __init__(self) -> None:
        super().__init__()
        self.open = contextlib.ExitStack()
        self.server = self.open.enter_context(serving(page_size=3))
        self.session = self.open.enter_context(requests.Session())
        self.server.create_bucket("bucket")
        self.objects: dict[str, Known] = {}
        self.newest = 0

    def teardown(self) -> None:
        self.open.close()

    def ask(self, method: str, path: str, query: dict[str, Any], **more: Any) -> requests.Response:
        url = f"{self.server.url}{path}?{urllib.parse.urlencode(query)}"
        with self.session.request(method, url, timeout=10, **more) as answer:
            assert answer.content is not None
            return answer

    def at(self, name: str) -> str:
        return f"/storage/v1/b/bucket/o/{urllib.parse.quote(name, safe='')}"

    def query_and_verdict(self, name: str, wanted: Wanted, reading: bool = False) -> tuple[dict[str, int], int]:
        """Conditions on an object as parameters, and the status of their refusal, 0 if they hold."""
        live = self.objects.get(name)
        query: dict[str, int] = {}
        failed: list[int] = []
        for what, value, negated in (
            ("Generation", wanted.generation, wanted.negated),
            ("Metageneration", wanted.metageneration, wanted.metageneration_negated),
        ):
            if value == "unset":
                continue
            now = getattr(live, what.lower()) if live else None
            old = self.newest - 1 if what == "Generation" else 1
            number = {"live": now or 0, "zero": 0, "old": max(old, 0), "never": 1 << 60}[value]
            query[f"if{what}{'Not' * negated}Match"] = number
            if negated:
                holds = live is not None and number != now
            else:
                holds = number == (now if live else 0 if what == "Generation" else None)
            if not holds:
                failed.append(304 if negated and reading else 412)
        return query, max(failed, default=0)

    def learn(self, name: str, content: bytes, metadata: dict[str, str], resource: dict[str, Any]) -> None:
        """Takes over an object that was made, whose generation must be newer than all before."""
        generation = int(resource["generation"])
        assert generation > self.newest
        self.newest = generation
        self.objects[name] = Known(content, generation, 1, metadata)
        self.compare(name, resource)

    def compare(self, name: str, resource: dict[str, Any]) -> None:
        known = self.objects[name]
        assert resource["name"] == name
        assert int(resource["generation"]) == known.generation
        assert int(resource["metageneration"]) == known.metageneration
        assert int(resource["size"]) == len(known.content)
        assert resource["crc32c"] == crc32c(known.content)
        assert resource.get("metadata", {}) == known.metadata

    @initialize(content=contents)
    def fill(self, content: bytes) -> None:
        """Most of what can go wrong needs objects that are there."""
        for name in NAMES:
            self.upload(name, content, NOTHING_WANTED, "multipart")

    @rule(name=names, content=contents, wanted=conditions, kind=st.sampled_from(["media", "multipart", "resumable"]))
    def upload(self, name: str, content: bytes, wanted: Wanted, kind: str) -> None:
        query, refusal = self.query_and_verdict(name, wanted)
        metadata = {} if kind == "media" else {"kind": kind}
        path = "/upload/storage/v1/b/bucket/o"
        parameters = {"uploadType": kind, "name": name, **query}
        if kind == "media":
            answer = self.ask("POST", path, parameters, data=content)
        elif kind == "multipart":
            resource = json.dumps({"metadata": metadata}).encode()
            body = b"--x\r\n\r\n" + resource + b"\r\n--x\r\ncontent-type: a/b\r\n\r\n" + content + b"\r\n--x--"
            headers = {"Content-Type": "multipart/related; boundary=x"}
            answer = self.ask("POST", path, parameters, data=body, headers=headers)
        else:
            answer = self.ask("POST", path, parameters, json={"metadata": metadata})
            if answer.status_code == 200:
                headers = {"Content-Range": f"bytes 0-{len(content) - 1}/{len(content)}" if content else "bytes */0"}
                answer = self.session.put(answer.headers["Location"], data=content, headers=headers, timeout=10)
        assert answer.status_code == (refusal or 200)
        if not refusal:
            self.learn(name, content, metadata, answer.json())

    @rule(name=names, wanted=conditions, generation=values)
    def delete(self, name: str, wanted: Wanted, generation: str) -> None:
        query, refusal = self.query_and_verdict(name, wanted)
        there, of_generation = self.of_generation(name, generation)
        answer = self.ask("DELETE", self.at(name), {**query, **of_generation})
        assert answer.status_code == (404 if not there else refusal or 204)
        if answer.status_code == 204:
            del self.objects[name]

    @rule(name=names, wanted=conditions, generation=values, media=st.booleans())
    def read(self, name: str, wanted: Wanted, generation: str, media: bool) -> None:
        query, refusal = self.query_and_verdict(name, wanted, reading=True)
        there, of_generation = self.of_generation(name, generation)
        answer = self.ask("GET", self.at(name), {**query, **of_generation, "alt": "media" if media else "json"})
        assert answer.status_code == (404 if not there else refusal or 200)
        if answer.status_code == 200 and media:
            assert answer.content == self.objects[name].content
            assert answer.headers["X-Goog-Generation"] == str(self.objects[name].generation)
        elif answer.status_code == 200:
            self.compare(name, answer.json())

    def of_generation(self, name: str, generation: str) -> tuple[bool, dict[str, int]]:
        """Whether there is such an object, and the parameter that names its generation."""
        live = self.objects.get(name)
        if generation in ("unset", "zero"):
            return live is not None, {}
        number = {"live": live.generation if live else 1, "old": max(self.newest - 1, 1), "never": 1 << 60}[generation]
        return live is not None and live.generation == number, {"generation": number}

    @rule(name=names, wanted=conditions, value=st.one_of(st.none(), st.text("xy", min_size=1, max_size=2)))
    def patch(self, name: str, wanted: Wanted, value: str | None) -> None:
        query, refusal = self.query_and_verdict(name, wanted)
        live = self.objects.get(name)
        answer = self.ask("PATCH", self.at(name), query, json={"metadata": {"value": value}})
        assert answer.status_code == (404 if live is None else refusal or 200)
        if live is not None and not refusal:
            metadata = {key: kept for key, kept in {**live.metadata, "value": value}.items() if kept is not None}
            self.objects[name] = dataclasses.replace(live, metageneration=live.metageneration + 1, metadata=metadata)
            self.compare(name, answer.json())

    @rule(source=names, name=names, wanted=conditions, of_source=conditions)
    def rewrite(self, source: str, name: str, wanted: Wanted, of_source: Wanted) -> None:
        source_query, source_refusal = self.query_and_verdict(source, of_source)
        query, refusal = self.query_and_verdict(name, wanted)
        query |= {key.replace("if", "ifSource", 1): value for key, value in source_query.items()}
        copied = self.objects.get(source)
        answer = self.ask("POST", f"{self.at(source)}/rewriteTo{self.at(name).removeprefix('/storage/v1')}", query)
        assert answer.status_code == (404 if copied is None else source_refusal or refusal or 200)
        if copied is not None and answer.status_code == 200:
            self.learn(name, copied.content, copied.metadata, answer.json()["resource"])

    @rule(sources=st.lists(names, min_size=1, max_size=3), name=names, wanted=conditions)
    def compose(self, sources: list[str], name: str, wanted: Wanted) -> None:
        wanted = dataclasses.replace(wanted, negated=False, metageneration_negated=False)
        query, refusal = self.query_and_verdict(name, wanted)
        body = {"sourceObjects": [{"name": source} for source in sources], "destination": {}}
        answer = self.ask("POST", f"{self.at(name)}/compose", query, json=body)
        missing = any(source not in self.objects for source in sources)
        assert answer.status_code == (404 if missing else refusal or 200)
        if answer.status_code == 200:
            self.learn(name, b"".join(self.objects[source].content for source in sources), {}, answer.json())

    @rule(
        prefix=st.sampled_from(["", "a", "a/", "c"]),
        delimiter=st.sampled_from(["", "/"]),
        start=st.sampled_from(["", *NAMES]),
        most=st.integers(1, 4),
    )
    def list_some(self, prefix: str, delimiter: str, start: str, most: int) -> None:
        found = self.listed(prefix=prefix, delimiter=delimiter, startOffset=start, maxResults=most)
        kept = [name for name in self.objects if name.startswith(prefix) and name.encode() >= start.encode()]
        heads = {name: name[len(prefix) :].partition(delimiter) if delimiter else (name, "", "") for name in kept}
        below = {prefix + head + mark for head, mark, _ in heads.values() if mark}
        assert found == sorted({name for name in kept if not heads[name][1]} | below, key=str.encode)

    def listed(self, **query: Any) -> list[str]:
        """Names and prefixes of a listing, over all of its pages."""
        found: list[str] = []
        while True:
            answer = self.ask("GET", "/storage/v1/b/bucket/o", {key: value for key, value in query.items() if value})
            assert answer.status_code == 200
            page = answer.json()
            for resource in page.get("items", []):
                self.compare(resource["name"], resource)
            entries = [item["name"] for item in page.get("items", [])] + page.get("prefixes", [])
            assert len(entries) <= min(3, query.get("maxResults", 3))
            found += sorted(entries, key=str.encode)
            if "nextPageToken" not in page:
                return found
            query["pageToken"] = page["nextPageToken"]

    @invariant()
    def same_objects(self) -> None:
        held = self.server.objects["bucket"]
        assert {name: (stored.content, stored.generation, stored.metageneration) for name, stored in held.items()} == {
            name: (known.content, known.generation, known.metageneration) for name, known in self.objects.items()
        }


BucketAndDict.TestCase.settings = settings(max_examples=30, stateful_step_count=30)
TestBucketAndDict = BucketAndDict.TestCase
