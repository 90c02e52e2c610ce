"""The power of the contract suite: bucket servers that are wrong in one thing, each caught by a case of it."""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.storage.exceptions import DataCorruption
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests import test_gcs_contract as contract
from tests.gcs_server import api, batch, listing, uploads
from tests.gcs_server.refusals import Refusal
from tests.gcs_server.server import serving
from tests.gcs_server.store import NONE, Conditions, Store, Stored
from tests.gcs_server.test_model import BucketAndDict

Patch = pytest.MonkeyPatch


def without_conditions(patch: Patch, method: str) -> None:
    """Makes a method of the store pass over the conditions that it is given."""
    real = getattr(Store, method)

    def careless(self: Store, *given: Any) -> Any:
        return real(self, *(NONE if isinstance(value, Conditions) else value for value in given))

    patch.setattr(Store, method, careless)


def upload_ignores_conditions(patch: Patch) -> None:
    without_conditions(patch, "may_insert")


def read_ignores_conditions(patch: Patch) -> None:
    without_conditions(patch, "read")


def delete_ignores_conditions(patch: Patch) -> None:
    without_conditions(patch, "delete")


def patch_ignores_conditions(patch: Patch) -> None:
    without_conditions(patch, "patch")


def copy_ignores_conditions(patch: Patch) -> None:
    without_conditions(patch, "copy")


def compose_ignores_conditions(patch: Patch) -> None:
    without_conditions(patch, "compose")


def compose_ignores_conditions_of_sources(patch: Patch) -> None:
    real = Store.compose

    def careless(self: Store, bucket: str, sources: Any, *rest: Any) -> Stored:
        return real(self, bucket, [(name, generation, NONE) for name, generation, _ in sources], *rest)

    patch.setattr(Store, "compose", careless)


def zero_means_no_condition(patch: Patch) -> None:
    real = Conditions.require

    def careless(self: Conditions, live: Stored | None, reading: bool = False) -> None:
        real(dataclasses.replace(self, generation=self.generation or None), live, reading)

    patch.setattr(Conditions, "require", careless)


def conditions_hold_where_there_is_nothing(patch: Patch) -> None:
    real = Conditions.require

    def careless(self: Conditions, live: Stored | None, reading: bool = False) -> None:
        if live is not None:
            real(self, live, reading)

    patch.setattr(Conditions, "require", careless)


def metageneration_is_not_compared(patch: Patch) -> None:
    real = Conditions.require

    def careless(self: Conditions, live: Stored | None, reading: bool = False) -> None:
        real(dataclasses.replace(self, metageneration=None, not_metageneration=None), live, reading)

    patch.setattr(Conditions, "require", careless)


def excluded_generations_are_not_compared(patch: Patch) -> None:
    real = Conditions.require

    def careless(self: Conditions, live: Stored | None, reading: bool = False) -> None:
        real(dataclasses.replace(self, not_generation=None), live, reading)

    patch.setattr(Conditions, "require", careless)


def read_that_would_give_nothing_new_is_refused(patch: Patch) -> None:
    real = Conditions.require
    patch.setattr(Conditions, "require", lambda self, live, reading=False: real(self, live))


def resumable_upload_checks_conditions_at_the_beginning_alone(patch: Patch) -> None:
    real = uploads.Session.receive

    def careless(self: uploads.Session, *given: Any) -> Stored | None:
        self.conditions = NONE
        return real(self, *given)

    patch.setattr(uploads.Session, "receive", careless)


def creation_is_not_atomic(patch: Patch) -> None:
    real, real_init = Store._made, Store.__init__

    def slow(self: Store, *given: Any) -> Stored:
        time.sleep(0.05)
        return real(self, *given)

    def without_lock(self: Store) -> None:
        real_init(self)
        patch.setattr(self, "_lock", contextlib.nullcontext())

    patch.setattr(Store, "_made", slow)
    patch.setattr(Store, "__init__", without_lock)


def generation_begins_anew_after_deletion(patch: Patch) -> None:
    real = Store.insert

    def forgetful(self: Store, bucket: str, name: str, *given: Any) -> Stored:
        live = self.buckets.get(bucket, {}).get(name)
        made = dataclasses.replace(real(self, bucket, name, *given), generation=live.generation + 1 if live else 1)
        self.buckets[bucket][name] = made
        return made

    patch.setattr(Store, "insert", forgetful)


def old_generation_is_read_as_the_live_one(patch: Patch) -> None:
    real = Store._live
    patch.setattr(Store, "_live", lambda self, bucket, name, generation: real(self, bucket, name, None))


def patch_makes_a_new_generation(patch: Patch) -> None:
    real = Store.patch

    def careless(self: Store, bucket: str, name: str, *given: Any) -> Stored:
        made = dataclasses.replace(real(self, bucket, name, *given), generation=self._changes)
        self.buckets[bucket][name] = made
        return made

    patch.setattr(Store, "patch", careless)


def checksum_is_not_compared(patch: Patch) -> None:
    real = Store._made
    patch.setattr(
        Store,
        "_made",
        lambda self, content, properties, metadata, checksums: real(self, content, properties, metadata, ()),
    )


def checksum_of_md5_is_not_compared(patch: Patch) -> None:
    real = uploads.claimed
    patch.setattr(uploads, "claimed", lambda *given: {(kind, value) for kind, value in real(*given) if kind != "md5"})


def checksum_of_chunks_is_not_compared(patch: Patch) -> None:
    real = uploads.Session.receive

    def careless(self: uploads.Session, *given: Any) -> Stored | None:
        self.resource.pop("crc32c", None)
        return real(self, *given)

    patch.setattr(uploads.Session, "receive", careless)


def listing_ends_after_a_page(patch: Patch) -> None:
    real = listing.page
    patch.setattr(listing, "page", lambda *given: (*real(*given)[:2], None))


def page_has_more_than_was_asked(patch: Patch) -> None:
    patch.setattr(listing, "_limit", lambda given: 1000)


def listing_begins_anew_after_what_is_a_prefix(patch: Patch) -> None:
    real = listing.page
    patch.setattr(listing, "page", lambda objects, query, size: real(objects, {**query, "delimiter": ""}, size))


def listing_has_all_fields(patch: Patch) -> None:
    patch.setattr(listing, "only_fields", lambda answer, fields: answer)


def range_is_not_cut(patch: Patch) -> None:
    real = api._content

    def whole(call: api.Call, stored: Stored) -> api.Answer:
        answer = real(call, stored)
        return dataclasses.replace(answer, status=200, body=stored.content)

    patch.setattr(api, "_content", whole)


def batch_ends_at_a_failure(patch: Patch) -> None:
    real = batch.answer

    def impatient(headers: Any, body: bytes, act: Callable[..., Any]) -> Any:
        failed: list[Any] = []

        def act_until_failure(*given: Any) -> Any:
            if not failed:
                answer = act(*given)
                failed.extend([answer] if answer.status >= 400 else [])
                return answer
            return failed[0]

        return real(headers, body, act_until_failure)

    patch.setattr(batch, "answer", impatient)


def missing_bucket_is_empty(patch: Patch) -> None:
    patch.setattr(Store, "bucket", lambda self, name: self.buckets.setdefault(name, {}))


def deleted_object_can_be_read(patch: Patch) -> None:
    patch.setattr(Store, "delete", lambda self, bucket, name, generation, conditions: None)


def missing_object_is_deleted(patch: Patch) -> None:
    real = Store.delete

    def tolerant(self: Store, *given: Any) -> None:
        with contextlib.suppress(Refusal):
            real(self, *given)

    patch.setattr(Store, "delete", tolerant)


REFUSES, HOLDS = (
    contract.test_condition_that_does_not_hold_refuses,
    contract.test_condition_that_holds_changes_nothing_else,
)
# The case that catches each, and its parameters.
CAUGHT_BY: list[tuple[Callable[[Patch], None], Callable[..., None], dict[str, Any]]] = [
    (upload_ignores_conditions, contract.test_create_if_absent_creates_once_and_never_replaces, {"upload": "in one"}),
    (upload_ignores_conditions, contract.test_replacement_needs_the_generation_that_is_there, {"upload": "in chunks"}),
    (upload_ignores_conditions, contract.test_bare_content_obeys_preconditions, {}),
    (upload_ignores_conditions, contract.test_one_of_eight_that_create_at_once_wins, {}),
    (read_ignores_conditions, REFUSES, {"operation": "metadata", "condition": "if_generation_match"}),
    (read_ignores_conditions, REFUSES, {"operation": "download", "condition": "if_metageneration_match"}),
    (delete_ignores_conditions, REFUSES, {"operation": "delete", "condition": "if_generation_match"}),
    (patch_ignores_conditions, REFUSES, {"operation": "patch", "condition": "if_metageneration_match"}),
    (copy_ignores_conditions, REFUSES, {"operation": "rewrite", "condition": "if_generation_match"}),
    (copy_ignores_conditions, REFUSES, {"operation": "copy from", "condition": "if_generation_match"}),
    (copy_ignores_conditions, contract.test_what_is_made_of_others_is_made_once_if_absent, {"operation": "copy"}),
    (compose_ignores_conditions, REFUSES, {"operation": "compose", "condition": "if_generation_match"}),
    (compose_ignores_conditions_of_sources, contract.test_compose_needs_the_generations_of_its_sources, {}),
    (zero_means_no_condition, contract.test_create_if_absent_creates_once_and_never_replaces, {"upload": "in chunks"}),
    (
        conditions_hold_where_there_is_nothing,
        contract.test_replacement_of_what_is_not_there_is_refused,
        {"upload": "in one"},
    ),
    (
        conditions_hold_where_there_is_nothing,
        contract.test_upload_that_needs_some_object_is_refused_where_there_is_none,
        {"upload": "in one"},
    ),
    (metageneration_is_not_compared, REFUSES, {"operation": "upload in one", "condition": "if_metageneration_match"}),
    (excluded_generations_are_not_compared, REFUSES, {"operation": "delete", "condition": "if_generation_not_match"}),
    (
        read_that_would_give_nothing_new_is_refused,
        REFUSES,
        {"operation": "download", "condition": "if_generation_not_match"},
    ),
    (
        resumable_upload_checks_conditions_at_the_beginning_alone,
        contract.test_resumable_upload_is_refused_if_the_object_comes_to_be_in_between,
        {},
    ),
    (creation_is_not_atomic, contract.test_one_of_eight_that_create_at_once_wins, {}),
    (generation_begins_anew_after_deletion, contract.test_generations_grow_over_all_names_and_deletions, {}),
    (old_generation_is_read_as_the_live_one, contract.test_generation_that_was_replaced_is_not_there, {}),
    (patch_makes_a_new_generation, contract.test_patch_changes_metageneration_and_nothing_else, {}),
    (checksum_is_not_compared, contract.test_damage_on_the_way_is_refused_in_one, {}),
    (checksum_of_md5_is_not_compared, contract.test_md5_is_compared_as_well, {}),
    (checksum_of_chunks_is_not_compared, contract.test_damage_on_the_way_is_refused_in_chunks, {}),
    (listing_ends_after_a_page, contract.test_listing_is_in_order_and_complete_over_pages, {}),
    (page_has_more_than_was_asked, contract.test_listing_is_in_order_and_complete_over_pages, {}),
    (listing_begins_anew_after_what_is_a_prefix, contract.test_listing_below_a_delimiter, {}),
    (listing_has_all_fields, contract.test_listing_of_some_fields, {}),
    (range_is_not_cut, contract.test_part_of_an_object, {"start": 4, "end": 8, "expected": b"first"}),
    (batch_ends_at_a_failure, contract.test_batch_tells_what_failed, {}),
    (missing_bucket_is_empty, contract.test_bucket_that_is_not_there, {}),
    (deleted_object_can_be_read, contract.test_what_is_deleted_is_gone, {}),
    (missing_object_is_deleted, contract.test_conditional_delete_of_what_is_not_there_is_not_found, {}),
]


# What random requests catch as well.
CAUGHT_AT_RANDOM = [
    delete_ignores_conditions,
    zero_means_no_condition,
    generation_begins_anew_after_deletion,
    listing_ends_after_a_page,
]


def passes(case: Callable[..., None], parameters: dict[str, Any]) -> bool:
    """Whether a case finds nothing wrong with the server; a server that breaks is an error."""
    with serving() as server, contract.place_on(server) as place:
        try:
            case(place, **parameters)
        except (AssertionError, pytest.fail.Exception, GoogleAPICallError, DataCorruption):
            return False
        return True


@pytest.mark.parametrize(
    ("mutant", "case", "parameters"),
    CAUGHT_BY,
    ids=[f"{mutant.__name__}-{case.__name__}" for mutant, case, _ in CAUGHT_BY],
)
def test_mutant_is_caught(
    monkeypatch: Patch, mutant: Callable[[Patch], None], case: Callable[..., None], parameters: dict[str, Any]
) -> None:
    assert passes(case, parameters)
    mutant(monkeypatch)
    assert not passes(case, parameters)


@pytest.mark.parametrize("mutant", CAUGHT_AT_RANDOM)
def test_mutant_differs_from_the_model(monkeypatch: Patch, mutant: Callable[[Patch], None]) -> None:
    mutant(monkeypatch)
    unshrunk = settings(BucketAndDict.TestCase.settings, phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(BucketAndDict, settings=unshrunk)
