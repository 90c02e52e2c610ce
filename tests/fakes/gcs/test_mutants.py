"""Bucket servers with one defect each: a case of the contract suite catches it."""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError

from tests.contracts import test_gcs as contract
from tests.fakes.gcs import store, uploads
from tests.fakes.gcs.server import serving
from tests.fakes.gcs.store import Store, Stored

Patch = pytest.MonkeyPatch
UPLOAD_IN_ONE, UPLOAD_IN_CHUNKS = {"upload": "in one"}, {"upload": "in chunks"}


def preconditions_are_ignored(patch: Patch) -> None:
    patch.setattr(store, "require_generation", lambda expected, live: None)


def zero_means_no_precondition(patch: Patch) -> None:
    real = store.require_generation
    patch.setattr(store, "require_generation", lambda expected, live: real(expected or None, live))


def preconditions_hold_where_there_is_nothing(patch: Patch) -> None:
    real = store.require_generation
    patch.setattr(store, "require_generation", lambda expected, live: real(expected, live) if live else None)


def resumable_upload_checks_its_precondition_at_the_beginning_alone(patch: Patch) -> None:
    real = uploads.Session.receive

    def careless(self: uploads.Session, *given: Any) -> Stored | None:
        self.expected = None
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


def checksums_are_not_compared(patch: Patch) -> None:
    real = Store._made
    patch.setattr(Store, "_made", lambda self, content, properties, checksums: real(self, content, properties, ()))


# The case that catches each, and its parameters.
CAUGHT_BY: list[tuple[Callable[[Patch], None], Callable[..., None], dict[str, Any]]] = [
    (
        preconditions_are_ignored,
        contract.test_replacement_needs_the_generation_that_is_there,
        UPLOAD_IN_CHUNKS,
    ),
    (preconditions_are_ignored, contract.test_delete_needs_the_generation_that_is_there, {}),
    (zero_means_no_precondition, contract.test_create_if_absent_creates_once_and_never_replaces, UPLOAD_IN_ONE),
    (
        preconditions_hold_where_there_is_nothing,
        contract.test_replacement_of_what_is_not_there_is_refused,
        UPLOAD_IN_ONE,
    ),
    (
        resumable_upload_checks_its_precondition_at_the_beginning_alone,
        contract.test_resumable_upload_is_refused_if_the_object_comes_to_be_in_between,
        {},
    ),
    (creation_is_not_atomic, contract.test_one_of_eight_that_create_at_once_wins, {}),
    (generation_begins_anew_after_deletion, contract.test_generations_grow_over_all_names_and_deletions, {}),
    (checksums_are_not_compared, contract.test_damage_on_the_way_is_refused_in_chunks, {}),
]


def passes(case: Callable[..., None], parameters: dict[str, Any]) -> bool:
    """Return whether a case finds no defect in the server; a crashing server is an error."""
    with serving() as server, contract.place_on(server) as place:
        try:
            case(place, **parameters)
        except (AssertionError, pytest.fail.Exception, GoogleAPICallError):
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
